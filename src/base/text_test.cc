#include "base/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace tangram::text {
namespace {

TEST(Trim, RemovesBlanksAtBothEndsOnly) {
  EXPECT_EQ(trim("  a b\t\r\n"), "a b");
  EXPECT_EQ(trim("ab"), "ab");
  EXPECT_EQ(trim(" \t\n\f\v\r"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Split, GivesOnePartMoreThanSeparators) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split("a,b,c", ','), (Parts{"a", "b", "c"}));
  EXPECT_EQ(split("", ','), (Parts{""}));
  EXPECT_EQ(split(",", ','), (Parts{"", ""}));
  EXPECT_EQ(split("a,,b,", ','), (Parts{"a", "", "b", ""}));
}

TEST(Join, UndoesSplit) {
  for (const char* text : {"", "a", ",", ",a", "a,", "a,,b", ",,"}) {
    std::vector<std::string> parts;
    for (const auto part : split(text, ',')) parts.emplace_back(part);
    EXPECT_EQ(join(parts, ","), text);
  }
  EXPECT_EQ(join({}, ","), "");
}

TEST(Lower, ChangesLettersOfTheAlphabetOnly) {
  EXPECT_EQ(lower("A100-80GB Z@["), "a100-80gb z@[");
  EXPECT_EQ(lower("\xc3\x84"), "\xc3\x84");  // UTF-8 beyond ASCII stays as it is.
}

TEST(ParseInteger, ReadsWholeNumbersAndNothingElse) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-17"), -17);
  EXPECT_EQ(parse_integer("+17"), 17);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_integer("-9223372036854775808"), INT64_MIN);
  for (const char* text : {"", "+", "-", "+-5", "-+5", "++5", "--5", "9223372036854775808", "1.0", " 1", "1 ", "0x10",
                           "1e3", "ten", "1\n"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(ParseNumber, ReadsFiniteDecimalNumbersAndNothingElse) {
  EXPECT_EQ(parse_number("0.1"), 0.1);
  EXPECT_EQ(parse_number("+2.5e3"), 2500.0);
  EXPECT_EQ(parse_number("-.5"), -0.5);
  EXPECT_EQ(parse_number("1e308"), 1e308);
  for (const char* text :
       {"", "+", ".", "+-1", "-+1", "1,5", "inf", "-infinity", "nan", "1e309", "0x1p3", " 1", "1 ", "1e", "1.2.3"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
  }
}

TEST(Shortest, ReadsBackAsTheSameNumber) {
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(3), "3");
  EXPECT_EQ(shortest(1e22), "1e+22");
  EXPECT_EQ(shortest(-2.5), "-2.5");
  Rng rng(1);
  for (int i = 0; i < 10'000; ++i) {
    const double value = std::bit_cast<double>(rng.next_u64());
    if (!std::isfinite(value)) continue;
    const auto read = parse_number(shortest(value));
    ASSERT_TRUE(read.has_value()) << shortest(value);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(*read), std::bit_cast<std::uint64_t>(value));
  }
}

TEST(EditDistance, CountsChangesInsertionsRemovalsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", "abc"), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("abc", "abd"), 1U);
  EXPECT_EQ(edit_distance("abc", "abcd"), 1U);
  EXPECT_EQ(edit_distance("abc", "ac"), 1U);
  EXPECT_EQ(edit_distance("abc", "acb"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(EditDistance, IsSymmetricAndZeroOnlyBetweenEqualWords) {
  Rng rng(2);
  const auto word = [&] {
    std::string text(rng.below(7), 'a');
    for (char& c : text) c = static_cast<char>('a' + rng.below(3));
    return text;
  };
  for (int i = 0; i < 2'000; ++i) {
    const std::string a = word();
    const std::string b = word();
    ASSERT_EQ(edit_distance(a, b), edit_distance(b, a)) << a << " " << b;
    ASSERT_EQ(edit_distance(a, b) == 0, a == b);
    ASSERT_LE(edit_distance(a, b), std::max(a.size(), b.size()));
  }
}

TEST(Nearest, SuggestsWhatWasMeantOrNothing) {
  const std::vector<std::string> keys{"devices", "count", "price_per_hour", "type"};
  EXPECT_EQ(nearest("device", keys), "devices");
  EXPECT_EQ(nearest("Devcies", keys), "devices");
  EXPECT_EQ(nearest("price_per_huor", keys), "price_per_hour");
  EXPECT_EQ(nearest("tpye", keys), "type");
  EXPECT_EQ(nearest("zebra", keys), std::nullopt);
  EXPECT_EQ(nearest("pric", keys), "price_per_hour");
  EXPECT_EQ(nearest("pr", keys), std::nullopt);
  EXPECT_EQ(nearest("count", {}), std::nullopt);
  EXPECT_EQ(nearest(std::string(101, 'c'), std::vector<std::string>{std::string(101, 'c')}), std::nullopt);
}

}  // namespace
}  // namespace tangram::text
