// Manual pages in the language of man(7).
//
// A text is escaped once, where it enters the page: backslashes and hyphens mean themselves (so that options can be
// copied), a line never begins with a control character, and what is in backquotes is bold.

#include "cli/man_page.h"

#include <fmt/format.h>

#include "cli/exit_code.h"

namespace tangram::cli {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  bool code = false;
  for (const char c : text) {
    switch (c) {
      case '\\': result += "\\e"; break;
      case '-': result += "\\-"; break;
      case '`':
        code = !code;
        result += code ? "\\fB" : "\\fR";
        break;
      case '\n': result += result.empty() || result.ends_with("\n.PP\n") ? "" : "\n.PP\n"; break;
      // A control character at the start of a line, and a quote in the arguments of a macro.
      case '.':
      case '\'': result += result.empty() || result.ends_with('\n') ? std::string("\\&") + c : std::string(1, c); break;
      default: result += c;
    }
  }
  return result;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }

std::string head(const std::string& name, const std::string& version, const std::string& summary) {
  return fmt::format(".\\\" Written by `tangram reference man`; do not edit.\n.TH {} 1 \"\" \"tangram {}\" \"Tangram\"\n"
                     ".SH NAME\n{} \\- {}\n",
                     name, version, escaped(name), escaped(summary));
}

// One term and its meaning, indented.
std::string entry(std::string_view term, std::string_view meaning) {
  return fmt::format(".TP\n{}\n{}\n", bold(term), escaped(meaning));
}

template <typename Keep>
std::string section(const std::string& title, const std::vector<OptionInfo>& options, Keep keep) {
  std::string entries;
  for (const auto& option : options) {
    if (keep(option)) entries += entry(option_term(option), option_meaning(option));
  }
  return entries.empty() ? "" : ".SH " + title + "\n" + entries;
}

std::string exit_status() {
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& info : exit_codes()) text += entry(fmt::format("{}", static_cast<int>(info.code)), info.meaning);
  return text;
}

}  // namespace

std::string man_page(const CommandTree& tree, const std::string& version) {
  std::string text = head("tangram", version, "plan, serve and share partitioned GPUs");
  text += ".SH SYNOPSIS\n.B tangram\nVERB [OPTIONS] [ARGUMENTS]\n.SH DESCRIPTION\n" + escaped(kWhatItIs) +
          "\nThere is one verb for each task, and a page for each verb, such as\n.BR tangram\\-plan (1).\n";
  for (const auto& group : groups_of(tree)) {
    text += fmt::format(".SS {}\n", escaped(group));
    for (const auto& verb : tree.verbs) {
      if (verb.info.group == group) text += entry(verb.info.name, verb.info.summary);
    }
  }
  text += section("OPTIONS", tree.options, [](const OptionInfo&) { return true; });
  text += ".SH ENVIRONMENT\n";
  for (const auto& variable : environment_variables()) text += entry(variable.name, variable.meaning);
  text += exit_status() + ".SH SEE ALSO\n";
  for (const auto& verb : tree.verbs) {
    text += fmt::format(".BR {} (1){}\n", escaped("tangram-" + verb.info.name), &verb == &tree.verbs.back() ? "" : ",");
  }
  return text;
}

std::string man_page(const VerbTree& verb, const std::string& version) {
  std::string text = head("tangram-" + verb.info.name, version, verb.info.summary);
  text += ".SH SYNOPSIS\n" + bold(usage_line(verb)) + "\n.SH DESCRIPTION\n" + escaped(verb.info.description) + "\n";
  text += section("ARGUMENTS", verb.options, is_argument);
  text += section("OPTIONS", verb.options, is_own);
  text += section("COMMON OPTIONS", verb.options, is_common);
  text += ".SH EXAMPLES\n";
  for (const auto& example : verb.info.examples) text += entry(example.command, example.text);
  return text + exit_status() + ".SH SEE ALSO\n.BR tangram (1)\n";
}

}  // namespace tangram::cli
