// A covering program: one row for each queue, and one for each kind of slice that candidates take and cut devices give.

#include "plan/detail/share_choice.h"

#include <algorithm>

#include "plan/detail/linear_program.h"

namespace tangram::plan::detail {
namespace {

constexpr std::int64_t kChoiceNodes = 1000;

// Queues first, then kinds, then limits of devices. Columns: candidates first, then cuts.
LinearProgram program_of(const std::vector<Candidate>& candidates, std::size_t queues, const CoverProblem& devices) {
  LinearProgram program;
  for (std::size_t q = 0; q < queues; ++q) program.add_row(1, kUnbounded);
  for (std::size_t kind = 0; kind < devices.kinds; ++kind) program.add_row(-kUnbounded, 0);
  const auto kind_row = [&](std::size_t kind) { return static_cast<int>(queues + kind); };
  for (const auto& candidate : candidates) {
    LinearProgram::Column column{.high = 1, .integer = true, .entries = {}};
    for (const std::size_t q : candidate.queues) column.entries.push_back({static_cast<int>(q), 1});
    for (std::size_t kind = 0; kind < candidate.slices.size(); ++kind) {
      if (candidate.slices[kind] > 0) {
        column.entries.push_back({kind_row(kind), static_cast<double>(candidate.slices[kind])});
      }
    }
    program.add_column(std::move(column));
  }
  for (const auto& device : devices.devices) {
    const int limit = device.count_max < 0 ? -1 : program.add_row(0, device.count_max);
    for (const auto& cut : device.cuts) {
      LinearProgram::Column column{.cost = device.price, .integer = true, .entries = {}};
      for (std::size_t i = 0; i < cut.size(); ++i) {
        if (cut[i] > 0) column.entries.push_back({kind_row(device.kinds[i]), -static_cast<double>(cut[i])});
      }
      if (limit >= 0) column.entries.push_back({limit, 1});
      program.add_column(std::move(column));
    }
  }
  return program;
}

}  // namespace

std::optional<ChoicePrices> choice_prices(const std::vector<Candidate>& candidates, std::size_t queues,
                                          const CoverProblem& devices) {
  const LinearAnswer answer = solve_linear(program_of(candidates, queues, devices));
  if (!answer.optimal) return std::nullopt;
  ChoicePrices prices;
  for (std::size_t q = 0; q < queues; ++q) prices.queue.push_back(std::max(0.0, answer.duals[q]));
  for (std::size_t kind = 0; kind < devices.kinds; ++kind) {
    prices.kind.push_back(std::max(0.0, -answer.duals[queues + kind]));
  }
  return prices;
}

std::optional<std::vector<std::size_t>> choose(const std::vector<Candidate>& candidates, std::size_t queues,
                                               const CoverProblem& devices) {
  const bool whole = std::ranges::all_of(devices.devices, [](const CoverDevice& d) { return d.price == 1; });
  const IntegerAnswer answer = solve_integer(program_of(candidates, queues, devices),
                                             {.nodes_max = kChoiceNodes, .objective_step = whole ? 1.0 : 0.0});
  if (!answer.values) return std::nullopt;
  std::vector<std::size_t> chosen;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    if ((*answer.values)[c] > 0.5) chosen.push_back(c);
  }
  return chosen;
}

}  // namespace tangram::plan::detail
