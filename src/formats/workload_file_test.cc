#include "formats/workload_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "formats/detail/files_test.h"

namespace tangram::formats {
namespace {

using namespace std::chrono_literals;

// Files that stand beside the services file.
Result<std::string> read_beside(const std::string& path) {
  static const std::map<std::string, std::string> kFiles = {
      {"t.csv", "at_s,size\n0,10\n0.5,20\n"},
      {"bad.csv", "at_s,size\n1,10\n0.5,20\n"},
      {"h.csv", "size,weight\n8,1\n16,3\n"},
      {"r.txt", "# rates\n1\n2.5\n"},
  };
  const auto file = kFiles.find(path);
  if (file == kFiles.end()) return Error{ErrorCode::not_found, "no such file"};
  return file->second;
}

Result<Workload> parsed_workload(const std::string& text) { return parse_workload({"s.yaml", text}, read_beside); }
std::string workload_problems(const std::string& text) {
  const auto workload = parsed_workload(text);
  return workload ? "" : workload.error().message;
}

// A service with one line of its own.
std::string service(const std::string& lines) {
  return "services:\n  - name: a\n    model: m\n    slo: {latency_ms: 50}\n" + lines;
}

TEST(WorkloadFile, ReadsEveryKey) {
  const auto workload = parsed_workload(
      "services:\n  - name: a\n    model: m\n    slo: {latency_ms: 12.5, percentile: 95}\n    traffic: {rate_per_s: "
      "300}\n"
      "    input_size: 128\n    samples: 4\n    padding: none\n    priority: 2\n");
  ASSERT_TRUE(workload) << workload.error().message;
  const Service& a = workload->services[0];
  EXPECT_EQ(a.model, "m");
  EXPECT_EQ(a.slo.latency, 12500us);
  EXPECT_EQ(a.slo.percentile, 95);
  EXPECT_EQ(std::get<PoissonTraffic>(a.traffic).rate_per_s, 300);
  EXPECT_EQ(std::get<ConstantSize>(a.input_size).size, 128);
  EXPECT_EQ(std::get<ConstantSize>(a.samples).size, 4);
  EXPECT_EQ(a.padding, Padding::none);
  EXPECT_EQ(a.priority, 2);
}

TEST(WorkloadFile, ReadsEveryKindOfTraffic) {
  const auto traffic = [](const std::string& text) {
    const auto workload = parsed_workload(service("    traffic: {" + text + "}\n"));
    EXPECT_TRUE(workload) << workload.error().message;
    return workload ? workload->services[0].traffic : Traffic{};
  };
  EXPECT_EQ(std::get<PoissonTraffic>(traffic("poisson: {rate_per_s: 2}")).rate_per_s, 2);
  EXPECT_EQ(std::get<ConstantTraffic>(traffic("constant: {rate_per_s: 3}")).rate_per_s, 3);
  EXPECT_EQ(std::get<BurstTraffic>(traffic("bursts: {rate_per_s: 3, burst_factor: 8}")).burst_factor, 8);
  EXPECT_EQ(std::get<DiurnalTraffic>(traffic("diurnal: {rate_per_s: 3, amplitude: 1}")).amplitude, 1);
  EXPECT_EQ(std::get<CurveTraffic>(traffic("rate_curve: {file: r.txt, step_s: 60}")).rate_per_s, (std::vector{1, 2.5}));
  EXPECT_EQ(std::get<TraceTraffic>(traffic("trace: {file: t.csv, speed: 2}")).trace[1].size, 20);
  EXPECT_EQ(std::get<ClosedLoopTraffic>(traffic("closed_loop: {clients: 9}")).clients, 9);
}

TEST(WorkloadFile, ReadsEveryKindOfInputSize) {
  const auto size = [](const std::string& text) {
    const auto workload =
        parsed_workload(service("    traffic: {trace: {file: t.csv}}\n    input_size: {" + text + "}\n"));
    EXPECT_TRUE(workload) << workload.error().message;
    return workload ? workload->services[0].input_size : SizeDistribution{};
  };
  EXPECT_EQ(std::get<ConstantSize>(size("constant: {size: 7}")).size, 7);
  EXPECT_EQ(std::get<LogNormalSize>(size("log_normal: {median: 48, sigma: 0.5, max: 512}")).max, 512);
  EXPECT_EQ(std::get<HistogramSize>(size("histogram: {file: h.csv}")).bins[1].weight, 3);
  EXPECT_TRUE(std::holds_alternative<TraceSize>(size("trace: {}")));
}

TEST(WorkloadFile, ReadsSamplesInTheFormsOfInputSizes) {
  const auto samples = [](const std::string& text) {
    const auto workload =
        parsed_workload(service("    traffic: {trace: {file: t.csv}}\n    samples: {" + text + "}\n"));
    EXPECT_TRUE(workload) << workload.error().message;
    return workload ? workload->services[0].samples : SizeDistribution{};
  };
  EXPECT_EQ(std::get<ConstantSize>(samples("constant: {size: 7}")).size, 7);
  EXPECT_EQ(std::get<LogNormalSize>(samples("log_normal: {median: 3, sigma: 0.9, max: 32}")).max, 32);
  EXPECT_EQ(std::get<HistogramSize>(samples("histogram: {file: h.csv}")).bins[1].size, 16);
  EXPECT_TRUE(std::holds_alternative<TraceSize>(samples("trace: {}")));
}

TEST(WorkloadFile, RefusesSamplesThatNoBatchCouldHold) {
  EXPECT_EQ(workload_problems(service("    traffic: {rate_per_s: 1}\n    samples: 1000001\n")),
            "s.yaml:6:14: samples must be at most 1000000");
  EXPECT_EQ(workload_problems(service("    traffic: {rate_per_s: 1}\n    samples: {trace: {}}\n")),
            "s.yaml:6:14: samples from a trace need traffic from a trace");
}

std::string job(const std::string& lines) { return "services:\n  - name: a\n    model: m\n" + lines; }

// 7,200 rows in an hour are two a second.
TEST(WorkloadFile, ReadsAJobAsAServiceThatIsFedEvenlyUntilItsDeadline) {
  const auto workload = parsed_workload(job("    job: {rows: 7200, deadline_s: 3600}\n    input_size: 8\n"));
  ASSERT_TRUE(workload) << workload.error().message;
  const Service& a = workload->services[0];
  ASSERT_TRUE(a.job.has_value());
  EXPECT_EQ(a.job->rows, 7200);
  EXPECT_EQ(a.slo.latency, 1h);
  EXPECT_EQ(std::get<ConstantTraffic>(a.traffic).rate_per_s, 2);
  const std::string text = write_workload(*workload);
  EXPECT_THAT(text, testing::HasSubstr("deadline_s: 3600"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("slo")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("traffic")));
  const auto again = parsed_workload(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->services[0].job, a.job);
}

TEST(WorkloadFile, ReportsWhatAJobCannotHave) {
  EXPECT_EQ(
      workload_problems(job("    job: {rows: 10, deadline_s: 5}\n    slo: {latency_ms: 50}\n")),
      "s.yaml:4:10: a service with a job has neither slo nor traffic: its deadline is its promise, and all its rows "
      "are available from the start");
  EXPECT_EQ(workload_problems(job("    job: {rows: 0, deadline_s: 5}\n")),
            "s.yaml:4:17: rows must be at least 1, not 0");
  EXPECT_EQ(workload_problems(job("    job: {rows: 9}\n")), "s.yaml:4:10: deadline_s is missing");
  EXPECT_EQ(workload_problems(job("    job: {rows: 9, deadline_s: 5}\n    samples: 2\n")),
            "s.yaml:5:14: a service with a job cannot have samples: each row is one input");
  EXPECT_EQ(workload_problems(job("    job: {rows: 9, deadline_s: 5}\n    input_size: {trace: {}}\n")),
            "s.yaml:5:17: sizes from a trace need traffic from a trace");
  EXPECT_EQ(workload_problems(job("")), "s.yaml:2:5: slo is missing\ns.yaml:2:5: traffic is missing");
}

TEST(WorkloadFile, ReportsProblemsOfTheFilesItNamesUnderTheirOwnNames) {
  EXPECT_EQ(workload_problems(service("    traffic: {trace: {file: bad.csv}}\n")),
            "bad.csv:3:1: at_s is earlier than in the row before; a trace must be in order of time");
  EXPECT_EQ(workload_problems(service("    traffic: {trace: {file: gone.csv}}\n")),
            "s.yaml:5:14: cannot read gone.csv: no such file");
}

TEST(WorkloadFile, ReportsWhatDoesNotGoTogether) {
  EXPECT_EQ(workload_problems(service("    traffic: {rate_per_s: 1}\n    input_size: {trace: {}}\n")),
            "s.yaml:6:17: sizes from a trace need traffic from a trace");
  EXPECT_EQ(workload_problems(service("    traffic: {rate_per_s: 1, trace: {file: t.csv}}\n")),
            "s.yaml:5:30: rate_per_s and trace cannot be combined");
  EXPECT_EQ(workload_problems(service("")), "s.yaml:2:5: traffic is missing");
  EXPECT_EQ(workload_problems(service(
                "    traffic: {rate_per_s: 1}\n    input_size: {log_normal: {median: 9, sigma: 1, min: 5, max: 4}}\n")),
            "s.yaml:6:65: max must be at least min");
  EXPECT_EQ(workload_problems(
                service("    traffic: {rate_per_s: 1}\n  - name: a\n    model: m\n    slo: {latency_ms: 1}\n    "
                        "traffic: {rate_per_s: 1}\n")),
            "s.yaml:6:11: the name a is already used by the service in line 2");
}

TEST(WorkloadFile, ReportsWhatDoesNotGoTogetherBesideWhatIsWrong) {
  const auto sizes = [](const std::string& text) {
    return workload_problems(service("    traffic: {rate_per_s: 1}\n    input_size: {log_normal: {" + text + "}}\n"));
  };
  EXPECT_EQ(sizes("median: 500, sigma: -1, min: 10, max: 5"),
            "s.yaml:6:51: sigma must be at least 0, not -1\ns.yaml:6:69: max must be at least min");
  EXPECT_EQ(sizes("median: 500, sigma: 1, min: 10, max: 50"), "s.yaml:6:39: median must be between min and max");
  EXPECT_EQ(sizes("median: 5, sigma: 1, min: 10, max: 50"), "s.yaml:6:39: median must be between min and max");
  EXPECT_EQ(sizes("median: 10, sigma: 1, min: 10, max: 10"), "");
  // Traffic that is wrong might have been meant to be a trace.
  EXPECT_EQ(
      workload_problems(service("    traffic: {rate_per_s: 0}\n    input_size: {trace: {}}\n    samples: 1000001\n")),
      "s.yaml:5:27: rate_per_s must be greater than 0, not 0\ns.yaml:7:14: samples must be at most 1000000");
}

TEST(WorkloadFile, OfTheExamplesReadsBackTheSame) {
  const auto beside = [](const std::string& path) -> Result<std::string> { return test::example(path).text; };
  const auto workload = parse_workload(test::example("services.yaml"), beside);
  ASSERT_TRUE(workload) << workload.error().message;
  ASSERT_EQ(workload->services.size(), 4U);
  EXPECT_EQ(std::get<TraceTraffic>(workload->services[3].traffic).trace.size(), 60U);
  const std::string text = write_workload(*workload);
  const auto again = parse_workload({"again", text}, beside);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(write_workload(*again), text);
  EXPECT_EQ(again->services[1].slo, workload->services[1].slo);
}

constexpr const char* kTensorService =
    "services:\n- {name: a, model: m, slo: {latency_ms: 1}, traffic: {rate_per_s: 1}, tensors: {inputs: [";

TEST(ServicesFile, SaysWhatAModelTakesAndAnswers) {
  const auto workload =
      parsed_workload(std::string(kTensorService) +
                      "{name: ids, datatype: INT64, shape: [-1], pad: 7}, {name: mask, datatype: INT64, shape: "
                      "[-1], mask: true}], outputs: [{name: out, datatype: FP16, shape: [-1, 4]}]}}\n");
  ASSERT_TRUE(workload) << workload.error().message;
  const Signature& signature = workload->services[0].signature();
  ASSERT_EQ(signature.inputs.size(), 2u);
  EXPECT_EQ(signature.inputs[0], (TensorSpec{"ids", Datatype::int64, {-1}, 7, false}));
  EXPECT_TRUE(signature.inputs[1].mask);
  EXPECT_EQ(signature.outputs[0], (TensorSpec{"out", Datatype::fp16, {-1, 4}, 0, false}));
  const auto again = parsed_workload(write_workload(*workload));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->services[0].tensors, workload->services[0].tensors);
}

TEST(ServicesFile, RefusesTensorsThatNoModelCanHave) {
  const auto with = [](const std::string& rest) { return workload_problems(kTensorService + rest + "]}}\n"); };
  const std::string out = "], outputs: [{name: o, shape: [1]}";
  EXPECT_THAT(with("{name: i, shape: [0]}" + out), testing::HasSubstr("an axis of i must be -1 or a length from 1"));
  EXPECT_THAT(with("{name: i, shape: [1]}, {name: i, shape: [2]}" + out), testing::HasSubstr("i is given twice"));
  EXPECT_THAT(with("{name: i, shape: [-1, -1]}" + out), testing::HasSubstr("more than one axis of -1"));
  EXPECT_THAT(with("{name: i, shape: [4], mask: true}" + out), testing::HasSubstr("needs an axis of -1"));
  EXPECT_THAT(with("{name: i, shape: [-1], mask: true}" + out), testing::HasSubstr("every input is a mask"));
  EXPECT_THAT(with("{name: i, shape: [1]}], outputs: [{name: o, shape: [1], pad: 2}"),
              testing::HasSubstr("is an output"));
  EXPECT_THAT(with("{name: i, datatype: BYTES, shape: [1], pad: 2}" + out), testing::HasSubstr("i is BYTES"));
  EXPECT_THAT(with("{name: x, shape: [-1]}, {name: i, datatype: BYTES, shape: [-1], mask: true}" + out),
              testing::HasSubstr("i is BYTES"));
  EXPECT_EQ(with("{name: i, datatype: BYTES, shape: [-1]}" + out), "");
}

constexpr const char* kEngineService =
    "services:\n  - {name: a, model: m, slo: {latency_ms: 9}, traffic: {rate_per_s: 1}, ";

TEST(ServicesFile, NamesTheEngineOfAService) {
  const std::string text =
      kEngineService + std::string("engine: remote, remote: [{profile: 2g.20gb, address: \"triton:8000\"}]}\n");
  EXPECT_EQ(workload_problems(text), "");
  const auto workload = parse_workload({"services.yaml", text}, {});
  ASSERT_TRUE(workload);
  EXPECT_EQ(workload->services[0].engine, ServiceEngine::remote);
  EXPECT_EQ(workload->services[0].remotes, (std::vector<RemoteServer>{{"2g.20gb", "triton:8000"}}));
  const auto again = parse_workload({"again.yaml", write_workload(*workload)}, {});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->services[0].remotes, workload->services[0].remotes);
}

TEST(ServicesFile, RefusesACommandOrServersOfAnotherEngine) {
  const auto with = [](const std::string& rest) { return workload_problems(kEngineService + rest + "}\n"); };
  EXPECT_EQ(with("engine: command, command: run"), "");
  EXPECT_THAT(with("command: run"), testing::HasSubstr("a command needs `engine: command`"));
  EXPECT_THAT(with("engine: onnx, remote: [{address: \"a:1\"}]"), testing::HasSubstr("remote servers need"));
  EXPECT_THAT(with("engine: tensorflow"), testing::HasSubstr("tensorflow"));
}

}  // namespace
}  // namespace tangram::formats
