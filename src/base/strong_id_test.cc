#include "base/strong_id.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace tangram {
namespace {

using AppleId = StrongId<struct AppleTag>;
using PearId = StrongId<struct PearTag>;
using WideId = StrongId<struct WideTag, std::uint64_t>;

static_assert(!std::is_convertible_v<AppleId, PearId>, "ids of different things do not mix");
static_assert(!std::is_convertible_v<int, AppleId>, "a number is not an id");
static_assert(!std::is_convertible_v<AppleId, int>, "an id is not a number");
static_assert(sizeof(AppleId) == 4 && sizeof(WideId) == 8, "an id costs what its number costs");

TEST(StrongId, StartsAtZeroAndComparesByValue) {
  EXPECT_EQ(AppleId{}.value(), 0U);
  EXPECT_LT(AppleId{1}, AppleId{2});
  EXPECT_EQ(AppleId{3}, AppleId{3});
  EXPECT_EQ(AppleId{3}.index(), 3U);
}

TEST(StrongId, KeepsTheWidthOfItsNumber) { EXPECT_EQ(WideId{1ULL << 40}.value(), 1ULL << 40); }

TEST(StrongId, IsAKeyOfHashedContainers) {
  const std::unordered_set<AppleId> set{AppleId{1}, AppleId{2}, AppleId{1}};
  EXPECT_EQ(set.size(), 2U);
}

}  // namespace
}  // namespace tangram
