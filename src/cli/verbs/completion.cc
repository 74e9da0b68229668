// `tangram completion`: prints a script that lets a shell complete the command line.

#include "cli/completion.h"

#include "cli/program.h"

namespace tangram::cli {
namespace completion_verb {
namespace {

// SHELL was checked against the three names when it was parsed.
std::string script_for(const std::string& shell, const CommandTree& tree) {
  if (shell == "bash") return bash_completion(tree);
  return shell == "zsh" ? zsh_completion(tree) : fish_completion(tree);
}

}  // namespace
}  // namespace completion_verb

void add_completion(Program& program) {
  using namespace completion_verb;
  const auto shell = std::make_shared<std::string>();
  Arguments& verb = program.add_verb(
      {.name = "completion",
       .group = "About Tangram",
       .summary = "print a script that completes tangram's verbs and options in the shell",
       .description =
           "Prints a completion script for SHELL. It completes verbs, options, option values, device types and file "
           "names.",
       .examples = {{"source <(tangram completion bash)", "Enable completion in the current bash."},
                    {"tangram completion zsh > ~/.zfunc/_tangram", "For zsh, in a folder of $fpath."},
                    {"tangram completion fish > ~/.config/fish/completions/tangram.fish", "For fish."}},
       .text_only = true},
      [&program, shell](Session& session) {
        session.print(script_for(*shell, program.tree()));
        return ExitCode::done;
      });
  program.one_of(verb.add_option("SHELL", *shell, "The shell.")->required(), {"bash", "zsh", "fish"});
}

}  // namespace tangram::cli
