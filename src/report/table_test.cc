#include "report/table.h"

#include <gtest/gtest.h>

#include "report/text_width.h"

namespace tangram::report {
namespace {

// "é" is two bytes and one column, "模" three bytes and two columns, a combining accent no column of its own.
TEST(TextWidth, CountsColumnsAndNotBytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("é"), 1);
  EXPECT_EQ(display_width("模型"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width("│█"), 2);
}

TEST(TextWidth, TakesBytesThatAreNotUtf8AsOneColumnEach) {
  EXPECT_EQ(display_width("\xff\xfe"), 2);
  EXPECT_EQ(display_width("\xe6\xa8"), 2);
}

// Five columns hold four letters and the ellipsis; a wide letter that would straddle the limit is left out.
TEST(TextWidth, CutsAtALetterAndSaysSo) {
  EXPECT_EQ(cut_to_width("abcdef", 5), "abcd…");
  EXPECT_EQ(cut_to_width("abcde", 5), "abcde");
  EXPECT_EQ(cut_to_width("模型模型", 4), "模…");
  EXPECT_EQ(cut_to_width("abc", 0), "");
}

// "one two" is seven columns and fits; "three" would make thirteen.
TEST(TextWidth, WrapsAtSpacesWithinTheWidth) {
  EXPECT_EQ(wrap("one two three", 10, 0), "one two\nthree");
  EXPECT_EQ(wrap("one two three", 10, 2), "one two\n  three");
  EXPECT_EQ(wrap("", 10, 0), "");
}

Table two_columns() {
  Table table({{"NAME", Align::left, true}, {"N", Align::right}});
  table.add({"模型", "7"});
  table.add({"a-long-name-of-a-model", "12"});
  return table;
}

// The first column is as wide as its longest cell, 22; numbers end in one column; nothing trails.
TEST(Table, AlignsColumnsByWhatIsSeen) {
  EXPECT_EQ(two_columns().render({}),
            "NAME                     N\n模型                     7\na-long-name-of-a-model  12\n");
}

// 22 + 2 + 2 columns do not fit into 20: the column that may shrink gives up six.
TEST(Table, ShrinksOnlyForAPersonWhoWatches) {
  const Terminal narrow{.interactive = true, .colour = false, .width = 20};
  EXPECT_EQ(two_columns().render(narrow), "NAME               N\n模型               7\na-long-name-of-…  12\n");
}

TEST(Table, PaintsOnlyWhereColourIsWanted) {
  Table table({{"X"}});
  table.add({{"yes", Style::good}});
  EXPECT_EQ(table.render({.interactive = false, .colour = true}), "\x1b[1mX  \x1b[0m\n\x1b[32myes\x1b[0m\n");
  EXPECT_EQ(table.render({}), "X\nyes\n");
}

}  // namespace
}  // namespace tangram::report
