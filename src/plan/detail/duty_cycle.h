// Slices that serve sessions in turns: once in every cycle, a batch of each. What nexus and gpulet plan with.
//
// A session is the traffic for one copy of a network under one promise. A slice with a cycle of d seconds runs, in each
// cycle, one batch of every session on it, as large as what arrives in d seconds. A request that has just missed its
// batch waits for one cycle and then for its run.
//
// The planners differ in which slices they open and which cycles they allow. What they share is here: sessions, run
// times, memory, the layout of slices on devices, and the certified variant.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "plan/compose.h"

namespace tangram::plan::detail {

// Services with the same weights and the same promise, whose requests run in the same batches.
struct Session {
  std::vector<std::size_t> services;  // Of the workload, ascending.
  double rate_per_s = 0;              // Samples.
  double slo_s = 0;
  std::int64_t size = 1;         // Every input is padded to it.
  std::int64_t batch_least = 1;  // Holds the largest request.
  bool may_share = true;         // False: isolation, a job, or unknown memory.
  // The share of a slice's time, and of the promise by runs, that may be planned. Published planners use all of it.
  double fill_most = 1;
};

// A session's turn in the cycle of a slice.
struct Turn {
  std::size_t session = 0;
  double rate_per_s = 0;  // What this slice serves of the session.
  std::int64_t batch = 1;
};

struct CycleSlice {
  std::size_t kind = 0;
  double cycle_s = 0;
  std::vector<Turn> turns;
  double occupancy = 0;  // The share of the cycle that the runs of all turns take.
};

struct TurnRun {
  double mean_s = 0;
  double slow_s = 0;                 // What a promise is compared with: the p99, or the mean under Rule::half.
  std::optional<double> memory_mib;  // Peak.
};

// What slices can do for sessions. Kinds are those of the fleet's first group; published planners know one type.
class CycleBoard {
 public:
  explicit CycleBoard(const Problem& problem);

  const Problem& problem() const { return problem_; }
  const Stock& stock() const { return stock_; }
  std::vector<Session>& sessions() { return sessions_; }
  // A session that no slice serves in time, and why; nothing: all can be served.
  const std::optional<PlanAnswer>& unservable() const { return unservable_; }
  // All kinds, the fewest compute slices first, then the least memory.
  const std::vector<std::size_t>& kinds() const { return kinds_; }
  int compute_slices(std::size_t kind) const { return stock_.profile(kind).compute_slices; }

  // Nothing if a batch of this size does not run there, does not fit into the memory, or takes more than the promise.
  std::optional<TurnRun> run(std::size_t session, std::size_t kind, std::int64_t batch);
  // The batch sizes that the problem considers, ascending, beginning with the smallest that the session needs.
  const std::vector<std::int64_t>& batches(std::size_t session) const { return batches_[session]; }
  // The batch for a slice of its own under full load: the most samples a second of those that run within half of the
  // promise, since a request may wait for one whole run. If none does, the smallest. The rate counts fill_most of the
  // time, and no run takes more than fill_most of the promise; batch 0: it does not run there.
  BatchChoice saturated(std::size_t session, std::size_t kind);
  // A slice of its own for a part of the session's rate, with the largest batch that gathers and runs within the
  // promise. At rates where not even one request comes in that time, the cycle is what the promise leaves. Nothing if
  // the runs would take more than fill_most of the cycle.
  std::optional<CycleSlice> alone(std::size_t session, std::size_t kind, double rate_per_s);
  // The slice with this cycle: batches are what arrives in it. Nothing if a batch does not run or the runs take more of
  // the cycle than a session allows. Says nothing about promises and memory.
  std::optional<CycleSlice> with_cycle(std::size_t kind, std::vector<Turn> turns, double cycle_s);
  // Whether the sessions may be on one slice and fit into its memory together: the weights of all, equal ones once, and
  // the largest working set, within what the head-room leaves.
  bool fit_together(std::size_t kind, const std::vector<Turn>& turns);

 private:
  void make_sessions();
  bool joins(const Session& session, const Service& service) const;
  const Service& service_of(std::size_t session) const {
    return problem_.workload.services[sessions_[session].services[0]];
  }

  Problem problem_;
  Stock stock_;
  std::vector<Session> sessions_;
  std::vector<std::vector<std::int64_t>> batches_;
  std::vector<std::size_t> kinds_;
  std::optional<PlanAnswer> unservable_;
  // Predictions are asked many times for each batch; by session, kind and batch.
  std::vector<std::vector<std::map<std::int64_t, std::optional<TurnRun>>>> runs_;
};

// One way to choose slices for all sessions of a board.
using CyclePacking = std::function<std::vector<CycleSlice>(CycleBoard&)>;

using MakePackings = std::function<std::vector<CyclePacking>(const CycleBoard&)>;

// The plan with the least price of those that the packings give. Slices are put on devices by an exact search, and
// every input is padded to the longest. Published planners know no spares: where the fleet asks for them, each device
// gets a second one like it.
//
// Under Rule::certified, which no published planner knows, the plan is certified: sessions whose promises do not hold
// get less of a slice's time (fill_most), and all are packed again, until every promise was confirmed.
PlanAnswer plan_by_cycles(const Problem& problem, const MakePackings& make_packings);

}  // namespace tangram::plan::detail
