// The program. Everything that can be tested lives in the library; here are the real streams and signals.

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>

#include "cli/fd_stream.h"
#include "cli/program.h"

namespace {

using tangram::cli::ExitCode;

// An answer that nobody could store is no answer; one that nobody wanted to read on is fine.
ExitCode finish(tangram::cli::FdStream& out, ExitCode code) {
  out.flush();
  if (out.error() == 0 || out.error() == EPIPE) return code;
  fmt::print(stderr, "tangram: cannot write to standard output: {}\n", std::strerror(out.error()));
  return ExitCode::no_access;
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that goes away (`| head`) shows as a failed write, not as a death of this process.
  std::signal(SIGPIPE, SIG_IGN);
  tangram::cli::FdStream out(STDOUT_FILENO);
  tangram::cli::FdStream err(STDERR_FILENO);
  err << std::unitbuf;
  try {
    tangram::cli::Session session{.out = out,
                                  .err = err,
                                  .terminal = tangram::cli::inspect_terminal(STDOUT_FILENO),
                                  .err_terminal = tangram::cli::inspect_terminal(STDERR_FILENO)};
    tangram::cli::Program program;
    return static_cast<int>(finish(out, program.run({argv + (argc > 0), argv + argc}, session)));
  } catch (const std::exception& error) {
    err << "tangram: internal error: " << error.what() << "\n";
    return static_cast<int>(ExitCode::internal_bug);
  }
}
