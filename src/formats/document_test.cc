#include "formats/document.h"

#include <gtest/gtest.h>

namespace tangram::formats {
namespace {

std::string yaml_problem(const std::string& text) {
  Problems problems("a.yaml");
  parse_yaml({"a.yaml", text}, problems);
  return problems.empty() ? "" : problems.error().message;
}

std::string json_problem(const std::string& text) {
  Problems problems("a.json");
  parse_json({"a.json", text}, problems);
  return problems.empty() ? "" : problems.error().message;
}

TEST(Yaml, KnowsThePlaceOfEveryKeyAndValue) {
  Problems problems("a.yaml");
  const auto root = parse_yaml({"a.yaml", "one: 1\ntwo:\n  - 'x'\n  -   y\n"}, problems);
  ASSERT_TRUE(root && problems.empty());
  EXPECT_EQ(root->entries[1].at, (Position{2, 1}));
  const Node& list = root->entries[1].value;
  EXPECT_EQ(list.items[1].at, (Position{4, 7}));
  // The content of a quoted scalar begins behind the quote in column 5.
  EXPECT_EQ(list.items[0].at, (Position{3, 5}));
  EXPECT_EQ(list.items[0].at_offset(0), (Position{3, 6}));
  EXPECT_TRUE(list.items[0].quoted);
  EXPECT_FALSE(list.items[1].quoted);
}

TEST(Yaml, GivesTheBeginningWhereEscapesMoveTheColumns) {
  Problems problems("a.yaml");
  const auto root = parse_yaml({"a.yaml", "a: \"x\\ty\"\n"}, problems);
  ASSERT_TRUE(root);
  EXPECT_EQ(root->entries[0].value.text, "x\ty");
  EXPECT_EQ(root->entries[0].value.at_offset(2), (Position{1, 4}));
}

TEST(Yaml, ReportsAKeyThatStandsTwiceWithBothLines) {
  EXPECT_EQ(yaml_problem("a: 1\nb: 2\na: 3\n"), "a.yaml:3:1: a is given twice; first in line 1");
}

TEST(Yaml, SaysWhereItIsBroken) {
  EXPECT_EQ(yaml_problem("a: [1, 2}\n"), "a.yaml:1:9: not valid YAML: illegal flow end");
  EXPECT_EQ(yaml_problem("a: 1\n---\nb: 2\n"), "a.yaml:1:1: the file has more than one document");
  EXPECT_EQ(yaml_problem("a: !secret b\n"), "a.yaml:1:4: tags such as !secret are not supported");
  EXPECT_EQ(yaml_problem("a: \xFF\n"), "a.yaml:1:4: not UTF-8 text");
}

// The fuzzer found it: the parser alone gives one bare byte for each, which no reader takes for UTF-8.
TEST(Yaml, ReadsTheEscapesForNextLineAndNoBreakSpaceAsUtf8) {
  Problems problems("a.yaml");
  const auto root = parse_yaml({"a.yaml", "\"k\\_\": \"\xC3\x85y\\N\\_z\"\n"}, problems);
  ASSERT_TRUE(root && problems.empty());
  EXPECT_EQ(root->entries[0].key, "k\xC2\xA0");
  EXPECT_EQ(root->entries[0].value.text, "\xC3\x85y\xC2\x85\xC2\xA0z");
}

// The parser itself complains about the line behind, or about a key that is a list.
TEST(Yaml, PointsAtABracketThatIsNeverClosed) {
  EXPECT_EQ(yaml_problem("a: [1, 2\nb: 3\n"), "a.yaml:1:4: not valid YAML: the [ here is never closed");
  EXPECT_EQ(yaml_problem("[\n {type: a30\n"), "a.yaml:2:2: not valid YAML: the { here is never closed");
  // Brackets in quotes, comments and words are none.
  EXPECT_EQ(yaml_problem("a: '['  # [\nb: it's[\nc: [\"}\", {d: 1}\n"),
            "a.yaml:3:4: not valid YAML: the [ here is never closed");
}

// The parser would take all that follows for a part of the value, and the keys behind it for missing.
TEST(Yaml, NamesAQuoteThatIsNeverClosed) {
  EXPECT_EQ(yaml_problem("a: 1\nb: \"two\nc: 3\n"), "a.yaml:2:4: not valid YAML: the \" here is never closed");
  EXPECT_EQ(yaml_problem("a: 'it''s\n"), "a.yaml:1:4: not valid YAML: the ' here is never closed");
  EXPECT_EQ(yaml_problem("a: &x \"b\\\"\n"), "a.yaml:1:7: not valid YAML: the \" here is never closed");
  EXPECT_EQ(yaml_problem("a: [1, \"b]\n"), "a.yaml:1:8: not valid YAML: the \" here is never closed");
  EXPECT_EQ(yaml_problem("\"a: 1\n"), "a.yaml:1:1: not valid YAML: the \" here is never closed");
  EXPECT_EQ(yaml_problem("a: 'it''s'\nb: \"\\\"\"\nc: |\n  \"open in a block\n"), "");
}

TEST(Yaml, SaysThatAFileIsEmpty) {
  EXPECT_EQ(yaml_problem(""), "a.yaml: the file is empty");
  EXPECT_EQ(yaml_problem(" \n\n"), "a.yaml: the file is empty");
  EXPECT_EQ(json_problem("\n"), "a.json: the file is empty");
}

// A block ends with a line end that nobody means; what stands inside it is kept.
TEST(Yaml, LeavesOutTheLineEndOfABlock) {
  Problems problems("a.yaml");
  const auto root = parse_yaml({"a.yaml", "a: >\n  x\n  y\nb: |\n  x\n  y\n\nc: \"x\\n\"\n"}, problems);
  ASSERT_TRUE(root && problems.empty());
  EXPECT_EQ(root->find("a")->text, "x y");
  EXPECT_EQ(root->find("b")->text, "x\ny");
  EXPECT_EQ(root->find("c")->text, "x\n");
}

// What a map says itself goes before what it merges, and earlier maps before later ones.
TEST(Yaml, MergesMaps) {
  Problems problems("a.yaml");
  const auto root = parse_yaml({"a.yaml", "a: &x {k: 1, l: 2}\nb: {<<: *x, k: 3}\nc:\n  <<: [{k: 4}, *x]\n"}, problems);
  ASSERT_TRUE(root && problems.empty());
  EXPECT_EQ(to_json(*root->find("b")), "{\"k\": 3, \"l\": 2}");
  EXPECT_EQ(to_json(*root->find("c")), "{\"k\": 4, \"l\": 2}");
  EXPECT_EQ(yaml_problem("a: {<<: 3}\n"), "a.yaml:1:5: << takes a map or a list of maps, as in <<: *anchor");
  EXPECT_EQ(yaml_problem("a:\n  <<: {b: 1}\n  <<: {c: 1}\n"), "a.yaml:3:3: << is given twice; first in line 2");
}

TEST(Yaml, CopiesWhatAnAliasNames) {
  Problems problems("a.yaml");
  const auto root = parse_yaml({"a.yaml", "a: &x {b: 1}\nc: *x\n"}, problems);
  ASSERT_TRUE(root && problems.empty());
  EXPECT_TRUE(same(*root->find("a"), *root->find("c")));
  EXPECT_EQ(yaml_problem("a: &x [*x]\n"), "a.yaml:1:8: an alias refers to a node that contains it");
}

// One is skipped, as editors write it; the library would skip a second one as well, and it became part of the number.
TEST(Json, TakesOneByteOrderMarkAndNotTwo) {
  const std::string mark = "\xEF\xBB\xBF";
  Problems problems("a");
  const auto root = parse_json({"a.json", mark + "0"}, problems);
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->text, "0");
  EXPECT_FALSE(parse_json({"a.json", mark + mark + "0"}, problems).has_value());
}

// Nine levels of nine aliases each would be 9^9 = 387 million values.
TEST(Yaml, RefusesABombOfAliases) {
  std::string text = "a0: &a0 x\n";
  for (int i = 1; i <= 9; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 9; ++k) text += (k == 0 ? "*a" : ", *a") + std::to_string(i - 1);
    text += "]\n";
  }
  EXPECT_NE(yaml_problem(text).find("more than 1000000 values in one document"), std::string::npos);
}

TEST(Yaml, RefusesNestingBeyondItsLimit) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(yaml_problem(nested(kDocumentDepthMax)), "");
  EXPECT_EQ(yaml_problem(nested(kDocumentDepthMax + 1)), "a.yaml:1:65: nested more than 64 deep");
  EXPECT_NE(yaml_problem(nested(100'000)), "");
}

TEST(Json, KnowsThePlaceOfEveryKeyAndValue) {
  Problems problems("a.json");
  const auto root = parse_json({"a.json", "{\"one\": 1.50,\n  \"two\": [true, \"x\\\"y\", null]}"}, problems);
  ASSERT_TRUE(root && problems.empty());
  EXPECT_EQ(root->entries[0].value.text, "1.50");
  EXPECT_EQ(root->entries[0].value.at, (Position{1, 9}));
  const Node& list = root->entries[1].value;
  EXPECT_EQ(root->entries[1].at, (Position{2, 3}));
  EXPECT_EQ(list.at, (Position{2, 10}));
  EXPECT_EQ(list.items[0].at, (Position{2, 11}));
  EXPECT_EQ(list.items[1].at, (Position{2, 17}));
  EXPECT_EQ(list.items[2].at, (Position{2, 25}));
  EXPECT_EQ(list.items[1].text, "x\"y");
}

TEST(Json, SaysWhereItIsBroken) {
  EXPECT_TRUE(json_problem("{\"a\": 1,\n \"b\" 2}").starts_with("a.json:2:6: not valid JSON: syntax error"));
  EXPECT_EQ(json_problem("{\"a\": 1, \"a\": 2}"), "a.json:1:10: a is given twice; first in line 1");
  EXPECT_EQ(json_problem(std::string(65, '[') + std::string(65, ']')), "a.json:1:65: nested more than 64 deep");
}

// Each word would be read as something else, or not at all, without quotes.
TEST(Documents, ReadBackWhatTheyWrote) {
  Node list;
  list.kind = Node::Kind::sequence;
  for (const char* word : {"plain",
                           "true",
                           "no",
                           "12",
                           "1e3",
                           "0x1f",
                           "2001-01-01",
                           "",
                           " x",
                           "x ",
                           "a: b",
                           "a #b",
                           "*x",
                           "&x",
                           "-",
                           "~",
                           "null",
                           "a\"b",
                           "a\\b",
                           "a\nb",
                           "\x7f",
                           "é",
                           "3g.40gb@0 + 4g.40gb@4",
                           "[a]",
                           "{a}",
                           "a, b",
                           "%x",
                           "@x",
                           "`x",
                           "'x'",
                           ".5",
                           "=",
                           "<<",
                           "? x"}) {
    list.items.push_back(text_node(word));
  }
  Node root;
  root.kind = Node::Kind::map;
  root.entries.push_back({"list", {}, list});
  root.entries.push_back({"odd: key", {}, plain_node("1.5")});
  Problems problems("a");
  const auto yaml = parse_yaml({"a", to_yaml(root)}, problems);
  const auto json = parse_json({"a", to_json(root)}, problems);
  ASSERT_TRUE(problems.empty()) << problems.error().message << to_yaml(root);
  EXPECT_TRUE(same(*json, root));
  ASSERT_EQ(yaml->entries[0].value.items.size(), list.items.size());
  for (std::size_t i = 0; i < list.items.size(); ++i)
    EXPECT_EQ(yaml->entries[0].value.items[i].text, list.items[i].text);
  EXPECT_EQ(yaml->entries[1].key, "odd: key");
}

TEST(Problems, AreSortedAndLimited) {
  Problems problems("f");
  for (int i = 150; i > 0; --i) problems.add({i, 1}, "bad");
  const std::string message = problems.error().message;
  EXPECT_TRUE(message.starts_with("f:1:1: bad\nf:2:1: bad\n"));
  EXPECT_TRUE(message.ends_with("f:100:1: bad\nf: and 50 more"));
}

}  // namespace
}  // namespace tangram::formats
