// `tangram reference`: the reference pages, written by the program they describe.

#include "cli/help.h"
#include "cli/program.h"
#include "formats/schema.h"
#include "lab/scenario.h"

namespace tangram::cli {
namespace {

std::string scenario_page() {
  return "# Scenarios\n\n"
         "<!-- Made by `tangram reference scenario` from the description that the parser uses. Do not edit by hand. "
         "-->\n\n"
         "A scenario is what `tangram simulate` and `tangram capacity` read. [Files](files.md) says how files are "
         "checked "
         "and what the columns of the table mean; `examples/scenario.yaml` and `examples/scenario-day.yaml` are two of "
         "them.\n\n" +
         formats::reference_section({"scenario", lab::scenario_shape(), "scenario.yaml", "YAML"});
}

std::string page_of(const std::string& name, const Program& program) {
  if (name == "cli") return cli_reference_markdown(program.tree());
  return name == "scenario" ? scenario_page() : formats::reference_markdown();
}

}  // namespace

void add_reference(Program& program) {
  const auto page = std::make_shared<std::string>("files");
  Arguments& verb = program.add_verb(
      {.name = "reference",
       .group = "About Tangram",
       .summary = "the reference pages, in Markdown",
       .description =
           "Prints a page of the reference: `files` describes every key and column of every file, `scenario` those "
           "of scenarios, `cli` every verb and option. The pages in docs/reference are exactly these.",
       .examples = {{"tangram reference files", "Every key of every file."},
                    {"tangram reference cli > docs/reference/cli.md", "Write this page anew."}},
       .text_only = true},
      [&program, page](Session& session) {
        session.print(page_of(*page, program));
        return ExitCode::done;
      });
  program.one_of(verb.add_option("PAGE", *page, "Which page.")->capture_default_str(), {"files", "scenario", "cli"});
}

}  // namespace tangram::cli
