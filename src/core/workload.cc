#include "core/workload.h"

#include <algorithm>

namespace tangram {
namespace {

template <typename... Fs>
struct Overload : Fs... {
  using Fs::operator()...;
};

double mean_of(const CurveTraffic& curve) {
  double sum = 0;
  for (const double rate : curve.rate_per_s) sum += rate;
  return curve.rate_per_s.empty() ? 0 : curve.scale * sum / static_cast<double>(curve.rate_per_s.size());
}

// The requests after the first, over the time between the first and the last.
double mean_of(const TraceTraffic& replay) {
  if (replay.trace.size() < 2) return 0;
  const double seconds = to_seconds(replay.trace.back().at - replay.trace.front().at);
  return seconds <= 0 ? 0 : replay.speed * static_cast<double>(replay.trace.size() - 1) / seconds;
}

}  // namespace

double mean_rate_per_s(const Traffic& traffic) {
  return std::visit(
      Overload{[](const CurveTraffic& t) { return mean_of(t); }, [](const TraceTraffic& t) { return mean_of(t); },
               [](const ClosedLoopTraffic&) { return 0.0; }, [](const auto& t) { return t.rate_per_s; }},
      traffic);
}

double burst_rate_per_s(const BurstTraffic& traffic) {
  const double both = traffic.burst_mean_s + traffic.calm_mean_s;
  return traffic.rate_per_s * traffic.burst_factor * both /
         (traffic.burst_factor * traffic.burst_mean_s + traffic.calm_mean_s);
}

double SizeDrift::share_at(double seconds) const {
  if (seconds <= begin_s) return 0;
  return seconds >= end_s ? 1 : (seconds - begin_s) / (end_s - begin_s);
}

std::int64_t largest_size(const Service& service) {
  const auto largest_in_trace = [&]() -> std::int64_t {
    const auto* replay = std::get_if<TraceTraffic>(&service.traffic);
    if (replay == nullptr || replay->trace.empty()) return 1;
    return std::ranges::max_element(replay->trace, {}, &TraceEntry::size)->size;
  };
  const auto largest_of = [&](const SizeDistribution& distribution) {
    return std::visit(
        Overload{[](const ConstantSize& s) { return s.size; }, [](const LogNormalSize& s) { return s.max; },
                 [](const HistogramSize& s) { return s.bins.empty() ? 1 : s.bins.back().size; },
                 [&](const TraceSize&) { return largest_in_trace(); }},
        distribution);
  };
  const std::int64_t now = largest_of(service.input_size);
  return service.size_drift ? std::max(now, largest_of(service.size_drift->to)) : now;
}

}  // namespace tangram
