// Completion scripts for bash, zsh and fish, generated from the command tree.
//
// The scripts are static: they contain all verbs, options and values, and never start Tangram, so completion is
// immediate. The price is that a script must be generated again after an update. Every text that ends up in a script
// goes through the quoting function of its shell, because descriptions contain quotes, colons and brackets.

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

// What completion offers for the value. `help` takes the name of a verb, and those are known only once all verbs are
// added.
std::vector<std::string> values_of(const CommandTree& tree, const OptionInfo& option) {
  return option.positional() && option.placeholder == "VERB" ? verb_names(tree) : option.values;
}

std::vector<std::string> option_names(const std::vector<OptionInfo>& options) {
  std::vector<std::string> names;
  for (const auto& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// All spellings of all options with a value. The bash script skips the word after them when it looks for the verb.
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

// The shell command that fills COMPREPLY. ":" does nothing: a number or a name has no completion.
std::string bash_offer(const CommandTree& tree, const OptionInfo& option) {
  const auto values = values_of(tree, option);
  if (!values.empty()) return fmt::format("_tangram_words \"{}\"", joined(values));
  return option.takes_file ? "_tangram_files" : ":";
}

// The values of the options of `verb` ("" before any verb), as branches of a case on verb:option.
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

// The positional arguments of the verb, as branches of a case on verb:place. A repeated argument takes all further
// places.
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

// Bash splits words at "=", so `--output=js` arrives as three words: the option, "=" and the value.
constexpr const char* kBashBegin = R"(_tangram() {
  local IFS=$' \t\n' current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb= place=0 i
  COMPREPLY=()
  if [[ $current == = ]]; then current=; elif [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi
)";

// A line break inside a description would end the command in all three shells.
std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

// Quotes for sh: a single quote inside ends the quoted part, follows as \', and opens a new one.
std::string zsh_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : one_line(text)) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

// In a specification of _arguments, colons separate fields and brackets enclose the description.
std::string zsh_escaped(const std::string& text) {
  std::string result;
  for (const char c : one_line(text)) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

// A single blank means that a value is required and nothing is offered.
std::string zsh_action(const CommandTree& tree, const OptionInfo& option) {
  const auto values = values_of(tree, option);
  if (!values.empty()) return "(" + joined(values) + ")";
  return option.takes_file ? "_files" : " ";
}

// One argument of _arguments. "*" repeats, and a second colon makes a positional argument optional.
std::string zsh_specification(const CommandTree& tree, const OptionInfo& option) {
  if (option.positional()) {
    const char* place = option.repeats ? "*" : option.required ? "" : ":";
    return zsh_quoted(fmt::format("{}:{}:{}", place, option.placeholder, zsh_action(tree, option)));
  }
  std::string value = "[" + zsh_escaped(option.description) + "]";
  if (!option.placeholder.empty()) {
    value += fmt::format(":{}:{}", zsh_escaped(option.placeholder), zsh_action(tree, option));
  }
  // Several spellings exclude each other: '(-o --to)'{-o,--to}'[...]'. The braces must stay outside of the quotes to
  // expand.
  if (option.names.size() == 1) return zsh_quoted(option.names[0] + value);
  return fmt::format("'({0})'{{{1}}}{2}", joined(option.names), joined(option.names, ","), zsh_quoted(value));
}

// In single quotes, fish knows two escapes: \' and \\.
std::string fish_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : one_line(text)) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

// -r requires a value, -F offers files, and -x requires a value and offers no files. Files are off by default, see
// fish_completion().
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
  // First a loop finds the verb and the number of positional arguments before the cursor. Then the cases are tried in
  // order: a value after its option, an option, a positional argument.
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
  // The first word selects a state; the words after the verb are completed by a second _arguments for that verb.
  script += "    '1:verb:->verb' '*::argument:->rest'\n";
  script += "  case $state in\n    verb) _describe verb verbs ;;\n    rest)\n      case $words[1] in\n";
  for (const auto& verb : tree.verbs) {
    script += fmt::format("        {}) _arguments", verb.info.name);
    for (const auto& option : verb.options) script += " \\\n          " + zsh_specification(tree, option);
    script += " ;;\n";
  }
  script += "      esac ;;\n  esac\n}\n";
  // The script works in both ways of loading: from $fpath, where it is the function itself, and by `source`.
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
