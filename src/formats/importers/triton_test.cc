// Files written from the documentation of the tools: perf_analyzer's and Model Analyzer's CSV, and the statistics
// extension of the protocol.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/import.h"
#include "formats/measurements_file.h"

namespace tangram::formats {
namespace {

using testing::HasSubstr;

const ImportTarget kTarget{.model = "bert", .device = "a100-80gb", .mig_profile = "2g.20gb", .batch = 4, .size = 128};

Measurements rows_of(std::string_view format, const std::vector<Source>& files, const ImportTarget& target = kTarget) {
  const auto text = import_text(format, files, target);
  EXPECT_TRUE(text) << text.error().message;
  if (!text) return {};
  const auto rows = parse_measurements({"result", *text});
  EXPECT_TRUE(rows) << rows.error().message;
  return rows ? *rows : Measurements();
}
std::string error_of(std::string_view format, const std::vector<Source>& files, const ImportTarget& target = kTarget) {
  const auto text = import_text(format, files, target);
  return text ? "" : text.error().message;
}

const Source kPerf{"perf.csv",
                   "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute "
                   "Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,"
                   "p99 latency\n"
                   "4,1600,10,300,5000,120,9800,90,2,15000,15100,15200,15300\n"
                   "1,390,9,250,40,100,9500,80,2,10000,10100,10200,10900\n"};

// 100 + 9500 + 80 microseconds of the row with one client.
TEST(ImportPerfAnalyzer, TakesTheComputeTimeWithTheFewestClients) {
  const auto rows = rows_of("perf-analyzer", {kPerf});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].model, "bert");
  EXPECT_EQ(rows[0].mig_profile, "2g.20gb");
  EXPECT_EQ(rows[0].batch, 4);
  EXPECT_EQ(rows[0].size, 128);
  EXPECT_NEAR(*rows[0].latency_ms, 9.68, 1e-9);
}

TEST(ImportPerfAnalyzer, NeedsTheTimesOfTheServerAndATarget) {
  EXPECT_THAT(error_of("perf-analyzer", {{"perf.csv", "Concurrency,Inferences/Second,Client Send\n1,390,9\n"}}),
              HasSubstr("Server Compute Infer"));
  EXPECT_THAT(error_of("perf-analyzer", {kPerf, {"other.csv", kPerf.text}}),
              HasSubstr("perf.csv and other.csv do not say their batch sizes"));
  EXPECT_THAT(error_of("perf-analyzer", {kPerf}, {}), HasSubstr("--model, --device and --profile"));
  auto wrong = kTarget;
  wrong.mig_profile = "5g.50gb";
  EXPECT_THAT(error_of("perf-analyzer", {kPerf}, wrong), HasSubstr("5g.50gb"));
}

const Source kAnalyzer{
    "metrics-model-inference.csv",
    "Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,Satisfies Constraints,Throughput "
    "(infer/sec),p99 Latency (ms)\n"
    "bert,1,1,bert_config_0,1:GPU,8,Yes,200,5.5\n"
    "bert,1,8,bert_config_0,1:GPU,8,Yes,210,40\n"
    "bert,4,1,bert_config_0,1:GPU,8,Yes,500,8.2\n"
    "bert,4,8,bert_config_1,2:GPU,8,Yes,700,50\n"};
const Source kAnalyzerGpu{
    "metrics-model-gpu.csv",
    "Model,GPU UUID,Batch,Concurrency,Model Config Path,Instance Group,Satisfies Constraints,Max GPU Memory Usage "
    "(MB),Average GPU Utilization (%),Average GPU Power Usage (W)\n"
    "bert,GPU-1,1,1,bert_config_0,1:GPU,Yes,1048.576,10,60\n"
    "bert,GPU-1,4,1,bert_config_0,1:GPU,Yes,2097.152,20,70\n"};

// One client that gets 200 answers a second waits 5 ms for each; four inputs at 500 a second take 8 ms. With eight
// clients nothing follows, so the two instances have no row. 1,048.576 MB are 1,000 MiB.
TEST(ImportModelAnalyzer, TakesTheTimeOfASingleClientAndTheMemory) {
  const auto rows = rows_of("model-analyzer", {kAnalyzer, kAnalyzerGpu});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].batch, 1);
  EXPECT_NEAR(*rows[0].latency_ms, 5, 1e-9);
  EXPECT_NEAR(*rows[0].memory_mib, 1000, 1e-6);
  EXPECT_EQ(rows[1].batch, 4);
  EXPECT_NEAR(*rows[1].latency_ms, 8, 1e-9);
  EXPECT_NEAR(*rows[1].memory_mib, 2000, 1e-6);
}

TEST(ImportModelAnalyzer, TakesTheTimesOfTheServerWhereTheyWereAskedFor) {
  const auto rows = rows_of(
      "model-analyzer", {{"metrics-model-inference.csv",
                          "Model,Batch,Concurrency,Model Config Path,Instance Group,Server Compute Infer time (ms)\n"
                          "bert_config_2,2,4,bert_config_2,2:GPU,7.5\n"}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].processes, 2);
  EXPECT_NEAR(*rows[0].latency_ms, 7.5, 1e-9);
}

TEST(ImportModelAnalyzer, RefusesAnotherModel) {
  auto other = kTarget;
  other.model = "resnet50";
  EXPECT_THAT(error_of("model-analyzer", {kAnalyzer}, other),
              HasSubstr("metrics-model-inference.csv:2:1: the file is about bert"));
}

const Source kStatistics{"stats.json", R"({"model_stats": [
  {"name": "resnet50", "version": "1", "batch_stats": []},
  {"name": "bert", "version": "1", "inference_count": 30, "execution_count": 12,
   "batch_stats": [
     {"batch_size": 1, "compute_input": {"count": 10, "ns": 1000000}, "compute_infer": {"count": 10, "ns": 50000000},
      "compute_output": {"count": 10, "ns": 500000}},
     {"batch_size": 8, "compute_input": {"count": 2, "ns": 400000}, "compute_infer": {"count": 2, "ns": 36000000},
      "compute_output": {"count": 2, "ns": 200000}},
     {"batch_size": 4, "compute_input": {"count": 0, "ns": 0}, "compute_infer": {"count": 0, "ns": 0},
      "compute_output": {"count": 0, "ns": 0}}]}]})"};

// 51.5 ms over ten runs, and 36.6 ms over two. A batch size without runs is left out.
TEST(ImportTritonStatistics, DividesTheSumsByTheRuns) {
  const auto rows = rows_of("triton-statistics", {kStatistics});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].batch, 1);
  EXPECT_NEAR(*rows[0].latency_ms, 5.15, 1e-9);
  EXPECT_EQ(rows[1].batch, 8);
  EXPECT_NEAR(*rows[1].latency_ms, 18.3, 1e-9);
}

TEST(ImportTritonStatistics, SaysWhatIsWrong) {
  EXPECT_THAT(error_of("triton-statistics", {{"stats.json", "{}"}}), HasSubstr("stats.json: expected the answer to"));
  EXPECT_THAT(error_of("triton-statistics", {{"stats.json", "nothing"}}), HasSubstr("stats.json"));
  for (const std::string size : {"1e300", "8.5", "\"8\"", "-1e300"}) {
    const std::string text = R"({"model_stats": [{"name": "bert", "batch_stats": [{"batch_size": )" + size + "}]}]}";
    EXPECT_THAT(error_of("triton-statistics", {{"stats.json", text}}), HasSubstr("expected an integer")) << size;
  }
  auto other = kTarget;
  other.model = "gpt";
  EXPECT_THAT(error_of("triton-statistics", {kStatistics}, other), HasSubstr("no run of gpt"));
  EXPECT_THAT(error_of("triton-statistics", {kStatistics, kStatistics}), HasSubstr("batch 1 of bert occurs twice"));
}

TEST(ImportFormats, SayWhichNeedATarget) {
  for (const auto& format : import_formats()) {
    const bool triton =
        format.name == "perf-analyzer" || format.name == "model-analyzer" || format.name == "triton-statistics";
    EXPECT_EQ(format.needs_target, triton) << format.name;
  }
}

}  // namespace
}  // namespace tangram::formats
