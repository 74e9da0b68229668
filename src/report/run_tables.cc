// The tables and the JSON of `tangram simulate`.
//
// Both are made from the same RunView, so a number cannot differ between them. In tables a missing value is "-"; in
// JSON it is null. An infinite latency is "never" in tables and null in JSON, because JSON has no infinity. The keys of
// the JSON are stable: programs depend on them.

#include "report/run_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "lab/training_fleet.h"
#include "report/number_text.h"
#include "report/table.h"

namespace tangram::report {
namespace {

// Zero without arrivals, where no quantile exists.
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

std::string padding_text(const TallyView& view) {
  return view.tally.latency.empty() ? "-" : percent_text(view.padding_share);
}

// Requests of a service that joins the queue of another run in the other's batches.
std::string batch_text(const TallyView& view) {
  return view.batch_mean > 0 ? fmt::format("{:.1f}", view.batch_mean) : "-";
}

Json batch_json(const TallyView& view) { return view.batch_mean > 0 ? Json(view.batch_mean) : Json(nullptr); }

// The cells that every table has, in the order of tally_columns(). Tables insert further cells at fixed distances from
// the beginning or the end, so the two functions have to change together.
std::vector<Cell> tally_cells(const TallyView& view) {
  const sim::Tally& tally = view.tally;
  // Tenants and totals have no Slo, so their share in time has no colour.
  const bool judged = view.slo && tally.arrived > 0;
  const Style style = !judged ? Style::plain : view.kept() ? Style::good : Style::bad;
  std::vector<Cell> cells{{view.name, Style::accent},
                          std::to_string(tally.arrived),
                          {in_time_text(view), style},
                          rate_text(view.goodput_per_s)};
  for (const auto& q : kQuantiles) cells.emplace_back(tally.arrived == 0 ? "-" : ms_text(quantile(tally, q.share)));
  cells.emplace_back(count_text(tally.late));
  cells.emplace_back(count_text(tally.failed));
  cells.emplace_back(reasons_text(tally));
  return cells;
}

// "P50 MS", then "P90" to "P99.9": the unit is named once to keep the columns narrow.
std::vector<Column> tally_columns(std::string first) {
  // `first` names what a row is: a service, a tenant.
  std::vector<Column> columns{{std::move(first)}};
  for (const char* title : {"REQUESTS", "IN TIME", "GOOD/S"}) columns.push_back({title, Align::right});
  for (const auto& q : kQuantiles) {
    const bool names_unit = &q == kQuantiles.begin();
    // q.title is "p50": the letter is replaced by a capital.
    columns.push_back({fmt::format("P{}{}", q.title + 1, names_unit ? " MS" : ""), Align::right});
  }
  for (const char* title : {"LATE", "FAILED"}) columns.push_back({title, Align::right});
  // The last column may be cut on a narrow terminal, since its list of reasons can be long.
  columns.push_back({"REJECTED", Align::left, true});
  return columns;
}

std::string service_table(const RunView& run, const Terminal& terminal, int indent) {
  auto columns = tally_columns("SERVICE");
  // The Slo goes beside the share in time that it is compared with.
  columns.insert(columns.begin() + 3, {"PROMISE", Align::right});
  columns.insert(columns.end() - 1, {{"BATCH", Align::right}, {"PADDING", Align::right}, {"QUEUE", Align::right}});
  // Few plans load models on demand; the others need no column of zeros.
  const bool cold = run.total.cold_starts > 0;
  if (cold) columns.insert(columns.end() - 1, {"COLD", Align::right});
  Table table(std::move(columns));
  for (const auto& service : run.services) {
    auto cells = tally_cells(service);
    cells.insert(cells.begin() + 3, slo_text(*service.slo));
    cells.insert(cells.end() - 1, {batch_text(service), padding_text(service), depth_text(service.queue.mean)});
    if (cold) cells.insert(cells.end() - 1, count_text(service.cold_starts));
    table.add(std::move(cells));
  }
  return table.render(terminal, indent);
}

// One row for each bucket of each service. The name of the service is repeated, so that rows can be sorted and
// searched.
std::string bucket_table(const RunView& run, const Terminal& terminal, int indent) {
  auto columns = tally_columns("SERVICE");
  columns.insert(columns.begin() + 1, {"BUCKET"});
  columns.insert(columns.end() - 1, {{"BATCH", Align::right}, {"PADDING", Align::right}, {"QUEUE", Align::right}});
  Table table(std::move(columns));
  for (std::size_t s = 0; s < run.buckets.size(); ++s) {
    for (const auto& bucket : run.buckets[s]) {
      auto cells = tally_cells(bucket);
      cells.insert(cells.end() - 1, {batch_text(bucket), padding_text(bucket), depth_text(bucket.queue.mean)});
      cells[0] = {run.services[s].name, Style::accent};
      cells.insert(cells.begin() + 1, bucket.name);
      table.add(std::move(cells));
    }
  }
  return table.render(terminal, indent);
}

// "-" also where the fleet is too large for a sketch for each slice.
std::string slice_quantile_text(const SliceView& slice, double q) {
  if (!slice.latency || slice.latency->empty()) return "-";
  return ms_text(Duration(static_cast<std::int64_t>(slice.latency->quantile(q))));
}

// A slice has no column for rejected requests: a request is rejected before it has a slice.
std::string slice_table(const RunView& run, const Terminal& terminal, int indent) {
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
               percent_text(slice.busy_share),
               percent_text(slice.useful_share),
               std::to_string(slice.batches),
               std::to_string(slice.samples),
               std::to_string(answered),
               answered == 0 ? "-" : percent_text(static_cast<double>(slice.served) / static_cast<double>(answered)),
               slice_quantile_text(slice, 0.5),
               slice_quantile_text(slice, 0.99),
               slice.batches == 0 ? "-" : percent_text(slice.padding_share),
               depth_text(slice.queue_mean),
               text::join(slice.services, ", ")});
  }
  return table.render(terminal, indent);
}

// Tenants have no batch size: a batch may hold requests of several tenants.
std::string tenant_table(const RunView& run, const Terminal& terminal, int indent) {
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

// A plan without compute slices has no busy share.
std::string optional_share(const std::optional<double>& share) { return share ? percent_text(*share) : "unknown"; }

// Two lines that answer the first questions: how many in time, and how well the slices were used.
std::string totals(const RunView& run, const Terminal& terminal, int indent) {
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
      percent_text(run.padding_share));
}

// Null for an infinite latency.
Json duration_json(Duration latency) {
  return latency == Duration::max() ? Json(nullptr) : Json(to_milliseconds(latency));
}

// Queue lengths as arrivals find them.
Json queue_json(const QueueView& queue) {
  return {{"mean", queue.mean}, {"p50", queue.p50}, {"p99", queue.p99}, {"max", queue.max}};
}

// Null if nothing was answered: there is no latency and no padding then, and 0 would be a wrong measurement.
Json answered_json(const sim::Tally& tally, double value) {
  return tally.latency.empty() ? Json(nullptr) : Json(value);
}

// The object that services, buckets, tenants and the total have in common; the others add keys to it.
Json tally_json(const TallyView& view) {
  const sim::Tally& tally = view.tally;
  Json rejected;
  for (const RejectReason reason : kRejectReasons) {
    // All reasons are present, also with 0, so that a program need not test for keys.
    if (reason != RejectReason::none) rejected[std::string(to_string(reason))] = tally.rejected[index_of(reason)];
  }
  Json latency{{"mean_ms", answered_json(tally, tally.latency.mean() * 1e-6)}};
  for (const auto& q : kQuantiles) {
    latency[fmt::format("{}_ms", q.key)] = duration_json(tally.latency_quantile(q.share));
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

// Only sizes that occurred, as a list of pairs: most of the histogram is empty.
Json batch_sizes_json(const CountHistogram& sizes) {
  Json list = Json::array();
  for (std::size_t n = 0; n <= sizes.limit(); ++n) {
    if (sizes.count(n) > 0) list.push_back({{"samples", n}, {"batches", sizes.count(n)}});
  }
  // Sizes above the limit of the histogram are one entry with another key, so that they cannot be mistaken for one
  // size.
  if (sizes.overflow() > 0) list.push_back({{"samples_above", sizes.limit()}, {"batches", sizes.overflow()}});
  return list;
}

Json service_json(const RunView& run, const lab::Run& source, std::size_t s) {
  const auto& service = run.services[s];
  Json json = tally_json(service);
  // A service has the keys of every tally, its Slo, its batch sizes and its buckets.
  json["slo_latency_ms"] = to_milliseconds(service.slo->latency);
  json["slo_percentile"] = service.slo->percentile;
  json["slo_kept"] = service.counted() ? Json(service.kept()) : Json(nullptr);
  json["batch_mean_samples"] = batch_json(service);
  json["cold_starts"] = service.cold_starts;
  json["batch_sizes"] = batch_sizes_json(source.result.metrics.service_batch_sizes(s));
  Json buckets = Json::array();
  for (const auto& bucket : run.buckets[s]) {
    Json entry = tally_json(bucket);
    entry["batch_mean_samples"] = batch_json(bucket);
    // By `bucket.number`: empty buckets are left out of run.buckets, so the position is another number.
    entry["batch_sizes"] = batch_sizes_json(source.result.metrics.batch_sizes[s][bucket.number]);
    buckets.push_back(std::move(entry));
  }
  json["buckets"] = std::move(buckets);
  return json;
}

// A slice has only answered requests: one that was rejected never had a slice.
Json slice_json(const SliceView& slice) {
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
  // Without a sketch the key is absent: null would mean that the slice answered nothing.
  if (!slice.latency) return json;
  Json latency;
  for (const auto& q : kQuantiles) {
    latency[fmt::format("{}_ms", q.key)] =
        slice.latency->empty() ? Json(nullptr) : Json(static_cast<double>(slice.latency->quantile(q.share)) * 1e-6);
  }
  json["latency"] = std::move(latency);
  return json;
}

// The number of rows of offline jobs that were answered with the capacity that requests left.
std::string background_text(const lab::Run& run) {
  const auto rows = static_cast<double>(run.result.background_answered);
  return fmt::format("{}: {} rows of offline jobs were answered, {:.1f}/s\n", run.policy, rows,
                     rows / std::max(1e-9, to_seconds(run.result.end)));
}

// "protected" is `guarded` in the code, because protected is a keyword of C++.
Json ownership_json(const lab::Ownership& now) {
  return {{"training", now.training},
          {"running", now.running},
          {"protected", now.guarded},
          {"asleep", now.asleep},
          {"free", now.free}};
}

// Completion times are listed one by one as well, so that a program can compute other quantiles.
Json training_json(const lab::TrainingResult& training) {
  Json timeline = Json::array();
  for (const auto& step : training.timeline) {
    timeline.push_back(ownership_json(step));
    timeline.back()["at_s"] = step.at_s;
  }
  Json unfinished = Json::array();
  for (const auto& job : training.unfinished) unfinished.push_back(job.name);
  // If no job has ended, there is no completion time, and 0 would read as very fast.
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

// From the most to the least important table, since a reader may stop at any point.
std::string run_tables(const RunView& run, const Terminal& terminal, bool whole, int indent) {
  std::string out = totals(run, terminal, indent) + "\n" + service_table(run, terminal, indent);
  if (!whole) return out;
  // The table of buckets would repeat the table of services if each had one bucket.
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
  // Means are over jobs that ended; if some did not, the rows say so.
  const std::string ended = training.unfinished.empty() ? "" : " " + lab::ended_text(training);
  table.add({"time to complete, mean" + ended, lab::completion_text(training, training.jct_mean_s)});
  table.add({"time to complete, p99" + ended, lab::completion_text(training, training.jct_p99_s)});
  table.add({"restarts per job", fmt::format("{:.1f}", training.restarts_per_job)});
  table.add({"leases of slices", fmt::format("{}, {:.0f} s each", training.leases, training.lease_mean_s)});
  table.add({"reclaims per job", fmt::format("{}", training.reclaims)});
  // Shares of all GPU-hours of the cluster; the rows add up to the whole.
  Table owners({{"GPU-HOURS"}, {"", Align::right}, {"SHARE", Align::right}});
  const auto row = [&](const char* name, double value) {
    owners.add({name, fmt::format("{:.1f}", value), percent_text(value / std::max(hours.sum(), 1e-9))});
  };
  row("training", hours.training);
  row("running requests", hours.running);
  row("protected for requests", hours.guarded);
  row("asleep: free to lend", hours.asleep);
  row("nobody", hours.free);
  return table.render(terminal) + "\n" + owners.render(terminal);
}

std::string comparison_table(std::span<const RunView> runs, const Terminal& terminal, int indent) {
  auto columns = tally_columns("SERVICE");
  columns.insert(columns.begin() + 1, {"POLICY"});
  Table table(std::move(columns));
  const auto add = [&](const std::string& name, const RunView& run, const TallyView& tally) {
    auto cells = tally_cells(tally);
    cells[0] = {name, Style::accent};
    cells.insert(cells.begin() + 1, run.policy);
    table.add(std::move(cells));
  };
  // By service and then by policy, so that the policies of one service are next to each other.
  for (std::size_t s = 0; s < runs[0].services.size(); ++s) {
    for (const auto& run : runs) add(run.services[s].name, run, run.services[s]);
  }
  for (const auto& run : runs) add("total", run, run.total);
  return table.render(terminal, indent);
}

// The configuration is parsed, so that it is a JSON object of the output and not a string with JSON in it.
Json head_json(const ReportHead& head) {
  return {{"program", head.program},
          {"commit", head.commit},
          {"seed", head.seed},
          {"configuration", Json::parse(head.configuration)}};
}

Json run_json(const RunView& run, const lab::Run& source) {
  // The total has the shares of busy and useful time, which only exist for the fleet as a whole.
  Json total = tally_json(run.total);
  total["busy_share"] = run.busy_share ? Json(*run.busy_share) : Json(nullptr);
  total["useful_share"] = run.useful_share ? Json(*run.useful_share) : Json(nullptr);
  Json json{{"policy", run.policy},
            {"slo_kept", run.total.counted() ? Json(run.kept()) : Json(nullptr)},
            {"requests", run.requests},
            {"batches", run.batches},
            {"cold_starts", run.total.cold_starts},
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

std::string runs_text(const lab::Scenario& scenario, std::span<const lab::Run> runs, std::span<const RunView> views,
                      const Terminal& terminal) {
  // One run is shown in full; several are compared, and their slices would be too many to read.
  std::string out = views.size() == 1 ? run_tables(views[0], terminal, true) : comparison_table(views, terminal);
  for (const auto& run : runs) {
    if (!scenario.config.background.empty()) out += "\n" + background_text(run);
    if (!run.training) continue;
    out += "\n" + (runs.size() > 1 ? run.policy + "\n" : "") + training_tables(*run.training, terminal);
  }
  return out;
}

Json runs_json(const ReportHead& head, const lab::Scenario& scenario, std::span<const lab::Run> runs,
               std::span<const RunView> views) {
  Json list = Json::array();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    list.push_back(run_json(views[i], runs[i]));
    if (!scenario.config.background.empty()) list.back()["background_answered"] = runs[i].result.background_answered;
  }
  Json json = head_json(head);
  json["scenario"] = scenario.name;
  json["runs"] = std::move(list);
  return json;
}

}  // namespace tangram::report
