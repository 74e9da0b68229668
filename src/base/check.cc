#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tangram {

void check_failed(const char* file, int line, const char* condition, std::string_view reason) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %.*s\n", file, line, condition, static_cast<int>(reason.size()),
               reason.data());
  std::abort();
}

}  // namespace tangram
