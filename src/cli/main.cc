// The program: real streams and signals. Everything that can be tested is in the library.

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

// Flushes the output and returns the exit code. A failed write, such as a full disk, is an error even if the verb
// succeeded. A reader that closed its end early (`| head`) is not: it has what it wanted.
ExitCode finish(tangram::cli::FdStream& out, ExitCode code) {
  out.flush();
  if (out.error() == 0 || out.error() == EPIPE) return code;
  fmt::print(stderr, "tangram: cannot write to standard output: {}\n", std::strerror(out.error()));
  return ExitCode::no_access;
}

}  // namespace

int main(int argc, char** argv) {
  // Without this, a reader that goes away (`| head`) would kill the process; now the write fails with EPIPE instead.
  std::signal(SIGPIPE, SIG_IGN);
  tangram::cli::FdStream out(STDOUT_FILENO);
  tangram::cli::FdStream err(STDERR_FILENO);
  // Errors appear at once, also if the process dies right after.
  err << std::unitbuf;
  try {
    tangram::cli::Session session{.out = out,
                                  .err = err,
                                  .terminal = tangram::cli::inspect_terminal(STDOUT_FILENO),
                                  .err_terminal = tangram::cli::inspect_terminal(STDERR_FILENO)};
    tangram::cli::Program program;
    return static_cast<int>(finish(out, program.run({argv + (argc > 0), argv + argc}, session)));
  } catch (const std::exception& error) {
    // Errors are values in Tangram, so an exception that arrives here is a bug of ours.
    err << "tangram: internal error: " << error.what() << "\n";
    return static_cast<int>(ExitCode::internal_bug);
  }
}
