// MISO (SoCC'22): how long one training iteration takes on each slice of an A100-40GB.
//
// Configurations that did not fit into memory are missing from the files, so no row of the output is out of memory. The
// standard deviation is estimated from the range between the 5th and the 95th percentile, which is 3.29 standard
// deviations of a normal distribution.

#include "formats/detail/limits.h"
#include "formats/detail/profiles.h"
#include "formats/importers/importers.h"
#include "formats/measurements_file.h"

namespace tangram::formats::importers {
namespace {

constexpr const char* kDevice = "a100-40gb";
constexpr double kSpreadsInRange = 3.29;

struct Row {
  std::string mig_profile;
  std::string model;
  std::int64_t batch_size = 1;
  double iter_s_mean = 0;
  double iter_s_p5 = 0;
  double iter_s_p95 = 0;
};

template <typename Visitor>
void describe(Visitor& v, Row& c) {
  // Zero is excluded, because the throughput divides by the time.
  const Limits seconds{.max = 1e6, .above = 0, .required = true};
  v.field("mig_profile", c.mig_profile, {.required = true}, "");
  v.field("model", c.model, {.required = true}, "");
  v.field("batch_size", c.batch_size, {.min = 1, .max = kBatchMax, .required = true}, "");
  v.field("iter_s_mean", c.iter_s_mean, seconds, "");
  v.field("iter_s_p5", c.iter_s_p5, seconds, "");
  v.field("iter_s_p95", c.iter_s_p95, seconds, "");
  v.rule(c.iter_s_p5 <= c.iter_s_p95, {"iter_s_p95", "iter_s_p5"}, "iter_s_p95 must be at least iter_s_p5");
}

}  // namespace

Result<std::string> miso(const Files& files, std::string_view) {
  Measurements result;
  const auto problems = for_each_row_of<Row>(files, [&](Row row, const RowPlace& place, Problems& bad, const Source&) {
    const auto profile = profile_name(kDevice, row.mig_profile);
    if (!profile) return bad.add(place.of("mig_profile"), profile.error().message);
    Measurement m;
    m.device = kDevice;
    m.mig_profile = *profile;
    m.model = std::move(row.model);
    m.batch = row.batch_size;
    m.latency_ms = 1e3 * row.iter_s_mean;
    m.latency_spread_ms = 1e3 * (row.iter_s_p95 - row.iter_s_p5) / kSpreadsInRange;
    m.throughput_per_s = static_cast<double>(row.batch_size) / row.iter_s_mean;
    result.push_back(std::move(m));
  });
  if (!problems.empty()) return problems.error();
  if (result.empty()) return no_rows(files);
  return write_measurements(result);
}

}  // namespace tangram::formats::importers
