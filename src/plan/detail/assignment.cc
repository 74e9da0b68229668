// Assignment of rows to columns at the least total cost.
//
// The exact method is O(rows * columns * rows) with a table of all costs; beyond kExactAssignmentMax columns a greedy
// method takes over. Costs are integers, so there are no tolerances and the result is the same on every machine.

#include "plan/detail/assignment.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace tangram::plan {
namespace {

constexpr std::int64_t kUnreached = std::numeric_limits<std::int64_t>::max();

// The Hungarian method with potentials, one row at a time (Kuhn 1955; Jonker and Volgenant 1987). Index 0 of all
// arrays means "none".
//
// Invariant: cost - row potential - column potential is never negative, and is zero for every assigned pair. By
// duality an assignment with that property is a cheapest one.
class Hungarian {
 public:
  Hungarian(std::size_t rows, std::size_t columns)
      : columns_(columns),
        row_potential_(rows + 1),
        column_potential_(columns + 1),
        row_of_(columns + 1),
        way_(columns + 1) {}

  // Assigns one more row. Grows a tree of alternating paths from it until a free column is reached, then flips the
  // path, so rows that were assigned before stay assigned.
  template <typename Cost>
  void add_row(std::size_t row, const Cost& cost) {
    row_of_[0] = row;
    std::vector<std::int64_t> least(columns_ + 1, kUnreached);
    std::vector<char> used(columns_ + 1, 0);
    std::size_t column = 0;
    do {
      used[column] = 1;
      column = extend(column, cost, least, used);
    } while (row_of_[column] != 0);
    for (; column != 0; column = way_[column]) row_of_[column] = row_of_[way_[column]];
  }

  std::size_t row_of(std::size_t column) const { return row_of_[column]; }

 private:
  // Returns the next column that the tree reaches, after raising the potentials just enough to make its slack zero.
  template <typename Cost>
  std::size_t extend(std::size_t from, const Cost& cost, std::vector<std::int64_t>& least,
                     const std::vector<char>& used) {
    const std::size_t row = row_of_[from];
    std::int64_t step = kUnreached;
    std::size_t next = 0;
    for (std::size_t column = 1; column <= columns_; ++column) {
      if (used[column]) continue;
      const std::int64_t slack = cost(row - 1, column - 1) - row_potential_[row] - column_potential_[column];
      if (slack < least[column]) std::tie(least[column], way_[column]) = std::tuple(slack, from);
      if (least[column] < step) std::tie(step, next) = std::tuple(least[column], column);
    }
    for (std::size_t column = 0; column <= columns_; ++column) {
      if (used[column]) {
        row_potential_[row_of_[column]] += step;
        column_potential_[column] -= step;
      } else if (least[column] != kUnreached) {
        least[column] -= step;
      }
    }
    return next;
  }

  std::size_t columns_;
  std::vector<std::int64_t> row_potential_;
  std::vector<std::int64_t> column_potential_;
  std::vector<std::size_t> row_of_;
  std::vector<std::size_t> way_;
};

// Rows and columns are numbered from 1 inside the method and from 0 outside.
template <typename Cost>
std::vector<std::size_t> assign_exactly(std::size_t rows, std::size_t columns, const Cost& cost) {
  Hungarian method(rows, columns);
  for (std::size_t row = 1; row <= rows; ++row) method.add_row(row, cost);
  std::vector<std::size_t> column_of(rows, 0);
  for (std::size_t column = 1; column <= columns; ++column) {
    if (method.row_of(column) != 0) column_of[method.row_of(column) - 1] = column - 1;
  }
  return column_of;
}

// Each row in turn takes the cheapest column that is left.
template <typename Cost>
std::vector<std::size_t> assign_in_turn(std::size_t rows, std::size_t columns, const Cost& cost) {
  std::vector<std::size_t> column_of(rows, 0);
  std::vector<char> used(columns, 0);
  for (std::size_t row = 0; row < rows; ++row) {
    std::int64_t least = kUnreached;
    for (std::size_t column = 0; column < columns; ++column) {
      if (used[column]) continue;
      const std::int64_t price = cost(row, column);
      if (price < least) std::tie(least, column_of[row]) = std::tuple(price, column);
    }
    used[column_of[row]] = 1;
  }
  return column_of;
}

}  // namespace

std::vector<std::size_t> assign(std::size_t rows, std::size_t columns,
                                const std::function<std::int64_t(std::size_t, std::size_t)>& cost) {
  TANGRAM_CHECK(rows <= columns, "every row needs a column of its own");
  if (columns > kExactAssignmentMax) return assign_in_turn(rows, columns, cost);
  // Each cost is needed many times, and computing one compares two devices.
  std::vector<std::int64_t> table(rows * columns);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) table[row * columns + column] = cost(row, column);
  }
  return assign_exactly(rows, columns,
                        [&](std::size_t row, std::size_t column) { return table[row * columns + column]; });
}

}  // namespace tangram::plan
