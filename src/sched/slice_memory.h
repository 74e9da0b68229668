// What the models of a slice take of its memory, and which of those that are loaded on demand are loaded.
//
// One process keeps all models of a slice: the weights of each copy once, and the largest working set, because batches
// take turns. A slice of 4,096 MiB whose models have 1,000 MiB of weights each and need up to 500 MiB to run holds
// three of them at a time.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ids.h"
#include "sched/deployment.h"

namespace tangram::sched {

// The memory of one process of a pool, in MiB. Models whose memory is not known count as nothing.
struct MemoryNeed {
  double loaded_mib = 0;             // Weights of the copies that stay loaded.
  double on_demand_largest_mib = 0;  // The largest copy that is loaded on demand: one at a time must fit.
  double working_mib = 0;            // The largest working set.

  double least_mib() const { return loaded_mib + on_demand_largest_mib + working_mib; }
};
MemoryNeed memory_need(const Pool& pool);

// Why the slices of the plan cannot hold their models, as a sentence that names the slice, its models and their memory;
// nothing if all can, as far as the memory is known. A slice with one model is not judged: compile() has limited its
// batches to what fits.
std::optional<std::string> why_memory_lacks(const Deployment& deployment);

// The copies that one process has loaded on demand.
class OnDemandModels {
 public:
  struct Use {
    bool cold = false;               // The copy must be loaded.
    std::vector<ServiceId> evicted;  // These must go first, by ModelCopy::copy.
  };

  // A batch of `entry`, an on-demand model of `pool`, starts. Evicts the copies that were used least recently until the
  // weights of this one fit; all others if they never do.
  Use use(const Pool& pool, const PoolService& entry);
  // The load of a copy failed.
  void forget(ServiceId copy);
  // The process was restarted.
  void clear() { loaded_.clear(); }
  // Least recently used first.
  std::span<const ServiceId> loaded() const { return loaded_; }

 private:
  std::vector<ServiceId> loaded_;
};

}  // namespace tangram::sched
