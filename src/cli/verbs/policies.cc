// `tangram policies`: lists the dispatch policies, in the order of the registry, which has the default first.

#include "cli/program.h"
#include "report/table.h"
#include "sched/policy.h"

namespace tangram::cli {
namespace policies_verb {
namespace {

// A new policy appears here by its entry in the registry.
ExitCode run(Session& session) {
  if (session.structured()) {
    report::Json list = report::Json::array();
    for (const auto& policy : sched::policies()) list.push_back({{"name", policy.name}, {"summary", policy.summary}});
    session.print_value(list);
    return ExitCode::done;
  }
  report::Table table({{"POLICY"}, {"WHAT IT DOES", report::Align::left, true}});
  for (const auto& policy : sched::policies()) {
    table.add({{std::string(policy.name), Style::accent}, std::string(policy.summary)});
  }
  session.print(table.render(session.terminal));
  return ExitCode::done;
}

}  // namespace
}  // namespace policies_verb

void add_policies(Program& program) {
  using namespace policies_verb;
  program.add_verb({.name = "policies",
                    .group = "Simulate",
                    .summary = "list the dispatch policies",
                    .description = "Lists the policies of the scheduler, the default first.",
                    .examples = {{"tangram policies", "Print names and descriptions."}}},
                   [](Session& session) { return run(session); });
}

}  // namespace tangram::cli
