#include "cli/run_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "cli/build_info.h"
#include "cli/parallel.h"
#include "cli/table.h"
#include "lab/training_fleet.h"
#include "sched/policy.h"

namespace tangram::cli {
namespace {

constexpr double kQuantiles[] = {0.5, 0.9, 0.95, 0.99, 0.999};
constexpr const char* kQuantileNames[] = {"p50", "p90", "p95", "p99", "p999"};
constexpr std::uint64_t kProgressParts = 1000;  // Of one run.

// Milliseconds with three significant digits or so.
std::string ms_text(Duration latency) {
  if (latency == Duration::max()) return "never";
  const double ms = to_milliseconds(latency);
  return fmt::format("{:.{}f}", ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

std::string rate_text(double per_s) { return fmt::format("{:.{}f}", per_s, per_s < 10 ? 2 : per_s < 100 ? 1 : 0); }

std::string count_text(std::uint64_t count) { return count == 0 ? "-" : std::to_string(count); }

Duration quantile(const sim::Tally& tally, double q) {
  return tally.arrived == 0 ? Duration{} : tally.latency_quantile(q);
}

// "too_late 12, queue_full 3".
std::string reasons_text(const sim::Tally& tally) {
  std::vector<std::string> parts;
  for (const RejectReason reason : kRejectReasons) {
    const std::uint64_t count = tally.rejected[index_of(reason)];
    if (count > 0) parts.push_back(fmt::format("{} {}", to_string(reason), count));
  }
  return parts.empty() ? "-" : text::join(parts, ", ");
}

// Of no request, no share was in time.
std::string in_time_text(const lab::TallyView& view) {
  return view.counted() ? share_text(view.tally.slo_attainment()) : "-";
}

std::string padding_text(const lab::TallyView& view) {
  return view.tally.latency.empty() ? "-" : share_text(view.padding_share);
}

std::string depth_text(double depth) { return fmt::format("{:.{}f}", depth, depth < 100 ? 1 : 0); }

std::vector<Cell> tally_cells(const lab::TallyView& view) {
  const sim::Tally& tally = view.tally;
  const bool judged = view.slo && tally.arrived > 0;
  const Style style = !judged ? Style::plain : view.kept() ? Style::good : Style::bad;
  std::vector<Cell> cells{{view.name, Style::accent},
                          std::to_string(tally.arrived),
                          {in_time_text(view), style},
                          rate_text(view.goodput_per_s)};
  for (const double q : kQuantiles) cells.emplace_back(tally.arrived == 0 ? "-" : ms_text(quantile(tally, q)));
  cells.emplace_back(count_text(tally.late));
  cells.emplace_back(count_text(tally.failed));
  cells.emplace_back(reasons_text(tally));
  return cells;
}

std::vector<Column> tally_columns(std::string first) {
  return {{std::move(first)},       {"REQUESTS", Align::right}, {"IN TIME", Align::right},
          {"GOOD/S", Align::right}, {"P50 MS", Align::right},   {"P90", Align::right},
          {"P95", Align::right},    {"P99", Align::right},      {"P99.9", Align::right},
          {"LATE", Align::right},   {"FAILED", Align::right},   {"REJECTED", Align::left, true}};
}

std::string service_table(const lab::RunView& run, const Terminal& terminal, int indent) {
  auto columns = tally_columns("SERVICE");
  columns.insert(columns.begin() + 3, {"PROMISE", Align::right});
  columns.insert(columns.end() - 1, {{"BATCH", Align::right}, {"PADDING", Align::right}, {"QUEUE", Align::right}});
  Table table(std::move(columns));
  for (const auto& service : run.services) {
    auto cells = tally_cells(service);
    cells.insert(cells.begin() + 3, fmt::format("p{} {} ms", text::shortest(service.slo->percentile),
                                                text::shortest(to_milliseconds(service.slo->latency))));
    cells.insert(cells.end() - 1,
                 {fmt::format("{:.1f}", service.batch_mean), padding_text(service), depth_text(service.queue.mean)});
    table.add(std::move(cells));
  }
  return table.render(terminal, indent);
}

std::string bucket_table(const lab::RunView& run, const Terminal& terminal, int indent) {
  auto columns = tally_columns("SERVICE");
  columns.insert(columns.begin() + 1, {"BUCKET"});
  columns.insert(columns.end() - 1, {{"BATCH", Align::right}, {"PADDING", Align::right}, {"QUEUE", Align::right}});
  Table table(std::move(columns));
  for (std::size_t s = 0; s < run.buckets.size(); ++s) {
    for (const auto& bucket : run.buckets[s]) {
      auto cells = tally_cells(bucket);
      cells.insert(cells.end() - 1,
                   {fmt::format("{:.1f}", bucket.batch_mean), padding_text(bucket), depth_text(bucket.queue.mean)});
      cells[0] = {run.services[s].name, Style::accent};
      cells.insert(cells.begin() + 1, bucket.name);
      table.add(std::move(cells));
    }
  }
  return table.render(terminal, indent);
}

std::string slice_quantile_text(const lab::SliceView& slice, double q) {
  if (!slice.latency || slice.latency->empty()) return "-";
  return ms_text(Duration(static_cast<std::int64_t>(slice.latency->quantile(q))));
}

std::string slice_table(const lab::RunView& run, const Terminal& terminal, int indent) {
  Table table({{"DEVICE"},
               {"SLICE"},
               {"BUSY", Align::right},
               {"USEFUL", Align::right},
               {"BATCHES", Align::right},
               {"SAMPLES", Align::right},
               {"ANSWERED", Align::right},
               {"IN TIME", Align::right},
               {"P50 MS", Align::right},
               {"P99", Align::right},
               {"PADDING", Align::right},
               {"QUEUE", Align::right},
               {"SERVES", Align::left, true}});
  for (const auto& slice : run.slices) {
    const std::uint64_t answered = slice.served + slice.late;
    table.add({{slice.device, Style::accent},
               slice.slice + (slice.first_plan ? "" : " (later)"),
               share_text(slice.busy_share),
               share_text(slice.useful_share),
               std::to_string(slice.batches),
               std::to_string(slice.samples),
               std::to_string(answered),
               answered == 0 ? "-" : share_text(static_cast<double>(slice.served) / static_cast<double>(answered)),
               slice_quantile_text(slice, 0.5),
               slice_quantile_text(slice, 0.99),
               slice.batches == 0 ? "-" : share_text(slice.padding_share),
               depth_text(slice.queue_mean),
               text::join(slice.services, ", ")});
  }
  return table.render(terminal, indent);
}

std::string tenant_table(const lab::RunView& run, const Terminal& terminal, int indent) {
  auto columns = tally_columns("TENANT");
  columns.insert(columns.end() - 1, {{"PADDING", Align::right}, {"QUEUE", Align::right}});
  Table table(std::move(columns));
  for (const auto& tenant : run.tenants) {
    auto cells = tally_cells(tenant);
    cells.insert(cells.end() - 1, {padding_text(tenant), depth_text(tenant.queue.mean)});
    table.add(std::move(cells));
  }
  return table.render(terminal, indent);
}

std::string optional_share(const std::optional<double>& share) { return share ? share_text(*share) : "not known"; }

std::string totals(const lab::RunView& run, const Terminal& terminal, int indent) {
  const std::string begin(static_cast<std::size_t>(indent), ' ');
  const auto& total = run.total;
  return fmt::format(
      "{}{}: {} requests in {:.1f} s of virtual time, {} in time, goodput {}/s\n"
      "{}compute slices busy {}, with useful work {}; padding {} of the input\n",
      begin, paint(terminal, Style::bold, run.policy), total.tally.arrived, run.counted_s,
      paint(terminal,
            !total.counted() ? Style::plain
            : run.kept()     ? Style::good
                             : Style::bad,
            in_time_text(total)),
      rate_text(total.goodput_per_s), begin, optional_share(run.busy_share), optional_share(run.useful_share),
      share_text(run.padding_share));
}

Json duration_json(Duration latency) {
  return latency == Duration::max() ? Json(nullptr) : Json(to_milliseconds(latency));
}

Json queue_json(const lab::QueueView& queue) {
  return {{"mean", queue.mean}, {"p50", queue.p50}, {"p99", queue.p99}, {"max", queue.max}};
}

// Nothing was answered: there is no latency and no padding to speak of.
Json answered_json(const sim::Tally& tally, double value) {
  return tally.latency.empty() ? Json(nullptr) : Json(value);
}

Json tally_json(const lab::TallyView& view) {
  const sim::Tally& tally = view.tally;
  Json rejected;
  for (const RejectReason reason : kRejectReasons) {
    if (reason != RejectReason::none) rejected[std::string(to_string(reason))] = tally.rejected[index_of(reason)];
  }
  Json latency{{"mean_ms", answered_json(tally, tally.latency.mean() * 1e-6)}};
  for (std::size_t i = 0; i < std::size(kQuantiles); ++i) {
    latency[fmt::format("{}_ms", kQuantileNames[i])] = duration_json(tally.latency_quantile(kQuantiles[i]));
  }
  latency["max_ms"] = answered_json(tally, static_cast<double>(tally.latency.max()) * 1e-6);
  return {{"name", view.name},
          {"requests", tally.arrived},
          {"served", tally.served},
          {"late", tally.late},
          {"failed", tally.failed},
          {"rejected", tally.rejected_total()},
          {"rejected_by_reason", std::move(rejected)},
          {"slo_attainment", view.counted() ? Json(tally.slo_attainment()) : Json(nullptr)},
          {"arrived_per_s", view.arrived_per_s},
          {"goodput_per_s", view.goodput_per_s},
          {"latency", std::move(latency)},
          {"padding_share", answered_json(tally, view.padding_share)},
          {"queue_depth", queue_json(view.queue)}};
}

Json batch_sizes_json(const CountHistogram& sizes) {
  Json list = Json::array();
  for (std::size_t n = 0; n <= sizes.limit(); ++n) {
    if (sizes.count(n) > 0) list.push_back({{"samples", n}, {"batches", sizes.count(n)}});
  }
  if (sizes.overflow() > 0) list.push_back({{"samples_above", sizes.limit()}, {"batches", sizes.overflow()}});
  return list;
}

Json service_json(const lab::RunView& run, const lab::Run& source, std::size_t s) {
  const auto& service = run.services[s];
  Json json = tally_json(service);
  json["slo_latency_ms"] = to_milliseconds(service.slo->latency);
  json["slo_percentile"] = service.slo->percentile;
  json["slo_kept"] = service.counted() ? Json(service.kept()) : Json(nullptr);
  json["batch_mean_samples"] = service.batch_mean;
  json["batch_sizes"] = batch_sizes_json(source.result.metrics.service_batch_sizes(s));
  Json buckets = Json::array();
  for (const auto& bucket : run.buckets[s]) {
    Json entry = tally_json(bucket);
    entry["batch_mean_samples"] = bucket.batch_mean;
    entry["batch_sizes"] = batch_sizes_json(source.result.metrics.batch_sizes[s][bucket.number]);
    buckets.push_back(std::move(entry));
  }
  json["buckets"] = std::move(buckets);
  return json;
}

// Of a slice only what it answered is known: what was refused had none.
Json slice_json(const lab::SliceView& slice) {
  const std::uint64_t answered = slice.served + slice.late;
  Json json{{"device", slice.device},
            {"slice", slice.slice},
            {"later_plan", !slice.first_plan},
            {"services", slice.services},
            {"compute_slices", slice.compute_slices},
            {"busy_share", slice.busy_share},
            {"useful_share", slice.useful_share},
            {"batches", slice.batches},
            {"samples", slice.samples},
            {"batch_mean_samples", slice.batches == 0
                                       ? Json(nullptr)
                                       : Json(static_cast<double>(slice.samples) / static_cast<double>(slice.batches))},
            {"served", slice.served},
            {"late", slice.late},
            {"in_time_share",
             answered == 0 ? Json(nullptr) : Json(static_cast<double>(slice.served) / static_cast<double>(answered))},
            {"goodput_per_s", slice.goodput_per_s},
            {"padding_share", slice.batches == 0 ? Json(nullptr) : Json(slice.padding_share)},
            {"queue_depth", {{"mean", slice.queue_mean}, {"max", slice.queue_max}}}};
  if (!slice.latency) return json;
  Json latency;
  for (std::size_t i = 0; i < std::size(kQuantiles); ++i) {
    latency[fmt::format("{}_ms", kQuantileNames[i])] =
        slice.latency->empty() ? Json(nullptr)
                               : Json(static_cast<double>(slice.latency->quantile(kQuantiles[i])) * 1e-6);
  }
  json["latency"] = std::move(latency);
  return json;
}

lab::Run simulate(const lab::Scenario& scenario, sim::SimulationConfig config, const RunDetail& detail) {
  const std::size_t steps = detail.timeline_steps;
  if (steps > 0 && config.duration == Duration::max()) {
    // Every arrival comes before the end, so a second run that is told the end makes the same ones.
    config.timeline_steps = 0;
    const auto recording = std::exchange(config.recording, nullptr);
    config.duration = sim::simulate(scenario.deployment, scenario.workload, config).end.time_since_epoch();
    config.recording = recording;
  }
  config.timeline_steps = steps;
  config.batches_recorded_max = detail.batches_max;
  config.log_decisions = detail.decisions;
  const std::string policy = config.scheduler.policy;
  if (!scenario.training) return {policy, sim::simulate(scenario.deployment, scenario.workload, config)};
  auto training = std::make_shared<lab::TrainingResult>();
  auto result = lab::simulate_with_training(*scenario.training,
                                            {scenario.plan, scenario.workload, scenario.deployment, *scenario.latency},
                                            std::move(config), training.get());
  return {policy, std::move(result), std::move(training)};
}

Json ownership_json(const lab::Ownership& now) {
  return {{"training", now.training},
          {"running", now.running},
          {"protected", now.guarded},
          {"asleep", now.asleep},
          {"free", now.free}};
}

Json training_json(const lab::TrainingResult& training) {
  Json timeline = Json::array();
  for (const auto& step : training.timeline) {
    timeline.push_back(ownership_json(step));
    timeline.back()["at_s"] = step.at_s;
  }
  Json unfinished = Json::array();
  for (const auto& job : training.unfinished) unfinished.push_back(job.name);
  // Where no job ended, none has a time.
  const auto of_ended = [&](double seconds) { return training.jcts_s.empty() ? Json(nullptr) : Json(seconds); };
  return {{"jobs", training.jobs},
          {"jobs_ended", training.jcts_s.size()},
          {"jct_mean_s", of_ended(training.jct_mean_s)},
          {"jct_p50_s", of_ended(training.jct_p50_s)},
          {"jct_p99_s", of_ended(training.jct_p99_s)},
          {"jobs_unfinished", std::move(unfinished)},
          {"jcts_s", training.jcts_s},
          {"restarts_per_job", training.restarts_per_job},
          {"rounds", training.rounds},
          {"leases", training.leases},
          {"lease_mean_s", training.lease_mean_s},
          {"reclaims", training.reclaims},
          {"gpus", training.gpus},
          {"gpu_hours", ownership_json(training.gpu_hours)},
          {"gpu_ownership", std::move(timeline)}};
}

}  // namespace

std::string share_text(double share) { return lab::percent_text(share); }

Result<Nothing> check_policies(const std::vector<std::string>& policies) {
  std::vector<std::string> known;
  for (const auto& policy : sched::policies()) known.emplace_back(policy.name);
  std::set<std::string> seen;
  for (const auto& policy : policies) {
    if (sched::find_policy(policy) == nullptr) {
      const auto near = text::nearest(policy, known);
      return Error{ErrorCode::invalid,
                   fmt::format("unknown policy \"{}\"{}; known: {}", policy,
                               near ? fmt::format(", did you mean {}?", *near) : "", text::join(known, ", "))};
    }
    if (seen.insert(policy).second) continue;
    return Error{ErrorCode::invalid, fmt::format("the policy {} is named twice; name each once", policy)};
  }
  return Nothing{};
}

lab::ReportHead report_head(const lab::Scenario& scenario) {
  const BuildInfo build = build_info();
  return {"tangram " + build.version, build.commit, lab::effective_configuration(scenario), scenario.config.seed};
}

void warn(Session& session, const lab::Scenario& scenario) {
  for (const auto& warning : scenario.warnings) session.warn(warning);
}

std::vector<lab::Run> run_policies(Session& session, const lab::Scenario& scenario,
                                   const std::vector<std::string>& policies, const RunDetail& detail) {
  std::vector<lab::Run> runs(policies.size());
  std::vector<std::atomic<std::uint64_t>> done(policies.size());
  Progress progress = session.progress("simulating", kProgressParts * policies.size());
  run_all(
      policies.size(),
      [&](std::size_t i) {
        sim::SimulationConfig config = scenario.config;
        config.scheduler.policy = policies[i];
        config.progress = [&done, i](double share) {
          done[i] = std::max(done[i].load(), static_cast<std::uint64_t>(share * kProgressParts));
          return true;
        };
        runs[i] = simulate(scenario, std::move(config), detail);
        done[i] = kProgressParts;
      },
      [&] {
        std::uint64_t sum = 0;
        for (const auto& part : done) sum += part;
        progress.set(sum);
      });
  return runs;
}

std::string run_tables(const lab::RunView& run, const Terminal& terminal, bool whole, int indent) {
  std::string out = totals(run, terminal, indent) + "\n" + service_table(run, terminal, indent);
  if (!whole) return out;
  const bool bucketed = std::ranges::any_of(run.buckets, [](const auto& buckets) { return buckets.size() > 1; });
  if (bucketed) out += "\n" + bucket_table(run, terminal, indent);
  out += "\n" + slice_table(run, terminal, indent);
  if (!run.tenants.empty()) out += "\n" + tenant_table(run, terminal, indent);
  return out;
}

std::string training_tables(const lab::TrainingResult& training, const Terminal& terminal) {
  const auto& hours = training.gpu_hours;
  Table table({{"TRAINING"}, {"", Align::right}});
  table.add({"jobs ended", fmt::format("{} of {}", training.jcts_s.size(), training.jobs)});
  if (!training.unfinished.empty()) table.add({"did not end", lab::unfinished_text(training)});
  const std::string ended = training.unfinished.empty() ? "" : " " + lab::ended_text(training);
  table.add({"time to complete, mean" + ended, lab::completion_text(training, training.jct_mean_s)});
  table.add({"time to complete, p99" + ended, lab::completion_text(training, training.jct_p99_s)});
  table.add({"restarts a job", fmt::format("{:.1f}", training.restarts_per_job)});
  table.add({"leases of slices", fmt::format("{}, {:.0f} s each", training.leases, training.lease_mean_s)});
  table.add({"reclaims from a job", fmt::format("{}", training.reclaims)});
  Table owners({{"GPU-HOURS"}, {"", Align::right}, {"SHARE", Align::right}});
  const auto row = [&](const char* name, double value) {
    owners.add({name, fmt::format("{:.1f}", value), share_text(value / std::max(hours.sum(), 1e-9))});
  };
  row("training", hours.training);
  row("running requests", hours.running);
  row("protected for requests", hours.guarded);
  row("asleep: free to lend", hours.asleep);
  row("nobody", hours.free);
  return table.render(terminal) + "\n" + owners.render(terminal);
}

std::string comparison_table(std::span<const lab::RunView> runs, const Terminal& terminal, int indent) {
  auto columns = tally_columns("SERVICE");
  columns.insert(columns.begin() + 1, {"POLICY"});
  Table table(std::move(columns));
  const auto add = [&](const std::string& name, const lab::RunView& run, const lab::TallyView& tally) {
    auto cells = tally_cells(tally);
    cells[0] = {name, Style::accent};
    cells.insert(cells.begin() + 1, run.policy);
    table.add(std::move(cells));
  };
  for (std::size_t s = 0; s < runs[0].services.size(); ++s) {
    for (const auto& run : runs) add(run.services[s].name, run, run.services[s]);
  }
  for (const auto& run : runs) add("total", run, run.total);
  return table.render(terminal, indent);
}

Json head_json(const lab::ReportHead& head) {
  return {{"program", head.program},
          {"commit", head.commit},
          {"seed", head.seed},
          {"configuration", Json::parse(head.configuration)}};
}

Json run_json(const lab::RunView& run, const lab::Run& source) {
  Json total = tally_json(run.total);
  total["busy_share"] = run.busy_share ? Json(*run.busy_share) : Json(nullptr);
  total["useful_share"] = run.useful_share ? Json(*run.useful_share) : Json(nullptr);
  Json json{{"policy", run.policy},
            {"slo_kept", run.total.counted() ? Json(run.kept()) : Json(nullptr)},
            {"requests", run.requests},
            {"batches", run.batches},
            {"events", run.events},
            {"end_s", run.end_s},
            {"counted_s", run.counted_s},
            {"digest", fmt::format("{:016x}", run.digest)},
            {"queue_depth", queue_json(run.total.queue)},
            {"total", std::move(total)}};
  Json services = Json::array();
  for (std::size_t s = 0; s < run.services.size(); ++s) services.push_back(service_json(run, source, s));
  json["services"] = std::move(services);
  Json slices = Json::array();
  for (const auto& slice : run.slices) slices.push_back(slice_json(slice));
  json["slices"] = std::move(slices);
  Json tenants = Json::array();
  for (const auto& tenant : run.tenants) tenants.push_back(tally_json(tenant));
  json["tenants"] = std::move(tenants);
  if (source.training) json["training"] = training_json(*source.training);
  return json;
}

}  // namespace tangram::cli
