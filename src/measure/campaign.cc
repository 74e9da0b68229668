// From what a user asks for to a task: the candidates, the budget and the sampler.
//
// An axis that the user names is taken as it is. An open axis takes the values of the recorded file, or for an engine
// that really runs, those of choose_axes. Example: `--batches 1,4` on a file with three profiles and two sizes makes
// twelve candidates for each number of processes.

#include "measure/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tangram::measure {
namespace {

// Powers of two from 8 up, and the largest input itself, so that no input of the service lies beyond the measured
// sizes.
std::vector<std::int64_t> sizes_of(const Service& service) {
  const std::int64_t largest = largest_size(service);
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 8; size < largest; size *= 2) sizes.push_back(size);
  sizes.push_back(largest);
  return sizes;
}

std::vector<std::string> names_of(const Geometry& geometry) {
  std::vector<std::string> names;
  for (const auto& profile : geometry.profiles) names.push_back(profile.name);
  return names;
}

// The profiles of the axis, each once, smallest first; those of the file where it is open. A file may come from a
// larger host than this one, so a profile that it names is taken although the geometry does not have it.
Result<std::vector<std::string>> profiles_of(const Axes& axes, const Geometry& geometry, const Measurements& rows) {
  std::set<std::string> wanted;
  if (axes.profiles.empty()) {
    for (const auto& m : rows) wanted.insert(m.mig_profile);
  }
  for (const auto& name : axes.profiles) {
    if (const auto set = parse_profile_set(name)) {
      for (auto& known : names_of(restrict_to(geometry, *set))) wanted.insert(std::move(known));
    } else if (const auto profile = find_profile(geometry, name)) {
      wanted.insert(geometry.profiles[*profile].name);
    } else {
      return invalid_input("--profiles: " + profile.error().message);
    }
  }
  std::vector<std::string> ordered;
  for (const auto& name : names_of(geometry)) {
    if (wanted.erase(name) > 0) ordered.push_back(name);
  }
  // Profiles that this geometry does not have come last, in alphabetical order.
  ordered.insert(ordered.end(), wanted.begin(), wanted.end());
  return ordered;
}

// The values of an axis: as given, or those that the file has. Ascending, each once.
std::vector<std::int64_t> axis_of(const std::vector<std::int64_t>& given, const Measurements& rows,
                                  std::int64_t Measurement::*field) {
  std::set<std::int64_t> values(given.begin(), given.end());
  if (given.empty()) {
    for (const auto& m : rows) values.insert(m.*field);
  }
  return {values.begin(), values.end()};
}

// Removes the combinations that the file does not have: the product of axes has gaps that no run fills.
void keep_known(std::vector<learn::Candidate>& candidates, const Measurements& rows) {
  std::set<learn::Candidate> known;
  for (const auto& m : rows) known.insert(learn::candidate_of(m));
  std::erase_if(candidates, [&](const learn::Candidate& candidate) { return !known.contains(candidate); });
}

// The product of the axes. The order is part of the result: samplers break ties by it.
Result<std::vector<learn::Candidate>> candidates_of(const Campaign& campaign, const Geometry& geometry,
                                                    const Measurements& rows) {
  TANGRAM_TRY(const auto profiles, profiles_of(campaign.axes, geometry, rows));
  const auto sizes = axis_of(campaign.axes.sizes, rows, &Measurement::size);
  const auto processes = axis_of(campaign.axes.processes, rows, &Measurement::processes);
  const auto batches = axis_of(campaign.axes.batches, rows, &Measurement::batch);
  std::vector<learn::Candidate> candidates;
  for (const auto& profile : profiles) {
    for (const auto size : sizes) {
      for (const auto count : processes) {
        for (const auto batch : batches) candidates.push_back({profile, batch, size, count});
      }
    }
  }
  if (campaign.only_known) keep_known(candidates, rows);
  return candidates;
}

}  // namespace

void choose_axes(Axes& axes, const Service& service, const Geometry& geometry) {
  if (axes.batches.empty()) axes.batches = {1, 2, 4, 8, 16};
  if (axes.processes.empty()) axes.processes = {1};
  if (axes.sizes.empty()) axes.sizes = sizes_of(service);
  if (!axes.profiles.empty()) return;
  for (const auto& profile : geometry.profiles) {
    // Odd quarters say little beyond their neighbours, and doubling the points doubles the hours.
    if (geometry.units_per_core < 4 || profile.units % 2 == 0) axes.profiles.push_back(profile.name);
  }
}

Result<Task> task_of(const Campaign& campaign, const Geometry& geometry, const Measurements& rows) {
  TANGRAM_TRY(auto candidates, candidates_of(campaign, geometry, rows));
  if (candidates.size() > kCandidatesMax) {
    return invalid_input(fmt::format(
        "{} configurations are more than the limit of {}; narrow --profiles, --batches, --sizes or --processes",
        candidates.size(), kCandidatesMax));
  }
  Task task{.target = campaign.target,
            .candidates = std::move(candidates),
            .before = {},
            .repeats = campaign.repeats,
            .budget = {.measurements_max = campaign.sampling.budget, .time_max = {}}};
  // A user who allows three runs wants three, although fewer than repeats_min say little about their spread.
  task.repeats.repeats_min = std::min(task.repeats.repeats_min, task.repeats.repeats_max);
  if (campaign.minutes_max) task.budget.time_max = from_seconds(*campaign.minutes_max * 60);
  return task;
}

Result<Nothing> check_candidates(const Task& task, const engines::Engine& engine, const std::string& path) {
  // One runnable candidate is enough; the session skips the others with their reasons.
  std::string reason;
  for (const auto& candidate : task.candidates) {
    const auto why = engine.why_not(learn::point_of(task.target, candidate));
    if (!why) return Nothing{};
    reason = *why;
  }
  return invalid_input(
      fmt::format("{}: none of the {} requested configurations can be run: {}", path, task.candidates.size(), reason));
}

learn::Knowledge knowledge_without(Measurements all, const learn::Target& target) {
  // The model on other devices stays: it is the best evidence about the target.
  std::erase_if(all, [&](const Measurement& m) { return m.model == target.model && m.device == target.device; });
  return learn::know(all);
}

Choose sampler_of(const Campaign& campaign, const learn::Knowledge& knowledge, const RegretOf& regret) {
  return [&](std::span<const learn::Candidate> candidates, std::span<const Measurement> measured) {
    const bool fitted = std::ranges::any_of(measured, [](const Measurement& m) { return !m.out_of_memory(); });
    std::optional<learn::Regret> loss;
    if (fitted) loss = regret(candidates, measured);
    return learn::next_measurement({.target = campaign.target,
                                    .candidates = candidates,
                                    .measured = measured,
                                    .knowledge = &knowledge,
                                    .regret = loss ? &*loss : nullptr},
                                   campaign.sampling);
  };
}

}  // namespace tangram::measure
