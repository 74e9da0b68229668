#include "core/plan.h"

#include <gtest/gtest.h>

namespace tangram {
namespace {

TEST(PlannedDevice, HasTheLayoutOfItsSlices) {
  PlannedDevice device;
  device.geometry = *find_geometry("a100-40gb");
  const Layout expected = parse_layout(device.geometry, "4g@0 + 3g@4").layout;
  for (const auto& slice : expected.slices) device.slices.push_back({slice, {}});
  EXPECT_EQ(layout_of(device), expected);
  EXPECT_EQ(layout_of(PlannedDevice{}), Layout{});
}

}  // namespace
}  // namespace tangram
