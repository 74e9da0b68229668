// For tests: whether an object is one of Kubernetes' kinds as tests/kubernetes/kinds.schema.json describes them.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace tangram::formats::test {

// Empty if it is; else what is wrong and where. Our own kind, Plan, counts as one without being looked at.
inline std::string why_no_kind(const nlohmann::json& object) {
  static const nlohmann::json all = [] {
    std::ifstream file(std::string(TANGRAM_SOURCE_DIR) + "/tests/kubernetes/kinds.schema.json");
    return nlohmann::json::parse(file);
  }();
  const std::string kind = object.is_object() ? object.value("kind", "") : "";
  if (kind == "Plan") return "";
  if (!all["kinds"].contains(kind)) return "no such kind: \"" + kind + "\"";
  nlohmann::json schema = all["kinds"][kind];
  schema["definitions"] = all["definitions"];
  valijson::Schema parsed;
  valijson::SchemaParser().populateSchema(valijson::adapters::NlohmannJsonAdapter(schema), parsed);
  valijson::ValidationResults results;
  if (valijson::Validator().validate(parsed, valijson::adapters::NlohmannJsonAdapter(object), &results)) return "";
  std::ostringstream said;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    said << kind << " ";
    for (const auto& part : error.context) said << part;
    said << ": " << error.description << "\n";
  }
  return said.str();
}

}  // namespace tangram::formats::test
