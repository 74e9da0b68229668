// The controller: looks answer surges, the end of a window answers everything else. All decisions about one service are
// in ServiceWatch; this file only combines the services into one call of the planner.

#include "control/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace tangram::control {
namespace {

// Shares of its rate that a service is planned for while the fleet is too small for all, in the order of trial. The
// last one keeps it reachable.
constexpr std::array<double, 4> kGivesWayTo{0.5, 0.25, 0.1, 0.02};

}  // namespace

Controller::Controller(const ControllerOptions& options, Replanner replanner, std::vector<ServiceDemand> planned)
    : options_(options), replanner_(std::move(replanner)) {
  TANGRAM_CHECK(planned.size() == replanner_.services().size(), "there is a demand for each service");
  for (std::size_t s = 0; s < planned.size(); ++s) {
    watches_.emplace_back(options_.watch, replanner_.services()[s], std::move(planned[s]));
  }
}

std::optional<NewPlan> Controller::observe(const Observation& seen) {
  TANGRAM_CHECK(seen.services.size() == watches_.size(), "every service is observed");
  // The last look of a window also ends it, so a surge in that look is answered with the window.
  const bool within = looks() && !ends_window(seen.at);
  const Duration length = take_in(seen);
  if (!within) window_begin_ = seen.at;
  auto made = within ? meet_surges(seen) : end_window(std::exchange(window_, {}), length);
  if (made) made->step.at = seen.at;
  return made;
}

Duration Controller::take_in(const Observation& seen) {
  // Looks and windows see the same requests: a window is the sum of its looks.
  add_to(window_, seen);
  const double seconds = to_seconds(seen.at - std::exchange(seen_at_, seen.at));
  for (std::size_t s = 0; s < watches_.size() && looks() && seconds > 0; ++s) {
    watches_[s].look(seen.services[s].arrived, seconds);
  }
  return seen.at - window_begin_;
}

// The window goes on: a plan that is asked for in the middle of it is made from what the watches know already.
std::optional<NewPlan> Controller::plan_now(const Observation& seen) {
  TANGRAM_CHECK(seen.services.size() == watches_.size(), "every service is observed");
  take_in(seen);
  if (seen.moving) return std::nullopt;
  std::vector<ServiceDemand> demand;
  for (const auto& watch : watches_) demand.push_back(watch.expected());
  auto made = plan_or_stay(demand, std::vector<bool>(watches_.size(), false));
  if (!made) return std::nullopt;
  for (std::size_t s = 0; s < watches_.size(); ++s) watches_[s].set_planned(std::move(demand[s]));
  made->step.at = seen.at;
  made->step.reasons = {"asked for"};
  return made;
}

std::optional<NewPlan> Controller::set_lost(std::set<std::string> lost, TimePoint at) {
  std::vector<std::string> reasons;
  // Whoever had to give way gets back what a returning device can carry.
  bool needed = short_of_devices_ && lost != replanner_.lost();
  for (const auto& name : lost) {
    // Also one that was lost before: the plan around it may not have been put in force.
    if (!replanner_.uses(name)) continue;
    reasons.push_back("lost " + name);
    needed = true;
  }
  replanner_.set_lost(std::move(lost));
  // Otherwise a device that is back is used by the next plan that needs one.
  if (!needed) return std::nullopt;
  if (reasons.empty()) reasons.push_back("devices are back");
  std::vector<ServiceDemand> demand = expected_or_surge();
  const std::size_t causes = reasons.size();
  auto made = plan_for_what_is_left(demand, reasons);
  short_of_devices_ = !made || reasons.size() > causes;
  if (!made) return std::nullopt;
  for (std::size_t s = 0; s < watches_.size(); ++s) watches_[s].set_planned(std::move(demand[s]));
  made->step.at = at;
  made->step.reasons = std::move(reasons);
  return made;
}

std::vector<ServiceDemand> Controller::expected_or_surge() const {
  std::vector<ServiceDemand> demand;
  for (const auto& watch : watches_) {
    demand.push_back(watch.wanted_in_surge());
    demand.back().rate_per_s = std::max(demand.back().rate_per_s, watch.expected().rate_per_s);
  }
  return demand;
}

std::string Controller::change_of(std::size_t s, const Service& next, bool gone, bool other_demand) const {
  const bool was_gone = s >= watches_.size() || replanner_.removed(s);
  if (gone) return was_gone ? "" : " is removed";
  if (was_gone) return " is new";
  const Service& now = replanner_.services()[s];
  const bool same = !other_demand && now.slo == next.slo && now.priority == next.priority;
  return same ? "" : " is described otherwise";
}

Result<NewPlan> Controller::set_roster(sched::Roster roster, const std::vector<std::optional<ServiceDemand>>& demand) {
  const std::size_t known = watches_.size();
  TANGRAM_CHECK(roster.removed.size() >= known && demand.size() == roster.removed.size(), "ids are never given back");
  Replanner replanner = replanner_;
  std::vector<ServiceWatch> watches = watches_;
  std::vector<std::string> reasons;
  for (std::size_t s = 0; s < demand.size(); ++s) {
    const Service& service = roster.workload.services[s];
    const bool gone = roster.removed[s];
    if (const auto change = change_of(s, service, gone, demand[s].has_value()); !change.empty()) {
      reasons.push_back(service.name + change);
    }
    if (s < known && !gone && !demand[s]) {
      watches[s].set_service(service);
      continue;
    }
    // A service that was removed keeps its place, and nothing is expected of it.
    ServiceWatch watch(options_.watch, service, gone ? ServiceDemand{} : demand[s].value_or(ServiceDemand{}));
    if (s < known) {
      watches[s] = std::move(watch);
    } else {
      watches.push_back(std::move(watch));
    }
  }
  if (reasons.empty()) reasons.push_back("the services were read again");
  replanner.set_roster(std::move(roster));
  std::vector<ServiceDemand> wanted;
  std::vector<bool> remixed;
  for (std::size_t s = 0; s < watches.size(); ++s) {
    wanted.push_back(watches[s].wanted_in_surge());
    remixed.push_back(demand[s].has_value());
  }
  TANGRAM_TRY(auto made, replanner.plan(wanted, remixed));
  if (!made) return Error{ErrorCode::invalid, "the fleet cannot serve these services: " + replanner.reason()};
  replanner_ = std::move(replanner);
  watches_ = std::move(watches);
  window_.services.resize(watches_.size());
  for (std::size_t s = 0; s < watches_.size(); ++s) watches_[s].set_planned(std::move(wanted[s]));
  made->step.at = seen_at_;
  made->step.reasons = std::move(reasons);
  return std::move(*made);
}

std::optional<NewPlan> Controller::plan_for_what_is_left(std::vector<ServiceDemand>& demand,
                                                         std::vector<std::string>& reasons) {
  const std::vector<bool> remixed(watches_.size(), false);
  auto made = plan_or_stay(demand, remixed);
  std::set<int> priorities;
  for (const auto& service : replanner_.services()) priorities.insert(service.priority);
  for (auto lowest = priorities.begin(); !made && lowest != priorities.end(); ++lowest) {
    for (const double share : kGivesWayTo) {
      std::vector<ServiceDemand> less = demand;
      std::vector<std::string> who;
      for (std::size_t s = 0; s < less.size(); ++s) {
        const Service& service = replanner_.services()[s];
        if (service.priority > *lowest || replanner_.removed(s)) continue;
        less[s].rate_per_s *= service.priority == *lowest ? share : kGivesWayTo.back();
        who.push_back(
            fmt::format("{} gives way, {:.4g} of {:.4g}/s", service.name, less[s].rate_per_s, demand[s].rate_per_s));
      }
      made = plan_or_stay(less, remixed);
      if (!made) continue;
      demand = std::move(less);
      reasons.insert(reasons.end(), who.begin(), who.end());
      break;
    }
  }
  return made;
}

std::vector<ServiceWatch::Memory> Controller::memory() const {
  std::vector<ServiceWatch::Memory> memory;
  for (const auto& watch : watches_) memory.push_back(watch.memory());
  return memory;
}

Standing Controller::standing() const {
  Standing standing{replanner_.running(), {}};
  for (const auto& watch : watches_) standing.planned.push_back(watch.planned());
  return standing;
}

void Controller::set_standing(Standing standing) {
  TANGRAM_CHECK(standing.planned.size() == watches_.size(), "there is a demand for each service");
  replanner_.set_running(std::move(standing.plan));
  for (std::size_t s = 0; s < watches_.size(); ++s) watches_[s].set_planned(std::move(standing.planned[s]));
}

std::optional<NewPlan> Controller::meet_surges(const Observation& seen) {
  // All services are planned together, each for at least its planned rate: a surge never takes capacity from others.
  std::vector<std::string> reasons;
  std::vector<ServiceDemand> demand;
  for (const auto& watch : watches_) {
    if (auto reason = watch.surge_reason(); !reason.empty()) reasons.push_back(std::move(reason));
    demand.push_back(watch.wanted_in_surge());
  }
  if (reasons.empty() || seen.moving) return std::nullopt;
  auto made = plan_or_stay(demand, std::vector<bool>(watches_.size(), false));
  if (!made) return std::nullopt;
  // Only a service whose rate rises gets a new demand. set_planned() would restart the count of quiet windows of the
  // others, and a surge of one service would keep all others from scaling in.
  for (std::size_t s = 0; s < watches_.size(); ++s) {
    if (demand[s].rate_per_s > watches_[s].planned().rate_per_s) watches_[s].set_planned(std::move(demand[s]));
  }
  made->step.reasons = std::move(reasons);
  return made;
}

std::optional<NewPlan> Controller::end_window(const Observation& window, Duration length) {
  std::vector<std::string> reasons;
  std::vector<bool> remixed(watches_.size(), false);
  for (std::size_t s = 0; s < watches_.size(); ++s) {
    if (replanner_.removed(s)) continue;
    watches_[s].end_window(window.services[s], to_seconds(length));
    std::string rate = watches_[s].rate_reason();
    std::string mix = watches_[s].mix_reason();
    remixed[s] = !mix.empty();
    if (!rate.empty()) reasons.push_back(std::move(rate));
    if (!mix.empty()) reasons.push_back(std::move(mix));
  }
  // One change of plan at a time. What is seen meanwhile shows again in the next window.
  if (reasons.empty() || window.moving) return std::nullopt;
  std::vector<ServiceDemand> demand;
  for (std::size_t s = 0; s < watches_.size(); ++s) demand.push_back(watches_[s].wanted(remixed[s]));
  auto made = plan_or_stay(demand, remixed);
  if (!made) return std::nullopt;
  for (std::size_t s = 0; s < watches_.size(); ++s) watches_[s].set_planned(std::move(demand[s]));
  made->step.reasons = std::move(reasons);
  return made;
}

std::optional<NewPlan> Controller::plan_or_stay(const std::vector<ServiceDemand>& demand,
                                                const std::vector<bool>& remixed) {
  auto made = replanner_.plan(demand, remixed);
  if (made && *made) return std::move(**made);
  // The running plan stays in force: a plan that is too small serves more than none.
  ++plans_refused_;
  return std::nullopt;
}

}  // namespace tangram::control
