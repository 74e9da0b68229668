// How fast a job of a fixed global batch trains with so many slices, from the steps that it has timed.
#pragma once

#include <span>
#include <vector>

namespace tangram::train {

// `step_s[n - 1]`: a step with n trainers that share `parts` equal parts of the batch; 0: not timed. Answers the speed
// with 1, 2, ... trainers, up to one more than the most that were timed and at most `parts`: the goodput model fitted to
// these steps, which fills gaps and says what one more would bring. Empty: nothing was timed.
std::vector<double> speeds_from_steps(std::span<const double> step_s, int parts);

}  // namespace tangram::train
