// `tangram config`: what is in force when a command line does not say it, and where it comes from.

#include "cli/config.h"

#include <fmt/format.h>

#include "cli/program.h"
#include "report/table.h"

namespace tangram::cli {
namespace config_verb {
namespace {

Result<ExitCode> run(Session& session) {
  TANGRAM_TRY(const auto configuration, load_configuration());
  if (session.structured()) {
    report::Json settings = report::Json::array();
    for (const auto& setting : configuration.settings) {
      settings.push_back({{"name", setting.name},
                          {"value", setting.value.empty() ? report::Json(nullptr) : report::Json(setting.value)},
                          {"from", setting.from},
                          {"option", setting.option},
                          {"variable", setting.variable}});
    }
    session.print_value(
        report::Json{{"file", configuration.file.empty() ? report::Json(nullptr) : report::Json(configuration.file)},
                     {"settings", settings}});
    return ExitCode::done;
  }
  report::Table table({{.title = "SETTING"},
                       {.title = "VALUE", .shrinks = true},
                       {.title = "FROM", .shrinks = true},
                       {.title = "OPTION"},
                       {.title = "VARIABLE"}});
  for (const auto& setting : configuration.settings) {
    table.add(
        {setting.name, setting.value.empty() ? "-" : setting.value, setting.from, setting.option, setting.variable});
  }
  session.print(table.render(session.terminal));
  session.remark(configuration.file.empty() ? "no tangram.yaml in this folder or above it\n"
                                            : fmt::format("read {}\n", configuration.file));
  return ExitCode::done;
}

}  // namespace
}  // namespace config_verb

void add_config(Program& program) {
  using namespace config_verb;
  program.add_verb(
      {.name = "config",
       .group = "About Tangram",
       .summary = "show what is configured, and where",
       .description =
           "Shows what verbs use when their options do not say it: the address of the server, its ports, the file with "
           "the key. An option goes before a variable of the environment, and that before the file tangram.yaml in the "
           "working folder or in the nearest folder above it. TANGRAM_CONFIG names another file, or, empty, none. `tangram "
           "serve` listens where its own options say, whatever is configured.",
       .examples = {{"tangram config", "What is in force, and from where."},
                    {"TANGRAM_ADDRESS=gateway tangram status", "Ask another server."},
                    {"tangram config --output json", "For programs."}}},
      run);
}

}  // namespace tangram::cli
