// The experiment of PARIS and ELSA: a budget of compute slices, cut in several ways, under several dispatch policies.
//
// A cell is judged by the highest rate that it carries. The rate is found by bisection on simulations with common
// random numbers, so that two rates differ by the load and not by chance. The cut called "elastic" is found by a local
// search over numbers of slices; the search and the final judgement use different seeds, so that no cut wins by luck.

#include "experiments/paris_elsa.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.h"
#include "base/math.h"
#include "base/rng.h"
#include "core/geometry.h"
#include "experiments/detail/cut_capacity.h"
#include "learn/models/table.h"
#include "plan/planners/paris.h"
#include "sim/simulation.h"

namespace tangram::experiments {
namespace {

// Compute slices of the plain profiles of an A100. All vectors of counts are in this order.
constexpr std::array<int, 5> kSizes{1, 2, 3, 4, 7};
constexpr const char* kDevice = "a100-80gb";

// The log-normal as the mass of (b - 0.5, b + 0.5], made to sum to one over 1..samples_max. Queries are rounded, so
// draws under one half are queries of one sample; the shares that PARIS plans with leave them out. This was inferred
// from the figures of the reference, which it meets within 4 % (tests/reproduce/paris_elsa.sh).
enum class SmallDraws { become_one, left_out };

std::vector<double> sample_shares(const ParisElsaSetting& setting, SmallDraws small) {
  std::vector<double> share;
  double total = 0;
  const auto cdf = [&](double x) { return math::normal_cdf((math::log(x) - setting.mu) / setting.sigma); };
  for (std::int64_t b = 1; b <= setting.samples_max; ++b) {
    const auto x = static_cast<double>(b);
    share.push_back(cdf(x + 0.5) - (b == 1 && small == SmallDraws::become_one ? 0 : cdf(x - 0.5)));
    total += share.back();
  }
  for (double& s : share) s /= total;
  return share;
}

// Run times of the model in nanoseconds: [size][samples - 1].
using RunTimes = std::array<std::vector<std::int64_t>, kSizes.size()>;

// The run times up to the largest batch that a size takes; the list of a size ends before the first batch that is
// unknown.
RunTimes run_times(const Measurements& measurements, const std::string& model, std::int64_t samples_max) {
  const learn::TableModel table(measurements);
  const Geometry& geometry = *find_geometry(kDevice);
  RunTimes times;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const auto profile = find_profile(geometry, std::to_string(kSizes[i]) + "g");
    TANGRAM_CHECK(profile.ok(), "the board has every size");
    for (std::int64_t b = 1; b <= samples_max; ++b) {
      const auto run = table.predict({kDevice, geometry.profiles[*profile].name, model, b, 1, 1});
      if (!run) break;  // Out of memory, or not measured: the size does not take queries of this many samples.
      times[i].push_back(run->mean.count());
    }
  }
  return times;
}

// Every seed judges the same random cut.
constexpr std::uint64_t kRandomCut = 7;

// Fills the budget with sizes drawn evenly among those that still fit. Ends because size 1 always fits.
std::vector<int> random_counts(int budget, std::uint64_t seed) {
  Rng rng = Rng(seed).stream("random partitioning");
  std::vector<int> counts(kSizes.size(), 0);
  while (budget > 0) {
    std::vector<std::size_t> possible;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      if (kSizes[i] <= budget) possible.push_back(i);
    }
    const std::size_t pick = possible[rng.below(possible.size())];
    ++counts[pick];
    budget -= kSizes[pick];
  }
  return counts;
}

// The cut that the cell's partitioning names. A homogeneous cut leaves the rest of the budget unused if it does not
// divide.
void choose_counts(const ParisElsaCell& cell, const RunTimes& times, const std::vector<double>& share,
                   ParisElsaResult* result) {
  const std::string& name = cell.partitioning;
  if (name == "random") {
    result->counts = random_counts(cell.setting.compute_slices, kRandomCut);
    return;
  }
  if (name == "paris") {
    plan::ParisProblem problem;
    problem.sizes.assign(kSizes.begin(), kSizes.end());
    problem.batch_share = share;
    problem.compute_slices = cell.setting.compute_slices;
    problem.run_s = [&](std::size_t i, std::int64_t b) {
      const auto at = static_cast<std::size_t>(b - 1);
      // A batch that a size does not take gets a prohibitive time, so that PARIS never assigns it there.
      return at < times[i].size() ? 1e-9 * static_cast<double>(times[i][at]) : 1e9;
    };
    auto answer = plan::paris(problem);
    result->counts = std::move(answer.counts);
    result->knees = std::move(answer.knees);
    return;
  }
  result->counts.assign(kSizes.size(), 0);
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    if (name == "homogeneous-" + std::to_string(kSizes[i])) result->counts[i] = cell.setting.compute_slices / kSizes[i];
  }
}

// The busy compute-slice seconds that a query costs at least, each on the size that suits it. Queries that merge cost
// what their samples cost in the best batch of all. Even runs longer than the Slo count: a few may be late.
double least_cost_s(const RunTimes& times, const std::vector<double>& share, bool merge) {
  // Larger than any cost, for batches that no size takes.
  double per_sample = 1e18;
  double total = 0;
  double samples = 0;
  for (std::size_t b = 0; b < share.size(); ++b) {
    double least = 1e18;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      if (b >= times[i].size()) continue;
      least = std::min(least, 1e-9 * kSizes[i] * static_cast<double>(times[i][b]));
    }
    per_sample = std::min(per_sample, least / static_cast<double>(b + 1));
    total += share[b] * least;
    samples += share[b] * static_cast<double>(b + 1);
  }
  return merge ? per_sample * samples : total;
}

double capacity_of(const ParisElsaCell& cell, const RunTimes& times, const std::vector<double>& share,
                   const std::vector<int>& counts) {
  std::vector<detail::SizedSlices> sizes(kSizes.size());
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    sizes[i].count = counts[i];
    for (const std::int64_t run_ns : times[i]) sizes[i].run_s.push_back(1e-9 * static_cast<double>(run_ns));
  }
  const auto queries = cell.single ? std::vector<double>{1} : share;
  return cell.merge ? detail::cut_capacity_merged(sizes, queries) : detail::cut_capacity_alone(sizes, queries);
}

// Slices in proportion to the time that queries take on the size that is cheapest for them, runs no longer than a share
// of the Slo: where the search for a cut begins.
std::vector<int> fluid_counts(const RunTimes& times, const std::vector<double>& share, int budget, double limit_ns) {
  std::array<double, kSizes.size()> busy{};
  for (std::size_t b = 0; b < share.size(); ++b) {
    std::size_t best = kSizes.size() - 1;
    double least = 1e300;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      // The share of the Slo that a run may take leaves the rest of it for queueing.
      if (b >= times[i].size() || static_cast<double>(times[i][b]) > limit_ns) continue;
      const double cost = kSizes[i] * static_cast<double>(times[i][b]);
      if (cost < least) {
        least = cost;
        best = i;
      }
    }
    if (b < times[best].size()) busy[best] += share[b] * static_cast<double>(times[best][b]);
  }
  double total = 0;
  for (std::size_t i = 0; i < kSizes.size(); ++i) total += kSizes[i] * busy[i];
  std::vector<int> counts(kSizes.size(), 0);
  int left = budget;
  // The largest first: what rounding leaves over becomes small slices.
  for (std::size_t i = kSizes.size(); i-- > 0;) {
    counts[i] = std::min(left / kSizes[i], static_cast<int>(std::lround(busy[i] * budget / total)));
    // A size that some queries need gets at least one slice, however rare these queries are.
    if (busy[i] > 0 && counts[i] == 0 && left >= kSizes[i]) counts[i] = 1;
    left -= counts[i] * kSizes[i];
  }
  counts[0] += left;
  return counts;
}

// The slices of the budget as a deployment. The experiment counts compute slices, so they belong to no particular GPU.
sched::Deployment deploy(const ParisElsaSetting& setting, const RunTimes& times, const std::vector<int>& counts,
                         Slo slo) {
  sched::Deployment deployment;
  deployment.devices.push_back({"budget", *find_geometry(kDevice), {}});
  deployment.services.push_back({setting.model, slo, 0, Padding::bucket, {1}, {}, 1});
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    if (counts[i] == 0 || times[i].empty()) continue;
    const auto samples_max = static_cast<std::int32_t>(times[i].size());
    sched::PoolService entry{ServiceId(0), {samples_max}, sched::LatencyTable(1, samples_max)};
    for (std::int32_t b = 1; b <= samples_max; ++b) {
      const Duration run(times[i][static_cast<std::size_t>(b - 1)]);
      // Run times have no spread in this experiment, so the p99 equals the mean.
      entry.latency.set(0, b, {run, run});
    }
    const sched::PoolId pool(static_cast<std::uint32_t>(deployment.pools.size()));
    deployment.pools.push_back({std::to_string(kSizes[i]) + "g", kSizes[i], kSizes[i] / 7.0, {entry}});
    deployment.services[0].pools.push_back(pool);
    deployment.services[0].samples_max = std::max(deployment.services[0].samples_max, samples_max);
    for (int n = 0; n < counts[i]; ++n) deployment.places.push_back({DeviceId(0), pool, {}, 0});
  }
  return deployment;
}

// One service. Single queries hold one sample each; otherwise samples follow the distribution of the setting.
Workload make_workload(const ParisElsaCell& cell, const std::vector<double>& share, Slo slo) {
  Service service;
  service.name = service.model = cell.setting.model;
  service.slo = slo;
  // One query a second; the search scales it.
  service.traffic = PoissonTraffic{1};
  if (!cell.single) {
    HistogramSize histogram;
    for (std::size_t b = 0; b < share.size(); ++b)
      histogram.bins.push_back({static_cast<std::int64_t>(b) + 1, share[b]});
    service.samples = histogram;
  }
  return {{service}};
}

struct ParisTrial {
  detail::QueryVerdict verdict;
  double busy_share = 0;
};

// Finds the highest rates of one deployment. Rates are steps of a quarter percent below the capacity of the cut, so
// that both criteria and all policies of a cut look at the same ones. Cost: one simulation of cell.queries for each
// rate that is looked at, each at most once.
class Search {
 public:
  Search(const ParisElsaCell& cell, sched::Deployment deployment, Workload workload, double capacity_qps)
      : cell_(cell),
        deployment_(std::move(deployment)),
        workload_(std::move(workload)),
        capacity_qps_(capacity_qps),
        queries_(cell.queries) {}

  ParisTrial run(double rate) const { return run(rate, cell_.queries); }

  void highest_rates(ParisElsaResult* result) {
    if (!run(capacity_qps_ / kTrickle, std::min(cell_.queries, kQueriesShort)).verdict.holds_p99()) return;
    int near = kNear;
    // A short run tells where to look with long ones.
    if (cell_.queries > 2 * kQueriesShort) {
      queries_ = kQueriesShort;
      near = first_step(near, &detail::QueryVerdict::holds_p99);
      trials_.clear();
      queries_ = cell_.queries;
    }
    const int loose = first_step(near, &detail::QueryVerdict::holds_p99);
    const int strict = first_step(loose, &detail::QueryVerdict::holds_p999);
    // What holds strictly also holds; by chance a rate may hold above one that does not.
    result->rate = rate_at(std::min(loose, strict));
    result->strict = rate_at(strict);
  }

 private:
  using Holds = bool (detail::QueryVerdict::*)() const;

  static constexpr double kStep = 1.0025;
  static constexpr double kTrickle = 64;  // A cut that fails at this share of its capacity fails at any load.
  static constexpr int kNear = 40;        // Most cells end about 10 % below the capacity.
  static constexpr int kStepsMax = 1666;  // At this step the rate is a trickle.
  static constexpr std::uint64_t kQueriesShort = 30000;

  // Step 0 is the capacity, so no rate of the search is above it. A policy that rejects may hold a little above: with
  // up to one query in a hundred rejected, the largest ones, less work is left than the capacity counts.
  double rate_of(int step) const { return capacity_qps_ * math::pow(kStep, -step); }

  // The first step, that is the highest rate, at which it holds: steps from `near` up or down in doubling strides until
  // it changes, then halves. kStepsMax if it never holds.
  int first_step(int near, Holds holds) {
    int fails = -1;
    int known = kStepsMax;
    int stride = 4;
    for (int at = near; fails < known - 1;) {
      const bool held = (trial(at).verdict.*holds)();
      (held ? known : fails) = at;
      const bool bracketed = fails >= 0 && known < kStepsMax;
      if (bracketed || (held && at == 0)) {
        at = (fails + known) / 2;
      } else {
        at = held ? std::max(0, at - stride) : std::min(kStepsMax - 1, at + stride);
        stride *= 2;
      }
    }
    return known;
  }

  const ParisTrial& trial(int step) {
    const auto found = trials_.find(step);
    if (found != trials_.end()) return found->second;
    return trials_.emplace(step, run(rate_of(step), queries_)).first->second;
  }

  ParisElsaRate rate_at(int step) {
    if (step >= kStepsMax) return {};
    const ParisTrial& at = trial(step);
    const detail::QueryVerdict& verdict = at.verdict;
    const auto ms = [](Duration latency) {
      return latency == Duration::max() ? std::numeric_limits<double>::infinity() : to_milliseconds(latency);
    };
    return {rate_of(step),    ms(verdict.p50), ms(verdict.p95), ms(verdict.p99),
            ms(verdict.p999), at.busy_share,   verdict.groups};
  }

  ParisTrial run(double rate, std::uint64_t queries) const;

  const ParisElsaCell& cell_;
  sched::Deployment deployment_;
  Workload workload_;
  double capacity_qps_;
  std::uint64_t queries_;
  std::map<int, ParisTrial> trials_;  // By step, with `queries_` each.
};

ParisTrial Search::run(double rate, std::uint64_t queries) const {
  const Duration slo = workload_.services[0].slo.latency;
  detail::QueryJudge judge(queries, slo, static_cast<std::int32_t>(cell_.setting.samples_max));
  sim::SimulationConfig config;
  config.scheduler.policy = cell_.policy;
  config.scheduler.policy_config = cell_.policy_config;
  config.scheduler.policy_config.merge = cell_.merge;
  config.seed = cell_.seed;
  config.rate_scale = rate;
  config.requests_max = queries;
  config.warmup_requests = queries / 10;
  config.observer = &judge;
  config.progress = [&](double) { return !judge.lost(); };
  const auto result = sim::simulate(deployment_, workload_, config);
  if (result.stopped) return {};
  double busy = 0;
  double capacity = 0;
  for (std::size_t i = 0; i < deployment_.places.size(); ++i) {
    const int size = deployment_.pools[deployment_.places[i].pool.index()].compute_slices;
    busy += size * static_cast<double>(result.metrics.slices[i].busy_ns);
    capacity += size;
  }
  return {judge.verdict(), busy / (capacity * 1e9 * to_seconds(result.end))};
}

// Searches for the cut of the budget that carries most, with the policy that will run on it: from several beginnings,
// exchanges slices for others of the same total as long as the rate grows. It sees other random numbers than the run
// that judges it, and fewer.
//
// A cut is better if it carries a larger factor of what the best beginning carries, by both criteria at once: a search
// that looks at the p99 alone finds cuts on which one query in a thousand waits too long. Merged queries are judged by
// the first criterion alone.
class CutSearch {
 public:
  CutSearch(const ParisElsaCell& cell, const RunTimes& times, const std::vector<double>& share, Slo slo)
      : cell_(cell), times_(times), share_(share), slo_(slo) {
    // Other random numbers than the judging run, and fewer queries: a search makes hundreds of simulations.
    cell_.seed += 1000;
    cell_.queries = 16000;
  }

  std::vector<int> best() {
    const auto all = beginnings();
    for (const auto& counts : all) raise_base(counts, &base_.loose, &detail::QueryVerdict::holds_p99);
    if (base_.loose == 0) return std::vector<int>(kSizes.size(), 0);
    for (const auto& counts : all) {
      if (!cell_.merge) raise_base(counts, &base_.strict, &detail::QueryVerdict::holds_p999);
    }
    // What every beginning costs is not a part of the climb.
    evaluations_ = 0;
    factor_ = kFactorLeast;
    for (const auto& counts : all) try_beginning(counts);
    if (best_.empty()) return all.front();
    for (bool better = true; better && evaluations_ < kEvaluationsMax;) {
      better = false;
      // Four slices at a time first: that covers a distance in fewer evaluations.
      for (const int step : {4, 1}) better = climb(step) || better;
    }
    return best_;
  }

 private:
  static constexpr int kEvaluationsMax = 220;
  static constexpr double kStep = 1.004;  // Less is noise.
  static constexpr double kFactorLeast = 0.5;

  using Holds = bool (detail::QueryVerdict::*)() const;
  // The highest rates of the beginnings by the two criteria. 0: none, or not asked for.
  struct Base {
    double loose = 0;
    double strict = 0;
  };

  // The published cuts and four fluid ones, each once. The climb can only improve on the best of them.
  std::vector<std::vector<int>> beginnings() const {
    const int budget = cell_.setting.compute_slices;
    std::vector<std::vector<int>> all;
    ParisElsaResult paris;
    ParisElsaCell cell = cell_;
    for (const auto& name : paris_elsa_partitionings()) {
      if (name == "random") continue;
      cell.partitioning = name;
      choose_counts(cell, times_, share_, &paris);
      all.push_back(paris.counts);
    }
    for (const double part : {1.0, 0.67, 0.5, 0.33}) {
      all.push_back(fluid_counts(times_, share_, budget, part * static_cast<double>(slo_.latency.count())));
    }
    std::erase_if(all, [&](const auto& counts) { return !serves_all(counts); });
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  Search search(const std::vector<int>& counts, double capacity_qps) const {
    return Search(cell_, deploy(cell_.setting, times_, counts, slo_), make_workload(cell_, share_, slo_), capacity_qps);
  }

  // True if some slice takes the largest query. Otherwise no rate is feasible, and no simulation is needed.
  bool serves_all(const std::vector<int>& counts) const {
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      if (counts[i] > 0 && static_cast<std::int64_t>(times_[i].size()) >= cell_.setting.samples_max) return true;
    }
    return cell_.single && std::ranges::any_of(counts, [](int n) { return n > 0; });
  }

  bool carries_rate(const std::vector<int>& counts, double rate, Holds holds) {
    if (!serves_all(counts) || !(search(counts, rate).run(rate).verdict.*holds)()) return false;
    // Last, because most cuts fail before: a short run may hold above the capacity.
    return rate <= capacity_of(cell_, times_, share_, counts);
  }

  // One evaluation of the budget kEvaluationsMax.
  bool carries(const std::vector<int>& counts, double factor) {
    ++evaluations_;
    return carries_rate(counts, factor * base_.loose, &detail::QueryVerdict::holds_p99) &&
           (base_.strict == 0 || carries_rate(counts, factor * base_.strict, &detail::QueryVerdict::holds_p999));
  }

  // The largest value that is carried, from one that is: in steps that become smaller.
  template <typename Carried>
  double push(double low, Carried carried) const {
    double step = 1.08;
    while (step > kStep) {
      if (carried(low * step)) {
        low *= step;
      } else {
        step = std::sqrt(step);
      }
    }
    return low;
  }

  // Raises a rate of the base to what a beginning carries. One simulation decides whether it carries more.
  void raise_base(const std::vector<int>& counts, double* rate, Holds holds) {
    const auto carried = [&](double at) { return carries_rate(counts, at, holds); };
    if (*rate > 0) {
      if (carried(*rate * kStep)) *rate = push(*rate * kStep, carried);
      return;
    }
    ParisElsaResult first;
    search(counts, capacity_of(cell_, times_, share_, counts)).highest_rates(&first);
    *rate = holds == &detail::QueryVerdict::holds_p99 ? first.rate.qps : first.strict.qps;
  }

  double push_factor(const std::vector<int>& counts, double low) {
    return push(low, [&](double factor) { return carries(counts, factor); });
  }

  void try_beginning(const std::vector<int>& counts) {
    const double probe = best_.empty() ? factor_ : factor_ * kStep;
    if (!carries(counts, probe)) return;
    best_ = counts;
    factor_ = push_factor(counts, probe);
  }

  // Tries every exchange in both directions and repeats it while the rate grows. True if anything improved.
  bool climb(int step) {
    // Exchanges that keep the total: numbers of slices of 1, 2, 3, 4 and 7.
    static constexpr int kExchanges[][5] = {{2, -1, 0, 0, 0}, {1, 1, -1, 0, 0}, {1, 0, 1, -1, 0}, {0, 2, 0, -1, 0},
                                            {0, 0, 1, 1, -1}, {0, 2, 1, 0, -1}, {1, 0, 2, 0, -1}, {3, 0, -1, 0, 0},
                                            {4, 0, 0, -1, 0}, {1, -2, 1, 0, 0}, {0, 1, -2, 1, 0}, {7, 0, 0, 0, -1},
                                            {1, 0, 0, -2, 1}, {0, -3, 2, 0, 0}, {0, 0, 4, -3, 0}, {1, 3, 0, 0, -1}};
    bool better = false;
    for (const auto& exchange : kExchanges) {
      for (const int sign : {1, -1}) {
        while (evaluations_ < kEvaluationsMax) {
          std::vector<int> counts = best_;
          bool possible = true;
          for (std::size_t i = 0; i < kSizes.size(); ++i) {
            counts[i] += sign * step * exchange[i];
            possible = possible && counts[i] >= 0;
          }
          if (!possible || !carries(counts, factor_ * kStep)) break;
          factor_ = push_factor(counts, factor_ * kStep);
          best_ = counts;
          better = true;
        }
      }
    }
    return better;
  }

  ParisElsaCell cell_;
  const RunTimes& times_;
  const std::vector<double>& share_;
  Slo slo_;
  Base base_;
  std::vector<int> best_;
  double factor_ = 0;  // Of the base, carried by `best_`.
  int evaluations_ = 0;
};

}  // namespace

std::vector<ParisElsaSetting> paris_elsa_settings(const Measurements& measurements) {
  const std::vector<ParisElsaSetting> reference{
      {"mobilenetv2", 24, 1.0, 0.9}, {"resnet50", 48, 1.0, 0.9},    {"bert", 42, 1.0, 0.9},
      {"mobilenetv2", 24, 1.5, 0.3}, {"mobilenetv2", 24, 1.5, 0.9}, {"mobilenetv2", 24, 1.5, 1.8},
      {"resnet50", 48, 1.5, 0.3},    {"resnet50", 48, 1.5, 0.9},    {"resnet50", 48, 1.5, 1.8},
      {"inceptionv3", 48, 1.5, 0.9}, {"vgg16", 48, 1.5, 0.9},
  };
  std::vector<std::string> models;
  for (const auto& m : measurements) models.push_back(m.model);
  std::ranges::sort(models);
  const auto rest = std::ranges::unique(models);
  models.erase(rest.begin(), rest.end());
  std::vector<ParisElsaSetting> settings;
  for (const auto& setting : reference) {
    if (std::ranges::binary_search(models, setting.model)) settings.push_back(setting);
  }
  // The reference is a choice among the models of its own measurements. Of others, every model is looked at.
  if (settings.size() == reference.size()) return settings;
  for (const auto& model : models) {
    const bool chosen = std::ranges::any_of(reference, [&](const auto& s) { return s.model == model; });
    if (!chosen) settings.push_back({model, 48, 1.0, 0.9});
  }
  return settings;
}

std::optional<std::string> paris_elsa_missing(const Measurements& measurements, const ParisElsaSetting& setting) {
  const auto times = run_times(measurements, setting.model, setting.samples_max);
  const auto largest = static_cast<std::size_t>(setting.samples_max);
  const bool served = std::ranges::any_of(times, [&](const auto& size) { return size.size() >= largest; });
  if (served && !times.back().empty()) return std::nullopt;
  const Geometry& geometry = *find_geometry(kDevice);
  const auto whole = find_profile(geometry, std::to_string(kSizes.back()) + "g");
  TANGRAM_CHECK(whole.ok(), "the board has its largest size");
  return fmt::format(
      "{} cannot be evaluated: there is no latency of one process on {} with batch {}; the promise is {} times the "
      "latency of the largest query, {} samples, there",
      setting.model, geometry.profiles[*whole].name, times.back().size() + 1, setting.slo_factor, setting.samples_max);
}

std::vector<std::string> paris_elsa_partitionings() {
  return {"homogeneous-1", "homogeneous-2", "homogeneous-3", "homogeneous-7", "random", "paris"};
}

std::optional<double> paris_elsa_reference(const ParisElsaCell& cell) {
  struct Figure {
    const char* model;
    double mu;
    double sigma;
    const char* partitioning;
    const char* policy;
    double qps;
  };
  // Queries a second of the reference simulator; 0 where it found no feasible rate.
  static constexpr Figure kFigures[] = {
      {"mobilenetv2", 1.0, 0.9, "homogeneous-2", "fifs", 1967},
      {"mobilenetv2", 1.0, 0.9, "homogeneous-7", "fifs", 454},
      {"mobilenetv2", 1.0, 0.9, "paris", "fifs", 0},
      {"mobilenetv2", 1.0, 0.9, "paris", "elsa", 2300},
      {"resnet50", 1.0, 0.9, "homogeneous-2", "fifs", 3076},
      {"resnet50", 1.0, 0.9, "homogeneous-7", "fifs", 1085},
      {"resnet50", 1.0, 0.9, "paris", "fifs", 0},
      {"resnet50", 1.0, 0.9, "paris", "elsa", 3328},
      {"bert", 1.0, 0.9, "homogeneous-1", "fifs", 1009},
      {"bert", 1.0, 0.9, "homogeneous-7", "fifs", 237},
      {"bert", 1.0, 0.9, "paris", "fifs", 526},
      {"bert", 1.0, 0.9, "paris", "elsa", 557},
      {"mobilenetv2", 1.5, 0.3, "homogeneous-1", "fifs", 3116},
      {"mobilenetv2", 1.5, 0.3, "paris", "elsa", 2667},
      {"mobilenetv2", 1.5, 0.9, "homogeneous-3", "fifs", 1278},
      {"mobilenetv2", 1.5, 0.9, "paris", "elsa", 1620},
      {"mobilenetv2", 1.5, 1.8, "homogeneous-3", "fifs", 1155},
      {"mobilenetv2", 1.5, 1.8, "paris", "elsa", 1335},
      {"resnet50", 1.5, 0.3, "homogeneous-2", "fifs", 3056},
      {"resnet50", 1.5, 0.3, "paris", "elsa", 3075},
      {"resnet50", 1.5, 0.9, "homogeneous-3", "fifs", 2179},
      {"resnet50", 1.5, 0.9, "paris", "elsa", 2087},
      {"resnet50", 1.5, 1.8, "homogeneous-3", "fifs", 1831},
      {"resnet50", 1.5, 1.8, "paris", "elsa", 2051},
      {"inceptionv3", 1.5, 0.9, "homogeneous-3", "fifs", 1514},
      {"inceptionv3", 1.5, 0.9, "paris", "elsa", 2157},
      {"vgg16", 1.5, 0.9, "homogeneous-3", "fifs", 1647},
      {"vgg16", 1.5, 0.9, "paris", "elsa", 1520},
  };
  // The reference has neither single samples nor merging.
  if (cell.single || cell.merge) return std::nullopt;
  for (const auto& figure : kFigures) {
    if (cell.setting.model == figure.model && cell.setting.mu == figure.mu && cell.setting.sigma == figure.sigma &&
        cell.partitioning == figure.partitioning && cell.policy == figure.policy) {
      return figure.qps;
    }
  }
  return std::nullopt;
}

namespace {

// What every cell of a setting starts from.
struct Basis {
  RunTimes times;
  std::vector<double> share;
  Slo slo;
};

Basis basis_of(const Measurements& measurements, const ParisElsaCell& cell) {
  Basis basis{run_times(measurements, cell.setting.model, cell.setting.samples_max),
              sample_shares(cell.setting, SmallDraws::become_one),
              {}};
  // The last entry is the largest query on the largest slice.
  const auto& largest = basis.times.back();
  if (!largest.empty()) {
    const double slo_ns = cell.setting.slo_factor * static_cast<double>(largest.back());
    basis.slo = {
        .latency = Duration(static_cast<std::int64_t>(slo_ns)), .percentile = 95, .late_limit = cell.late_limit};
  }
  return basis;
}

}  // namespace

std::vector<int> elastic_cut(const Measurements& measurements, const ParisElsaCell& cell) {
  const Basis basis = basis_of(measurements, cell);
  if (basis.times.back().empty()) return std::vector<int>(kSizes.size(), 0);
  return CutSearch(cell, basis.times, basis.share, basis.slo).best();
}

ParisElsaResult run_paris_elsa(const Measurements& measurements, const ParisElsaCell& cell) {
  const auto [times, share, slo] = basis_of(measurements, cell);
  ParisElsaResult result;
  if (times.back().empty()) return result;
  result.slo_ms = to_milliseconds(slo.latency);
  // No cut and no policy can exceed this, because each query occupies at least so many compute-slice seconds.
  const auto queries = cell.single ? std::vector<double>{1} : share;
  result.bound_qps = cell.setting.compute_slices / least_cost_s(times, queries, cell.merge);
  if (!cell.counts.empty()) {
    result.counts = cell.counts;
  } else if (cell.partitioning == "elastic") {
    result.counts = CutSearch(cell, times, share, slo).best();
  } else {
    choose_counts(cell, times, sample_shares(cell.setting, SmallDraws::left_out), &result);
  }
  auto deployment = deploy(cell.setting, times, result.counts, slo);
  // The cut has no slice on which the model was measured.
  if (deployment.places.empty()) return result;
  // A size that does not take the largest queries leaves them to the others; alone it cannot serve.
  if (!cell.single && deployment.services[0].samples_max < cell.setting.samples_max) return result;
  result.capacity_qps = capacity_of(cell, times, share, result.counts);
  Search(cell, std::move(deployment), make_workload(cell, share, slo), result.capacity_qps).highest_rates(&result);
  return result;
}

detail::QueryVerdict judge_paris_elsa(const Measurements& measurements, const ParisElsaCell& cell, double qps) {
  const auto [times, share, slo] = basis_of(measurements, cell);
  auto deployment = deploy(cell.setting, times, cell.counts, slo);
  TANGRAM_CHECK(!deployment.places.empty(), "the cell names a cut on which the model was measured");
  return Search(cell, std::move(deployment), make_workload(cell, share, slo), qps).run(qps).verdict;
}

}  // namespace tangram::experiments
