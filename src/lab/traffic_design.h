// What a certificate simulates of a service's traffic, and how much each piece counts.
//
// A promise is about the long run: whole burst cycles, whole days, a whole trace. Simulating all of it takes minutes
// for each question, and a planner asks hundreds. But a queue with deadlines forgets: after some multiple of the Slo
// its state depends on the current rate alone. So the traffic is divided into parts, short pieces of each part are
// simulated after a warm-up, and each part counts with its exact share of all requests.
//
// Example: bursts of 60 s at 5,000/s every 660 s. A replicate simulates a few seconds of calm and a few seconds of a
// burst. If 99.9 % of the requests in the calm and 60 % in the burst are in time, and half of all requests come in
// bursts, the share in the long run is 79.95 %.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "core/workload.h"
#include "sim/metrics.h"

namespace tangram::lab {

// How fast the slices of a service are. It tells how near to full load they are at a rate, and which part of a trace is
// the most work.
struct SlicePower {
  std::vector<std::int64_t> edges;  // Of the buckets, ascending.
  std::vector<double> sample_s;     // By bucket: how long all slices together take for one sample, in full batches.
  double request_s = 0;             // The same for a request of the service, on average.
  double others_per_s = 0;          // Requests a second of other services on the same slices.

  // How long all slices together take for a request; 1 if nothing is known of them.
  double cost_s(std::int64_t size, std::int64_t samples) const;
};

// A share that is estimated: over all the traffic, or over the part of it that is promised separately.
struct TrafficView {
  std::string name;            // "long run", "busiest hour", "busiest window", "bursts"
  bool binding = true;         // A promise has to hold here. Otherwise the view only explains.
  std::vector<double> weight;  // By part: its share of the requests of this view; sums to one.
};

// Traffic to simulate from its start to its duration: one warm-up, then one or more replicates.
struct TrafficRun {
  Traffic traffic;
  double rate_scale = 1;  // For the simulation: 1 where the traffic is scaled already.
  Duration duration{};
  std::size_t replicates = 1;
  sim::TrafficParts parts;  // Part p of replicate r is r * TrafficDesign::parts() + p.
};

// How replicates are made: one of the three ways.
namespace detail {

// The traffic as described, after a warm-up.
struct WholeTraffic {
  Traffic traffic;
  double scale = 1;
  double warmup_s = 0;
  double counted_s = 0;
  // Before the warm-up, twice the rate for so long. The queue is then full at first, and an overload of a few percent
  // shows at once instead of after minutes. Only of Poisson traffic.
  double surge_s = 0;
};

// Calms and bursts, of which only the first `young + settled` steps are simulated. A burst that lasts longer is
// represented by its settled steps, since the lengths are exponential and have no memory.
struct BurstPieces {
  double step_s = 0;
  double rate_calm = 0;
  double rate_burst = 0;
  double calm_mean_s = 0;
  double burst_mean_s = 0;
  int calm_young = 0;  // In steps.
  int calm_settled = 0;
  int burst_young = 0;
  int burst_settled = 0;
  int cycles = 1;
};

// A span of the period or trace, with the place where its warm-up begins.
struct TrafficWindow {
  double start_s = 0;
  double load = 0;  // Expected requests, or recorded work, in the warm-up and the window.
  double requests = 0;
};

// Windows of about the same load. A replicate simulates one of them, or all.
struct WindowStratum {
  std::vector<TrafficWindow> windows;  // By load, the highest first.
  bool all = false;
};

// Windows of a rate that is a known function of time, or of a trace.
struct TrafficWindows {
  double step_s = 0;
  int warmup_steps = 0;
  int counted_steps = 0;
  std::vector<WindowStratum> strata;  // By part.
};

// The windows that an Slo promises, where the rate is highest.
struct BusiestWindow {
  std::optional<Traffic> traffic;  // Whose windows are all alike; nothing: a span of the period or trace.
  double scale = 1;                // Of `traffic`.
  double start_s = 0;              // Of the span.
  double length_s = 0;
  double warmup_s = 0;
  std::size_t pieces = 1;
};

}  // namespace detail

class TrafficDesign {
 public:
  // `service` outlives the design if its traffic is a trace. `rate_scale` multiplies its rates. `power` is that of its
  // slices; without edges it is not known. Requires a positive rate.
  TrafficDesign(const Service& service, double rate_scale, SlicePower power = {});

  // In the order of importance; the first is the long run.
  const std::vector<TrafficView>& views() const { return views_; }
  std::size_t parts() const { return parts_; }
  // Replicates first, first + 1, ... as one run, `count` of them at most. The same seed gives the same run. Requires
  // that replicates are drawn in order: windows are drawn without replacement, each as often as the others up to one.
  TrafficRun draw(const Rng& rng, std::size_t first, std::size_t count) const;
  // The burst cycles, periods, passes of a trace, or independent runs that one replicate stands for.
  double cycles() const { return cycles_; }
  // The part with the highest rate: bursts that last, or the busiest windows. Named as its view would be.
  std::size_t busiest_part() const { return busiest_part_; }
  const std::string& busiest_name() const { return busiest_name_; }
  // Where the parts do not show the busiest time apart, since the traffic is simulated as described: a run with the
  // parts 0, all else, and 1, a burst or the busiest minutes. It explains and decides nothing. Nothing if the parts do,
  // or if there is no such time.
  std::optional<TrafficRun> draw_busiest(const Rng& rng) const;
  // The pieces in which a window of Slo::window_s is simulated, at the busiest time; 0: no window is promised. Windows
  // of which a hundred can be simulated have one piece.
  std::size_t window_pieces() const { return busiest_window_ ? busiest_window_->pieces : 0; }
  // Pieces first, first + 1, ... of such windows, each a part. Requires a promised window and at most 250 pieces.
  TrafficRun draw_window_pieces(std::size_t first, std::size_t count) const;

 private:
  using Whole = detail::WholeTraffic;
  using Bursts = detail::BurstPieces;
  using Window = detail::TrafficWindow;
  using Stratum = detail::WindowStratum;
  using Windows = detail::TrafficWindows;

  // How long it takes until the state of the queue depends on the rate alone.
  double settle_s(const Service& service, double rate_per_s) const;
  // True if slices of this power may be just fully loaded.
  bool is_near_full(double rate_per_s) const;
  void design_whole(const Service& service, double scale, double rate_per_s, double counted_s);
  void design_bursts(const Service& service, const BurstTraffic& bursts, double scale);
  void design_short_bursts(const Service& service, const BurstTraffic& bursts, double scale);
  void design_rates(const Service& service, double scale);
  void design_trace(const Service& service, const TraceTraffic& replay, double scale);
  // Adds the windows as strata whose sizes grow geometrically, the last of `strata_max` taking the rest, and returns
  // the requests of each stratum.
  std::vector<double> add_strata(std::vector<Window> windows, std::size_t strata_max);
  // Requests that a rate function brings in [begin_s, end_s). It repeats after its period.
  double expected(double begin_s, double end_s) const;

  TrafficRun draw_bursts(const Bursts& bursts, Rng rng, std::size_t count) const;
  // Requires that the way is designed.
  void design_window(const Service& service, double scale);
  std::optional<TrafficRun> draw_short_bursts(const BurstTraffic& bursts, double scale, Rng rng) const;
  TrafficRun draw_windows(const Windows& windows, const Rng& rng, std::size_t replicate) const;
  // Adds the arrivals of one window, warm-up included, to the traffic of a run that lasts `placed_s` so far.
  void add_window(const Windows& way, const Window& window, double placed_s, CurveTraffic& curve,
                  TraceTraffic& recorded) const;

  SlicePower power_;
  std::vector<TrafficView> views_;
  std::size_t parts_ = 1;
  double cycles_ = 1;
  std::size_t busiest_part_ = 0;
  std::string busiest_name_;
  std::variant<Whole, Bursts, Windows> way_;
  // Of a rate function: requests up to each point of a grid over the period, for expected().
  std::vector<double> cumulative_;
  double grid_s_ = 0;
  double focus_at_s_ = 0;  // Where the busiest hour or window of a period or trace begins.
  double focus_s_ = 0;
  double focus_requests_ = 0;
  std::optional<detail::BusiestWindow> busiest_window_;
  const TraceTraffic* trace_ = nullptr;
  double speed_ = 1;      // Of the trace, with the scale.
  double minutes_s_ = 0;  // How long "the busiest minutes" are where the traffic is simulated whole; 0: not known.
};

}  // namespace tangram::lab
