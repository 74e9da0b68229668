// Cholesky factorisation and triangular solves, row by row. The matrices have at most some hundred rows, so a blocked
// algorithm or a library would gain little; a fixed order of additions makes results repeat bit by bit.

#include "learn/detail/cholesky.h"

#include <algorithm>
#include <cmath>

namespace tangram::learn::detail {
namespace {

constexpr double kPivotMin = 1e-12;  // Relative to the diagonal element it comes from.

// Four independent sums, so that the additions need not wait for each other; the order is fixed.
double dot(const double* a, const double* b, std::size_t n) {
  double sums[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

// Row by row (Cholesky-Banachiewicz): each element needs only rows that are complete. n^3 / 3 operations.
void factor(std::vector<double>& matrix, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    double* const row = &matrix[i * n];
    for (std::size_t j = 0; j < i; ++j) {
      const double* const other = &matrix[j * n];
      row[j] = (row[j] - dot(row, other, j)) / other[j];
    }
    const double pivot = row[i] - dot(row, row, i);
    // Nearly equal points make a pivot that rounding may turn negative. Lifting it adds a tiny noise to that point.
    row[i] = std::sqrt(std::max(pivot, kPivotMin * std::max(row[i], 1e-300)));
  }
}

void solve_lower(std::span<const double> lower, std::size_t n, std::span<double> b) {
  for (std::size_t i = 0; i < n; ++i) b[i] = (b[i] - dot(&lower[i * n], b.data(), i)) / lower[i * n + i];
}

void solve_upper(std::span<const double> lower, std::size_t n, std::span<double> b) {
  for (std::size_t i = n; i-- > 0;) {
    b[i] /= lower[i * n + i];
    // By columns of L^T, which are rows of L: memory is read in order.
    for (std::size_t j = 0; j < i; ++j) b[j] -= lower[i * n + j] * b[i];
  }
}

// Column by column, 2 n^3 operations: only leave-one-out errors and the prior need it.
std::vector<double> inverse(std::span<const double> lower, std::size_t n) {
  std::vector<double> result(n * n);
  std::vector<double> column(n);
  for (std::size_t j = 0; j < n; ++j) {
    std::ranges::fill(column, 0);
    column[j] = 1;
    solve_lower(lower, n, column);
    solve_upper(lower, n, column);
    for (std::size_t i = 0; i < n; ++i) result[i * n + j] = column[i];
  }
  return result;
}

}  // namespace tangram::learn::detail
