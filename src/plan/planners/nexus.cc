// Nexus' squishy bin packing (Shen et al., SOSP 2019), as a baseline.
//
// The published rule, for whole GPUs and sessions of one network, one latency bound L and one rate r:
// 1. Saturate: B is the largest batch with 2 l(B) <= L, where l is the run time. The session gets floor(r / T) GPUs of
//    its own, with T = B / l(B); the rest of its rate is its residue.
// 2. Residue: b is the largest batch with b / r + l(b) <= L. Its duty cycle is d = b / r, and it occupies l(b) / d of a
//    GPU. By descending occupancy, each residue is merged with the GPU on which the occupancy after merging is highest,
//    and gets a new GPU if it fits on none.
// 3. Merging: the cycle is the shorter of both, every batch shrinks to what arrives in it, and the runs of all must fit
//    into it, and the models into the memory.
// At low rates, where b / r exceeds L for b = 1, the authors' program uses b = 1 and d = L - l(1), and so do we.
//
// What was changed:
// - A bin is a slice. Full slices are of the kind with the most throughput per compute slice, or all of one kind; a
//   residue opens a slice of one kind, or of the next larger kind if it does not run there, or of the kind on which it
//   takes the least time of compute slices. All of this is tried, whole GPUs among them, and the plan with the fewest
//   devices wins. Slices are put on devices by an exact search. The paper has neither; both help it.
// - Batch sizes of full slices are those that the problem considers; merged batches are any number.
// - The time of a cycle is counted in mean run times, and promises by the p99 of a run. The authors' program takes the
//   mean and one standard deviation for both.
// - Memory is counted as in all plans: the weights of all sessions, equal ones once, and the largest working set.
// - Services of one network share a session if their promises are equal; every input is padded to the longest. Queries
//   of several stages and networks with a common prefix are left out: services here are single networks.
// - Requests come at random, and a scheduler without cycles serves them, so the rule certifies nothing. With
//   Rule::certified, sessions whose promises do not hold may use less of a slice's time, until all hold.

#include <algorithm>
#include <cmath>

#include "plan/detail/duty_cycle.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan {
namespace {

using detail::CycleBoard;
using detail::CycleSlice;

struct Residue {
  std::size_t session = 0;
  double rate_per_s = 0;
  CycleSlice alone;
};

class Nexus final : public Planner {
 public:
  PlanAnswer plan(const Problem& problem) const override {
    return detail::plan_by_cycles(problem, [](const CycleBoard& board) {
      std::vector<detail::CyclePacking> packings;
      for (std::size_t k = 0; k <= board.kinds().size(); ++k) {
        for (const bool one_kind : {false, true}) {
          packings.emplace_back([k, one_kind](CycleBoard& b) { return pack_slices(b, k, one_kind); });
        }
      }
      return packings;
    });
  }

 private:
  // `k`: the kind of residues, by its place in the order of kinds; beyond them: for each residue the kind on which it
  // takes the least time of compute slices. `one_kind`: full slices are of kind k, too.
  static std::vector<CycleSlice> pack_slices(CycleBoard& board, std::size_t k, bool one_kind) {
    std::vector<CycleSlice> slices;
    std::vector<Residue> residues;
    for (std::size_t s = 0; s < board.sessions().size(); ++s) {
      const std::size_t kind = full_kind(board, s, k, one_kind);
      const BatchChoice full = board.saturated(s, kind);
      double left = board.sessions()[s].rate_per_s;
      const auto add_full = [&](double rate) {
        slices.push_back(
            {kind, static_cast<double>(full.batch) / full.rate_per_s, {{s, rate, full.batch}}, rate / full.rate_per_s});
        left -= rate;
      };
      while (left >= full.rate_per_s) add_full(full.rate_per_s);
      if (left <= detail::kUnitMin * board.sessions()[s].rate_per_s) continue;
      if (auto alone = residue_alone(board, s, left, k)) {
        residues.push_back({s, left, std::move(*alone)});
      } else {
        add_full(left);  // Its run leaves too little of the promise for a cycle.
      }
    }
    pack_residues(board, residues, slices);
    return slices;
  }

  // The kind of full slices: most throughput per compute slice; the smaller one of equals.
  static std::size_t full_kind(CycleBoard& board, std::size_t session, std::size_t k, bool one_kind) {
    const auto& kinds = board.kinds();
    std::size_t best = kinds[0];
    double best_rate = 0;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const double rate = board.saturated(session, kinds[i]).rate_per_s;
      if (one_kind && i >= k && rate > 0) return kinds[i];
      const double each = rate / board.compute_slices(kinds[i]);
      if (each <= best_rate * (1 + detail::kSumTolerance)) continue;
      best = kinds[i];
      best_rate = each;
    }
    return best;
  }

  // On the kind asked for, or on the next larger one where the residue runs; otherwise on the largest smaller one.
  static std::optional<CycleSlice> residue_alone(CycleBoard& board, std::size_t session, double rate, std::size_t k) {
    const auto& kinds = board.kinds();
    if (k == kinds.size()) return cheapest_alone(board, session, rate);
    for (std::size_t i = k; i < kinds.size(); ++i) {
      if (auto alone = board.alone(session, kinds[i], rate)) return alone;
    }
    for (std::size_t i = std::min(k, kinds.size()); i-- > 0;) {
      if (auto alone = board.alone(session, kinds[i], rate)) return alone;
    }
    return std::nullopt;
  }

  static std::optional<CycleSlice> cheapest_alone(CycleBoard& board, std::size_t session, double rate) {
    std::optional<CycleSlice> best;
    double best_taken = 0;
    for (const std::size_t kind : board.kinds()) {
      auto alone = board.alone(session, kind, rate);
      if (!alone) continue;
      const double taken = alone->occupancy * board.compute_slices(kind);
      if (best && taken >= best_taken * (1 - detail::kSumTolerance)) continue;
      best = std::move(alone);
      best_taken = taken;
    }
    return best;
  }

  static std::optional<CycleSlice> merged(CycleBoard& board, const CycleSlice& slice, const Residue& residue) {
    const auto alone = board.alone(residue.session, slice.kind, residue.rate_per_s);
    if (!alone) return std::nullopt;
    auto turns = slice.turns;
    turns.push_back(alone->turns[0]);
    auto both = board.with_cycle(slice.kind, std::move(turns), std::min(slice.cycle_s, alone->cycle_s));
    if (!both || !board.fit_together(slice.kind, both->turns)) return std::nullopt;
    return both;
  }

  // Best fit by descending occupancy.
  static void pack_residues(CycleBoard& board, std::vector<Residue>& residues, std::vector<CycleSlice>& slices) {
    std::ranges::stable_sort(residues, std::greater<>{}, [](const Residue& r) { return r.alone.occupancy; });
    std::vector<CycleSlice> open;
    for (auto& residue : residues) {
      std::optional<CycleSlice> best;
      std::size_t at = 0;
      for (std::size_t i = 0; i < open.size() && board.sessions()[residue.session].may_share; ++i) {
        auto both = merged(board, open[i], residue);
        if (!both || (best && both->occupancy <= best->occupancy)) continue;
        best = std::move(both);
        at = i;
      }
      if (best) {
        open[at] = std::move(*best);
      } else {
        open.push_back(std::move(residue.alone));
      }
    }
    slices.insert(slices.end(), open.begin(), open.end());
  }
};

}  // namespace

std::unique_ptr<Planner> make_nexus() { return std::make_unique<Nexus>(); }

}  // namespace tangram::plan
