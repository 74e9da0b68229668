#include "base/json_reader.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace tangram {
namespace {

bool skips(std::string_view text) {
  JsonReader json(text);
  return json.skip() && json.end();
}

// Each text is judged as an independent parser judges it.
TEST(JsonReader, ReadsNumbersThatJsonHasNotWhereAllowed) {
  for (const std::string text : {"[NaN, Infinity,-Infinity, -1]", "[[NaN],{\"a\":-Infinity}]"}) {
    JsonReader strict(text);
    EXPECT_FALSE(strict.skip()) << text;
    JsonReader json(text);
    json.allow_non_finite();
    EXPECT_TRUE(json.skip() && json.end()) << text;
  }
  JsonReader json("Infinity");
  json.allow_non_finite();
  EXPECT_EQ(json.peek(), '0');
  double value = 0;
  EXPECT_TRUE(json.number(value));
  EXPECT_EQ(value, std::numeric_limits<double>::infinity());
  JsonReader other("Nan");
  other.allow_non_finite();
  EXPECT_FALSE(other.number(value));
}

TEST(JsonReader, AcceptsWhatIsJsonAndNothingElse) {
  const std::vector<std::string> texts{
      "{}", "[]", "null", "true", "false", "0", "-0", "-1.5e+10", "1E5", R"("a")", R"({"a":[1,{"b":null}],"c":"d"})",
      " \t\r\n[ 1 , 2 ] ", R"("\u00e9\ud83d\ude00\n\"\\\/")", "\"\xc3\xa9\"",
      // Not JSON.
      "", " ", "{", "}", "[1,]", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "01", "1.", ".5", "+1", "1e", "nul", "True", "'a'",
      "\"a", R"("\x")", R"("\ud83d")", R"("\ude00")", "\"\x01\"", "\"\xc3\"", "\"\xff\"", "\"\xed\xa0\x80\"",
      "\"\xc0\xaf\"", "[1] 2", "[1 2]", "NaN", "Infinity", "-", "\"\xf4\x90\x80\x80\""};
  for (const auto& text : texts) {
    EXPECT_EQ(skips(text), nlohmann::json::accept(text)) << text;
  }
}

TEST(JsonReader, HasALimitForNesting) {
  EXPECT_TRUE(skips(std::string(64, '[') + std::string(64, ']')));
  EXPECT_FALSE(skips(std::string(65, '[') + std::string(65, ']')));
}

TEST(JsonReader, GivesTheCharactersThatEscapesMean) {
  JsonReader json(R"("\u00e9\ud83d\ude00\t\/")");
  std::string text;
  ASSERT_TRUE(json.string(text));
  EXPECT_EQ(text, "\xc3\xa9\xf0\x9f\x98\x80\t/");
}

// 2^63 is one too large for an int64, and 256 for an uint8.
TEST(JsonReader, KeepsWholeNumbersWithinTheirType) {
  std::int64_t wide = 0;
  std::uint8_t narrow = 0;
  EXPECT_TRUE(JsonReader("9223372036854775807").integer(wide));
  EXPECT_EQ(wide, std::numeric_limits<std::int64_t>::max());
  EXPECT_FALSE(JsonReader("9223372036854775808").integer(wide));
  EXPECT_TRUE(JsonReader("255").integer(narrow));
  EXPECT_FALSE(JsonReader("256").integer(narrow));
  EXPECT_FALSE(JsonReader("-1").integer(narrow));
  EXPECT_FALSE(JsonReader("1.0").integer(wide));
}

TEST(JsonReader, RefusesNumbersThatNoDoubleHolds) {
  double value = 1;
  EXPECT_FALSE(JsonReader("1e999").number(value));
  EXPECT_TRUE(JsonReader("1e-999").number(value));
  EXPECT_EQ(value, 0);
}

TEST(JsonReader, SaysWhereItStopped) {
  JsonReader json("[1, x]");
  EXPECT_FALSE(json.skip());
  EXPECT_EQ(json.problem(), "expected a value at byte 4");
}

TEST(JsonText, ReadsBackAsWhatWasWritten) {
  std::string out;
  append_json_string(out, std::string_view("a\"\\\n\0b", 6));
  std::string back;
  ASSERT_TRUE(JsonReader(out).string(back));
  EXPECT_EQ(back, std::string_view("a\"\\\n\0b", 6));
  out.clear();
  append_json_number(out, 0.1f);
  append_json_number(out += ' ', std::numeric_limits<double>::infinity());
  append_json_number(out += ' ', std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(out, "0.1 null 18446744073709551615");
}

}  // namespace
}  // namespace tangram
