// Help texts and the reference page, generated from the command tree.
//
// Help and reference page use the same functions for the term and the text of an option, so the page in docs/reference
// says exactly what --help says.

#include "cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/exit_code.h"
#include "report/text_width.h"

namespace tangram::cli {
namespace {

// Longer lines are hard to read, even if the terminal is wider.
constexpr int kHelpWidthMax = 100;
// A longer term gets a line of its own, so that one long option does not push all texts to the right.
constexpr int kTermWidthMax = 26;

struct Entry {
  std::string term;
  std::string text;
};

// Terms on the left, wrapped texts on the right.
std::string entries_text(const std::vector<Entry>& entries, const Terminal& terminal) {
  int width = 0;
  for (const auto& entry : entries) {
    const int own = report::display_width(entry.term);
    if (own <= kTermWidthMax) width = std::max(width, own);
  }
  // Two columns before the terms and two after them.
  const int indent = 2 + width + 2;
  const int columns = std::min(terminal.width, kHelpWidthMax) - indent;
  std::string result;
  for (const auto& entry : entries) {
    // A term that is too long is followed by a line break, and its text starts on the next line at the same column.
    const bool fits = report::display_width(entry.term) <= width;
    result += "  " + paint(terminal, Style::accent, fits ? report::pad_right(entry.term, width) : entry.term);
    result += fits ? "  " : "\n" + std::string(static_cast<std::size_t>(indent), ' ');
    // wrap() counts the indent of later lines within its width, so the indent is inserted afterwards.
    std::string wrapped = report::wrap(entry.text, columns, 0);
    for (std::size_t at = 0; (at = wrapped.find('\n', at)) != std::string::npos; at += 1) {
      wrapped.insert(at + 1, std::string(static_cast<std::size_t>(indent), ' '));
    }
    result += wrapped + "\n";
  }
  return result;
}

std::string heading(const std::string& text, const Terminal& terminal) {
  return "\n" + paint(terminal, Style::bold, text + ":") + "\n";
}

// The options for which `keep` is true, under a heading; nothing at all if there are none.
template <typename Keep>
std::string section(const std::string& title, const std::vector<OptionInfo>& options, const Terminal& terminal,
                    Keep keep) {
  std::vector<Entry> entries;
  for (const auto& option : options) {
    if (keep(option)) entries.push_back({option_term(option), option_meaning(option)});
  }
  return entries.empty() ? "" : heading(title, terminal) + entries_text(entries, terminal);
}

std::string examples_text(const std::vector<Example>& examples, const Terminal& terminal) {
  std::string result = heading("Examples", terminal);
  for (const auto& example : examples) {
    result += "  " + paint(terminal, Style::accent, example.command) + "\n      " + example.text + "\n";
  }
  return result;
}

// From the same table as the reference page.
std::vector<Entry> exit_code_entries() {
  std::vector<Entry> entries;
  for (const auto& info : exit_codes()) {
    entries.push_back({fmt::format("{}", static_cast<int>(info.code)), std::string(info.meaning)});
  }
  return entries;
}

// A "|" would end the cell of a Markdown table.
std::string escape_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

template <typename Keep>
std::string markdown_table(const std::string& title, const std::vector<OptionInfo>& options, Keep keep) {
  std::string rows;
  for (const auto& option : options) {
    if (!keep(option)) continue;
    rows += fmt::format("| `{}` | {} |\n", escape_cell(option_term(option)), escape_cell(option_meaning(option)));
  }
  return rows.empty() ? "" : fmt::format("\n| {} | Meaning |\n|---|---|\n{}", title, rows);
}

// The examples are one shell block, with their explanations as comments, so that readers can copy it whole.
std::string markdown_verb(const VerbTree& verb) {
  std::string text =
      fmt::format("\n### tangram {}\n\n```\n{}\n```\n\n{}\n", verb.info.name, usage_line(verb), verb.info.description);
  text += markdown_table("Argument", verb.options, is_argument);
  text += markdown_table("Option", verb.options, is_own);
  text += "\n```sh\n";
  for (const auto& example : verb.info.examples) text += fmt::format("# {}\n{}\n", example.text, example.command);
  return text + "```\n";
}

}  // namespace

std::string program_help(const CommandTree& tree, const Terminal& terminal) {
  std::string text = fmt::format("{}\n\nUsage: tangram VERB [OPTIONS] [ARGUMENTS]\n", kWhatItIs);
  for (const auto& group : groups_of(tree)) {
    std::vector<Entry> entries;
    for (const auto& verb : tree.verbs) {
      if (verb.info.group == group) entries.push_back({verb.info.name, verb.info.summary});
    }
    text += heading(group, terminal) + entries_text(entries, terminal);
  }
  // Before a verb every option is shown in one list.
  text += section("Options", tree.options, terminal, [](const OptionInfo&) { return true; });
  std::vector<Entry> variables;
  for (const auto& variable : environment_variables()) variables.push_back({variable.name, variable.meaning});
  text += heading("Environment", terminal) + entries_text(variables, terminal);
  text += heading("Exit codes", terminal) + entries_text(exit_code_entries(), terminal);
  return text + "\nFor the options and examples of a verb: tangram VERB --help\n";
}

std::string verb_help(const VerbTree& verb, const Terminal& terminal) {
  std::string text = fmt::format("Usage: {}\n\n{}\n", usage_line(verb),
                                 report::wrap(verb.info.description, std::min(terminal.width, kHelpWidthMax), 0));
  text += section("Arguments", verb.options, terminal, is_argument);
  text += section("Options", verb.options, terminal, is_own);
  text += section("Common options", verb.options, terminal, is_common);
  text += examples_text(verb.info.examples, terminal);
  return text + "\nExit codes: 0 done, 1 the answer is no, 2 invalid input, 3 no access, 4 bug.\n";
}

std::string cli_reference_markdown(const CommandTree& tree) {
  std::string text =
      "# The command line\n\n"
      "<!-- Written by `tangram reference cli`; do not edit. -->\n\n";
  text += std::string(kWhatItIs) +
          " Tangram is one program with one verb for each task: `tangram VERB [OPTIONS] [ARGUMENTS]`.\n";
  text += "\n## Common options\n\nEvery verb takes these.\n";
  // Common options are the same for all verbs, so they are read from the first and printed once.
  const auto& first = tree.verbs.front().options;
  text += markdown_table("Option", first, is_common);
  text += "\n## Environment\n\n| Variable | Meaning |\n|---|---|\n";
  for (const auto& variable : environment_variables()) {
    text += fmt::format("| `{}` | {} |\n", variable.name, variable.meaning);
  }
  text += "\n## Exit codes\n\n| Code | Meaning |\n|---|---|\n";
  for (const auto& info : exit_codes()) text += fmt::format("| {} | {} |\n", static_cast<int>(info.code), info.meaning);
  text += "\n## Verbs\n";
  for (const auto& group : groups_of(tree)) {
    text += fmt::format("\n**{}:** ", group);
    bool first_of_group = true;
    for (const auto& verb : tree.verbs) {
      if (verb.info.group != group) continue;
      text += fmt::format("{}[{}](#tangram-{})", first_of_group ? "" : ", ", verb.info.name, verb.info.name);
      first_of_group = false;
    }
    text += "\n";
  }
  for (const auto& verb : tree.verbs) text += markdown_verb(verb);
  return text;
}

}  // namespace tangram::cli
