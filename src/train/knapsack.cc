// The group knapsack: one number of GPUs for each job, so that the sum of values is greatest.
//
// Two algorithms. The exact one is dynamic programming, O(capacity * sum of sizes), for up to about a millisecond. The
// other follows the concave hulls of the values greedily, in nearly linear time; it is exact if every job has falling
// returns. Example: values {1, 5} have the hull 0, 2.5, 5, so both GPUs are given together as long as two are left.

#include "train/knapsack.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>

namespace tangram::train {
namespace {

constexpr double kExactWork = 2e6;  // Additions that an exact answer may take: about a millisecond.

std::vector<int> solve_exactly(std::span<const std::vector<double>> values, int capacity) {
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
  // Walks back through the table. The comparison is exact because it repeats the same addition that filled the cell.
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

// The next GPUs of one job: as many as are worth most each.
struct Raise {
  double each = 0;  // Value of each GPU of them.
  std::uint32_t job = 0;
  int to = 0;  // GPUs of the job with them.

  // The most valuable first; of equals the first job.
  bool operator<(const Raise& other) const { return each != other.each ? each < other.each : job > other.job; }
};

double value_at(std::span<const double> values, int gpus) {
  return gpus == 0 ? 0 : values[static_cast<std::size_t>(gpus) - 1];
}

// From `from` GPUs on, at most to `most`: the number whose GPUs gain most each. None where nothing gains.
Raise next_raise(std::span<const double> values, std::uint32_t job, int from, int most) {
  const double now = value_at(values, from);
  Raise best{0, job, 0};
  for (int w = from + 1; w <= most; ++w) {
    const double each = (value_at(values, w) - now) / (w - from);
    if (each > best.each) best = {each, job, w};
  }
  return best;
}

// The corners of the least concave curve above the values, as far as it rises: one pass, since the numbers ascend.
void append_corners(std::span<const double> values, std::vector<int>& corners) {
  const std::size_t begin = corners.size();
  corners.push_back(0);
  const auto slope = [&](int from, int to) { return (value_at(values, to) - value_at(values, from)) / (to - from); };
  for (int w = 1; w <= static_cast<int>(values.size()); ++w) {
    while (corners.size() > begin + 1 &&
           slope(corners[corners.size() - 2], w) >= slope(corners[corners.size() - 2], corners.back())) {
      corners.pop_back();
    }
    corners.push_back(w);
  }
  while (corners.size() > begin + 1 && slope(corners[corners.size() - 2], corners.back()) <= 0) corners.pop_back();
}

// Gives GPUs in the order of their value for each GPU, along the upper hulls of the values. The answer is optimal for
// the GPUs given so far, until one raise does not fit. The GPUs left, fewer than one job may have, then go to the best
// raises that fit.
std::vector<int> solve_by_hulls(std::span<const std::vector<double>> values, int capacity) {
  std::vector<int> corners;     // Of all jobs, one after the other.
  std::vector<std::size_t> at;  // By job: its current corner in `corners`.
  std::vector<std::size_t> end;
  for (const auto& job : values) {
    at.push_back(corners.size());
    append_corners(job, corners);
    end.push_back(corners.size());
  }
  std::vector<int> counts(values.size(), 0);
  std::priority_queue<Raise> raises;
  int left = capacity;
  // Offers the next raise of a job: the next corner of its hull, or, if that does not fit any more, the best number
  // below.
  const auto offer = [&](std::uint32_t job) {
    Raise raise{0, job, 0};
    if (at[job] + 1 < end[job]) {
      const int to = corners[at[job] + 1];
      raise = {(value_at(values[job], to) - value_at(values[job], counts[job])) / (to - counts[job]), job, to};
    }
    if (raise.to - counts[job] > left || counts[job] != corners[at[job]]) {  // Off the hull.
      const auto most = std::min<std::ptrdiff_t>(std::ssize(values[job]), counts[job] + left);
      raise = next_raise(values[job], job, counts[job], static_cast<int>(most));
    }
    if (raise.to > 0) raises.push(raise);
  };
  for (std::uint32_t job = 0; job < values.size(); ++job) offer(job);
  while (left > 0 && !raises.empty()) {
    const Raise raise = raises.top();
    raises.pop();
    const int more = raise.to - counts[raise.job];
    // An offer may be out of date, since others have taken GPUs after it was made; it is then offered again, smaller.
    if (more <= left) {
      counts[raise.job] = raise.to;
      left -= more;
      if (at[raise.job] + 1 < end[raise.job] && corners[at[raise.job] + 1] == raise.to) ++at[raise.job];
    }
    offer(raise.job);
  }
  return counts;
}

}  // namespace

std::vector<int> solve_knapsack(std::span<const std::vector<double>> values, int capacity) {
  double work = 0;
  for (const auto& job : values) work += static_cast<double>(job.size()) * capacity;
  return work <= kExactWork ? solve_exactly(values, capacity) : solve_by_hulls(values, capacity);
}

std::vector<int> solve_knapsack_by_hulls(std::span<const std::vector<double>> values, int capacity) {
  return solve_by_hulls(values, capacity);
}

}  // namespace tangram::train
