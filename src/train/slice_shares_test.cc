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

// One slice, two jobs. The first has it until it has had it for a minute (60). The other then has its minute, and as both
// have left the first queue, keeps it until it leaves the second with two (180). Then the first goes on from one minute to
// the end of the third queue, four (360).
TEST(SliceShares, TakesASliceFromAJobOnlyWhenItHasHadItsTurn) {
  std::vector<SliceAsker> jobs{{.order = 0, .fits = kAnywhere}, {.order = 1, .fits = kAnywhere}};
  std::vector<double> changes;
  std::size_t holder = 0;
  for (int second = 0; second < 480; ++second) {
    for (std::size_t j = 0; j < 2; ++j) jobs[j].has.clear();
    if (second > 0) jobs[holder].has = {0};
    const Shares shares = share_slices(jobs, 1);
    const std::size_t next = shares[0].empty() ? 1 : 0;
    if (second > 0 && next != holder) changes.push_back(second);
    holder = next;
    jobs[holder].attained_s += 1;
  }
  EXPECT_EQ(changes, (std::vector<double>{60, 180, 360}));
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

// Job 0 is 1.9 times as fast with two slices and 2.1 times with three, job 1 only 1.2 times with two: of five slices, the
// first gets its second (0.9 > 0.2), then job 1 its second (0.2 > 0.105), then job 0 its third. A fourth would make job 0
// faster by less than 2 %, and job 1 has what it may have.
TEST(SliceShares, GivesASliceToTheJobThatGainsMostByIt) {
  const std::vector<SliceAsker> jobs{{.min = 1, .max = 4, .speeds = {1, 1.9, 2.1, 2.12}, .fits = kAnywhere},
                                     {.order = 1, .min = 1, .max = 2, .speeds = {5, 6}, .fits = kAnywhere}};
  EXPECT_EQ(share_slices(jobs, 3), (Shares{{0, 2}, {1}}));
  EXPECT_EQ(share_slices(jobs, 4), (Shares{{0, 2}, {1, 3}}));
  EXPECT_EQ(share_slices(jobs, 5), (Shares{{0, 2, 4}, {1, 3}}));
  EXPECT_EQ(share_slices(jobs, 8), (Shares{{0, 2, 4}, {1, 3}}));
}

// Its steps were timed with one and two slices only, so it tries a third.
TEST(SliceShares, LetsAJobTryMoreSlicesThanItHasTimed) {
  const std::vector<SliceAsker> jobs{{.min = 1, .max = 3, .speeds = {1, 1.5}, .fits = kAnywhere}};
  EXPECT_EQ(share_slices(jobs, 3), (Shares{{0, 1, 2}}));
}

TEST(SliceShares, GivesOnlyWhatFits) {
  const std::vector<SliceAsker> jobs{{.min = 1, .max = 4, .fits = {false, true}},
                                     {.order = 1, .min = 1, .max = 4, .fits = {false, false, false}}};
  EXPECT_EQ(share_slices(jobs, 3), (Shares{{1}, {}}));
}

}  // namespace
}  // namespace tangram::train
