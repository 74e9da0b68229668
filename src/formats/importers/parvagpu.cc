// ParvaGPU (SC'24): inference measured on slices of an A100-80GB, service scenarios, and published layouts.
//
// The header tells which of the three files is given. In the measurements, throughput is per process and latency is
// rounded to a millisecond, so latency is computed from the throughput: each process runs one batch after another. The
// two columns must agree. If they do not, one has another unit, and the file does not say which.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/plan.h"
#include "formats/detail/limits.h"
#include "formats/importers/importers.h"
#include "formats/measurements_file.h"
#include "formats/plan_file.h"
#include "formats/workload_file.h"

namespace tangram::formats::importers {
namespace {

constexpr const char* kDevice = "a100-80gb";

// How far latency may lie from batch / throughput: rounding to a millisecond, and a tenth because the two may have been
// averaged differently.
constexpr double kLatencyRoundingS = 0.001;
constexpr double kLatencyTolerance = 0.1;
constexpr double kLatencySMax = kLatencyMsMax / 1e3;

// profiles.csv: one measured configuration in each row.
struct ProfileRow {
  std::string model;
  int mig_gpcs = 0;
  std::int64_t batch_size = 0;
  std::int64_t mps_procs = 0;
  std::optional<double> throughput_req_s;
  std::optional<double> latency_s;
  int feasible = 0;
};

// True if latency and throughput of one process agree, or one of them is missing.
bool agrees(const ProfileRow& row) {
  if (row.feasible == 0 || !row.latency_s || row.throughput_req_s.value_or(0) <= 0) return true;
  const double expected_s = static_cast<double>(row.batch_size) / *row.throughput_req_s;
  return std::abs(*row.latency_s - expected_s) <= kLatencyRoundingS + kLatencyTolerance * expected_s;
}

template <typename Visitor>
void describe(Visitor& v, ProfileRow& c) {
  v.field("model", c.model, {.required = true}, "");
  v.field("mig_gpcs", c.mig_gpcs, {.min = 1, .max = 7, .required = true}, "");
  v.field("batch_size", c.batch_size, {.min = 1, .max = kBatchMax, .required = true}, "");
  v.field("mps_procs", c.mps_procs, {.min = 1, .max = kProcessesMax, .required = true}, "");
  v.field("throughput_req_s", c.throughput_req_s, {.min = 0, .max = 1e9, .required = true}, "");
  v.field("latency_s", c.latency_s, {.min = 0, .max = kLatencySMax}, "");
  v.field("feasible", c.feasible, {.min = 0, .max = 1, .required = true}, "");
  v.rule(c.feasible == 0 || c.throughput_req_s.value_or(0) > 0, {"throughput_req_s", "feasible"},
         "a feasible run needs a throughput");
}

// scenarios.csv: one service of a scenario in each row.
struct ScenarioRow {
  std::string scenario;
  std::string model;
  double slo_latency_ms = 0;
  double request_rate_per_s = 0;
};

template <typename Visitor>
void describe(Visitor& v, ScenarioRow& c) {
  v.field("scenario", c.scenario, {.required = true}, "");
  v.field("model", c.model, {.required = true}, "");
  v.field("slo_latency_ms", c.slo_latency_ms, {.min = 1e-6, .max = kLatencyMsMax, .required = true}, "");
  v.field("request_rate_per_s", c.request_rate_per_s, {.max = kRateMax, .above = 0, .required = true}, "");
}

// A deployment: one slice of one GPU in each row.
struct DeploymentRow {
  int gpu = 0;
  std::string model;
  int placement = 0;
  int size = 0;
  std::int64_t batch = 1;
  int processes = 1;
};

template <typename Visitor>
void describe(Visitor& v, DeploymentRow& c) {
  v.field("Num GPU", c.gpu, {.min = 0, .max = 1e6, .required = true}, "");
  v.field("Model", c.model, {.required = true, .text = TextRule::name}, "");
  v.field("Placement", c.placement, {.min = 0, .max = 7, .required = true}, "");
  v.field("Instance size", c.size, {.min = 1, .max = 7, .required = true}, "");
  v.field("Batch size", c.batch, {.min = 1, .max = kBatchMax, .required = true}, "");
  v.field("Num proc", c.processes, {.min = 1, .max = kProcessesMax, .required = true}, "");
}

// The files give the number of compute slices only. "1g" names the plain profile of that size.
Result<std::size_t> profile_of(int compute_slices) {
  return find_profile(*find_geometry(kDevice), fmt::format("{}g", compute_slices));
}

std::string disagreement(const ProfileRow& row) {
  return fmt::format("latency_s {} contradicts throughput_req_s {}: batch {} at that rate takes {:.4g} s",
                     *row.latency_s, *row.throughput_req_s, row.batch_size,
                     static_cast<double>(row.batch_size) / *row.throughput_req_s);
}

Result<std::string> measurements(const Files& files) {
  Measurements result;
  const auto problems =
      for_each_row_of<ProfileRow>(files, [&](ProfileRow row, const RowPlace& place, Problems& bad, const Source&) {
        const auto profile = profile_of(row.mig_gpcs);
        if (!profile) return bad.add(place.of("mig_gpcs"), profile.error().message);
        if (!agrees(row)) return bad.add(place.of("latency_s"), disagreement(row));
        Measurement m;
        m.device = kDevice;
        m.mig_profile = find_geometry(kDevice)->profiles[*profile].name;
        m.model = row.model;
        m.batch = row.batch_size;
        m.processes = row.mps_procs;
        // An infeasible run has no latency, which the measurements file reads as out of memory.
        if (row.feasible == 1) {
          m.latency_ms = 1e3 * static_cast<double>(row.batch_size) / *row.throughput_req_s;
          m.throughput_per_s = *row.throughput_req_s * static_cast<double>(row.mps_procs);
        }
        result.push_back(std::move(m));
      });
  if (!problems.empty()) return problems.error();
  if (result.empty()) return no_rows(files);
  return write_measurements(result);
}

// `text` as a name for a plan: characters that a name may not hold become dashes, and the first one is a letter or
// digit.
std::string as_name(std::string text) {
  for (char& c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
    if (!plain && c != '_') c = '-';
  }
  text.erase(0, text.find_first_not_of("-._"));
  return text;
}

// A unique service name from `text`: bert, bert-2, bert-3.
std::string service_name(const std::string& text, std::set<std::string>& taken) {
  std::string name = as_name(text);
  if (name.empty()) name = "service";
  const std::string plain = name;
  for (int number = 2; !taken.insert(name).second; ++number) name = fmt::format("{}-{}", plain, number);
  return name;
}

// Scenarios serve the same models, so unless one is selected, its name becomes a prefix: SLO1-bert. The model keeps its
// name, because that is what connects a service with its measurements.
Result<std::string> services(const Files& files, std::string_view selection) {
  Workload workload;
  std::set<std::string> scenarios;
  std::set<std::string> names;
  std::set<std::pair<std::string, std::string>> seen;
  const auto problems =
      for_each_row_of<ScenarioRow>(files, [&](ScenarioRow row, const RowPlace& place, Problems& bad, const Source&) {
        scenarios.insert(row.scenario);
        // Checked before the selection, so that a broken file is reported whichever scenario is imported.
        if (!seen.emplace(row.scenario, row.model).second) {
          return bad.add(place.of("model"), fmt::format("{} already has the model {}", row.scenario, row.model));
        }
        if (!selection.empty() && row.scenario != selection) return;
        Service service;
        service.name = service_name(selection.empty() ? row.scenario + "-" + row.model : row.model, names);
        service.model = row.model;
        service.slo.latency = from_milliseconds(row.slo_latency_ms);
        service.traffic = PoissonTraffic{row.request_rate_per_s};
        workload.services.push_back(std::move(service));
      });
  if (!problems.empty()) return problems.error();
  if (workload.services.empty())
    return scenarios.empty() ? no_rows(files) : unknown_selection("parvagpu", selection, scenarios);
  return write_workload(workload);
}

// The slices of one GPU at their published places, in the order of their starts; nullopt if they overlap.
std::optional<std::vector<PlannedSlice>> as_published(const Geometry& geometry,
                                                      const std::vector<PlannedSlice>& wanted) {
  PlannedDevice device;
  for (const auto& planned : wanted) {
    if (!fits(geometry, layout_of(device), planned.slice)) return std::nullopt;
    const auto where = std::ranges::upper_bound(device.slices, planned.slice.start, {},
                                                [](const PlannedSlice& other) { return other.slice.start; });
    device.slices.insert(where, planned);
  }
  return device.slices;
}

// The same slices at places that the hardware permits. Some published layouts put 1g.10gb at 6 beside 3g.40gb at 4,
// although the latter covers four units. The multiset of profiles is kept; only the places change.
std::optional<std::vector<PlannedSlice>> laid_out_anew(const Geometry& geometry, std::vector<PlannedSlice> wanted) {
  Multiset multiset(geometry.profiles.size());
  for (const auto& planned : wanted) ++multiset[planned.slice.profile];
  // Any layout of the multiset will do: slices of one profile are interchangeable.
  const auto layout = realise(geometry, multiset);
  if (!layout) return std::nullopt;
  std::vector<PlannedSlice> slices;
  for (const auto& slice : layout->slices) {
    const auto match = std::ranges::find_if(wanted, [&](const auto& p) { return p.slice.profile == slice.profile; });
    slices.push_back({.slice = slice, .replicas = std::move(match->replicas)});
    wanted.erase(match);
  }
  return slices;
}

struct PublishedGpu {
  std::vector<PlannedSlice> slices;
  std::string name;
  std::string place;  // Of its first row, for messages.
};

// By the position of the file among all, and the number of the GPU in it.
using PublishedGpus = std::map<std::pair<std::ptrdiff_t, int>, PublishedGpu>;

Result<std::string> plan_of(const PublishedGpus& gpus) {
  const Geometry& geometry = *find_geometry(kDevice);
  Plan plan;
  for (const auto& [key, gpu] : gpus) {
    auto slices = as_published(geometry, gpu.slices);
    if (!slices) slices = laid_out_anew(geometry, gpu.slices);
    if (!slices) {
      return Error{ErrorCode::invalid,
                   fmt::format("{}: the slices of GPU {} do not fit on one {}", gpu.place, key.second, kDevice)};
    }
    plan.devices.push_back({.name = gpu.name, .type = kDevice, .geometry = geometry, .slices = std::move(*slices)});
  }
  return write_plan(plan);
}

// The file whose name is the selected scenario, or all files without a selection.
Result<Files> deployments_of(const Files& files, std::string_view selection) {
  if (selection.empty()) return files;
  std::set<std::string> names;
  for (const auto& file : files) {
    if (stem_of(file.name) == selection) return Files{file};
    names.insert(stem_of(file.name));
  }
  return unknown_selection("parvagpu", selection, names);
}

// Each file is one deployment with its own GPUs. With several files, the file's name becomes a prefix of devices and
// services, as the scenario does in services().
Result<std::string> plan(const Files& all, std::string_view selection) {
  TANGRAM_TRY(const auto files, deployments_of(all, selection));
  TANGRAM_TRY(const auto prefixes, prefixes_of(files, "-"));
  PublishedGpus gpus;
  const auto problems = for_each_row_of<DeploymentRow>(
      files, [&](DeploymentRow row, const RowPlace& place, Problems& bad, const Source& file) {
        const std::string prefix = as_name(prefixes.at(file.name));
        const auto profile = profile_of(row.size);
        if (!profile) return bad.add(place.of("Instance size"), profile.error().message);
        PlannedSlice planned;
        planned.slice = {static_cast<std::uint16_t>(*profile), static_cast<std::uint16_t>(row.placement)};
        // The files say nothing about input sizes, so each replica has one bucket for size 1.
        planned.replicas.push_back(
            {.service = prefix + row.model, .buckets = {{1, row.batch}}, .processes = row.processes});
        // `file` is an element of `files`, so the difference is its position. GPU numbers begin again in each file.
        PublishedGpu& gpu = gpus[{&file - files.data(), row.gpu}];
        if (gpu.slices.empty()) gpu.place = fmt::format("{}:{}", file.name, place.line());
        gpu.name = fmt::format("{}{}-{}", prefix, kDevice, row.gpu);
        gpu.slices.push_back(std::move(planned));
      });
  if (!problems.empty()) return problems.error();
  if (gpus.empty()) return no_rows(files);
  return plan_of(gpus);
}

}  // namespace

Result<std::string> parvagpu(const Files& files, std::string_view selection) {
  // Each kind has a column that the others lack.
  if (have_column(files, "scenario")) return services(files, selection);
  if (have_column(files, "Placement")) return plan(files, selection);
  if (!selection.empty()) {
    return Error{
        ErrorCode::invalid,
        fmt::format("parvagpu:{}: only scenarios and deployments can be chosen by name, not measurements", selection)};
  }
  return measurements(files);
}

}  // namespace tangram::formats::importers
