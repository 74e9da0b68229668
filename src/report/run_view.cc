// Turns the raw counts of a simulation into the numbers that reports show.
//
// This is the one place where counts become rates and shares, so that tables, JSON and pages agree. Rates refer to
// `counted_s`, the time in which the counted requests arrived; shares of time refer to `end_s`, when the last
// request was resolved.

#include "report/run_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "report/number_text.h"

namespace tangram::report {
namespace {

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Rates over the counted time; `tally` is moved in last, because the lines before read it.
TallyView tally_view(std::string name, sim::Tally tally, double counted_s) {
  TallyView view;
  view.name = std::move(name);
  view.arrived_per_s = ratio(static_cast<double>(tally.arrived), counted_s);
  view.goodput_per_s = ratio(static_cast<double>(tally.served), counted_s);
  view.padding_share = tally.padding_share();
  view.tally = std::move(tally);
  return view;
}

// Batches above the limit of the histogram count as limit + 1, a lower bound of their size.
double batch_mean(const CountHistogram& sizes) {
  double sum = 0;
  for (std::size_t n = 1; n <= sizes.limit() + 1; ++n) {
    sum += static_cast<double>(n) * static_cast<double>(n > sizes.limit() ? sizes.overflow() : sizes.count(n));
  }
  return ratio(sum, static_cast<double>(sizes.total()));
}

// Queue lengths as arrivals find them, not averaged over time; for Poisson arrivals the two agree (PASTA).
QueueView queue_view(const QuantileSketch& found) {
  if (found.empty()) return {};
  return {found.mean(), found.quantile(0.5), found.quantile(0.99), found.max()};
}

std::vector<TallyView> bucket_views(const lab::Scenario& scenario, const sim::Metrics& metrics, std::size_t s,
                                    double counted_s) {
  const auto& edges = scenario.deployment.services[s].edges;
  std::vector<TallyView> views;
  for (std::size_t b = 0; b < metrics.services[s].size(); ++b) {
    const sim::Tally& tally = metrics.services[s][b];
    // After the last edge come requests that are larger than every bucket, and buckets that only a later plan has. Both
    // are left out if they are empty.
    if (b >= edges.size() && tally.arrived == 0) continue;
    views.push_back(tally_view(b < edges.size() ? fmt::format("up to {}", edges[b]) : "larger", tally, counted_s));
    views.back().batch_mean = batch_mean(metrics.batch_sizes[s][b]);
    views.back().queue = queue_view(metrics.queue_by_bucket[s][b].found());
    views.back().number = b;
  }
  return views;
}

// Shares are relative to the whole run, so a slice of a later plan that was busy all its life has less than 1.
SliceView slice_view(const lab::Scenario& scenario, const sim::Metrics& metrics, std::size_t index, double end_s) {
  const sim::SlicePlace& place = metrics.places[index];
  const sim::SliceTally& tally = metrics.slices[index];
  SliceView view;
  view.device = place.device;
  view.slice = place.name;
  view.device_id = place.device_id;
  view.place = place.slice;
  view.process = place.process;
  view.compute_slices = place.compute_slices;
  view.first_plan = index < scenario.deployment.places.size();
  for (const ServiceId service : place.services)
    view.services.push_back(scenario.workload.services[service.index()].name);
  // Nanoseconds to seconds.
  view.busy_share = ratio(1e-9 * static_cast<double>(tally.busy_ns), end_s);
  view.useful_share = std::min(view.busy_share, ratio(1e-9 * tally.useful_ns, end_s));
  view.batches = tally.batches;
  view.samples = tally.samples;
  view.served = tally.served;
  view.late = tally.late;
  view.padding_share = tally.size_padded > 0 ? 1 - tally.size_real / tally.size_padded : 0;
  view.queue_mean = ratio(static_cast<double>(tally.queue_sum), static_cast<double>(tally.batches));
  view.queue_max = tally.queue_max;
  if (index < metrics.slice_latency.size()) view.latency = metrics.slice_latency[index];
  return view;
}

double compute_slices_of(const sched::Deployment& deployment) {
  // Processes that divide a slice are several places with the same device, profile and start; each slice counts once.
  std::map<std::tuple<DeviceId, std::uint16_t, std::uint16_t>, int> slices;
  for (const auto& place : deployment.places) {
    slices[{place.device, place.slice.profile, place.slice.start}] =
        deployment.pools[place.pool.index()].compute_slices;
  }
  double sum = 0;
  for (const auto& [place, compute_slices] : slices) sum += compute_slices;
  return sum;
}

// The capacity that the plans offered until the end, in compute slices x seconds.
double capacity_of(const lab::Scenario& scenario, double end_s) {
  double sum = 0;
  double from_s = 0;
  const sched::Deployment* plan = &scenario.deployment;
  // Only the planned changes are known here; each plan counts from the instant at which it was due.
  for (const auto& change : scenario.config.plan_changes) {
    const double at_s = std::min(to_seconds(change.at), end_s);
    sum += compute_slices_of(*plan) * (at_s - from_s);
    from_s = at_s;
    plan = &change.deployment;
  }
  return sum + compute_slices_of(*plan) * (end_s - from_s);
}

void add_slices(const lab::Scenario& scenario, const sim::SimulationResult& result, RunView& view) {
  double busy = 0;
  double useful = 0;
  for (std::size_t i = 0; i < result.metrics.places.size(); ++i) {
    SliceView slice = slice_view(scenario, result.metrics, i, view.end_s);
    slice.goodput_per_s = ratio(static_cast<double>(slice.served), view.counted_s);
    busy += slice.busy_share * slice.compute_slices;
    useful += slice.useful_share * slice.compute_slices;
    view.slices.push_back(std::move(slice));
  }
  // Without capacity the shares stay unknown: zero would claim that the fleet was idle.
  const double capacity = capacity_of(scenario, view.end_s);
  if (capacity <= 0) return;
  // At most 1: during a move, slices of two plans may be busy while only one of the plans is in the capacity.
  view.busy_share = std::min(1.0, busy * view.end_s / capacity);
  view.useful_share = std::min(1.0, useful * view.end_s / capacity);
}

}  // namespace

// A run keeps its promises only if every service does; the total may hide one that does not.
bool RunView::kept() const {
  return std::ranges::all_of(services, [](const TallyView& service) { return service.kept(); });
}

RunView view_of(const lab::Scenario& scenario, const lab::Run& run) {
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
  view.counted_s = to_seconds(result.counted);
  view.total = tally_view("total", total, view.counted_s);
  // The total queue is counted over all services as arrivals find it; it is not the sum of the services' queues.
  view.total.queue = queue_view(metrics.queue_depth);
  for (std::size_t s = 0; s < metrics.services.size(); ++s) {
    TallyView service = tally_view(scenario.workload.services[s].name, metrics.service_total(s), view.counted_s);
    service.slo = scenario.workload.services[s].slo;
    service.batch_mean = batch_mean(metrics.service_batch_sizes(s));
    service.cold_starts = s < result.cold_starts.size() ? result.cold_starts[s] : 0;
    view.total.cold_starts += service.cold_starts;
    service.queue = queue_view(metrics.queue_by_service[s].found());
    view.services.push_back(std::move(service));
    view.buckets.push_back(bucket_views(scenario, metrics, s, view.counted_s));
  }
  view.padding_share = view.total.padding_share;
  // One tenant would repeat the total.
  for (std::size_t t = 0; t < metrics.tenants.size() && metrics.tenants.size() > 1; ++t) {
    view.tenants.push_back(tally_view(fmt::format("tenant {}", t), metrics.tenants[t], view.counted_s));
    view.tenants.back().queue = queue_view(metrics.queue_by_tenant[t].found());
  }
  add_slices(scenario, result, view);
  return view;
}

std::string in_time_text(const TallyView& view) {
  return view.counted() ? percent_text(view.tally.slo_attainment()) : "-";
}

}  // namespace tangram::report
