#include "core/request.h"

#include <gtest/gtest.h>

#include <set>

namespace tangram {
namespace {

// Reports count outcomes in arrays by the value of the enumerator, so the lists follow it without a gap.
TEST(Request, ListsOutcomesAndReasonsInTheOrderOfTheirValues) {
  for (std::size_t i = 0; i < kOutcomeKinds.size(); ++i) EXPECT_EQ(index_of(kOutcomeKinds[i]), i);
  for (std::size_t i = 0; i < kRejectReasons.size(); ++i) EXPECT_EQ(index_of(kRejectReasons[i]), i);
}

TEST(Request, NamesEveryOutcomeAndReasonDifferently) {
  std::set<std::string_view> names;
  for (const auto kind : kOutcomeKinds) names.insert(to_string(kind));
  for (const auto reason : kRejectReasons) names.insert(to_string(reason));
  EXPECT_EQ(names.size(), kOutcomeKinds.size() + kRejectReasons.size());
  EXPECT_FALSE(names.contains(""));
  EXPECT_EQ(to_string(OutcomeKind::served), "served");
  EXPECT_EQ(to_string(RejectReason::queue_full), "queue_full");
}

}  // namespace
}  // namespace tangram
