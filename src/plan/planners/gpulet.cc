// gpulets: elastic partitioning (Choi et al., ATC 2022), as a baseline.
//
// The published rule, for GPUs that are partitioned by percentages (a gpulet is a partition), as the paper and the
// authors' public program have it. Models are taken in the order of rate times latency bound. For each, while some of
// its rate is not assigned:
// 1. The efficient size is the one that adds the most throughput per share of a GPU to that of the next smaller size;
//    sizes that add less than 5 % do not count. Throughput is that of the largest batch with 2 l(b) <= L, where l is
//    the run time and L the bound, and of batch 1 if there is none.
// 2. The required size is the smallest that has the throughput for the rest of the rate. The smaller of both sizes is
//    taken.
// 3. If its throughput is less than the rest, the model gets a gpulet of this size to itself, under full load.
// 4. Otherwise the rest shares a gpulet in time, if it can: gpulets are tried by descending occupancy. The cycle is
// what
//    the new model's batch takes to gather, at most the gpulet's cycle before; every batch is what arrives in a cycle;
//    the runs of all must fit into the cycle, and a cycle and all runs together into the bound of every model.
// 5. If it cannot, it gets the smallest free partition that is large enough, split from a GPU.
//
// What was changed:
// - A gpulet is a MIG slice and its size a number of compute slices. A GPU is cut as its geometry permits, not into at
//   most two parts, and slices are put on devices by an exact search.
// - No interference: slices have their own memory and caches, so the paper's linear model of it has no input.
// - The program ignores what is left of a rate below 15 a second, and shares a gpulet only with models of which at
// least
//   one request comes in a cycle. Long tails consist of such models; here each has one request in a cycle. Where a
//   cycle is too long for a bound, a shorter one is tried.
// - The program's comparator is named for descending order and sorts ascending. Both orders are tried, and the plan
//   with the fewest devices wins.
// - Batch sizes are those that the problem considers; shared ones are any number, rounded up instead of down, so that
//   all requests are served. Time is counted in mean run times, and promises by the p99 of a run.
// - Memory is counted as in all plans: the weights of all models on a slice, equal ones once, and the largest working
//   set. Services of one network under equal promises are one model; every input is padded to the longest.
// - Requests come at random, and a scheduler without cycles serves them, so the rule certifies nothing. With
//   Rule::certified, models whose promises do not hold may use less of a slice's time, until all hold.

#include <algorithm>
#include <cmath>

#include "plan/detail/duty_cycle.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan {
namespace {

using detail::CycleBoard;
using detail::CycleSlice;

// A size must raise the throughput of the next smaller one by this factor to count.
constexpr double kGainMin = 1.05;
// How often a cycle is shortened before a gpulet is not shared.
constexpr int kShorterMax = 8;

class Gpulet final : public Planner {
 public:
  PlanAnswer plan(const Problem& problem) const override {
    return detail::plan_by_cycles(problem, [](const CycleBoard&) {
      return std::vector<detail::CyclePacking>{[](CycleBoard& board) { return partition(board, false); },
                                               [](CycleBoard& board) { return partition(board, true); }};
    });
  }

 private:
  static std::vector<CycleSlice> partition(CycleBoard& board, bool descending) {
    std::vector<std::size_t> order(board.sessions().size());
    for (std::size_t s = 0; s < order.size(); ++s) order[s] = s;
    const auto work = [&](std::size_t s) { return board.sessions()[s].rate_per_s * board.sessions()[s].slo_s; };
    std::ranges::stable_sort(
        order, [&](std::size_t a, std::size_t b) { return work(descending ? b : a) < work(descending ? a : b); });
    std::vector<CycleSlice> slices;
    for (const std::size_t session : order) assign(board, session, slices);
    return slices;
  }

  static void assign(CycleBoard& board, std::size_t session, std::vector<CycleSlice>& slices) {
    const double rate = board.sessions()[session].rate_per_s;
    const std::size_t efficient = efficient_kind(board, session);
    double left = rate;
    while (left > detail::kUnitMin * rate) {
      const std::size_t kind = ideal_kind(board, session, efficient, left);
      const BatchChoice full = board.saturated(session, kind);
      if (full.rate_per_s > left) {
        if (share(board, session, left, slices)) return;
        if (auto alone = board.alone(session, kind, left)) {
          slices.push_back(std::move(*alone));
          return;
        }
      }
      // Under full load, or with runs that leave too little of the promise for a cycle.
      const double part = std::min(left, full.rate_per_s);
      slices.push_back({kind,
                        static_cast<double>(full.batch) / full.rate_per_s,
                        {{session, part, full.batch}},
                        part / full.rate_per_s});
      left -= part;
    }
  }

  // The greatest gain per compute slice over the next smaller size on which the model runs.
  static std::size_t efficient_kind(CycleBoard& board, std::size_t session) {
    std::size_t best = board.kinds()[0];
    double best_gain = 0;
    double rate_before = 0;
    int size_before = 0;
    for (const std::size_t kind : board.kinds()) {
      const double rate = board.saturated(session, kind).rate_per_s;
      const int size = board.compute_slices(kind);
      if (rate <= 0 || size == size_before || rate < kGainMin * rate_before) continue;
      const double gain = (rate - rate_before) / (size - size_before);
      if (gain > best_gain * (1 + detail::kSumTolerance)) {
        best = kind;
        best_gain = gain;
      }
      rate_before = rate;
      size_before = size;
    }
    return best;
  }

  // The smaller of the efficient kind and the smallest that has the throughput for the rate.
  static std::size_t ideal_kind(CycleBoard& board, std::size_t session, std::size_t efficient, double rate) {
    for (const std::size_t kind : board.kinds()) {
      if (kind == efficient || board.saturated(session, kind).rate_per_s >= rate) return kind;
    }
    return efficient;
  }

  // Adds the model to a gpulet that others use already; false if none can take it.
  static bool share(CycleBoard& board, std::size_t session, double rate, std::vector<CycleSlice>& slices) {
    if (!board.sessions()[session].may_share) return false;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const bool own = std::ranges::any_of(slices[i].turns, [&](const auto& turn) { return turn.session == session; });
      if (slices[i].occupancy < 1 && !own) order.push_back(i);
    }
    std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return slices[i].occupancy; });
    for (const std::size_t i : order) {
      if (auto both = shared(board, slices[i], session, rate)) {
        slices[i] = std::move(*both);
        return true;
      }
    }
    return false;
  }

  static std::optional<CycleSlice> shared(CycleBoard& board, const CycleSlice& slice, std::size_t session,
                                          double rate) {
    const auto alone = board.alone(session, slice.kind, rate);
    if (!alone) return std::nullopt;
    auto turns = slice.turns;
    turns.push_back(alone->turns[0]);
    double slo_s = board.sessions()[session].slo_s;
    for (const auto& turn : turns) slo_s = std::min(slo_s, board.sessions()[turn.session].slo_s);
    double cycle_s = std::min(slice.cycle_s, alone->cycle_s);
    for (int i = 0; i < kShorterMax && cycle_s > 0; ++i) {
      auto both = board.with_cycle(slice.kind, turns, cycle_s);
      if (!both) return std::nullopt;
      const double runs_s = both->occupancy * cycle_s;
      if (cycle_s + runs_s <= slo_s) {
        return board.fit_together(slice.kind, both->turns) ? std::move(both) : std::nullopt;
      }
      cycle_s = slo_s - runs_s;
    }
    return std::nullopt;
  }
};

}  // namespace

std::unique_ptr<Planner> make_gpulet() { return std::make_unique<Gpulet>(); }

}  // namespace tangram::plan
