#include "serve/device_warmup.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

TEST(DeviceWarmup, EndsWhenEverySliceHasAnsweredAndKeepsThoseThatFailed) {
  DeviceWarmup warmup;
  EXPECT_TRUE(warmup.all_answered());
  warmup.wait_for(SliceId(5));
  warmup.wait_for(SliceId(6));
  EXPECT_FALSE(warmup.waits_for(SliceId(4)));
  warmup.answered(SliceId(6), false);
  EXPECT_FALSE(warmup.all_answered());
  warmup.answered(SliceId(5), true);
  EXPECT_TRUE(warmup.all_answered());
  EXPECT_EQ(warmup.failed(), std::vector<SliceId>{SliceId(6)});
}

// Also after finish(): the World hears of the device a moment later.
TEST(DeviceWarmup, KeepsSlicesThatAreLostAfterTheyWereReady) {
  DeviceWarmup warmup;
  warmup.wait_for(SliceId(1));
  warmup.wait_for(SliceId(2));
  warmup.answered(SliceId(1), true);
  warmup.lost(SliceId(1));
  EXPECT_FALSE(warmup.all_answered());
  warmup.answered(SliceId(2), true);
  warmup.finish();
  warmup.lost(SliceId(2));
  EXPECT_EQ(warmup.failed(), (std::vector<SliceId>{SliceId(1), SliceId(2)}));
}

TEST(DeviceWarmup, StartsASliceAgainSomeTimesUntilTheDeviceIsReady) {
  DeviceWarmup warmup;
  warmup.wait_for(SliceId(1));
  for (int i = 0; i < DeviceWarmup::kTriesAgain; ++i) EXPECT_TRUE(warmup.try_again(SliceId(1)));
  EXPECT_FALSE(warmup.try_again(SliceId(1)));
  EXPECT_TRUE(warmup.try_again(SliceId(2)));
  warmup.answered(SliceId(1), true);
  warmup.finish();
  EXPECT_FALSE(warmup.try_again(SliceId(2)));
}

}  // namespace
}  // namespace tangram::serve
