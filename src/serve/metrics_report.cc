// prometheus_metrics(): every counter of the world, the gateway and the tenants, family by family.
//
// The exposition format wants all samples of a family together, under one HELP and TYPE line. So each part loops over
// families on the outside and over services, slices or tenants on the inside. All names begin with "tangram_"; counters
// end in "_total" and times are in seconds, as Prometheus recommends. Samples that are zero are written, too: a rate()
// over a counter that appears late misses its first increments.

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "core/request.h"
#include "serve/follower.h"
#include "serve/node_report.h"
#include "serve/reports.h"
#include "serve/tally.h"
#include "serve/training_command.h"

namespace tangram::serve {
namespace {

// ---- Services ----

// What the samples of one service are computed from.
struct ServiceRow {
  const LiveWorld& world;
  const ServedModel& model;
  const ServiceTally& tally;
  std::string labels;
};

// A family with one or more samples for each service.
struct ServiceFamily {
  const char* name;
  const char* type;
  const char* help;
  void (*write)(PrometheusText& out, const char* name, const ServiceRow& row);
};

// One sample per outcome, zeros included.
void write_outcomes(PrometheusText& out, const char* name, const std::string& labels,
                    const std::array<std::uint64_t, kOutcomeKinds.size()>& counts) {
  for (const OutcomeKind kind : kOutcomeKinds) {
    out.sample(name, labels + ',' + label("outcome", to_string(kind)), counts[index_of(kind)]);
  }
}

// Requests that were rejected because their time was shorter than the fastest run have a reason of their own: no
// capacity would have helped them, so they must not look like overload.
void write_rejected(PrometheusText& out, const char* name, const ServiceRow& row) {
  const auto rejected = [&](std::string_view reason, std::uint64_t count) {
    out.sample(name, row.labels + ',' + label("reason", reason), count);
  };
  rejected("never_in_time", row.tally.never_in_time);
  for (const RejectReason reason : kRejectReasons) {
    if (reason == RejectReason::none) continue;
    // The reasons are disjoint: a request that could never have been in time is counted under its own name above.
    const std::uint64_t elsewhere = reason == RejectReason::too_late ? row.tally.never_in_time : 0;
    rejected(to_string(reason), row.tally.rejected[index_of(reason)] - elsewhere);
  }
}

// The families of services as a table: name, type, help text and how a sample is written.
constexpr std::array kServiceFamilies{
    ServiceFamily{
        "tangram_slo_attainment_ratio", "gauge",
        "Share of the requests of the last minute that were answered by their deadline; requests that no slice could "
        "ever have served are not counted.",
        [](PrometheusText& out, const char* name, const ServiceRow& row) {
          out.sample(name, row.labels, row.tally.attainment.ratio(row.world.time()));
        }},
    ServiceFamily{"tangram_slo_promised_ratio", "gauge", "Share of the requests that is promised to be in time.",
                  [](PrometheusText& out, const char* name, const ServiceRow& row) {
                    const auto& services = row.world.scheduler().state().deployment.services;
                    out.sample(name, row.labels, services[row.model.service.index()].slo.percentile / 100);
                  }},
    ServiceFamily{"tangram_requests_total", "counter", "Requests that ended, by outcome.",
                  [](PrometheusText& out, const char* name, const ServiceRow& row) {
                    write_outcomes(out, name, row.labels, row.tally.outcomes);
                  }},
    ServiceFamily{"tangram_background_requests_total", "counter",
                  "Background requests that ended, by outcome; the other metrics do not count them.",
                  [](PrometheusText& out, const char* name, const ServiceRow& row) {
                    write_outcomes(out, name, row.labels, row.tally.background);
                  }},
    ServiceFamily{"tangram_requests_rejected_total", "counter", "Requests that the scheduler rejected, by reason.",
                  write_rejected},
    ServiceFamily{"tangram_requests_waiting", "gauge", "Requests that are queued.",
                  [](PrometheusText& out, const char* name, const ServiceRow& row) {
                    out.sample(name, row.labels, waiting_of(row.world, row.model.service));
                  }},
    ServiceFamily{"tangram_request_duration_seconds", "histogram", "Time from the arrival of a request to its answer.",
                  [](PrometheusText& out, const char* name, const ServiceRow& row) {
                    out.histogram(name, row.labels, row.tally.latency);
                  }},
    ServiceFamily{"tangram_queue_duration_seconds", "histogram",
                  "Time from the arrival of a request to the start of its batch.",
                  [](PrometheusText& out, const char* name, const ServiceRow& row) {
                    out.histogram(name, row.labels, row.tally.queue);
                  }},
    ServiceFamily{"tangram_compute_duration_seconds", "histogram", "Run time of the batch of a request.",
                  [](PrometheusText& out, const char* name, const ServiceRow& row) {
                    out.histogram(name, row.labels, row.tally.compute);
                  }},
    ServiceFamily{"tangram_samples_total", "counter", "Samples that were answered.",
                  [](PrometheusText& out, const char* name, const ServiceRow& row) {
                    out.sample(name, row.labels, row.tally.samples);
                  }},
    ServiceFamily{"tangram_batches_total", "counter", "Batches that ran.",
                  [](PrometheusText& out, const char* name, const ServiceRow& row) {
                    out.sample(name, row.labels, row.tally.batches);
                  }},
    ServiceFamily{"tangram_cold_starts_total", "counter",
                  "Batches that had to load their model first: it is loaded on demand.",
                  [](PrometheusText& out, const char* name, const ServiceRow& row) {
                    out.sample(name, row.labels, row.tally.cold_starts);
                  }},
    ServiceFamily{"tangram_padding_ratio", "gauge", "Share of the processed elements that was padding.",
                  [](PrometheusText& out, const char* name, const ServiceRow& row) {
                    const ServiceTally& t = row.tally;
                    out.sample(name, row.labels, t.size_padded == 0 ? 0.0 : 1 - t.size_real / t.size_padded);
                  }},
};

void service_metrics(PrometheusText& out, const LiveWorld& world) {
  // Labels are built once per service and not once per family.
  std::vector<ServiceRow> rows;
  for (std::size_t i = 0; i < world.models().size(); ++i) {
    const ServedModel& model = world.models()[i];
    if (model.removed != 0) continue;
    rows.push_back({world, model, world.ledger().services()[i], label("service", model.name)});
  }
  for (const ServiceFamily& family : kServiceFamilies) {
    out.family(family.name, family.type, family.help);
    for (const ServiceRow& row : rows) family.write(out, family.name, row);
  }
}

// ---- Everything else ----

// Requests for an unknown model are counted under an empty service name. A label with the name that the client sent
// would let strangers create any number of time series.
void refusal_metrics(PrometheusText& out, const LiveWorld& world, const Gateway& gateway) {
  const char* const name = "tangram_requests_refused_total";
  out.family(name, "counter", "Inference requests that ended before they reached the scheduler, by reason.");
  const auto of_model = [&](std::string_view service, const ServedModel* model) {
    for (std::size_t k = 0; k < kRequestRefusals.size(); ++k) {
      out.sample(name, label("service", service) + ',' + label("reason", kRequestRefusals[k]),
                 gateway.refused_count(model, static_cast<RequestRefusal>(k)));
    }
  };
  for (const auto& model : world.models()) {
    if (model.removed == 0) of_model(model.name, &model);
  }
  of_model("", nullptr);
}

void slice_metrics(PrometheusText& out, const LiveWorld& world) {
  // Slices that a plan has removed keep their index but are no longer shown. A slice that has not run yet can be
  // missing from the tallies, which grow on first use.
  const auto& slices = world.scheduler().state().slices;
  const auto& tallies = world.ledger().slices();
  const auto each = [&](auto&& write) {
    for (std::size_t i = 0; i < slices.size() && i < tallies.size(); ++i) {
      if (slices[i].status != sched::SliceStatus::gone) write(label("slice", slice_name(world, i)), tallies[i]);
    }
  };
  out.family("tangram_slice_busy_seconds_total", "counter", "Time in which the slice ran batches.");
  each([&](const std::string& l, const SliceServed& t) {
    out.sample("tangram_slice_busy_seconds_total", l, static_cast<double>(t.busy_ns) * 1e-9);
  });
  out.family("tangram_slice_batches_total", "counter", "Batches that the slice ran.");
  each([&](const std::string& l, const SliceServed& t) { out.sample("tangram_slice_batches_total", l, t.batches); });
  out.family("tangram_slice_failures_total", "counter", "Batches that failed on the slice.");
  each([&](const std::string& l, const SliceServed& t) { out.sample("tangram_slice_failures_total", l, t.failures); });
  out.family("tangram_slice_real_over_planned", "gauge",
             "Run times of the slice's last batches over those of the plan; 1 while it has run none.");
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].status == sched::SliceStatus::gone) continue;
    out.sample("tangram_slice_real_over_planned", label("slice", slice_name(world, i)),
               world.speeds().ratio(SliceId(static_cast<std::uint32_t>(i))));
  }
  out.family("tangram_slice_restarts_total", "counter", "Times that the slice was restarted.");
  each([&](const std::string& l, const SliceServed& t) { out.sample("tangram_slice_restarts_total", l, t.restarts); });
}

// What is held for callers: of the data ports and the admin port, and of callers who are not known yet.
void memory_metrics(PrometheusText& out, const MemoryBudget& memory) {
  const std::array<std::pair<const char*, const MemoryAccount*>, 3> parts{
      {{"data", &memory.data()}, {"strangers", &memory.strangers()}, {"admin", &memory.admin()}}};
  const auto family = [&](const char* name, const char* type, const char* help, auto&& value) {
    out.family(name, type, help);
    for (const auto& [part, account] : parts) out.sample(name, label("part", part), value(*account));
  };
  family("tangram_caller_memory_bytes", "gauge",
         "Memory held for callers: requests, what they become, and answers that were not taken yet. Strangers are a "
         "part of data.",
         [](const MemoryAccount& account) { return account.used(); });
  family("tangram_caller_memory_max_bytes", "gauge", "The most of it since the start.",
         [](const MemoryAccount& account) { return account.used_max(); });
  family("tangram_caller_memory_limit_bytes", "gauge", "How much may be held.",
         [](const MemoryAccount& account) { return account.limit(); });
  family("tangram_caller_memory_refused_total", "counter", "How often there was no room.",
         [](const MemoryAccount& account) { return account.refused(); });
}

// Counters of the sockets are read without a lock, each by itself. They can be apart by the requests of that moment.
void gateway_metrics(PrometheusText& out, const LiveWorld& world, const Gateway& gateway) {
  const auto& traffic = gateway.traffic;
  const auto counter = [&](const char* name, const char* help, const std::atomic<std::uint64_t>& value) {
    out.family(name, "counter", help);
    out.sample(name, "", value.load(std::memory_order_relaxed));
  };
  // Gauges of this instant: requests count from their arrival in the world, held ones included.
  out.family("tangram_requests_in_flight", "gauge", "Requests that have arrived and are not yet answered.");
  out.sample("tangram_requests_in_flight", "", std::uint64_t{world.in_flight()});
  out.family("tangram_connections_open", "gauge", "Open client connections.");
  out.sample("tangram_connections_open", "", traffic.connections_open.load(std::memory_order_relaxed));
  counter("tangram_connections_opened_total", "Connections that were accepted.", traffic.connections_opened);
  counter("tangram_connections_refused_total", "Connections that were closed because of the connection limit.",
          traffic.connections_refused);
  counter("tangram_connections_gave_way_total", "Quiet connections that were closed to make room for new ones.",
          traffic.connections_gave_way);
  memory_metrics(out, gateway.memory);
  counter("tangram_requests_malformed_total", "Requests that were not valid HTTP.", traffic.requests_malformed);
  counter("tangram_connection_timeouts_total", "Connections closed because the client was too slow.", traffic.timeouts);
  counter("tangram_tls_handshakes_failed_total", "Connections on which the TLS handshake failed.",
          traffic.handshakes_failed);
  counter("tangram_received_bytes_total", "Bytes read from clients.", traffic.bytes_received);
  counter("tangram_sent_bytes_total", "Bytes written to clients.", traffic.bytes_sent);
  counter("tangram_answers_abandoned_total", "Answers whose client had closed the connection.",
          traffic.calls_abandoned);
  out.family(
      "tangram_gateway_added_seconds", "summary",
      "Time from the last byte read of a request to the first byte written of its answer, minus the run time of its "
      "batch; inference over HTTP, without background requests.");
  // A summary: the buckets of the histograms begin at 100 microseconds, too coarse for what the gateway adds.
  for (const double q : {0.5, 0.99}) {
    out.sample("tangram_gateway_added_seconds", fmt::format("quantile=\"{}\"", q),
               to_seconds(traffic.added_infer.quantile(q)));
  }
  out.sample("tangram_gateway_added_seconds_sum", "", to_seconds(traffic.added_infer.sum()));
  out.sample("tangram_gateway_added_seconds_count", "", traffic.added_infer.count());
  out.family("tangram_plan_changes_total", "counter", "Plans that the server moved to while serving.");
  out.sample("tangram_plan_changes_total", "", world.plans_applied());
}

// Nothing at all without access control. Otherwise tenants that a reload has removed stay, since a counter must not
// disappear while requests of the tenant can still end.
void tenant_metrics(PrometheusText& out, const Access& access) {
  if (!access.on()) return;
  const auto tenants = access.tenants();
  out.family("tangram_unauthenticated_total", "counter", "Requests without a valid key or certificate.");
  out.sample("tangram_unauthenticated_total", "", access.unauthenticated.load(std::memory_order_relaxed));
  out.family("tangram_tenant_requests_total", "counter", "Inference requests of a tenant that ended, by outcome.");
  // By id, and ids never change: the order of the samples is stable across reloads.
  for (const auto* tenant : tenants) {
    for (const OutcomeKind kind : kOutcomeKinds) {
      out.sample("tangram_tenant_requests_total",
                 label("tenant", tenant->name) + ',' + label("outcome", to_string(kind)),
                 tenant->outcomes[index_of(kind)].load(std::memory_order_relaxed));
    }
  }
  out.family("tangram_tenant_refused_total", "counter",
             "Requests that were denied because of the tenant's limits or permissions, by reason.");
  for (const auto* tenant : tenants) {
    for (std::size_t k = 0; k < kAccessRefusals.size(); ++k) {
      out.sample("tangram_tenant_refused_total",
                 label("tenant", tenant->name) + ',' + label("reason", kAccessRefusals[k]),
                 tenant->refusals[k].load(std::memory_order_relaxed));
    }
  }
  out.family("tangram_tenant_requests_in_flight", "gauge", "Inference requests of a tenant that are not yet answered.");
  for (const auto* tenant : tenants) {
    out.sample("tangram_tenant_requests_in_flight", label("tenant", tenant->name),
               static_cast<double>(tenant->in_flight.load(std::memory_order_relaxed)));
  }
}

// The same counters under Triton's names, for dashboards that were made for it. Times are in microseconds there.
// Compute input and output are 0: copying is part of the run time here and not measured apart.
void triton_metrics(PrometheusText& out, const LiveWorld& world) {
  const auto& models = world.models();
  const auto& tallies = world.ledger().services();
  // Every family has the labels model and version, as Triton's have.
  const auto counter = [&](const char* name, const char* help, auto&& value) {
    out.family(name, "counter", help);
    for (std::size_t i = 0; i < models.size(); ++i) {
      out.sample(name, label("model", models[i].name) + R"(,version="1")",
                 static_cast<std::uint64_t>(value(tallies[i])));
    }
  };
  // A late answer is still a success here: Triton knows no deadlines.
  counter("nv_inference_request_success", "Number of successful inference requests, all batch sizes",
          [](const ServiceTally& t) { return t.latency.count(); });
  out.family("nv_inference_request_failure", "counter", "Number of failed inference requests, all batch sizes");
  for (std::size_t i = 0; i < models.size(); ++i) {
    // Triton's reasons: rejected by the scheduler, or failed on a slice. The indices are those of OutcomeKind.
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
  // Queued requests only: those that run are not pending.
  out.family("nv_inference_pending_request_count", "gauge",
             "Instantaneous number of pending requests awaiting execution");
  for (const auto& model : models) {
    out.sample("nv_inference_pending_request_count", label("model", model.name) + R"(,version="1")",
               waiting_of(world, model.service));
  }
}

void follow_metrics(PrometheusText& out, const LiveWorld& world, const Follower& follower) {
  const FollowReport report = follower.report(world);
  const auto one = [&](const char* name, const char* type, const char* help, auto value) {
    out.family(name, type, help);
    out.sample(name, "", value);
  };
  one("tangram_follow_plan_devices", "gauge", "Devices with a replica, by the plan in force.",
      static_cast<double>(report.plan_devices));
  // Hours of different types of devices are no sum.
  if (report.cost.device_hours.size() < 2) {
    one("tangram_follow_device_hours_total", "counter", "Hours of devices in use since the start.",
        report.device_hours);
  }
  out.family("tangram_follow_type_hours_total", "counter", "Hours of devices in use, by device type.");
  for (const auto& [type, hours] : report.cost.device_hours) {
    out.sample("tangram_follow_type_hours_total", label("type", type), hours);
  }
  if (report.cost.priced) {
    one("tangram_follow_cost_total", "counter", "What the devices in use have cost, by the prices of the fleet.",
        report.cost.cost);
    one("tangram_follow_cost_per_hour", "gauge", "What the devices in use cost an hour.", report.cost.cost_per_hour);
  }
  one("tangram_follow_moves_total", "counter", "Moves to another plan.", report.moves);
  one("tangram_follow_moves_undone_total", "counter", "Moves that were taken back.", report.moves_undone);
  one("tangram_follow_plans_refused_total", "counter", "Times that the fleet could not carry what was wanted.",
      report.plans_refused);
  one("tangram_follow_devices_lost", "gauge", "Devices that are lost and planned around.",
      static_cast<double>(report.lost.size()));
  out.family("tangram_follow_state", "gauge", "1 for the state that following is in.");
  for (const auto state : control::kFollowStates) {
    out.sample("tangram_follow_state", label("state", state), report.state == state ? 1.0 : 0.0);
  }
}

}  // namespace

// Runs on the thread of the world. The cost grows with services, slices and tenants, almost 90 samples per service.
std::string prometheus_metrics(const LiveWorld& world, const Gateway& gateway, bool triton_names) {
  PrometheusText out;
  service_metrics(out, world);
  refusal_metrics(out, world, gateway);
  slice_metrics(out, world);
  gateway_metrics(out, world, gateway);
  tenant_metrics(out, gateway.access);
  if (gateway.follower() != nullptr) follow_metrics(out, world, *gateway.follower());
  if (triton_names) triton_metrics(out, world);
  std::string text = out.take();
  if (gateway.training() != nullptr) text += training_metrics(*gateway.training());
  if (gateway.nodes() != nullptr) text += nodes_metrics(*gateway.nodes());
  return text;
}

}  // namespace tangram::serve
