// What Triton's own tools measured: perf_analyzer's table, Model Analyzer's tables, and a server's statistics.
//
// None of them says on which slice it was measured, so the target names device, MigProfile and model. A run time is
// what the server computes for one batch, without queue and network: with dynamic batching on, perf_analyzer's batch is
// not the server's, which is why the statistics, which count by the server's own batch sizes, are the best of the
// three.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/text.h"
#include "formats/detail/limits.h"
#include "formats/detail/profiles.h"
#include "formats/importers/importers.h"
#include "formats/measurements_file.h"

namespace tangram::formats::importers {
namespace {

constexpr double kMicroseconds = 1e-3;  // In milliseconds.
constexpr double kNanoseconds = 1e-6;

// A row of `perf_analyzer -f`. Times are averages in microseconds. Those of the server are there for Triton only.
struct PerfRow {
  std::optional<double> concurrency;
  std::optional<double> request_rate;
  std::optional<double> compute_input;
  std::optional<double> compute_infer;
  std::optional<double> compute_output;
};
template <typename Visitor>
void describe(Visitor& v, PerfRow& c) {
  v.field("Concurrency", c.concurrency, {.min = 0, .max = 1e9}, "");
  v.field("Request Rate", c.request_rate, {.min = 0, .max = 1e9}, "");
  v.field("Server Compute Input", c.compute_input, {.min = 0, .max = 1e12, .required = true}, "");
  v.field("Server Compute Infer", c.compute_infer, {.min = 0, .max = 1e12, .required = true}, "");
  v.field("Server Compute Output", c.compute_output, {.min = 0, .max = 1e12, .required = true}, "");
}

// A row of Model Analyzer's metrics-model-inference.csv, or of metrics-model-gpu.csv, which has the memory instead.
struct AnalyzerRow {
  std::string model;
  std::int64_t batch = 1;
  std::optional<double> concurrency;
  std::string config;
  std::string instances;
  std::optional<double> throughput;
  std::optional<double> compute_input_ms;
  std::optional<double> compute_infer_ms;
  std::optional<double> compute_output_ms;
  std::optional<double> memory_mb;
};
template <typename Visitor>
void describe(Visitor& v, AnalyzerRow& c) {
  v.field("Model", c.model, {.required = true}, "");
  v.field("Batch", c.batch, {.min = 1, .max = kBatchMax, .required = true}, "");
  v.field("Concurrency", c.concurrency, {.min = 0, .max = 1e9}, "");
  v.field("Model Config Path", c.config, {}, "");
  v.field("Instance Group", c.instances, {}, "");
  v.field("Throughput (infer/sec)", c.throughput, {.max = 1e12, .above = 0}, "");
  v.field("Server Compute Input time (ms)", c.compute_input_ms, {.min = 0, .max = kLatencyMsMax}, "");
  v.field("Server Compute Infer time (ms)", c.compute_infer_ms, {.min = 0, .max = kLatencyMsMax}, "");
  v.field("Server Compute Output time (ms)", c.compute_output_ms, {.min = 0, .max = kLatencyMsMax}, "");
  v.field("Max GPU Memory Usage (MB)", c.memory_mb, {.min = 0, .max = 1e9}, "");
}

Measurement measurement_of(const ImportTarget& target, std::int64_t batch, std::int64_t processes, double latency_ms) {
  Measurement m;
  m.device = target.device;
  m.mig_profile = target.mig_profile;
  m.model = target.model;
  m.batch = batch;
  m.size = target.size;
  m.processes = processes;
  m.latency_ms = latency_ms;
  m.throughput_per_s = 1e3 * static_cast<double>(batch * processes) / latency_ms;
  return m;
}

// The target with the device and the profile as the tables spell them. Error: something is missing or unknown.
Result<ImportTarget> checked(std::string_view format, ImportTarget target) {
  if (target.model.empty() || target.device.empty() || target.mig_profile.empty()) {
    return invalid_input(
        fmt::format("{}: the files do not say what was measured where: give --model, --device and --profile", format));
  }
  TANGRAM_TRY(target.mig_profile, profile_name(target.device, target.mig_profile));
  return target;
}

// "2:GPU" is two instances of the model on the device; anything else is one.
std::int64_t instances_of(std::string_view group) {
  const auto count = text::parse_integer(text::trim(group.substr(0, group.find(':'))));
  return count && *count >= 1 && *count <= 64 ? *count : 1;
}

std::vector<Measurement> values_of(
    std::map<std::pair<std::int64_t, std::int64_t>, std::pair<double, Measurement>> found) {
  std::vector<Measurement> rows;
  for (auto& [key, value] : found) rows.push_back(std::move(value.second));
  return rows;
}

// The compute time of a row: all of it where the server's times are there; else, of a single client, the time between
// its answers, which includes the network.
std::optional<double> latency_of(const AnalyzerRow& row) {
  if (row.compute_infer_ms) {
    return row.compute_input_ms.value_or(0) + *row.compute_infer_ms + row.compute_output_ms.value_or(0);
  }
  if (!row.throughput || row.concurrency.value_or(0) != 1) return std::nullopt;
  return 1e3 * static_cast<double>(row.batch) / *row.throughput;
}

// Milliseconds of one run, from a {"count", "ns"} of a server's statistics.
double mean_ms(const nlohmann::json& batch, const char* name) {
  const auto& part = batch.at(name);
  const double count = part.at("count").get<double>();
  return count > 0 ? part.at("ns").get<double>() / count * kNanoseconds : 0;
}

}  // namespace

// Rows with more clients at once hold the same runs, with more interference: the one with the fewest counts.
Result<std::string> perf_analyzer(const Files& files, const ImportTarget& given) {
  TANGRAM_TRY(const auto target, checked("perf-analyzer", given));
  if (files.size() > 1) {
    return invalid_input(fmt::format(
        "perf-analyzer: {} and {} do not say their batch sizes: import one file at a time, each with its --batch",
        files[0].name, files[1].name));
  }
  std::optional<std::pair<double, double>> least;  // Load and milliseconds.
  const auto problems = for_each_row_of<PerfRow>(files, [&](PerfRow row, const RowPlace&, Problems&, const Source&) {
    if (!row.compute_infer || *row.compute_infer <= 0) return;
    const double load = row.concurrency ? *row.concurrency : row.request_rate.value_or(0);
    const double ms =
        kMicroseconds * (row.compute_input.value_or(0) + *row.compute_infer + row.compute_output.value_or(0));
    if (!least || load < least->first) least = {load, ms};
  });
  if (!problems.empty()) return problems.error();
  if (!least) return no_rows(files);
  return write_measurements({measurement_of(target, target.batch, 1, least->second)});
}

Result<std::string> model_analyzer(const Files& files, const ImportTarget& given) {
  TANGRAM_TRY(const auto target, checked("model-analyzer", given));
  // By batch and instances, the row with the fewest clients, and the largest memory of any.
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<double, Measurement>> found;
  std::map<std::pair<std::int64_t, std::int64_t>, double> memory;
  const auto problems =
      for_each_row_of<AnalyzerRow>(files, [&](AnalyzerRow row, const RowPlace& place, Problems& bad, const Source&) {
        // A variant of the model is named after it: "bert_config_3".
        if (row.model != target.model && !row.model.starts_with(target.model + "_config_")) {
          return bad.add(place.of("Model"), fmt::format("the file is about {}, not {}", row.model, target.model));
        }
        const std::pair key(row.batch, instances_of(row.instances));
        if (row.memory_mb) memory[key] = std::max(memory[key], *row.memory_mb);
        const auto latency = latency_of(row);
        if (!latency || *latency <= 0) return;
        const double load = row.concurrency.value_or(0);
        const auto at = found.find(key);
        if (at != found.end() && at->second.first <= load) return;
        found[key] = {load, measurement_of(target, key.first, key.second, *latency)};
      });
  if (!problems.empty()) return problems.error();
  if (found.empty()) return no_rows(files);
  auto rows = values_of(std::move(found));
  for (auto& row : rows) {
    const auto used = memory.find({row.batch, row.processes});
    // Megabytes of a million bytes.
    if (used != memory.end() && used->second > 0) row.memory_mib = used->second * 1e6 / (1 << 20);
  }
  return write_measurements(rows);
}

// The answer of GET /v2/models/MODEL/stats: sums over all runs since the server started, by batch size.
Result<std::string> triton_statistics(const Files& files, const ImportTarget& given) {
  TANGRAM_TRY(const auto target, checked("triton-statistics", given));
  std::map<std::int64_t, Measurement> rows;
  for (const auto& file : files) {
    try {
      const auto json = nlohmann::json::parse(file.text);
      for (const auto& model : json.at("model_stats")) {
        if (model.at("name").get<std::string>() != target.model) continue;
        for (const auto& batch : model.at("batch_stats")) {
          // get() would cast 1e300, too.
          if (!batch.at("batch_size").is_number_integer()) {
            return invalid_input(fmt::format("{}: batch_size of {} is {}; expected an integer", file.name, target.model,
                                             batch.at("batch_size").dump()));
          }
          const auto size = batch.at("batch_size").get<std::int64_t>();
          const double ms =
              mean_ms(batch, "compute_input") + mean_ms(batch, "compute_infer") + mean_ms(batch, "compute_output");
          if (size < 1 || size > static_cast<std::int64_t>(kBatchMax) || !(ms > 0) || ms > kLatencyMsMax) continue;
          if (!rows.emplace(size, measurement_of(target, size, 1, ms)).second) {
            return invalid_input(fmt::format("{}: batch {} of {} occurs twice: give the statistics of one version",
                                             file.name, size, target.model));
          }
        }
      }
    } catch (const nlohmann::json::exception& problem) {
      return invalid_input(
          fmt::format("{}: expected the answer to /v2/models/{}/stats: {}", file.name, target.model, problem.what()));
    }
  }
  if (rows.empty()) {
    return invalid_input(fmt::format("{}: no run of {}: {}", files.front().name, target.model, kNoRows));
  }
  Measurements all;
  for (auto& [size, row] : rows) all.push_back(std::move(row));
  return write_measurements(all);
}

}  // namespace tangram::formats::importers
