#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace tangram::cli {
namespace {

std::string joined(const std::vector<std::string>& parts, std::string_view separator = " ") {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::vector<std::string> verb_names(const CommandTree& tree) {
  std::vector<std::string> names;
  for (const auto& verb : tree.verbs) names.push_back(verb.info.name);
  return names;
}

// `help` takes the name of a verb, which nobody can list before all verbs are there.
std::vector<std::string> values_of(const CommandTree& tree, const OptionInfo& option) {
  return option.positional() && option.placeholder == "VERB" ? verb_names(tree) : option.values;
}

std::vector<std::string> option_names(const std::vector<OptionInfo>& options) {
  std::vector<std::string> names;
  for (const auto& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// Every spelling of every option that a value follows.
std::vector<std::string> names_with_value(const CommandTree& tree) {
  std::set<std::string> names;
  const auto collect = [&](const std::vector<OptionInfo>& options) {
    for (const auto& option : options) {
      if (!option.placeholder.empty()) names.insert(option.names.begin(), option.names.end());
    }
  };
  collect(tree.options);
  for (const auto& verb : tree.verbs) collect(verb.options);
  return {names.begin(), names.end()};
}

std::string bash_offer(const CommandTree& tree, const OptionInfo& option) {
  const auto values = values_of(tree, option);
  if (!values.empty()) return fmt::format("_tangram_words \"{}\"", joined(values));
  return option.takes_file ? "_tangram_files" : ":";
}

// What may follow an option of `verb` ("" before any verb), as branches of a case.
std::string bash_value_cases(const CommandTree& tree, const std::string& verb, const std::vector<OptionInfo>& options) {
  std::string cases;
  for (const auto& option : options) {
    if (option.positional() || option.placeholder.empty()) continue;
    std::vector<std::string> patterns;
    for (const auto& name : option.names) patterns.push_back(fmt::format("{}:{}", verb, name));
    cases += fmt::format("    {}) {}; return ;;\n", joined(patterns, "|"), bash_offer(tree, option));
  }
  return cases;
}

// What may stand at each place, as branches of a case on verb:place. A repeating argument takes all further places.
std::string bash_place_cases(const CommandTree& tree, const VerbTree& verb) {
  std::string cases;
  int place = 0;
  for (const auto& option : verb.options) {
    if (!option.positional()) continue;
    const std::string number = option.repeats ? "*" : fmt::format("{}", place);
    cases += fmt::format("    {}:{}) {} ;;\n", verb.info.name, number, bash_offer(tree, option));
    ++place;
  }
  return cases;
}

constexpr const char* kBashHelpers = R"(_tangram_words() { COMPREPLY=($(compgen -W "$1" -- "$current")); }
_tangram_files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")); }
)";

// Bash splits words at "=", so `--output=js` arrives as three words.
constexpr const char* kBashBegin = R"(_tangram() {
  local IFS=$' \t\n' current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb= place=0 i
  COMPREPLY=()
  if [[ $current == = ]]; then current=; elif [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi
)";

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

// For single quotes of sh: a quote inside ends them, stands alone, and begins them again.
std::string zsh_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : one_line(text)) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

// In the specifications of zsh, colons and brackets have a meaning.
std::string zsh_escaped(const std::string& text) {
  std::string result;
  for (const char c : one_line(text)) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_action(const CommandTree& tree, const OptionInfo& option) {
  const auto values = values_of(tree, option);
  if (!values.empty()) return "(" + joined(values) + ")";
  return option.takes_file ? "_files" : " ";
}

std::string zsh_specification(const CommandTree& tree, const OptionInfo& option) {
  if (option.positional()) {
    const char* place = option.repeats ? "*" : option.required ? "" : ":";
    return zsh_quoted(fmt::format("{}:{}:{}", place, option.placeholder, zsh_action(tree, option)));
  }
  std::string value = "[" + zsh_escaped(option.description) + "]";
  if (!option.placeholder.empty()) {
    value += fmt::format(":{}:{}", zsh_escaped(option.placeholder), zsh_action(tree, option));
  }
  if (option.names.size() == 1) return zsh_quoted(option.names[0] + value);
  return fmt::format("'({0})'{{{1}}}{2}", joined(option.names), joined(option.names, ","), zsh_quoted(value));
}

std::string fish_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : one_line(text)) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string fish_option(const CommandTree& tree, const OptionInfo& option, const std::string& condition) {
  std::string line = "complete -c tangram -n " + fish_quoted(condition);
  for (const auto& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  const auto values = values_of(tree, option);
  const bool takes_value = !option.placeholder.empty();
  if (option.takes_file) line += option.positional() ? " -F" : " -r -F";
  if (!option.takes_file && takes_value) line += option.positional() ? "" : " -x";
  if (!values.empty()) line += " -a " + fish_quoted(joined(values));
  return line + " -d " + fish_quoted(option.description) + "\n";
}

}  // namespace

std::string bash_completion(const CommandTree& tree) {
  std::string values;
  std::string options;
  std::string places = fmt::format("    :*) _tangram_words \"{}\" ;;\n", joined(verb_names(tree)));
  values += bash_value_cases(tree, "", tree.options);
  options += fmt::format("      '') _tangram_words \"{}\" ;;\n", joined(option_names(tree.options)));
  for (const auto& verb : tree.verbs) {
    values += bash_value_cases(tree, verb.info.name, verb.options);
    options += fmt::format("      {}) _tangram_words \"{}\" ;;\n", verb.info.name, joined(option_names(verb.options)));
    places += bash_place_cases(tree, verb);
  }
  std::string script = "# bash completion for tangram; written by `tangram completion bash`.\n";
  script += kBashHelpers;
  script += kBashBegin;
  script += "  for ((i = 1; i < COMP_CWORD; i++)); do\n    case ${COMP_WORDS[i]} in\n";
  script += fmt::format("      {}) ((i++)); [[ ${{COMP_WORDS[i]}} == = ]] && ((i++)) ;;\n",
                        joined(names_with_value(tree), "|"));
  script += "      -*|=) ;;\n";
  script += "      *) if [[ -z $verb ]]; then verb=${COMP_WORDS[i]}; else ((place++)); fi ;;\n    esac\n  done\n";
  script += "  case $verb:$previous in\n" + values + "  esac\n";
  script += "  if [[ $current == -* ]]; then\n    case $verb in\n" + options + "    esac\n    return\n  fi\n";
  script += "  case $verb:$place in\n" + places + "  esac\n}\ncomplete -F _tangram tangram\n";
  return script;
}

std::string zsh_completion(const CommandTree& tree) {
  std::string script =
      "#compdef tangram\n# zsh completion for tangram; written by `tangram completion zsh`.\n"
      "_tangram() {\n  local curcontext=$curcontext state line\n  typeset -A opt_args\n"
      "  local -a verbs=(\n";
  for (const auto& verb : tree.verbs) {
    script += "    " + zsh_quoted(verb.info.name + ":" + zsh_escaped(verb.info.summary)) + "\n";
  }
  script += "  )\n  _arguments -C \\\n";
  for (const auto& option : tree.options) script += "    " + zsh_specification(tree, option) + " \\\n";
  script += "    '1:verb:->verb' '*::argument:->rest'\n";
  script += "  case $state in\n    verb) _describe verb verbs ;;\n    rest)\n      case $words[1] in\n";
  for (const auto& verb : tree.verbs) {
    script += fmt::format("        {}) _arguments", verb.info.name);
    for (const auto& option : verb.options) script += " \\\n          " + zsh_specification(tree, option);
    script += " ;;\n";
  }
  script += "      esac ;;\n  esac\n}\n";
  return script + "if [[ $funcstack[1] == _tangram ]]; then _tangram \"$@\"; else compdef _tangram tangram; fi\n";
}

std::string fish_completion(const CommandTree& tree) {
  std::string script =
      "# fish completion for tangram; written by `tangram completion fish`.\n"
      "complete -c tangram -f\n";
  for (const auto& option : tree.options) script += fish_option(tree, option, "__fish_use_subcommand");
  for (const auto& verb : tree.verbs) {
    script += fmt::format("complete -c tangram -n __fish_use_subcommand -a {} -d {}\n", verb.info.name,
                          fish_quoted(verb.info.summary));
  }
  for (const auto& verb : tree.verbs) {
    const std::string condition = "__fish_seen_subcommand_from " + verb.info.name;
    for (const auto& option : verb.options) script += fish_option(tree, option, condition);
  }
  return script;
}

}  // namespace tangram::cli
