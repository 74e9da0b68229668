// The guess is on the bold side by little: it uses four fifths of what a promise may lose.

#include "plan/detail/share_guess.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace tangram::plan::detail {

QueueLoad queue_load(const QueueProblem& queues, const Demand& demand, std::size_t q, std::size_t kind) {
  QueueLoad load;
  const auto offer =
      std::ranges::find_if(demand.offers, [&](const Offer& o) { return o.kind == kind && o.processes == 1; });
  if (offer == demand.offers.end()) return load;
  const Service& asked = queues.problem.workload.services[q];
  const std::int64_t least = queues.stock.samples_most[q];
  double busy_alone = 0;
  double busy_full = 0;
  double batches = 0;
  double rate_all = 0;
  for (std::size_t b = 0; b < demand.edges.size(); ++b) {
    const auto run = queues.problem.latency->predict(
        {queues.stock.type(kind), queues.stock.profile(kind).name, asked.model, least, demand.edges[b], 1});
    if (!run || offer->rate_per_s[b] <= 0) return {};
    const double runs_per_s = demand.rate_per_s[b] / static_cast<double>(least);
    busy_alone += runs_per_s * to_seconds(run->mean);
    busy_full += demand.rate_per_s[b] / offer->rate_per_s[b];
    batches += demand.rate_per_s[b] / static_cast<double>(offer->batch[b]);
    rate_all += runs_per_s;
    load.longest_s = std::max(load.longest_s, to_seconds(run->p99));
    const std::size_t self[] = {q};
    const auto own = weights_mib(queues, self, kind);
    if (run->memory_mib && own) load.working_mib = std::max(load.working_mib, *run->memory_mib - *own);
  }
  // Requests that come seldom run alone; those that would fill the slice gather into batches.
  constexpr double kGathersAbove = 0.25;
  const bool gathers = busy_alone > kGathersAbove && busy_full < busy_alone;
  load.rate_per_s = gathers ? batches : rate_all;
  load.run_s = (gathers ? busy_full : busy_alone) / load.rate_per_s;
  load.runs = true;
  return load;
}

bool likely_holds(const QueueProblem& problem, const std::vector<std::size_t>& queues,
                  const std::vector<QueueLoad>& loads, int count) {
  constexpr double kLossShare = 0.8;  // Of what a promise allows.
  double busy = 0;
  double second_moment = 0;
  for (const auto& load : loads) {
    busy += load.rate_per_s * load.run_s;
    second_moment += load.rate_per_s * load.run_s * load.run_s;
  }
  const double full = busy / count;
  if (full >= kPackedMost) return false;
  const double waits = math::exp((std::sqrt(2.0 * (count + 1)) - 1) * math::log(full));
  const double wait_mean = second_moment / 2 / busy / (count * (1 - full));  // Of those who wait.
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const Slo& slo = problem.problem.workload.services[queues[i]].slo;
    const double left = to_seconds(slo.latency) - loads[i].longest_s;
    if (left <= 0) return false;
    double late = waits * math::exp(-left / wait_mean);
    double blocked = 0;  // The share of a slice's time in which a run goes on for too long.
    for (std::size_t j = 0; j < loads.size(); ++j) {
      if (j != i) blocked += loads[j].rate_per_s / count * std::max(0.0, loads[j].run_s - left);
    }
    late += blocked > 0 ? math::exp(count * math::log(blocked)) : 0;
    if (late > kLossShare * (1 - slo.percentile / 100)) return false;
  }
  return true;
}

std::vector<QueueLoad> with_loading(std::vector<QueueLoad> loads, const std::vector<double>& loads_s) {
  for (std::size_t i = 0; i < loads.size(); ++i) {
    loads[i].run_s += loads_s[i];
    loads[i].longest_s += loads_s[i];
  }
  return loads;
}

}  // namespace tangram::plan::detail
