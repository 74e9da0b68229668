// Builds the lanes and the capacity of the services, and checks the invariants that state.h lists.
#include "sched/state.h"

#include <fmt/format.h>

#include <algorithm>

#include "sched/background.h"

namespace tangram::sched {

State::State(Deployment d, std::size_t requests_max, double correction_weight)
    : deployment(std::move(d)), store(requests_max), corrections(correction_weight) {
  slices.reset(deployment.places, deployment.pools.size());
  build_lanes();
  count_capacity();
}

State::~State() = default;

void State::adopt(Deployment next) {
  deployment = std::move(next);
  slices.rebuild(deployment.places, deployment.pools.size());
  build_lanes();
  count_capacity();
  if (background != nullptr) background->resize(*this);
}

// One lane for each bucket and class of samples, in this order, then the late lane: lane_of is then a sum and a
// product.
void State::build_lanes() {
  first_row.clear();
  std::size_t rows = 0;
  for (const auto& pool : deployment.pools) {
    first_row.push_back(rows);
    rows += pool.services.size();
  }
  corrections.resize(deployment);
  services.clear();
  lanes.clear();
  for (std::size_t s = 0; s < deployment.services.size(); ++s) {
    const DeployedService& service = deployment.services[s];
    ServiceState state;
    state.lanes_begin = static_cast<std::uint32_t>(lanes.size());
    state.classes = sample_class_count(service.samples_max);
    const ServiceId id(static_cast<std::uint32_t>(s));
    for (std::uint32_t bucket = 0; bucket < service.edges.size(); ++bucket) {
      for (std::uint32_t c = 0; c < state.classes; ++c) lanes.push_back({id, bucket, false, {}, kTimeNever, {}});
    }
    const auto last_bucket = static_cast<std::uint32_t>(std::max<std::size_t>(1, service.edges.size()) - 1);
    lanes.push_back({id, last_bucket, true, {}, kTimeNever, {}});
    state.occupied.assign((lanes.size() - state.lanes_begin + 63) / 64, 0);
    state.drain_ns.assign(service.edges.size(), 0);
    services.push_back(std::move(state));
  }
}

// The backlog of a service is measured in time: one sample of bucket b takes 1 / sum(slices * batch_max / mean) if all
// slices of the service run full batches of it. Example: two slices that run batches of 4 in 8 ms drain one sample
// a millisecond. The backlog of queued requests is recomputed, because the rate has changed for them as well.
void State::count_capacity() {
  for (auto& state : services) {
    state.slices = 0;
    std::ranges::fill(state.drain_ns, 0.0);
  }
  for (std::uint32_t p = 0; p < deployment.pools.size(); ++p) {
    const auto count = static_cast<double>(slices.pool(PoolId(p)).by_free_time.size());
    for (const auto& entry : deployment.pools[p].services) {
      ServiceState& state = services[entry.service.index()];
      state.slices += static_cast<std::uint32_t>(count);
      for (std::size_t b = 0; b < entry.batch_max.size(); ++b) {
        if (entry.batch_max[b] == 0) continue;
        // Rates add up; the sum is turned into a time below.
        state.drain_ns[b] +=
            count * entry.batch_max[b] / static_cast<double>(entry.latency.mean_ns(b, entry.batch_max[b]));
      }
    }
  }
  for (auto& state : services) {
    for (double& drain : state.drain_ns) drain = drain > 0 ? 1 / drain : 0;
    state.backlog_ns = 0;
  }
  for (std::size_t s = 0; s < services.size(); ++s) {
    if (const auto joins = deployment.services[s].joins) services[s].slices = services[joins->index()].slices;
  }
  for (const auto& lane : lanes) {
    if (lane.late) continue;
    ServiceState& service = services[lane.service.index()];
    for (const Waiting* w = lane.queue.front(); w != nullptr; w = w->next) service.backlog_ns += service.backlog_of(*w);
  }
}

// ---- Invariants ----

// Invariants 5 and 8.
std::string State::check_lane(LaneId id) const {
  const Lane& lane = lanes[id.index()];
  const ServiceState& service = services[lane.service.index()];
  const std::uint32_t bit = id.value() - service.lanes_begin;
  const bool occupied = ((service.occupied[bit / 64] >> (bit % 64)) & 1) != 0;
  if (occupied == lane.queue.empty()) return "its bit says the contrary";
  if (lane.queue.empty() && lane.hold != kTimeNever) return "it is held and empty";
  for (const Waiting* w = lane.queue.front(); w != nullptr; w = w->next) {
    if (w->request.queue != lane.service) return "it holds a request of another service";
    if (w->bound_cost_ns != 0) return "it holds a request that is charged to a slice";
    if (w->bucket >= deployment.services[lane.service.index()].edges.size()) return "it holds a request of no bucket";
    if (!lane.late && lane_of(w->request.queue, w->bucket, w->request.samples) != id) {
      return "it holds a request of another lane";
    }
  }
  return "";
}

// Invariants 6 and 7.
std::string State::check_service(ServiceId id) const {
  const ServiceState& service = services[id.index()];
  std::int64_t backlog_ns = 0;
  for (const Lane& lane : lanes) {
    if (lane.service != id || lane.late) continue;
    for (const Waiting* w = lane.queue.front(); w != nullptr; w = w->next) backlog_ns += service.backlog_of(*w);
  }
  if (backlog_ns != service.backlog_ns) {
    return fmt::format("its lanes hold {} ns, its backlog is {} ns", backlog_ns, service.backlog_ns);
  }
  const ServiceId queue = queue_of(deployment, id);
  std::size_t serving = 0;
  for (std::uint32_t p = 0; p < deployment.pools.size(); ++p) {
    for (const auto& entry : deployment.pools[p].services) {
      if (entry.service == queue) serving += slices.pool(PoolId(p)).by_free_time.size();
    }
  }
  return serving == service.slices ? "" : fmt::format("{} slices serve it, {} counted", serving, service.slices);
}

// Invariants 3 and 4.
std::string State::check_counts() const {
  std::size_t queued = background == nullptr ? 0 : background->count();
  std::size_t running = 0;
  for (const Lane& lane : lanes) queued += lane.queue.count();
  for (const SliceState& slice : slices) {
    queued += slice.bound.count();
    running += slice.members.size();
  }
  if (queued != waiting_count) return fmt::format("{} requests are in queues, {} are counted", queued, waiting_count);
  if (store.used() == queued + running) return "";
  return fmt::format("the store holds {} requests; {} wait and {} run", store.used(), queued, running);
}

// Each part checks itself, then come the sums over all of them. The first sentence is enough: one slip breaks several.
std::string State::check() const {
  if (const std::string why = why_broken(slices); !why.empty()) return why;
  for (std::uint32_t l = 0; l < lanes.size(); ++l) {
    if (const std::string why = check_lane(LaneId(l)); !why.empty()) return fmt::format("lane {}: {}", l, why);
  }
  for (std::uint32_t s = 0; s < services.size(); ++s) {
    if (const std::string why = check_service(ServiceId(s)); !why.empty()) return fmt::format("service {}: {}", s, why);
  }
  return check_counts();
}

}  // namespace tangram::sched
