#include "learn/contradictions.h"

#include <gtest/gtest.h>

namespace tangram::learn {
namespace {

Measurement run(const char* profile, std::int64_t batch, std::int64_t processes, bool fitted) {
  Measurement m;
  m.device = "a100-80gb";
  m.mig_profile = profile;
  m.model = "net";
  m.batch = batch;
  m.processes = processes;
  if (fitted) m.latency_ms = 10;
  return m;
}

TEST(Contradictions, ASmallerRunThatFailsContradictsALargerOneThatFitted) {
  const Measurements measurements{run("1g.10gb", 8, 1, false), run("1g.10gb", 4, 1, true), run("1g.10gb", 16, 1, true)};
  EXPECT_EQ(contradictions_of(measurements), (std::vector<Contradiction>{{0, 2}}));
}

TEST(Contradictions, ALargerSliceThatFailsContradictsASmallerOneThatFitted) {
  const Measurements measurements{run("1g.10gb", 8, 2, true), run("7g.80gb", 8, 1, false)};
  EXPECT_EQ(contradictions_of(measurements), (std::vector<Contradiction>{{1, 0}}));
}

// More samples in fewer processes, or on a larger slice, say nothing about fewer samples in more.
TEST(Contradictions, RunsThatAskForDifferentThingsDoNotContradict) {
  const Measurements measurements{run("1g.10gb", 8, 2, false), run("1g.10gb", 16, 1, true), run("2g.20gb", 8, 2, true)};
  EXPECT_TRUE(contradictions_of(measurements).empty());
}

// 1g.10gb has 9.75 GiB of an A100-80GB: 9,984 MiB. Slices that nobody knows, and runs that failed, say nothing.
TEST(Contradictions, MoreMemoryThanTheSliceHasIsFound) {
  Measurements measurements{run("1g.10gb", 8, 1, true), run("1g.10gb", 4, 1, true), run("1g.10gb", 16, 1, false),
                            run("9g.1gb", 1, 1, true)};
  measurements[0].memory_mib = 90'000;
  measurements[1].memory_mib = 9'000;
  measurements[2].memory_mib = 90'000;
  measurements[3].memory_mib = 90'000;
  const auto found = overfull_of(measurements);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].run, 0u);
  EXPECT_NEAR(found[0].slice_mib, 9'984, 300);
}

TEST(Contradictions, ModelsAreJudgedApart) {
  Measurements measurements{run("1g.10gb", 8, 1, false), run("1g.10gb", 16, 1, true)};
  measurements[1].model = "other";
  EXPECT_TRUE(contradictions_of(measurements).empty());
}

Measurement timed(const char* profile, std::int64_t batch, std::int64_t processes, double latency_ms) {
  Measurement m = run(profile, batch, processes, true);
  m.latency_ms = latency_ms;
  return m;
}

// 5 ms a sample and process on 1g.10gb, the second half of twenty rows in seconds. Batch 16 takes 16 times as long as
// batch 1 and 4 processes 4 times, all of which the work explains; a thousandth is not. One half or the other is named.
TEST(Mismatches, AHalfInAnotherUnitIsNamed) {
  Measurements measurements;
  for (const std::int64_t batch : {1, 2, 4, 8, 16}) {
    for (const std::int64_t processes : {1, 2, 3, 4}) {
      measurements.push_back(timed("1g.10gb", batch, processes, 5.0 * static_cast<double>(batch * processes)));
    }
  }
  EXPECT_TRUE(mismatches_of(measurements).empty());
  for (std::size_t i = 10; i < 20; ++i) *measurements[i].latency_ms /= 1000;
  const auto found = mismatches_of(measurements);
  ASSERT_EQ(found.size(), 10U);
  for (const auto& mismatch : found) {
    EXPECT_EQ(mismatch.run < 10, found[0].run < 10);
    EXPECT_NE(mismatch.run < 10, mismatch.other < 10);
    EXPECT_GT(mismatch.factor, kMismatchFactor);
  }
}

// The one row that contradicts all others is named, and none of those. 7g.80gb has 8 eighths of the memory bandwidth
// and runs up to 8 times as fast, so that 5 ms beside 40 ms is work; batch 4 takes no less than batch 1.
TEST(Mismatches, AnOutlierIsNamedAlone) {
  const Measurements measurements{timed("1g.10gb", 1, 1, 40), timed("7g.80gb", 1, 1, 5), timed("1g.10gb", 2, 1, 80),
                                  timed("1g.10gb", 4, 1, 0.16)};
  const auto found = mismatches_of(measurements);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].run, 3U);
  EXPECT_EQ(found[0].other, 2U);
  EXPECT_NEAR(found[0].factor, 500, 1);
}

TEST(Mismatches, ModelsAreJudgedApart) {
  Measurements measurements{timed("1g.10gb", 1, 1, 10), timed("1g.10gb", 1, 1, 0.01)};
  EXPECT_EQ(mismatches_of(measurements).size(), 1U);
  measurements[1].model = "other";
  EXPECT_TRUE(mismatches_of(measurements).empty());
}

}  // namespace
}  // namespace tangram::learn
