#include "client/offline_rows.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/test_rows.h"

namespace tangram::client {
namespace {

using nlohmann::json;
using test::split_rows;

std::vector<std::string> texts_of(const std::vector<Row>& rows) {
  std::vector<std::string> texts;
  for (const auto& row : rows) texts.push_back(row.text);
  return texts;
}

std::vector<TensorSpec> text_and_number() {
  return {{.name = "ids", .datatype = Datatype::int64, .shape = {kVariableAxis}},
          {.name = "scale", .datatype = Datatype::fp32, .shape = {}},
          {.name = "image", .datatype = Datatype::uint8, .shape = {2, 3}},
          {.name = "title", .datatype = Datatype::bytes, .shape = {1}}};
}

Row row_of(std::string text) { return {1, 1, std::move(text), false}; }

json request_from(RowFormat format, const std::string& text) {
  const auto body = RowTranslator(format, text_and_number()).request_of(row_of(text));
  EXPECT_TRUE(body.ok()) << (body.ok() ? "" : body.error().message);
  return body.ok() ? json::parse(*body) : json();
}

std::string problem_with(const std::string& text) {
  const auto body = RowTranslator(RowFormat::jsonl, text_and_number()).request_of(row_of(text));
  return body.ok() ? "" : body.error().message;
}

// A mark in front, a carriage return, blank lines and a last line without an end, however the bytes come.
TEST(RowSplitter, CutsLinesWhateverThePiecesAre) {
  const std::string text = "\xEF\xBB\xBF{\"a\":1}\r\n\n  \n{\"b\":2}\n{\"c\":3}";
  for (const std::size_t piece : {1, 2, 3, 5, 7, 100}) {
    SCOPED_TRACE(piece);
    const auto rows = split_rows(RowFormat::jsonl, text, piece);
    EXPECT_EQ(texts_of(rows), (std::vector<std::string>{"{\"a\":1}", "{\"b\":2}", "{\"c\":3}"}));
    EXPECT_EQ(rows[1].number, 2U);
    EXPECT_EQ(rows[1].line, 4U);
    EXPECT_EQ(rows[2].line, 5U);
  }
}

// The quoted field holds a line end and doubled quotes, so row 1 covers lines 2 and 3; a quote inside an unquoted field
// opens nothing.
TEST(RowSplitter, KeepsQuotedLineEndsOfCsvTogether) {
  const std::string text = "id,title\n1,\"a \"\"b\"\"\nc\"\n2,5\" pipe\n3,\"\"\n";
  for (const std::size_t piece : {1, 4, 100}) {
    SCOPED_TRACE(piece);
    const auto rows = split_rows(RowFormat::csv, text, piece);
    EXPECT_EQ(texts_of(rows), (std::vector<std::string>{"id,title", "1,\"a \"\"b\"\"\nc\"", "2,5\" pipe", "3,\"\""}));
    EXPECT_EQ(rows[0].number, 0U);
    EXPECT_EQ(rows[1].line, 2U);
    EXPECT_EQ(rows[2].line, 4U);
    EXPECT_EQ(rows[3].number, 3U);
  }
}

TEST(RowSplitter, NamesTheLineOfAQuoteThatIsNeverClosed) {
  std::string problem;
  const auto rows = split_rows(RowFormat::csv, "a\n1\n\"2\n3\n", 2, &problem);
  EXPECT_EQ(rows.size(), 2U);
  EXPECT_EQ(problem, "line 3: a quoted field that begins in this row is never closed");
}

// A row of 12 bytes where 8 are allowed is told, numbered and left out; its neighbours stay.
TEST(RowSplitter, PassesOverALineThatIsTooLong) {
  for (const std::string end : {"\n{}", ""}) {
    const auto rows = split_rows(RowFormat::jsonl, "{}\n123456789012" + end, 5, nullptr, 8);
    ASSERT_EQ(rows.size(), end.empty() ? 2U : 3U);
    EXPECT_FALSE(rows[0].too_long);
    EXPECT_TRUE(rows[1].too_long);
    EXPECT_EQ(rows[1].number, 2U);
    EXPECT_TRUE(rows[1].text.empty());
  }
}

TEST(RowTranslator, SendsARequestOfTheProtocolAsItStands) {
  const std::string text = R"({"id":"7", "inputs":[{"name":"ids","shape":[1,2],"datatype":"INT64","data":[1,2]}]})";
  const auto body = RowTranslator(RowFormat::jsonl, text_and_number()).request_of(row_of(text));
  ASSERT_TRUE(body.ok());
  EXPECT_EQ(*body, text);
}

// Lists take the place of the variable axis, nested arrays have their own shape, a flat one the shape that is known.
TEST(RowTranslator, MakesTensorsOfFlatRows) {
  const json request =
      request_from(RowFormat::jsonl, R"({"id":9,"ids":[3,4,9007199254740993],"scale":0.5,"image":[[1,2,3],[4,5,6]]})");
  EXPECT_EQ(request["id"], "9");
  EXPECT_EQ(request["inputs"][0]["name"], "ids");
  EXPECT_EQ(request["inputs"][0]["shape"], json({1, 3}));
  EXPECT_EQ(request["inputs"][0]["data"][2].get<std::int64_t>(), 9007199254740993);
  EXPECT_EQ(request["inputs"][1]["shape"], json({1, 2, 3}));
  EXPECT_EQ(request["inputs"][1]["data"], json({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(request["inputs"][2]["shape"], json::array({1}));
  EXPECT_EQ(request_from(RowFormat::jsonl, R"({"image":[1,2,3,4,5,6]})")["inputs"][0]["shape"], json({1, 2, 3}));
}

TEST(RowTranslator, SaysWhatIsWrongWithARow) {
  EXPECT_EQ(problem_with("[1]"), "not a JSON object");
  EXPECT_EQ(problem_with("{\"ids\":[1,"), "not a JSON object");
  EXPECT_EQ(problem_with("{}"), "the row has no input");
  EXPECT_EQ(problem_with(R"({"words":[1]})"),
            "words: not an input of the model; its inputs are ids, scale, image, title");
  EXPECT_EQ(problem_with(R"({"ids":[1,"two"]})"), "ids: expected numbers, read \"two\"");
  EXPECT_EQ(problem_with(R"({"ids":[[1],[2,3]]})"), "ids: expected a value or arrays of values of equal lengths");
  EXPECT_EQ(problem_with(R"({"image":[1,2,3,4]})"), "image: 4 values do not make a sample of shape [2,3]");
  EXPECT_EQ(problem_with(R"({"title":["x"],"id":[1]})"), "id: expected a string or a number");
}

TEST(RowTranslator, ReadsCellsOfCsv) {
  RowTranslator translator(RowFormat::csv, text_and_number());
  ASSERT_TRUE(translator.read_header(row_of("id,ids,title,scale")).ok());
  const auto body = translator.request_of(row_of("row-1,1 2 3,\"a, b\",0.25"));
  ASSERT_TRUE(body.ok()) << body.error().message;
  const json request = json::parse(*body);
  EXPECT_EQ(request["id"], "row-1");
  EXPECT_EQ(request["inputs"][0]["data"], json({1, 2, 3}));
  EXPECT_EQ(request["inputs"][1]["data"], json::array({"a, b"}));
  EXPECT_EQ(request["inputs"][2]["data"], json::array({0.25}));
  EXPECT_TRUE(translator.request_of(row_of("r,\"[1, 2]\",t,")).ok());
  EXPECT_EQ(translator.request_of(row_of("r,1 x,t,1")).error().message, "ids: not a number: x");
  EXPECT_EQ(translator.request_of(row_of("r,1")).error().message, "the row has 2 fields, the header has 4");
}

// What stands behind the zero byte would be lost, in a number, an array, a text and a whole row.
TEST(RowTranslator, CutsNoRowAtAZeroByte) {
  RowTranslator csv(RowFormat::csv, text_and_number());
  ASSERT_TRUE(csv.read_header(row_of("ids,title")).ok());
  const std::string zero(1, '\0');
  for (const std::string& text : {"1" + zero + "2,t", "\"[1]" + zero + "\",t", "1,a" + zero + "b"}) {
    const auto body = csv.request_of(row_of(text));
    ASSERT_FALSE(body.ok()) << *body;
    EXPECT_EQ(body.error().message, "contains a zero byte");
  }
  EXPECT_EQ(problem_with(R"({"ids":[1]})" + zero + "2"), "contains a zero byte");
}

TEST(RowTranslator, RefusesAHeaderThatTheModelDoesNotKnow) {
  RowTranslator translator(RowFormat::csv, text_and_number());
  EXPECT_EQ(
      translator.read_header(row_of("id,words")).error().message,
      "line 1: column words: not an input of the model; its inputs are ids, scale, image, title. The first line must name the columns");
}

// Also of rows that are no requests otherwise; a row that is not JSON has none.
TEST(RowTranslator, KnowsWhatARowCallsItself) {
  const RowTranslator jsonl(RowFormat::jsonl, text_and_number());
  EXPECT_EQ(jsonl.id_of(row_of(R"({"id":"r1","words":[1]})")), "r1");
  EXPECT_EQ(jsonl.id_of(row_of(R"({"id":17,"inputs":[]})")), "17");
  for (const char* text : {"{}", "[1]", "not json", R"({"id":[1]})"}) EXPECT_EQ(jsonl.id_of(row_of(text)), "") << text;
  RowTranslator csv(RowFormat::csv, text_and_number());
  ASSERT_TRUE(csv.read_header(row_of("ids,id")).ok());
  EXPECT_EQ(csv.id_of(row_of("x y,row-1")), "row-1");
  EXPECT_EQ(csv.id_of(row_of("x y")), "");
  RowTranslator none(RowFormat::csv, text_and_number());
  ASSERT_TRUE(none.read_header(row_of("ids")).ok());
  EXPECT_EQ(none.id_of(row_of("1 2,3")), "");
}

TEST(RowTranslator, LearnsTheInputsFromTheServer) {
  const auto inputs = read_model_inputs(
      R"({"name":"m","inputs":[{"name":"ids","datatype":"INT64","shape":[-1,-1]},{"name":"s","datatype":"FP32","shape":[-1]}]})");
  ASSERT_TRUE(inputs.ok());
  EXPECT_EQ((*inputs)[0].shape, std::vector<std::int64_t>{kVariableAxis});
  EXPECT_TRUE((*inputs)[1].shape.empty());
  EXPECT_FALSE(read_model_inputs(R"({"error":"no"})").ok());
  EXPECT_FALSE(read_model_inputs(R"({"inputs":[{"name":"x","datatype":"FP99","shape":[1]}]})").ok());
}

}  // namespace
}  // namespace tangram::client
