#include "cli/run_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/build_info.h"
#include "cli/parallel.h"
#include "cli/table.h"

namespace tangram::cli {
namespace {

constexpr double kQuantiles[] = {0.5, 0.9, 0.95, 0.99, 0.999};
constexpr const char* kQuantileNames[] = {"p50", "p90", "p95", "p99", "p999"};
constexpr const char* kReasons[] = {"none", "too_late", "queue_full", "too_large", "no_capacity"};
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
  for (std::size_t i = 0; i < tally.rejected.size(); ++i) {
    if (tally.rejected[i] > 0) parts.push_back(fmt::format("{} {}", kReasons[i], tally.rejected[i]));
  }
  return parts.empty() ? "-" : text::join(parts, ", ");
}

std::vector<Cell> tally_cells(const lab::TallyView& view) {
  const sim::Tally& tally = view.tally;
  const bool judged = view.slo && tally.arrived > 0;
  std::vector<Cell> cells{{view.name, Style::accent},
                          std::to_string(tally.arrived),
                          {share_text(tally.slo_attainment()), !judged       ? Style::plain
                                                               : view.kept() ? Style::good
                                                                             : Style::bad},
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
  columns.insert(columns.end() - 1, {{"BATCH", Align::right}, {"PADDING", Align::right}});
  Table table(std::move(columns));
  for (const auto& service : run.services) {
    auto cells = tally_cells(service);
    cells.insert(cells.begin() + 3, fmt::format("p{} {} ms", text::shortest(service.slo->percentile),
                                                text::shortest(to_milliseconds(service.slo->latency))));
    cells.insert(cells.end() - 1, {fmt::format("{:.1f}", service.batch_mean), share_text(service.padding_share)});
    table.add(std::move(cells));
  }
  return table.render(terminal, indent);
}

std::string bucket_table(const lab::RunView& run, const Terminal& terminal, int indent) {
  auto columns = tally_columns("SERVICE");
  columns.insert(columns.begin() + 1, {"BUCKET"});
  Table table(std::move(columns));
  for (std::size_t s = 0; s < run.buckets.size(); ++s) {
    for (const auto& bucket : run.buckets[s]) {
      auto cells = tally_cells(bucket);
      cells[0] = {run.services[s].name, Style::accent};
      cells.insert(cells.begin() + 1, bucket.name);
      table.add(std::move(cells));
    }
  }
  return table.render(terminal, indent);
}

std::string slice_table(const lab::RunView& run, const Terminal& terminal, int indent) {
  Table table({{"DEVICE"},
               {"SLICE"},
               {"BUSY", Align::right},
               {"USEFUL", Align::right},
               {"BATCHES", Align::right},
               {"SAMPLES", Align::right},
               {"SERVES", Align::left, true}});
  for (const auto& slice : run.slices) {
    table.add({{slice.device, Style::accent},
               slice.slice,
               share_text(slice.busy_share),
               share_text(slice.useful_share),
               std::to_string(slice.batches),
               std::to_string(slice.samples),
               text::join(slice.services, ", ")});
  }
  return table.render(terminal, indent);
}

std::string tenant_table(const lab::RunView& run, const Terminal& terminal, int indent) {
  Table table(tally_columns("TENANT"));
  for (const auto& tenant : run.tenants) table.add(tally_cells(tenant));
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
      paint(terminal, run.kept() ? Style::good : Style::bad, share_text(total.tally.slo_attainment())),
      rate_text(total.goodput_per_s), begin, optional_share(run.busy_share), optional_share(run.useful_share),
      share_text(run.padding_share));
}

Json duration_json(Duration latency) {
  return latency == Duration::max() ? Json(nullptr) : Json(to_milliseconds(latency));
}

Json tally_json(const lab::TallyView& view) {
  const sim::Tally& tally = view.tally;
  Json rejected;
  for (std::size_t i = 1; i < tally.rejected.size(); ++i) rejected[kReasons[i]] = tally.rejected[i];
  Json latency{{"mean_ms", tally.latency.mean() * 1e-6}};
  for (std::size_t i = 0; i < std::size(kQuantiles); ++i) {
    latency[fmt::format("{}_ms", kQuantileNames[i])] = duration_json(quantile(tally, kQuantiles[i]));
  }
  latency["max_ms"] = static_cast<double>(tally.latency.max()) * 1e-6;
  return {{"name", view.name},
          {"requests", tally.arrived},
          {"served", tally.served},
          {"late", tally.late},
          {"failed", tally.failed},
          {"rejected", tally.rejected_total()},
          {"rejected_by_reason", std::move(rejected)},
          {"slo_attainment", tally.slo_attainment()},
          {"arrived_per_s", view.arrived_per_s},
          {"goodput_per_s", view.goodput_per_s},
          {"latency", std::move(latency)}};
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
  json["slo_kept"] = service.kept();
  json["batch_mean_samples"] = service.batch_mean;
  json["padding_share"] = service.padding_share;
  json["batch_sizes"] = batch_sizes_json(source.result.metrics.batch_sizes[s]);
  Json buckets = Json::array();
  for (const auto& bucket : run.buckets[s]) buckets.push_back(tally_json(bucket));
  json["buckets"] = std::move(buckets);
  return json;
}

Json slice_json(const lab::SliceView& slice) {
  return {{"device", slice.device},         {"slice", slice.slice},
          {"services", slice.services},     {"compute_slices", slice.compute_slices},
          {"busy_share", slice.busy_share}, {"useful_share", slice.useful_share},
          {"batches", slice.batches},       {"samples", slice.samples}};
}

sim::SimulationResult simulate(const lab::Scenario& scenario, sim::SimulationConfig config, const RunDetail& detail) {
  const std::size_t steps = detail.timeline_steps;
  if (steps > 0 && config.duration == Duration::max()) {
    // Every arrival comes before the end, so a second run that is told the end makes the same ones.
    config.timeline_steps = 0;
    config.duration = sim::simulate(scenario.deployment, scenario.workload, config).end.time_since_epoch();
  }
  config.timeline_steps = steps;
  config.batches_recorded_max = detail.batches_max;
  config.log_decisions = detail.decisions;
  return sim::simulate(scenario.deployment, scenario.workload, config);
}

}  // namespace

std::string share_text(double share) {
  const double percent = 100 * share;
  if (percent == 0 || percent == 100) return fmt::format("{:.0f} %", percent);
  // A share just below the whole must not read as the whole.
  if (percent > 99.9) return fmt::format("{:.3f} %", std::min(percent, 99.999));
  return fmt::format("{:.{}f} %", percent, percent > 99 ? 2 : 1);
}

lab::ReportHead report_head(const lab::Scenario& scenario) {
  const BuildInfo build = build_info();
  return {"tangram " + build.version, build.commit, lab::effective_configuration(scenario), scenario.config.seed};
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
        runs[i] = {policies[i], simulate(scenario, std::move(config), detail)};
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
  total["padding_share"] = run.padding_share;
  total["busy_share"] = run.busy_share ? Json(*run.busy_share) : Json(nullptr);
  total["useful_share"] = run.useful_share ? Json(*run.useful_share) : Json(nullptr);
  const QuantileSketch& depth = source.result.metrics.queue_depth;
  Json json{
      {"policy", run.policy},
      {"slo_kept", run.kept()},
      {"requests", run.requests},
      {"batches", run.batches},
      {"events", run.events},
      {"end_s", run.end_s},
      {"counted_s", run.counted_s},
      {"digest", fmt::format("{:016x}", run.digest)},
      {"queue_depth",
       {{"mean", depth.mean()}, {"p50", depth.quantile(0.5)}, {"p99", depth.quantile(0.99)}, {"max", depth.max()}}},
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
  return json;
}

}  // namespace tangram::cli
