#include "lab/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"

namespace tangram::lab {
namespace {

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

TallyView tally_view(std::string name, sim::Tally tally, double counted_s) {
  TallyView view;
  view.name = std::move(name);
  view.arrived_per_s = ratio(static_cast<double>(tally.arrived), counted_s);
  view.goodput_per_s = ratio(static_cast<double>(tally.served), counted_s);
  view.tally = std::move(tally);
  return view;
}

double batch_mean(const CountHistogram& sizes) {
  double sum = 0;
  for (std::size_t n = 1; n <= sizes.limit() + 1; ++n) {
    sum += static_cast<double>(n) * static_cast<double>(n > sizes.limit() ? sizes.overflow() : sizes.count(n));
  }
  return ratio(sum, static_cast<double>(sizes.total()));
}

std::vector<TallyView> bucket_views(const Scenario& scenario, const sim::Metrics& metrics, std::size_t s,
                                    double counted_s) {
  const auto& edges = scenario.deployment.services[s].edges;
  std::vector<TallyView> views;
  for (std::size_t b = 0; b < metrics.services[s].size(); ++b) {
    const sim::Tally& tally = metrics.services[s][b];
    // After the last edge come requests that no bucket takes; a later plan may know more buckets than the first.
    if (b >= edges.size() && tally.arrived == 0) continue;
    views.push_back(tally_view(b < edges.size() ? fmt::format("up to {}", edges[b]) : "larger", tally, counted_s));
  }
  return views;
}

SliceView slice_view(const Scenario& scenario, std::size_t index) {
  const auto& deployment = scenario.deployment;
  SliceView view;
  if (index >= deployment.places.size()) {
    view.device = "later plan";
    view.slice = fmt::format("slice {}", index);
    return view;
  }
  const sched::Place& place = deployment.places[index];
  const auto& device = deployment.devices[place.device.index()];
  const sched::Pool& pool = deployment.pools[place.pool.index()];
  view.device = device.name;
  view.device_id = place.device;
  view.place = place.slice;
  view.process = place.process;
  view.slice = fmt::format("{}@{}", device.geometry.profiles[place.slice.profile].name, place.slice.start);
  if (place.process > 0) view.slice += fmt::format("#{}", place.process);
  const auto processes = std::ranges::count_if(deployment.places, [&](const sched::Place& other) {
    return other.device == place.device && other.slice == place.slice;
  });
  view.compute_slices = ratio(pool.compute_slices, static_cast<double>(processes));
  for (const auto& entry : pool.services) view.services.push_back(deployment.services[entry.service.index()].name);
  return view;
}

void add_slices(const Scenario& scenario, const sim::SimulationResult& result, RunView& view) {
  double busy = 0;
  double useful = 0;
  double capacity = 0;
  for (std::size_t i = 0; i < result.metrics.slices.size(); ++i) {
    const sim::SliceTally& tally = result.metrics.slices[i];
    SliceView slice = slice_view(scenario, i);
    slice.busy_share = ratio(1e-9 * static_cast<double>(tally.busy_ns), view.end_s);
    slice.useful_share = std::min(slice.busy_share, ratio(1e-9 * tally.useful_ns, view.end_s));
    slice.batches = tally.batches;
    slice.samples = tally.samples;
    busy += slice.busy_share * slice.compute_slices;
    useful += slice.useful_share * slice.compute_slices;
    capacity += slice.compute_slices;
    view.slices.push_back(std::move(slice));
  }
  if (!scenario.config.plan_changes.empty()) return;
  view.busy_share = ratio(busy, capacity);
  view.useful_share = ratio(useful, capacity);
}

}  // namespace

bool RunView::kept() const {
  return std::ranges::all_of(services, [](const TallyView& service) { return service.kept(); });
}

RunView view_of(const Scenario& scenario, const Run& run) {
  const sim::SimulationResult& result = run.result;
  const sim::Metrics& metrics = result.metrics;
  RunView view;
  view.policy = run.policy;
  view.end_s = to_seconds(result.end);
  view.requests = result.requests;
  view.batches = result.batches;
  view.events = result.events;
  view.digest = result.digest;
  const sim::Tally total = metrics.total();
  // The warm-up is not counted, and takes its share of the time.
  view.counted_s = view.end_s * ratio(static_cast<double>(total.arrived), static_cast<double>(result.requests));
  view.total = tally_view("total", total, view.counted_s);
  double real = 0;
  double padded = 0;
  for (std::size_t s = 0; s < metrics.services.size(); ++s) {
    TallyView service = tally_view(scenario.workload.services[s].name, metrics.service_total(s), view.counted_s);
    service.slo = scenario.workload.services[s].slo;
    service.batch_mean = batch_mean(metrics.batch_sizes[s]);
    service.padding_share = metrics.size_padded[s] > 0 ? 1 - metrics.size_real[s] / metrics.size_padded[s] : 0;
    real += metrics.size_real[s];
    padded += metrics.size_padded[s];
    view.services.push_back(std::move(service));
    view.buckets.push_back(bucket_views(scenario, metrics, s, view.counted_s));
  }
  view.padding_share = padded > 0 ? 1 - real / padded : 0;
  for (std::size_t t = 0; t < metrics.tenants.size() && metrics.tenants.size() > 1; ++t) {
    view.tenants.push_back(tally_view(fmt::format("tenant {}", t), metrics.tenants[t], view.counted_s));
  }
  add_slices(scenario, result, view);
  return view;
}

std::string latency_text(Duration latency) {
  if (latency == Duration::max()) return "never";
  const double ms = to_milliseconds(latency);
  if (ms >= 1e4) return fmt::format("{:.1f} s", ms * 1e-3);
  return fmt::format("{:.{}f} ms", ms, ms < 1 && ms > 0 ? 3 : ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

}  // namespace tangram::lab
