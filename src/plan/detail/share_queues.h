// Services whose requests may share batches, and what slices offer to several of them at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/compose.h"

namespace tangram::plan::detail {

// Services that run the same copy of a network wherever they share a slice. Requests of all of them fill one batch.
struct ShareQueue {
  std::vector<std::size_t> members;  // Of the workload, ascending.
  bool may_share = true;             // False: it keeps slices of its own, for the reason below.
  std::string why_alone = {};
};

// The services of a problem as queues: those with the same model and weights whose promises are alike are one.
struct QueueProblem {
  std::vector<ShareQueue> queues;
  Problem problem;  // With one service for each queue, its traffic, sizes and samples put together.
  Stock stock;
  bool on_demand = true;  // Whether models may be loaded on demand.
};
QueueProblem queue_problem(const Problem& problem);
// Whether some queue has members with different promises. Their batches are kept to the strictest of them.
bool mixes_promises(const Problem& problem, const QueueProblem& queues);
// The same queues, each under the loosest promise of its members: whatever the members could do apart, they can do so.
// For bounds.
QueueProblem with_loosest_promises(const Problem& problem, const QueueProblem& queues);
// Why a service keeps slices of its own, by what it is and says; empty if it may share.
std::string why_alone(const Problem& problem, const Service& service);
// Which buckets queues get, of the sets of one bucket, of two, and so on up to PlanOptions::buckets_max.
enum class BucketChoice {
  fewest,    // The fewest whose cost is within 5 % of the least: batches fill sooner.
  cheapest,  // Those with the least padding and work.
};
// What each queue asks of slices. Buckets are chosen by cost alone: what shares is certified as a whole, with these
// buckets.
std::vector<Demand> queue_demands(const QueueProblem& problem, BucketChoice choice = BucketChoice::fewest);
// Whether two queues may be on the same slices, by what their services and the options say.
bool may_share_block(const QueueProblem& problem, std::size_t a, std::size_t b);

// How one queue runs on slices of one kind that it shares.
struct SharedRun {
  std::vector<std::int64_t> batch;  // By bucket of its demand.
  std::vector<double> rate_per_s;   // Samples a second if the slice ran nothing else.
  // How long it takes to load the copy, which every batch does if it is loaded on demand; zero: it stays loaded.
  double load_s = 0;
};

// One kind of slice, used by all queues of a block.
struct SharedOffer {
  std::size_t kind = 0;
  std::vector<SharedRun> runs;  // By queue of the block.
};

// Queues that share all of their slices; or a single service with slices of its own.
struct Block {
  std::vector<std::size_t> queues;
  std::vector<Demand> demands;      // By queue.
  std::vector<SharedOffer> offers;  // Of a block that shares; otherwise those of demands[0] are meant.
  CoverService cover;               // The classes of all demands, one after the other.
  std::size_t units_least = 0;      // Of a block that was packed for one slice: the units of that slice.

  bool shares(const QueueProblem& problem) const;
};

// The memory that the weights of some queues take on a slice of a kind: equal weights count once. Nothing if one of
// them is not known.
std::optional<double> weights_mib(const QueueProblem& problem, std::span<const std::size_t> queues, std::size_t kind);
// How long it takes to load the copy of a queue on slices of a kind, where it may be loaded on demand: the time is
// known, loading for every request takes at most 5 % of a slice's time, every promise of the queue leaves it besides a
// run, and no other queue runs the same copy.
std::optional<double> on_demand_s(const QueueProblem& problem, std::size_t queue, const Demand& demand,
                                  std::size_t kind);
// The load times of the queues on a slice of the kind, by queue: zero for those that stay loaded. Nothing is loaded on
// demand if all weights fit together with the largest working set; otherwise those that are asked most seldom for what
// they take of the memory. Nothing at all if even so they do not fit. `working_mib`: of the largest run.
std::optional<std::vector<double>> loads_that_fit(const QueueProblem& problem, std::span<const std::size_t> queues,
                                                  std::span<const Demand* const> demands, std::size_t kind,
                                                  double working_mib);
// What a slice of the kind has for models, less the share that is kept free; nothing if its memory is not known.
std::optional<double> room_mib(const QueueProblem& problem, std::size_t kind);

// What slices of each kind offer to the queues together. `demands` are those of the queues, in their order. A kind is
// left out if the weights do not fit, or if some queue cannot run there in time. Batches are kept short enough that a
// neighbour who waits for one still has half of its time.
std::vector<SharedOffer> shared_offers(const QueueProblem& problem, std::span<const std::size_t> queues,
                                       std::span<const Demand> demands);

// A sound and quick test: true if every promise holds on `count` slices of the offer even if requests are dealt to the
// slices at random, run one by one in the order of arrival, and come at the rate of their busiest time. False says
// nothing. By Lundberg's inequality: the wait exceeds t with a probability of at most exp(-x t), where x is the root of
// sum(rate * (exp(x * run) - 1)) = x.
bool surely_holds(const Problem& problem, const QueueProblem& queues, const Block& block, std::size_t offer, int count);

// Which models of a block are loaded on demand on the slices of an offer, and why, for people; nothing if none is.
// `workload` has the services that the queues were made of.
std::optional<std::string> note_on_demand(const QueueProblem& queues, const Workload& workload, const Block& block,
                                          std::size_t offer);

}  // namespace tangram::plan::detail
