// What clients and operators may ask about the world: statistics, index, metrics, status.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/layout.h"
#include "core/request.h"
#include "serve/background_report.h"
#include "serve/gateway.h"
#include "serve/live_world.h"

namespace tangram::serve {
namespace {

using Json = nlohmann::ordered_json;

Json duration_stat(std::uint64_t count, std::int64_t ns) { return {{"count", count}, {"ns", ns}}; }

Json statistics_of(const ServedModel& model, const ServiceTally& tally) {
  const std::uint64_t answered = tally.latency.count();
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

std::string service_label(const ServedModel& model) { return label("service", model.name); }

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

void service_metrics(PrometheusText& out, const LiveWorld& world) {
  const auto& models = world.models();
  const auto& tallies = world.service_tallies();
  const auto each = [&](auto&& write) {
    for (std::size_t i = 0; i < models.size(); ++i) write(service_label(models[i]), tallies[i], models[i]);
  };
  out.family("tangram_slo_attainment_ratio", "gauge",
             "Share of the requests of the last minute that were answered by their deadline; those that no slice "
             "could ever have served do not count.");
  each([&](const std::string& l, const ServiceTally& t, const ServedModel&) {
    out.sample("tangram_slo_attainment_ratio", l, t.attainment.ratio(world.time()));
  });
  out.family("tangram_requests_total", "counter", "Requests that ended, by how.");
  each([&](const std::string& l, const ServiceTally& t, const ServedModel&) {
    for (const OutcomeKind kind : kOutcomeKinds) {
      out.sample("tangram_requests_total", l + ',' + label("outcome", to_string(kind)), t.outcomes[index_of(kind)]);
    }
  });
  out.family("tangram_background_requests_total", "counter",
             "Requests in the background that ended, by how; the other families leave them out.");
  each([&](const std::string& l, const ServiceTally& t, const ServedModel&) {
    for (const OutcomeKind kind : kOutcomeKinds) {
      out.sample("tangram_background_requests_total", l + ',' + label("outcome", to_string(kind)),
                 t.background[index_of(kind)]);
    }
  });
  out.family("tangram_requests_rejected_total", "counter", "Requests that the scheduler refused, by reason.");
  each([&](const std::string& l, const ServiceTally& t, const ServedModel&) {
    const auto rejected = [&](std::string_view reason, std::uint64_t count) {
      out.sample("tangram_requests_rejected_total", l + ',' + label("reason", reason), count);
    };
    rejected("never_in_time", t.never_in_time);
    for (const RejectReason reason : kRejectReasons) {
      if (reason == RejectReason::none) continue;
      // The reasons are disjoint: what could never have been in time is counted under its own name above.
      const std::uint64_t elsewhere = reason == RejectReason::too_late ? t.never_in_time : 0;
      rejected(to_string(reason), t.rejected[index_of(reason)] - elsewhere);
    }
  });
  out.family("tangram_requests_waiting", "gauge", "Requests that wait for a slice.");
  each([&](const std::string& l, const ServiceTally&, const ServedModel& m) {
    out.sample("tangram_requests_waiting", l, waiting_of(world, m.service));
  });
  out.family("tangram_request_duration_seconds", "histogram", "From the arrival of a request to its answer.");
  each([&](const std::string& l, const ServiceTally& t, const ServedModel&) {
    out.histogram("tangram_request_duration_seconds", l, t.latency);
  });
  out.family("tangram_queue_duration_seconds", "histogram", "From the arrival of a request to the start of its batch.");
  each([&](const std::string& l, const ServiceTally& t, const ServedModel&) {
    out.histogram("tangram_queue_duration_seconds", l, t.queue);
  });
  out.family("tangram_compute_duration_seconds", "histogram", "How long the batch of a request ran.");
  each([&](const std::string& l, const ServiceTally& t, const ServedModel&) {
    out.histogram("tangram_compute_duration_seconds", l, t.compute);
  });
  out.family("tangram_samples_total", "counter", "Samples that were answered.");
  each([&](const std::string& l, const ServiceTally& t, const ServedModel&) {
    out.sample("tangram_samples_total", l, t.samples);
  });
  out.family("tangram_batches_total", "counter", "Batches that ran.");
  each([&](const std::string& l, const ServiceTally& t, const ServedModel&) {
    out.sample("tangram_batches_total", l, t.batches);
  });
  out.family("tangram_padding_ratio", "gauge", "Share of what ran that was padding.");
  each([&](const std::string& l, const ServiceTally& t, const ServedModel&) {
    out.sample("tangram_padding_ratio", l, t.size_padded == 0 ? 0.0 : 1 - t.size_real / t.size_padded);
  });
}

// Those of no known model have an empty name.
void refusal_metrics(PrometheusText& out, const LiveWorld& world, const Gateway& gateway) {
  const char* const name = "tangram_requests_refused_total";
  out.family(name, "counter", "Inference requests that ended before the scheduler saw them, by why.");
  const auto of_model = [&](std::string_view service, const ServedModel* model) {
    for (std::size_t k = 0; k < kRequestRefusals.size(); ++k) {
      out.sample(name, label("service", service) + ',' + label("reason", kRequestRefusals[k]),
                 gateway.refused_count(model, static_cast<RequestRefusal>(k)));
    }
  };
  for (const auto& model : world.models()) of_model(model.name, &model);
  of_model("", nullptr);
}

void slice_metrics(PrometheusText& out, const LiveWorld& world) {
  const auto& slices = world.scheduler().state().slices;
  const auto& tallies = world.slice_tallies();
  const auto each = [&](auto&& write) {
    for (std::size_t i = 0; i < slices.size() && i < tallies.size(); ++i) {
      if (slices[i].status != sched::SliceStatus::gone) write(label("slice", slice_name(world, i)), tallies[i]);
    }
  };
  out.family("tangram_slice_busy_seconds_total", "counter", "How long the slice ran batches.");
  each([&](const std::string& l, const SliceServed& t) {
    out.sample("tangram_slice_busy_seconds_total", l, static_cast<double>(t.busy_ns) * 1e-9);
  });
  out.family("tangram_slice_batches_total", "counter", "Batches that the slice ran.");
  each([&](const std::string& l, const SliceServed& t) { out.sample("tangram_slice_batches_total", l, t.batches); });
  out.family("tangram_slice_failures_total", "counter", "Batches that failed on the slice.");
  each([&](const std::string& l, const SliceServed& t) { out.sample("tangram_slice_failures_total", l, t.failures); });
  out.family("tangram_slice_restarts_total", "counter", "How often the slice was started anew.");
  each([&](const std::string& l, const SliceServed& t) { out.sample("tangram_slice_restarts_total", l, t.restarts); });
}

void gateway_metrics(PrometheusText& out, const LiveWorld& world, const Gateway& gateway) {
  const auto& traffic = gateway.traffic;
  const auto counter = [&](const char* name, const char* help, const std::atomic<std::uint64_t>& value) {
    out.family(name, "counter", help);
    out.sample(name, "", value.load(std::memory_order_relaxed));
  };
  out.family("tangram_requests_in_flight", "gauge", "Requests that have arrived and are not answered.");
  out.sample("tangram_requests_in_flight", "", std::uint64_t{world.in_flight()});
  out.family("tangram_connections_open", "gauge", "Connections of clients.");
  out.sample("tangram_connections_open", "", traffic.connections_open.load(std::memory_order_relaxed));
  counter("tangram_connections_opened_total", "Connections that were accepted.", traffic.connections_opened);
  counter("tangram_connections_refused_total", "Connections beyond the limit.", traffic.connections_refused);
  counter("tangram_requests_malformed_total", "Requests that were not HTTP as it should be.",
          traffic.requests_malformed);
  counter("tangram_connection_timeouts_total", "Connections closed because the client was too slow.", traffic.timeouts);
  counter("tangram_tls_handshakes_failed_total", "Connections that did not get through the TLS handshake.",
          traffic.handshakes_failed);
  counter("tangram_received_bytes_total", "Bytes read from clients.", traffic.bytes_received);
  counter("tangram_sent_bytes_total", "Bytes written to clients.", traffic.bytes_sent);
  counter("tangram_answers_abandoned_total", "Answers whose client had gone.", traffic.calls_abandoned);
  out.family(
      "tangram_gateway_added_seconds", "summary",
      "From the last byte of a request read to the first byte of its answer written, less the run of its batch; of "
      "inference over HTTP, without requests in the background.");
  for (const double q : {0.5, 0.99}) {
    out.sample("tangram_gateway_added_seconds", fmt::format("quantile=\"{}\"", q),
               to_seconds(traffic.added_infer.quantile(q)));
  }
  out.sample("tangram_gateway_added_seconds_count", "", traffic.added_infer.count());
  out.family("tangram_plan_changes_total", "counter", "Plans that were put in place while serving.");
  out.sample("tangram_plan_changes_total", "", world.plans_applied());
}

void tenant_metrics(PrometheusText& out, const Access& access) {
  if (!access.on()) return;
  const auto tenants = access.tenants();
  out.family("tangram_unauthenticated_total", "counter", "Requests of callers that were not known.");
  out.sample("tangram_unauthenticated_total", "", access.unauthenticated.load(std::memory_order_relaxed));
  out.family("tangram_tenant_requests_total", "counter", "Inference requests of a tenant that ended, by how.");
  for (const auto* tenant : tenants) {
    for (const OutcomeKind kind : kOutcomeKinds) {
      out.sample("tangram_tenant_requests_total",
                 label("tenant", tenant->name) + ',' + label("outcome", to_string(kind)),
                 tenant->outcomes[index_of(kind)].load(std::memory_order_relaxed));
    }
  }
  out.family("tangram_tenant_refused_total", "counter",
             "Requests that the tenant's limits or rights refused, by which.");
  for (const auto* tenant : tenants) {
    for (std::size_t k = 0; k < kAccessRefusals.size(); ++k) {
      out.sample("tangram_tenant_refused_total",
                 label("tenant", tenant->name) + ',' + label("reason", kAccessRefusals[k]),
                 tenant->refusals[k].load(std::memory_order_relaxed));
    }
  }
  out.family("tangram_tenant_requests_in_flight", "gauge", "Inference requests of a tenant that are not answered.");
  for (const auto* tenant : tenants) {
    out.sample("tangram_tenant_requests_in_flight", label("tenant", tenant->name),
               static_cast<double>(tenant->in_flight.load(std::memory_order_relaxed)));
  }
}

Json tenants_status(const Access& access) {
  Json list = Json::array();
  for (const auto* tenant : access.tenants()) {
    const auto refused = [&](AccessRefusal why) {
      return tenant->refusals[static_cast<std::size_t>(why)].load(std::memory_order_relaxed);
    };
    const std::uint64_t over_limits =
        refused(AccessRefusal::rate) + refused(AccessRefusal::quota) + refused(AccessRefusal::in_flight);
    const std::uint64_t forbidden = refused(AccessRefusal::model) + refused(AccessRefusal::role);
    list.push_back({{"name", tenant->name},
                    {"in_flight", tenant->in_flight.load(std::memory_order_relaxed)},
                    {"served", tenant->outcomes[0].load(std::memory_order_relaxed)},
                    {"late", tenant->outcomes[1].load(std::memory_order_relaxed)},
                    {"rejected", tenant->outcomes[2].load(std::memory_order_relaxed)},
                    {"failed", tenant->outcomes[3].load(std::memory_order_relaxed)},
                    {"over_limits", over_limits},
                    {"forbidden", forbidden},
                    {"refused", over_limits + forbidden}});
  }
  return list;
}

// The names that dashboards made for Triton look for.
void triton_metrics(PrometheusText& out, const LiveWorld& world) {
  const auto& models = world.models();
  const auto& tallies = world.service_tallies();
  const auto counter = [&](const char* name, const char* help, auto&& value) {
    out.family(name, "counter", help);
    for (std::size_t i = 0; i < models.size(); ++i) {
      out.sample(name, label("model", models[i].name) + R"(,version="1")",
                 static_cast<std::uint64_t>(value(tallies[i])));
    }
  };
  counter("nv_inference_request_success", "Number of successful inference requests, all batch sizes",
          [](const ServiceTally& t) { return t.latency.count(); });
  out.family("nv_inference_request_failure", "counter", "Number of failed inference requests, all batch sizes");
  for (std::size_t i = 0; i < models.size(); ++i) {
    const std::string l = label("model", models[i].name) + R"(,version="1",reason=)";
    out.sample("nv_inference_request_failure", l + R"("REJECTED")", tallies[i].outcomes[2]);
    out.sample("nv_inference_request_failure", l + R"("BACKEND")", tallies[i].outcomes[3]);
  }
  counter("nv_inference_count", "Number of inferences performed", [](const ServiceTally& t) { return t.samples; });
  counter("nv_inference_exec_count", "Number of model executions performed",
          [](const ServiceTally& t) { return t.batches; });
  counter("nv_inference_request_duration_us", "Cumulative inference request duration in microseconds",
          [](const ServiceTally& t) { return t.latency.sum_ns() / 1000; });
  counter("nv_inference_queue_duration_us", "Cumulative inference queuing duration in microseconds",
          [](const ServiceTally& t) { return t.queue.sum_ns() / 1000; });
  counter("nv_inference_compute_input_duration_us", "Cumulative compute input duration in microseconds",
          [](const ServiceTally&) { return 0; });
  counter("nv_inference_compute_infer_duration_us", "Cumulative compute inference duration in microseconds",
          [](const ServiceTally& t) { return t.compute.sum_ns() / 1000; });
  counter("nv_inference_compute_output_duration_us", "Cumulative inference compute output duration in microseconds",
          [](const ServiceTally&) { return 0; });
  out.family("nv_inference_pending_request_count", "gauge",
             "Instantaneous number of pending requests awaiting execution");
  for (const auto& model : models) {
    out.sample("nv_inference_pending_request_count", label("model", model.name) + R"(,version="1")",
               waiting_of(world, model.service));
  }
}

Json added_report(const SharedDurations& added) {
  return {{"count", added.count()},
          {"p50_us", to_seconds(added.quantile(0.5)) * 1e6},
          {"p99_us", to_seconds(added.quantile(0.99)) * 1e6}};
}

Json service_status(const LiveWorld& world, std::size_t i) {
  const ServedModel& model = world.models()[i];
  const ServiceTally& tally = world.service_tallies()[i];
  const auto& deployed = world.scheduler().state().deployment.services[i];
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
          {"slices", world.scheduler().state().services[i].slices}};
}

}  // namespace

std::string slice_name(const LiveWorld& world, std::size_t index) {
  const auto& state = world.scheduler().state();
  const sched::Place& place = state.slices[index].place;
  const auto& device = state.deployment.devices[place.device.index()];
  const std::string_view profile = place.slice.profile < device.geometry.profiles.size()
                                       ? std::string_view(device.geometry.profiles[place.slice.profile].name)
                                       : std::string_view("?");
  std::string name = fmt::format("{}/{}@{}", device.name, profile, place.slice.start);
  if (place.process > 0) name += fmt::format("#{}", place.process);
  return name;
}

std::string model_statistics(const LiveWorld& world, const ServedModel* only) {
  Json list = Json::array();
  for (std::size_t i = 0; i < world.models().size(); ++i) {
    if (only != nullptr && only != &world.models()[i]) continue;
    list.push_back(statistics_of(world.models()[i], world.service_tallies()[i]));
    list.back()["tangram_background"] = background_report(world, world.models()[i].service);
  }
  return Json{{"model_stats", std::move(list)}}.dump();
}

std::string repository_index(const LiveWorld& world, bool only_ready) {
  Json list = Json::array();
  for (const auto& model : world.models()) {
    const std::string why_not = world.why_not_ready(model.service);
    if (only_ready && !why_not.empty()) continue;
    list.push_back({{"name", model.name},
                    {"version", kModelVersion},
                    {"state", why_not.empty() ? "READY" : "UNAVAILABLE"},
                    {"reason", why_not}});
  }
  return list.dump();
}

std::string prometheus_metrics(const LiveWorld& world, const Gateway& gateway, bool triton_names) {
  PrometheusText out;
  service_metrics(out, world);
  refusal_metrics(out, world, gateway);
  slice_metrics(out, world);
  gateway_metrics(out, world, gateway);
  tenant_metrics(out, gateway.access);
  if (triton_names) triton_metrics(out, world);
  return out.take();
}

std::string status_report(const LiveWorld& world, const Gateway& gateway) {
  const auto& state = world.scheduler().state();
  Json services = Json::array();
  for (std::size_t i = 0; i < world.models().size(); ++i) services.push_back(service_status(world, i));
  Json slices = Json::array();
  for (std::size_t i = 0; i < state.slices.size(); ++i) {
    const auto& slice = state.slices[i];
    if (slice.status == sched::SliceStatus::gone) continue;
    Json running = nullptr;
    if (slice.status == sched::SliceStatus::busy) {
      running = {{"service", state.deployment.services[slice.batch_service.index()].name},
                 {"samples", slice.batch_samples}};
    }
    Json serves = Json::array();
    for (const auto& entry : state.deployment.pools[slice.place.pool.index()].services) {
      serves.push_back(state.deployment.services[entry.service.index()].name);
    }
    const SliceServed tally = i < world.slice_tallies().size() ? world.slice_tallies()[i] : SliceServed{};
    const double up = to_seconds(world.time());
    const std::int64_t process = world.process_of(SliceId(static_cast<std::uint32_t>(i)));
    slices.push_back({{"slice", slice_name(world, i)},
                      {"status", status_name(slice.status)},
                      {"serves", serves},
                      {"running", running},
                      {"batches", tally.batches},
                      {"busy_share", up <= 0 ? 0 : static_cast<double>(tally.busy_ns) * 1e-9 / up},
                      {"failures", tally.failures},
                      {"restarts", tally.restarts},
                      {"process", process > 0 ? Json(process) : Json(nullptr)}});
  }
  Json devices = Json::array();
  for (const auto& device : state.deployment.devices) {
    const bool known = !device.geometry.profiles.empty();
    devices.push_back({{"name", device.name},
                       {"type", device.geometry.type},
                       {"layout", known ? to_string(device.geometry, device.layout) : ""}});
  }
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
              {"reloads", {{"asked", reloads.asked}, {"ended", reloads.ended}, {"problem", reloads.problem}}},
              {"log_level", to_string(gateway.log_level())},
              {"tenants", tenants_status(gateway.access)},
              {"services", services},
              {"devices", devices},
              {"slices", slices}}
      .dump();
}

}  // namespace tangram::serve
