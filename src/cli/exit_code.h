// How the program ends, for scripts that call it.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"

namespace tangram::cli {

enum class ExitCode : int {
  done = 0,
  answer_is_no = 1,   // The question was understood, and the answer is no: a check failed, a slice fits nowhere.
  wrong_input = 2,    // The command line or a file says something wrong.
  no_access = 3,      // A file, device or peer could not be read, written or reached.
  internal_bug = 4,   // Tangram is at fault.
  interrupted = 130,  // Ctrl-C, as shells count it.
};

struct ExitCodeInfo {
  ExitCode code;
  std::string_view meaning;
};
// All of them, in the order of the help.
std::span<const ExitCodeInfo> exit_codes();

ExitCode exit_code_of(ErrorCode code);

}  // namespace tangram::cli
