// Fills slices with queues: which queues would share how many slices of which kind.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "plan/detail/share_bound.h"
#include "plan/detail/share_choice.h"
#include "plan/detail/share_guess.h"
#include "plan/detail/share_queues.h"

namespace tangram::plan::detail {

// Up to this many queues the bound looks at what single slices can hold, and candidates are chosen from.
inline constexpr std::size_t kQueuesPatterns = 100;

// Slices of one kind and the queues that were put on them.
struct PackedSlices {
  std::vector<std::size_t> queues;  // In the order in which they were added; empty: the first of them does not fit.
  std::size_t kind = 0;
  int count = 1;
  double worth = 0;  // The prices of the queues added up.
};

// What fits is guessed by formulas (likely_holds), which costs nothing; what is then taken has to hold in a simulation,
// and is made shorter until it does.
//
// Refers to the problem and the demands (by queue) that it is made with, and follows QueueProblem::on_demand.
class SharePacking {
 public:
  // Whether these queues keep all promises on `count` slices of a kind. Costs a simulation where it is close.
  using Holds = std::function<bool(const std::vector<std::size_t>& queues, std::size_t kind, int count)>;

  SharePacking(const QueueProblem& problem, const std::vector<Demand>& demands, Holds holds);

  // Fills `count` slices of the kind, beginning with `first`, from the queues that are not done, in the given order.
  PackedSlices fill(std::size_t first, std::size_t kind, int count, const std::vector<std::size_t>& order,
                    const std::vector<bool>& done, const std::vector<double>& queue_price) const;

  // The longest beginning of the packed queues that keeps all promises on its slices, by bisection; at least one queue.
  std::vector<std::size_t> longest_that_holds(const PackedSlices& packed) const;

  // One slice after the other: the queue with the highest price in the bound opens a slice of the kind on which the
  // queues beside it are worth most for what the slice costs. `kind_price` is the price of a kind where the bound has
  // less than half of it. Every queue is in one candidate; a queue by itself has no slices yet (count 0).
  std::vector<Candidate> one_by_one(const ShareBound& bound, const std::vector<double>& kind_price) const;

  // The cheapest choice among many candidates and the slices that the plan without sharing has. Chosen candidates that
  // do not hold are made shorter, and the choice is made again. A queue may be in several of them, or in none.
  std::vector<Candidate> cheapest_choice(const PlanAnswer& alone, const CoverProblem& devices) const;

 private:
  using Known = std::set<std::vector<std::size_t>>;

  std::size_t size() const { return problem_.queues.size(); }
  std::size_t kinds() const { return problem_.stock.kinds.size(); }
  // The load times of the queues if they fit into the memory of one slice.
  std::optional<std::vector<double>> fits(const std::vector<std::size_t>& queues, const std::vector<QueueLoad>& loads,
                                          std::size_t kind) const;
  // Slices that single queues have in a plan without sharing; with certificates, where the plan has them.
  std::vector<Candidate> candidates_alone(const PlanAnswer& alone) const;
  // Adds what likely fits on slices of every kind and number. True if some are new: not in `known`, which they enter.
  bool add_candidates(const ChoicePrices& prices, Known& known, std::vector<Candidate>& candidates) const;
  // The same for one kind, number of slices and order, each queue being the first once.
  bool add_candidates_of(std::size_t kind, int count, const std::vector<std::size_t>& firsts,
                         const std::vector<std::size_t>& order, const ChoicePrices& prices, Known& known,
                         std::vector<Candidate>& candidates) const;
  // Whether a candidate holds in a simulation. If not, `shorter` is the longest beginning of its queues that does.
  bool verified(const Candidate& candidate, Candidate& shorter) const;
  // A single service: the plan without sharing says better what it needs.
  bool is_one_service(const std::vector<std::size_t>& queues) const;

  const QueueProblem& problem_;
  const std::vector<Demand>& demands_;
  Holds holds_;
  std::vector<std::vector<QueueLoad>> loads_;  // By queue and kind.
};

}  // namespace tangram::plan::detail
