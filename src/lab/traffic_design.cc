// Which pieces of the traffic a certificate simulates.
//
// The settle time decides what may be left out. A queue that rejects requests which cannot be in time holds at most
// about one Slo of work, so it forgets its past after several Slos. Near full load it takes longer: an overload of 2 %
// fills the queue in 50 Slos, and at full load the queue performs a random walk over its range, which takes about
// rate * Slo^2 / 5. The policy remembers its losses over 512 requests. The settle time covers all of these, up to
// kSettleSlosMax. bench/plan/certificates checks it by simulating the whole traffic for days.
//
// Strata of windows grow geometrically from the busiest windows on: four, then twelve, and so on. The few windows that
// decide about a promise are then always simulated, however long the rest of the day is.

#include "lab/traffic_design.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/math.h"
#include "plan/demand.h"

namespace tangram::lab {
namespace {

constexpr double kHour = 3600;
constexpr double kSettleSlos = 5;
constexpr double kSettleRequests = 1000;      // Twice the memory of the policy.
constexpr double kSettleWalkRequests = 4000;  // Longest random walk that is waited for away from full load.
// Two relaxation times of a random walk within a range, in squares of the range: 2 * 2 / pi^2.
constexpr double kWalkTimes = 0.4;
constexpr double kFillTimes = 3;  // Of the time in which an overload fills the queue, or the lack of one empties it.
constexpr double kSettleSlosMax = 100;  // Near full load; ...
constexpr double kSettleMax = 100'000;  // ... and in requests.
// Queues that hold more requests than this within an Slo begin full where slices are near full load.
constexpr double kSurgeAbove = 100;
// Slices run this share of what full batches would give, at the least.
constexpr double kPowerLow = 0.85;
constexpr double kCountedRequests = 2000;  // Of one replicate, at least.
constexpr double kWholeRequests = 40000;   // Periods and traces up to this many requests are simulated whole.
constexpr double kWindowCycles = 10;       // Promised windows of fewer burst cycles may lie within a burst.
constexpr double kWindowRequests = 20000;  // Of one piece of a promised window, of which a hundred are simulated.
constexpr std::size_t kReplicatesPerRun = 32;
constexpr std::size_t kStrataFirst = 4;  // Windows in the first stratum, all of which are simulated.
constexpr std::size_t kStrataGrowth = 8;
constexpr int kStepsPerWindowMax = 4096;
constexpr double kStepsPerCycleMax = 20000;

int steps_for(double seconds, double step_s) {
  return std::max(1, static_cast<int>(std::ceil(seconds / step_s - 1e-9)));
}

void normalise(std::vector<double>& weight) {
  const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
  TANGRAM_CHECK(sum > 0, "a view has requests");
  for (double& w : weight) w /= sum;
}

// Appends `count` steps of one part.
void append(std::vector<std::uint8_t>& by_step, int count, std::size_t part) {
  by_step.insert(by_step.end(), static_cast<std::size_t>(count), static_cast<std::uint8_t>(part));
}

sim::TrafficParts parts_of(double step_s, std::size_t count) {
  sim::TrafficParts parts;
  parts.step = from_seconds(step_s);
  parts.count = count;
  return parts;
}

// The length of "the busiest minutes" of a span that is simulated whole. Shorter ones would say what chance did.
double minutes_for(double settle_s, double span_s) { return std::min(std::max(60.0, settle_s), span_s / 4); }

}  // namespace

double SlicePower::cost_s(std::int64_t size, std::int64_t samples) const {
  if (edges.empty()) return 1;
  const auto at = std::ranges::lower_bound(edges, size);
  const auto bucket = std::min(static_cast<std::size_t>(at - edges.begin()), edges.size() - 1);
  return sample_s[bucket] * static_cast<double>(samples);
}

bool TrafficDesign::is_near_full(double rate_per_s) const {
  const double load = rate_per_s * power_.request_s;
  return load < 1 && load > kPowerLow;
}

double TrafficDesign::settle_s(const Service& service, double rate_per_s) const {
  const double slo_s = to_seconds(service.slo.latency);
  // A shared slice forgets as fast as the requests of all come.
  const double all_per_s = rate_per_s + power_.others_per_s;
  const double walk_s = std::min(slo_s * slo_s * all_per_s, kSettleWalkRequests / all_per_s);
  const double least = std::max({kSettleSlos * slo_s, kSettleRequests / all_per_s, walk_s});
  const double load = rate_per_s * power_.request_s;
  if (load <= 0) return least;
  // How far the load is from full at least, whatever the slices really run.
  const double away = is_near_full(rate_per_s) ? 0 : load >= 1 ? load - 1 : 1 - load / kPowerLow;
  const double slow = std::min({kWalkTimes * slo_s * slo_s * all_per_s, kFillTimes * slo_s / std::max(away, 1e-6),
                                kSettleSlosMax * slo_s, kSettleMax / all_per_s});
  return std::max(least, slow);
}

TrafficDesign::TrafficDesign(const Service& service, double rate_scale, SlicePower power) : power_(std::move(power)) {
  views_.push_back({"long run", true, {}});
  if (const auto* bursts = std::get_if<BurstTraffic>(&service.traffic)) {
    design_bursts(service, *bursts, rate_scale);
  } else if (const auto* replay = std::get_if<TraceTraffic>(&service.traffic)) {
    design_trace(service, *replay, rate_scale);
  } else if (std::holds_alternative<DiurnalTraffic>(service.traffic) ||
             std::holds_alternative<CurveTraffic>(service.traffic)) {
    design_rates(service, rate_scale);
  } else {
    const double rate = plan::planning_rate_per_s(service) * rate_scale;
    design_whole(service, rate_scale, rate, std::max(settle_s(service, rate), kCountedRequests / rate));
  }
  if (service.slo.window_s > 0) design_window(service, rate_scale);
}

void TrafficDesign::design_window(const Service& service, double scale) {
  detail::BusiestWindow window;
  window.length_s = service.slo.window_s;
  window.scale = scale;
  double rate = plan::planning_rate_per_s(service) * scale;
  if (const auto* bursts = std::get_if<BurstTraffic>(&service.traffic)) {
    // A burst may fill the window, unless it is many cycles long.
    const bool within = window.length_s < kWindowCycles * (bursts->calm_mean_s + bursts->burst_mean_s);
    rate = (within ? burst_rate_per_s(*bursts) : bursts->rate_per_s) * scale;
    window.traffic = within ? Traffic(PoissonTraffic{burst_rate_per_s(*bursts)}) : service.traffic;
  } else if (focus_s_ > 0) {
    window.start_s = focus_at_s_;
    window.length_s = focus_s_;
    rate = focus_requests_ / focus_s_;
  } else {
    window.traffic = service.traffic;
  }
  window.warmup_s = settle_s(service, rate);
  // Pieces are not shorter than the time that the queue remembers.
  const double pieces =
      std::min(std::ceil(rate * window.length_s / kWindowRequests), window.length_s / window.warmup_s);
  window.pieces = static_cast<std::size_t>(std::max(1.0, pieces));
  busiest_window_ = std::move(window);
}

// Requires a positive rate.
void TrafficDesign::design_whole(const Service& service, double scale, double rate_per_s, double counted_s) {
  TANGRAM_CHECK(rate_per_s > 0, "traffic that is simulated flows");
  Whole way{service.traffic, scale, settle_s(service, rate_per_s), counted_s};
  const double slo_s = to_seconds(service.slo.latency);
  if (std::holds_alternative<PoissonTraffic>(service.traffic) && rate_per_s * slo_s > kSurgeAbove &&
      rate_per_s * power_.request_s > kPowerLow) {
    way.surge_s = slo_s;
  }
  way_ = std::move(way);
  views_[0].weight = {1};
}

// Parts: calm young and settled, burst young and settled. A state is young until it has lasted the settle time.
void TrafficDesign::design_bursts(const Service& service, const BurstTraffic& bursts, double scale) {
  Bursts way;
  way.calm_mean_s = bursts.calm_mean_s;
  way.burst_mean_s = bursts.burst_mean_s;
  way.rate_burst = burst_rate_per_s(bursts) * scale;
  way.rate_calm = way.rate_burst / bursts.burst_factor;
  const double calm_settle = settle_s(service, way.rate_calm);
  const double burst_settle = settle_s(service, way.rate_burst);
  // Lengths are drawn in whole steps; a twentieth of the shorter state leaves them exponential for all purposes.
  way.step_s = std::min({calm_settle, burst_settle, way.calm_mean_s, way.burst_mean_s}) / 20;
  const double cycle_s = way.calm_mean_s + way.burst_mean_s;
  const double kept_s = std::min(way.calm_mean_s, 2 * calm_settle) + std::min(way.burst_mean_s, 2 * burst_settle);
  // Where neither calms nor bursts last until the queue has settled, a cycle remembers the one before. Short cycles
  // have nothing to leave out, and of very uneven ones the steps would be too many.
  const bool remembers = way.calm_mean_s < calm_settle && way.burst_mean_s < burst_settle;
  if (remembers || cycle_s <= (calm_settle + burst_settle) / 4 || kept_s / way.step_s > kStepsPerCycleMax) {
    return design_short_bursts(service, bursts, scale);
  }
  way.calm_young = steps_for(calm_settle, way.step_s);
  way.calm_settled = steps_for(calm_settle, way.step_s);
  way.burst_young = steps_for(burst_settle, way.step_s);
  way.burst_settled = steps_for(burst_settle, way.step_s);
  // Survival of a state to the age at which it is settled.
  const double calm_old = math::exp(-way.calm_young * way.step_s / way.calm_mean_s);
  const double burst_old = math::exp(-way.burst_young * way.step_s / way.burst_mean_s);
  const double calm = way.rate_calm * way.calm_mean_s;
  const double burst = way.rate_burst * way.burst_mean_s;
  parts_ = 4;
  views_[0].weight = {calm * (1 - calm_old), calm * calm_old, burst * (1 - burst_old), burst * burst_old};
  normalise(views_[0].weight);
  views_.push_back({"bursts", false, {0, 0, 1 - burst_old, burst_old}});
  if (service.slo.window_s > 0) {
    // Lengths of bursts have no limit, so some burst fills the window.
    const double young = std::min(1.0, way.burst_young * way.step_s / service.slo.window_s);
    views_.push_back({"busiest window", true, {0, 0, young, 1 - young}});
  }
  busiest_part_ = 3;
  busiest_name_ = "a burst";
  const double calm_kept = std::min(way.calm_mean_s, (way.calm_young + way.calm_settled) * way.step_s);
  const double burst_kept = std::min(way.burst_mean_s, (way.burst_young + way.burst_settled) * way.step_s);
  const double requests = calm_kept * way.rate_calm + burst_kept * way.rate_burst;
  way.cycles = static_cast<int>(std::clamp(std::ceil(kCountedRequests / requests), 1.0, 400.0));
  cycles_ = way.cycles;
  way_ = way;
}

// Runs of many whole cycles as described. A window that is promised and not much longer than a cycle may lie within a
// burst: it is held against the rate of a burst that never ends, which is the worst that it can meet.
void TrafficDesign::design_short_bursts(const Service& service, const BurstTraffic& bursts, double scale) {
  const double cycle_s = bursts.calm_mean_s + bursts.burst_mean_s;
  if (service.slo.window_s > 0 && service.slo.window_s < kWindowCycles * cycle_s) {
    Service worst = service;
    worst.traffic = PoissonTraffic{burst_rate_per_s(bursts)};
    const double rate = burst_rate_per_s(bursts) * scale;
    design_whole(worst, scale, rate, std::max(settle_s(service, rate), kCountedRequests / rate));
    views_[0].name = "busiest window";
    return;
  }
  const double rate = bursts.rate_per_s * scale;
  design_whole(service, scale, rate, std::max({settle_s(service, rate), kCountedRequests / rate, 4 * cycle_s}));
  busiest_name_ = "a burst";
}

double TrafficDesign::expected(double begin_s, double end_s) const {
  const double period = grid_s_ * static_cast<double>(cumulative_.size() - 1);
  const auto up_to = [&](double at) {
    const double turns = std::floor(at / period);
    const double place = (at - turns * period) / grid_s_;
    const auto below = std::min(static_cast<std::size_t>(place), cumulative_.size() - 2);
    const double within = place - static_cast<double>(below);
    return turns * cumulative_.back() + cumulative_[below] + within * (cumulative_[below + 1] - cumulative_[below]);
  };
  return up_to(end_s) - up_to(begin_s);
}

// Parts: the strata of the busiest hour (or window), then those of the rest of the period.
void TrafficDesign::design_rates(const Service& service, double scale) {
  constexpr std::size_t kDiurnalGrid = 8640;  // Ten seconds of a day.
  double period = 0;
  if (const auto* day = std::get_if<DiurnalTraffic>(&service.traffic)) {
    period = day->period_s;
    grid_s_ = period / static_cast<double>(kDiurnalGrid);
    cumulative_ = {0};
    for (std::size_t i = 0; i < kDiurnalGrid; ++i) {
      // The integral of the sine over a cell, by Simpson's rule.
      const auto rate = [&](double at_s) {
        return 1 + day->amplitude * math::sine_of_turns((at_s - day->peak_at_s) / day->period_s + 0.25);
      };
      const double at = static_cast<double>(i) * grid_s_;
      const double mean = (rate(at) + 4 * rate(at + grid_s_ / 2) + rate(at + grid_s_)) / 6;
      cumulative_.push_back(cumulative_.back() + day->rate_per_s * scale * mean * grid_s_);
    }
  } else {
    const auto& curve = std::get<CurveTraffic>(service.traffic);
    grid_s_ = curve.step_s;
    period = curve.step_s * static_cast<double>(curve.rate_per_s.size());
    cumulative_ = {0};
    for (const double rate : curve.rate_per_s) {
      cumulative_.push_back(cumulative_.back() + rate * curve.scale * scale * curve.step_s);
    }
  }
  const double total = cumulative_.back();
  TANGRAM_CHECK(total > 0, "traffic that is simulated flows");
  const double window = service.slo.window_s;

  // Windows and their steps lie on the grid of the curve, so that no step of it is blurred.
  const double peak_guess = std::max(total / period, plan::planning_rate_per_s(service) * scale * 0.5);
  const double peak = std::max(peak_guess, plan::planning_rate_per_s(service) * scale);
  const double settle = std::max(settle_s(service, peak_guess), settle_s(service, peak));
  const bool whole = total <= kWholeRequests;
  const double wanted = whole ? period : std::min(period / 4, settle);
  Windows way;
  way.step_s = grid_s_ > wanted / 4 ? grid_s_ / std::ceil(grid_s_ / (wanted / 4)) : grid_s_;
  if (wanted / way.step_s > kStepsPerWindowMax) way.step_s *= std::floor(wanted / way.step_s / kStepsPerWindowMax) + 1;
  const auto on_grid = [&](double seconds) { return way.step_s * std::max(1.0, std::round(seconds / way.step_s)); };
  const double focus = std::min(period, on_grid(std::min(period, window > 0 ? std::min(window, kHour) : kHour)));
  const std::string focus_name = window > 0 && window < kHour ? "busiest window" : "busiest hour";

  // The busiest span of that length.
  const bool split = focus < period * (1 - 1e-9);
  const double stride = on_grid(std::max(period / 20000, way.step_s));
  double focus_at = 0;
  double focus_requests = -1;
  for (double at = 0; at < period && split; at += stride) {
    const double requests = expected(at, at + focus);
    if (requests <= focus_requests * (1 + 1e-12)) continue;
    focus_requests = requests;
    focus_at = at;
  }
  focus_at_s_ = focus_at;
  focus_s_ = split ? focus : period;
  focus_requests_ = split ? focus_requests : total;
  const double counted = on_grid(std::min(whole ? period : wanted, split ? std::min(focus, period - focus) : period));
  way.counted_steps = static_cast<int>(std::lround(counted / way.step_s));
  way.warmup_steps = steps_for(settle, way.step_s);
  // The last window overlaps its neighbour where the length is no multiple.
  const auto windows_of = [&](double begin, double length) {
    std::vector<Window> windows;
    const auto count = static_cast<std::size_t>(std::ceil(length / counted - 1e-9));
    for (std::size_t i = 0; i < count; ++i) {
      const double start = begin + std::max(0.0, std::min(static_cast<double>(i) * counted, length - counted));
      windows.push_back({start, expected(start - settle, start + counted), expected(start, start + counted)});
    }
    return windows;
  };
  const std::size_t strata_most = whole ? 1 : 3;
  way_ = way;
  const auto inside = add_strata(windows_of(split ? focus_at : 0, split ? focus : period), strata_most);
  std::vector<double> outside;
  if (split) outside = add_strata(windows_of(focus_at + focus, period - focus), strata_most);
  if (whole) {
    for (auto& stratum : std::get<Windows>(way_).strata) stratum.all = true;
  }
  // Exact shares: the overlap of the last windows is taken out.
  const auto scaled = [](std::vector<double> parts, double requests) {
    const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
    for (double& p : parts) p *= sum > 0 ? requests / sum : 0;
    return parts;
  };
  const auto in = scaled(inside, split ? focus_requests : total);
  const auto out = scaled(outside, split ? total - focus_requests : 0);
  parts_ = in.size() + out.size();
  views_[0].weight = in;
  views_[0].weight.insert(views_[0].weight.end(), out.begin(), out.end());
  normalise(views_[0].weight);
  if (split) {
    views_.push_back({focus_name, true, in});
    views_.back().weight.resize(parts_, 0);
    normalise(views_.back().weight);
  }
  busiest_part_ = 0;
  busiest_name_ = "the busiest minutes";
  if (whole) minutes_s_ = minutes_for(settle, counted);
}

// Parts: the strata of the busiest window if one is promised, then those of the rest.
void TrafficDesign::design_trace(const Service& service, const TraceTraffic& replay, double scale) {
  trace_ = &replay;
  speed_ = replay.speed * scale;
  const auto count = static_cast<double>(replay.trace.size());
  TANGRAM_CHECK(count > 0, "traffic that is simulated flows");
  const double span = std::max(to_seconds(replay.trace.back().at - kTimeZero) / speed_ + 1e-9, 1e-6);
  // Work up to each entry: inputs differ in size, and the busiest part of a trace is the one with the most work.
  std::vector<double> work{0};
  work.reserve(replay.trace.size() + 1);
  for (const auto& entry : replay.trace) {
    const std::int64_t size = std::holds_alternative<TraceSize>(service.input_size) ? entry.size : 1;
    work.push_back(work.back() + power_.cost_s(size, entry.samples));
  }
  const auto at = [&](double s) { return kTimeZero + from_seconds(std::max(0.0, s) * speed_); };
  const auto index_at = [&](double s) {
    return static_cast<std::size_t>(std::ranges::lower_bound(replay.trace, at(s), {}, &TraceEntry::at) -
                                    replay.trace.begin());
  };
  const auto requests_in = [&](double begin, double end) {
    return static_cast<double>(index_at(end) - index_at(begin));
  };
  const auto work_in = [&](double begin, double end) { return work[index_at(end)] - work[index_at(begin)]; };
  const double rate = count / span;
  // Settled at the load of the busiest time, in requests of mean work.
  const double slice_s = std::max(20 * to_seconds(service.slo.latency), kSettleRequests / rate);
  double busiest = rate;
  for (double begin = 0; begin < span && work.back() > 0; begin += slice_s) {
    busiest = std::max(busiest, work_in(begin, begin + slice_s) / slice_s * count / work.back());
  }
  const double settle = std::max(settle_s(service, rate), settle_s(service, busiest));
  const bool windowed = service.slo.window_s > 0 && service.slo.window_s < span;
  const bool whole = !windowed && (count <= kWholeRequests || span <= 8 * settle);
  const double busy = std::max(settle, kSettleRequests / rate);
  const double counted = whole ? span : windowed ? std::min(busy, service.slo.window_s) : busy;
  Windows way;
  way.step_s = counted / 16;
  way.counted_steps = 16;
  way.warmup_steps = whole ? 0 : steps_for(settle, way.step_s);
  way_ = way;
  // The busiest window, in steps of an eighth of it.
  const double focus = windowed ? service.slo.window_s : 0;
  double focus_at = 0;
  double focus_work = -1;
  for (double begin = 0; focus > 0 && begin + focus <= span + focus / 8; begin += focus / 8) {
    const double busy_s = work_in(begin, begin + focus);
    if (busy_s <= focus_work) continue;
    focus_work = busy_s;
    focus_at = begin;
  }
  focus_at_s_ = focus_at;
  focus_s_ = windowed ? focus : span;
  focus_requests_ = windowed ? requests_in(focus_at, focus_at + focus) : count;
  std::vector<Window> inside;
  std::vector<Window> outside;
  for (double start = 0; start < span; start += counted) {
    const double requests = requests_in(start, start + counted);
    if (requests <= 0) continue;
    const Window window{start, work_in(start - settle, start + counted), requests};
    const bool in = focus > 0 && start + counted > focus_at && start < focus_at + focus;
    (in ? inside : outside).push_back(window);
  }
  std::vector<double> in;
  if (!inside.empty()) in = add_strata(std::move(inside), 3);
  std::vector<double> all = in;
  if (!outside.empty()) {
    const auto out = add_strata(std::move(outside), 5);
    all.insert(all.end(), out.begin(), out.end());
  }
  parts_ = all.size();
  views_[0].weight = all;
  normalise(views_[0].weight);
  if (!in.empty()) {
    views_.push_back({"busiest window", true, in});
    views_.back().weight.resize(parts_, 0);
    normalise(views_.back().weight);
  }
  busiest_part_ = 0;
  busiest_name_ = "the busiest minutes";
  if (whole) minutes_s_ = minutes_for(settle, span);
}

std::vector<double> TrafficDesign::add_strata(std::vector<Window> windows, std::size_t strata_max) {
  std::ranges::stable_sort(windows, std::ranges::greater{}, &Window::load);
  auto& strata = std::get<Windows>(way_).strata;
  std::vector<double> requests;
  std::size_t size = kStrataFirst;
  std::size_t at = 0;
  for (std::size_t s = 0; at < windows.size(); ++s) {
    // The last stratum takes what is left. A first one of few windows is simulated as a whole over the replicates.
    const std::size_t end = s + 1 == strata_max ? windows.size() : std::min(windows.size(), at + size);
    Stratum stratum;
    stratum.windows.assign(windows.begin() + static_cast<std::ptrdiff_t>(at),
                           windows.begin() + static_cast<std::ptrdiff_t>(end));
    double sum = 0;
    for (const auto& window : stratum.windows) sum += window.requests;
    strata.push_back(std::move(stratum));
    requests.push_back(sum);
    at = end;
    size *= kStrataGrowth;
  }
  return requests;
}

TrafficRun TrafficDesign::draw(const Rng& rng, std::size_t first, std::size_t count) const {
  count = std::min(count, kReplicatesPerRun);
  if (const auto* bursts = std::get_if<Bursts>(&way_)) return draw_bursts(*bursts, rng.stream("bursts", first), count);
  if (const auto* windows = std::get_if<Windows>(&way_)) return draw_windows(*windows, rng, first);
  const auto& whole = std::get<Whole>(way_);
  // Steps of the replicates' length; the warm-up is a whole number of them.
  const int warmup = steps_for(whole.warmup_s, whole.counted_s);
  TrafficRun run{whole.traffic, whole.scale, {}, count, parts_of(whole.counted_s, count)};
  append(run.parts.by_step, warmup, sim::TrafficParts::kUncounted);
  for (std::size_t r = 0; r < count; ++r) append(run.parts.by_step, 1, r);
  run.duration = run.parts.step * static_cast<std::int64_t>(run.parts.by_step.size());
  if (whole.surge_s > 0) {
    const double rate = std::get<PoissonTraffic>(whole.traffic).rate_per_s;
    const auto steps = static_cast<std::size_t>(std::ceil(to_seconds(run.duration) / whole.surge_s)) + 1;
    CurveTraffic curve{"", whole.surge_s, 1, std::vector<double>(steps, rate)};
    curve.rate_per_s.front() = 2 * rate;
    run.traffic = std::move(curve);
  }
  return run;
}

TrafficRun TrafficDesign::draw_bursts(const Bursts& way, Rng rng, std::size_t count) const {
  TrafficRun run{CurveTraffic{}, 1, {}, count, parts_of(way.step_s, 4 * count)};
  CurveTraffic curve;
  curve.step_s = way.step_s;
  auto& by_step = run.parts.by_step;
  const auto add = [&](double rate, int young, int settled, double mean_s, std::size_t part) {
    const double length = rng.exponential(mean_s) / way.step_s;
    const int steps = static_cast<int>(std::clamp(std::round(length), 1.0, static_cast<double>(young + settled)));
    append(by_step, std::min(steps, young), part);
    append(by_step, std::max(0, steps - young), part + 1);
    curve.rate_per_s.insert(curve.rate_per_s.end(), static_cast<std::size_t>(steps), rate);
  };
  // The warm-up is calm: most cycles begin after a calm that has settled.
  append(by_step, way.calm_young, sim::TrafficParts::kUncounted);
  curve.rate_per_s.assign(static_cast<std::size_t>(way.calm_young), way.rate_calm);
  for (std::size_t r = 0; r < count; ++r) {
    for (int cycle = 0; cycle < way.cycles; ++cycle) {
      add(way.rate_burst, way.burst_young, way.burst_settled, way.burst_mean_s, 4 * r + 2);
      add(way.rate_calm, way.calm_young, way.calm_settled, way.calm_mean_s, 4 * r);
    }
  }
  run.duration = run.parts.step * static_cast<std::int64_t>(by_step.size());
  run.traffic = std::move(curve);
  return run;
}

TrafficRun TrafficDesign::draw_window_pieces(std::size_t first, std::size_t count) const {
  TANGRAM_CHECK(busiest_window_ && count <= 250, "a window is promised");
  const auto& window = *busiest_window_;
  const double piece_s = window.length_s / static_cast<double>(window.pieces);
  if (window.traffic) {
    TrafficRun run{*window.traffic, window.scale, {}, 1, parts_of(piece_s, count)};
    append(run.parts.by_step, steps_for(window.warmup_s, piece_s), sim::TrafficParts::kUncounted);
    for (std::size_t i = 0; i < count; ++i) append(run.parts.by_step, 1, i);
    run.duration = run.parts.step * static_cast<std::int64_t>(run.parts.by_step.size());
    return run;
  }
  Windows way;
  way.counted_steps = trace_ != nullptr ? 16 : static_cast<int>(std::clamp(std::ceil(piece_s / grid_s_), 16.0, 4096.0));
  way.step_s = piece_s / way.counted_steps;
  way.warmup_steps = steps_for(window.warmup_s, way.step_s);
  TrafficRun run{TraceTraffic{}, 1, {}, 1, parts_of(way.step_s, count)};
  CurveTraffic curve;
  curve.step_s = way.step_s;
  TraceTraffic recorded;
  for (std::size_t i = 0; i < count; ++i) {
    const double start = window.start_s + static_cast<double>((first + i) % window.pieces) * piece_s;
    add_window(way, {start, 0, 0}, static_cast<double>(run.parts.by_step.size()) * way.step_s, curve, recorded);
    append(run.parts.by_step, way.warmup_steps, sim::TrafficParts::kUncounted);
    append(run.parts.by_step, way.counted_steps, i);
  }
  run.duration = run.parts.step * static_cast<std::int64_t>(run.parts.by_step.size());
  run.traffic = trace_ == nullptr ? Traffic(std::move(curve)) : Traffic(std::move(recorded));
  return run;
}

std::optional<TrafficRun> TrafficDesign::draw_busiest(const Rng& rng) const {
  if (busiest_name_.empty()) return std::nullopt;
  if (const auto* whole = std::get_if<Whole>(&way_)) {
    const auto* bursts = std::get_if<BurstTraffic>(&whole->traffic);
    return bursts == nullptr ? std::nullopt : draw_short_bursts(*bursts, whole->scale, rng.stream("busiest"));
  }
  if (!(minutes_s_ > 0)) return std::nullopt;
  TrafficRun run = draw_windows(std::get<Windows>(way_), rng, 0);
  // Requests that were recorded or are expected in each eighth of the minutes; warm-ups are not counted.
  const double step_s = minutes_s_ / 8;
  const auto steps = static_cast<std::size_t>(std::ceil(to_seconds(run.duration) / step_s));
  std::vector<double> requests(steps, 0);
  const auto add = [&](double at_s, double count) {
    if (run.parts.at(kTimeZero + from_seconds(at_s)) == sim::TrafficParts::kUncounted) return;
    requests[std::min(static_cast<std::size_t>(at_s / step_s), steps - 1)] += count;
  };
  if (const auto* curve = std::get_if<CurveTraffic>(&run.traffic)) {
    const double fine_s = std::min(curve->step_s, step_s) / 2;
    for (double at = fine_s / 2; at < to_seconds(run.duration); at += fine_s) {
      const auto i = std::min(static_cast<std::size_t>(at / curve->step_s), curve->rate_per_s.size() - 1);
      add(at, curve->rate_per_s[i] * fine_s);
    }
  } else {
    for (const auto& entry : std::get<TraceTraffic>(run.traffic).trace) add(to_seconds(entry.at - kTimeZero), 1);
  }
  std::size_t busiest = 0;
  double most = -1;
  for (std::size_t i = 0; i + 8 <= steps; ++i) {
    const double sum = std::accumulate(requests.begin() + static_cast<std::ptrdiff_t>(i),
                                       requests.begin() + static_cast<std::ptrdiff_t>(i) + 8, 0.0);
    if (sum <= most) continue;
    most = sum;
    busiest = i;
  }
  run.parts = parts_of(step_s, 2);
  run.parts.by_step.assign(steps, 0);
  std::fill_n(run.parts.by_step.begin() + static_cast<std::ptrdiff_t>(busiest), std::min<std::size_t>(8, steps), 1);
  return run;
}

// Calms and bursts with lengths in whole steps, all of them counted. Nothing where one is so much longer than the other
// that the steps would be too many.
std::optional<TrafficRun> TrafficDesign::draw_short_bursts(const BurstTraffic& bursts, double scale, Rng rng) const {
  constexpr double kStepsMax = 2'000'000;
  constexpr double kRequests = 40'000;
  const double cycle_s = bursts.calm_mean_s + bursts.burst_mean_s;
  const double cycles = std::clamp(std::ceil(kRequests / (cycle_s * bursts.rate_per_s * scale)), 20.0, 2000.0);
  CurveTraffic curve;
  curve.step_s = std::min(bursts.calm_mean_s, bursts.burst_mean_s) / 20;
  if (cycles * cycle_s / curve.step_s > kStepsMax) return std::nullopt;
  TrafficRun run{CurveTraffic{}, 1, {}, 1, parts_of(curve.step_s, 2)};
  const double rate = burst_rate_per_s(bursts) * scale;
  const auto add = [&](double rate_per_s, double mean_s, std::size_t part) {
    const int steps = std::max(1, static_cast<int>(std::lround(rng.exponential(mean_s) / curve.step_s)));
    append(run.parts.by_step, steps, part);
    curve.rate_per_s.insert(curve.rate_per_s.end(), static_cast<std::size_t>(steps), rate_per_s);
  };
  for (int cycle = 0; cycle < static_cast<int>(cycles); ++cycle) {
    add(rate / bursts.burst_factor, bursts.calm_mean_s, 0);
    add(rate, bursts.burst_mean_s, 1);
  }
  run.duration = run.parts.step * static_cast<std::int64_t>(run.parts.by_step.size());
  run.traffic = std::move(curve);
  return run;
}

void TrafficDesign::add_window(const Windows& way, const Window& window, double placed_s, CurveTraffic& curve,
                               TraceTraffic& recorded) const {
  const double begin_s = window.start_s - way.warmup_steps * way.step_s;
  if (trace_ == nullptr) {
    for (int i = 0; i < way.warmup_steps + way.counted_steps; ++i) {
      const double at = begin_s + i * way.step_s;
      curve.rate_per_s.push_back(std::max(0.0, expected(at, at + way.step_s) / way.step_s));
    }
    return;
  }
  const double length_s = (way.warmup_steps + way.counted_steps) * way.step_s;
  const auto at = [&](double s) { return kTimeZero + from_seconds(std::max(0.0, s) * speed_); };
  const auto first = std::ranges::lower_bound(trace_->trace, at(begin_s), {}, &TraceEntry::at);
  const auto last = std::ranges::lower_bound(trace_->trace, at(begin_s + length_s), {}, &TraceEntry::at);
  for (auto entry = first; entry != last; ++entry) {
    const double when = placed_s + to_seconds(entry->at - kTimeZero) / speed_ - begin_s;
    recorded.trace.push_back({kTimeZero + from_seconds(std::max(placed_s, when)), entry->size, entry->samples});
  }
}

// One window of each stratum, without replacement: a small stratum is gone through from a random place, a large one by
// the golden ratio, which spreads any number of draws evenly. So no busy window is missed by chance for long, and the
// windows drawn differ in load as much as the stratum does.
TrafficRun TrafficDesign::draw_windows(const Windows& way, const Rng& rng, std::size_t replicate) const {
  constexpr double kGolden = 0.6180339887498949;
  constexpr std::size_t kSmall = 16;
  TrafficRun run{TraceTraffic{}, 1, {}, 1, parts_of(way.step_s, parts_)};
  auto& by_step = run.parts.by_step;
  CurveTraffic curve;
  curve.step_s = way.step_s;
  TraceTraffic recorded;
  const auto add = [&](const Window& window, std::size_t part) {
    add_window(way, window, static_cast<double>(by_step.size()) * way.step_s, curve, recorded);
    append(by_step, way.warmup_steps, sim::TrafficParts::kUncounted);
    append(by_step, way.counted_steps, part);
  };
  for (std::size_t part = 0; part < way.strata.size(); ++part) {
    const auto& windows = way.strata[part].windows;
    if (way.strata[part].all) {
      for (const Window& window : windows) add(window, part);
      continue;
    }
    const double offset = rng.stream("windows", part).uniform();
    const double turn = offset + static_cast<double>(replicate) * kGolden;
    const auto from = static_cast<std::size_t>(offset * static_cast<double>(windows.size()));
    const std::size_t at =
        windows.size() <= kSmall
            ? (from + replicate) % windows.size()
            : static_cast<std::size_t>((turn - std::floor(turn)) * static_cast<double>(windows.size()));
    add(windows[std::min(at, windows.size() - 1)], part);
  }
  run.duration = run.parts.step * static_cast<std::int64_t>(by_step.size());
  if (trace_ == nullptr) {
    run.traffic = std::move(curve);
  } else {
    run.traffic = std::move(recorded);
  }
  return run;
}

}  // namespace tangram::lab
