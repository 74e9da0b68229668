// Judges a fitted latency model by runs that it has not seen.
//
// Each run is predicted without itself: left out alone, or together with its fold. The errors are grouped by slice,
// batch, size and processes, so that a reader sees where the model is weak, and the sampler proposes the run that would
// help most.

#include "report/learn_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/math.h"
#include "core/geometry.h"
#include "lab/slo_regret.h"
#include "learn/fit.h"
#include "learn/statistics.h"

namespace tangram::report {
namespace {

using learn::Candidate;
using learn::FittedRun;

constexpr std::int64_t kBatchUsual = 128;     // Worth a thought even where only small batches were measured.
constexpr std::size_t kCandidatesMax = 2000;  // Beyond it a choice takes seconds.

std::vector<UnseenRun> unseen_runs(const FittedRun& run) {
  std::vector<UnseenRun> unseen;
  // Leaving out the only observation would leave nothing to predict from.
  if (run.kriged.observations().size() < 2) return unseen;
  const auto forecasts = learn::unseen_forecasts(run);
  // The kriged part may hold only some of the runs, in their order. A run is matched by its features, because those are
  // all that the observation keeps of it.
  std::size_t next = 0;
  for (const auto& m : run.measured) {
    if (next == forecasts.size()) break;
    const auto features = learn::features_of(run.device, learn::candidate_of(m));
    if (!m.latency_ms || !features || !(*features == run.kriged.observations()[next].features)) continue;
    const auto& forecast = forecasts[next++];
    // Intervals are symmetric in the logarithm, because errors of run times are relative.
    const double half = run.interval_deviations * forecast.deviation;
    unseen.push_back({learn::candidate_of(m), *m.latency_ms, math::exp(forecast.log_ms),
                      math::exp(forecast.log_ms - half), math::exp(forecast.log_ms + half)});
  }
  return unseen;
}

// Absolute errors show how large the error is; the median of the signed errors is the bias.
ErrorGroup group_of(std::string name, const std::vector<double>& errors) {
  std::vector<double> sizes;
  for (const double e : errors) sizes.push_back(std::abs(e));
  return {std::move(name), errors.size(), learn::quantile(sizes, 0.5), learn::quantile(sizes, 0.9),
          learn::quantile(errors, 0.5)};
}

// Groups in ascending order of the number in the key; the text is the name of the group.
std::vector<ErrorGroup> grouped(const std::vector<UnseenRun>& unseen,
                                const std::function<std::pair<double, std::string>(const Candidate&)>& key) {
  std::map<std::pair<double, std::string>, std::vector<double>> errors;
  for (const auto& run : unseen) errors[key(run.candidate)].push_back(run.error());
  std::vector<ErrorGroup> groups;
  for (const auto& [name, list] : errors) groups.push_back(group_of(name.second, list));
  return groups;
}

std::string members_of(const FittedRun& run) {
  if (run.analytic_share == 1) return "analytic";
  if (run.boosted_share == 1) return "boosted";
  return run.boosted_share > 0 ? "kriged and boosted" : "kriged";
}

// What could be measured next: all plain profiles of the device with the sizes and processes measured so far, and
// batches that are powers of two.
std::vector<Candidate> candidates_around(const FittedRun& run) {
  std::set<std::string> profiles;
  std::set<std::int64_t> sizes;
  std::set<std::int64_t> processes;
  std::int64_t batch_max = kBatchUsual;
  for (const auto& m : run.measured) {
    profiles.insert(m.mig_profile);
    sizes.insert(m.size);
    processes.insert(m.processes);
    batch_max = std::max(batch_max, m.batch);
  }
  // A device that is in no table has only the profiles that were measured.
  if (const Geometry* geometry = find_geometry(run.device)) {
    for (const auto& profile : geometry->profiles) {
      if (profile.family == ProfileFamily::plain) profiles.insert(profile.name);
    }
  }
  std::vector<Candidate> candidates;
  for (const auto& profile : profiles) {
    for (const std::int64_t count : processes) {
      for (const std::int64_t size : sizes) {
        for (std::int64_t batch = 1; batch <= batch_max; batch *= 2)
          candidates.push_back({profile, batch, size, count});
      }
    }
  }
  return candidates;
}

void propose(const FittedRun& run, const learn::Knowledge& knowledge, LearnReport& report) {
  const auto candidates = candidates_around(run);
  if (candidates.size() > kCandidatesMax) {
    report.next_reason = fmt::format("{} candidates are too many to rank", candidates.size());
    return;
  }
  const learn::Target target{run.device, run.model};
  // Regret and not the error decides: a large error on a slice that no plan would use costs nothing.
  const auto regret = lab::slo_regret(run.device, candidates, lab::typical_slos_ms(run.measured));
  // The budget is one more than there are measurements, so that it never ends the search.
  const auto choice = learn::next_measurement({.target = target,
                                               .candidates = candidates,
                                               .measured = run.measured,
                                               .knowledge = &knowledge,
                                               .regret = &regret},
                                              {.budget = run.measured.size() + 1});
  if (choice.next) report.next = candidates[*choice.next];
  report.next_reason = choice.reason;
}

}  // namespace

LearnReport report_on(const FittedRun& run, const learn::Knowledge& knowledge) {
  LearnReport report;
  report.device = run.device;
  report.model = run.model;
  report.members = members_of(run);
  report.measurements = run.measured.size();
  report.out_of_memory =
      static_cast<std::size_t>(std::ranges::count_if(run.measured, [](const auto& m) { return m.out_of_memory(); }));
  report.calibration = run.calibration;
  report.coverage_stated = run.coverage;
  report.validation = run.validation;
  report.unseen = unseen_runs(run);
  propose(run, knowledge, report);
  if (report.unseen.empty()) return report;
  std::vector<double> errors;
  for (const auto& unseen : report.unseen) errors.push_back(unseen.error());
  const auto all = group_of("", errors);
  report.median_error = all.median_error;
  report.p90_error = all.p90_error;
  report.coverage = static_cast<double>(std::ranges::count_if(report.unseen, &UnseenRun::covered)) /
                    static_cast<double>(report.unseen.size());
  const auto number = [](std::int64_t n) { return std::pair(static_cast<double>(n), fmt::format("{}", n)); };
  report.by_slice = grouped(report.unseen, [&](const Candidate& c) {
    return std::pair(learn::features_of(run.device, c)->compute, c.mig_profile);
  });
  report.by_batch = grouped(report.unseen, [&](const Candidate& c) { return number(c.batch); });
  report.by_size = grouped(report.unseen, [&](const Candidate& c) { return number(c.size); });
  report.by_processes = grouped(report.unseen, [&](const Candidate& c) { return number(c.processes); });
  return report;
}

std::string calibration_text(learn::Calibration calibration) {
  switch (calibration) {
    case learn::Calibration::own: return "from its own errors";
    case learn::Calibration::borrowed: return "from the errors of other models";
    case learn::Calibration::assumed: return "assumed; there are no errors to learn from";
  }
  return "";
}

}  // namespace tangram::report
