#include "control/controller.h"

#include <utility>

#include "base/check.h"

namespace tangram::control {

Controller::Controller(const ControllerOptions& options, Replanner replanner, std::vector<ServiceDemand> planned)
    : options_(options), replanner_(std::move(replanner)) {
  TANGRAM_CHECK(planned.size() == replanner_.services().size(), "there is a demand for each service");
  for (std::size_t s = 0; s < planned.size(); ++s) {
    watches_.emplace_back(options_.watch, replanner_.services()[s], std::move(planned[s]));
  }
}

std::optional<NewPlan> Controller::observe(const Observation& seen) {
  TANGRAM_CHECK(seen.services.size() == watches_.size(), "every service is observed");
  add_to(window_, seen);
  for (std::size_t s = 0; s < watches_.size() && looks(); ++s) {
    watches_[s].look(seen.services[s].arrived, to_seconds(options_.look));
  }
  const bool within = looks() && !ends_window(seen.at);
  auto made = within ? meet_surges(seen) : end_window(std::exchange(window_, {}));
  if (made) made->step.at = seen.at;
  return made;
}

std::optional<NewPlan> Controller::meet_surges(const Observation& seen) {
  std::vector<std::string> reasons;
  std::vector<ServiceDemand> demand;
  for (const auto& watch : watches_) {
    if (auto reason = watch.surge_reason(); !reason.empty()) reasons.push_back(std::move(reason));
    demand.push_back(watch.wanted_in_surge());
  }
  if (reasons.empty() || seen.moving) return std::nullopt;
  auto made = plan_or_stay(demand, std::vector<bool>(watches_.size(), false));
  if (!made) return std::nullopt;
  // A watch whose rate stays keeps counting its quiet windows.
  for (std::size_t s = 0; s < watches_.size(); ++s) {
    if (demand[s].rate_per_s > watches_[s].planned().rate_per_s) watches_[s].set_planned(std::move(demand[s]));
  }
  made->step.reasons = std::move(reasons);
  return made;
}

std::optional<NewPlan> Controller::end_window(const Observation& window) {
  std::vector<std::string> reasons;
  std::vector<bool> remixed(watches_.size(), false);
  for (std::size_t s = 0; s < watches_.size(); ++s) {
    watches_[s].end_window(window.services[s], to_seconds(options_.interval));
    std::string rate = watches_[s].rate_reason();
    std::string mix = watches_[s].mix_reason();
    remixed[s] = !mix.empty();
    if (!rate.empty()) reasons.push_back(std::move(rate));
    if (!mix.empty()) reasons.push_back(std::move(mix));
  }
  // One plan moves at a time, and what is seen meanwhile is seen again in the next window.
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
  ++plans_refused_;
  return std::nullopt;
}

}  // namespace tangram::control
