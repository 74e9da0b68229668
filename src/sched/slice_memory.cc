// Sums of memory. Copies are counted by name, because several services of a pool may run one copy.
#include "sched/slice_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace tangram::sched {
namespace {

// Sums of decimals; a plan that fills a slice exactly must not fail by rounding.
constexpr double kTolerance = 1e-6;

// The first entry of the pool that runs the copy, or null.
const PoolService* entry_of_copy(const Pool& pool, ServiceId copy) {
  const auto found = std::ranges::find_if(pool.services, [&](const auto& e) { return e.model.copy == copy; });
  return found == pool.services.end() ? nullptr : &*found;
}

// A copy that any service of the pool needs from the start is loaded from the start.
bool stays_loaded(const Pool& pool, ServiceId copy) {
  return std::ranges::any_of(pool.services, [&](const auto& e) { return e.model.copy == copy && !e.model.on_demand; });
}

double room_for_on_demand(const Pool& pool) {
  if (pool.memory_mib <= 0) return std::numeric_limits<double>::infinity();
  const MemoryNeed need = memory_need(pool);
  return (pool.memory_mib - need.loaded_mib - need.working_mib) * (1 + kTolerance);
}

std::string models_text(const Deployment& deployment, const Pool& pool) {
  std::vector<std::string> texts;
  for (const auto& entry : pool.services) {
    const bool shared = entry_of_copy(pool, entry.model.copy) != &entry;
    texts.push_back(fmt::format("{} {}", deployment.services[entry.service.index()].name,
                                shared                        ? "(the same copy)"
                                : entry.model.weights_mib > 0 ? fmt::format("{:.0f} MiB", entry.model.weights_mib)
                                                              : "(not known)"));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

MemoryNeed memory_need(const Pool& pool) {
  MemoryNeed need;
  for (const auto& entry : pool.services) {
    need.working_mib = std::max(need.working_mib, entry.model.working_mib);
    if (entry_of_copy(pool, entry.model.copy) != &entry) continue;
    if (stays_loaded(pool, entry.model.copy)) {
      need.loaded_mib += entry.model.weights_mib;
    } else {
      need.on_demand_largest_mib = std::max(need.on_demand_largest_mib, entry.model.weights_mib);
    }
  }
  return need;
}

std::optional<std::string> why_memory_lacks(const Deployment& deployment) {
  for (const auto& place : deployment.places) {
    const Pool& pool = deployment.pools[place.pool.index()];
    if (pool.memory_mib <= 0 || pool.services.size() < 2) continue;
    const MemoryNeed need = memory_need(pool);
    if (need.least_mib() <= pool.memory_mib * (1 + kTolerance)) continue;
    const DeployedDevice& device = deployment.devices[place.device.index()];
    const std::string on_demand =
        need.on_demand_largest_mib > 0
            ? fmt::format(", the largest model on demand {:.0f} MiB", need.on_demand_largest_mib)
            : "";
    return fmt::format(
        "{}/{}@{}: the models do not fit: the weights that stay loaded take {:.0f} MiB{} and the largest batch {:.0f} "
        "MiB more, but {:.0f} MiB are there. Weights: {}",
        device.name, device.geometry.profiles[place.slice.profile].name, place.slice.start, need.loaded_mib, on_demand,
        need.working_mib, pool.memory_mib, models_text(deployment, pool));
  }
  return std::nullopt;
}

OnDemandModels::Use OnDemandModels::use(const Pool& pool, const PoolService& entry) {
  const ServiceId copy = entry.model.copy;
  if (stays_loaded(pool, copy)) return {};
  if (!entry.model.stays) return {.cold = true, .evicted = {}};
  if (const auto found = std::ranges::find(loaded_, copy); found != loaded_.end()) {
    std::rotate(found, found + 1, loaded_.end());  // It is the one used last.
    return {};
  }
  const double room = room_for_on_demand(pool) - entry.model.weights_mib;
  double used = 0;
  for (const ServiceId other : loaded_) {
    const PoolService* holder = entry_of_copy(pool, other);
    used += holder == nullptr ? 0 : holder->model.weights_mib;
  }
  Use result{.cold = true, .evicted = {}};
  while (used > room && !loaded_.empty()) {
    const ServiceId oldest = loaded_.front();
    const PoolService* holder = entry_of_copy(pool, oldest);
    used -= holder == nullptr ? 0 : holder->model.weights_mib;
    result.evicted.push_back(oldest);
    loaded_.erase(loaded_.begin());
  }
  loaded_.push_back(copy);
  return result;
}

void OnDemandModels::forget(ServiceId copy) { std::erase(loaded_, copy); }

}  // namespace tangram::sched
