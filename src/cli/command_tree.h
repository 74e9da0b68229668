// The verbs and their options as plain data, for everything that describes them: help, the reference page, manual pages
// and the completion of shells. It is read off the parser itself, so none of them can go stale.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tangram::cli {

struct OptionInfo {
  std::vector<std::string> names;  // "-o", "--to"; empty for an argument without dashes.
  std::string placeholder;         // "FILE"; empty for a flag.
  std::string description;
  std::string default_text;
  std::vector<std::string> values;  // What completion offers.
  bool takes_file = false;          // Completion offers files.
  bool repeats = false;
  bool required = false;
  bool common = false;  // Every verb has it.

  bool positional() const { return names.empty(); }
};

struct Example {
  std::string command;
  std::string text;
};

struct VerbInfo {
  std::string name;
  std::string group;    // Its heading in `tangram --help`.
  std::string summary;  // Half a sentence, for the list of verbs.
  std::string description;
  std::vector<Example> examples;  // At least one. Their files are in the repository, or below DIR.
  bool text_only = false;         // The answer is a text of its own form, so --output is not offered.
  bool output_is_file = false;    // --output names the file that the verb writes; the form is chosen before the verb.
};

struct VerbTree {
  VerbInfo info;
  std::vector<OptionInfo> options;  // Arguments first, common options last.
};

struct CommandTree {
  std::vector<OptionInfo> options;  // Of the program without a verb.
  std::vector<VerbTree> verbs;      // In the order of verbs.def.
};

inline constexpr const char* kWhatItIs = "Tangram plans, serves and shares GPUs that are cut into MIG slices.";

// `tangram geometry [OPTIONS] [TYPE]`
std::string usage_line(const VerbTree& verb);
// "-o, --to FILE", or "FILE..." for a repeated positional argument.
std::string option_term(const OptionInfo& option);
// The description, with the allowed values if they are few, and the default.
std::string option_meaning(const OptionInfo& option);

// The three parts of a verb's options. Every option belongs to exactly one of them.
bool is_argument(const OptionInfo& option);
bool is_own(const OptionInfo& option);
bool is_common(const OptionInfo& option);

// A part of `tree`. Errors: there is no such verb; they name one that is spelled alike.
Result<const VerbTree*> find_verb(const CommandTree& tree, const std::string& name);

// The groups in the order in which verbs first name them, which is the order of verbs.def.
std::vector<std::string> groups_of(const CommandTree& tree);

// An environment variable that the program reads.
struct Variable {
  std::string name;
  std::string meaning;
};
const std::vector<Variable>& environment_variables();

}  // namespace tangram::cli
