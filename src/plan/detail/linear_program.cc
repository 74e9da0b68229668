// The only file that knows COIN-OR: CLP for linear programs, CBC for mixed-integer ones.
//
// Both are used through their libraries with limits by nodes, never by time, so the same program gives the same answer
// on any machine. Logging is off everywhere, because the libraries print to stdout by default.

#include "plan/detail/linear_program.h"

#include <coin/Clp_C_Interface.h>
#include <coin/CbcHeuristic.hpp>
#include <coin/CbcModel.hpp>
#include <coin/CglGomory.hpp>
#include <coin/CglKnapsackCover.hpp>
#include <coin/CglMixedIntegerRounding2.hpp>
#include <coin/CglProbing.hpp>
#include <coin/ClpSimplex.hpp>
#include <coin/OsiClpSolverInterface.hpp>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tangram::plan::detail {
namespace {

// The matrix in compressed columns, as COIN-OR takes it: entries of column c are at start[c] up to start[c + 1].
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

  // A large finite number in place of infinity, which the library reads as unbounded.
  static double bounded(double x) { return std::clamp(x, -kInfinite, kInfinite); }
  static constexpr double kInfinite = 1e50;
};

double cost_of(const LinearProgram& program, const std::vector<double>& values) {
  double cost = 0;
  for (std::size_t c = 0; c < values.size(); ++c) cost += program.columns[c].cost * values[c];
  return cost;
}

// Cuts that tighten covering problems, and a rounding heuristic that finds a first solution.
void add_cuts(CbcModel& model) {
  CglProbing probing;
  probing.setUsingObjective(1);
  probing.setMaxPass(1);
  probing.setMaxProbe(10);
  probing.setRowCuts(3);
  CglGomory gomory;
  CglKnapsackCover knapsack;
  CglMixedIntegerRounding2 rounding;
  // A negative frequency allows CBC to switch a generator off if it finds few cuts at the root.
  model.addCutGenerator(&probing, -1, "probing");
  model.addCutGenerator(&gomory, -1, "gomory");
  model.addCutGenerator(&knapsack, -1, "knapsack");
  model.addCutGenerator(&rounding, -1, "rounding");
  CbcRounding round(model);
  model.addHeuristic(&round);
}

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
  // The dual simplex, because covering problems have no negative costs: all columns at zero are dual feasible from the
  // start.
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
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  solver.getModelPtr()->setLogLevel(0);
  solver.setHintParam(OsiDoReducePrint, true, OsiHintTry);
  solver.loadProblem(static_cast<int>(program.columns.size()), static_cast<int>(program.rows.size()), form.start.data(),
                     form.index.data(), form.value.data(), form.column_low.data(), form.column_high.data(),
                     form.cost.data(), form.row_low.data(), form.row_high.data());
  for (std::size_t c = 0; c < program.columns.size(); ++c) {
    if (program.columns[c].integer) solver.setInteger(static_cast<int>(c));
  }
  // The library's own driver has global variables and cannot solve two problems at once; CbcModel can.
  CbcModel model(solver);
  model.setLogLevel(0);
  model.messageHandler()->setLogLevel(0);
  add_cuts(model);
  model.setMaximumNodes(static_cast<int>(std::min<std::int64_t>(limits.nodes_max, 1 << 30)));
  // Totals are multiples of the step, so a better solution is better by at least one step. Slightly less leaves room
  // for rounding.
  if (limits.objective_step > 0) model.setCutoffIncrement(0.999 * limits.objective_step);
  if (limits.cutoff < kUnbounded) model.setCutoff(limits.cutoff);
  if (!start.empty()) {
    model.setBestSolution(start.data(), static_cast<int>(start.size()), cost_of(program, start));
  }
  model.initialSolve();
  IntegerAnswer answer;
  // Infeasible is a proof that nothing beats the cutoff; any other failure proves nothing.
  if (!model.isInitialSolveProvenOptimal()) {
    answer.proved = model.isInitialSolveProvenPrimalInfeasible();
    return answer;
  }
  model.branchAndBound();
  // Status 0: the tree was searched to its end, so the solution found is optimal.
  answer.proved = model.status() == 0;
  answer.bound = model.getBestPossibleObjValue();
  const double* best = model.bestSolution();
  if (best != nullptr) {
    answer.values.emplace(best, best + program.columns.size());
    // Values are whole only within the solver's tolerance; the objective is computed again from the rounded ones.
    for (std::size_t c = 0; c < program.columns.size(); ++c) {
      if (program.columns[c].integer) (*answer.values)[c] = std::round((*answer.values)[c]);
    }
    answer.objective = cost_of(program, *answer.values);
  }
  return answer;
}

}  // namespace tangram::plan::detail
