#include "train/restart.h"

#include <cmath>

namespace tangram::train {

double restart_s(RestartKind kind, const RestartCost& cost, int before, int after) {
  if (after == 0) return 0;
  if (kind == RestartKind::full || before == 0 || before == after) return cost.full_s;
  if (after < before) return cost.fast_s;
  // The new workers' share of a full start, in whole seconds.
  return cost.fast_s + std::floor((cost.full_s - cost.fast_s) * (after - before) / after);
}

}  // namespace tangram::train
