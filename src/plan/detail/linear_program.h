// Linear and mixed-integer programs, solved by COIN-OR's CLP and CBC behind this header alone.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace tangram::plan::detail {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// Minimise cost * x subject to low <= A x <= high.
struct LinearProgram {
  struct Entry {
    int row = 0;
    double value = 0;
  };
  struct Column {
    double cost = 0;
    double low = 0;
    double high = kUnbounded;
    bool integer = false;
    std::vector<Entry> entries;
  };
  struct Row {
    double low = -kUnbounded;
    double high = kUnbounded;
  };

  std::vector<Row> rows;
  std::vector<Column> columns;

  int add_row(double low, double high);
  int add_column(Column column);
};

struct LinearAnswer {
  bool optimal = false;
  double objective = 0;
  std::vector<double> values;  // By column.
  std::vector<double> duals;   // By row: how the objective grows with the row's bound.
};

// Integrality is ignored.
LinearAnswer solve_linear(const LinearProgram& program);

struct IntegerLimits {
  std::int64_t nodes_max = 2000;  // Of the search tree. A count, not a clock, so that the answer is the same anywhere.
  double objective_step = 0;      // Objectives are multiples of it; 0: of nothing.
  double cutoff = kUnbounded;     // Only answers better than this are of interest.
};

struct IntegerAnswer {
  std::optional<std::vector<double>> values;  // The best found, whole numbers rounded.
  double objective = kUnbounded;
  double bound = -kUnbounded;  // No answer is better.
  bool proved = false;         // The search ended by itself: `values` is optimal, or nothing beats the cutoff.
};

// `start` is an answer to begin with, by column; empty: none.
IntegerAnswer solve_integer(const LinearProgram& program, const IntegerLimits& limits,
                            const std::vector<double>& start = {});

}  // namespace tangram::plan::detail
