// Windows that are simulated whole are counted: with a share p of them good, the number of good ones of n is binomial.
// Windows of millions of requests are simulated in pieces. Each piece lasts longer than the queue remembers, so the
// share of a window is the mean of that many independent pieces.

#include "lab/detail/window_check.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/math.h"
#include "base/statistics.h"

namespace tangram::lab::detail {
namespace {

// Of n draws with chance p each, the probability that at least `least` succeed.
double at_least(std::size_t n, double p, double least) {
  double sum = 0;
  double log_choose = 0;  // Of n over k.
  for (std::size_t k = 0; k <= n; ++k) {
    const auto successes = static_cast<double>(k);
    const auto failures = static_cast<double>(n - k);
    if (successes >= least) sum += math::exp(log_choose + successes * math::log(p) + failures * math::log(1 - p));
    if (k < n) log_choose += math::log(failures) - math::log(successes + 1);
  }
  return std::min(sum, 1.0);
}

}  // namespace

void WindowCheck::add(std::span<const sim::Tally> pieces) {
  for (const auto& piece : pieces) shares_.push_back(piece.slo_attainment());
}

double WindowCheck::windows_kept() const {
  constexpr double kRounding = 1e-12;
  return static_cast<double>(std::ranges::count_if(shares_, [&](double s) { return s >= target_ - kRounding; }));
}

double WindowCheck::mean() const {
  return std::accumulate(shares_.begin(), shares_.end(), 0.0) / static_cast<double>(shares_.size());
}

double WindowCheck::deviation() const {
  const double centre = mean();
  double squares = 0;
  for (const double s : shares_) squares += (s - centre) * (s - centre);
  return std::sqrt(squares / static_cast<double>(shares_.size() - 1));
}

bool WindowCheck::holds(double error) const {
  TANGRAM_CHECK(shares_.size() >= 2, "windows were simulated");
  const auto n = static_cast<double>(shares_.size());
  if (pieces_ == 1) return at_least(shares_.size(), kWindowsKept, windows_kept()) <= error;
  const double low = mean() - student_t(error, n - 1) * deviation() / std::sqrt(n);
  const double of_window = deviation() / std::sqrt(static_cast<double>(pieces_));
  return low - math::normal_quantile(kWindowsKept) * of_window >= target_;
}

bool WindowCheck::is_broken(double error) const {
  TANGRAM_CHECK(shares_.size() >= 2, "windows were simulated");
  const auto n = static_cast<double>(shares_.size());
  if (pieces_ == 1) return 1 - at_least(shares_.size(), kWindowsKept, windows_kept() + 1) <= error;
  const double high = mean() + student_t(error, n - 1) * deviation() / std::sqrt(n);
  const double of_window = deviation() / std::sqrt(static_cast<double>(pieces_));
  return high - math::normal_quantile(kWindowsKept) * of_window < target_;
}

double WindowCheck::kept() const {
  if (shares_.empty()) return 1;
  if (pieces_ == 1) return windows_kept() / static_cast<double>(shares_.size());
  const double of_window = deviation() / std::sqrt(static_cast<double>(pieces_));
  if (of_window <= 0) return mean() >= target_ ? 1 : 0;
  return math::normal_cdf((mean() - target_) / of_window);
}

}  // namespace tangram::lab::detail
