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
