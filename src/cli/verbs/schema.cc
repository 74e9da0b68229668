// `tangram schema`: prints the JSON Schema of a kind of file, for editors.
//
// Schemas are generated from the shapes that the parsers use, so they cannot differ from what the parsers accept.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/program.h"
#include "formats/schema.h"
#include "lab/model_file.h"
#include "lab/scenario.h"

namespace tangram::cli {
namespace schema_verb {
namespace {

constexpr const char* kScenario = "scenario";
constexpr const char* kModel = "model";

// The schema, or nullopt for an unknown name. Scenarios and models are described in `lab`, all other files in
// `formats`.
std::optional<std::string> schema_of(const std::string& name) {
  if (name == kScenario) return formats::json_schema(lab::scenario_shape());
  if (name == kModel) return formats::json_schema(lab::model_shape());
  return formats::json_schema(std::string_view(name));
}

std::vector<std::string> all_names() {
  // For the list, for completion and for the suggestion after a wrong name.
  auto names = formats::schema_names();
  names.emplace_back(kScenario);
  names.emplace_back(kModel);
  return names;
}

ExitCode run(Session& session, const std::string& name) {
  const auto names = all_names();
  if (name.empty()) {
    if (session.structured()) session.print_value(report::Json(names));
    if (!session.structured()) session.print(text::join(names, "\n") + "\n");
    return ExitCode::done;
  }
  const auto schema = schema_of(name);
  if (!schema) {
    const auto near = text::nearest(name, names);
    return session.fail({ErrorCode::invalid,
                         fmt::format("there is no schema \"{}\"{}; known: {}", name,
                                     near ? fmt::format(", did you mean {}?", *near) : "", fmt::join(names, ", "))});
  }
  if (session.format == OutputFormat::yaml) {
    session.print_value(report::Json::parse(*schema));
  } else {
    session.print(std::string_view(*schema));  // A schema is JSON in both other forms.
  }
  return ExitCode::done;
}

}  // namespace
}  // namespace schema_verb

void add_schema(Program& program) {
  using namespace schema_verb;
  const auto name = std::make_shared<std::string>();
  Arguments& verb = program.add_verb(
      {.name = "schema",
       .group = "Files",
       .summary = "print the JSON Schema of a kind of file",
       .description =
           "Without NAME, lists the kinds of files that have a schema. With NAME, prints its JSON Schema (draft-07), "
           "which editors use to complete and check a file as you type.",
       .examples = {{"tangram schema", "List the kinds."},
                    {"tangram schema fleet > fleet.schema.json", "Save the schema of fleet files."}}},
      [name](Session& session) { return run(session, *name); });
  program.offers(verb.add_option("NAME", *name, "The kind of file."), all_names());
}

}  // namespace tangram::cli
