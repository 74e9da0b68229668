#include "plan/detail/linear_program.h"

#include <coin/Cbc_C_Interface.h>
#include <coin/Clp_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"

namespace tangram::plan::detail {
namespace {

// The matrix by columns, as COIN-OR takes it.
struct Compressed {
  std::vector<CoinBigIndex> start{0};
  std::vector<int> index;
  std::vector<double> value;
  std::vector<double> column_low, column_high, cost, row_low, row_high;

  explicit Compressed(const LinearProgram& program) {
    for (const auto& column : program.columns) {
      for (const auto& entry : column.entries) {
        index.push_back(entry.row);
        value.push_back(entry.value);
      }
      start.push_back(static_cast<CoinBigIndex>(index.size()));
      column_low.push_back(bounded(column.low));
      column_high.push_back(bounded(column.high));
      cost.push_back(column.cost);
    }
    for (const auto& row : program.rows) {
      row_low.push_back(bounded(row.low));
      row_high.push_back(bounded(row.high));
    }
  }

  static double bounded(double x) { return std::clamp(x, -kInfinite, kInfinite); }
  static constexpr double kInfinite = 1e50;
};

// Takes the solver's messages, which it prints to standard output otherwise, whatever its log level.
void COINLINKAGE_CB say_nothing(Cbc_Model*, int, int, const double*, int, const int*, int, char**) {}

}  // namespace

int LinearProgram::add_row(double low, double high) {
  rows.push_back({low, high});
  return static_cast<int>(rows.size()) - 1;
}

int LinearProgram::add_column(Column column) {
  columns.push_back(std::move(column));
  return static_cast<int>(columns.size()) - 1;
}

LinearAnswer solve_linear(const LinearProgram& program) {
  const Compressed form(program);
  Clp_Simplex* model = Clp_newModel();
  TANGRAM_CHECK(model != nullptr, "the solver gives a model");
  Clp_setLogLevel(model, 0);
  Clp_loadProblem(model, static_cast<int>(program.columns.size()), static_cast<int>(program.rows.size()),
                  form.start.data(), form.index.data(), form.value.data(), form.column_low.data(),
                  form.column_high.data(), form.cost.data(), form.row_low.data(), form.row_high.data());
  Clp_dual(model, 0);
  LinearAnswer answer;
  answer.optimal = Clp_status(model) == 0;
  if (answer.optimal) {
    answer.objective = Clp_objectiveValue(model);
    const double* x = Clp_primalColumnSolution(model);
    const double* y = Clp_dualRowSolution(model);
    answer.values.assign(x, x + program.columns.size());
    answer.duals.assign(y, y + program.rows.size());
  }
  Clp_deleteModel(model);
  return answer;
}

IntegerAnswer solve_integer(const LinearProgram& program, const IntegerLimits& limits,
                            const std::vector<double>& start) {
  const Compressed form(program);
  Cbc_Model* model = Cbc_newModel();
  TANGRAM_CHECK(model != nullptr, "the solver gives a model");
  Cbc_loadProblem(model, static_cast<int>(program.columns.size()), static_cast<int>(program.rows.size()),
                  form.start.data(), form.index.data(), form.value.data(), form.column_low.data(),
                  form.column_high.data(), form.cost.data(), form.row_low.data(), form.row_high.data());
  for (std::size_t c = 0; c < program.columns.size(); ++c) {
    if (program.columns[c].integer) Cbc_setInteger(model, static_cast<int>(c));
  }
  Cbc_registerCallBack(model, say_nothing);
  Cbc_setLogLevel(model, 0);
  Cbc_setParameter(model, "log", "0");
  Cbc_setParameter(model, "slog", "0");
  Cbc_setParameter(model, "maxN", std::to_string(limits.nodes_max).c_str());
  if (limits.objective_step > 0) {
    Cbc_setParameter(model, "increment", std::to_string(0.999 * limits.objective_step).c_str());
  }
  if (limits.cutoff < kUnbounded) Cbc_setParameter(model, "cutoff", std::to_string(limits.cutoff).c_str());
  if (!start.empty()) Cbc_setInitialSolution(model, start.data());
  Cbc_solve(model);
  IntegerAnswer answer;
  // Status 0: the tree was searched to its end. Anything found is then optimal.
  answer.proved = Cbc_status(model) == 0;
  answer.bound = Cbc_getBestPossibleObjValue(model);
  const double* best = Cbc_bestSolution(model);
  if (best != nullptr) {
    answer.values.emplace(best, best + program.columns.size());
    for (std::size_t c = 0; c < program.columns.size(); ++c) {
      if (program.columns[c].integer) (*answer.values)[c] = std::round((*answer.values)[c]);
    }
    answer.objective = 0;
    for (std::size_t c = 0; c < program.columns.size(); ++c) {
      answer.objective += program.columns[c].cost * (*answer.values)[c];
    }
  }
  Cbc_deleteModel(model);
  return answer;
}

}  // namespace tangram::plan::detail
