#include "measure/session.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "measure/test_engine.h"

namespace tangram::measure {
namespace {

using namespace std::chrono_literals;
using engines::OutOfMemory;
using engines::RunOutcome;
using learn::Candidate;

// The first candidate that is not measured yet.
learn::SamplerChoice in_order(std::span<const Candidate> candidates, std::span<const Measurement> measured) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto is_it = [&](const Measurement& m) { return learn::candidate_of(m) == candidates[i]; };
    if (std::ranges::none_of(measured, is_it)) return {.next = i, .reason = "in order"};
  }
  return {.reason = "no more"};
}

std::vector<Candidate> batches(std::vector<std::int64_t> values) {
  std::vector<Candidate> candidates;
  for (const auto batch : values) candidates.push_back({"1g.10gb", batch, 1, 1});
  return candidates;
}

// A batch takes as many milliseconds, and does not vary: one run for each point. More than 32 does not fit.
struct Bench {
  Bench()
      : engine(clock, [](const RunPoint& p, std::size_t) -> Result<RunOutcome> {
          if (p.batch * p.processes > 32) return RunOutcome(OutOfMemory{});
          return takes(p.batch * 1ms);
        }) {
    engine.varies = false;
    task.target = {"a100-80gb", "bert"};
    task.candidates = batches({1, 2, 4, 8, 16, 32, 64, 128});
    task.budget.measurements_max = 100;
  }

  Result<Report> run() {
    return measure(task, {.engine = engine,
                          .clock = clock,
                          .choose = choose,
                          .store = [this](const Measurements& m) -> Result<Nothing> {
                            if (store_error) return *store_error;
                            stored.push_back(m);
                            return Nothing{};
                          },
                          .interrupted = [this] { return interrupt && interrupt(); },
                          .progress = [this](double share) { shares.push_back(share); }});
  }

  ScriptedClock clock;
  ScriptedEngine engine;
  Task task;
  Choose choose = in_order;
  std::function<bool()> interrupt;
  std::optional<Error> store_error;
  std::vector<Measurements> stored;
  std::vector<double> shares;
};

TEST(Session, StoresAllItHasAfterEveryPoint) {
  Bench bench;
  bench.task.candidates = batches({1, 2, 4});
  const auto report = *bench.run();
  ASSERT_EQ(bench.stored.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(bench.stored[i].size(), i + 1);
  EXPECT_EQ(bench.stored.back(), report.measurements);
  EXPECT_EQ(report.stop, Stop::enough);
  EXPECT_EQ(report.elapsed, 7ms);
  EXPECT_EQ(report.points[2].reason, "in order");
}

// 64 is out of memory, so 128 is never asked; on another slice, and for another size, the question is open again.
TEST(Session, NeverAsksForMoreThanWhatWasOutOfMemory) {
  Bench bench;
  bench.task.candidates = {{"1g.10gb", 64, 2, 1},  {"1g.10gb", 128, 2, 1}, {"1g.10gb", 64, 4, 1}, {"1g.10gb", 64, 2, 2},
                           {"1g.10gb", 128, 1, 1}, {"2g.20gb", 128, 2, 1}, {"1g.10gb", 16, 2, 2}};
  const auto report = *bench.run();
  std::vector<Candidate> measured;
  for (const auto& point : report.points) measured.push_back(learn::candidate_of(point.measurement));
  EXPECT_EQ(measured,
            (std::vector<Candidate>{
                {"1g.10gb", 64, 2, 1}, {"1g.10gb", 128, 1, 1}, {"2g.20gb", 128, 2, 1}, {"1g.10gb", 16, 2, 2}}));
  ASSERT_EQ(report.skipped.size(), 1U);
  EXPECT_EQ(report.skipped[0].reason, "larger than a run that ran out of memory");
  EXPECT_EQ(report.skipped[0].candidates.size(), 3U);
}

// The same after the session that saw it has ended.
TEST(Session, RemembersWhatWasOutOfMemoryBefore) {
  Bench bench;
  Measurement failed;
  failed.device = "a100-80gb";
  failed.model = "bert";
  failed.mig_profile = "1g.10gb";
  failed.batch = 4;
  bench.task.before = {failed};
  const auto report = *bench.run();
  EXPECT_EQ(report.points.size(), 2U);  // Batches 1 and 2.
  EXPECT_EQ(report.measurements.size(), 3U);
  EXPECT_EQ(report.skipped[0].candidates.size(), 5U);
}

TEST(Session, CountsWhatWasThereBeforeAgainstTheBudget) {
  Bench bench;
  bench.task.budget.measurements_max = 3;
  const auto first = *bench.run();
  EXPECT_EQ(first.points.size(), 3U);
  EXPECT_EQ(first.stop, Stop::budget);
  EXPECT_EQ(first.stop_reason, "the budget of 3 measurements is reached");

  Bench second;
  second.task.before = first.measurements;
  second.task.budget.measurements_max = 5;
  const auto report = *second.run();
  ASSERT_EQ(report.points.size(), 2U);
  EXPECT_EQ(report.points[0].measurement.batch, 8);
  EXPECT_EQ(report.measurements.size(), 5U);
  EXPECT_EQ(second.shares.front(), 0) << "progress counts what this session has to do";
}

TEST(Session, MeasuresNothingTwice) {
  Bench bench;
  const auto first = *bench.run();
  Bench second;
  second.task.before = first.measurements;
  const auto report = *second.run();
  EXPECT_TRUE(report.points.empty());
  EXPECT_TRUE(second.engine.asked.empty());
  EXPECT_EQ(report.measurements, first.measurements);
}

// Points take 1, 2, 4 and 8 ms. After the third, 7 ms have passed; the fourth ends at 15 ms.
TEST(Session, EndsWhenTheTimeIsUsedUp) {
  Bench bench;
  bench.task.budget.time_max = 10ms;
  const auto report = *bench.run();
  EXPECT_EQ(report.points.size(), 4U);
  EXPECT_EQ(report.stop, Stop::out_of_time);
  EXPECT_NE(report.stop_reason.find("is used up"), std::string::npos);
  EXPECT_TRUE(std::ranges::is_sorted(bench.shares));
  EXPECT_EQ(bench.shares.back(), 1);
}

// Two points of three runs of warm-up and eight timed ones. The first is taken to need 103 runs until it has ended; the
// second has come half as far again after half of the 11 runs that the first took.
TEST(Session, ShowsProgressWithinAPoint) {
  Bench bench;
  bench.engine.varies = true;
  bench.task.candidates = batches({1, 2});
  ASSERT_TRUE(bench.run().ok());
  EXPECT_TRUE(std::ranges::is_sorted(bench.shares));
  ASSERT_EQ(bench.shares.size(), 25U);  // Before each of 22 runs, before each of two choices, and at the end.
  EXPECT_DOUBLE_EQ(bench.shares[11], 10.0 / 103 / 2);
  EXPECT_DOUBLE_EQ(bench.shares[13 + 5], 0.5 + 5.0 / 11 / 2);
  EXPECT_EQ(bench.shares.back(), 1);
}

TEST(Session, StopsWhereTheSamplerStops) {
  Bench bench;
  bench.choose = [](std::span<const Candidate> candidates, std::span<const Measurement> measured) {
    if (measured.size() < 2) return in_order(candidates, measured);
    return learn::SamplerChoice{.reason = "the error is small enough", .expected_error = 0.04, .expected_regret = 0.01};
  };
  const auto report = *bench.run();
  EXPECT_EQ(report.points.size(), 2U);
  EXPECT_EQ(report.stop, Stop::enough);
  EXPECT_EQ(report.stop_reason, "the error is small enough");
  EXPECT_EQ(report.expected_error, 0.04);
}

// Interrupted at every possible run, what was stored is a beginning of the whole; resumed, it becomes the whole.
TEST(Session, EndsAfterAnInterruptionAsIfNothingHadHappened) {
  Bench whole;
  whole.engine.varies = true;
  whole.task.candidates = batches({1, 2, 4, 64, 128});
  const auto expected = whole.run()->measurements;
  const std::size_t runs = whole.engine.asked.size();
  ASSERT_GT(runs, 20U);
  for (std::size_t at = 0; at < runs; ++at) {
    Bench first;
    first.engine.varies = true;
    first.task.candidates = whole.task.candidates;
    first.interrupt = [&] { return first.engine.asked.size() >= at; };
    const auto report = *first.run();
    EXPECT_EQ(report.stop, Stop::interrupted);
    EXPECT_EQ(first.engine.asked.size(), at);
    Bench second;
    second.engine.varies = true;
    second.task.candidates = whole.task.candidates;
    second.task.before = report.measurements;
    EXPECT_EQ(second.run()->measurements, expected) << at;
  }
}

TEST(Session, LeavesOutWhatTheEngineRefuses) {
  Bench bench;
  bench.engine.refuse = [](const RunPoint& p) {
    return p.batch % 4 == 0 ? std::optional<std::string>("the measurements file has no such run") : std::nullopt;
  };
  const auto report = *bench.run();
  EXPECT_EQ(report.points.size(), 2U);
  ASSERT_EQ(report.skipped.size(), 1U);
  EXPECT_EQ(report.skipped[0].reason, "the measurements file has no such run");
  EXPECT_EQ(report.skipped[0].candidates.size(), 6U);
}

TEST(Session, EndsWithTheErrorOfTheStore) {
  Bench bench;
  bench.store_error = Error{ErrorCode::unavailable, "disk full"};
  EXPECT_EQ(bench.run().error().message, "disk full");
  EXPECT_EQ(bench.engine.asked.size(), 1U);
}

}  // namespace
}  // namespace tangram::measure
