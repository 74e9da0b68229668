#include "formats/schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "base/text.h"
#include "formats/csv.h"
#include "formats/detail/files_test.h"
#include "formats/document.h"

namespace tangram::formats {
namespace {

using Json = nlohmann::json;

// A document as a reader of YAML that knows nothing of us sees it: plain scalars become what they look like.
Json to_value(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null: return nullptr;
    case Node::Kind::scalar: break;
    case Node::Kind::sequence: {
      Json list = Json::array();
      for (const auto& item : node.items) list.push_back(to_value(item));
      return list;
    }
    case Node::Kind::map: {
      Json map = Json::object();
      for (const auto& entry : node.entries) map[entry.key] = to_value(entry.value);
      return map;
    }
  }
  if (node.quoted) return node.text;
  if (node.text == "true" || node.text == "false") return node.text == "true";
  if (const auto integer = text::parse_integer(node.text)) return *integer;
  if (const auto number = text::parse_number(node.text)) return *number;
  return node.text;
}

Json yaml_value(const std::string& text) {
  Problems problems("a.yaml");
  const auto node = parse_yaml({"a.yaml", text}, problems);
  EXPECT_TRUE(problems.empty());
  return node ? to_value(*node) : Json();
}

// Every row of a CSV file as an object; blank cells are left out.
std::vector<Json> csv_values(const std::string& text) {
  Problems problems("a.csv");
  CsvReader reader(text, problems);
  std::vector<CsvField> row;
  std::vector<std::string> header;
  std::vector<Json> rows;
  while (reader.next(row)) {
    if (header.empty()) {
      for (const auto& field : row) header.emplace_back(field.text);
      continue;
    }
    Json object = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!row[i].text.empty()) object[header[i]] = to_value(plain_node(std::string(row[i].text)));
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

bool passes(const std::string& schema_name, const Json& value) {
  const Json document = Json::parse(json_schema(schema_name).value());
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(document), schema);
  return valijson::Validator().validate(schema, valijson::adapters::NlohmannJsonAdapter(value), nullptr);
}

TEST(Schema, PublishedIsTheOneThatTheParsersUse) {
  for (const auto& name : schema_names()) {
    const std::string path = "docs/schema/" + name + ".schema.json";
    EXPECT_EQ(test::repository_file(path), json_schema(name))
        << "make it anew: tangram schema " << name << " > " << path;
  }
  EXPECT_FALSE(json_schema("nothing").has_value());
}

TEST(Reference, PublishedIsTheOneThatTheParsersUse) {
  EXPECT_EQ(test::repository_file("docs/reference/files.md"), reference_markdown())
      << "make it anew: tangram reference > docs/reference/files.md";
}

TEST(Schema, PassesTheExamples) {
  EXPECT_TRUE(passes("fleet", yaml_value(test::example("fleet.yaml").text)));
  EXPECT_TRUE(passes("services", yaml_value(test::example("services.yaml").text)));
  EXPECT_TRUE(passes("plan", Json::parse(test::example("plan.json").text)));
  for (const auto& row : csv_values(test::example("trace.csv").text)) EXPECT_TRUE(passes("trace", row)) << row;
  EXPECT_TRUE(passes("histogram", {{"size", 4}, {"weight", 0.5}}));
  EXPECT_TRUE(passes("jobs", {{"name", "a"}, {"submit_s", 0}, {"application", "net"}, {"kind", "training"}}));
}

// A row without latency ran out of memory: the cell is blank, so the object has no such key.
TEST(Schema, PassesTheMeasurementsOfTheExamples) {
  for (auto row : csv_values(test::example("measurements.csv").text)) EXPECT_TRUE(passes("measurements", row)) << row;
}

TEST(Schema, FailsWhatTheParserRefuses) {
  const auto fleet = [](const std::string& text) { return passes("fleet", yaml_value(text)); };
  EXPECT_TRUE(fleet("devices:\n  - type: a30\n"));
  EXPECT_FALSE(fleet("devices:\n  - type: a31\n"));
  EXPECT_FALSE(fleet("devices: []\n"));
  EXPECT_FALSE(fleet("devices:\n  - type: a30\n    cout: 3\n"));
  EXPECT_FALSE(fleet("devices:\n  - type: a30\n    count: 0\n"));
  EXPECT_FALSE(fleet("spare: two\ndevices:\n  - type: a30\n"));
  const auto services = [](const std::string& traffic) {
    return passes(
        "services",
        yaml_value("services:\n  - name: a\n    model: m\n    slo: {latency_ms: 1}\n    traffic: " + traffic + "\n"));
  };
  EXPECT_TRUE(services("{rate_per_s: 1}"));
  EXPECT_TRUE(services("{closed_loop: {clients: 3}}"));
  EXPECT_FALSE(services("{rate_per_s: 1, constant: {rate_per_s: 1}}"));
  EXPECT_FALSE(services("{rate_per_s: 0}"));
  EXPECT_FALSE(services("{}"));
  EXPECT_FALSE(passes("plan", Json::parse(R"({"version": 2, "devices": []})")));
  EXPECT_FALSE(passes("trace", {{"at_s", 1}}));
  EXPECT_FALSE(passes("measurements", {{"device", "a30"}}));
}

}  // namespace
}  // namespace tangram::formats
