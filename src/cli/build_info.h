// How this program was built.
#pragma once

#include <string>

namespace tangram::cli {

struct BuildInfo {
  std::string version;
  std::string commit;  // Of git; empty where it was built from a plain copy of the source.
  std::string compiler;
  std::string build_type;
  std::string sanitizers;  // Empty: none.
};

BuildInfo build_info();

// "tangram 0.1.0 1a2b3c4": what pages name as their generator.
std::string generator_text(const BuildInfo& build);

}  // namespace tangram::cli
