// Runs a scenario under several policies side by side.
//
// Every policy gets the same scenario and seed, so it meets the same requests; differences in the results come from the
// policy alone. Runs are independent and use all cores.

#include "cli/run_policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "base/text.h"
#include "cli/build_info.h"
#include "cli/parallel.h"
#include "sched/policy.h"

namespace tangram::cli {
namespace {

constexpr std::uint64_t kProgressParts = 1000;  // Of one run.

}  // namespace

// A policy that is named twice would make two equal rows with the same name.
Result<Nothing> check_policies(const std::vector<std::string>& policies) {
  std::vector<std::string> known;
  for (const auto& policy : sched::policies()) known.emplace_back(policy.name);
  std::set<std::string> seen;
  for (const auto& policy : policies) {
    if (sched::find_policy(policy) == nullptr) {
      const auto near = text::nearest(policy, known);
      return Error{ErrorCode::invalid,
                   fmt::format("unknown policy \"{}\"{}; known: {}", policy,
                               near ? fmt::format(", did you mean {}?", *near) : "", text::join(known, ", "))};
    }
    if (seen.insert(policy).second) continue;
    return Error{ErrorCode::invalid, fmt::format("the policy {} is given twice; name each policy once", policy)};
  }
  return Nothing{};
}

report::ReportHead report_head(const lab::Scenario& scenario) {
  const BuildInfo build = build_info();
  return {"tangram " + build.version, build.commit, lab::effective_configuration(scenario), scenario.config.seed};
}

void warn(Session& session, const lab::Scenario& scenario) {
  for (const auto& warning : scenario.warnings) session.warn(warning);
}

std::vector<lab::Run> run_policies(Session& session, const lab::Scenario& scenario,
                                   const std::vector<std::string>& policies, const lab::RunDetail& detail) {
  std::vector<lab::Run> runs(policies.size());
  // Each run has its own counter, which only that run writes; the bar shows their sum.
  std::vector<std::atomic<std::uint64_t>> done(policies.size());
  Progress progress = session.progress("simulating", kProgressParts * policies.size());
  run_all(
      policies.size(),
      [&](std::size_t i) {
        sim::SimulationConfig config = scenario.config;
        config.scheduler.policy = policies[i];
        config.progress = [&done, i](double share) {
          // A scenario that runs twice (see lab::run_scenario) reports progress from 0 twice; the bar must not go back.
          done[i] = std::max(done[i].load(), static_cast<std::uint64_t>(share * kProgressParts));
          return true;
        };
        runs[i] = lab::run_scenario(scenario, std::move(config), detail);
        done[i] = kProgressParts;
      },
      [&] {
        std::uint64_t sum = 0;
        for (const auto& part : done) sum += part;
        progress.set(sum);
      });
  return runs;
}

}  // namespace tangram::cli
