// Fitted models as JSON.
//
// A file holds what was fitted and the measurements that it was fitted to, but not the factorised matrices of the
// kriged residual: those are computed again on reading, from the same numbers in the same order, so a model predicts
// the same bits after a round trip. Numbers are written so that they read back exactly.
//
// A file may be damaged or written by hand. Every index, count and length is therefore checked before a value is built
// from it: a model that parses can be asked for any prediction without a fault. model_file_fuzz.cc holds the parser to
// that.

#include "lab/model_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "learn/assume.h"
#include "learn/fit.h"

namespace tangram::lab {
namespace {

using formats::Located;
using formats::Position;
using formats::Problems;
using learn::Calibration;
using learn::FittedRun;
using learn::kParameterCount;

// Bounds that keep later arithmetic finite.
constexpr double kCountMax = 1e6;       // Of batches, sizes and processes in a model.
constexpr double kLatencyMsMax = 1e9;   // Of a run.
constexpr double kLogMax = 100;         // Of any logarithm: e^100 is beyond everything that can be timed.
constexpr double kCovarianceMax = 1e4;  // Of the prior.
constexpr double kMibMax = 1e12;

// Records mirror the document and only carry values. Those with a position can still be wrong when their fields are
// valid one by one, for example by columns of different lengths.
struct RowRecord {
  Located<std::string> mig_profile;
  std::int64_t batch = 1;
  std::int64_t size = 1;
  std::int64_t processes = 1;
  std::optional<double> latency_ms;
  std::optional<double> latency_spread_ms;
  std::optional<double> memory_mib;
  std::optional<double> throughput_per_s;
  std::optional<double> weights_mib;
  std::optional<double> load_ms;
};

// The covariance is stored row by row; its length is the square of the number of parameters.
struct FormulaRecord {
  std::vector<double> parameters;
  std::vector<double> prior_mean;
  std::vector<double> prior_covariance;
  std::uint32_t prior_models = 0;
  double size_reference = 1;
};

// Standard deviations of the parts of the kriged residual, by what they depend on.
struct ResidualRecord {
  double batch = 0;
  double slice = 0;
  double processes = 0;
  double size = 0;
  double together = 0;
  double launch = 0;
  double noise = 0;
  double inflation = 1;
};

// Nodes as columns: a list of objects would repeat the keys for every node.
struct TreesRecord {
  double base = 0;
  std::vector<std::int32_t> roots;
  std::vector<std::int32_t> left;
  std::vector<std::int32_t> right;
  std::vector<std::int32_t> feature;
  std::vector<double> value;
};

// The guesses as columns, one entry of each vector for each guess.
struct MemoryRecord {
  double size_reference = 1;
  bool measured = false;
  double base_log_mib = 0;
  double sample_log_mib = 0;
  std::vector<double> base_mib;
  std::vector<double> sample_mib;
  std::vector<double> quadratic;
  std::vector<double> weights;
};

// The members of the blend and their weights.
struct SharesRecord {
  double analytic = 0;
  double kriged = 1;
  double boosted = 0;
};

struct ValidationRecord {
  std::string member;
  double median_error = 0;
  double p90_error = 0;
};

// The same order as learn::Calibration: values are converted by number.
enum class CalibrationName { own, borrowed, assumed };

struct AssumedRecord {
  std::string from;
  double speed = 1;
  double deviation = learn::kSpeedDeviationStated;
};

struct RunRecord {
  Located<std::string> device;
  std::string model;
  std::string kind = "blend";
  Located<FormulaRecord> formula;
  ResidualRecord residual;
  SharesRecord shares;
  Located<std::optional<TreesRecord>> trees;
  double interval_deviations = 2;
  double coverage = 0.95;
  CalibrationName calibration = CalibrationName::assumed;
  double slice_drift = learn::kSliceDriftAssumed;
  double p99_log_spread = 0.05;
  Located<MemoryRecord> memory;
  std::vector<ValidationRecord> validation;
  std::optional<AssumedRecord> assumed;
  Located<std::vector<RowRecord>> measured;

  const std::string& measured_device() const { return assumed ? assumed->from : device.value; }
};

struct ModelRecord {
  int version = kModelFileVersion;
  std::vector<RunRecord> models;
};

template <typename Visitor>
void describe(Visitor& v, CalibrationName& c) {
  v.about("Calibration", "The source of the width of the intervals.");
  v.name("own", c, CalibrationName::own, "The model's own errors.");
  v.name("borrowed", c, CalibrationName::borrowed, "The errors of other models, because it has too few of its own.");
  v.name("assumed", c, CalibrationName::assumed, "Neither: a wide default.");
}

template <typename Visitor>
void describe(Visitor& v, RowRecord& c) {
  v.about("Measurement", "One timed run.");
  v.field("mig_profile", c.mig_profile, {.required = true}, "MigProfile of the slice.");
  v.field("batch", c.batch, {.min = 1, .max = kCountMax, .required = true}, "Samples in a batch.");
  v.field("size", c.size, {.min = 1, .max = kCountMax}, "Input size of each sample.");
  v.field("processes", c.processes, {.min = 1, .max = kCountMax}, "Processes that shared the slice.");
  v.field("latency_ms", c.latency_ms, {.max = kLatencyMsMax, .above = 0},
          "The mean latency of one batch; absent: out of memory.");
  v.field("latency_spread_ms", c.latency_spread_ms, {.min = 0}, "The standard deviation of the latency.");
  v.field("memory_mib", c.memory_mib, {.min = 0}, "Peak memory of all processes together.");
  v.field("throughput_per_s", c.throughput_per_s, {.above = 0}, "Samples a second, of all processes together.");
  v.field("weights_mib", c.weights_mib, {.above = 0}, "Memory of the weights of one process.");
  v.field("load_ms", c.load_ms, {.above = 0}, "The time to load the model.");
}

template <typename Visitor>
void describe(Visitor& v, FormulaRecord& c) {
  v.about("Formula",
          "The formula (launch, roofline, attention, processes taking turns): its parameters and their prior.");
  v.field("parameters", c.parameters, {.min = -kLogMax, .max = kLogMax, .required = true, .items_min = kParameterCount},
          "Logarithms: launch, work, memory share, constant share, host, batch offset, launch growth, sharpness, "
          "quadratic, size exponent, batch exponent.");
  v.field("prior_mean", c.prior_mean, {.min = -kLogMax, .max = kLogMax, .required = true, .items_min = kParameterCount},
          "In the same order.");
  v.field(
      "prior_covariance", c.prior_covariance,
      {.min = -kCovarianceMax, .max = kCovarianceMax, .required = true, .items_min = kParameterCount * kParameterCount},
      "Row by row.");
  v.field("prior_models", c.prior_models, {}, "The number of models that the prior was learnt from.");
  v.field("size_reference", c.size_reference, {.min = 1, .max = kCountMax, .required = true},
          "Input size to which work refers.");
}

template <typename Visitor>
void describe(Visitor& v, ResidualRecord& c) {
  v.about("Residual", "Standard deviations of the components of the residual, in log latency.");
  v.field("batch", c.batch, {.min = 0, .max = 10, .required = true}, "The component of the batch alone.");
  v.field("slice", c.slice, {.min = 0, .max = 10, .required = true}, "The component of the slice alone.");
  v.field("processes", c.processes, {.min = 0, .max = 10, .required = true}, "The component of the processes alone.");
  v.field("size", c.size, {.min = 0, .max = 10, .required = true}, "The component of the size alone.");
  v.field("together", c.together, {.min = 0, .max = 10, .required = true}, "The joint component.");
  v.field("launch", c.launch, {.min = 0, .max = 10, .required = true},
          "The component where the launch time dominates.");
  v.field("noise", c.noise, {.min = 1e-6, .max = 10, .required = true}, "The noise of one measurement.");
  v.field("inflation", c.inflation, {.min = 1e-3, .max = 1e3, .required = true},
          "The factor for predicted deviations.");
}

template <typename Visitor>
void describe(Visitor& v, TreesRecord& c) {
  v.about("Trees", "Boosted trees on the residual; nodes as columns.");
  v.field("base", c.base, {.min = -kLogMax, .max = kLogMax, .required = true}, "Added to the sum of all trees.");
  v.field("roots", c.roots, {.required = true}, "First node of each tree.");
  v.field("left", c.left, {.min = -1, .required = true}, "The child for smaller values; -1 in a leaf.");
  v.field("right", c.right, {.min = -1, .required = true}, "The other child.");
  v.field("feature", c.feature, {.min = 0, .max = 4, .required = true},
          "0 batch, 1 size, 2 compute, 3 bandwidth, 4 processes; logarithms.");
  v.field("value", c.value, {.min = -kLogMax, .max = kLogMax, .required = true},
          "The threshold, or the value of a leaf.");
}

template <typename Visitor>
void describe(Visitor& v, MemoryRecord& c) {
  v.about("Memory", "Weighted hypotheses: processes * (base + sample * batch * size factor).");
  v.field("size_reference", c.size_reference, {.min = 1, .max = kCountMax, .required = true},
          "Input size to which `sample` refers.");
  v.field("measured", c.measured, {}, "Whether a peak was measured, so that absolute numbers are known.");
  v.field("base_log_mib", c.base_log_mib, {}, "Weighted mean of log base.");
  v.field("sample_log_mib", c.sample_log_mib, {}, "Weighted mean of log sample.");
  v.field("base_mib", c.base_mib, {.min = 1e-6, .max = kMibMax, .required = true, .items_min = 1},
          "One entry per hypothesis.");
  v.field("sample_mib", c.sample_mib, {.min = 1e-6, .max = kMibMax, .required = true, .items_min = 1},
          "One entry per hypothesis.");
  v.field("quadratic", c.quadratic, {.min = 0, .max = 1e6, .required = true, .items_min = 1},
          "One entry per hypothesis.");
  v.field("weights", c.weights, {.min = 0, .max = 1.000001, .required = true, .items_min = 1},
          "One entry per hypothesis; they sum to one.");
}

template <typename Visitor>
void describe(Visitor& v, SharesRecord& c) {
  v.about("Shares", "The weights of the members in the mean of log latency; they sum to one.");
  v.field("analytic", c.analytic, {.min = 0, .max = 1}, "The formula alone.");
  v.field("kriged", c.kriged, {.min = 0, .max = 1}, "With a smooth residual.");
  v.field("boosted", c.boosted, {.min = 0, .max = 1}, "With boosted trees.");
}

template <typename Visitor>
void describe(Visitor& v, ValidationRecord& c) {
  v.about("Validation", "The errors of a member in cross-validation.");
  v.field("member", c.member, {.required = true}, "Which.");
  v.field("median_error", c.median_error, {.min = 0, .required = true}, "Relative.");
  v.field("p90_error", c.p90_error, {.min = 0, .required = true}, "Relative.");
}

template <typename Visitor>
void describe(Visitor& v, AssumedRecord& c) {
  v.about("Assumption", "The device type was not measured: it is taken to behave as another one.");
  v.field("from", c.from, {.required = true}, "The device type of the formula and of all measurements.");
  v.field("speed", c.speed, {.min = 0.001, .max = 1e3, .required = true}, "How many times as fast this one is.");
  v.field("deviation", c.deviation, {.min = 0, .max = 10, .required = true},
          "The standard deviation of the logarithm of the speed.");
}

template <typename Visitor>
void describe(Visitor& v, RunRecord& c) {
  v.about("Fitted model", "One network on one device type.");
  v.field("device", c.device, {.required = true}, "Device type.");
  v.field("model", c.model, {.required = true}, "The model that was measured.");
  v.field("kind", c.kind, {}, "The kind of fit.");
  v.field("formula", c.formula, {.required = true}, "The latency formula.");
  v.field("residual", c.residual, {.required = true}, "The residual of the formula.");
  v.field("shares", c.shares, {.required = true}, "The weights of the members.");
  v.field("trees", c.trees, {}, "The trees, if their weight is above zero.");
  v.field("interval_deviations", c.interval_deviations, {.min = 1e-3, .max = 1e3, .required = true},
          "Half the width of the intervals, in predicted deviations.");
  v.field("coverage", c.coverage, {.above = 0, .below = 1}, "The share of runs that the intervals should cover.");
  v.field("calibration", c.calibration, {.required = true}, "The source of that width.");
  v.field("slice_drift", c.slice_drift, {.min = 0, .max = 10},
          "The deviation of log latency for each e-fold by which a slice is outside the range of measured slices.");
  v.field("p99_log_spread", c.p99_log_spread, {.min = 0, .max = 10}, "log(p99 / mean).");
  v.field("memory", c.memory, {.required = true}, "The estimate of its memory.");
  v.field("validation", c.validation, {}, "Cross-validation of the members.");
  v.field("assumed", c.assumed, {}, "Present where another device type was measured instead of this one.");
  v.field("measured", c.measured, {.required = true, .items_min = 1}, "The measurements that it was fitted to.");
}

template <typename Visitor>
void describe(Visitor& v, ModelRecord& c) {
  v.about("Latency models", "Latency models that `tangram learn` fitted to measurements.");
  v.field("version", c.version, {.min = kModelFileVersion, .max = kModelFileVersion, .required = true},
          "The version of the file format.");
  v.field("models", c.models, {.required = true, .items_min = 1}, "One model for each network and device type.");
}

// ---- Values to records ----
//
// Every function here has its inverse in the ModelAssembler below.

RowRecord record_of(const Measurement& m) {
  return {{m.mig_profile, {}, {}, false},
          m.batch,
          m.size,
          m.processes,
          m.latency_ms,
          m.latency_spread_ms,
          m.memory_mib,
          m.throughput_per_s,
          m.weights_mib,
          m.load_ms};
}

// Arrays of a fixed size become lists; reading checks their length again.
FormulaRecord record_of(const learn::AnalyticFit& fit) {
  return {{fit.parameters.begin(), fit.parameters.end()},
          {fit.prior.mean.begin(), fit.prior.mean.end()},
          {fit.prior.covariance.begin(), fit.prior.covariance.end()},
          static_cast<std::uint32_t>(fit.prior.models),
          fit.size_reference};
}

// The observations are not part of the residual: they are the measured rows.
ResidualRecord record_of(const learn::Kriged& kriged) {
  const auto& s = kriged.scale();
  return {s.batch, s.slice, s.processes, s.size, s.together, s.launch, s.noise, kriged.inflation()};
}

std::optional<TreesRecord> record_of(const learn::Boosted& boosted) {
  // Trees that do not count are left out of the file.
  if (boosted.empty()) return std::nullopt;
  TreesRecord record{boosted.trees.base, boosted.trees.roots, {}, {}, {}, {}};
  for (const auto& node : boosted.trees.nodes) {
    record.left.push_back(node.left);
    record.right.push_back(node.right);
    record.feature.push_back(node.feature);
    record.value.push_back(node.value);
  }
  return record;
}

MemoryRecord record_of(const learn::MemoryBelief& memory) {
  MemoryRecord record{memory.size_reference, memory.measured, memory.base_log_mib, memory.sample_log_mib, {}, {}, {},
                      memory.weights};
  for (const auto& guess : memory.guesses) {
    record.base_mib.push_back(guess.base_mib);
    record.sample_mib.push_back(guess.sample_mib);
    record.quadratic.push_back(guess.quadratic);
  }
  return record;
}

RunRecord record_of(const FittedRun& run) {
  RunRecord record;
  record.device.value = run.device;
  record.model = run.model;
  record.kind = run.kind;
  record.formula.value = record_of(run.analytic);
  record.residual = record_of(run.kriged);
  record.shares = {run.analytic_share, run.kriged_share, run.boosted_share};
  record.trees.value = record_of(run.boosted);
  record.interval_deviations = run.interval_deviations;
  record.coverage = run.coverage;
  record.calibration = static_cast<CalibrationName>(run.calibration);
  record.slice_drift = run.slice_drift;
  record.p99_log_spread = run.p99_log_spread;
  record.memory.value = record_of(run.memory);
  for (const auto& v : run.validation) record.validation.push_back({v.member, v.median_error, v.p90_error});
  if (run.assumed) record.assumed = AssumedRecord{run.assumed->from, run.assumed->speed, run.assumed->deviation};
  for (const auto& m : run.measured) record.measured.value.push_back(record_of(m));
  return record;
}

// ---- Records to values ----
//
// Builds the value of one record. Problems are added with the position of the record, and a value with problems is not
// used: parse_model returns the problems instead.

class ModelAssembler {
 public:
  explicit ModelAssembler(Problems& problems) : problems_(problems) {}

  FittedRun assemble(const RunRecord& record) {
    FittedRun run;
    run.device = record.device.value;
    run.model = record.model;
    run.kind = record.kind;
    run.analytic = formula(record.formula);
    run.boosted = trees(record.trees);
    run.analytic_share = record.shares.analytic;
    run.kriged_share = record.shares.kriged;
    run.boosted_share = record.shares.boosted;
    run.interval_deviations = record.interval_deviations;
    run.coverage = record.coverage;
    run.calibration = static_cast<Calibration>(record.calibration);
    run.slice_drift = record.slice_drift;
    run.p99_log_spread = record.p99_log_spread;
    run.memory = memory(record.memory, record.measured_device());
    if (record.assumed) run.assumed = {record.assumed->from, record.assumed->speed, record.assumed->deviation};
    for (const auto& v : record.validation) run.validation.push_back({v.member, v.median_error, v.p90_error});
    for (const auto& row : record.measured.value) run.measured.push_back(measurement(row, record));
    const auto& r = record.residual;
    // Runs out of memory have no latency to interpolate. A model of nothing but such runs cannot predict.
    auto observations = learn::observations_of(run.measured);
    if (observations.empty()) problems_.add(record.measured.at, "no measurement has a latency");
    // Kriging factorises a matrix over the observations. Only sound values may get there.
    if (problems_.empty()) {
      run.kriged = learn::Kriged(run.analytic, {r.batch, r.slice, r.processes, r.size, r.together, r.launch, r.noise},
                                 r.inflation, std::move(observations));
    }
    return run;
  }

 private:
  // Adds a problem for each list of the wrong length.
  learn::AnalyticFit formula(const Located<FormulaRecord>& record) {
    learn::AnalyticFit fit;
    const FormulaRecord& r = record.value;
    copy(r.parameters, fit.parameters, record.at, "parameters");
    copy(r.prior_mean, fit.prior.mean, record.at, "prior_mean");
    copy(r.prior_covariance, fit.prior.covariance, record.at, "prior_covariance");
    fit.prior.models = r.prior_models;
    fit.size_reference = r.size_reference;
    return fit;
  }

  // Requires as many numbers as the array has. The limits of a field only bound the length from below.
  template <std::size_t N>
  void copy(const std::vector<double>& from, std::array<double, N>& to, Position at, std::string_view what) {
    if (from.size() == N) {
      std::ranges::copy(from, to.begin());
    } else {
      problems_.add(at, fmt::format("{} has {} numbers; expected {}", what, from.size(), N));
    }
  }

  // Builds the trees. Children must come after their parents: then every step of a walk increases the index, and every
  // walk ends in a leaf.
  learn::Boosted trees(const Located<std::optional<TreesRecord>>& record) {
    if (!record.value) return {};
    const TreesRecord& r = *record.value;
    const auto count = static_cast<std::int32_t>(r.left.size());
    // Roots are checked together with the columns, before anything is indexed.
    const bool aligned = r.right.size() == r.left.size() && r.feature.size() == r.left.size() &&
                         r.value.size() == r.left.size() &&
                         std::ranges::all_of(r.roots, [&](auto root) { return root >= 0 && root < count; });
    learn::Boosted boosted{{.base = static_cast<float>(r.base), .roots = r.roots, .nodes = {}}};
    for (std::int32_t i = 0; aligned && i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      boosted.trees.nodes.push_back({r.left[at], r.right[at], r.feature[at], static_cast<float>(r.value[at])});
      const bool leaf = r.left[at] < 0;
      if (!leaf && (r.left[at] <= i || r.left[at] >= count || r.right[at] <= i || r.right[at] >= count)) {
        problems_.add(record.at, fmt::format("node {} has children that do not come after it", i));
      }
    }
    if (!aligned)
      problems_.add(record.at, "the columns of the trees have different lengths, or a root is out of range");
    return boosted;
  }

  // Each guess needs one entry in each column.
  learn::MemoryBelief memory(const Located<MemoryRecord>& record, const std::string& device) {
    const MemoryRecord& r = record.value;
    learn::MemoryBelief belief{device, r.size_reference, r.measured, {}, r.weights, r.base_log_mib, r.sample_log_mib};
    const std::size_t count = r.weights.size();
    if (r.base_mib.size() != count || r.sample_mib.size() != count || r.quadratic.size() != count) {
      problems_.add(record.at, "base_mib, sample_mib, quadratic and weights have different lengths");
      return belief;
    }
    for (std::size_t i = 0; i < count; ++i) {
      belief.guesses.push_back({r.base_mib[i], r.sample_mib[i], r.quadratic[i]});
    }
    return belief;
  }

  // A row of the fit as a measurement. Device and model are those of the run: they are not repeated in each row.
  Measurement measurement(const RowRecord& row, const RunRecord& record) {
    Measurement m;
    m.device = record.measured_device();
    m.model = record.model;
    m.mig_profile = row.mig_profile.value;
    m.batch = row.batch;
    m.size = row.size;
    m.processes = row.processes;
    m.latency_ms = row.latency_ms;
    m.latency_spread_ms = row.latency_spread_ms;
    m.memory_mib = row.memory_mib;
    m.throughput_per_s = row.throughput_per_s;
    m.weights_mib = row.weights_mib;
    m.load_ms = row.load_ms;
    // Features come from the geometry. A profile that the device does not have would leave the run without compute and
    // bandwidth.
    if (!learn::features_of(m.device, learn::candidate_of(m))) {
      problems_.add(row.mig_profile.at, fmt::format("{} has no profile {}", m.device, m.mig_profile));
    }
    return m;
  }

  Problems& problems_;
};

}  // namespace

Result<learn::FittedModel> parse_model(const formats::Source& source) {
  Problems problems(source.name);
  // Fields and limits first; the assembler relies on them.
  const auto root = formats::parse_json(source, problems);
  if (!root) return problems.error();
  ModelRecord record;
  formats::read_document(*root, problems, record);
  if (!problems.empty()) return problems.error();
  std::vector<FittedRun> runs;
  for (const auto& run : record.models) runs.push_back(ModelAssembler(problems).assemble(run));
  if (!problems.empty()) return problems.error();
  return learn::FittedModel(std::move(runs));
}

std::string write_model(const learn::FittedModel& model) {
  ModelRecord record;
  for (const auto& run : model.runs()) record.models.push_back(record_of(run));
  // Defaults are written, too, so that a file means the same under a later version with other defaults.
  return formats::to_json(formats::write_document(record, formats::Defaults::keep)) + "\n";
}

formats::Shape model_shape() { return formats::shape_of<ModelRecord>(); }

}  // namespace tangram::lab
