// Takes messages such as "fleet.yaml:12:9: text" apart, for structured output.
//
// Errors are made as text once, for people, and parsed here for programs. File names may contain colons themselves, so
// the known name of the file is tried first.

#include "cli/problem_text.h"

#include "base/text.h"

namespace tangram::cli {
namespace {

// Removes ":12" from the front of `text` and returns 12. Leaves `text` alone if it does not start so.
std::optional<int> take_number(std::string_view& text) {
  if (!text.starts_with(':')) return std::nullopt;
  const std::size_t end = std::min(text.find(':', 1), text.size());
  const auto number = text::parse_integer(text.substr(1, end - 1));
  if (!number || *number < 1 || *number > INT32_MAX) return std::nullopt;
  text.remove_prefix(end);
  return static_cast<int>(*number);
}

// The length of the file name at the start of `text`: `name` if it is there, otherwise everything before the first
// colon that a number or a blank follows. 0 if there is no such colon.
std::size_t name_length(std::string_view text, std::string_view name) {
  if (!name.empty() && text.starts_with(name) && text.substr(name.size()).starts_with(':')) return name.size();
  for (std::size_t at = text.find(':'); at != std::string_view::npos; at = text.find(':', at + 1)) {
    std::string_view rest = text.substr(at);
    if (rest.starts_with(": ") || take_number(rest)) return at;
  }
  return 0;
}

report::Json number_json(const std::optional<int>& number) {
  return number ? report::Json(*number) : report::Json(nullptr);
}

}  // namespace

ProblemText parse_problem(std::string_view text, std::string_view name) {
  const std::size_t length = name_length(text, name);
  // No place in the text: the problem concerns the file as a whole.
  if (length == 0) return {std::string(name), std::nullopt, std::nullopt, std::string(text)};
  ProblemText problem{std::string(text.substr(0, length)), std::nullopt, std::nullopt, ""};
  std::string_view rest = text.substr(length);
  problem.line = take_number(rest);
  // A column without a line does not occur.
  if (problem.line) problem.column = take_number(rest);
  if (rest.starts_with(':')) rest.remove_prefix(1);
  problem.message = text::trim(rest);
  return problem;
}

report::Json problems_json(std::string_view message, std::string_view name) {
  report::Json list = report::Json::array();
  for (const auto line : text::split(message, '\n')) {
    if (line.empty()) continue;
    const ProblemText problem = parse_problem(line, name);
    list.push_back({{"file", problem.file},
                    {"line", number_json(problem.line)},
                    {"column", number_json(problem.column)},
                    {"message", problem.message}});
  }
  return list;
}

}  // namespace tangram::cli
