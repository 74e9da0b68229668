// The exit codes, and which error leads to which.

#include "cli/exit_code.h"

namespace tangram::cli {

std::span<const ExitCodeInfo> exit_codes() {
  static constexpr ExitCodeInfo kCodes[] = {
      {ExitCode::done, "done"},
      {ExitCode::answer_is_no, "the answer is no: a check failed, or the request cannot be fulfilled"},
      {ExitCode::wrong_input, "invalid input: an error on the command line or in a file"},
      {ExitCode::no_access, "a file, device or peer could not be read, written or reached"},
      {ExitCode::internal_bug, "an internal error; please report it"},
      {ExitCode::interrupted, "interrupted with Ctrl-C"},
  };
  return kCodes;
}

ExitCode exit_code_of(ErrorCode code) {
  switch (code) {
    // Five kinds of errors become three codes: scripts need to know only whether to change the input, to try again, or
    // to take no for an answer.
    case ErrorCode::invalid: return ExitCode::wrong_input;
    case ErrorCode::exhausted: return ExitCode::answer_is_no;  // Understood, but too large to answer.
    case ErrorCode::not_found:
    case ErrorCode::denied:
    case ErrorCode::unavailable: return ExitCode::no_access;
  }
  return ExitCode::internal_bug;
}

}  // namespace tangram::cli
