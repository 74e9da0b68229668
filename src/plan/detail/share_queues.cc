// Puts services together, and computes what a slice that all of them share can do for each.
//
// Invariant: a queue with one member has exactly that service in QueueProblem::problem, so that planning it alone gives
// the same answer as without sharing.

#include "plan/detail/share_queues.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/math.h"
#include "plan/buckets.h"

namespace tangram::plan::detail {
namespace {

// Promises that differ by more than this factor are not put together: the batches of all would be as short as the
// strictest needs.
constexpr double kSloRatioMax = 2;

// A model is seldom used if loading it for every request takes at most this share of a slice's time.
constexpr double kLoadingMost = 0.05;

// What must be equal for requests to share batches, but for the length of the promise.
std::string batching_key(const Service& service) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}", service.model, service.weights, static_cast<int>(service.padding),
                     service.slo.late_limit, static_cast<int>(service.isolation), service.tenant, service.share_group);
}

HistogramSize histogram_of(const std::map<std::int64_t, double>& weights) {
  HistogramSize histogram;
  for (const auto& [size, weight] : weights) {
    if (weight > 0) histogram.bins.push_back({size, weight});
  }
  return histogram;
}

// The traffic of all members as one service, under the strictest of their promises.
Service merged(const Problem& problem, const ShareQueue& queue) {
  const auto& services = problem.workload.services;
  Service all = services[queue.members[0]];
  if (queue.members.size() == 1) return all;
  double rate = 0;
  std::map<std::int64_t, double> sizes;
  std::map<std::int64_t, double> samples;
  for (const std::size_t member : queue.members) {
    const Service& service = services[member];
    const double own = planning_rate_per_s(service);
    rate += own;
    for (const auto& [size, share] : size_shares(service)) sizes[size] += own * samples_mean(service) * share;
    const auto by_number = samples_by_number(service);
    for (std::size_t n = 0; n < by_number.size(); ++n) samples[static_cast<std::int64_t>(n + 1)] += own * by_number[n];
    all.slo.latency = std::min(all.slo.latency, service.slo.latency);
    all.slo.percentile = std::max(all.slo.percentile, service.slo.percentile);
    all.slo.window_s = std::max(all.slo.window_s, service.slo.window_s);
  }
  all.traffic = PoissonTraffic{rate};
  all.input_size = histogram_of(sizes);
  all.samples = histogram_of(samples);
  return all;
}

bool same_promise(const Service& a, const Service& b) {
  return a.slo.latency == b.slo.latency && a.slo.percentile == b.slo.percentile && a.slo.window_s == b.slo.window_s;
}

std::vector<ShareQueue> make_queues(const Problem& problem) {
  const auto& services = problem.workload.services;
  std::vector<std::size_t> order(services.size());
  for (std::size_t s = 0; s < order.size(); ++s) order[s] = s;
  std::ranges::stable_sort(order, {}, [&](std::size_t s) { return services[s].slo.latency; });
  std::vector<ShareQueue> queues;
  std::map<std::string, std::size_t> open;  // By key, the queue that grows.
  for (const std::size_t s : order) {
    const std::string alone = why_alone(problem, services[s]);
    const std::string key = batching_key(services[s]);
    const auto found = open.find(key);
    if (alone.empty() && found != open.end()) {
      const auto first = to_seconds(services[queues[found->second].members[0]].slo.latency);
      const bool alike = same_promise(services[queues[found->second].members[0]], services[s]);
      if (alike || (!problem.options.promises_apart && to_seconds(services[s].slo.latency) <= kSloRatioMax * first)) {
        queues[found->second].members.push_back(s);
        continue;
      }
    }
    if (alone.empty()) open[key] = queues.size();
    queues.push_back({{s}, alone.empty(), alone});
  }
  for (auto& queue : queues) std::ranges::sort(queue.members);
  std::ranges::sort(queues, {}, [](const ShareQueue& queue) { return queue.members[0]; });
  return queues;
}

const Service& service_of(const QueueProblem& problem, std::size_t queue) {
  return problem.problem.workload.services[queue];
}

std::optional<Prediction> run_of(const QueueProblem& problem, std::size_t queue, std::size_t kind, std::int64_t batch,
                                 std::int64_t size) {
  return problem.problem.latency->predict(
      {problem.stock.type(kind), problem.stock.profile(kind).name, service_of(problem, queue).model, batch, size, 1});
}

// How long the longest request of a queue takes by itself on a slice of the kind; nothing if it does not run there.
std::optional<double> alone_s(const QueueProblem& problem, std::size_t queue, const Demand& demand, std::size_t kind) {
  const auto run = run_of(problem, queue, kind, problem.stock.samples_most[queue], demand.edges.back());
  if (!run) return std::nullopt;
  return to_seconds(run->p99);
}

// What the queue's neighbours leave it: the longest that one of its batches may take.
double batch_limit_s(const QueueProblem& problem, std::span<const std::size_t> queues, std::span<const Demand> demands,
                     std::span<const double> loads_s, std::size_t own, std::size_t kind) {
  double limit = std::numeric_limits<double>::infinity();
  for (std::size_t q = 0; q < queues.size() && !problem.problem.options.full_batches; ++q) {
    if (q == own) continue;
    const double slo = to_seconds(service_of(problem, queues[q]).slo.latency);
    const double alone = alone_s(problem, queues[q], demands[q], kind).value_or(slo) + loads_s[q];
    limit = std::min(limit, 0.5 * (slo - alone));
  }
  return limit;
}

// The best batches of a queue within the limits; a run without any bucket if none runs in time.
SharedRun shared_run(const QueueProblem& problem, std::size_t queue, const Demand& demand, std::size_t kind,
                     double limit_s, double load_s, double memory_left_mib, double own_weights_mib) {
  const Service& service = service_of(problem, queue);
  const PlanOptions& options = problem.problem.options;
  const double slo = to_seconds(service.slo.latency);
  const std::int64_t least = problem.stock.samples_most[queue];
  SharedRun result{.batch = {}, .rate_per_s = {}, .load_s = load_s};
  for (std::size_t b = 0; b < demand.edges.size(); ++b) {
    // The best batch without neighbours is where the choice begins, with what gathers at this rate taken into account.
    std::int64_t most = 0;
    for (const auto& offer : demand.offers) {
      if (offer.kind == kind && offer.processes == 1) most = offer.batch[b];
    }
    BatchChoice best;
    for (std::int64_t batch = least; batch <= most; batch = batch * 2 > most && batch < most ? most : batch * 2) {
      const auto run = run_of(problem, queue, kind, batch, demand.edges[b]);
      if (!run) break;
      const double takes = load_s + to_seconds(options.rule == Rule::half ? run->mean : run->p99);
      const double own_limit = options.rule == Rule::half ? 0.45 * slo : slo;
      if (takes >= own_limit || (batch > least && takes > limit_s)) break;
      if (run->memory_mib && *run->memory_mib - own_weights_mib > memory_left_mib) break;
      const double rate = static_cast<double>(batch) / (load_s + to_seconds(run->mean));
      if (rate > best.rate_per_s) best = {batch, rate};
    }
    result.batch.push_back(best.batch);
    result.rate_per_s.push_back(best.rate_per_s);
  }
  return result;
}

// What the weights of the queues take: all that stay loaded, and the largest of those that are loaded on demand.
// Requires that all are known.
double held_mib(const QueueProblem& problem, std::span<const std::size_t> queues, std::span<const double> loads_s,
                std::size_t kind) {
  std::vector<std::size_t> stay;
  double largest = 0;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    if (loads_s[i] > 0) largest = std::max(largest, *weights_mib(problem, queues.subspan(i, 1), kind));
    if (loads_s[i] <= 0) stay.push_back(queues[i]);
  }
  return largest + *weights_mib(problem, stay, kind);
}

// The largest working set of the queues if none of them gathers batches.
double working_least_mib(const QueueProblem& problem, std::span<const std::size_t> queues,
                         std::span<const Demand> demands, std::size_t kind) {
  double most = 0;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    if (demands[i].edges.empty()) continue;
    const auto run = run_of(problem, queues[i], kind, problem.stock.samples_most[queues[i]], demands[i].edges.back());
    const auto own = weights_mib(problem, queues.subspan(i, 1), kind);
    if (run && run->memory_mib && own) most = std::max(most, *run->memory_mib - *own);
  }
  return most;
}

}  // namespace

std::string why_alone(const Problem& problem, const Service& service) {
  if (service.isolation == Isolation::own_slices) return "its isolation is own_slices";
  if (service.job) return "it is a job, whose rows have no deadlines of their own";
  if (service.size_drift) return "its sizes drift";
  if (comes_at_once(service)) {
    return "requests of its trace come all at once at times, which is certified on slices of its own only";
  }
  if (service.slo.window_s > 0) return "windows of its Slo are certified on slices of its own only";
  for (const auto& group : problem.fleet.groups) {
    const Geometry* geometry = find_geometry(group.type);
    const std::string_view profile = geometry == nullptr ? "" : std::string_view(geometry->profiles[0].name);
    if (problem.latency->weights_mib(group.type, profile, service.model)) return {};
  }
  return "the memory of its model is not known: give weights_mib or memory_mib in the measurements";
}

QueueProblem queue_problem(const Problem& problem) {
  QueueProblem result;
  result.queues = make_queues(problem);
  result.problem = problem;
  result.problem.workload.services.clear();
  for (const auto& queue : result.queues) result.problem.workload.services.push_back(merged(problem, queue));
  result.stock = take_stock(result.problem);
  return result;
}

bool mixes_promises(const Problem& problem, const QueueProblem& queues) {
  const auto& services = problem.workload.services;
  return std::ranges::any_of(queues.queues, [&](const ShareQueue& queue) {
    return std::ranges::any_of(queue.members, [&](std::size_t member) {
      return !same_promise(services[queue.members[0]], services[member]);
    });
  });
}

QueueProblem with_loosest_promises(const Problem& problem, const QueueProblem& queues) {
  QueueProblem loose = queues;
  for (std::size_t q = 0; q < loose.queues.size(); ++q) {
    Slo& slo = loose.problem.workload.services[q].slo;
    for (const std::size_t member : loose.queues[q].members) {
      const Slo& own = problem.workload.services[member].slo;
      slo.latency = std::max(slo.latency, own.latency);
      slo.percentile = std::min(slo.percentile, own.percentile);
      slo.window_s = std::min(slo.window_s, own.window_s);
    }
  }
  return loose;
}

std::vector<Demand> queue_demands(const QueueProblem& problem, BucketChoice choice) {
  const double near_least = choice == BucketChoice::cheapest ? 1 : 1.05;
  std::vector<Demand> demands;
  for (std::size_t q = 0; q < problem.queues.size(); ++q) {
    const auto sets = service_bucket_sets(problem.problem, problem.stock, q);
    if (sets.empty()) {
      demands.push_back({q, {}, {}, {}, {}});
      continue;
    }
    const auto near =
        std::ranges::find_if(sets, [&](const auto& set) { return set.cost <= near_least * sets.back().cost; });
    demands.push_back(make_demand(problem.problem, problem.stock, q, (near == sets.end() ? sets.back() : *near).edges));
  }
  return demands;
}

bool may_share_block(const QueueProblem& problem, std::size_t a, std::size_t b) {
  if (!problem.queues[a].may_share || !problem.queues[b].may_share) return false;
  // Members of a queue are alike in all that decides whether they may share.
  const Service& first = service_of(problem, a);
  const Service& second = service_of(problem, b);
  if (problem.problem.options.sharing == Sharing::model && first.model != second.model) return false;
  return may_share_slices(first, second);
}

bool Block::shares(const QueueProblem& problem) const {
  return queues.size() > 1 || problem.queues[queues[0]].members.size() > 1;
}

std::optional<double> weights_mib(const QueueProblem& problem, std::span<const std::size_t> queues, std::size_t kind) {
  double sum = 0;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const Service& service = service_of(problem, queues[i]);
    const bool counted = std::any_of(queues.begin(), queues.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](std::size_t q) { return same_weights(service_of(problem, q), service); });
    if (counted) continue;
    const auto own =
        problem.problem.latency->weights_mib(problem.stock.type(kind), problem.stock.profile(kind).name, service.model);
    if (!own) return std::nullopt;
    sum += *own;
  }
  return sum;
}

std::optional<double> on_demand_s(const QueueProblem& problem, std::size_t queue, const Demand& demand,
                                  std::size_t kind) {
  const Service& service = service_of(problem, queue);
  if (!problem.on_demand || !problem.queues[queue].may_share || demand.edges.empty()) return std::nullopt;
  const auto load =
      problem.problem.latency->load_time(problem.stock.type(kind), problem.stock.profile(kind).name, service.model);
  const auto run = load ? alone_s(problem, queue, demand, kind) : std::nullopt;
  if (!run || to_seconds(*load) + *run >= to_seconds(service.slo.latency)) return std::nullopt;
  if (to_seconds(*load) * planning_rate_per_s(service) > kLoadingMost) return std::nullopt;
  const auto same = std::ranges::count_if(problem.problem.workload.services,
                                          [&](const Service& other) { return same_weights(other, service); });
  if (same > 1) return std::nullopt;
  return to_seconds(*load);
}

std::optional<std::vector<double>> loads_that_fit(const QueueProblem& problem, std::span<const std::size_t> queues,
                                                  std::span<const Demand* const> demands, std::size_t kind,
                                                  double working_mib) {
  const auto room = room_mib(problem, kind);
  const auto all = weights_mib(problem, queues, kind);
  if (!room || !all) return std::nullopt;
  std::vector<double> loads(queues.size(), 0);
  if (*all + working_mib <= *room) return loads;
  struct Seldom {
    std::size_t at;
    double load_s;
    double cost;  // The slice's time that loading takes, for each MiB that it frees.
  };
  std::vector<Seldom> candidates;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const auto load = on_demand_s(problem, queues[i], *demands[i], kind);
    if (!load) continue;
    const double rate = planning_rate_per_s(service_of(problem, queues[i]));
    candidates.push_back({i, *load, rate * *load / *weights_mib(problem, queues.subspan(i, 1), kind)});
  }
  std::ranges::stable_sort(candidates, {}, &Seldom::cost);
  for (const auto& candidate : candidates) {
    loads[candidate.at] = candidate.load_s;
    if (held_mib(problem, queues, loads, kind) + working_mib <= *room) return loads;
  }
  return std::nullopt;
}

std::optional<double> room_mib(const QueueProblem& problem, std::size_t kind) {
  const auto& memory = problem.stock.profile(kind).memory_gib;
  if (memory.evidence == Evidence::unknown || memory.value <= 0) return std::nullopt;
  return 1024 * memory.value * (1 - problem.problem.options.memory_headroom);
}

std::vector<SharedOffer> shared_offers(const QueueProblem& problem, std::span<const std::size_t> queues,
                                       std::span<const Demand> demands) {
  std::vector<SharedOffer> offers;
  std::vector<const Demand*> pointers;
  for (const auto& demand : demands) pointers.push_back(&demand);
  for (std::size_t kind = 0; kind < problem.stock.kinds.size(); ++kind) {
    const auto room = room_mib(problem, kind);
    const double working = working_least_mib(problem, queues, demands, kind);
    const auto loads = room ? loads_that_fit(problem, queues, pointers, kind, working) : std::nullopt;
    if (!loads) continue;
    const double held = held_mib(problem, queues, *loads, kind);
    SharedOffer offer{kind, {}};
    for (std::size_t q = 0; q < queues.size(); ++q) {
      const double own = *weights_mib(problem, queues.subspan(q, 1), kind);
      const double limit = batch_limit_s(problem, queues, demands, *loads, q, kind);
      offer.runs.push_back(shared_run(problem, queues[q], demands[q], kind, limit, (*loads)[q], *room - held, own));
      if (std::ranges::all_of(offer.runs.back().batch, [](std::int64_t n) { return n == 0; })) break;
    }
    const bool all_run = offer.runs.size() == queues.size() &&
                         std::ranges::any_of(offer.runs.back().batch, [](std::int64_t n) { return n > 0; });
    if (all_run) offers.push_back(std::move(offer));
  }
  return offers;
}

bool surely_holds(const Problem& problem, const QueueProblem& queues, const Block& block, std::size_t offer,
                  int count) {
  struct Load {
    double rate_per_s;
    double run_s;
  };
  std::vector<Load> loads;
  std::vector<double> longest_s(block.queues.size(), 0);
  double busy = 0;
  for (std::size_t q = 0; q < block.queues.size(); ++q) {
    const Demand& demand = block.demands[q];
    const std::size_t kind = block.offers[offer].kind;
    double rate = 0;
    for (const std::size_t member : queues.queues[block.queues[q]].members) {
      const Service& service = problem.workload.services[member];
      // Clients that wait for answers are no random arrivals, and neither are recorded ones.
      if (std::holds_alternative<ClosedLoopTraffic>(service.traffic) || service.slo.window_s > 0) return false;
      if (std::holds_alternative<TraceTraffic>(service.traffic)) return false;
      rate += busiest_rate_per_s(service);
    }
    double samples_all = 0;
    for (const double r : demand.rate_per_s) samples_all += r;
    for (std::size_t b = 0; b < demand.edges.size(); ++b) {
      const std::int64_t samples = queues.stock.samples_most[block.queues[q]];
      if (block.offers[offer].runs[q].batch[b] < samples) return false;
      const auto run = run_of(queues, block.queues[q], kind, samples, demand.edges[b]);
      if (!run) return false;
      // The spread of run times is up to 5 % where the data have none.
      const double run_s =
          block.offers[offer].runs[q].load_s + std::max(to_seconds(run->p99), 1.15 * to_seconds(run->mean));
      loads.push_back({rate * demand.rate_per_s[b] / samples_all / count, run_s});
      longest_s[q] = std::max(longest_s[q], run_s);
      busy += loads.back().rate_per_s * run_s;
    }
  }
  if (busy >= 0.95) return false;
  // The positive root lies where the convex function crosses zero again: bracket it, then halve.
  const auto excess = [&](double x) {
    double sum = -x;
    for (const auto& load : loads) sum += load.rate_per_s * (math::exp(std::min(700.0, x * load.run_s)) - 1);
    return sum;
  };
  double low = 0;
  double high = 1;
  while (excess(high) < 0 && high < 1e9) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (excess(middle) < 0 ? low : high) = middle;
  }
  for (std::size_t q = 0; q < block.queues.size(); ++q) {
    for (const std::size_t member : queues.queues[block.queues[q]].members) {
      const Slo& slo = problem.workload.services[member].slo;
      const double left = to_seconds(slo.latency) - longest_s[q];
      if (left <= 0 || math::exp(-low * left) > 0.5 * (1 - slo.percentile / 100)) return false;
    }
  }
  return true;
}

std::optional<std::string> note_on_demand(const QueueProblem& queues, const Workload& workload, const Block& block,
                                          std::size_t offer) {
  const SharedOffer& shared = block.offers[offer];
  std::vector<std::string> names;
  double longest_s = 0;
  for (std::size_t i = 0; i < block.queues.size(); ++i) {
    if (shared.runs[i].load_s <= 0) continue;
    longest_s = std::max(longest_s, shared.runs[i].load_s);
    for (const std::size_t member : queues.queues[block.queues[i]].members)
      names.push_back(workload.services[member].name);
  }
  if (names.empty()) return std::nullopt;
  const std::string who = names.size() == 1   ? names[0] + " is"
                          : names.size() <= 4 ? fmt::format("{} are", fmt::join(names, ", "))
                                              : fmt::format("{} and {} more are", names[0], names.size() - 1);
  return fmt::format(
      "{} loaded on demand: with the weights of its {} models, {:.0f} MiB, and the largest run, {} is too small, and "
      "of these models they are asked most seldom. Loading takes up to {:.4g} ms; the certificates count it for every "
      "batch.",
      who, block.queues.size(), *weights_mib(queues, block.queues, shared.kind), queues.stock.profile(shared.kind).name,
      1000 * longest_s);
}

}  // namespace tangram::plan::detail
