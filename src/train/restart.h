// What a change of its GPUs costs a training job before it learns again.
#pragma once

namespace tangram::train {

struct RestartCost {
  double full_s = 30;  // Stop, start and load everything.
  double fast_s = 30;  // Workers that stay keep their process; only the group is rebuilt.

  bool operator==(const RestartCost&) const = default;
};

enum class RestartKind {
  full,  // Every change is a full restart.
  fast,  // Auto-fast elastic (AFE): see restart_s.
};

// Seconds that a job waits after a change from `before` to `after` GPUs. Shrinking only rebuilds the group. Growing
// also starts the new workers, which costs their share of a full start. The same number elsewhere is a full restart.
double restart_s(RestartKind kind, const RestartCost& cost, int before, int after);

}  // namespace tangram::train
