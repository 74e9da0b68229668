#include "cli/problem_text.h"

#include <gtest/gtest.h>

namespace tangram::cli {
namespace {

TEST(ProblemText, IsTakenApart) {
  const auto whole = parse_problem("a b.yaml:12:9: 3g.20gb cannot start at 2; allowed: 0, 4", "a b.yaml");
  EXPECT_EQ(whole.file, "a b.yaml");
  EXPECT_EQ(whole.line, 12);
  EXPECT_EQ(whole.column, 9);
  EXPECT_EQ(whole.message, "3g.20gb cannot start at 2; allowed: 0, 4");
  EXPECT_EQ(parse_problem("f.csv:3: text", "f.csv").line, 3);
  EXPECT_EQ(parse_problem("f.csv:3: text", "f.csv").column, std::nullopt);
  EXPECT_EQ(parse_problem("f.csv: and 5 more", "f.csv").line, std::nullopt);
  EXPECT_EQ(parse_problem("f.csv: and 5 more", "f.csv").message, "and 5 more");
}

// A name with colons is known as that of the file itself; that of another file ends before the first number.
TEST(ProblemText, KnowsTheNameOfTheFile) {
  EXPECT_EQ(parse_problem("a: 1:2: x.yaml:3:4: text", "a: 1:2: x.yaml").line, 3);
  const auto other = parse_problem("trace.csv:7:1: at_s: text", "services.yaml");
  EXPECT_EQ(other.file, "trace.csv");
  EXPECT_EQ(other.line, 7);
  EXPECT_EQ(other.message, "at_s: text");
  const auto bare = parse_problem("something is wrong", "services.yaml");
  EXPECT_EQ(bare.file, "services.yaml");
  EXPECT_EQ(bare.message, "something is wrong");
}

TEST(ProblemText, BecomesOneObjectForEachLine) {
  EXPECT_EQ(problems_json("f.yaml:1:2: a\nf.yaml: b\n", "f.yaml").dump(),
            R"([{"file":"f.yaml","line":1,"column":2,"message":"a"},)"
            R"({"file":"f.yaml","line":null,"column":null,"message":"b"}])");
}

}  // namespace
}  // namespace tangram::cli
