// Reports as JSON: the statistics and repository extensions of the protocol, and the status for operators.
//
// All of it runs on the thread of the world, between two events. So the numbers of one report belong to the same
// instant, except for the counters of the gateway and of tenants, which other threads change meanwhile. Reports are
// rare and small; they use a JSON tree for readability, unlike inference. ordered_json keeps the order of the fields as
// written here.

#include "serve/reports.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/layout.h"
#include "serve/background_report.h"
#include "serve/follower.h"
#include "serve/node_report.h"
#include "serve/training_command.h"

namespace tangram::serve {
namespace {

using Json = nlohmann::ordered_json;

// The protocol's pair of a count and a sum, from which clients compute means.
Json duration_stat(std::uint64_t count, std::int64_t ns) { return {{"count", count}, {"ns", ns}}; }

// Field names are Triton's, whose client libraries parse them. Tangram does not measure copying apart from the run and
// has no response cache, so those entries are present and 0.
Json statistics_of(const ServedModel& model, const ServiceTally& tally) {
  const std::uint64_t answered = tally.latency.count();
  // Rejected and failed, by OutcomeKind.
  const std::uint64_t failed = tally.outcomes[2] + tally.outcomes[3];
  Json batches = Json::array();
  for (const auto& [size, batch] : tally.by_batch_size) {
    batches.push_back({{"batch_size", size},
                       {"compute_input", duration_stat(batch.count, 0)},
                       {"compute_infer", duration_stat(batch.count, batch.compute_ns)},
                       {"compute_output", duration_stat(batch.count, 0)}});
  }
  return {{"name", model.name},
          {"version", kModelVersion},
          {"last_inference", tally.last_ms},
          {"inference_count", tally.samples},
          {"execution_count", tally.batches},
          {"inference_stats",
           {{"success", duration_stat(answered, tally.latency.sum_ns())},
            {"fail", duration_stat(failed, static_cast<std::int64_t>(tally.failed_ns))},
            {"queue", duration_stat(answered, tally.queue.sum_ns())},
            {"compute_input", duration_stat(answered, 0)},
            {"compute_infer", duration_stat(answered, tally.compute.sum_ns())},
            {"compute_output", duration_stat(answered, 0)},
            {"cache_hit", duration_stat(0, 0)},
            {"cache_miss", duration_stat(0, 0)}}},
          {"batch_stats", batches},
          {"memory_usage", Json::array()}};
}

// The words of the status report.
std::string_view status_name(sched::SliceStatus status) {
  switch (status) {
    case sched::SliceStatus::idle: return "idle";
    case sched::SliceStatus::busy: return "busy";
    case sched::SliceStatus::planned: return "planned";
    case sched::SliceStatus::restarting: return "restarting";
    case sched::SliceStatus::lent: return "lent";
    case sched::SliceStatus::recalling: return "recalling";
    case sched::SliceStatus::gone: return "gone";
  }
  return "";
}

Json tenants_status(const Access& access) {
  Json list = Json::array();
  for (const auto* tenant : access.tenants()) {
    const auto refused = [&](AccessRefusal why) {
      return tenant->refusals[static_cast<std::size_t>(why)].load(std::memory_order_relaxed);
    };
    // Refusals by limits can pass if the client slows down; those by rights cannot. Operators react differently.
    const std::uint64_t over_limits =
        refused(AccessRefusal::rate) + refused(AccessRefusal::quota) + refused(AccessRefusal::in_flight);
    const std::uint64_t forbidden = refused(AccessRefusal::model) + refused(AccessRefusal::role);
    list.push_back({{"name", tenant->name},
                    {"in_flight", tenant->in_flight.load(std::memory_order_relaxed)},
                    {"served", tenant->outcomes[0].load(std::memory_order_relaxed)},
                    {"late", tenant->outcomes[1].load(std::memory_order_relaxed)},
                    {"rejected", tenant->outcomes[2].load(std::memory_order_relaxed)},
                    {"failed", tenant->outcomes[3].load(std::memory_order_relaxed)},
                    {"abandoned", tenant->outcomes[4].load(std::memory_order_relaxed)},
                    {"over_limits", over_limits},
                    {"forbidden", forbidden},
                    {"refused", over_limits + forbidden}});
  }
  return list;
}

// In microseconds, the scale of what the gateway adds to a request.
Json added_report(const SharedDurations& added) {
  return {{"count", added.count()},
          {"p50_us", to_seconds(added.quantile(0.5)) * 1e6},
          {"p99_us", to_seconds(added.quantile(0.99)) * 1e6}};
}

// `i` is the index of the service, which models, tallies and the deployment have in common.
Json service_status(const LiveWorld& world, std::size_t i) {
  const ServedModel& model = world.models()[i];
  const ServiceTally& tally = world.ledger().services()[i];
  const auto& deployed = world.scheduler().state().deployment.services[i];
  // All means are over the time since the start. Before the first batch or request they are 0 and not NaN, which JSON
  // does not have.
  const double batch_mean =
      tally.batches == 0 ? 0 : static_cast<double>(tally.samples) / static_cast<double>(tally.batches);
  const auto mean_ms = [](const DurationHistogram& h) {
    return h.count() == 0 ? 0 : static_cast<double>(h.sum_ns()) * 1e-6 / static_cast<double>(h.count());
  };
  return {{"name", model.name},
          {"ready", world.why_not_ready(model.service).empty()},
          {"slo_ms", to_milliseconds(deployed.slo.latency)},
          {"slo_attainment_last_minute", tally.attainment.ratio(world.time())},
          {"served", tally.outcomes[0]},
          {"late", tally.outcomes[1]},
          {"rejected", tally.outcomes[2]},
          {"impossible", tally.impossible()},
          {"failed", tally.outcomes[3]},
          {"background_answered", tally.background[0] + tally.background[1]},
          {"background", background_report(world, model.service)},
          {"waiting", waiting_of(world, model.service)},
          {"latency_mean_ms", mean_ms(tally.latency)},
          {"queue_mean_ms", mean_ms(tally.queue)},
          {"compute_mean_ms", mean_ms(tally.compute)},
          {"batch_mean", batch_mean},
          {"cold_starts", tally.cold_starts},
          {"slices", world.scheduler().state().services[i].slices}};
}

// The service and samples of the running batch, or null if the slice is not busy.
Json running_on(const sched::State& state, const sched::SliceState& slice) {
  if (slice.status != sched::SliceStatus::busy) return nullptr;
  return {{"service", state.deployment.services[slice.batch_service.index()].name}, {"samples", slice.batch_samples}};
}

// One slice: what it may run (by its pool), what it runs now, and its counters since the start.
Json slice_status(const LiveWorld& world, std::size_t i) {
  const sched::State& state = world.scheduler().state();
  const sched::SliceState& slice = state.slices[i];
  Json serves = Json::array();
  for (const auto& entry : state.deployment.pools[slice.place.pool.index()].services) {
    // With the services whose requests run in its batches.
    for (std::uint32_t s = 0; s < state.deployment.services.size(); ++s) {
      if (sched::queue_of(state.deployment, ServiceId(s)) == entry.service) {
        serves.push_back(state.deployment.services[s].name);
      }
    }
  }
  // A slice that has not run a batch yet can be missing from the tallies, which grow on first use.
  const auto& tallies = world.ledger().slices();
  const SliceServed tally = i < tallies.size() ? tallies[i] : SliceServed{};
  const double up = to_seconds(world.time());
  // Only a worker has a process of its own; slices inside this process show null.
  const std::int64_t process = world.process_of(SliceId(static_cast<std::uint32_t>(i)));
  return {{"slice", slice_name(world, i)},
          {"status", status_name(slice.status)},
          {"serves", serves},
          {"running", running_on(state, slice)},
          {"batches", tally.batches},
          {"busy_share", up <= 0 ? 0 : static_cast<double>(tally.busy_ns) * 1e-9 / up},
          {"failures", tally.failures},
          {"restarts", tally.restarts},
          {"slow", world.speeds().slow(SliceId(static_cast<std::uint32_t>(i)))},
          {"real_over_planned", world.speeds().ratio(SliceId(static_cast<std::uint32_t>(i)))},
          {"process", process > 0 ? Json(process) : Json(nullptr)}};
}

// Slices that a plan has removed keep their index for ever; they are left out.
Json slices_status(const LiveWorld& world) {
  const auto& slices = world.scheduler().state().slices;
  Json list = Json::array();
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].status != sched::SliceStatus::gone) list.push_back(slice_status(world, i));
  }
  return list;
}

Json devices_status(const sched::Deployment& deployment) {
  Json list = Json::array();
  for (const auto& device : deployment.devices) {
    // A device without a table of cuts has no layout to show.
    const bool known = !device.geometry.profiles.empty();
    list.push_back({{"name", device.name},
                    {"type", device.geometry.type},
                    {"layout", known ? to_string(device.geometry, device.layout) : ""}});
  }
  return list;
}

Json services_status(const LiveWorld& world) {
  Json list = Json::array();
  for (std::size_t i = 0; i < world.models().size(); ++i) {
    if (world.models()[i].removed == 0) list.push_back(service_status(world, i));
  }
  return list;
}

Json follow_status(const LiveWorld& world, const Follower& follower) {
  const FollowReport report = follower.report(world);
  Json proposal = nullptr;
  if (report.proposal) proposal = {{"devices", report.proposal->devices}, {"reasons", report.proposal->reasons}};
  Json shorts = Json::array();
  for (const auto& each : report.shorts) {
    shorts.push_back({{"service", each.service},
                      {"needed_per_s", each.needed_per_s},
                      {"lowest_per_s", each.lowest_per_s},
                      {"lasted_s", each.lasted_s}});
  }
  return {{"mode", report.mode},
          {"state", report.state},
          {"plan_devices", report.plan_devices},
          // Of one type; hours of different types are no sum.
          {"device_hours", report.cost.device_hours.size() > 1 ? Json(nullptr) : Json(report.device_hours)},
          {"device_hours_by_type", report.cost.device_hours},
          {"slice_hours", report.slice_hours},
          {"cost", report.cost.priced ? Json(report.cost.cost) : Json(nullptr)},
          {"cost_per_hour", report.cost.priced ? Json(report.cost.cost_per_hour) : Json(nullptr)},
          {"moves", report.moves},
          {"moves_undone", report.moves_undone},
          {"moving", report.moving},
          {"last_reason", report.last_reason},
          {"proposal", proposal},
          {"plans_refused", report.plans_refused},
          {"refusal", report.refusal},
          {"lost", report.lost},
          {"capacity_short", shorts},
          {"state_problem", report.state_problem}};
}

Json training_of(const Gateway& gateway) {
  return gateway.training() == nullptr ? Json(nullptr) : Json::parse(training_status(*gateway.training()));
}

}  // namespace

std::string follow_report(const LiveWorld& world, const Follower& follower) {
  return follow_status(world, follower).dump();
}

std::string slice_name(const LiveWorld& world, std::size_t index) {
  const auto& state = world.scheduler().state();
  const sched::Place& place = state.slices[index].place;
  const auto& device = state.deployment.devices[place.device.index()];
  // A slice of a device without a table of cuts still gets a name.
  const std::string_view profile = place.slice.profile < device.geometry.profiles.size()
                                       ? std::string_view(device.geometry.profiles[place.slice.profile].name)
                                       : std::string_view("?");
  std::string name = fmt::format("{}/{}@{}", device.name, profile, place.slice.start);
  if (place.process > 0) name += fmt::format("#{}", place.process);
  return name;
}

// Requests wait in the shared queues of the service (its lanes), or bound to one busy slice by a policy that chooses
// the slice early. Costs a walk over all bound requests.
std::uint64_t waiting_of(const LiveWorld& world, ServiceId service) {
  std::uint64_t count = 0;
  for (const auto& lane : world.scheduler().state().lanes) {
    if (lane.service == service) count += lane.queue.count();
  }
  for (const auto& slice : world.scheduler().state().slices) {
    for (const auto* w = slice.bound.front(); w != nullptr; w = w->next) count += w->request.service == service ? 1 : 0;
  }
  return count;
}

std::string model_statistics(const LiveWorld& world, const ServedModel* only) {
  Json list = Json::array();
  for (std::size_t i = 0; i < world.models().size(); ++i) {
    if (world.models()[i].removed != 0 || (only != nullptr && only != &world.models()[i])) continue;
    list.push_back(statistics_of(world.models()[i], world.ledger().services()[i]));
    // An extension under our own prefix, which clients of the protocol ignore.
    list.back()["tangram_background"] = background_report(world, world.models()[i].service);
  }
  return Json{{"model_stats", std::move(list)}}.dump();
}

// A model is ready when it is loaded and a slice serves it. The reason is empty then.
std::string repository_index(const LiveWorld& world, bool only_ready) {
  Json list = Json::array();
  for (const auto& model : world.models()) {
    const std::string why_not = world.why_not_ready(model.service);
    if (model.removed != 0 || (only_ready && !why_not.empty())) continue;
    list.push_back({{"name", model.name},
                    {"version", kModelVersion},
                    {"state", why_not.empty() ? "READY" : "UNAVAILABLE"},
                    {"reason", why_not}});
  }
  return list.dump();
}

// `tangram status` reads these keys.
std::string status_report(const LiveWorld& world, const Gateway& gateway) {
  const Reloads::Report reloads = gateway.reloads.report();
  return Json{{"up_s", to_seconds(world.time())},
              {"ready", gateway.ready()},
              {"draining", gateway.draining()},
              {"in_flight", world.in_flight()},
              {"connections", gateway.traffic.connections_open.load(std::memory_order_relaxed)},
              {"added", added_report(gateway.traffic.added_infer)},
              {"added_other", added_report(gateway.traffic.added_other)},
              {"plan_changes", world.plans_applied()},
              {"plan_moving", world.scheduler().moving()},
              {"follow", gateway.follower() == nullptr ? Json(nullptr) : follow_status(world, *gateway.follower())},
              {"training", training_of(gateway)},
              {"nodes", gateway.nodes() == nullptr ? Json(nullptr) : Json::parse(nodes_summary(*gateway.nodes()))},
              {"reloads", {{"asked", reloads.asked}, {"ended", reloads.ended}, {"problem", reloads.problem}}},
              {"log_level", to_string(gateway.log_level())},
              {"tenants", tenants_status(gateway.access)},
              {"services", services_status(world)},
              {"devices", devices_status(world.scheduler().state().deployment)},
              {"slices", slices_status(world)}}
      .dump();
}

}  // namespace tangram::serve
