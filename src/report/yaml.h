// JSON values as YAML text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tangram::report {

using Json = nlohmann::ordered_json;

// Block style, keys in the order of the value, strings quoted where YAML would read them as something else. Reads back
// as the same value.
std::string to_yaml(const Json& value);

}  // namespace tangram::report
