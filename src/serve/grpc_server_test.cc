#include "serve/grpc_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#ifdef TANGRAM_WITH_GRPC

#include "core/bytes_slot.h"
#include "serve/test_grpc.h"

namespace tangram::serve {
namespace {

class GrpcServerTest : public test::GrpcFixture {};

TEST_F(GrpcServerTest, TellsTheConfigurationOfAModel) {
  inference::ModelConfigRequest which;
  which.set_name("rank");
  inference::ModelConfigResponse response;
  grpc::ClientContext known, unknown;
  ASSERT_TRUE(stub_->ModelConfig(&known, which, &response).ok());
  const inference::ModelConfig& config = response.config();
  EXPECT_EQ(config.name(), "rank");
  EXPECT_EQ(config.max_batch_size(), models_[0].samples_max);
  ASSERT_EQ(config.input_size(), 2);
  EXPECT_EQ(config.input(0).data_type(), inference::TYPE_INT64);
  EXPECT_EQ(config.input(0).dims(0), -1);
  EXPECT_TRUE(config.has_dynamic_batching());
  which.set_name("nobody");
  EXPECT_EQ(stub_->ModelConfig(&unknown, which, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

// A deadline that no slice can keep, and one that is none, in the fields that HTTP has, too.
TEST_F(GrpcServerTest, ReadsOurOwnFieldsOfTheMetadata) {
  const auto with = [&](const char* name, const char* value, int times = 1) {
    grpc::ClientContext context;
    for (int i = 0; i < times; ++i) context.AddMetadata(name, value);
    inference::ModelInferResponse response;
    return stub_->ModelInfer(&context, request({1, 2, 3}, true), &response).error_code();
  };
  EXPECT_EQ(with("tangram-deadline-ms", "60000"), grpc::StatusCode::OK);
  EXPECT_EQ(with("tangram-deadline-ms", "0.001"), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(with("tangram-deadline-ms", "x"), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(with("tangram-deadline-ms", "60000", 2), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(with("tangram-background", "1"), grpc::StatusCode::OK);
}

TEST_F(GrpcServerTest, SaysWhatItIsAndWhatItServes) {
  inference::ServerMetadataResponse server;
  inference::ServerReadyResponse ready;
  inference::ModelMetadataResponse model;
  inference::ModelReadyResponse model_ready;
  inference::ModelMetadataRequest which;
  which.set_name("rank");
  inference::ModelReadyRequest which_ready;
  which_ready.set_name("rank");
  grpc::ClientContext c1, c2, c3, c4, c5;
  ASSERT_TRUE(stub_->ServerMetadata(&c1, {}, &server).ok());
  EXPECT_EQ(server.version(), "1.2.3");
  ASSERT_TRUE(stub_->ServerReady(&c2, {}, &ready).ok());
  EXPECT_TRUE(ready.ready());
  ASSERT_TRUE(stub_->ModelMetadata(&c3, which, &model).ok());
  ASSERT_EQ(model.inputs_size(), 2);
  EXPECT_EQ(model.inputs(0).datatype(), "INT64");
  EXPECT_EQ(model.outputs(1).shape_size(), 3);
  ASSERT_TRUE(stub_->ModelReady(&c4, which_ready, &model_ready).ok());
  EXPECT_TRUE(model_ready.ready());
  which.set_name("none");
  EXPECT_EQ(stub_->ModelMetadata(&c5, which, &model).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServerTest, AnswersTheSameForRawAndTypedTensors) {
  inference::ModelInferResponse raw;
  inference::ModelInferResponse typed;
  const auto first = infer(request({4, 5, 6}, true), &raw);
  ASSERT_TRUE(first.ok()) << first.error_message();
  ASSERT_TRUE(infer(request({4, 5, 6}, false), &typed).ok());
  EXPECT_EQ(raw.id(), "seven");
  ASSERT_EQ(raw.raw_output_contents_size(), 2);
  EXPECT_EQ(raw.raw_output_contents(0).size(), 12u);  // Three numbers of four bytes.
  EXPECT_EQ(raw.raw_output_contents(1).size(), 48u);  // Two rows of three numbers of eight.
  EXPECT_EQ(raw.raw_output_contents(1), typed.raw_output_contents(1));
  EXPECT_EQ(raw.outputs(1).shape(2), 3);
}

TEST_F(GrpcServerTest, SaysWhatIsWrongInGrpcsOwnCodes) {
  inference::ModelInferResponse response;
  auto unknown = request({1}, true);
  unknown.set_model_name("none");
  EXPECT_EQ(infer(unknown, &response).error_code(), grpc::StatusCode::NOT_FOUND);
  auto odd = request({1}, true);
  odd.mutable_inputs(0)->set_shape(1, 2);
  EXPECT_EQ(infer(odd, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  auto late = request({1}, true);
  (*late.mutable_parameters())["timeout"].set_int64_param(1);
  EXPECT_EQ(infer(late, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(infer(request(std::vector<std::int64_t>(200, 1), true), &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

// A number as text, a truth where a number is wanted, and nothing at all are told apart as over HTTP; what clients of
// Triton send is taken.
TEST_F(GrpcServerTest, SaysWhichParameterHasAnotherTypeThanItMust) {
  inference::ModelInferResponse response;
  const auto problem = [&](const char* name, const auto& set) {
    auto asked = request({1}, true);
    (*asked.mutable_parameters())["tangram_deadline_ms"].set_double_param(60000);
    set((*asked.mutable_parameters())[name]);
    const auto status = infer(asked, &response);
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  EXPECT_EQ(problem("timeout", [](auto& p) { p.set_string_param("100"); }),
            "parameter 'timeout': expected whole microseconds from 0, got \"100\"");
  EXPECT_EQ(problem("priority", [](auto& p) { p.set_bool_param(true); }),
            "parameter 'priority': expected a whole number from 0, got true");
  EXPECT_EQ(problem("priority", [](auto& p) { p.set_double_param(0.5); }),
            "parameter 'priority': expected a whole number from 0, got 0.5");
  EXPECT_EQ(problem("priority", [](auto&) {}), "parameter 'priority': expected a whole number from 0, got nothing");
  EXPECT_EQ(problem("priority", [](auto& p) { p.set_uint64_param(1); }), "");
  EXPECT_EQ(problem("timeout", [](auto& p) { p.set_int64_param(60'000'000); }), "");
  EXPECT_EQ(problem("mine", [](auto& p) { p.set_string_param("a"); }), "");
  EXPECT_EQ(problem("sequence_id", [](auto& p) { p.set_string_param("a"); }), "sequences are not supported");
}

TEST_F(GrpcServerTest, RefusesSharedMemoryOfTensorsAndAnswersClasses) {
  inference::ModelInferResponse response;
  auto shared = request({1}, true);
  (*shared.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("a");
  EXPECT_EQ(infer(shared, &response).error_message(), "shared memory is not supported");
  auto classes = request({1}, true);
  auto* output = classes.add_outputs();
  output->set_name("pooled");
  (*output->mutable_parameters())["classification"].set_int64_param(3);
  // The three classes of the one sample, each "VALUE:INDEX" behind its length.
  ASSERT_TRUE(infer(classes, &response).ok());
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.outputs(0).datatype(), "BYTES");
  EXPECT_EQ(response.outputs(0).shape(1), 3);
  EXPECT_THAT(response.raw_output_contents(0), testing::HasSubstr(":2"));
}

TEST_F(GrpcServerTest, AnswersAStreamInItsOrder) {
  grpc::ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  for (int i = 1; i <= 3; ++i) {
    auto r = request(std::vector<std::int64_t>(static_cast<std::size_t>(i), 1), true);
    r.set_id(std::to_string(i));
    if (i == 2) r.set_model_name("none");
    ASSERT_TRUE(stream->Write(r));
  }
  stream->WritesDone();
  inference::ModelStreamInferResponse response;
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.infer_response().id(), std::to_string(i));
    EXPECT_EQ(response.error_message().empty(), i != 2);
  }
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcServerTest, CountsAndListsAndUnloads) {
  inference::ModelInferResponse response;
  ASSERT_TRUE(infer(request({1}, true), &response).ok());
  grpc::ClientContext c1, c2, c3, c4;
  inference::ModelStatisticsResponse statistics;
  ASSERT_TRUE(stub_->ModelStatistics(&c1, {}, &statistics).ok());
  EXPECT_EQ(statistics.model_stats(0).inference_stats().success().count(), 1u);
  inference::RepositoryModelUnloadRequest unload;
  inference::RepositoryModelUnloadResponse unloaded;
  unload.set_model_name("rank");
  ASSERT_TRUE(stub_->RepositoryModelUnload(&c2, unload, &unloaded).ok());
  EXPECT_EQ(infer(request({1}, true), &response).error_code(), grpc::StatusCode::UNAVAILABLE);
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(stub_->RepositoryIndex(&c3, {}, &index).ok());
  EXPECT_EQ(index.models(0).state(), "UNAVAILABLE");
  inference::RepositoryModelLoadRequest load;
  inference::RepositoryModelLoadResponse loaded;
  load.set_model_name("rank");
  ASSERT_TRUE(stub_->RepositoryModelLoad(&c4, load, &loaded).ok());
  EXPECT_TRUE(infer(request({1}, true), &response).ok());
}

// The answer of grpc.health.v1.Health/Check is one field, `status` = 1: SERVING, or 2: NOT_SERVING, as it is until the
// server says that every slice is ready.
TEST_F(GrpcServerTest, AnswersTheUsualHealthCheck) {
  EXPECT_EQ(health(), std::string("\x08\x02", 2));
  set_serving(true);
  EXPECT_EQ(health(), std::string("\x08\x01", 2));
}

TEST_F(GrpcServerTest, KnowsTheHealthOfItsOwnServiceAlone) {
  EXPECT_EQ(health("inference.GRPCInferenceService"), std::string("\x08\x02", 2));
  EXPECT_EQ(health("somebody.Else"), "code 5");  // NOT_FOUND
}

// Told at once, at each change, and at the end: a watch does not hold a server that drains, however long its grace.
TEST_F(GrpcServerTest, TellsThoseThatWatchItsHealth) {
  using grpc::health::v1::HealthCheckResponse;
  const auto stub = grpc::health::v1::Health::NewStub(channel_);
  grpc::ClientContext context, other;
  grpc::health::v1::HealthCheckRequest question, unknown;
  unknown.set_service("somebody.Else");
  HealthCheckResponse told;
  const auto watch = stub->Watch(&context, question);
  ASSERT_TRUE(watch->Read(&told));
  EXPECT_EQ(told.status(), HealthCheckResponse::NOT_SERVING);
  set_serving(true);
  ASSERT_TRUE(watch->Read(&told));
  EXPECT_EQ(told.status(), HealthCheckResponse::SERVING);
  {
    const auto left = stub->Watch(&other, unknown);
    ASSERT_TRUE(left->Read(&told));
    EXPECT_EQ(told.status(), HealthCheckResponse::SERVICE_UNKNOWN);
    other.TryCancel();
  }
  drain();
  ASSERT_TRUE(watch->Read(&told));
  EXPECT_EQ(told.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&told));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// The bytes of ServerReflectionRequest: field 7 lists the services, field 4 asks for the file of a symbol.
TEST_F(GrpcServerTest, DescribesItsServicesByReflection) {
  EXPECT_THAT(reflection(std::string("\x3a\x00", 2)),
              testing::AllOf(testing::HasSubstr("inference.GRPCInferenceService"),
                             testing::HasSubstr("grpc.health.v1.Health")));
  EXPECT_THAT(reflection("\x22\x15grpc.health.v1.Health"), testing::HasSubstr("HealthCheckRequest"));
}

// Without a call the connection ends; the next call makes another.
TEST_F(GrpcServerTest, LetsConnectionsGoThatAskForNothing) {
  start({.idle = std::chrono::milliseconds(50)});
  const auto live = [&] {
    grpc::ClientContext context;
    inference::ServerLiveResponse response;
    return stub_->ServerLive(&context, {}, &response).ok();
  };
  const auto far_too_long = std::chrono::system_clock::now() + std::chrono::seconds(30);
  ASSERT_TRUE(live());
  EXPECT_TRUE(channel_->WaitForStateChange(GRPC_CHANNEL_READY, far_too_long));
  EXPECT_TRUE(live());
}

// Both versions of the service, and a symbol that is none of ours.
TEST_F(GrpcServerTest, DescribesItselfByBothVersionsOfReflection) {
  for (const char* version : {"v1alpha", "v1"}) {
    EXPECT_THAT(reflection(std::string("\x3a\x00", 2), version),
                testing::AllOf(testing::HasSubstr("inference.GRPCInferenceService"),
                               testing::HasSubstr("grpc.reflection.v1.ServerReflection"),
                               testing::HasSubstr("grpc.reflection.v1alpha.ServerReflection")));
    EXPECT_THAT(reflection("\x22\x1binference.ModelInferRequest", version), testing::HasSubstr("raw_input_contents"));
    EXPECT_THAT(reflection("\x22\x0fgoogle.protobuf", version), testing::HasSubstr("is not found"));
  }
}

// Packed both ways, with an answer that is large enough to be packed: 128 places make 2 kB.
TEST_F(GrpcServerTest, PacksAnswersToThosePackTheirQuestions) {
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_NONE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    inference::ModelInferResponse packed, plain;
    const auto asked = request(std::vector<std::int64_t>(100, 7), true);
    const auto status = stub_->ModelInfer(&context, asked, &packed);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_TRUE(infer(asked, &plain).ok());
    EXPECT_EQ(packed.raw_output_contents(1), plain.raw_output_contents(1));
    const auto encoding = context.GetServerInitialMetadata().find("grpc-encoding");
    EXPECT_EQ(encoding == context.GetServerInitialMetadata().end(), true);  // The library keeps it to itself.
  }
}

// Eighty requests before the first answer is read: more than may be in flight, so some wait, and none is lost.
TEST_F(GrpcServerTest, TakesManyRequestsOfAStreamBeforeTheFirstAnswer) {
  grpc::ClientContext context;
  auto stream = stub_->ModelStreamInfer(&context);
  for (int i = 0; i < 80; ++i) {
    auto asked = request({1, 2}, true);
    asked.set_id(std::to_string(i));
    ASSERT_TRUE(stream->Write(asked));
  }
  stream->WritesDone();
  inference::ModelStreamInferResponse response;
  for (int i = 0; i < 80; ++i) {
    ASSERT_TRUE(stream->Read(&response)) << i;
    EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(response.infer_response().id(), std::to_string(i));
    EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());
  }
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

// As Triton: with this field an error ends the stream with a status, instead of a message.
TEST_F(GrpcServerTest, EndsAStreamWithAStatusForThoseWhoWantThat) {
  grpc::ClientContext context;
  context.AddMetadata("triton_grpc_error", "true");
  auto stream = stub_->ModelStreamInfer(&context);
  auto unknown = request({1}, true);
  unknown.set_model_name("none");
  ASSERT_TRUE(stream->Write(unknown));
  inference::ModelStreamInferResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServerTest, KnowsOneVersionOfEachModel) {
  inference::ModelReadyRequest ready;
  ready.set_name("rank");
  ready.set_version("9");
  inference::ModelReadyResponse is_ready;
  inference::ModelMetadataRequest metadata;
  metadata.set_name("rank");
  metadata.set_version("9");
  inference::ModelMetadataResponse described;
  inference::ModelStatisticsRequest statistics;
  statistics.set_name("rank");
  statistics.set_version("9");
  inference::ModelStatisticsResponse counted;
  grpc::ClientContext c1, c2, c3, c4;
  ASSERT_TRUE(stub_->ModelReady(&c1, ready, &is_ready).ok());
  EXPECT_FALSE(is_ready.ready());
  EXPECT_EQ(stub_->ModelMetadata(&c2, metadata, &described).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(stub_->ModelStatistics(&c3, statistics, &counted).error_code(), grpc::StatusCode::NOT_FOUND);
  metadata.set_version("1");
  EXPECT_TRUE(stub_->ModelMetadata(&c4, metadata, &described).ok());
}

TEST_F(GrpcServerTest, ReadsAndChangesTheLevelOfTheLog) {
  inference::LogSettingsRequest change;
  (*change.mutable_settings())["log_verbose_level"].set_uint32_param(1);
  inference::LogSettingsResponse settings;
  grpc::ClientContext c1, c2, c3;
  ASSERT_TRUE(stub_->LogSettings(&c1, change, &settings).ok());
  EXPECT_EQ(settings.settings().at("level").string_param(), "requests");
  EXPECT_EQ(settings.settings().at("log_verbose_level").uint32_param(), 1u);
  EXPECT_TRUE(gateway_.log_requests());
  change.clear_settings();
  (*change.mutable_settings())["level"].set_string_param("loud");
  const auto refused = stub_->LogSettings(&c2, change, &settings);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), testing::HasSubstr("loud"));
  EXPECT_TRUE(stub_->LogSettings(&c3, {}, &settings).ok());
}

TEST_F(GrpcServerTest, RefusesToLoadWithFilesOfTheClient) {
  inference::RepositoryModelLoadRequest load;
  inference::RepositoryModelLoadResponse loaded;
  load.set_model_name("rank");
  (*load.mutable_parameters())["file:1/model.onnx"].set_bytes_param(std::string(200'000, 'x'));
  grpc::ClientContext context;
  const auto status = stub_->RepositoryModelLoad(&context, load, &loaded);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("file:1/model.onnx"));
}

// Methods that Triton has and this server has not are told apart from those that nobody has.
TEST_F(GrpcServerTest, RefusesByNameWhatItDoesNotSupport) {
  const auto status = [&](const std::string& method) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const auto call = stub.PrepareUnaryCall(&context, "/inference.GRPCInferenceService/" + method, {}, &queue);
    grpc::ByteBuffer answer;
    grpc::Status found;
    call->StartCall();
    call->Finish(&answer, &found, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    EXPECT_EQ(found.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    return found.error_message();
  };
  EXPECT_EQ(status("SystemSharedMemoryRegister"), "shared memory is not supported");
  EXPECT_EQ(status("CudaSharedMemoryStatus"), "shared memory is not supported");
  EXPECT_THAT(status("TraceSetting"), testing::HasSubstr("trace settings are not supported"));
  EXPECT_EQ(status("Nothing"), "unknown method /inference.GRPCInferenceService/Nothing");
}

// "ab" and "c" with their lengths before them, and the same as typed contents; the answer comes back the same way.
TEST(GrpcMessage, TakesBytesRawAndTyped) {
  std::vector<ServedModel> models(1);
  models[0].name = "label";
  models[0].signature = {{{"text", Datatype::bytes, {kVariableAxis}, 0, false}},
                         {{"label", Datatype::bytes, {kVariableAxis}, 0, false}}};
  const Gateway gateway(models, {});
  const std::string wire("\x02\0\0\0ab\x01\0\0\0c", 11);
  std::string slots;
  ASSERT_EQ(wire_to_slots(wire, slots), std::nullopt);
  inference::ModelInferRequest request;
  request.set_model_name("label");
  auto* input = request.add_inputs();
  input->set_name("text");
  input->set_datatype("BYTES");
  input->add_shape(1);
  input->add_shape(2);
  int accepted = 0;
  const auto check = [&](Call& call) {
    ++accepted;
    EXPECT_EQ(call.inputs[0].data, slots);
    call.answer = slots;
    call.answer_ends = {slots.size()};
  };
  request.add_raw_input_contents(wire);
  EXPECT_FALSE(try_grpc_message(request.SerializeAsString(), gateway, check));
  request.clear_raw_input_contents();
  for (const char* text : {"ab", "c"}) input->mutable_contents()->add_bytes_contents(text);
  EXPECT_FALSE(try_grpc_message(request.SerializeAsString(), gateway, check));
  EXPECT_EQ(accepted, 2);
  input->mutable_contents()->set_bytes_contents(1, std::string(1021, 'x'));
  EXPECT_EQ(try_grpc_message(request.SerializeAsString(), gateway, check)->message,
            "input 'text': an element is longer than 1020 bytes");
  EXPECT_EQ(try_grpc_message("\xff", gateway, check)->message, "not a message of the protocol");
}
}  // namespace
}  // namespace tangram::serve

#else

namespace tangram::serve {
namespace {

TEST(GrpcServer, SaysThatItWasLeftOut) { EXPECT_FALSE(has_grpc()); }

}  // namespace
}  // namespace tangram::serve

#endif
