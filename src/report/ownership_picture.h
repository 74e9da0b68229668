// A picture of how inference and training share the GPUs of a cluster over time.
#pragma once

#include <string>
#include <vector>

#include "lab/ownership.h"

namespace tangram::report {

// Time to the right, GPUs upwards. Colours are the CSS variables training, running, guarded and asleep.
std::string ownership_picture(const std::vector<lab::Ownership>& timeline, double gpus);
// What the colours mean.
std::string ownership_key();

}  // namespace tangram::report
