#include "cli/verbs/verbs.h"

namespace tangram::cli {

std::span<const AddVerb> all_verbs() {
  static constexpr AddVerb kVerbs[] = {
#define TANGRAM_VERB(name) add_##name,
#include "cli/verbs/verbs.def"
#undef TANGRAM_VERB
  };
  return kVerbs;
}

}  // namespace tangram::cli
