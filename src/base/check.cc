#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tangram {

void check_failed(const char* file, int line, const char* condition, std::string_view reason) {
  // The C library's stderr: it is unbuffered, so the message is out before abort() ends the process.
  std::fprintf(stderr, "%s:%d: check failed: %s: %.*s\n", file, line, condition, static_cast<int>(reason.size()),
               reason.data());
  std::abort();
}

}  // namespace tangram
