// Manual pages of the program and of its verbs, from the same tree as --help.
#pragma once

#include <string>

#include "cli/command_tree.h"

namespace tangram::cli {

// tangram(1), in the language of man(7).
std::string man_page(const CommandTree& tree, const std::string& version);
// tangram-VERB(1).
std::string man_page(const VerbTree& verb, const std::string& version);

}  // namespace tangram::cli
