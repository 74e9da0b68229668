// The linear program. Columns: devices by cut, time of each class of a queue on each kind, and how many slices of a
// kind hold the queue. Waiting is left out, so the bound is low where promises are short of slack, never too high.

#include "plan/detail/share_bound.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "plan/detail/linear_program.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan::detail {
namespace {

// A queue may be in many places; its weights are counted by the share of the queues that run the same copy.
std::vector<double> copies_shared(const QueueProblem& problem) {
  std::map<std::string, int> queues_of;
  const auto key = [](const Service& service) { return service.model + "|" + service.weights; };
  for (const auto& service : problem.problem.workload.services) ++queues_of[key(service)];
  std::vector<double> shares;
  for (const auto& service : problem.problem.workload.services) shares.push_back(1.0 / queues_of[key(service)]);
  return shares;
}

class BoundProgram {
 public:
  BoundProgram(const QueueProblem& problem, const CoverProblem& devices, const std::vector<Demand>& demands)
      : problem_(problem), devices_(devices), demands_(demands), copies_(copies_shared(problem)) {}

  ShareBound solve() {
    add_kinds();
    add_devices();
    for (std::size_t q = 0; q < demands_.size(); ++q) add_queue(q);
    const LinearAnswer answer = solve_linear(program_);
    ShareBound bound;
    if (!answer.optimal) return bound;
    bound.known = true;
    bound.price = answer.objective;
    double work = 0;
    double memory = 0;
    for (std::size_t q = 0; q < demands_.size(); ++q) {
      double own = answer.duals[static_cast<std::size_t>(present_row_[q])];
      memory += own;
      for (std::size_t b = 0; b < demand_rows_[q].size(); ++b) {
        const double part = answer.duals[static_cast<std::size_t>(demand_rows_[q][b])] * demands_[q].rate_per_s[b];
        own += part;
        work += part;
      }
      bound.queue_price.push_back(std::max(0.0, own));
    }
    bound.binds = memory > work ? "memory" : "work";
    for (std::size_t kind = 0; kind < time_row_.size(); ++kind) {
      double worth = -answer.duals[static_cast<std::size_t>(time_row_[kind])];
      const auto room = room_mib(problem_, kind);
      if (room) worth -= answer.duals[static_cast<std::size_t>(memory_row_[kind])] * *room;
      bound.kind_price.push_back(std::max(0.0, worth));
    }
    return bound;
  }

 private:
  // Time and memory that slices of each kind have: what is used less what devices give is at most zero.
  void add_kinds() {
    for (std::size_t kind = 0; kind < problem_.stock.kinds.size(); ++kind) {
      time_row_.push_back(program_.add_row(-kUnbounded, 0));
      memory_row_.push_back(program_.add_row(-kUnbounded, 0));
    }
  }

  void add_devices() {
    for (const auto& device : devices_.devices) {
      const int limit = device.count_max < 0 ? -1 : program_.add_row(0, device.count_max);
      for (const auto& cut : device.cuts) {
        LinearProgram::Column column{.cost = device.price, .entries = {}};
        for (std::size_t i = 0; i < cut.size(); ++i) {
          if (cut[i] == 0) continue;
          const std::size_t kind = device.kinds[i];
          column.entries.push_back({time_row_[kind], -static_cast<double>(cut[i])});
          if (const auto room = room_mib(problem_, kind)) {
            column.entries.push_back({memory_row_[kind], -cut[i] * *room});
          }
        }
        if (limit >= 0) column.entries.push_back({limit, 1});
        program_.add_column(std::move(column));
      }
    }
  }

  void add_queue(std::size_t q) {
    const Demand& demand = demands_[q];
    present_row_.push_back(program_.add_row(1, kUnbounded));
    demand_rows_.emplace_back();
    for (const double rate : demand.rate_per_s) demand_rows_.back().push_back(program_.add_row(rate, kUnbounded));
    for (std::size_t kind = 0; kind < problem_.stock.kinds.size(); ++kind) {
      std::vector<double> best(demand.edges.size(), 0);
      for (const auto& offer : demand.offers) {
        if (offer.kind != kind) continue;
        for (std::size_t b = 0; b < best.size(); ++b) best[b] = std::max(best[b], offer.rate_per_s[b]);
      }
      if (std::ranges::all_of(best, [](double rate) { return rate <= 0; })) continue;
      // Time on a kind needs as many slices that hold the queue.
      const int held = program_.add_row(-kUnbounded, 0);
      for (std::size_t b = 0; b < best.size(); ++b) {
        if (best[b] <= 0) continue;
        LinearProgram::Column time{.entries = {{demand_rows_[q][b], best[b]}, {held, 1}}};
        if (problem_.queues[q].may_share) time.entries.push_back({time_row_[kind], 1});
        program_.add_column(std::move(time));
      }
      LinearProgram::Column present{.entries = {{present_row_[q], 1}, {held, -1}}};
      const std::size_t self[] = {q};
      const auto weights = weights_mib(problem_, self, kind);
      // A copy that may be loaded on demand takes memory only while it runs.
      if (weights && room_mib(problem_, kind) && !on_demand_s(problem_, q, demand, kind)) {
        present.entries.push_back({memory_row_[kind], copies_[q] * *weights});
      }
      // A service that does not share has whole slices to itself.
      if (!problem_.queues[q].may_share) present.entries.push_back({time_row_[kind], 1});
      program_.add_column(std::move(present));
    }
  }

  const QueueProblem& problem_;
  const CoverProblem& devices_;
  const std::vector<Demand>& demands_;
  std::vector<double> copies_;
  LinearProgram program_;
  std::vector<int> time_row_;
  std::vector<int> memory_row_;
  std::vector<int> present_row_;
  std::vector<std::vector<int>> demand_rows_;
};

}  // namespace

ShareBound share_bound(const QueueProblem& problem, const CoverProblem& devices, const std::vector<Demand>& demands) {
  return BoundProgram(problem, devices, demands).solve();
}

}  // namespace tangram::plan::detail
