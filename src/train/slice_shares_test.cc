#include "train/slice_shares.h"

#include <gtest/gtest.h>

namespace tangram::train {
namespace {

using Shares = std::vector<std::vector<std::size_t>>;
const std::vector<bool> kAnywhere(8, true);

// Three slices, two jobs that may have three each: the one with less attained service gets the odd one.
TEST(SliceShares, SharesEquallyAndGivesTheRestToWhoHadLeast) {
  const std::vector<SliceAsker> jobs{{.attained_s = 9, .order = 0, .min = 1, .max = 3, .fits = kAnywhere},
                                     {.attained_s = 2, .order = 1, .min = 1, .max = 3, .fits = kAnywhere}};
  const Shares shares = share_slices(jobs, 3);
  EXPECT_EQ(shares[0].size(), 1U);
  EXPECT_EQ(shares[1].size(), 2U);
}

// Of two slices, the job that needs two gets both by its priority; the other waits. Without it, the first would.
TEST(SliceShares, GivesTheMinimumOfAHigherPriorityFirst) {
  std::vector<SliceAsker> jobs{{.order = 0, .min = 1, .max = 4, .fits = kAnywhere},
                               {.priority = 1, .order = 1, .min = 2, .max = 2, .fits = kAnywhere}};
  EXPECT_EQ(share_slices(jobs, 2), (Shares{{}, {0, 1}}));
  jobs[1].priority = -1;
  EXPECT_EQ(share_slices(jobs, 2), (Shares{{0, 1}, {}}));
}

// Job 0 grew onto all four slices; job 1 arrives. Job 0 keeps two of its own, and job 1 gets the others.
TEST(SliceShares, LeavesJobsOnTheirSlices) {
  const std::vector<SliceAsker> jobs{
      {.attained_s = 50, .order = 0, .min = 1, .max = 4, .fits = kAnywhere, .has = {3, 2}},
      {.order = 1, .min = 1, .max = 4, .fits = kAnywhere}};
  EXPECT_EQ(share_slices(jobs, 4), (Shares{{2, 3}, {0, 1}}));
}

TEST(SliceShares, GivesOnlyWhatFits) {
  const std::vector<SliceAsker> jobs{{.min = 1, .max = 4, .fits = {false, true}},
                                     {.order = 1, .min = 1, .max = 4, .fits = {false, false, false}}};
  EXPECT_EQ(share_slices(jobs, 3), (Shares{{1}, {}}));
}

}  // namespace
}  // namespace tangram::train
