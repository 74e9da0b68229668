#include "cli/verbs/verbs.h"

namespace tangram::cli {

std::span<const AddVerb> all_verbs() {
  // verbs.def is included a second time: verbs.h declares the functions, and here they become the list.
  static constexpr AddVerb kVerbs[] = {
#define TANGRAM_VERB(name) add_##name,
#include "cli/verbs/verbs.def"
#undef TANGRAM_VERB
  };
  return kVerbs;
}

}  // namespace tangram::cli
