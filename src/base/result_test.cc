#include "base/result.h"

#include <gtest/gtest.h>

#include <string>

#include <memory>
#include <vector>

namespace tangram {
namespace {

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> good = 7;
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(static_cast<bool>(good));
  EXPECT_EQ(*good, 7);
  const Result<int> bad = Error{ErrorCode::not_found, "fleet.yaml: no such file"};
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error(), (Error{ErrorCode::not_found, "fleet.yaml: no such file"}));
}

TEST(Result, GivesUpAValueThatCanOnlyMove) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 3);
}

TEST(Result, LetsItsValueBeChanged) {
  Result<std::vector<int>> result = std::vector<int>{1};
  result->push_back(2);
  (*result)[0] = 5;
  EXPECT_EQ(result.value(), (std::vector<int>{5, 2}));
}

TEST(Result, OutlivesALoopOverATemporary) {
  const auto list = []() -> Result<std::vector<int>> { return std::vector<int>{1, 2, 3}; };
  int sum = 0;
  for (const int x : *list()) sum += x;
  EXPECT_EQ(sum, 6);
}

TEST(Result, OfNothingOnlySaysWhetherItWorked) {
  const Result<Nothing> result = Nothing{};
  EXPECT_TRUE(result.ok());
}

Result<int> half_of(int number) {
  if (number % 2 != 0) return Error{ErrorCode::invalid, "odd"};
  return number / 2;
}

Result<Nothing> check_even(int number) {
  TANGRAM_RETURN_IF_ERROR(half_of(number));
  return Nothing{};
}

// 12 halves to 6 and 3; 3 cannot be halved again.
Result<std::string> eighth_of(int number) {
  TANGRAM_TRY(const int half, half_of(number));
  int quarter = 0;
  TANGRAM_TRY(quarter, half_of(half));
  TANGRAM_TRY(const auto eighth, half_of(quarter));
  return std::to_string(eighth);
}

TEST(Result, TryTakesTheValueOrReturnsTheFirstError) {
  EXPECT_EQ(*eighth_of(16), "2");
  EXPECT_EQ(eighth_of(12).error().message, "odd");
  EXPECT_TRUE(check_even(4).ok());
  EXPECT_EQ(check_even(5).error().message, "odd");
}

TEST(ResultDeathTest, StopsWhenTheWrongHalfIsTaken) {
  const Result<int> bad = Error{ErrorCode::invalid, "line 3 is wrong"};
  EXPECT_DEATH(static_cast<void>(*bad), "line 3 is wrong");
  const Result<int> good = 1;
  EXPECT_DEATH(static_cast<void>(good.error()), "has no error");
}

TEST(CheckDeathTest, PrintsThePlaceTheConditionAndTheReason) {
  EXPECT_DEATH(TANGRAM_CHECK(1 + 1 == 3, "sums hold"),
               "result_test\\.cc:[0-9]+: check failed: 1 \\+ 1 == 3: sums hold");
}

TEST(Check, EvaluatesItsConditionOnce) {
  int calls = 0;
  TANGRAM_CHECK(++calls == 1, "the first call");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace tangram
