#include "engines/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engines/recorded_memory.h"

namespace tangram::engines {
namespace {

using namespace std::chrono_literals;

Measurement run(std::string profile, std::int64_t batch, std::optional<double> latency_ms,
                std::optional<double> spread_ms = std::nullopt, std::optional<double> memory_mib = std::nullopt) {
  Measurement m;
  m.device = "a100-80gb";
  m.mig_profile = std::move(profile);
  m.model = "bert";
  m.batch = batch;
  m.latency_ms = latency_ms;
  m.latency_spread_ms = spread_ms;
  m.memory_mib = memory_mib;
  return m;
}

RunPoint point(std::string_view profile, std::int64_t batch, std::int64_t processes = 1) {
  return {"a100-80gb", profile, "bert", batch, 1, processes};
}

// Twice as long on 1g as on 7g, and as long as the batch in milliseconds; nothing on other profiles.
class LinearModel final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint& p) const override {
    if (p.mig_profile != "1g.10gb" && p.mig_profile != "7g.80gb") return std::nullopt;
    const Duration mean = p.batch * (p.mig_profile == "1g.10gb" ? 2ms : 1ms);
    return Prediction{mean, mean + mean / 10};
  }
};

std::unique_ptr<LoadedReplica> load(Engine& engine, const std::string& profile, std::int64_t processes = 1) {
  auto loaded = engine.load({"a100-80gb", profile, "bert", processes});
  return std::move(std::get<std::unique_ptr<LoadedReplica>>(*loaded));
}

RunOutcome run_batch(LoadedReplica& replica, std::int64_t batch) { return *replica.run({batch, 1}); }

EngineConfig recording() {
  EngineConfig config;
  config.measurements = {run("1g.10gb", 1, 5.0, 0.5, 900.0), run("1g.10gb", 64, std::nullopt), run("7g.80gb", 1, 3.0)};
  return config;
}

EngineConfig emulation() {
  EngineConfig config;
  config.latency = std::make_shared<LinearModel>();
  config.memory_mib = [](const RunPoint& p) { return std::optional(1000.0 + 100.0 * static_cast<double>(p.batch)); };
  return config;
}

TEST(Engines, AreFoundByTheNamesTheyAreListedUnder) {
  for (const auto& info : engines()) EXPECT_EQ(find_engine(info.name), &info);
  EXPECT_EQ(find_engine("warp"), nullptr);
}

TEST(Replay, RepeatsWhatWasRecorded) {
  const auto engine = find_engine("replay")->make(recording());
  const auto replica = load(*engine, "1g.10gb");
  EXPECT_EQ(run_batch(*replica, 1), RunOutcome(Completed{5ms, 500us, 900.0}));
  EXPECT_EQ(run_batch(*replica, 64), RunOutcome(OutOfMemory{}));
  EXPECT_EQ(run_batch(*load(*engine, "7g.80gb"), 1), RunOutcome(Completed{3ms, std::nullopt, std::nullopt}));
  EXPECT_FALSE(engine->capabilities().varies);
}

TEST(Replay, SaysWhereNothingWasMeasured) {
  const auto engine = find_engine("replay")->make(recording());
  EXPECT_EQ(run_batch(*load(*engine, "1g.10gb"), 2), RunOutcome(NotThere{"the measurements file has no such run"}));
  EXPECT_EQ(run_batch(*load(*engine, "1g.10gb", 2), 1), RunOutcome(NotThere{"the measurements file has no such run"}));
  EXPECT_EQ(engine->why_not(point("1g.10gb", 2)), "the measurements file has no such run");
  EXPECT_EQ(engine->why_not(point("1g.10gb", 64)), std::nullopt) << "out of memory is a recorded answer";
}

// 5 ms with a deviation of 0.5 ms: the mean of 4,000 draws deviates by 0.5 / sqrt(4000) = 0.008 ms.
TEST(Replay, DrawsNoiseWithTheRecordedSpread) {
  EngineConfig config = recording();
  config.noise = true;
  const auto engine = find_engine("replay")->make(config);
  const auto replica = load(*engine, "1g.10gb");
  double sum = 0;
  double squares = 0;
  constexpr int kRuns = 4000;
  for (int i = 0; i < kRuns; ++i) {
    const double ms = to_milliseconds(*std::get<Completed>(run_batch(*replica, 1)).duration);
    sum += ms;
    squares += ms * ms;
  }
  const double mean = sum / kRuns;
  EXPECT_NEAR(mean, 5.0, 0.04);
  EXPECT_NEAR(std::sqrt(squares / kRuns - mean * mean), 0.5, 0.03);
  EXPECT_TRUE(engine->capabilities().varies);
}

// The second replica runs another batch first; the noise of batch 1 is the same, and with another seed it is not.
TEST(Replay, DrawsTheNoiseOfAPointFromTheSeedAndThePointAlone) {
  EngineConfig config = recording();
  config.noise = true;
  config.measurements.push_back(run("1g.10gb", 2, 9.0, 0.9));
  const auto engine = find_engine("replay")->make(config);
  const RunOutcome first = run_batch(*load(*engine, "1g.10gb"), 1);
  const auto other = load(*engine, "1g.10gb");
  run_batch(*other, 2);
  EXPECT_EQ(run_batch(*other, 1), first);
  EXPECT_NE(run_batch(*other, 1), first);
  config.seed = 2;
  EXPECT_NE(run_batch(*load(*find_engine("replay")->make(config), "1g.10gb"), 1), first);
}

TEST(Replay, KeepsTheTimeWhereAskedTo) {
  EngineConfig config = recording();
  Duration slept{};
  config.sleep = [&](Duration d) { slept += d; };
  const auto engine = find_engine("replay")->make(config);
  EXPECT_EQ(std::get<Completed>(run_batch(*load(*engine, "1g.10gb"), 1)).duration, 5ms);
  EXPECT_EQ(slept, 5ms);
}

TEST(Emulated, TakesWhatTheModelPredicts) {
  const auto engine = find_engine("emulated")->make(emulation());
  EXPECT_EQ(run_batch(*load(*engine, "1g.10gb"), 8), RunOutcome(Completed{16ms, std::nullopt, 1800.0}));
  EXPECT_EQ(run_batch(*load(*engine, "7g.80gb"), 8), RunOutcome(Completed{8ms, std::nullopt, 1800.0}));
}

// 1g.10gb of an A100-80GB has 9.5 GiB = 9,728 MiB: a batch of 87 needs 9,700, one of 88 needs 9,800.
TEST(Emulated, RunsOutOfMemoryWhereTheSliceEnds) {
  const auto engine = find_engine("emulated")->make(emulation());
  const auto replica = load(*engine, "1g.10gb");
  EXPECT_TRUE(std::holds_alternative<Completed>(run_batch(*replica, 87)));
  EXPECT_EQ(run_batch(*replica, 88), RunOutcome(OutOfMemory{}));
  EXPECT_EQ(engine->why_not(point("1g.10gb", 88)), std::nullopt);
  EXPECT_TRUE(std::holds_alternative<Completed>(run_batch(*load(*engine, "7g.80gb"), 88)));
}

TEST(Emulated, TakesAGivenLimitInsteadOfTheTables) {
  EngineConfig config = emulation();
  config.memory_limit_mib = 1400;
  const auto engine = find_engine("emulated")->make(config);
  const auto replica = load(*engine, "7g.80gb");
  EXPECT_TRUE(std::holds_alternative<OutOfMemory>(run_batch(*replica, 5)));
}

TEST(Emulated, SaysWhereTheModelPredictsNothing) {
  const auto engine = find_engine("emulated")->make(emulation());
  EXPECT_TRUE(std::holds_alternative<NotThere>(run_batch(*load(*engine, "3g.40gb"), 1)));
  EXPECT_NE(engine->why_not(point("3g.40gb", 1)), std::nullopt);
  EXPECT_EQ(engine->why_not(point("7g.80gb", 1)), std::nullopt);
}

TEST(Emulated, LeavesTheWatchToTheCallerInRealTime) {
  EngineConfig config = emulation();
  Duration slept{};
  config.sleep = [&](Duration d) { slept += d; };
  const auto engine = find_engine("emulated")->make(config);
  EXPECT_EQ(std::get<Completed>(run_batch(*load(*engine, "7g.80gb"), 4)).duration, std::nullopt);
  EXPECT_EQ(slept, 4ms);
  EXPECT_FALSE(engine->capabilities().times_itself);
}

// Measured: 1000 MiB at batch 1 and 1700 at batch 8, so 100 for each further sample; out of memory at batch 64 with two
// processes.
TEST(RecordedMemory, FollowsTheLineBetweenBatchesAndEndsWhereMemoryRanOut) {
  Measurement failed = run("1g.10gb", 64, std::nullopt);
  failed.processes = 2;
  const RecordedMemory memory({run("1g.10gb", 1, 1.0, {}, 1000.0), run("1g.10gb", 8, 2.0, {}, 1700.0), failed});
  EXPECT_EQ(memory.mib(point("1g.10gb", 4)), 1300.0);
  EXPECT_EQ(memory.mib(point("1g.10gb", 8)), 1700.0);
  EXPECT_EQ(memory.mib(point("1g.10gb", 64)), 7300.0);
  EXPECT_EQ(memory.mib(point("1g.10gb", 63, 2)), std::nullopt);
  EXPECT_EQ(memory.mib(point("1g.10gb", 64, 3)), std::numeric_limits<double>::infinity());
  EXPECT_EQ(memory.mib(point("7g.80gb", 64, 3)), std::nullopt);
}

}  // namespace
}  // namespace tangram::engines
