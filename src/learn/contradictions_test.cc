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

TEST(Contradictions, ModelsAreJudgedApart) {
  Measurements measurements{run("1g.10gb", 8, 1, false), run("1g.10gb", 16, 1, true)};
  measurements[1].model = "other";
  EXPECT_TRUE(contradictions_of(measurements).empty());
}

}  // namespace
}  // namespace tangram::learn
