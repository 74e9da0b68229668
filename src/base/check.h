// Checks that stay on in release.
//
// A failed check is a bug in Tangram, never bad input: it prints the place and the reason and stops the process,
// because state that is already wrong must not reach a device or a client. Bad input travels as Result.
#pragma once

#include <string_view>

namespace tangram {

// Prints `file:line: check failed: condition: reason` to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view reason);

}  // namespace tangram

// TANGRAM_CHECK(condition, "why it must hold"). The file is named without its folder: where the source stood when it was
// compiled is nobody's business, and two checkouts can share objects.
#define TANGRAM_CHECK(condition, reason)                                      \
  do {                                                                        \
    if (!(condition)) [[unlikely]]                                            \
      ::tangram::check_failed(__FILE_NAME__, __LINE__, #condition, (reason)); \
  } while (false)
