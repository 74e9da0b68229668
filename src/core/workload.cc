// Rates and sizes of workloads that follow directly from their description.

#include "core/workload.h"

#include <algorithm>

namespace tangram {
namespace {

// Visits a variant with one lambda for each alternative.
template <typename... Fs>
struct Overload : Fs... {
  using Fs::operator()...;
};

double mean_of(const CurveTraffic& curve) {
  double sum = 0;
  for (const double rate : curve.rate_per_s) sum += rate;
  return curve.rate_per_s.empty() ? 0 : curve.scale * sum / static_cast<double>(curve.rate_per_s.size());
}

// n requests have n - 1 gaps, so the first one is not counted. A trace of one request, or of one instant, has no rate.
double mean_of(const TraceTraffic& replay) {
  if (replay.trace.size() < 2) return 0;
  const double seconds = to_seconds(replay.trace.back().at - replay.trace.front().at);
  return seconds <= 0 ? 0 : replay.speed * static_cast<double>(replay.trace.size() - 1) / seconds;
}

}  // namespace

double mean_rate_per_s(const Traffic& traffic) {
  return std::visit(
      Overload{[](const CurveTraffic& t) { return mean_of(t); }, [](const TraceTraffic& t) { return mean_of(t); },
               // A closed loop has no rate of its own: it depends on how fast it is answered.
               [](const ClosedLoopTraffic&) { return 0.0; }, [](const auto& t) { return t.rate_per_s; }},
      traffic);
}

// Solves for the rate within bursts such that the mean over bursts and calms, weighted by their durations, is
// rate_per_s; calms have the burst rate divided by burst_factor.
double burst_rate_per_s(const BurstTraffic& traffic) {
  const double both = traffic.burst_mean_s + traffic.calm_mean_s;
  return traffic.rate_per_s * traffic.burst_factor * both /
         (traffic.burst_factor * traffic.burst_mean_s + traffic.calm_mean_s);
}

// Linear from begin_s to end_s. The two tests also cover a drift of length zero, which would divide by zero.
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
                 // Bins ascend by size.
                 [](const HistogramSize& s) { return s.bins.empty() ? 1 : s.bins.back().size; },
                 [&](const TraceSize&) { return largest_in_trace(); }},
        distribution);
  };
  // Both ends of a drift occur, so buckets have to hold the larger one.
  const std::int64_t now = largest_of(service.input_size);
  return service.size_drift ? std::max(now, largest_of(service.size_drift->to)) : now;
}

std::string_view to_string(ServiceEngine engine) {
  switch (engine) {
    case ServiceEngine::unnamed: return "";
    case ServiceEngine::emulated: return "emulated";
    case ServiceEngine::onnx: return "onnx";
    case ServiceEngine::torch: return "torch";
    case ServiceEngine::command: return "command";
    case ServiceEngine::remote: return "remote";
  }
  return "";
}

bool may_share_slices(const Service& a, const Service& b) {
  // A slice has one process, which is of one engine.
  if (a.engine != b.engine || a.command != b.command || a.remotes != b.remotes) return false;
  if (a.isolation == Isolation::own_slices || b.isolation == Isolation::own_slices) return false;
  const bool by_tenant = a.isolation == Isolation::tenant || b.isolation == Isolation::tenant;
  if (by_tenant && a.tenant != b.tenant) return false;
  return a.share_group == b.share_group;
}

bool same_weights(const Service& a, const Service& b) { return a.model == b.model && a.weights == b.weights; }

}  // namespace tangram
