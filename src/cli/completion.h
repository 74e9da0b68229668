// Scripts that let shells complete the command line.
#pragma once

#include <string>

#include "cli/command_tree.h"

namespace tangram::cli {

std::string bash_completion(const CommandTree& tree);
std::string zsh_completion(const CommandTree& tree);
std::string fish_completion(const CommandTree& tree);

}  // namespace tangram::cli
