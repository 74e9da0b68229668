// `tangram capacity`: the highest load at which a scenario's plan keeps every Slo.
//
// Each policy has its own bisection over one factor for all rates. All trials use the same random numbers, so a higher
// factor meets the same requests in less time, and the answer does not jump with the seed between trials.

#include <fmt/format.h>

#include <atomic>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/parallel.h"
#include "cli/program.h"
#include "cli/run_policies.h"
#include "lab/capacity.h"
#include "report/capacity_view.h"
#include "sched/policy.h"

namespace tangram::cli {
namespace capacity_verb {
namespace {

struct Options {
  std::string scenario;
  std::vector<std::string> policies;
  std::optional<double> percentile;
  double tolerance = 0.01;
  std::optional<std::uint64_t> seed;
};

// A percentile of 100 leaves no share of requests that may be late, so no number of requests could prove it. Services
// files reject it for the same reason.
std::string not_below_hundred(const std::string& text) {
  const auto percentile = text::parse_number(text);
  const bool right = percentile && *percentile > 0 && *percentile < 100;
  return right ? "" : fmt::format("expected a number above 0 and below 100, read \"{}\"", text);
}

// The usual number of trials of a bisection, for the bar. The search does not know in advance how many it needs.
constexpr std::uint64_t kTrialsUsual = 12;

// One search for each policy, on all cores. Each writes only to its own index, so results need no lock and are in the
// order of the policies. The first error, by that order, is returned.
Result<std::vector<lab::CapacityResult>> search(Session& session, const lab::Scenario& scenario,
                                                const Options& options) {
  std::vector<lab::CapacityResult> results(options.policies.size());
  std::vector<std::optional<Error>> errors(options.policies.size());
  std::atomic<std::uint64_t> trials = 0;
  Progress progress = session.progress("searching", kTrialsUsual * results.size());
  run_all(
      results.size(),
      [&](std::size_t i) {
        auto result = lab::find_capacity(
            scenario, {.policy = options.policies[i], .percentile = options.percentile, .tolerance = options.tolerance},
            // Returning true continues the search.
            [&trials](int) {
              ++trials;
              return true;
            });
        // An error does not stop the other searches; it is returned after all of them have ended.
        if (result) {
          results[i] = std::move(*result);
        } else {
          errors[i] = result.error();
        }
      },
      [&] { progress.set(trials); });
  for (const auto& error : errors) {
    if (error) return Error{error->code, fmt::format("{}: {}", options.scenario, error->message)};
  }
  return results;
}

// `answer_is_no` if some policy cannot keep the Slos at any load.
Result<ExitCode> run(Session& session, Options options) {
  TANGRAM_TRY(auto scenario, load_scenario(options.scenario));
  TANGRAM_RETURN_IF_ERROR(needs_plan(scenario, options.scenario));
  if (options.seed) scenario.config.seed = *options.seed;
  // Without --policies, the scenario's own.
  if (options.policies.empty()) options.policies = {scenario.config.scheduler.policy};
  TANGRAM_RETURN_IF_ERROR(check_policies(options.policies));
  warn(session, scenario);
  TANGRAM_TRY(const auto found, search(session, scenario, options));
  const auto& results = found;
  if (session.structured()) {
    session.print_value(report::capacity_json(report_head(scenario), {scenario.name, options.tolerance, results}));
  } else {
    session.print(report::capacity_table(results, session.terminal));
  }
  const bool none = std::ranges::any_of(results, [](const auto& result) { return result.rate_scale <= 0; });
  return none ? ExitCode::answer_is_no : ExitCode::done;
}

}  // namespace
}  // namespace capacity_verb

void add_capacity(Program& program) {
  using namespace capacity_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "capacity",
       .group = "Simulate",
       .summary = "find the highest load at which every promise is kept",
       .description =
           "Multiplies the rates of SCENARIO and finds, by bisection with the same random numbers, the highest "
           "factor at which every service keeps its promise. Every arrival counts; a rejected request has infinite "
           "latency. BINDING is the service that breaks its promise first above that factor. REQUESTS/S and PER S "
           "are averages over the time in which requests arrive. A closed loop is scaled through its think time; a "
           "closed loop without think time has no rate to scale.",
       .examples = {{"tangram capacity examples/scenario-day.yaml", "With the policy of the scenario."},
                    {"tangram capacity examples/scenario-day.yaml --policies tangram,elsa,fifs",
                     "Compare three policies."},
                    {"tangram capacity examples/scenario-day.yaml --percentile 95 --tolerance 0.002",
                     "Another percentile, and a narrower search."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers_files(verb.add_option("SCENARIO", options->scenario, "The scenario file.")->required());
  std::vector<std::string> names;
  for (const auto& policy : sched::policies()) names.emplace_back(policy.name);
  program.offers(verb.add_option("--policies", options->policies,
                                 "The policies to compare, p1,p2,...; default: the policy of the scenario.")
                     ->type_name("POLICIES")
                     ->delimiter(','),
                 names);
  verb.add_option("--percentile", options->percentile, "The percentile of the promises, instead of each service's own.")
      ->type_name("P")
      ->check(not_below_hundred);
  verb.add_option("--tolerance", options->tolerance, "The relative width at which the search ends.")
      ->type_name("T")
      ->capture_default_str()
      ->range(1e-6, 0.5);
  verb.add_option("--seed", options->seed, "The seed, instead of the scenario's.")->type_name("N");
}

}  // namespace tangram::cli
