// Small dense linear algebra on row-major squares.
#pragma once

#include <span>
#include <vector>

namespace tangram::learn::detail {

// Replaces the lower triangle of the symmetric positive matrix by its lower Cholesky factor; the rest is not read. A
// pivot that rounding made too small is lifted, so that nearly singular matrices still factor.
void factor(std::vector<double>& matrix, std::size_t n);

// Solves L x = b and L^T x = b in place for the lower factor L.
void solve_lower(std::span<const double> lower, std::size_t n, std::span<double> b);
void solve_upper(std::span<const double> lower, std::size_t n, std::span<double> b);

// The inverse of L L^T, both triangles.
std::vector<double> inverse(std::span<const double> lower, std::size_t n);

}  // namespace tangram::learn::detail
