// A plan rests on predictions, some of them never measured. For each service this names the least certain one: the run
// to measure next if the plan is to be trusted more.

#include "lab/confidence.h"

#include <fmt/format.h>

#include <algorithm>

namespace tangram::lab {
namespace {

// Goes over every run that the plan gives to a service and keeps the one with the widest interval.
Confidence widest_of(const plan::ServicePlan& service, const std::string& network, const learn::FittedModel& model) {
  Confidence widest;
  widest.service = service.service;
  double width = -1;
  for (const auto& group : service.groups) {
    for (const auto& bucket : group.replica.buckets) {
      const auto estimate = model.estimate(
          {group.device_type, group.mig_profile, network, bucket.batch_size, bucket.size_max, group.replica.processes});
      const auto* run = model.find(group.device_type, network);
      // Runs that the model does not know are not counted; a service with none of them known has `runs` == 0.
      if (!estimate || run == nullptr) continue;
      ++widest.runs;
      widest.runs_measured += estimate->measured ? 1 : 0;
      // Relative to the mean, because a long run has a wide interval even where it is well known.
      const double relative = (estimate->high_ms - estimate->low_ms) / std::max(estimate->mean_ms, 1e-9);
      if (relative <= width) continue;
      width = relative;
      widest.where = fmt::format("{} of {}, batch {}, size {}", group.mig_profile, group.device_type, bucket.batch_size,
                                 bucket.size_max);
      widest.measured = estimate->measured;
      widest.mean_ms = estimate->mean_ms;
      widest.low_ms = estimate->low_ms;
      widest.high_ms = estimate->high_ms;
      widest.coverage = run->coverage;
    }
  }
  return widest;
}

}  // namespace

std::vector<Confidence> confidence_of(const plan::Problem& problem, const plan::PlanAnswer& answer,
                                      const learn::FittedModel& model) {
  std::vector<Confidence> list;
  for (const auto& service : answer.services) {
    // The answer names services, predictions need the network. Every service of an answer is one of its problem.
    const auto asked = std::ranges::find(problem.workload.services, service.service, &Service::name);
    list.push_back(widest_of(service, asked->model, model));
  }
  return list;
}

std::vector<Guess> guesses_of(const plan::Problem& problem, const plan::PlanAnswer& answer,
                              const learn::FittedModel& model) {
  std::vector<Guess> list;
  for (const auto& service : answer.services) {
    const auto asked = std::ranges::find(problem.workload.services, service.service, &Service::name);
    Guess guess{service.service, {}};
    for (const auto& group : service.groups) {
      const auto* run = model.find(group.device_type, asked->model);
      const auto estimate = model.estimate({group.device_type, group.mig_profile, asked->model, 1, 1, 1});
      if (run == nullptr || !estimate || !estimate->guessed) continue;
      const std::string slice = fmt::format("{} of {}{}", group.mig_profile, group.device_type,
                                            run->assumed ? fmt::format(" (by {})", run->assumed->from) : "");
      if (std::ranges::find(guess.slices, slice) == guess.slices.end()) guess.slices.push_back(slice);
    }
    if (!guess.slices.empty()) list.push_back(std::move(guess));
  }
  return list;
}

}  // namespace tangram::lab
