// Which blocks of services, each with the slices that it would have, make the cheapest plan together.
#pragma once

#include <optional>
#include <vector>

#include "plan/cover.h"

namespace tangram::plan::detail {

// Queues that would share slices.
struct Candidate {
  std::vector<std::size_t> queues;
  std::size_t kind = 0;  // Of its slices; of a candidate with several kinds, the first.
  int count = 0;         // Slices of that kind.
  // Slices of all kinds, by kind.
  std::vector<int> slices;

  bool operator==(const Candidate&) const = default;
};

// What queues and slices are worth if candidates may be taken in parts.
struct ChoicePrices {
  std::vector<double> queue;
  std::vector<double> kind;
};
// Nothing if the candidates do not cover all queues within the devices.
std::optional<ChoicePrices> choice_prices(const std::vector<Candidate>& candidates, std::size_t queues,
                                          const CoverProblem& devices);

// The cheapest set of whole candidates that has every queue at least once, by index; nothing if none was found. Limited
// by a number of nodes.
std::optional<std::vector<std::size_t>> choose(const std::vector<Candidate>& candidates, std::size_t queues,
                                               const CoverProblem& devices);

}  // namespace tangram::plan::detail
