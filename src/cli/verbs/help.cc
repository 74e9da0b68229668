// `tangram help`: the same as --help, for users who type it as a verb.

#include "cli/help.h"
#include "cli/program.h"

namespace tangram::cli {
namespace help_verb {
namespace {

ExitCode run(Session& session, const CommandTree& tree, const std::string& name) {
  if (name.empty()) {
    session.print(program_help(tree, session.terminal));
    return ExitCode::done;
  }
  const auto verb = find_verb(tree, name);
  if (!verb) return session.fail(verb.error());
  session.print(verb_help(**verb, session.terminal));
  return ExitCode::done;
}

}  // namespace
}  // namespace help_verb

void add_help(Program& program) {
  using namespace help_verb;
  const auto name = std::make_shared<std::string>();
  Arguments& verb =
      program.add_verb({.name = "help",
                        .group = "About Tangram",
                        .summary = "explain a verb",
                        .description = "Prints what `tangram --help` or `tangram VERB --help` prints.",
                        .examples = {{"tangram help geometry", "Explain the verb geometry."}},
                        .text_only = true},
                       [&program, name](Session& session) { return run(session, program.tree(), *name); });
  verb.add_option("VERB", *name, "The verb to explain.");
}

}  // namespace tangram::cli
