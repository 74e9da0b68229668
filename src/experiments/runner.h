// What an experiment asks of the program that runs it.
//
// An experiment is a list of cells that do not depend on each other, for example one simulation for each policy and
// seed. This room has no threads and writes nothing, so the caller decides how many cells run at once and where
// messages go.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

namespace tangram::experiments {

class Runner {
 public:
  virtual ~Runner() = default;

  // Calls `run(i)` once for every i below `count`, in any order and possibly several at once, and returns when all have
  // returned. `activity` labels the progress that people see ("planning"); empty: show none.
  virtual void run_all(std::string_view activity, std::size_t count, const std::function<void(std::size_t)>& run) = 0;

  // A line that is worth knowing and no part of the answer.
  virtual void note(std::string_view line) = 0;
  // A line about input that is allowed and probably not meant.
  virtual void warn(std::string_view line) = 0;
};

// Calls `run(cell)` once for each cell, which keeps its own result: cells may run at the same time.
template <typename Cell, typename Run>
void run_cells(Runner& runner, std::string_view activity, std::vector<Cell>& cells, const Run& run) {
  runner.run_all(activity, cells.size(), [&](std::size_t i) { run(cells[i]); });
}

// The same from the last cell to the first, for lists that end with their longest cells: none of those is then left
// running alone at the end.
template <typename Cell, typename Run>
void run_cells_from_last(Runner& runner, std::string_view activity, std::vector<Cell>& cells, const Run& run) {
  runner.run_all(activity, cells.size(), [&](std::size_t i) { run(cells[cells.size() - 1 - i]); });
}

}  // namespace tangram::experiments
