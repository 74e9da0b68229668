// The parts of the command tree that are the same for help, completion and the reference page.

#include "cli/command_tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"

namespace tangram::cli {
namespace {

constexpr std::size_t kValuesShown = 6;  // More are left to completion and to the text itself.

}  // namespace

std::string usage_line(const VerbTree& verb) {
  std::string line = "tangram " + verb.info.name + " [OPTIONS]";
  for (const auto& option : verb.options) {
    if (!option.positional()) continue;
    const std::string name = option.placeholder + (option.repeats ? "..." : "");
    // Optional arguments are in brackets, as in manual pages.
    line += option.required ? " " + name : " [" + name + "]";
  }
  return line;
}

std::string option_term(const OptionInfo& option) {
  if (option.positional()) return option.placeholder + (option.repeats ? "..." : "");
  const std::string names = fmt::format("{}", fmt::join(option.names, ", "));
  return option.placeholder.empty() ? names : names + " " + option.placeholder;
}

std::string option_meaning(const OptionInfo& option) {
  std::string text = option.description;
  if (!option.values.empty() && option.values.size() <= kValuesShown) {
    text += fmt::format(" One of {}.", fmt::join(option.values, ", "));
  }
  if (!option.default_text.empty()) text += fmt::format(" Default: {}.", option.default_text);
  return text;
}

bool is_argument(const OptionInfo& option) { return option.positional(); }
bool is_own(const OptionInfo& option) { return !option.positional() && !option.common; }
bool is_common(const OptionInfo& option) { return option.common; }

Result<const VerbTree*> find_verb(const CommandTree& tree, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& verb : tree.verbs) {
    if (verb.info.name == name) return &verb;
    names.push_back(verb.info.name);
  }
  const auto near = text::nearest(name, names);
  return Error{ErrorCode::invalid, "unknown verb \"" + name + "\"" + (near ? "; did you mean " + *near + "?" : "")};
}

std::vector<std::string> groups_of(const CommandTree& tree) {
  std::vector<std::string> groups;
  for (const auto& verb : tree.verbs) {
    if (std::ranges::find(groups, verb.info.group) == groups.end()) groups.push_back(verb.info.group);
  }
  return groups;
}

const std::vector<Variable>& environment_variables() {
  // Help, the reference page and the manual page show this list; a new variable has to be added here.
  static const std::vector<Variable> variables{
      {"TANGRAM_OUTPUT", "the output format when --output is not given: table, json or yaml"},
      {"TANGRAM_QUIET", "set to 1: same as --quiet"},
      {"NO_COLOR", "set to any value: same as --no-color"},
      {"COLUMNS", "the terminal width, if the terminal does not report one"},
      {"TANGRAM_SHARE", "the folder that holds examples/, instead of the installed one"},
      {"TANGRAM_NVML", "the NVIDIA driver library to load, instead of libnvidia-ml.so.1"},
      {"TANGRAM_STATE", "the folder for the checkpoint and the lock of tangram apply"},
      {"TANGRAM_TOKEN", "the access key for a server, when no --token-file is given"},
  };
  return variables;
}

}  // namespace tangram::cli
