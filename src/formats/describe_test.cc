#include "formats/describe.h"

#include <gtest/gtest.h>

namespace tangram::formats {
namespace {

using namespace std::chrono_literals;

enum class Colour { red, green };
struct Fixed {
  int value = 3;
};
struct Spread {
  double low = 0;
  double high = 1;
};
using Choice = std::variant<Fixed, Spread>;

// One of everything.
struct Sample {
  int count = 2;
  double share = 0.5;
  bool on = false;
  std::string name = "x";
  Duration wait = 5ms;
  Colour colour = Colour::red;
  std::optional<int> limit;
  std::vector<Fixed> list;
  Choice choice = Fixed{};
};

template <typename Visitor>
void describe(Visitor& v, Colour& c) {
  v.name("red", c, Colour::red, "Warm.");
  v.name("green", c, Colour::green, "Fresh.");
}
template <typename Visitor>
void describe(Visitor& v, Fixed& c) {
  v.field("value", c.value, {.min = 1, .max = 9, .required = true}, "A value.");
}
template <typename Visitor>
void describe(Visitor& v, Spread& c) {
  v.field("low", c.low, "Low end.");
  v.field("high", c.high, "High end.");
  v.rule(c.low <= c.high, {"high", "low"}, "high must be at least low");
}
template <typename Visitor>
void describe(Visitor& v, Choice& c) {
  v.plain(c, &Fixed::value, {.min = 1, .max = 9}, "Short.");
  v.option("fixed", c, Fixed{}, "One value.");
  v.option("spread", c, Spread{}, "A range.");
}
template <typename Visitor>
void describe(Visitor& v, Sample& c) {
  v.about("Sample", "One of everything.");
  v.field("count", c.count, {.min = 1, .max = 256}, "How many.");
  v.field("share", c.share, {.above = 0, .below = 1}, "How much.");
  v.field("on", c.on, "Whether.");
  v.field("name", c.name, {.text = TextRule::name}, "What.");
  v.field("wait_ms", c.wait, {.min = 0}, "How long.");
  v.field("colour", c.colour, "Which.");
  v.field("limit", c.limit, "Perhaps.");
  v.field("list", c.list, "Several.");
  v.field("choice", c.choice, "One of them.");
}

struct Reading {
  Sample sample;
  std::string problems;
};

Reading read(const std::string& text) {
  Reading reading;
  Problems problems("s.yaml");
  const auto root = parse_yaml({"s.yaml", text}, problems);
  if (root) read_document(*root, problems, reading.sample);
  if (!problems.empty()) reading.problems = problems.error().message;
  return reading;
}

TEST(Describe, ReadsEveryKindOfField) {
  const auto [s, problems] = read(
      "count: 7\nshare: 0.25\non: true\nname: a-b\nwait_ms: 1.5\ncolour: green\nlimit: -4\nlist:\n  - value: 1\n  - "
      "{value: 9}\n"
      "choice: {spread: {low: 2, high: 3}}\n");
  ASSERT_EQ(problems, "");
  EXPECT_EQ(s.count, 7);
  EXPECT_EQ(s.share, 0.25);
  EXPECT_TRUE(s.on);
  EXPECT_EQ(s.name, "a-b");
  EXPECT_EQ(s.wait, 1500us);
  EXPECT_EQ(s.colour, Colour::green);
  EXPECT_EQ(s.limit, -4);
  ASSERT_EQ(s.list.size(), 2U);
  EXPECT_EQ(s.list[1].value, 9);
  EXPECT_EQ(std::get<Spread>(s.choice).high, 3);
}

TEST(Describe, KeepsTheDefaultOfAFieldThatIsNotThere) {
  const auto [s, problems] = read("on: true\n");
  EXPECT_EQ(problems, "");
  EXPECT_EQ(s.count, 2);
  EXPECT_EQ(s.wait, 5ms);
  EXPECT_FALSE(s.limit.has_value());
}

TEST(Describe, ReportsAllProblemsInOrderOfTheirPlaces) {
  EXPECT_EQ(
      read("colour: geen\ncount: 0\nshare: 1\nname: a b\nwait_ms: soon\nlimit: 1.5\nlist: 4\non: yes\n").problems,
      "s.yaml:1:9: colour is unknown: \"geen\", did you mean green?; known: red, green\n"
      "s.yaml:2:8: count must be at least 1, not 0\n"
      "s.yaml:3:8: share must be less than 1, not 1\n"
      "s.yaml:4:7: name must consist of letters, digits, '.', '_' and '-' and begin with a letter or digit; read \"a "
      "b\"\n"
      "s.yaml:5:10: wait_ms must be a number, not \"soon\"\n"
      "s.yaml:6:8: limit must be a whole number, not \"1.5\"\n"
      "s.yaml:7:7: list must be a list\n"
      "s.yaml:8:5: on must be true or false, not \"yes\"");
}

TEST(Describe, SuggestsTheNearestKey) {
  EXPECT_EQ(
      read("cuont: 1\n").problems,
      "s.yaml:1:1: key is unknown: \"cuont\", did you mean count?; known: count, share, on, name, wait_ms, colour, "
      "limit, list, choice");
}

TEST(Describe, TellsTextFromNumbers) {
  EXPECT_EQ(read("name: 12\n").problems,
            "s.yaml:1:7: name must be a string; if 12 is meant as one, write it in quotes");
  EXPECT_EQ(read("name: \"12\"\n").problems, "");
  EXPECT_EQ(read("count: \"12\"\n").problems, "s.yaml:1:8: count must not be in quotes: \"12\"");
  EXPECT_EQ(read("count:\n").problems, "s.yaml:1:1: count has no value");
  EXPECT_EQ(read("count: [1]\n").problems, "s.yaml:1:8: count must be a single value");
}

TEST(Describe, WantsExactlyOneOptionOfAChoice) {
  EXPECT_EQ(read("choice: 4\n").problems, "");
  EXPECT_EQ(read("choice: 44\n").problems, "s.yaml:1:9: must be at most 9, not 44");
  EXPECT_EQ(read("choice: {fixed: {value: 1}, spread: {}}\n").problems,
            "s.yaml:1:29: fixed and spread cannot be combined");
  EXPECT_EQ(read("choice: {}\n").problems, "s.yaml:1:9: needs one of: fixed, spread");
  EXPECT_EQ(read("choice: {fixed: {}}\n").problems, "s.yaml:1:17: value is missing");
  EXPECT_EQ(read("choice: {spread: {low: 2, high: 1}}\n").problems, "s.yaml:1:33: high must be at least low");
}

// The rule reads low and high: a third field that is wrong does not hide it, one of these two does.
TEST(Describe, AppliesARuleWhereTheFieldsItReadsAreRight) {
  EXPECT_EQ(read("choice: {spread: {low: 2, high: 1, hihg: 3}}\n").problems,
            "s.yaml:1:33: high must be at least low\n"
            "s.yaml:1:36: key is unknown: \"hihg\", did you mean high?; known: low, high");
  EXPECT_EQ(read("count: 0\nchoice: {spread: {low: 2, high: 1}}\n").problems,
            "s.yaml:1:8: count must be at least 1, not 0\ns.yaml:2:33: high must be at least low");
  EXPECT_EQ(read("choice: {spread: {low: x, high: -1}}\n").problems, "s.yaml:1:24: low must be a number, not \"x\"");
}

TEST(Describe, WritesWhatItReads) {
  const std::string text =
      "count: 7\nwait_ms: 0.25\ncolour: green\nlimit: 3\nlist:\n  - value: 1\nchoice: {spread: {low: 0.5}}\n";
  EXPECT_EQ(to_yaml(write_document(read(text).sample, Defaults::skip)), text);
  EXPECT_EQ(to_yaml(write_document(Sample{}, Defaults::skip)), "{}\n");
  // Kept defaults, the bare form of the choice, and no key for an optional without a value.
  EXPECT_EQ(to_json(write_document(Sample{}, Defaults::keep)),
            "{\n  \"count\": 2,\n  \"share\": 0.5,\n  \"on\": false,\n  \"name\": \"x\",\n  \"wait_ms\": 5,\n"
            "  \"colour\": \"red\",\n  \"list\": [],\n  \"choice\": 3\n}");
}

TEST(Describe, ReadsTimesExactlyToTheNanosecond) {
  std::int64_t nanoseconds = 0;
  // 9007199254.740993 s has more digits than a double holds.
  EXPECT_EQ(detail::read_time("9007199254.740992999", "at_s", {}, nanoseconds), "");
  EXPECT_EQ(nanoseconds, 9'007'199'254'740'992'999);
  EXPECT_EQ(detail::write_time(nanoseconds, "at_s"), "9007199254.740992999");
  EXPECT_EQ(detail::read_time("-0.0000015", "at_ms", {}, nanoseconds), "");
  EXPECT_EQ(nanoseconds, -2);
  EXPECT_EQ(detail::write_time(-2, "at_ms"), "-0.000002");
  EXPECT_EQ(detail::read_time("1.5e3", "at_us", {}, nanoseconds), "");
  EXPECT_EQ(nanoseconds, 1'500'000);
  EXPECT_NE(detail::read_time("1e30", "at_s", {}, nanoseconds), "");
}

}  // namespace
}  // namespace tangram::formats
