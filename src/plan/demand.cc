// Turns services and fleets into numbers: samples a second by bucket, and for each kind of slice what it can run.
//
// A plan is only as good as these tables. Rates are taken at their peak, sizes at both ends of a drift, and a slice
// offers a bucket only if a batch of it ends in time under the rule. The search (cover.h) sees nothing but the result.
//
// Invariants: shares sum to one and sizes ascend; the last size is the largest that can arrive; every rate of a Demand
// is at least kRateMin, so it can be divided by.

#include "plan/demand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/check.h"
#include "base/math.h"
#include "base/text.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan {
namespace {

// Visits a variant with one lambda for each alternative.
template <typename... Fs>
struct Overload : Fs... {
  using Fs::operator()...;
};

// Arrivals are random, so a batch sometimes gathers more requests than the mean rate suggests. Larger batches than
// this slack allows would rarely be full when their first request has to start.
constexpr double kGatherSlack = 1.25;

// A log-normal distribution as a list of sizes. Small sizes are listed one by one; larger ones grow by a constant
// ratio, so the list stays short and the rounding of sizes stays relative. A share counts under the upper size of its
// step: the planned load is never less than the real one.
std::vector<SizeShare> shares_of_log_normal(const LogNormalSize& s) {
  // Without spread all requests have the median size; the formula below would divide by zero.
  if (s.sigma <= 0) return {{static_cast<std::int64_t>(std::llround(s.median)), 1}};
  const double mu = math::log(s.median);
  const auto below = [&](double x) { return x <= 0 ? 0.0 : math::normal_cdf((math::log(x) - mu) / s.sigma); };
  std::vector<SizeShare> shares;
  double done = 0;
  // Aims at 900 steps, which leaves a margin below kSizesMax for those that rounding down adds.
  const double ratio = math::exp(math::log(static_cast<double>(s.max) / static_cast<double>(s.min) + 1) / 900);
  for (std::int64_t size = s.min; size <= s.max;) {
    const double up_to = size == s.max ? 1 : below(static_cast<double>(size) + 0.5);
    if (up_to > done) shares.push_back({size, up_to - done});
    done = std::max(done, up_to);
    if (size == s.max) break;
    size = std::min(s.max, std::max(size + 1, static_cast<std::int64_t>(static_cast<double>(size) * ratio)));
  }
  return shares;
}

// Normalises weights to shares. Requires a positive total.
std::vector<SizeShare> shares_of(const std::map<std::int64_t, double>& weights) {
  double total = 0;
  for (const auto& [size, weight] : weights) total += weight;
  std::vector<SizeShare> shares;
  // With too many sizes, neighbours are merged under the larger one, so that no input is planned smaller than it is.
  // The last size always gets an entry, since it decides the largest bucket.
  const double least = weights.size() <= kSizesMax ? 0 : total / static_cast<double>(kSizesMax - 1);
  double gathered = 0;
  for (auto it = weights.begin(); it != weights.end(); ++it) {
    gathered += it->second;
    if (gathered < least && std::next(it) != weights.end()) continue;
    shares.push_back({it->first, gathered / total});
    gathered = 0;
  }
  return shares;
}

// The shares of a distribution. TraceSize means the sizes of the recorded requests, so it needs the traffic; without a
// recording there is one size, 1.
std::vector<SizeShare> shares_of_distribution(const SizeDistribution& distribution, const Traffic& traffic,
                                              bool samples) {
  return std::visit(Overload{[](const ConstantSize& s) { return std::vector<SizeShare>{{s.size, 1}}; },
                             [](const LogNormalSize& s) { return shares_of_log_normal(s); },
                             [](const HistogramSize& s) {
                               std::map<std::int64_t, double> weights;
                               for (const auto& bin : s.bins) weights[bin.size] += bin.weight;
                               return shares_of(weights);
                             },
                             [&](const TraceSize&) {
                               std::map<std::int64_t, double> weights;
                               if (const auto* replay = std::get_if<TraceTraffic>(&traffic)) {
                                 for (const auto& entry : replay->trace)
                                   weights[samples ? entry.samples : entry.size] += 1;
                               }
                               if (weights.empty()) weights[1] = 1;
                               return shares_of(weights);
                             }},
                    distribution);
}

// The numbers of samples in a request. A recorded request holds at least the number in the recording, so the larger of
// the two numbers counts. They are independent, hence the product of the shares.
std::vector<SizeShare> sample_shares(const Service& service) {
  const auto drawn = shares_of_distribution(service.samples, service.traffic, true);
  const auto* replay = std::get_if<TraceTraffic>(&service.traffic);
  if (replay == nullptr || std::holds_alternative<TraceSize>(service.samples)) return drawn;
  std::map<std::int64_t, double> weights;
  for (const auto& recorded : shares_of_distribution(TraceSize{}, service.traffic, true)) {
    for (const auto& own : drawn) weights[std::max(recorded.size, own.size)] += recorded.share * own.share;
  }
  return shares_of(weights);
}

// How long a run may take. Rule::half is ParvaGPU's: half of the Slo for the run and half for waiting, with a tenth
// kept as margin.
double latency_limit_s(const Problem& problem, const Service& service) {
  const double slo = to_seconds(service.slo.latency);
  return problem.options.rule == Rule::half ? 0.9 * slo / 2 : slo;
}

// The batch sizes to try, ascending. A request runs within one batch, so the smallest batch holds the largest request;
// if no power of two equals that number, it is added. Batches named in the options are taken as they are.
std::vector<std::int64_t> batch_candidates(const PlanOptions& options, std::int64_t least) {
  std::vector<std::int64_t> batches = options.batches;
  for (std::int64_t b = 1; b <= 256 && options.batches.empty(); b *= 2) batches.push_back(b);
  std::erase_if(batches, [&](std::int64_t b) { return b < least; });
  const bool missing = batches.empty() || batches.front() > least;
  if (options.batches.empty() && missing) batches.insert(batches.begin(), least);
  return batches;
}

// Media engines do not affect the speed of a model, so a profile that differs in nothing else adds only symmetry to
// the search.
bool same_but_media(const MigProfile& a, const MigProfile& b) {
  return a.compute_slices == b.compute_slices && a.units == b.units && a.memory_gib == b.memory_gib;
}

// True if some service's model has a prediction on the profile for its smallest input. Anything larger may still not
// fit; that is decided for each bucket.
bool runs_anything(const Problem& problem, const Geometry& geometry, const MigProfile& profile) {
  return std::ranges::any_of(problem.workload.services, [&](const Service& service) {
    const auto sizes = size_shares(service);
    return problem.latency->predict({geometry.type, profile.name, service.model, 1, sizes.front().size, 1}).has_value();
  });
}

// True if `a` runs at least as much as `b` of every bucket.
bool dominates(const Offer& a, const Offer& b) {
  for (std::size_t i = 0; i < a.rate_per_s.size(); ++i) {
    if (a.rate_per_s[i] < b.rate_per_s[i]) return false;
  }
  return true;
}

// Removes offers that another offer of the same kind matches on every bucket. Of two equal offers the first stays. No
// best cover is lost: replacing a slice's offer by the better one never reduces capacity.
void keep_best(std::vector<Offer>& offers) {
  std::vector<Offer> kept;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    bool beaten = false;
    for (std::size_t j = 0; j < offers.size() && !beaten; ++j) {
      beaten = j != i && offers[j].kind == offers[i].kind && dominates(offers[j], offers[i]) &&
               (!dominates(offers[i], offers[j]) || j < i);
    }
    if (!beaten) kept.push_back(offers[i]);
  }
  offers = std::move(kept);
}

// Of offers of one kind that differ in their number of processes, keeps those that are best for some bucket, measured
// by what they run within the Slo or within half of it. More processes run more in total but each batch more slowly.
// Under certification waiting counts as well, so the best number is one of these two and capacity alone must not
// decide.
void keep_best_processes(std::vector<Offer>& offers, const std::vector<Offer>& within_half) {
  std::vector<Offer> kept;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    bool best = false;
    for (std::size_t b = 0; b < offers[i].rate_per_s.size() && !best; ++b) {
      for (const std::vector<Offer>* set : std::initializer_list<const std::vector<Offer>*>{&offers, &within_half}) {
        const double own = (*set)[i].rate_per_s[b];
        best = best || (own > 0 && std::ranges::none_of(*set, [&](const Offer& o) {
                          return o.kind == offers[i].kind && o.rate_per_s[b] > own * (1 + detail::kSumTolerance);
                        }));
      }
    }
    if (best) kept.push_back(offers[i]);
  }
  offers = std::move(kept);
}

}  // namespace

std::vector<SizeShare> size_shares(const Service& service) {
  auto now = shares_of_distribution(service.input_size, service.traffic, false);
  if (!service.size_drift) return now;
  // Both ends of a drift count, with equal weight: the result says which sizes exist, and bucket edges have to suit
  // both.
  std::map<std::int64_t, double> weights;
  for (const auto& [size, share] : now) weights[size] += share;
  for (const auto& [size, share] : shares_of_distribution(service.size_drift->to, service.traffic, false)) {
    weights[size] += share;
  }
  return shares_of(weights);
}

double samples_mean(const Service& service) {
  double mean = 0;
  for (const auto& [samples, share] : sample_shares(service)) {
    mean += static_cast<double>(samples) * share;
  }
  return mean;
}

std::int64_t samples_most(const Service& service) { return sample_shares(service).back().size; }

std::vector<double> samples_by_number(const Service& service) {
  const auto shares = sample_shares(service);
  std::vector<double> by_number(static_cast<std::size_t>(shares.back().size), 0);
  for (const auto& [samples, share] : shares) by_number[static_cast<std::size_t>(samples - 1)] += share;
  return by_number;
}

Service before_drift(Service service) {
  service.size_drift.reset();
  return service;
}

Service after_drift(Service service) {
  if (service.size_drift) service.input_size = service.size_drift->to;
  return before_drift(std::move(service));
}

namespace {

// The least rate of `low` to `high` at which `keeps` is true, within a thousandth. `keeps` is monotone and true at
// `high`.
template <typename Keeps>
double least_rate(double low, double high, const Keeps& keeps) {
  if (keeps(low)) return low;
  while (high > low * 1.001) {
    const double middle = 0.5 * (low + high);
    (keeps(middle) ? high : low) = middle;
  }
  return high;
}

// What slices must run at least so that the promise can hold at all: of a span of `length` seconds that brings more
// than they run, they answer what they run until one Slo after its end. Everything else is lost.
double least_rate_of_bursts(const Service& service, const BurstTraffic& bursts) {
  const double slo_s = to_seconds(service.slo.latency);
  const double burst_rate = burst_rate_per_s(bursts);
  const double calm_rate = burst_rate / bursts.burst_factor;
  const double calm = calm_rate * bursts.calm_mean_s;
  const double burst = burst_rate * bursts.burst_mean_s;
  const auto keeps = [&](double rate) {
    const auto answered = [&](double arrivals, double length) { return std::min(arrivals, rate * (length + slo_s)); };
    const double share = (answered(calm, bursts.calm_mean_s) + answered(burst, bursts.burst_mean_s)) / (calm + burst);
    const double window = service.slo.window_s;
    const double in_window = window > 0 ? answered(burst_rate * window, window) / (burst_rate * window) : 1;
    return std::min(share, in_window) >= service.slo.percentile / 100;
  };
  return least_rate(bursts.rate_per_s, std::max(bursts.rate_per_s, burst_rate), keeps);
}

// The most requests of a trace within any `seconds` of it.
double most_within(const TraceTraffic& replay, double seconds) {
  std::size_t first = 0;
  std::size_t most = 0;
  for (std::size_t last = 0; last < replay.trace.size(); ++last) {
    while (to_seconds(replay.trace[last].at - replay.trace[first].at) >= seconds) ++first;
    most = std::max(most, last - first + 1);
  }
  return static_cast<double>(most);
}

// The chance that random arrivals bring `least` or more where they bring `mean` on average.
double chance_of_at_least(int least, double mean) {
  double term = math::exp(-mean);
  double fewer = 0;
  for (int n = 0; n < least; ++n) {
    fewer += term;
    term *= mean / (n + 1);
  }
  return std::max(0.0, 1 - fewer);
}

// The rate at which random arrivals are as close together as the requests of the trace are at times: that bring, in
// windows of any length, as many requests in as large a share of the windows. Example: twelve requests in the same
// millisecond, once in a minute, are what 3,400 random arrivals a second bring as often.
double clumped_rate_per_s(const TraceTraffic& replay, double mean_per_s) {
  // Rarer clumps may be chance, and make few requests late.
  constexpr double kWindowsLeast = 5;
  constexpr double kMeanMost = 500;
  const double length_s = to_seconds(replay.trace.back().at - replay.trace.front().at) / replay.speed;
  double rate = 0;
  for (const double window_s : {0.001, 0.004, 0.016, 0.064, 0.256, 1.0, 4.0}) {
    std::map<int, double> windows;  // By the number of requests in them.
    std::int64_t window = -1;
    int count = 0;
    for (const auto& entry : replay.trace) {
      const auto own = static_cast<std::int64_t>(to_seconds(entry.at - kTimeZero) / replay.speed / window_s);
      if (own != window && count > 0) windows[count] += 1;
      count = own == window ? count + 1 : 1;
      window = own;
    }
    windows[count] += 1;
    const double all = std::max(1.0, length_s / window_s);
    double with_more = 0;
    for (auto entry = windows.rbegin(); entry != windows.rend(); ++entry) {
      with_more += entry->second;
      // Fewer than that are no clump, however regularly they come.
      if (entry->first <= mean_per_s * window_s + 1) break;
      if (with_more < kWindowsLeast) continue;
      double low = 0;
      double high = kMeanMost;
      while (high - low > 0.001 * high) {
        const double middle = (low + high) / 2;
        (chance_of_at_least(entry->first, middle) < with_more / all ? low : high) = middle;
      }
      rate = std::max(rate, high / window_s);
    }
  }
  return rate;
}

// The work of a request, for comparison with others of its trace. The run times of a model may grow less with the size,
// which is on the safe side.
double work_of(const Service& service, const TraceEntry& entry) {
  const bool sizes = std::holds_alternative<TraceSize>(service.input_size);
  const bool samples = std::holds_alternative<TraceSize>(service.samples);
  return static_cast<double>(std::max<std::int64_t>(1, sizes ? entry.size : 1)) *
         static_cast<double>(std::max<std::int64_t>(1, samples ? entry.samples : 1));
}

// How much more work than on average the requests of the trace bring at times, because large ones come together: the
// mean of a window over that of the trace. What chance brings together does not count: four standard deviations of the
// mean of so many requests. Example: requests of size 512 for 9 s of every 120 s, and of 32 in between, are 68 in the
// mean, so those seconds bring 7.5 times the usual work.
double heaviest_share(const Service& service, const TraceTraffic& replay) {
  constexpr std::size_t kWindowsLeast = 5;  // Fewer may be chance, and make few requests late.
  constexpr double kRequestsLeast = 30;     // In a window. The mean of fewer is too uncertain.
  double sum = 0;
  double squares = 0;
  for (const auto& entry : replay.trace) {
    sum += work_of(service, entry);
    squares += work_of(service, entry) * work_of(service, entry);
  }
  const auto all = static_cast<double>(replay.trace.size());
  const double mean = sum / all;
  const double deviation = std::sqrt(std::max(0.0, squares / all - mean * mean));
  double most = 1;
  for (const double window_s : {0.064, 0.256, 1.0, 4.0, 16.0, 64.0}) {
    std::vector<double> shares;
    std::int64_t window = -1;
    double count = 0;
    double work = 0;
    const auto close = [&] {
      if (count >= kRequestsLeast) shares.push_back((work / count - 4 * deviation / std::sqrt(count)) / mean);
      count = work = 0;
    };
    for (const auto& entry : replay.trace) {
      const auto own = static_cast<std::int64_t>(to_seconds(entry.at - kTimeZero) / replay.speed / window_s);
      if (own != window) close();
      window = own;
      count += 1;
      work += work_of(service, entry);
    }
    close();
    if (shares.size() < kWindowsLeast) continue;
    std::ranges::nth_element(shares, shares.begin() + (kWindowsLeast - 1), std::greater<>());
    most = std::max(most, shares[kWindowsLeast - 1]);
  }
  return most;
}

double least_rate_of_trace(const Service& service, const TraceTraffic& replay) {
  const double mean = mean_rate_per_s(service.traffic);
  if (replay.trace.empty() || mean <= 0) return mean;
  const double slo_s = to_seconds(service.slo.latency);
  const double length = std::max(1.0, 10 * slo_s);
  std::map<std::int64_t, double> windows;
  for (const auto& entry : replay.trace) {
    windows[static_cast<std::int64_t>(to_seconds(entry.at - kTimeZero) / replay.speed / length)] += 1;
  }
  double most = 0;
  for (const auto& [window, count] : windows) most = std::max(most, count);
  const double promised = service.slo.percentile / 100;
  // Where every window is promised: the most requests of one, and its length.
  const double promised_s = service.slo.window_s;
  const double in_window = promised_s > 0 ? most_within(replay, promised_s * replay.speed) : 0;
  const auto keeps = [&](double rate) {
    double answered = 0;
    for (const auto& [window, count] : windows) answered += std::min(count, rate * (length + slo_s));
    if (answered < promised * static_cast<double>(replay.trace.size())) return false;
    return rate * (promised_s + slo_s) >= promised * in_window;
  };
  const double of_window = promised_s > 0 ? in_window / promised_s : 0;
  return least_rate(mean, std::max({mean, most / length, of_window}), keeps);
}

}  // namespace

double gather_rate_per_s(const Service& service) {
  const double planned = planning_rate_per_s(service);
  if (const auto* bursts = std::get_if<BurstTraffic>(&service.traffic)) {
    return std::max(planned, burst_rate_per_s(*bursts));
  }
  const auto* replay = std::get_if<TraceTraffic>(&service.traffic);
  if (replay == nullptr || replay->trace.empty()) return planned;
  const double slo_s = to_seconds(service.slo.latency);
  return std::max(planned, most_within(*replay, slo_s * replay->speed) / slo_s);
}

double busiest_rate_per_s(const Service& service) {
  const double planned = planning_rate_per_s(service);
  if (const auto* bursts = std::get_if<BurstTraffic>(&service.traffic)) {
    return std::max(planned, burst_rate_per_s(*bursts));
  }
  const auto* replay = std::get_if<TraceTraffic>(&service.traffic);
  if (replay == nullptr || replay->trace.empty()) return planned;
  constexpr double kBusySeconds = 10;
  return std::max(planned, most_within(*replay, kBusySeconds * replay->speed) / kBusySeconds);
}

double neighbour_rate_per_s(const Service& service) {
  const auto* replay = std::get_if<TraceTraffic>(&service.traffic);
  if (replay == nullptr || replay->trace.empty()) return busiest_rate_per_s(service);
  return std::max(busiest_rate_per_s(service), clumped_rate_per_s(*replay, mean_rate_per_s(service.traffic)));
}

double neighbour_load_per_s(const Service& service) {
  const auto* replay = std::get_if<TraceTraffic>(&service.traffic);
  const double rate = neighbour_rate_per_s(service);
  if (replay == nullptr || replay->trace.empty()) return rate;
  return rate * heaviest_share(service, *replay);
}

bool comes_at_once(const Service& service) {
  constexpr double kFactorMost = 5;
  return std::holds_alternative<TraceTraffic>(service.traffic) &&
         neighbour_load_per_s(service) > kFactorMost * std::max(mean_rate_per_s(service.traffic), 1e-9);
}

double planning_rate_per_s(const Service& service) {
  // Each client sends its next request one think time after an answer, which takes at most the Slo when in time.
  // Faster answers only raise the rate while there is capacity for it.
  if (const auto* loop = std::get_if<ClosedLoopTraffic>(&service.traffic)) {
    return loop->clients / (loop->think_mean_s + to_seconds(service.slo.latency));
  }
  // A job starts late and its runs vary, so it is planned to end before its deadline.
  if (service.job) return mean_rate_per_s(service.traffic) / kJobShare;
  if (const auto* day = std::get_if<DiurnalTraffic>(&service.traffic)) return day->rate_per_s * (1 + day->amplitude);
  if (const auto* curve = std::get_if<CurveTraffic>(&service.traffic); curve != nullptr && !curve->rate_per_s.empty()) {
    return curve->scale * std::ranges::max(curve->rate_per_s);
  }
  if (const auto* bursts = std::get_if<BurstTraffic>(&service.traffic)) return least_rate_of_bursts(service, *bursts);
  if (const auto* replay = std::get_if<TraceTraffic>(&service.traffic)) return least_rate_of_trace(service, *replay);
  return mean_rate_per_s(service.traffic);
}

Stock take_stock(const Problem& problem) {
  Stock stock;
  for (const auto& service : problem.workload.services) stock.samples_most.push_back(samples_most(service));
  for (std::size_t g = 0; g < problem.fleet.groups.size(); ++g) {
    const auto& group = problem.fleet.groups[g];
    const Geometry* known = find_geometry(group.type);
    // GPU types have a table. The host has none: its geometry depends on its number of cores.
    TANGRAM_CHECK(known != nullptr || group.host.has_value(), "a fleet's devices have a geometry");
    stock.geometries.push_back(known != nullptr ? *known : cpu_geometry(*group.host));
    const Geometry& geometry = stock.geometries.back();
    const Geometry allowed = restrict_to(geometry, group.profiles);
    const Geometry left = beside(geometry, group.reserved);
    for (std::size_t p = 0; p < geometry.profiles.size(); ++p) {
      const auto& profile = geometry.profiles[p];
      const bool offered =
          std::ranges::any_of(allowed.profiles, [&](const auto& a) { return a.name == profile.name; }) &&
          !left.profiles[p].starts.empty() && left.profiles[p].count_max > 0;
      // Profiles are listed with the plain one first, so of twins the plain one stays.
      const bool twin = std::ranges::any_of(stock.kinds, [&](const SliceKind& kind) {
        return kind.group == g && same_but_media(geometry.profiles[kind.profile], profile);
      });
      if (offered && !twin && runs_anything(problem, geometry, profile)) stock.kinds.push_back({g, p});
    }
  }
  return stock;
}

std::optional<Prediction> predict_with_headroom(const Problem& problem, const MigProfile& profile,
                                                const RunPoint& point) {
  auto run = problem.latency->predict(point);
  // Without a memory figure on either side nothing can be compared; the prediction alone decides then.
  if (!run || !run->memory_mib || profile.memory_gib.evidence == Evidence::unknown) return run;
  const double room = (1 - problem.options.memory_headroom) * 1024 * profile.memory_gib.value;
  return *run->memory_mib <= room ? run : std::nullopt;
}

BatchChoice best_batch(const Problem& problem, const Stock& stock, std::size_t service_index, std::size_t kind,
                       int processes, std::int64_t size, double rate_per_s, double slo_share) {
  const Service& service = problem.workload.services[service_index];
  const double limit = slo_share * latency_limit_s(problem, service);
  const double slo = to_seconds(service.slo.latency);
  BatchChoice best;
  const std::int64_t least = stock.samples_most[service_index];
  for (const std::int64_t batch : batch_candidates(problem.options, least)) {
    const auto run =
        predict_with_headroom(problem, stock.profile(kind),
                              {stock.type(kind), stock.profile(kind).name, service.model, batch, size, processes});
    if (!run) break;  // Larger ones do not fit into memory either.
    const double seconds = to_seconds(run->mean);
    // Rule::half judges by the mean, since its limit already leaves more than half of the Slo; the other rules use the
    // tail.
    const double slow = problem.options.rule == Rule::half ? seconds : to_seconds(run->p99);
    if (slow >= limit) break;
    // A batch larger than what arrives before its first request has to start would wait in vain. The smallest batch is
    // exempt, because a single request may need all of it.
    const bool gathers =
        problem.options.full_batches || static_cast<double>(batch) <= kGatherSlack * rate_per_s * (slo - slow);
    if (batch > least && !gathers) break;
    const double rate = static_cast<double>(processes) * static_cast<double>(batch) / seconds;
    // Candidates ascend, so of equal rates the smaller batch stays: it answers sooner.
    if (rate > best.rate_per_s) best = {batch, rate};
  }
  return best;
}

std::vector<double> bucket_shares(const std::vector<SizeShare>& sizes, const std::vector<std::int64_t>& edges) {
  std::vector<double> shares(edges.size(), 0);
  for (const auto& [size, share] : sizes) {
    const auto at = std::ranges::lower_bound(edges, size);
    if (at != edges.end()) shares[static_cast<std::size_t>(at - edges.begin())] += share;
  }
  return shares;
}

namespace {

// A lower estimate of the slices that these rates need: each bucket on the offer that runs most of it, in fractions of
// slices. Good enough to compare two mixes of sizes.
double slices_taken(const Demand& demand, const std::vector<double>& rate_per_s) {
  double slices = 0;
  for (std::size_t i = 0; i < rate_per_s.size(); ++i) {
    double best = 0;
    for (const auto& offer : demand.offers) best = std::max(best, offer.rate_per_s[i]);
    if (best > 0) slices += rate_per_s[i] / best;
  }
  return slices;
}

// What a slice of a kind runs of each bucket, and what it runs if a batch may take only half of the Slo.
struct OfferPair {
  Offer whole;
  Offer half;
};
OfferPair offer_of(const Problem& problem, const Stock& stock, const Demand& demand, std::size_t kind, int processes) {
  // ParvaGPU's rule does not limit batches by what arrives in time, as if the rate were infinite.
  constexpr double kAnyRate = 1e18;
  const bool gathers = problem.options.rule != Rule::half;
  const Service& service = problem.workload.services[demand.service];
  const double planned = planning_rate_per_s(service);
  const double peak = planned > 0 ? gather_rate_per_s(service) / planned : 1;
  OfferPair offer{{kind, processes, {}, {}}, {kind, processes, {}, {}}};
  for (std::size_t i = 0; i < demand.edges.size(); ++i) {
    const double rate = gathers ? peak * std::max(demand.rate_per_s[i], demand.other_rate_per_s[i]) : kAnyRate;
    const auto choose = [&](double share) {
      return best_batch(problem, stock, demand.service, kind, processes, demand.edges[i], rate, share);
    };
    const auto choice = choose(1);
    offer.whole.batch.push_back(choice.batch);
    offer.whole.rate_per_s.push_back(choice.rate_per_s);
    offer.half.rate_per_s.push_back(choose(0.5).rate_per_s);
  }
  return offer;
}

// Fills the edges and rates of the demand. A bucket is kept if something arrives for it before or after a drift of
// sizes.
void add_rates(const Problem& problem, const std::vector<std::int64_t>& edges, Demand& demand) {
  const Service& asked = problem.workload.services[demand.service];
  const bool loop = std::holds_alternative<ClosedLoopTraffic>(asked.traffic);  // Has no rate that could grow.
  const double factor = loop ? 1 : problem.options.demand_factor;
  const double total = planning_rate_per_s(asked) * samples_mean(asked) * factor;
  const auto shares = [&](const SizeDistribution& sizes) {
    return bucket_shares(shares_of_distribution(sizes, asked.traffic, false), edges);
  };
  const auto before = shares(asked.input_size);
  const auto after = asked.size_drift ? shares(asked.size_drift->to) : before;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (before[i] <= 0 && after[i] <= 0) continue;  // Nothing of this size arrives.
    demand.edges.push_back(edges[i]);
    // A bucket that gets requests at one end of the drift only keeps a tiny rate at the other, so that both lists have
    // the same buckets and every bucket needs an offer.
    demand.rate_per_s.push_back(std::max(total * before[i], detail::kRateMin));
    demand.other_rate_per_s.push_back(std::max(total * after[i], detail::kRateMin));
  }
}

}  // namespace

Demand make_demand(const Problem& problem, const Stock& stock, std::size_t service, std::vector<std::int64_t> edges) {
  Demand demand{service, {}, {}, {}, {}};
  add_rates(problem, edges, demand);
  std::vector<Offer> within_half;
  for (std::size_t kind = 0; kind < stock.kinds.size(); ++kind) {
    for (int processes = 1; processes <= problem.options.processes_max; ++processes) {
      OfferPair offer = offer_of(problem, stock, demand, kind, processes);
      if (std::ranges::none_of(offer.whole.rate_per_s, [](double r) { return r > 0; })) continue;
      demand.offers.push_back(std::move(offer.whole));
      within_half.push_back(std::move(offer.half));
    }
  }
  if (problem.options.rule == Rule::certified) {
    keep_best_processes(demand.offers, within_half);
  } else {
    keep_best(demand.offers);
  }
  // A plan has to carry both mixes. The search covers the one that needs more slices; the other one is checked for
  // each cover.
  if (!problem.workload.services[service].size_drift) {
    demand.other_rate_per_s.clear();
  } else if (slices_taken(demand, demand.other_rate_per_s) > slices_taken(demand, demand.rate_per_s)) {
    std::swap(demand.rate_per_s, demand.other_rate_per_s);
  }
  return demand;
}

namespace {

// What the predictor knows about a model on the slices of a fleet, found by asking it point by point. Used only to
// explain why there is no plan.
struct KnownRuns {
  std::int64_t size_most = 0;     // The largest input that runs alone.
  std::int64_t samples_most = 0;  // The most that run together at the size asked for.
  double free_most = -1;          // Where the run asked for is known: the largest share of memory that it leaves free.
  std::string free_where;         // The slice that leaves it.
};

// The predictor has no list of its limits, so they are searched for up to this size.
constexpr std::int64_t kSizeAsked = 1 << 24;

// The largest n for which `runs` is true, by doubling and then bisection: about fifty calls. Exact if `runs` is true
// from some power of two up to the answer and false beyond; small sizes may be false.
template <typename Runs>
std::int64_t largest_run(const Runs& runs) {
  std::int64_t yes = 0;
  for (std::int64_t n = 1; n <= kSizeAsked; n *= 2) yes = runs(n) ? n : yes;
  if (yes == 0) return 0;
  std::int64_t no = 2 * yes;
  while (no - yes > 1) {
    const std::int64_t middle = yes + (no - yes) / 2;
    (runs(middle) ? yes : no) = middle;
  }
  return yes;
}

// Raises the figures in `known` by what the predictor says about one profile.
void look_at(const Problem& problem, const Geometry& geometry, const MigProfile& profile, const RunPoint& asked,
             KnownRuns& known) {
  RunPoint point = asked;
  point.device = geometry.type;
  point.mig_profile = profile.name;
  const auto runs_at = [&](std::int64_t batch, std::int64_t size) {
    point.batch = batch;
    point.size = size;
    return problem.latency->predict(point);
  };
  known.size_most = std::max(known.size_most, largest_run([&](auto n) { return runs_at(1, n).has_value(); }));
  known.samples_most =
      std::max(known.samples_most, largest_run([&](auto n) { return runs_at(n, asked.size).has_value(); }));
  const auto run = runs_at(asked.batch, asked.size);
  if (!run || !run->memory_mib || profile.memory_gib.evidence == Evidence::unknown) return;
  // The share of memory left free may be negative: the largest is still the nearest miss.
  const double free = 1 - *run->memory_mib / (1024 * profile.memory_gib.value);
  if (free <= known.free_most) return;
  known.free_most = free;
  known.free_where = geometry.type + " " + profile.name;
}

}  // namespace

std::string why_not_run(const Problem& problem, std::size_t service_index, std::int64_t size) {
  const Service& service = problem.workload.services[service_index];
  const std::int64_t samples = samples_most(service);
  KnownRuns known;
  std::vector<std::string> types;
  for (const auto& group : problem.fleet.groups) {
    const Geometry* found = find_geometry(group.type);
    const Geometry geometry = restrict_to(found != nullptr ? *found : cpu_geometry(*group.host), group.profiles);
    if (std::ranges::find(types, group.type) == types.end()) types.push_back(group.type);
    for (const auto& profile : geometry.profiles) {
      look_at(problem, geometry, profile, {"", "", service.model, samples, size, 1}, known);
    }
  }
  std::string text =
      fmt::format("{}: no slice of the fleet runs {} at input size {}: ", service.name, service.model, size);
  // Reasons from the nearest miss to the farthest: memory, samples in one request, input size, no measurement at all.
  if (!known.free_where.empty()) {
    text += fmt::format("it does not fit into the memory with {:g} % kept free", 100 * problem.options.memory_headroom);
    if (known.free_most < 0) return text;
    return text + fmt::format("; {} would have {:.1f} % left", known.free_where, 100 * known.free_most);
  }
  if (known.samples_most > 0) {
    return text + fmt::format("its requests have up to {} samples, but at most {} were measured in one batch", samples,
                              known.samples_most);
  }
  if (known.size_most > 0) {
    return text + fmt::format("the largest measured size is {}; measure larger sizes, or limit the input sizes",
                              known.size_most);
  }
  return fmt::format("{}: no slice of the fleet runs {}: it was not measured on {}", service.name, service.model,
                     text::join(types, ", "));
}

std::string why_unservable(const Problem& problem, const Stock& stock, const Demand& demand) {
  const Service& service = problem.workload.services[demand.service];
  for (std::size_t i = 0; i < demand.edges.size(); ++i) {
    const bool served = std::ranges::any_of(demand.offers, [&](const Offer& o) { return o.rate_per_s[i] > 0; });
    if (served) continue;
    // The bucket has no offer, so even the smallest batch that holds a request takes too long. The fastest slice tells
    // how long the Slo would have to be.
    double fastest = 1e18;
    std::string where;
    for (std::size_t kind = 0; kind < stock.kinds.size(); ++kind) {
      const auto run = predict_with_headroom(problem, stock.profile(kind),
                                             {stock.type(kind), stock.profile(kind).name, service.model,
                                              stock.samples_most[demand.service], demand.edges[i], 1});
      if (!run) continue;
      const double ms = problem.options.rule == Rule::half ? to_milliseconds(run->mean) : to_milliseconds(run->p99);
      if (ms < fastest) {
        fastest = ms;
        where = stock.type(kind) + " " + stock.profile(kind).name;
      }
    }
    const std::string size = demand.edges.size() > 1 ? fmt::format(" at input size {}", demand.edges[i]) : "";
    if (where.empty()) return why_not_run(problem, demand.service, demand.edges[i]);
    // Rule::half allows 0.9 / 2 of the Slo for a run, so the Slo has to be that much longer than the run.
    const double factor = problem.options.rule == Rule::half ? 2 / 0.9 : 1;
    if (service.job) {
      return fmt::format(
          "{}: one row takes {:.4g} ms{}, but the deadline is {} ms; a deadline above {:.4g} ms would be enough",
          service.name, fastest, size, text::shortest(to_milliseconds(service.job->deadline)), fastest * factor);
    }
    return fmt::format(
        "{}: the Slo is {} ms, but the fastest slice of the fleet, {}, takes {:.4g} ms for one request{}; under rule "
        "{} the Slo must be above {:.4g} ms, and longer where requests wait",
        service.name, text::shortest(to_milliseconds(service.slo.latency)), where, fastest, size,
        to_string(problem.options.rule), fastest * factor);
  }
  return {};
}

ReplicaGroup replica_group(const Problem& problem, const Stock& stock, const Demand& demand, const Offer& offer,
                           int count) {
  ReplicaGroup group;
  group.device_type = stock.type(offer.kind);
  group.mig_profile = stock.profile(offer.kind).name;
  group.compute_slices = stock.profile(offer.kind).compute_slices;
  group.replica.service = problem.workload.services[demand.service].name;
  group.replica.processes = offer.processes;
  for (std::size_t i = 0; i < demand.edges.size(); ++i) {
    if (offer.batch[i] > 0) group.replica.buckets.push_back({demand.edges[i], offer.batch[i]});
  }
  group.count = count;
  return group;
}

}  // namespace tangram::plan
