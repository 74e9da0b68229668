// Problems of files, as programs like to have them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/yaml.h"

namespace tangram::cli {

// The parts of "fleet.yaml:12:9: text". Line and column are nullopt if the text has none.
struct ProblemText {
  std::string file;
  std::optional<int> line;
  std::optional<int> column;
  std::string message;
};

// `name` is the file that was checked; a problem of another file that it names begins with the name of that one.
ProblemText parse_problem(std::string_view text, std::string_view name);

// One object {file, line, column, message} for each line of an error's message.
report::Json problems_json(std::string_view message, std::string_view name);

}  // namespace tangram::cli
