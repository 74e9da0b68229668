// The measurements file: one timed run in each row.
//
// A wrong unit would make every plan wrong without any error. So a throughput beside a latency must agree with it, and
// the same configuration may not occur twice.

#include "formats/measurements_file.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <tuple>

#include "core/geometry.h"
#include "formats/detail/limits.h"
#include "formats/detail/profiles.h"
#include "formats/detail/shapes.h"
#include "formats/table.h"

namespace tangram::formats {

template <typename Visitor>
void describe(Visitor& v, Measurement& c) {
  v.about("Measurements", "One timed run of a model on a slice in each row.");
  v.field("device", c.device, {.required = true}, "The device type, as in the fleet file.");
  v.field("mig_profile", c.mig_profile, {.required = true},
          "The MigProfile of the slice: `3g.40gb`; on the host `1.5c`.");
  v.field("model", c.model, {.required = true}, "The model that ran.");
  v.field("batch", c.batch, {.min = 1, .max = kBatchMax, .required = true}, "The number of samples in a batch.");
  v.field("size", c.size, {.min = 1, .max = kSizeMax}, "The input size of each sample; 1 if the model has only one.");
  v.field("processes", c.processes, {.min = 1, .max = kProcessesMax},
          "The number of processes that share the slice, each running its own batches.");
  v.field("latency_ms", c.latency_ms, {.max = kLatencyMsMax, .above = 0, .required = true},
          "The mean latency of one batch; blank: out of memory.");
  v.field("latency_spread_ms", c.latency_spread_ms, {.min = 0, .max = kLatencyMsMax},
          "The standard deviation of the latency.");
  v.field("memory_mib", c.memory_mib, {.min = 0, .max = 1e9}, "The peak memory of all processes together.");
  v.field("throughput_per_s", c.throughput_per_s, {.max = 1e15, .above = 0},
          "Samples a second, of all processes together.");
  v.field("weights_mib", c.weights_mib, {.max = 1e9, .above = 0},
          "The part of the memory that the weights of one process take, whether it runs or not.");
  v.field("load_ms", c.load_ms, {.max = kLatencyMsMax, .above = 0}, "The time to load the model, until it can run.");
}

namespace {

// What makes a configuration. Two rows of one key would leave open which latency is right.
using Key = std::tuple<std::string, std::string, std::string, std::int64_t, std::int64_t, std::int64_t>;

Key key_of(const Measurement& m) { return {m.device, m.mig_profile, m.model, m.batch, m.size, m.processes}; }

// The expected throughput is batch * processes / latency. The two may differ by kThroughputFactorMax; a mix-up of
// units, such as seconds for milliseconds, differs by more.
void check_throughput(const Measurement& m, const RowPlace& place, const RowReader& read, Problems& problems) {
  if (!m.throughput_per_s || !read.right({"throughput_per_s", "latency_ms", "batch", "processes"})) return;
  // A blank latency says that the run did not fit, so a throughput beside it contradicts the row.
  if (m.out_of_memory()) {
    problems.add(place.of("throughput_per_s"), "a run without latency ran out of memory and cannot have a throughput");
    return;
  }
  const double expected = static_cast<double>(m.batch * m.processes) / *m.latency_ms * 1e3;
  const double ratio = *m.throughput_per_s / expected;
  if (ratio <= kThroughputFactorMax && ratio >= 1 / kThroughputFactorMax) return;
  problems.add(place.of("throughput_per_s"),
               fmt::format("throughput_per_s {:.6g} contradicts batch * processes / latency = {:.6g}; check the units",
                           *m.throughput_per_s, expected));
}

// The peak is that of all processes, each with its weights.
void check_weights(const Measurement& m, const RowPlace& place, const RowReader& read, Problems& problems) {
  if (!m.weights_mib || !m.memory_mib || !read.right({"weights_mib", "memory_mib", "processes"})) return;
  const double all = *m.weights_mib * static_cast<double>(m.processes);
  if (all <= *m.memory_mib) return;
  problems.add(
      place.of("weights_mib"),
      fmt::format("weights_mib {:.6g} of {} processes are more than the peak, memory_mib {:.6g}, which includes "
                  "them",
                  *m.weights_mib, m.processes, *m.memory_mib));
}

class MeasurementCheck {
 public:
  explicit MeasurementCheck(Problems& problems) : problems_(problems) {}

  // Replaces the profile's name by the canonical one, and reports what is wrong between fields that were read well.
  void check(Measurement& m, const RowPlace& place, const RowReader& read) {
    const bool known = name_profile(m, place, read);
    check_throughput(m, place, read, problems_);
    check_weights(m, place, read, problems_);
    if (known && read.right({"model", "batch", "size", "processes"})) check_unique(m, place);
  }

 private:
  // True if the device and its profile are known.
  bool name_profile(Measurement& m, const RowPlace& place, const RowReader& read) {
    if (!read.right({"device"})) return false;
    auto profile = profile_name(m.device, m.mig_profile);
    if (profile) {
      m.mig_profile = std::move(*profile);
      return true;
    }
    // The error is about the device or about the profile; each is reported at its own column.
    const bool unknown_device = profile.error().code == ErrorCode::not_found;
    if (unknown_device || read.right({"mig_profile"})) {
      problems_.add(place.of(unknown_device ? "device" : "mig_profile"), profile.error().message);
    }
    return false;
  }

  // Compares canonical names, so two spellings of one profile are found as well.
  void check_unique(const Measurement& m, const RowPlace& place) {
    const auto [first, fresh] = lines_.emplace(key_of(m), place.line());
    if (fresh) return;
    problems_.add(
        place.of("device"),
        fmt::format("{} with batch {}, size {} and {} process{} on {} {} is given in line {} and again in line {}",
                    m.model, m.batch, m.size, m.processes, m.processes == 1 ? "" : "es", m.device, m.mig_profile,
                    first->second, place.line()));
  }

  Problems& problems_;
  std::map<Key, int> lines_;
};

}  // namespace

Result<Measurements> parse_measurements(const Source& source, std::vector<int>* lines) {
  Problems problems(source.name);
  MeasurementCheck check(problems);
  Measurements measurements;
  for_each_judged_row<Measurement>(
      source, Header::strict, problems,
      [&](Measurement& m, const RowPlace& place, const RowReader& read) { check.check(m, place, read); },
      [&](Measurement m, const RowPlace& place) {
        measurements.push_back(std::move(m));
        if (lines != nullptr) lines->push_back(place.line());
      });
  if (!problems.empty()) return problems.error();
  return measurements;
}

// Files from before these columns, and those of tools that do not know them, stay as they are.
constexpr std::size_t kColumnsOptional = 2;

std::string write_measurements(const Measurements& measurements) { return write_table(measurements, kColumnsOptional); }

Shape measurement_shape() { return shape_of<Measurement>(); }

}  // namespace tangram::formats
