// `tangram version`: prints the version and how the program was built.

#include <fmt/format.h>

#include "cli/build_info.h"
#include "cli/program.h"

namespace tangram::cli {
namespace version_verb {
namespace {

ExitCode run(Session& session) {
  // An empty commit means a build from a plain copy of the source; programs get null for it.
  const BuildInfo info = build_info();
  if (session.structured()) {
    session.print_value(
        report::Json{{"version", info.version},
                     {"commit", info.commit.empty() ? report::Json(nullptr) : report::Json(info.commit)},
                     {"compiler", info.compiler},
                     {"build_type", info.build_type},
                     {"sanitizers", info.sanitizers}});
    return ExitCode::done;
  }
  // The version is the answer, so --quiet keeps it. Compiler and build type are remarks.
  session.print(fmt::format("tangram {}{}\n", info.version, info.commit.empty() ? "" : " (" + info.commit + ")"));
  session.remark(fmt::format("{}, {}{}\n", info.compiler, info.build_type,
                             info.sanitizers.empty() ? "" : ", sanitizers " + info.sanitizers));
  return ExitCode::done;
}

}  // namespace
}  // namespace version_verb

void add_version(Program& program) {
  using namespace version_verb;
  program.add_verb({.name = "version",
                    .group = "About Tangram",
                    .summary = "print the version and the build",
                    .description = "Prints the version, the commit if it is known, the compiler and the kind of build.",
                    .examples = {{"tangram version", "For people."},
                                 {"tangram version --output json", "For bug reports and programs."}}},
                   run);
}

}  // namespace tangram::cli
