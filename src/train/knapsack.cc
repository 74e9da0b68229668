#include "train/knapsack.h"

#include <algorithm>

namespace tangram::train {

std::vector<int> solve_knapsack(std::span<const std::vector<double>> values, int capacity) {
  const auto width = static_cast<std::size_t>(capacity) + 1;
  // best[i][g]: the most that the first i jobs are worth with g GPUs.
  std::vector<double> best((values.size() + 1) * width, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double* const before = best.data() + i * width;
    double* const now = best.data() + (i + 1) * width;
    std::copy_n(before, width, now);
    const std::size_t most = std::min(values[i].size(), width - 1);
    for (std::size_t w = 1; w <= most; ++w) {
      const double value = values[i][w - 1];
      for (std::size_t g = w; g < width; ++g) now[g] = std::max(now[g], before[g - w] + value);
    }
  }
  std::vector<int> counts(values.size(), 0);
  std::size_t left = width - 1;
  for (std::size_t i = values.size(); i-- > 0;) {
    const double* const before = best.data() + i * width;
    const double target = best[(i + 1) * width + left];
    for (std::size_t w = 1; w <= std::min(values[i].size(), left); ++w) {
      if (before[left - w] + values[i][w - 1] != target) continue;
      counts[i] = static_cast<int>(w);
      left -= w;
      break;
    }
  }
  return counts;
}

}  // namespace tangram::train
