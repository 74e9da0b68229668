// The plain list of verbs.
#pragma once

#include <span>

namespace tangram::cli {

class Program;

#define TANGRAM_VERB(name) void add_##name(Program& program);
#include "cli/verbs/verbs.def"
#undef TANGRAM_VERB

using AddVerb = void (*)(Program&);
// In the order of verbs.def.
std::span<const AddVerb> all_verbs();

}  // namespace tangram::cli
