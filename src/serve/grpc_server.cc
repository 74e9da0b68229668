// The Open Inference Protocol over gRPC, on the asynchronous API with one completion queue per thread.
//
// Every open call is an object that is its own tag: gRPC returns the pointer when something has happened to it. The
// object posts its successor as soon as a client uses it, and deletes itself when gRPC holds no tag of it any more. So
// each object has exactly one operation outstanding, either with gRPC or with the world, and needs no lock:
//
//   posted -> request read -> Inbox::post() -> on_answered() on the thread of the world -> Finish() -> deleted
//
// Answers are written on the thread of the world, which alone finishes a call that it holds. In a build without gRPC
// the functions exist and report that.

#include "serve/grpc_server.h"

#ifndef TANGRAM_WITH_GRPC

namespace tangram::serve {

bool has_grpc() { return false; }

Result<std::unique_ptr<GrpcServer>> make_grpc_server(const GrpcConfig&, Gateway&, LiveWorld&) {
  return Error{ErrorCode::unavailable, "this program was built without gRPC"};
}

std::optional<CallProblem> try_grpc_message(std::string_view, const Gateway&, const std::function<void(Call&)>&) {
  return CallProblem{CallStatus::unsupported, "this program was built without gRPC"};
}

}  // namespace tangram::serve

#else

#include <fmt/format.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "host/mutex.h"
#include "inference.grpc.pb.h"
#include "serve/frontdoor.h"
#include "serve/grpc_caller.h"
#include "serve/grpc_codec.h"
#include "serve/grpc_credentials.h"
#include "serve/grpc_health.h"
#include "serve/grpc_tag.h"

namespace tangram::serve {
namespace {

using GrpcService = inference::GRPCInferenceService::AsyncService;

// Infer calls that each thread keeps posted. gRPC accepts a request only while a call of its method is posted, so this
// many can arrive together without waiting for the thread to post more.
constexpr int kInferWaiting = 64;
// Events that one thread handles before it wakes the world for the calls that they posted. Bounds how long the first of
// these calls waits for the last.
constexpr int kTogether = 32;

// The calls of inference. Their memory is kept until the server ends: a message that the caller of a call has gone may
// reach the world after the call was answered.
class CallPool {
 public:
  Call* take() EXCLUDES(mutex_) {
    const host::MutexLock lock(mutex_);
    if (free_.empty()) return all_.emplace_back(std::make_unique<Call>()).get();
    Call* call = free_.back();
    free_.pop_back();
    return call;
  }
  void give_back(Call* call) EXCLUDES(mutex_) {
    call->clear();
    const host::MutexLock lock(mutex_);
    free_.push_back(call);
  }

 private:
  host::Mutex mutex_;
  std::vector<std::unique_ptr<Call>> all_ GUARDED_BY(mutex_);
  std::vector<Call*> free_ GUARDED_BY(mutex_);
};

// What all calls share. Lives longer than any of them.
struct Shared {
  Shared(Gateway& g, LiveWorld& w, const host::LiveClock& c) : gateway(g), world(w), clock(c), frontdoor(g, clock) {}

  Gateway& gateway;
  LiveWorld& world;
  GrpcService service;
  host::LiveClock clock;
  Frontdoor frontdoor;
  CallPool calls;
};

// Says after how long the client may retry. gRPC clients with a retry policy obey this trailing field by themselves
// (gRFC A6).
void tell_retry(grpc::ServerContext& context, Duration after) {
  if (after <= Duration::zero()) return;
  context.AddTrailingMetadata("grpc-retry-pushback-ms", fmt::format("{:.0f}", std::ceil(to_milliseconds(after))));
}

// One call of a method with one request and one response. It posts its successor when a request arrives, and deletes
// itself when gRPC reports that the response was sent.
template <typename Request, typename Response>
class Unary : public GrpcTag {
 public:
  using Post = void (GrpcService::*)(grpc::ServerContext*, Request*, grpc::ServerAsyncResponseWriter<Response>*,
                                     grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*);

  // Waits for a request from now on. The queue has one thread, which is this one or is not running yet, so no event
  // arrives before the derived class is constructed.
  // `done` gets an event when a call that has begun is over, by its answer or because the client has gone; null: nobody
  // asks.
  Unary(Shared& s, grpc::ServerCompletionQueue* queue, Post post, GrpcTag* done = nullptr)
      : shared(s), queue_(queue), post_(post), writer_(&context) {
    if (done != nullptr) context.AsyncNotifyWhenDone(done);
    (shared.service.*post_)(&context, &request, &writer_, queue_, queue_, static_cast<GrpcTag*>(this));
  }

  void on_event(bool ok) override {
    // finished_: the response was sent. Not ok: the server shuts down and no request will arrive.
    if (finished_ || !ok) return over(finished_);
    // Post the successor first: begin() can take long, and other clients can be accepted meanwhile.
    post_next(queue_, post_);
    if (begin()) finish();
  }

  // Sets the status that finish() sends instead of the response. Returns true, so that begin() can `return fail(...)`.
  bool fail(CallStatus code, const std::string& message) {
    status = grpc::Status(code_of(code), message);
    return true;
  }

  Shared& shared;
  grpc::ServerContext context;
  Request request;
  Response response;
  grpc::Status status;

 protected:
  // Sends the response, or the status that fail() has set. Nothing may touch the object afterwards: another thread can
  // delete it as soon as the operation is with gRPC.
  void finish() {
    finished_ = true;
    if (status.ok()) {
      writer_.Finish(response, status, static_cast<GrpcTag*>(this));
    } else {
      writer_.FinishWithError(status, static_cast<GrpcTag*>(this));
    }
  }

 private:
  // gRPC is through with this object; `began`: it had a client. Deletes it, now or later.
  virtual void over(bool /*began*/) { delete this; }
  // Waits for the next call of the same method.
  virtual void post_next(grpc::ServerCompletionQueue* queue, Post post) = 0;
  // Answers at once (true), or posts a call to the world and calls finish() when that is answered.
  virtual bool begin() = 0;

  grpc::ServerCompletionQueue* queue_;
  Post post_;
  grpc::ServerAsyncResponseWriter<Response> writer_;
  bool finished_ = false;
};

// Inference.
class Infer final : public Unary<inference::ModelInferRequest, inference::ModelInferResponse>, public CallOwner {
  // The tag of the second end.
  struct Done final : GrpcTag {
    void on_event(bool) override {
      happened = true;
      infer->on_done();
    }
    Infer* infer = nullptr;
    bool happened = false;
  };

 public:
  Infer(Shared& s, grpc::ServerCompletionQueue* queue) : Infer(s, queue, std::make_unique<Done>()) {}
  ~Infer() override { shared.calls.give_back(&call_); }

  // On the thread of the world. Serializes here rather than on the thread of the queue, which saves a thread switch.
  void on_answered(Call*) override {
    Frontdoor::leave(call_);
    if (call_.status == CallStatus::ok) {
      write_grpc_response(call_, response);
    } else {
      tell_retry(context, call_.retry_after);
      fail(call_.status, call_.error);
    }
    finish();
  }

 private:
  void post_next(grpc::ServerCompletionQueue* queue, Post) override { new Infer(shared, queue); }
  bool begin() override {
    if (const auto refused = why_refused(shared.frontdoor, shared.gateway, context, request, call_)) {
      tell_retry(context, refused->retry_after);
      return fail(refused->status, refused->message);
    }
    if (!call_.traceparent.empty()) context.AddInitialMetadata("traceparent", call_.traceparent);
    if (done_->happened) return fail(CallStatus::abandoned, "the caller has gone");
    // Does not wake the world: run() does, once for all events that it handles together.
    posted_ = true;
    shared.world.inbox().post(&call_, false);
    return false;
  }
  // The call has ended for the client, answered or not.
  void on_done() {
    if (over_) {
      delete this;
    } else if (posted_ && context.IsCancelled()) {
      shared.world.inbox().abandon(&call_, false);
    }
  }
  // A call that has begun has two ends, in any order: its answer is through, and on_done().
  void over(bool began) override {
    over_ = true;
    if (!began || done_->happened) delete this;
  }

  Infer(Shared& s, grpc::ServerCompletionQueue* queue, std::unique_ptr<Done> done)
      : Unary(s, queue, &GrpcService::RequestModelInfer, done.get()), call_(*s.calls.take()), done_(std::move(done)) {
    done_->infer = this;
    call_.owner = this;
  }

  Call& call_;
  std::unique_ptr<Done> done_;
  bool posted_ = false;  // The world has the call, or had it.
  bool over_ = false;
};

// Every other method: answered at once, or by a control call where the answer needs the state of the world.
template <typename Request, typename Response>
class Question final : public Unary<Request, Response>, public ControlOwner {
 public:
  using Base = Unary<Request, Response>;
  // Answers at once (true), or asks the world.
  using Begin = bool (*)(Question& rpc);

  Question(Shared& s, grpc::ServerCompletionQueue* queue, typename Base::Post post, Begin how)
      : Base(s, queue, post), begin_(how) {
    call_.owner = this;
  }

  // On the world's thread.
  void on_controlled(ControlCall*) override { this->finish(); }

  // Returns false if the caller may not ask this. The call has failed then.
  bool allowed(AccessNeed need, const ServedModel* model = nullptr) {
    Caller caller;
    const auto denial = why_denied(this->shared.frontdoor, this->context, need, model, caller);
    if (denial) this->fail(denial->status, denial->message);
    return !denial;
  }
  // Posts the work, which fills in the response on the thread of the world. Returns false, as begin() does then.
  bool ask(ControlWork work) {
    call_.work = std::move(work);
    this->shared.world.inbox().post(&call_, false);
    return false;
  }

 private:
  void post_next(grpc::ServerCompletionQueue* queue, typename Base::Post post) override {
    new Question(this->shared, queue, post, begin_);
  }
  bool begin() override { return begin_(*this); }

  Begin begin_;
  ControlCall call_;
};

// A stream of requests that are answered one at a time: the next request is read after the response to the one before
// was written. This keeps the order of the answers and bounds the memory of a stream to one request; a client that
// wants concurrency opens several streams.
class StreamInfer final : public GrpcTag, public CallOwner {
 public:
  StreamInfer(Shared& shared, grpc::ServerCompletionQueue* queue) : shared_(shared), queue_(queue), stream_(&context_) {
    call_.owner = this;
    shared_.service.RequestModelStreamInfer(&context_, &stream_, queue_, queue_, static_cast<GrpcTag*>(this));
  }

  // Only one operation is outstanding at a time, so the step tells which one has completed.
  void on_event(bool ok) override {
    switch (step_) {
      case Step::waiting:
        if (!ok) return destroy();
        new StreamInfer(shared_, queue_);
        return begin();
      case Step::reading:
        if (!ok) return end();  // The client has said everything.
        return answer();
      case Step::writing:
        // Not ok: the client is gone. The stream still has to be finished before it can be deleted.
        if (!ok) return end();
        return read();
      case Step::ending: return destroy();
    }
  }

  // An error answers its request only. The stream stays open, and the id tells the client which request failed.
  void on_answered(Call*) override {
    Frontdoor::leave(call_);
    if (call_.status == CallStatus::ok) {
      write_grpc_response(call_, *response_.mutable_infer_response());
    } else {
      response_.set_error_message(call_.error);
      response_.mutable_infer_response()->set_id(call_.id);
    }
    write();
  }

 private:
  enum class Step : std::uint8_t { waiting, reading, writing, ending };

  // Checks the caller before anything is read. The model is not known yet: each request names its own.
  void begin() {
    Caller caller;
    const auto denial = why_denied(shared_.frontdoor, context_, AccessNeed::client, nullptr, caller);
    if (!denial) return read();
    shared_.gateway.tell_of_refused({refusal_of(*denial), http_status(denial->status), denial->message, nullptr});
    end(grpc::Status(code_of(denial->status), denial->message));
  }
  void read() {
    step_ = Step::reading;
    request_.Clear();
    stream_.Read(&request_, static_cast<GrpcTag*>(this));
  }
  void answer() {
    response_.Clear();
    call_.clear();
    step_ = Step::writing;
    // The caller is checked for each message: a key that is revoked while the stream is open must stop working.
    if (const auto refused = why_refused(shared_.frontdoor, shared_.gateway, context_, request_, call_)) {
      if (refused->status != CallStatus::unauthenticated) return write_problem(refused->message);
      return end(grpc::Status(code_of(refused->status), refused->message));
    }
    shared_.world.inbox().post(&call_, false);
  }
  void write_problem(const std::string& message) {
    response_.set_error_message(message);
    response_.mutable_infer_response()->set_id(request_.id());
    write();
  }
  void write() { stream_.Write(response_, static_cast<GrpcTag*>(this)); }
  void end(const grpc::Status& status = grpc::Status::OK) {
    step_ = Step::ending;
    stream_.Finish(status, static_cast<GrpcTag*>(this));
  }
  void destroy() { delete this; }

  Shared& shared_;
  grpc::ServerCompletionQueue* queue_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<inference::ModelStreamInferResponse, inference::ModelInferRequest> stream_;
  inference::ModelInferRequest request_;
  inference::ModelStreamInferResponse response_;
  Call call_;
  Step step_ = Step::waiting;
};

using Live = Question<inference::ServerLiveRequest, inference::ServerLiveResponse>;
using Ready = Question<inference::ServerReadyRequest, inference::ServerReadyResponse>;
using ModelReady = Question<inference::ModelReadyRequest, inference::ModelReadyResponse>;
using Metadata = Question<inference::ServerMetadataRequest, inference::ServerMetadataResponse>;
using ModelMetadata = Question<inference::ModelMetadataRequest, inference::ModelMetadataResponse>;
using ConfigCall = Question<inference::ModelConfigRequest, inference::ModelConfigResponse>;
using Statistics = Question<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>;
using Index = Question<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>;
using Load = Question<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>;
using Unload = Question<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>;

bool begin_live(Live& rpc) {
  rpc.response.set_live(true);
  return true;
}

bool begin_ready(Ready& rpc) {
  rpc.response.set_ready(rpc.shared.gateway.ready());
  return true;
}

// An unknown model is not an error here: the response says that it is not ready.
bool begin_model_ready(ModelReady& rpc) {
  const ServedModel* model = rpc.shared.gateway.find_model(rpc.request.name());
  if (!rpc.allowed(AccessNeed::client, model)) return true;
  if (model == nullptr) return true;
  return rpc.ask([&rpc, model](LiveWorld& world, ControlCall&) {
    rpc.response.set_ready(world.why_not_ready(model->service).empty() && !rpc.shared.gateway.draining());
  });
}

bool begin_metadata(Metadata& rpc) {
  if (!rpc.allowed(AccessNeed::client)) return true;
  rpc.response.set_name("tangram");
  rpc.response.set_version(rpc.shared.gateway.version());
  for (const auto& name : kExtensionNames) rpc.response.add_extensions(std::string(name));
  return true;
}

bool begin_model_metadata(ModelMetadata& rpc) {
  const ServedModel* model = rpc.shared.gateway.find_model(rpc.request.name());
  if (!rpc.allowed(AccessNeed::client, model)) return true;
  if (model == nullptr) return rpc.fail(CallStatus::not_found, unknown_model(rpc.request.name()).message);
  write_metadata(*model, rpc.response);
  return true;
}

bool begin_model_config(ConfigCall& rpc) {
  const ServedModel* model = rpc.shared.gateway.find_model(rpc.request.name());
  if (!rpc.allowed(AccessNeed::client, model)) return true;
  if (model == nullptr) return rpc.fail(CallStatus::not_found, unknown_model(rpc.request.name()).message);
  write_config(*model, *rpc.response.mutable_config());
  return true;
}

// Without a name the request is about all models, so the caller must be allowed to use all of them.
bool begin_statistics(Statistics& rpc) {
  const std::string& name = rpc.request.name();
  const ServedModel* only = rpc.shared.gateway.find_model(name);
  if (!rpc.allowed(name.empty() ? AccessNeed::every_model : AccessNeed::client, only)) return true;
  if (!name.empty() && only == nullptr) return rpc.fail(CallStatus::not_found, unknown_model(name).message);
  return rpc.ask([&rpc, only](LiveWorld& world, ControlCall&) {
    // Models, services and their counters have the same index.
    for (std::size_t i = 0; i < world.models().size(); ++i) {
      if (world.models()[i].removed != 0 || (only != nullptr && only != &world.models()[i])) continue;
      write_statistics(world.models()[i], world.ledger().services()[i], *rpc.response.add_model_stats());
    }
  });
}

bool begin_index(Index& rpc) {
  if (!rpc.allowed(AccessNeed::every_model)) return true;
  return rpc.ask([&rpc](LiveWorld& world, ControlCall&) {
    for (const auto& model : world.models()) {
      const std::string why_not = world.why_not_ready(model.service);
      if (model.removed != 0 || (rpc.request.ready() && !why_not.empty())) continue;
      auto* entry = rpc.response.add_models();
      entry->set_name(model.name);
      entry->set_version(std::string(kModelVersion));
      entry->set_state(why_not.empty() ? "READY" : "UNAVAILABLE");
      entry->set_reason(why_not);
    }
  });
}

template <typename Rpc, bool load>
bool begin_loading(Rpc& rpc) {
  if (!rpc.allowed(AccessNeed::admin)) return true;
  const ServedModel* model = rpc.shared.gateway.find_model(rpc.request.model_name());
  if (model == nullptr) return rpc.fail(CallStatus::invalid, "no such service in the services file");
  return rpc.ask([model](LiveWorld& world, ControlCall&) { world.set_loaded(model->service, load); });
}

// Owns the gRPC server, its completion queues and their threads. Calls own themselves.
class GrpcServerImpl final : public GrpcServer {
 public:
  GrpcServerImpl(Gateway& gateway, LiveWorld& world, const host::LiveClock& clock) : shared_(gateway, world, clock) {}

  Result<Nothing> start(const GrpcConfig& config) {
    // gRPC writes a line of its own to standard error for each handshake that fails, so any stranger could fill the
    // log, which holds lines of JSON. What matters comes back as a status.
    gpr_set_log_function([](gpr_log_func_args*) {});
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    const bool v6 = config.address.find(':') != std::string::npos;
    int bound = 0;
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (config.tls) credentials = credentials_ = std::make_shared<ReplaceableCredentials>(*config.tls);
    builder.AddListeningPort(fmt::format("{}{}{}:{}", v6 ? "[" : "", config.address, v6 ? "]" : "", config.port),
                             credentials, &bound);
    set_limits(config, builder);
    builder.RegisterService(&shared_.service);
    builder.RegisterService(health_.service());
    for (int i = 0; i < config.threads; ++i) queues_.push_back(builder.AddCompletionQueue());
    server_ = builder.BuildAndStart();
    // A queue must be shut down and drained before it is destroyed, even if the server never started.
    if (server_ == nullptr || bound == 0) {
      for (auto& queue : queues_) drain_queue(*queue);
      queues_.clear();
      return Error{ErrorCode::unavailable,
                   fmt::format("cannot listen at {} port {} for gRPC", config.address, config.port)};
    }
    port_ = static_cast<std::uint16_t>(bound);
    // Calls are posted before the thread of their queue runs: see the constructor of Unary.
    for (auto& queue : queues_) {
      post_all(queue.get());
      health_.post(queue.get());
      threads_.emplace_back([this, q = queue.get()] { run(*q); });
    }
    return Nothing{};
  }

  // gRPC requires that a server is shut down before its completion queues. Threads end when their queue is shut down
  // and empty, so every tag has been returned when they are joined.
  ~GrpcServerImpl() override {
    if (!server_) return;
    if (!draining_.joinable()) server_->Shutdown(std::chrono::system_clock::now());
    if (draining_.joinable()) draining_.join();
    for (auto& queue : queues_) queue->Shutdown();
    for (auto& thread : threads_) thread.join();
  }

  std::uint16_t port() const override { return port_; }
  void set_serving(bool serving) override { health_.set_serving(serving); }

  void set_tls(const host::TlsMaterial& material) override {
    if (credentials_) credentials_->replace(material);
  }

  // Shutdown() blocks until the deadline, and the world must answer the calls meanwhile: so it runs on a thread of its
  // own.
  void drain(Duration grace) override {
    health_.end();
    const auto deadline =
        std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::milliseconds>(grace);
    draining_ = std::thread([this, deadline] { server_->Shutdown(deadline); });
  }

 private:
  using Queue = grpc::ServerCompletionQueue;
  // Keepalive pings detect clients that are gone; a connection without calls is closed after `idle`, and the client's
  // library reconnects when it needs to. The number of connections cannot be limited: this version of gRPC has no such
  // argument, and its external acceptors (ExternalConnectionAcceptor) are not told when a connection ends.
  static void set_limits(const GrpcConfig& config, grpc::ServerBuilder& builder) {
    const auto milliseconds = [](Duration d) { return static_cast<int>(d / std::chrono::milliseconds(1)); };
    // With port reuse, a second server on the same port would start and share its connections.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, config.streams_max);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                               static_cast<int>(std::min<std::uint64_t>(config.head_max, INT32_MAX)));
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, milliseconds(config.grace));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, milliseconds(config.idle));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
    builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<std::uint64_t>(config.message_max, INT32_MAX)));
    builder.SetMaxSendMessageSize(INT32_MAX);
    grpc::ResourceQuota quota("tangram");
    quota.Resize(static_cast<std::size_t>(config.memory_max));
    builder.SetResourceQuota(quota);
  }

  // Posts the first calls of every method. Only inference keeps several posted.
  void post_all(grpc::ServerCompletionQueue* queue) {
    for (int i = 0; i < kInferWaiting; ++i) {
      new Infer(shared_, queue);
    }
    new StreamInfer(shared_, queue);
    new Live(shared_, queue, &GrpcService::RequestServerLive, begin_live);
    new Ready(shared_, queue, &GrpcService::RequestServerReady, begin_ready);
    new ModelReady(shared_, queue, &GrpcService::RequestModelReady, begin_model_ready);
    new Metadata(shared_, queue, &GrpcService::RequestServerMetadata, begin_metadata);
    new ModelMetadata(shared_, queue, &GrpcService::RequestModelMetadata, begin_model_metadata);
    new ConfigCall(shared_, queue, &GrpcService::RequestModelConfig, begin_model_config);
    new Statistics(shared_, queue, &GrpcService::RequestModelStatistics, begin_statistics);
    new Index(shared_, queue, &GrpcService::RequestRepositoryIndex, begin_index);
    new Load(shared_, queue, &GrpcService::RequestRepositoryModelLoad, begin_loading<Load, true>);
    new Unload(shared_, queue, &GrpcService::RequestRepositoryModelUnload, begin_loading<Unload, false>);
  }

  // The body of a thread. Handles the events that are already there together and then wakes the world once: a wake-up
  // is a system call and can cost more than the call itself.
  void run(grpc::ServerCompletionQueue& queue) {
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
      static_cast<GrpcTag*>(tag)->on_event(ok);
      const auto at_once = gpr_inf_past(GPR_CLOCK_MONOTONIC);
      for (int i = 1; i < kTogether && queue.AsyncNext(&tag, &ok, at_once) == Queue::GOT_EVENT; ++i) {
        static_cast<GrpcTag*>(tag)->on_event(ok);
      }
      shared_.world.inbox().wake_for_posted();
    }
  }

  // Discards the events of a queue whose server did not start.
  static void drain_queue(grpc::ServerCompletionQueue& queue) {
    queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
    }
  }

  Shared shared_;
  HealthService health_{"inference.GRPCInferenceService"};
  std::shared_ptr<ReplaceableCredentials> credentials_;  // Null: plain.
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;
  std::thread draining_;
  std::uint16_t port_ = 0;
};

}  // namespace

bool has_grpc() { return true; }

Result<std::unique_ptr<GrpcServer>> make_grpc_server(const GrpcConfig& config, Gateway& gateway, LiveWorld& world) {
  auto server = std::make_unique<GrpcServerImpl>(gateway, world, config.clock);
  TANGRAM_RETURN_IF_ERROR(server->start(config));
  return std::unique_ptr<GrpcServer>(std::move(server));
}

}  // namespace tangram::serve

#endif
