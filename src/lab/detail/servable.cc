// Checks of a plan against its workload that need no simulation. Whatever the load, a request is lost if no bucket
// takes its size, no slice its number of samples, or if the fastest slice alone needs longer than the Slo. Such a
// scenario runs, and its poor attainment would otherwise look like a lack of capacity.

#include "lab/detail/servable.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace tangram::lab {
namespace {

// Sizes or numbers of samples, both ends included.
struct Range {
  std::int64_t low = 1;
  std::int64_t high = 1;
};

// The values that a distribution can give. A trace has its own, which `of_trace` picks.
struct RangeOf {
  const Service& service;
  std::int64_t TraceEntry::*of_trace;

  Range operator()(const ConstantSize& size) const { return {size.size, size.size}; }
  Range operator()(const LogNormalSize& size) const { return {size.min, size.max}; }
  Range operator()(const HistogramSize& size) const {
    if (size.bins.empty()) return {};
    const auto [low, high] = std::ranges::minmax(size.bins, {}, &HistogramSize::Bin::size);
    return {low.size, high.size};
  }
  Range operator()(const TraceSize&) const {
    const auto* traffic = std::get_if<TraceTraffic>(&service.traffic);
    if (traffic == nullptr || traffic->trace.empty()) return {};
    const auto [low, high] = std::ranges::minmax(traffic->trace, {}, of_trace);
    return {low.*of_trace, high.*of_trace};
  }
};

// The fastest predicted run of one sample in this bucket, or nothing if no slice takes it.
std::optional<std::int64_t> fastest_ns(const sched::Deployment& plan, std::size_t service, std::size_t bucket) {
  std::optional<std::int64_t> best;
  for (const auto& pool : plan.pools) {
    for (const auto& entry : pool.services) {
      if (entry.service.index() != service || bucket >= entry.batch_max.size() || !entry.takes(bucket, 1)) continue;
      const std::int64_t ns = entry.latency.mean_ns(bucket, 1);
      best = best ? std::min(*best, ns) : ns;
    }
  }
  return best;
}

std::string ms_text(double ms) { return fmt::format("{:.{}f} ms", ms, ms < 10 ? 2 : ms < 100 ? 1 : 0); }

// What one plan says about one service.
class Inspection {
 public:
  Inspection(const Service& service, const sched::Deployment& plan, std::size_t index)
      : service_(service), plan_(plan), deployed_(plan.services[index]), index_(index) {}

  std::vector<std::string> run() {
    if (deployed_.pools.empty() || deployed_.edges.empty()) return {};  // A later plan may know it.
    const Range sizes = std::visit(RangeOf{service_, &TraceEntry::size}, service_.input_size);
    too_large(sizes);
    too_slow(sizes);
    too_many();
    return std::move(doubts_);
  }

 private:
  void add(const std::string& text) { doubts_.push_back(fmt::format("service {}: {}", service_.name, text)); }

  // Inputs beyond the last edge have no bucket.
  void too_large(const Range& sizes) {
    const std::int64_t largest = deployed_.edges.back();
    if (sizes.high <= largest) return;
    add(sizes.low > largest
            ? fmt::format("no request can be served: the smallest input is {} and the largest bucket takes {}",
                          sizes.low, largest)
            : fmt::format("inputs above {} are rejected: no bucket takes them, and inputs reach {}", largest,
                          sizes.high));
  }

  // Buckets whose fastest run, with an empty queue, takes longer than the Slo. Only buckets that inputs can reach
  // count.
  void too_slow(const Range& sizes) {
    const double slo_ms = to_milliseconds(service_.slo.latency);
    std::size_t reached = 0;
    std::vector<std::string> slow;
    for (std::size_t b = 0; b < deployed_.edges.size(); ++b) {
      const std::int64_t below = b == 0 ? 0 : deployed_.edges[b - 1];
      if (sizes.high <= below || sizes.low > deployed_.edges[b]) continue;
      ++reached;
      const auto ns = fastest_ns(plan_, index_, b);
      if (!ns || *ns <= service_.slo.latency.count()) continue;
      slow.push_back(fmt::format("up to {} ({})", deployed_.edges[b], ms_text(1e-6 * static_cast<double>(*ns))));
    }
    if (slow.empty()) return;
    add(slow.size() == reached
            ? fmt::format(
                  "no request can be in time: the promise is {}, but one request alone takes longer on the fastest "
                  "slice: inputs {}",
                  ms_text(slo_ms), text::join(slow, ", "))
            : fmt::format(
                  "inputs {} cannot be in time: the promise is {}, but one request alone takes longer on the fastest "
                  "slice",
                  text::join(slow, ", "), ms_text(slo_ms)));
  }

  // A request is never split, so all of its samples must fit into one batch.
  void too_many() {
    const Range samples = std::visit(RangeOf{service_, &TraceEntry::samples}, service_.samples);
    if (samples.high <= deployed_.samples_max) return;
    add(fmt::format(
        "requests of more than {} samples are rejected: no slice takes such a batch, and requests have up to {}",
        deployed_.samples_max, samples.high));
  }

  const Service& service_;
  const sched::Deployment& plan_;
  const sched::DeployedService& deployed_;
  std::size_t index_;
  std::vector<std::string> doubts_;
};

}  // namespace

std::vector<std::string> services_without_replica(const Workload& workload,
                                                  std::span<const sched::Deployment* const> plans) {
  std::vector<std::string> names;
  for (std::size_t s = 0; s < workload.services.size(); ++s) {
    const bool served =
        std::ranges::any_of(plans, [&](const sched::Deployment* plan) { return !plan->services[s].pools.empty(); });
    if (!served) names.push_back(workload.services[s].name);
  }
  return names;
}

std::vector<std::string> doubts(const Workload& workload, std::span<const sched::Deployment* const> plans) {
  std::vector<std::string> all;
  for (std::size_t s = 0; s < workload.services.size(); ++s) {
    for (const sched::Deployment* plan : plans) {
      for (auto& doubt : Inspection(workload.services[s], *plan, s).run()) {
        // Plans of one scenario often share the same doubt.
        if (std::ranges::find(all, doubt) == all.end()) all.push_back(std::move(doubt));
      }
    }
  }
  return all;
}

}  // namespace tangram::lab
