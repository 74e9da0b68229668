// One prediction of a fitted model, with everything that limits its value: the interval, where the interval comes from,
// whether the slice was measured, and whether the run fits in memory.

#include "report/estimate_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "report/learn_report.h"
#include "report/number_text.h"

namespace tangram::report {
namespace {

// "1g.10gb, 2g.20gb": the slices on which a latency was measured, each once.
std::string measured_slices(const learn::FittedRun& run) {
  std::vector<std::string> names;
  for (const auto& m : run.measured) {
    const bool known = std::ranges::find(names, m.mig_profile) != names.end();
    if (m.latency_ms && !known) names.push_back(m.mig_profile);
  }
  return text::join(names, ", ");
}

std::string milliseconds_text(double ms) { return latency_text(from_milliseconds(ms)); }

}  // namespace

// Size and processes are named only where they are not 1, so that the first line stays short for most models.
std::string estimate_text(const learn::FittedRun& run, const learn::Candidate& candidate,
                          const learn::Estimate& estimate) {
  std::string out =
      fmt::format("{} on {} of {}, batch {}", run.model, candidate.mig_profile, run.device, candidate.batch);
  if (candidate.size != 1) out += fmt::format(", size {}", candidate.size);
  if (candidate.processes != 1) out += fmt::format(", {} processes", candidate.processes);
  out += estimate.measured ? " (measured)\n" : "\n";
  // A run that probably does not fit has no meaningful latency, so none is shown.
  if (estimate.fits_probability < 0.5) {
    out += fmt::format("does not fit into memory, probability {:.0f} %\n", 100 * (1 - estimate.fits_probability));
    return out;
  }
  out += fmt::format("latency     {}, between {} and {} with a probability of {:.0f} % (width {})\n",
                     milliseconds_text(estimate.mean_ms), milliseconds_text(estimate.low_ms),
                     milliseconds_text(estimate.high_ms), 100 * run.coverage, calibration_text(run.calibration));
  if (estimate.beyond_slices && !estimate.measured) {
    out += fmt::format("            outside the measured range ({}), so the interval is wider\n", measured_slices(run));
  }
  out += fmt::format("p99         {}\n", milliseconds_text(estimate.p99_ms));
  out +=
      fmt::format("throughput  {} samples/s, all processes together\n", precise_rate_text(estimate.throughput_per_s));
  if (estimate.memory_mib) out += fmt::format("memory      {:.0f} MiB\n", *estimate.memory_mib);
  // Above this it would be printed as 100 %, which says nothing.
  if (estimate.fits_probability < 0.995) {
    out += fmt::format("fits into memory with a probability of {:.0f} %\n", 100 * estimate.fits_probability);
  }
  return out;
}

// All keys are always present, also for a run that probably does not fit: a program decides by fits_probability.
Json estimate_json(const learn::FittedRun& run, const learn::Candidate& candidate, const learn::Estimate& estimate) {
  return {{"model", run.model},
          {"device", run.device},
          {"mig_profile", candidate.mig_profile},
          {"batch", candidate.batch},
          {"size", candidate.size},
          {"processes", candidate.processes},
          {"latency_ms", estimate.mean_ms},
          {"latency_p99_ms", estimate.p99_ms},
          {"latency_low_ms", estimate.low_ms},
          {"latency_high_ms", estimate.high_ms},
          {"coverage", run.coverage},
          {"intervals", calibration_text(run.calibration)},
          {"throughput_per_s", estimate.throughput_per_s},
          {"memory_mib", estimate.memory_mib ? Json(*estimate.memory_mib) : Json(nullptr)},
          {"fits_probability", estimate.fits_probability},
          {"measured", estimate.measured},
          {"beyond_measured", estimate.beyond_slices}};
}

}  // namespace tangram::report
