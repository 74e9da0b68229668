// How the GPUs of a cluster are divided between inference and training.
#pragma once

#include <vector>

namespace tangram::lab {

// At an instant, or on average from then on; in GPUs.
struct Ownership {
  double at_s = 0;
  double training = 0;
  double running = 0;  // A request or batch.
  double guarded = 0;  // Idle, and kept for requests.
  double asleep = 0;   // Idle, and training may have it.
  double free = 0;

  double sum() const { return training + running + guarded + asleep + free; }
};

// Half as many steps, each the mean of two weighted by how long they last; `end_s` is the end of the last. Their number
// is even.
std::vector<Ownership> coarser(const std::vector<Ownership>& timeline, double end_s);

}  // namespace tangram::lab
