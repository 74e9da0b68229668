// What `--help` prints, and the reference page of the command line.
#pragma once

#include <string>

#include "cli/command_tree.h"
#include "cli/terminal.h"

namespace tangram::cli {

std::string program_help(const CommandTree& tree, const Terminal& terminal);
std::string verb_help(const VerbTree& verb, const Terminal& terminal);

// docs/reference/cli.md.
std::string cli_reference_markdown(const CommandTree& tree);

}  // namespace tangram::cli
