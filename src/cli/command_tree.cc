// The parts of the command tree that are the same for help, completion and the reference page.

#include "cli/command_tree.h"

namespace tangram::cli {

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

const std::vector<Variable>& environment_variables() {
  // Help and the reference page show this list; a new variable has to be added here.
  static const std::vector<Variable> variables{
      {"TANGRAM_OUTPUT", "the form of answers where --output does not say: table, json or yaml"},
      {"TANGRAM_QUIET", "set to 1: as --quiet"},
      {"NO_COLOR", "set to anything: no colour, as --no-color"},
      {"COLUMNS", "the width of a terminal that does not tell its own"},
      {"TANGRAM_SHARE", "the folder that holds examples/, where the installed one is not wanted"},
      {"TANGRAM_NVML", "the NVIDIA driver library, where libnvidia-ml.so.1 of the system is not wanted"},
      {"TANGRAM_STATE", "the folder for the checkpoint and the lock of tangram apply"},
  };
  return variables;
}

}  // namespace tangram::cli
