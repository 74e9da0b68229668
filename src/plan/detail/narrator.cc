// Applies steps to a model of the fleet and records time and capacity for each.
//
// Invariants: totals_ is the capacity of fleet_ by service, updated by differences; below_ is the set of services
// whose total is under their floor. Each call of tell() is one phase, which lasts as long as its longest step.

#include "plan/detail/narrator.h"

#include <algorithm>

#include "plan/detail/step_order.h"

namespace tangram::plan {
namespace {

// The table has one entry for each number of slices; larger numbers take the last one.
Duration from_table(const std::vector<double>& table_ms, std::size_t slices) {
  if (table_ms.empty() || slices == 0) return Duration::zero();
  return from_milliseconds(table_ms[std::min(slices, table_ms.size()) - 1]);
}

}  // namespace

Duration RecutTimes::create(std::size_t slices) const { return from_table(create_ms, slices); }
Duration RecutTimes::destroy(std::size_t slices) const { return from_table(destroy_ms, slices); }

// Without a latency model, compute slices are the best available stand-in for throughput. Replicas on a slice share it
// evenly.
double compute_slices_shared(const PlannedDevice& device, const PlannedSlice& slice, const Replica&) {
  const MigProfile& profile = device.geometry.profiles[slice.slice.profile];
  return static_cast<double>(profile.compute_slices) /
         static_cast<double>(std::max<std::size_t>(slice.replicas.size(), 1));
}

Narrator::Narrator(LiveFleet fleet, const TransitionOptions& options, const std::map<std::string, double>& floors)
    : fleet_(std::move(fleet)),
      options_(options),
      floors_(floors),
      capacity_(options.capacity ? options.capacity : compute_slices_shared),
      totals_(fleet_.capacity(capacity_)) {
  // A rollback may begin where a service is already below its floor.
  for (const auto& [service, floor] : floors_) judge(service);
}

void Narrator::judge(const std::string& service) {
  const auto floor = floors_.find(service);
  const bool low = floor != floors_.end() && totals_[service] < floor->second * (1 - kCapacityTolerance);
  if (low)
    below_.insert(service);
  else
    below_.erase(service);
}

Duration Narrator::duration_of(const Step& step) const {
  // A host is cut by setting CPU quotas, which takes negligible time.
  const PlannedDevice& device = fleet_.device(step.device);
  const bool host = device.geometry.units_per_core > 0;
  switch (step.action) {
    case StepAction::create: return host ? Duration::zero() : options_.recut.create(step.slices.size());
    case StepAction::destroy: return host ? Duration::zero() : options_.recut.destroy(step.slices.size());
    case StepAction::drain: return options_.drain;
    case StepAction::load: break;
    default: return Duration::zero();
  }
  if (!options_.load) return options_.load_default;
  const PlannedSlice slice{step.slices.front(), fleet_.loaded(step.device, step.slices.front())};
  return options_.load(device, slice, step.replica);
}

// Only the slice of the step can have changed, so the totals are updated by its difference instead of a sum over the
// fleet.
void Narrator::count(Step& step, const std::map<std::string, double>& before) {
  auto after = fleet_.capacity_of(step.device, step.slices.front(), capacity_);
  for (const auto& [service, value] : before) after.try_emplace(service, 0);
  for (const auto& [service, value] : after) {
    const auto old = before.find(service);
    double& total = totals_[service];
    total += value - (old == before.end() ? 0 : old->second);
    if (old == before.end() || old->second != value) step.capacity[service] = total;
    judge(service);
  }
  step.below.assign(below_.begin(), below_.end());
}

std::vector<std::string> Narrator::neighbours_of(const Step& step) const {
  std::vector<std::string> names;
  if (step.replica.service.empty()) return names;
  for (const auto& replica : fleet_.loaded(step.device, step.slices.front())) {
    if (replica.service != step.replica.service) names.push_back(replica.service);
  }
  return names;
}

void Narrator::tell(std::vector<Step> steps) {
  if (steps.empty()) return;
  Duration longest{};
  for (auto& step : steps) {
    step.phase = phase_;
    step.begins = now_;
    step.takes = duration_of(step);
    step.beside = neighbours_of(step);
    longest = std::max(longest, step.takes);
    const auto before = fleet_.capacity_of(step.device, step.slices.front(), capacity_);
    const auto done = fleet_.apply(step);
    TANGRAM_CHECK(done.ok(), done.error().message);
    // Only replicas have capacity, and slices are created and destroyed without any.
    const bool cuts = step.action == StepAction::create || step.action == StepAction::destroy;
    count(step, cuts ? std::map<std::string, double>{} : before);
    steps_.push_back(std::move(step));
  }
  ++phase_;
  now_ = add_saturating(now_, longest);
}

}  // namespace tangram::plan
