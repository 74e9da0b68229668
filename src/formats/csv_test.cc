#include "formats/csv.h"

#include <gmock/gmock.h>

namespace tangram::formats {
namespace {

using testing::ElementsAre;

struct Parsed {
  std::vector<std::vector<std::string>> rows;
  std::vector<int> lines;
  std::string problems;
};

Parsed parse(const std::string& text) {
  Parsed parsed;
  Problems problems("a.csv");
  CsvReader reader(text, problems);
  std::vector<CsvField> row;
  while (reader.next(row)) {
    auto& fields = parsed.rows.emplace_back();
    for (const auto& field : row) fields.emplace_back(field.text);
    parsed.lines.push_back(row.front().line);
  }
  if (!problems.empty()) parsed.problems = problems.error().message;
  return parsed;
}

TEST(Csv, UnderstandsQuotesCrlfAndAByteOrderMark) {
  const auto parsed = parse(
      "\xEF\xBB\xBF"
      "a,\"b,c\"\r\n\"say \"\"hi\"\"\",\"two\nlines\"\r\n\r\nlast,");
  EXPECT_THAT(parsed.rows,
              ElementsAre(ElementsAre("a", "b,c"), ElementsAre("say \"hi\"", "two\nlines"), ElementsAre("last", "")));
  // The quoted line break makes the second row two lines long, and an empty line follows it.
  EXPECT_THAT(parsed.lines, ElementsAre(1, 2, 5));
}

TEST(Csv, KeepsEmptyFieldsAndACarriageReturnInsideALine) {
  EXPECT_THAT(parse(",,\na\rb,c\n").rows, ElementsAre(ElementsAre("", "", ""), ElementsAre("a\rb", "c")));
}

TEST(Csv, SaysWhereAQuoteIsWrong) {
  EXPECT_EQ(parse("a,b\nc,\"d\n").problems, "a.csv:2:3: a quoted field is never closed");
  EXPECT_EQ(parse("a,\"b\"c\n").problems,
            "a.csv:1:6: unexpected text after a closing quote; expected a comma or the end of the line");
}

TEST(Csv, LimitsTheFieldsOfARow) {
  EXPECT_EQ(parse(std::string(kCsvFieldsMax - 1, ',') + "\n").problems, "");
  EXPECT_EQ(parse(std::string(kCsvFieldsMax, ',') + "\n").problems, "a.csv:1:1001: more than 1000 fields in a row");
}

TEST(Csv, ReadsBackWhatItWrites) {
  const std::vector<std::string> fields = {"plain", "a,b", "say \"hi\"", "two\nlines", " edge ", "", "a\rb"};
  std::string text;
  append_csv_row(text, fields);
  EXPECT_THAT(parse(text).rows, ElementsAre(fields));
}

}  // namespace
}  // namespace tangram::formats
