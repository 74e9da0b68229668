#include "engines/onnx/onnx_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engines/example_models.h"
#include "engines/onnx/onnx_graph.h"
#include "engines/onnx/onnx_models.h"
#include "engines/onnx/protobuf.h"

namespace tangram::engines {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Protobuf, ReadsWhatItHasWritten) {
  ProtoWriter inner;
  inner.integer(1, -1);
  ProtoWriter writer;
  writer.integer(1, 300);
  writer.bytes(2, "abc");
  writer.real(3, 1.5F);
  writer.message(16, inner);
  ProtoReader reader(writer.text());
  EXPECT_EQ(reader.next()->value, 300u);
  EXPECT_EQ(reader.next()->bytes, "abc");
  EXPECT_EQ(reader.next()->number, 3);
  const auto last = reader.next();
  EXPECT_EQ(last->number, 16);
  EXPECT_EQ(static_cast<std::int64_t>(ProtoReader(last->bytes).next()->value), -1);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.damaged());
}

// 300 is the bytes 0xAC 0x02, behind the key 0x08 of field 1 (the example of the format's documentation, with 150).
TEST(Protobuf, WritesTheBytesOfTheFormat) {
  ProtoWriter writer;
  writer.integer(1, 150);
  writer.bytes(2, "testing");
  EXPECT_EQ(writer.text(), "\x08\x96\x01\x12\x07testing");
}

TEST(Protobuf, SaysThatATextIsDamaged) {
  for (const std::string_view text : {"\x08", "\x12\x07test", "\x0b", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    ProtoReader reader(text);
    while (reader.next()) {
    }
    EXPECT_TRUE(reader.damaged());
  }
}

TEST(OnnxFile, KnowsWhatTheExampleModelsTake) {
  for (const auto& model : example_models()) {
    if (model.name == "text-encoder-large") continue;  // Takes a second to draw.
    const auto file = parse_onnx(write_onnx_model(model, 1));
    ASSERT_TRUE(file);
    EXPECT_EQ(*signature_of(*file), signature_of(model)) << model.name;
  }
}

TEST(OnnxFile, LeavesConstantsOutOfTheInputs) {
  OnnxGraph graph;
  graph.input("x", ort::kFloat, {{.name = "batch"}, {.name = "width"}});
  graph.input("w", ort::kFloat, {{.length = 2}});
  graph.tensor("w", {2}, {1, 2});
  graph.output("y", ort::kFloat, {{.name = "batch"}, {.name = "height"}});
  graph.node_to("y", "Mul", {"x", "w"}, {});
  const auto file = *parse_onnx(graph.file("g"));
  ASSERT_EQ(file.inputs.size(), 1u);
  EXPECT_EQ(file.inputs[0].name, "x");
  EXPECT_THAT(variable_axes(file), ElementsAre("width", "height"));
}

TEST(OnnxFile, SaysWhatAModelMustBeExportedWith) {
  const auto error_of = [](ort::ElementType type, const std::vector<GraphAxis>& axes) {
    OnnxGraph graph;
    graph.input("x", type, axes);
    graph.output("y", ort::kFloat, {{.name = "batch"}});
    const auto signature = signature_of(*parse_onnx(graph.file("g")));
    return signature ? "" : signature.error().message;
  };
  EXPECT_EQ(error_of(ort::kFloat, {{.name = "batch"}, {.length = 3}}), "");
  EXPECT_THAT(error_of(ort::kFloat, {{.length = 1}, {.length = 3}}), HasSubstr("first axis is fixed at 1"));
  EXPECT_THAT(error_of(ort::kString, {{.name = "batch"}}), HasSubstr("put the tokenizer in front"));
  EXPECT_THAT(error_of(ort::kFloat, {}), HasSubstr("dynamic first axis"));
  EXPECT_THAT(error_of(ort::kFloat, {{.name = "batch"}, {.length = 3}, {.name = "width"}, {.name = "height"}}),
              HasSubstr("several of its axes vary"));
}

TEST(OnnxFile, RejectsWhatIsNoModel) {
  EXPECT_FALSE(parse_onnx(""));
  EXPECT_FALSE(parse_onnx("services:\n  - name: x\n"));
  const std::string whole = write_onnx_model(*find_example_model("image-classifier"), 1);
  // Without its last field, six bytes, it is whole again: cut further.
  for (std::size_t cut = 7; cut < 200; ++cut)
    EXPECT_FALSE(parse_onnx(std::string_view(whole).substr(0, whole.size() - cut)));
  EXPECT_FALSE(read_onnx("/nowhere.onnx"));
  EXPECT_FALSE(read_onnx("/"));
}

// Weights of large models are in files beside the model; their bytes belong to it.
TEST(OnnxFile, CountsTheWeightsThatAreInOtherFiles) {
  const auto folder = std::filesystem::temp_directory_path() / ("tangram-onnx-file-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  ProtoWriter entry;
  entry.bytes(1, "location");
  entry.bytes(2, "weights.bin");
  ProtoWriter tensor;
  tensor.integer(1, 100);
  tensor.bytes(8, "w");
  tensor.message(13, entry);
  ProtoWriter output;
  output.bytes(1, "y");
  ProtoWriter graph;
  graph.message(5, tensor);
  graph.message(12, output);
  ProtoWriter model;
  model.message(7, graph);
  std::ofstream(folder / "m.onnx", std::ios::binary) << model.text();
  EXPECT_EQ(onnx_bytes(folder / "m.onnx"), 0u);
  std::ofstream(folder / "weights.bin", std::ios::binary) << std::string(400, 'w');
  EXPECT_EQ(onnx_bytes(folder / "m.onnx"), 400 + model.text().size());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tangram::engines
