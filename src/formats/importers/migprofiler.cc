// MIGProfiler: latency against batch and against sequence length on A100 slices.
//
// Part of the files have a wrong unit in the throughput column (they divide 3 by the latency, whatever the batch was),
// so throughput is computed from the latency. A throughput that fits neither the right unit nor this one contradicts
// the latency, and the row is refused. The two sweeps cross in one configuration, which is then measured twice: the
// first row is kept. Two different rows of one sweep are refused, because the file does not say which of them is right.

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <tuple>

#include "base/text.h"
#include "formats/detail/limits.h"
#include "formats/detail/profiles.h"
#include "formats/importers/importers.h"
#include "formats/measurements_file.h"

namespace tangram::formats::importers {
namespace {

constexpr double kThroughputTolerance = 0.1;  // Relative; published files agree within a thousandth.
constexpr double kWrongUnitBatch = 3;         // What part of the files divides by the latency instead of the batch.
constexpr double kSweepsRatioMax = 2;         // Of the latencies of one configuration in two sweeps.

// One measured configuration. A blank latency means that it ran out of memory.
struct Row {
  std::string gpu;
  std::string mig_profile;
  std::string model;
  std::optional<double> total_params;
  std::string task;
  std::string sweep;
  std::int64_t batch_size = 1;
  std::optional<std::int64_t> seq_length;
  std::optional<double> latency_ms;
  std::optional<double> latency_std_ms;
  std::optional<double> throughput_samples_s;
  std::optional<double> fb_used_mib_mean;
};

template <typename Visitor>
void describe(Visitor& v, Row& c) {
  v.field("gpu", c.gpu, {.required = true}, "");
  v.field("mig_profile", c.mig_profile, {.required = true}, "");
  v.field("model", c.model, {.required = true}, "");
  v.field("total_params", c.total_params, {.min = 0}, "");
  v.field("task", c.task, {.required = true}, "");
  v.field("sweep", c.sweep, {}, "");
  v.field("batch_size", c.batch_size, {.min = 1, .max = kBatchMax, .required = true}, "");
  v.field("seq_length", c.seq_length, {.min = 1, .max = kSizeMax, .required = true}, "");
  v.field("latency_ms", c.latency_ms, {.max = kLatencyMsMax, .above = 0, .required = true}, "");
  v.field("latency_std_ms", c.latency_std_ms, {.min = 0, .max = kLatencyMsMax}, "");
  v.field("throughput_samples_s", c.throughput_samples_s, {.above = 0}, "");
  v.field("fb_used_mib_mean", c.fb_used_mib_mean, {.min = 0, .max = 1e9}, "");
}

bool is_training(const Row& row) { return row.task.starts_with("train"); }

bool near(double value, double expected) { return std::abs(value - expected) <= kThroughputTolerance * expected; }

// True if the throughput follows from the latency, in the right unit or in the known wrong one.
bool agrees(const Row& row) {
  if (!row.latency_ms || !row.throughput_samples_s) return true;
  const double batches_per_s = 1e3 / *row.latency_ms;
  return near(*row.throughput_samples_s, batches_per_s * static_cast<double>(row.batch_size)) ||
         near(*row.throughput_samples_s, batches_per_s * kWrongUnitBatch);
}

// The first row of a configuration.
struct First {
  std::string sweep;
  std::optional<double> latency_ms;
  std::string place;
};

// True if a second row of a configuration may be dropped: the sweeps cross in it, or it repeats the first. Latencies of
// two sweeps may differ by a factor of kSweepsRatioMax; out of memory in one and a latency in the other never agree.
bool repeats(const First& first, const Row& row) {
  if (first.latency_ms == row.latency_ms) return true;
  if (!row.sweep.empty() && first.sweep == row.sweep) return false;
  if (!first.latency_ms || !row.latency_ms) return false;
  const double ratio = *first.latency_ms / *row.latency_ms;
  return ratio <= kSweepsRatioMax && 1 / ratio <= kSweepsRatioMax;
}

std::string latency_text(const std::optional<double>& latency_ms) {
  return latency_ms ? fmt::format("{} ms", *latency_ms) : "out of memory";
}

std::string contradiction(const First& first, const Row& row) {
  return fmt::format("latency_ms {} contradicts {} of the same configuration in {}", latency_text(row.latency_ms),
                     latency_text(first.latency_ms), first.place);
}

std::string disagreement(const Row& row) {
  return fmt::format("throughput_samples_s {} contradicts latency_ms {}: batch {} in that time is {:.6g} a second",
                     *row.throughput_samples_s, *row.latency_ms, row.batch_size,
                     1e3 * static_cast<double>(row.batch_size) / *row.latency_ms);
}

// Without a latency the run was out of memory, and spread and throughput stay empty.
Measurement measurement_of(Row row) {
  Measurement m;
  m.device = text::lower(row.gpu);
  m.mig_profile = std::move(row.mig_profile);
  m.model = std::move(row.model);
  m.batch = row.batch_size;
  m.size = row.seq_length.value_or(1);
  m.latency_ms = row.latency_ms;
  m.memory_mib = row.fb_used_mib_mean;
  if (row.latency_ms) {
    m.latency_spread_ms = row.latency_std_ms;
    m.throughput_per_s = 1e3 * static_cast<double>(row.batch_size) / *row.latency_ms;
  }
  return m;
}

}  // namespace

Result<std::string> migprofiler(const Files& files, std::string_view selection) {
  const bool training = selection == "train";
  if (!training && !selection.empty()) return unknown_selection("migprofiler", selection, {"train"});
  Measurements result;
  std::map<std::tuple<std::string, std::string, std::string, std::int64_t, std::int64_t>, First> seen;
  const auto use = [&](Row row, const RowPlace& place, Problems& bad, const Source& file) {
    if (!is_training(row) && !row.task.starts_with("infer")) {
      return bad.add(place.of("task"), fmt::format("task must be infer or train, not \"{}\"", row.task));
    }
    // Before the choice of rows, so that a broken file is reported whichever part of it is imported.
    if (!agrees(row)) return bad.add(place.of("throughput_samples_s"), disagreement(row));
    // Training and inference are different work; one import takes one of them.
    if (is_training(row) != training) return;
    Measurement m = measurement_of(row);
    const auto profile = profile_name(m.device, m.mig_profile);
    if (!profile) return bad.add(place.of("mig_profile"), profile.error().message);
    // The canonical name, so that two spellings of one profile count as one configuration.
    m.mig_profile = *profile;
    const First first{row.sweep, row.latency_ms, fmt::format("{}:{}", file.name, place.line())};
    const auto [at, is_new] = seen.try_emplace({m.device, m.mig_profile, m.model, m.batch, m.size}, first);
    if (is_new) return result.push_back(std::move(m));
    if (!repeats(at->second, row)) bad.add(place.of("latency_ms"), contradiction(at->second, row));
  };
  const auto problems = for_each_row_of<Row>(files, use);
  if (!problems.empty()) return problems.error();
  if (result.empty()) return no_rows(files);
  return write_measurements(result);
}

}  // namespace tangram::formats::importers
