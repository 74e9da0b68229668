#include "serve/gpu_cuts.h"

#include <gtest/gtest.h>

#include "core/geometry.h"
#include "core/layout.h"

namespace tangram::serve {
namespace {

Layout layout(const Geometry& geometry, const std::string& text) { return parse_layout(geometry, text).layout; }

PlannedDevice goal(const Geometry& geometry, const Layout& cuts) {
  PlannedDevice device{"rack-0", geometry.type, geometry, {}};
  for (const auto& slice : cuts.slices) device.slices.push_back({slice, {}});
  return device;
}

TEST(GpuCuts, KeepTheSlicesOfOthers) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  const Layout others = layout(geometry, "3g@4");
  // Beside what the plan wants, and in their place.
  const PlannedDevice beside = keep_reserved(goal(geometry, layout(geometry, "1g@0 + 2g@2")), others);
  EXPECT_EQ(layout_of(beside), layout(geometry, "1g@0 + 2g@2 + 3g@4"));
  EXPECT_EQ(reserved_of(beside), others);
  // Listed already: marked, and not twice.
  const PlannedDevice listed = keep_reserved(goal(geometry, layout(geometry, "2g@0 + 3g@4")), others);
  EXPECT_EQ(layout_of(listed), layout(geometry, "2g@0 + 3g@4"));
  EXPECT_EQ(reserved_of(listed), others);
  // Given up by the plan.
  const PlannedDevice given_up = keep_reserved(goal(geometry, {}), others);
  EXPECT_EQ(layout_of(given_up), others);
  EXPECT_EQ(reserved_of(given_up), others);
  EXPECT_TRUE(keep_reserved(goal(geometry, {}), {}).slices.empty());
}

}  // namespace
}  // namespace tangram::serve
