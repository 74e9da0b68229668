#include "serve/device_warmup.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

TEST(DeviceWarmup, EndsWhenEverySliceHasAnsweredAndKeepsThoseThatFailed) {
  DeviceWarmup warmup;
  warmup.begin(DeviceId(3));
  EXPECT_TRUE(warmup.all_answered());
  warmup.wait_for(SliceId(5));
  warmup.wait_for(SliceId(6));
  EXPECT_FALSE(warmup.waits_for(SliceId(4)));
  warmup.answered(SliceId(6), false);
  EXPECT_FALSE(warmup.all_answered());
  warmup.answered(SliceId(5), true);
  EXPECT_TRUE(warmup.all_answered());
  EXPECT_EQ(warmup.finish(), DeviceId(3));
  EXPECT_EQ(warmup.take_failed(), std::vector<SliceId>{SliceId(6)});
  EXPECT_TRUE(warmup.take_failed().empty());
}

}  // namespace
}  // namespace tangram::serve
