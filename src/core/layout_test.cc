#include "core/layout.h"

#include <gtest/gtest.h>

namespace tangram {
namespace {

LayoutCounts counts(const char* type, ProfileSet set) {
  const auto result = count_layouts(restrict_to(*find_geometry(type), set));
  EXPECT_TRUE(result.ok());
  return result.ok() ? *result : LayoutCounts{};
}

TEST(Layouts, OfEveryTypeAreCountedExactly) {
  using enum ProfileSet;
  for (const char* type : {"a100-40gb", "a100-80gb", "h100-80gb", "h100-94gb", "h100-96gb", "h200-141gb", "gh200-144gb",
                           "b200-180gb", "gb200-186gb", "b300", "gb300"}) {
    EXPECT_EQ(counts(type, base), (LayoutCounts{298, 19, 38, 12})) << type;
    EXPECT_EQ(counts(type, double_memory), (LayoutCounts{723, 78, 78, 28})) << type;
    EXPECT_EQ(counts(type, media), (LayoutCounts{2319, 239, 128, 44})) << type;
  }
  EXPECT_EQ(counts("a30", base), (LayoutCounts{26, 5, 10, 4}));
  EXPECT_EQ(counts("a30", media), (LayoutCounts{76, 17, 20, 8}));
  EXPECT_EQ(counts("rtx-pro-6000", base), (LayoutCounts{26, 5, 10, 4}));
}

}  // namespace
}  // namespace tangram
