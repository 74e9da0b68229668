// MIGProfiler: latency against batch and against sequence length on A100 slices.
//
// Its throughput column has a wrong unit in part of the files, so throughput is computed from latency. The two sweeps
// cross in one configuration, which is then measured twice: the first row is kept.

#include <set>
#include <tuple>

#include "base/text.h"
#include "formats/detail/limits.h"
#include "formats/detail/profiles.h"
#include "formats/importers/importers.h"
#include "formats/measurements_file.h"

namespace tangram::formats::importers {
namespace {

struct Row {
  std::string gpu;
  std::string mig_profile;
  std::string model;
  std::string task;
  std::int64_t batch_size = 1;
  std::optional<std::int64_t> seq_length;
  std::optional<double> latency_ms;
  std::optional<double> latency_std_ms;
  std::optional<double> fb_used_mib_mean;
};

template <typename Visitor>
void describe(Visitor& v, Row& c) {
  v.field("gpu", c.gpu, {.required = true}, "");
  v.field("mig_profile", c.mig_profile, {.required = true}, "");
  v.field("model", c.model, {.required = true}, "");
  v.field("task", c.task, {.required = true}, "");
  v.field("batch_size", c.batch_size, {.min = 1, .max = kBatchMax, .required = true}, "");
  v.field("seq_length", c.seq_length, {.min = 1, .max = kSizeMax, .required = true}, "");
  v.field("latency_ms", c.latency_ms, {.max = kLatencyMsMax, .above = 0, .required = true}, "");
  v.field("latency_std_ms", c.latency_std_ms, {.min = 0, .max = kLatencyMsMax}, "");
  v.field("fb_used_mib_mean", c.fb_used_mib_mean, {.min = 0, .max = 1e9}, "");
}

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
  std::set<std::tuple<std::string, std::string, std::string, std::int64_t, std::int64_t>> seen;
  const auto problems = for_each_row_of<Row>(files, [&](Row row, const RowPlace& place, Problems& bad, const Source&) {
    if (row.task.starts_with("train") != training) return;
    Measurement m = measurement_of(std::move(row));
    const auto profile = profile_name(m.device, m.mig_profile);
    if (!profile) return bad.add(place.of("mig_profile"), profile.error().message);
    m.mig_profile = *profile;
    if (seen.emplace(m.device, m.mig_profile, m.model, m.batch, m.size).second) result.push_back(std::move(m));
  });
  if (!problems.empty()) return problems.error();
  if (result.empty()) return no_rows(files);
  return write_measurements(result);
}

}  // namespace tangram::formats::importers
