// How this program was built, from the compiler and from the header that CMake generates.

#include "cli/build_info.h"

#include <fmt/format.h>

#include "tangram_build_info.h"

namespace tangram::cli {
namespace {

std::string compiler() {
#if defined(__clang__)
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

}  // namespace

BuildInfo build_info() {
  // CMake writes "unknown" if the source is not a git checkout.
  const std::string commit = TANGRAM_COMMIT;
  return {.version = TANGRAM_VERSION,
          .commit = commit == "unknown" ? "" : commit,
          .compiler = compiler(),
          .build_type = TANGRAM_BUILD_TYPE,
          .sanitizers = TANGRAM_SANITIZERS};
}

std::string generator_text(const BuildInfo& build) { return fmt::format("tangram {} {}", build.version, build.commit); }

}  // namespace tangram::cli
