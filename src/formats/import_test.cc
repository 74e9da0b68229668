#include "formats/import.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "formats/detail/files_test.h"
#include "formats/jobs_file.h"
#include "formats/measurements_file.h"
#include "formats/plan_file.h"
#include "formats/recuts_file.h"
#include "formats/trace_file.h"
#include "formats/training_file.h"
#include "formats/workload_file.h"

namespace tangram::formats {
namespace {

std::string import(std::string_view format, const std::string& text, const std::string& name = "in.csv") {
  const auto imported = import_text(format, {{name, text}});
  return imported ? *imported : "error: " + imported.error().message;
}

// Two processes of 100 batches of one a second each: 10 ms a batch, 200 samples a second together.
TEST(ImportParvagpu, TakesLatencyFromTheThroughputOfOneProcess) {
  EXPECT_EQ(import("parvagpu",
                   "model,mig_gpcs,batch_size,mps_procs,throughput_req_s,latency_s,feasible\n"
                   "net,3,1,2,100,0.01,1\nnet,1,8,1,,,0\n"),
            "device,mig_profile,model,batch,size,processes,latency_ms,latency_spread_ms,memory_mib,throughput_per_s\n"
            "a100-80gb,3g.40gb,net,1,1,2,10,,,200\na100-80gb,1g.10gb,net,8,1,1,,,,\n");
}

TEST(ImportParvagpu, ReportsEveryBadRow) {
  EXPECT_EQ(import("parvagpu",
                   "model,mig_gpcs,batch_size,mps_procs,throughput_req_s,latency_s,feasible\n"
                   "net,5,1,1,100,0.01,1\nnet,1,8,1,,,1\nnet,1,x,1,1,1,1\n"),
            "error: in.csv:2:5: a100-80gb has no profile 5g; known: 1g.10gb, 1g.20gb, 1g.10gb+me, "
            "2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb\n"
            "in.csv:3:11: a feasible run needs a throughput\n"
            "in.csv:4:7: batch_size must be a whole number, not \"x\"");
}

// Batch 8 at 100 samples a second takes 0.08 s. Rounded to a millisecond and a tenth more or less it may say 0.071 to
// 0.089; milliseconds where seconds belong, and negative ones, are refused.
TEST(ImportParvagpu, RefusesALatencyThatContradictsTheThroughput) {
  const std::string header = "model,mig_gpcs,batch_size,mps_procs,throughput_req_s,latency_s,feasible\n";
  EXPECT_EQ(import("parvagpu", header + "net,1,8,1,100,80,1\nnet,1,8,1,100,-0.08,1\n"),
            "error: in.csv:2:15: latency_s 80 contradicts throughput_req_s 100: batch 8 at that rate takes 0.08 s\n"
            "in.csv:3:15: latency_s must be at least 0, not -0.08");
  EXPECT_FALSE(import("parvagpu", header + "net,1,8,1,100,0.089,1\n").starts_with("error"));
  EXPECT_TRUE(import("parvagpu", header + "net,1,8,1,100,0.09,1\n").starts_with("error"));
  EXPECT_FALSE(import("parvagpu", header + "net,1,8,1,100,,1\n").starts_with("error"));
}

// A header alone says what the file is, so the reason is not that it is another one, and nothing is written.
TEST(Import, RefusesAFileThatHasOnlyItsHeader) {
  const std::string profiles = "model,mig_gpcs,batch_size,mps_procs,throughput_req_s,latency_s,feasible\n";
  const std::string deployment = "Num instance,Num GPU,Model,Placement,Instance size,Batch size,Num proc\n";
  EXPECT_EQ(import("parvagpu", profiles), "error: in.csv: no rows to import");
  EXPECT_EQ(import("parvagpu", deployment), "error: in.csv: no rows to import");
  EXPECT_EQ(import("parvagpu", "scenario,model,slo_latency_ms,request_rate_per_s\n"),
            "error: in.csv: no rows to import");
  EXPECT_EQ(import("pollux", "name,time,application,num_replicas,batch_size\n"), "error: in.csv: no rows to import");
  EXPECT_EQ(import("mig-reconfig", "partition,action,time_ms\n"), "error: in.csv: no rows to import");
}

TEST(ImportPollux, NamesTheColumnThatAWorkloadLacks) {
  const std::string answer = import("pollux", "name,time,num_replicas,batch_size\na,0,1,64\n");
  EXPECT_TRUE(answer.starts_with("error: in.csv:1")) << answer;
  EXPECT_NE(answer.find("application"), std::string::npos) << answer;
}

// The place is that of the second row, on line 3 behind "A,".
TEST(ImportParvagpu, RefusesAScenarioThatHasAModelTwice) {
  const std::string header = "scenario,model,slo_latency_ms,request_rate_per_s\n";
  EXPECT_EQ(import("parvagpu", header + "A,net,100,10\nA,net,50,10\n"),
            "error: in.csv:3:3: A already has the model net");
  EXPECT_FALSE(import("parvagpu", header + "A,net,100,10\nB,net,50,10\n").starts_with("error"));
}

// Services are called as plans allow, models as the measurements call them; two that come out alike are told apart.
TEST(ImportParvagpu, TakesModelsOfAnyName) {
  const std::string text = import("parvagpu:S 1",
                                  "scenario,model,slo_latency_ms,request_rate_per_s\n"
                                  "S 1,hub/net 1,100,10\nS 1,hub-net-1,50,10\nS 1,_,50,10\n");
  const auto workload = parse_workload({"services.yaml", text}, {});
  ASSERT_TRUE(workload.ok()) << text;
  ASSERT_EQ(workload->services.size(), 3u);
  EXPECT_EQ(workload->services[0].name, "hub-net-1");
  EXPECT_EQ(workload->services[0].model, "hub/net 1");
  EXPECT_EQ(workload->services[1].name, "hub-net-1-2");
  EXPECT_EQ(workload->services[2].name, "service");
}

TEST(ImportParvagpu, DoesNotIgnoreAScenarioThatMeasurementsDoNotHave) {
  EXPECT_EQ(import("parvagpu:SLO1",
                   "model,mig_gpcs,batch_size,mps_procs,throughput_req_s,latency_s,feasible\nnet,3,1,2,100,0.01,1\n"),
            "error: parvagpu:SLO1: only scenarios and deployments can be chosen by name, not measurements");
}

TEST(ImportParvagpu, MakesServicesOfScenarios) {
  const std::string text = "scenario,model,slo_latency_ms,request_rate_per_s\nS1,net,100.5,20\nS2,net,50,30\n";
  EXPECT_EQ(import("parvagpu:S2", text),
            "services:\n  - name: net\n    model: net\n    slo: {latency_ms: 50}\n    traffic: {rate_per_s: 30}\n");
  EXPECT_NE(import("parvagpu", text).find("name: S1-net"), std::string::npos);
  EXPECT_EQ(import("parvagpu:S3", text), "error: parvagpu:S3 does not exist; expected one of S1, S2");
}

// 3g.40gb at 4 covers units 4 to 7, so 1g.10gb cannot be at 6; the same two slices fit otherwise.
TEST(ImportParvagpu, LaysOutOverlappingSlicesAnew) {
  const std::string header = "Num instance,Num GPU,Model,Placement,Instance size,Batch size,Num proc\n";
  const auto plan = parse_plan({"p", import("parvagpu", header + "0,0,a,4,3,16,3\n0,0,b,6,1,8,1\n0,1,c,0,7,4,1\n")});
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->devices.size(), 2U);
  EXPECT_EQ(plan->devices[0].slices.size(), 2U);
  EXPECT_EQ(plan->devices[1].slices[0].replicas[0].service, "c");
  EXPECT_EQ(import("parvagpu", header + "0,0,a,0,7,16,3\n0,0,b,6,1,8,1\n"),
            "error: in.csv:2: the slices of GPU 0 do not fit on one a100-80gb");
}

// Throughput is 1000 * 32 / 16 = 2000 though the column has its known wrong unit, 3 * 1000 / 16 = 187.5; the second row
// of the same configuration is dropped.
TEST(ImportMigprofiler, RecomputesThroughputAndKeepsInference) {
  const std::string text =
      "gpu,mig_profile,model,total_params,task,sweep,batch_size,seq_length,latency_ms,latency_std_ms,throughput_"
      "samples_s,"
      "gract_mean,fb_used_mib_mean\n"
      "A100-40GB,1g.5gb,net,1,infer,bsz,32,64,16,0.5,187.5,0.9,1000\n"
      "A100-40GB,1g.5gb,net,1,infer,seq,32,64,17,0.5,187.5,0.9,1000\n"
      "A100-40GB,1g.5gb,net,1,infer,seq,32,512,,,,,\n"
      "A100-40GB,1g.5gb,net,1,train,bsz,8,,80,1,100,0.9,2000\n";
  const std::string header =
      "device,mig_profile,model,batch,size,processes,latency_ms,latency_spread_ms,memory_mib,throughput_per_s\n";
  EXPECT_EQ(import("migprofiler", text),
            header + "a100-40gb,1g.5gb,net,32,64,1,16,0.5,1000,2000\na100-40gb,1g.5gb,net,32,512,1,,,,\n");
  EXPECT_EQ(import("migprofiler:train", text), header + "a100-40gb,1g.5gb,net,8,1,1,80,1,2000,100\n");
}

constexpr const char* kMigprofilerHeader =
    "gpu,mig_profile,model,total_params,task,sweep,batch_size,seq_length,latency_ms,throughput_samples_s\n";

// 32 samples in 16 ms are 2000 a second; 2 would be the same in samples a millisecond.
TEST(ImportMigprofiler, RefusesAThroughputThatContradictsTheLatency) {
  EXPECT_EQ(import("migprofiler", kMigprofilerHeader + std::string("A100-40GB,1g.5gb,net,1,infer,bsz,32,64,16,2\n")),
            "error: in.csv:2:43: throughput_samples_s 2 contradicts latency_ms 16: batch 32 in that time is 2000 a "
            "second");
}

// Within one sweep nobody can tell which of two rows holds. Where two sweeps cross, 16 and 17 ms are the same run
// measured twice; 16 ms and 1600 ms are not.
TEST(ImportMigprofiler, RefusesRowsThatContradictEachOther) {
  const std::string row = kMigprofilerHeader + std::string("A100-40GB,1g.5gb,net,1,infer,bsz,32,64,16,\n");
  EXPECT_EQ(import("migprofiler", row + "A100-40GB,1g.5gb,net,1,infer,bsz,32,64,17,\n"),
            "error: in.csv:3:40: latency_ms 17 ms contradicts 16 ms of the same configuration in in.csv:2");
  EXPECT_EQ(import("migprofiler", row + "A100-40GB,1g.5gb,net,1,infer,bsz,32,64,,\n"),
            "error: in.csv:3:40: latency_ms out of memory contradicts 16 ms of the same configuration in in.csv:2");
  EXPECT_FALSE(import("migprofiler", row + "A100-40GB,1g.5gb,net,1,infer,bsz,32,64,16,\n").starts_with("error"));
  EXPECT_FALSE(import("migprofiler", row + "A100-40GB,1g.5gb,net,1,infer,seq,32,64,17,\n").starts_with("error"));
  EXPECT_TRUE(import("migprofiler", row + "A100-40GB,1g.5gb,net,1,infer,seq,32,64,1600,\n").starts_with("error"));
}

TEST(ImportMigprofiler, RefusesTasksAndSizesThatMeanNothing) {
  EXPECT_EQ(import("migprofiler", kMigprofilerHeader + std::string("A100-40GB,1g.5gb,net,1,juggle,bsz,1,64,16,\n"
                                                                   "A100-40GB,1g.5gb,net,-5,infer,bsz,1,64,16,\n")),
            "error: in.csv:2:24: task must be infer or train, not \"juggle\"\n"
            "in.csv:3:22: total_params must be at least 0, not -5");
}

TEST(ImportAzureLlm, CountsTimeFromTheFirstRequestAcrossMidnight) {
  EXPECT_EQ(import("azure-llm",
                   "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-12-31 23:59:59.5000000,10,1\n2024-01-01 "
                   "00:00:00.7500001,0,1\n"),
            "at_s,size,samples\n0,10,1\n1.2500001,1,1\n");
  EXPECT_EQ(import("azure-llm", "TIMESTAMP,ContextTokens\n2023-02-30 00:00:00,1\n"),
            "error: in.csv:2:1: TIMESTAMP must look like 2023-11-16 18:15:46.680, not \"2023-02-30 00:00:00\"");
}

// Between 10 and 40 lie two seconds: 20 and 30. The last gap repeats what came before.
TEST(ImportTwitter, FillsAndMarksGaps) {
  EXPECT_EQ(
      import("twitter", "10\n0\n0\n40\n0\n"),
      "# Requests a second, one line a second.\n10\n# The next 2 were not recorded and are interpolated.\n20\n30\n40\n"
      "# The next 1 were not recorded and are interpolated.\n40\n");
  EXPECT_EQ(import("twitter", "0\n0\n"), "error: in.csv: every rate is 0");
}

TEST(ImportPollux, MakesJobsOfWorkloadsAndOneTableOfTraces) {
  EXPECT_EQ(import("pollux", "name,time,application,num_replicas,batch_size\nnet-0,107,net,6,2048\n"),
            "name,submit_s,application,replicas,batch,kind,duration_s\nnet-0,107,net,6,2048,training,\n");
  // The placement 12 is one replica on a node and two on another.
  const auto table = import_text(
      "pollux", {{"x/net/placements.csv", "placement,local_bsz,step_time,sync_time\n12,4,0.5,0.1\n"},
                 {"x/net/validation-64.csv", "progress,iteration,metric,grad_sqr,grad_var\n9,3,0.5,1,2\n"}});
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(
      *table,
      "application,kind,nodes,replicas,local_batch,step_s,sync_s,batch,progress,iteration,metric,grad_sqr,grad_var,"
      "placement\nnet,placement,2,3,4,0.5,0.1,,,,,,,12\nnet,validation,,,,,,64,9,3,0.5,1,2,\n");
}

// In mixed files every row has a duration; only the number of tasks tells that it means nothing for training.
TEST(ImportDeepboot, TellsTrainingByItsApplicationAndTasks) {
  const std::string header = "name,time,application,num_replicas,batch_size,duration";
  const std::string jobs = "name,submit_s,application,replicas,batch,kind,duration_s\n";
  EXPECT_EQ(import("deepboot", header + ",num_task\nt-1,20,net,6,64,4.0,-1\ni-1,21,infer-net,1,1,4.0,530\n"),
            jobs + "t-1,20,net,6,64,training,\ni-1,21,infer-net,1,1,inference,4\n");
  EXPECT_EQ(import("deepboot", header + "\nt-1,20,net,6,64,-1.0\nt-2,20,net,6,64,\n"),
            jobs + "t-1,20,net,6,64,training,\nt-2,20,net,6,64,training,\n");
  EXPECT_EQ(import("deepboot", header + "\ni-1,20,infer-net,6,64,-1\nt-1,20,net,6,64,9\n"),
            "error: in.csv:2:23: an inference task needs a duration of at least 0\n"
            "in.csv:3:17: a training job has a duration of -1 or a num_task of -1");
}

TEST(ImportDeepboot, TellsTrainingByItsDuration) {
  EXPECT_EQ(import("deepboot",
                   "name,time,application,num_replicas,batch_size,duration,num_task\ni-1,19,infer-net,1,1,7.0,530\nt-1,"
                   "20,net,6,64,-1.0,0\n"),
            "name,submit_s,application,replicas,batch,kind,duration_s\ni-1,19,infer-net,1,1,inference,7\nt-1,20,net,6,"
            "64,training,\n");
}

// (0.6645 s - 0.3355 s) / 3.29 = 100 ms.
TEST(ImportMiso, MakesMeasurementsOfIterations) {
  const auto measurements = parse_measurements(
      {"m",
       import(
           "miso",
           "mig_profile,model,batch_size,n_iters,iter_s_median,iter_s_mean,iter_s_p5,iter_s_p95,throughput_samples_s\n"
           "2g.10gb,net,4,9,0.5,0.5,0.3355,0.6645,8\n")});
  ASSERT_TRUE(measurements) << measurements.error().message;
  const Measurement& m = measurements->front();
  EXPECT_EQ(m.device, "a100-40gb");
  EXPECT_EQ(m.latency_ms, 500);
  EXPECT_NEAR(*m.latency_spread_ms, 100, 1e-9);
  EXPECT_EQ(m.throughput_per_s, 8);
}

TEST(ImportMigReconfig, SumsUpRuns) {
  EXPECT_EQ(import("mig-reconfig",
                   "config_idx,partition,action,run,time_ms\n0,4g+3g,create,0,10\n0,4g+3g,create,1,30\n0,4g+3g,create,"
                   "2,20\n0,4g+3g,destroy,0,5\n"),
            "slices,action,runs,mean_ms,p50_ms,p99_ms,max_ms\n4g+3g,create,3,20,20,30,30\n4g+3g,destroy,1,5,5,5,5\n");
}

TEST(ImportTextLengths, MakesOneHistogramOfAChosenCorpus) {
  const std::string text = "corpus,words,count\nnews,0,2\nnews,1,3\nnews,9,1\nmail,4,1\n";
  EXPECT_EQ(import("text-lengths:news", text), "size,weight\n1,5\n9,1\n");
  EXPECT_EQ(import("text-lengths", text),
            "error: the file has several; give one of these names as text-lengths:NAME: mail, news");
}

// GPU 0 of one deployment is not GPU 0 of the other.
TEST(ImportParvagpu, KeepsDeploymentsOfSeveralFilesApart) {
  const std::string header = "Num instance,Num GPU,Model,Placement,Instance size,Batch size,Num proc\n";
  const std::vector<Source> files{{"d/S1.csv", header + "0,0,a,0,7,16,3\n"}, {"d/S 2.csv", header + "0,0,a,0,7,8,1\n"}};
  const auto text = import_text("parvagpu", files);
  ASSERT_TRUE(text) << text.error().message;
  const auto plan = parse_plan({"p", *text});
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->devices.size(), 2U);
  EXPECT_EQ(plan->devices[0].name, "S1-a100-80gb-0");
  EXPECT_EQ(plan->devices[1].name, "S-2-a100-80gb-0");
  EXPECT_EQ(plan->devices[0].slices[0].replicas[0].service, "S1-a");
  const auto one = import_text("parvagpu:S1", files);
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(parse_plan({"p", *one})->devices[0].name, "a100-80gb-0");
  EXPECT_EQ(import_text("parvagpu:S3", files).error().message, "parvagpu:S3 does not exist; expected one of S 2, S1");
  EXPECT_EQ(import_text("parvagpu", {{"a/S1.csv", files[0].text}, {"b/S1.csv", files[0].text}}).error().message,
            "b/S1.csv: a/S1.csv has the same file name, so their rows could not be told apart; import one of them");
}

TEST(Import, KnowsWhatAFileBecomesByItsHeader) {
  const auto kind = [](const char* format, const char* text) {
    return std::string(import_kind(*find_import_format(format), {"x", text}));
  };
  EXPECT_EQ(kind("parvagpu", "scenario,model,slo_latency_ms,request_rate_per_s\n"), "services");
  EXPECT_EQ(kind("parvagpu", "Num instance,Num GPU,Model,Placement\n"), "plan");
  EXPECT_EQ(kind("parvagpu", "model,mig_gpcs,batch_size,mps_procs\n"), "measurements");
  EXPECT_EQ(kind("parvagpu", "progress,iteration,metric,grad_sqr,grad_var\n"), "");
  EXPECT_EQ(kind("pollux", "progress,iteration,metric,grad_sqr,grad_var\n"), "training");
  EXPECT_EQ(kind("twitter", "# rates\n3\n"), "curve");
  EXPECT_EQ(kind("twitter", "# A page of text.\nmore\n"), "");
}

TEST(Import, MakesOneKindAtATime) {
  EXPECT_EQ(import_text("pollux", {{"w/a.csv", "name,time,application,num_replicas,batch_size\n"},
                                   {"t/net/p.csv", "placement,local_bsz,step_time,sync_time\n"},
                                   {"t/net/q.csv", "placement,local_bsz,step_time,sync_time\n"}})
                .error()
                .message,
            "pollux: an import writes one file of one kind, but these files become 2 kinds\n"
            "  jobs: w/a.csv\n"
            "  training: t/net/p.csv and 1 more");
}

TEST(Import, RefusesWhatItDoesNotKnow) {
  EXPECT_TRUE(import("pollox", "x").starts_with("error: the format is unknown: \"pollox\", did you mean pollux?"));
  EXPECT_EQ(import("twitter:x", "1\n"), "error: twitter takes no argument after a colon");
  EXPECT_EQ(import("miso", "a,b\n"),
            "error: in.csv:1:1: column mig_profile is missing\nin.csv:1:1: column model is missing\n"
            "in.csv:1:1: column batch_size is missing\nin.csv:1:1: column iter_s_mean is missing\n"
            "in.csv:1:1: column iter_s_p5 is missing\nin.csv:1:1: column iter_s_p95 is missing");
}

// The public files themselves, where they are at hand. What comes out must be a file that our own parsers take.
class PublicData : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(test::data_folder())) {
      GTEST_SKIP() << "the public data is not at " << test::data_folder() << "; set TANGRAM_DATA to its place";
    }
  }

  static std::string imported(std::string_view format, const std::vector<std::string>& paths) {
    std::vector<Source> files;
    for (const auto& path : paths) files.push_back({path, test::read(test::data_folder() / path).value_or("")});
    const auto text = import_text(format, files);
    EXPECT_TRUE(text) << text.error().message;
    return text ? *text : "";
  }

  static std::vector<std::string> files_below(const std::string& folder) {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test::data_folder() / folder)) {
      if (entry.is_regular_file())
        paths.push_back(std::filesystem::relative(entry.path(), test::data_folder()).string());
    }
    std::ranges::sort(paths);
    return paths;
  }

  // How many rows a CSV file has beside its header.
  static std::ptrdiff_t rows(const std::string& path) {
    const std::string text = test::read(test::data_folder() / path).value_or("");
    return std::ranges::count(text, '\n') + (text.ends_with('\n') ? 0 : 1) - 1;
  }
};

TEST_F(PublicData, OfParvagpuBecomesMeasurementsServicesAndPlans) {
  const auto measurements = parse_measurements({"m", imported("parvagpu", {"parvagpu/profiles.csv"})});
  ASSERT_TRUE(measurements) << measurements.error().message;
  EXPECT_EQ(std::ssize(*measurements), rows("parvagpu/profiles.csv"));
  const auto workload = parse_workload({"w", imported("parvagpu", {"parvagpu/scenarios.csv"})}, {});
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(std::ssize(workload->services), rows("parvagpu/scenarios.csv"));
  for (const auto& path : files_below("parvagpu/deployment")) {
    const auto plan = parse_plan({"p", imported("parvagpu", {path})});
    EXPECT_TRUE(plan) << path << plan.error().message;
  }
}

TEST_F(PublicData, OfMigprofilerAndMisoBecomesMeasurements) {
  for (const auto& [format, path] : {std::pair("migprofiler", "migprofiler/profiles.csv"),
                                     std::pair("migprofiler:train", "migprofiler/profiles.csv"),
                                     std::pair("miso", "miso/train_iteration_time.csv")}) {
    const auto measurements = parse_measurements({format, imported(format, {path})});
    ASSERT_TRUE(measurements) << measurements.error().message;
    EXPECT_FALSE(measurements->empty());
  }
}

TEST_F(PublicData, OfTrafficBecomesTracesAndCurves) {
  const auto trace = parse_trace({"t", imported("azure-llm", {"azure_llm_2023/conv.csv"})});
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(std::ssize(*trace), rows("azure_llm_2023/conv.csv"));
  const auto curve = parse_rate_curve({"c", imported("twitter", {"twitter/requests_per_second.txt"})});
  ASSERT_TRUE(curve) << curve.error().message;
  EXPECT_EQ(std::ranges::count(*curve, 0.0), 0);
  const std::string lengths = test::read(test::data_folder() / "text_lengths/length_histograms.csv").value_or("");
  const std::string corpus =
      lengths.substr(lengths.find('\n') + 1, lengths.find(',', lengths.find('\n')) - lengths.find('\n') - 1);
  EXPECT_TRUE(parse_histogram({"h", imported("text-lengths:" + corpus, {"text_lengths/length_histograms.csv"})}));
}

TEST_F(PublicData, OfPolluxAndDeepbootBecomesJobs) {
  for (const auto& path : files_below("pollux/workloads")) {
    const auto jobs = parse_jobs({path, imported("pollux", {path})});
    ASSERT_TRUE(jobs) << jobs.error().message;
    EXPECT_EQ(std::ssize(*jobs), rows(path));
  }
  for (const auto& path : files_below("deepboot")) {
    const auto jobs = parse_jobs({path, imported("deepboot", {path})});
    ASSERT_TRUE(jobs) << jobs.error().message;
    EXPECT_EQ(std::ssize(*jobs), rows(path));
  }
  const auto traces = files_below("pollux/traces");
  std::ptrdiff_t expected = 1;
  for (const auto& path : traces) expected += rows(path);
  const auto training = parse_training({"t", imported("pollux", traces)});
  ASSERT_TRUE(training) << training.error().message;
  EXPECT_EQ(std::ssize(*training) + 1, expected);
  const auto recuts = parse_recuts({"r", imported("mig-reconfig", {"mig_reconfig/reconfig_times.csv"})});
  ASSERT_TRUE(recuts) << recuts.error().message;
  EXPECT_FALSE(recuts->empty());
}

// The mixed file of DeepBoot holds the jobs of the file of training alone.
TEST_F(PublicData, OfDeepbootHoldsTheSameTrainingInBothFiles) {
  auto mixed = parse_jobs({"m", imported("deepboot", {"deepboot/small.csv"})});
  const auto alone = parse_jobs({"a", imported("deepboot", {"deepboot/pure_train.csv"})});
  ASSERT_TRUE(mixed && alone);
  const auto inferences = std::erase_if(*mixed, [](const ClusterJob& job) { return job.kind == JobKind::inference; });
  EXPECT_GT(inferences, 0U);
  EXPECT_EQ(*mixed, *alone);
}

// A file with the right header and no row is empty; one with a wrong row is wrong.
TEST(Import, TellsEmptyFilesFromWrongOnes) {
  const std::string header = "name,time,application,num_replicas,batch_size\n";
  const auto none = import_text("pollux", {{"in.csv", header}});
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(is_nothing_to_import(none.error()));
  const auto wrong = import_text("pollux", {{"in.csv", header + "a,soon,b,1,1\n"}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_FALSE(is_nothing_to_import(wrong.error()));
}

}  // namespace
}  // namespace tangram::formats
