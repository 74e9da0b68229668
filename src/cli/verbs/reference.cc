// `tangram reference`: the reference pages, written by the program they describe.

#include "cli/help.h"
#include "cli/program.h"
#include "formats/schema.h"

namespace tangram::cli {

void add_reference(Program& program) {
  const auto page = std::make_shared<std::string>("files");
  CLI::App& verb = program.add_verb(
      {.name = "reference",
       .group = "About Tangram",
       .summary = "the reference pages, in Markdown",
       .description =
           "Prints a page of the reference: `files` describes every key and column of every file, `cli` every "
           "verb and option. The pages in docs/reference are exactly these.",
       .examples = {{"tangram reference files", "Every key of every file."},
                    {"tangram reference cli > docs/reference/cli.md", "Write this page anew."}}},
      [&program, page](Session& session) {
        session.print(*page == "cli" ? cli_reference_markdown(program.tree()) : formats::reference_markdown());
        return ExitCode::done;
      });
  program.one_of(verb.add_option("PAGE", *page, "Which page.")->capture_default_str(), {"files", "cli"});
}

}  // namespace tangram::cli
