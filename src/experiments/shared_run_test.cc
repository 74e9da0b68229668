#include "experiments/shared_run.h"

#include <gtest/gtest.h>

#include <set>

namespace tangram::experiments {
namespace {

TEST(SharingCosts, OfANumberedApplicationAreThoseOfItsKind) {
  EXPECT_EQ(sharing_costs("bert").cold_start_s, 8);
  EXPECT_EQ(sharing_costs("infer-bert-2").cold_start_s, 8);
  EXPECT_EQ(sharing_costs("infer-ncf").cold_start_s, 4);
}

TEST(SharingCosts, OfAnyOtherApplicationAreTheMean) { EXPECT_EQ(sharing_costs("gpt-9").cold_start_s, 6); }

// The parts in which two runs differ.
std::vector<std::string> differences(const SharedRun& a, const SharedRun& b) {
  std::vector<std::string> parts;
  const auto part = [&](const char* name, bool differs) {
    if (differs) parts.emplace_back(name);
  };
  part("allocator", a.allocator != b.allocator);
  part("rounds", a.prompt != b.prompt || a.interval_s != b.interval_s);
  part("keep warm", a.keep_warm.kind != b.keep_warm.kind);
  part("reclaim", a.reclaim != b.reclaim);
  part("first ready", a.first_ready != b.first_ready);
  part("shared steps", a.learn_together != b.learn_together);
  part("work left", a.options.work_left_known != b.options.work_left_known);
  return parts;
}

TEST(AblatedRuns, DifferInOnePartFromOursOrFromDeepBoot) {
  std::set<std::string> names;
  std::set<std::string> parts;
  for (const auto& [options, run] : ablated_runs()) {
    const bool published = options.starts_with("ATSI");
    const auto found = differences(run, published ? deepboot_run() : tangram_run());
    ASSERT_EQ(found.size(), 1U) << options;
    parts.insert(found.front());
    EXPECT_TRUE(names.insert(run.allocator + options).second) << options;
    EXPECT_EQ(run.allocator == "deepboot", published || options == "whole_gpu") << options;
  }
  // Every part of ours is taken out once.
  const auto ours = differences(tangram_run(), deepboot_run());
  for (const auto& part : ours) EXPECT_TRUE(parts.contains(part)) << part;
  EXPECT_TRUE(parts.contains("work left"));
}

}  // namespace
}  // namespace tangram::experiments
