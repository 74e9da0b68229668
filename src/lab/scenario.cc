// A scenario file becomes values in two steps. First the YAML document is read into records, whose fields, limits and
// help texts the describe() functions list; the schema and the reference page come from the same lists. Then the
// assembler reads the files that the records name and builds the workload, the plan and the latency model.
//
// Errors are collected, not returned one by one: each names the file, the line and the column, and a user corrects all
// of them in one go. Later steps rely on the results of earlier ones, so a step that needs a sound value first asks
// whether there are problems already. Example: a plan that names an unknown profile is not compiled.

#include "lab/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "core/geometry.h"
#include "formats/measurements_file.h"
#include "formats/plan_file.h"
#include "formats/workload_file.h"
#include "lab/detail/servable.h"
#include "lab/detail/training_record.h"
#include "lab/model_file.h"
#include "learn/models/analytic.h"
#include "learn/models/table.h"
#include "sched/background.h"
#include "sched/scheduler_description.h"
#include "sched/slice_memory.h"

namespace tangram::lab {
namespace {

using formats::Located;
using formats::Node;
using formats::Position;
using formats::Problems;
using formats::Shape;
using formats::TextRule;

// Limits against typing errors.
constexpr int kDevicesMax = 100'000;   // Of one entry.
constexpr double kSecondsMax = 1e9;    // Thirty years.
constexpr double kRequestsMax = 1e12;  // Of one run.
constexpr double kRateMax = 1e9;       // Requests a second.
constexpr std::size_t kTenantsMax = 1'000'000;

// Records mirror the document. Located<> keeps the position of a value for messages about how values fit together,
// which can only be checked after reading.
struct BucketRecord {
  std::int64_t size_max = 1;
  std::int64_t batch_size = 1;
};

struct ReplicaRecord {
  Located<std::string> service;
  Located<std::optional<std::string>> slices;
  int processes = 1;
  Located<std::vector<BucketRecord>> buckets;
  std::optional<double> rate_max_per_s;
};

struct DeviceRecord {
  Located<std::string> type;
  // Absent: the type serves as the prefix of the names.
  std::optional<std::string> name;
  int count = 1;
  Located<std::string> layout;
  std::vector<ReplicaRecord> replicas;
  // The geometry of a GPU follows from its type. That of a host has to be given.
  Located<std::optional<int>> cores;
  Located<std::optional<double>> memory_gib;
  Located<std::optional<bool>> quota;
};

// A plan is the path of a plan file, or the devices written out in the scenario.
struct PlanFile {
  std::string path;
};
using PlanSource = std::variant<PlanFile, std::vector<Located<DeviceRecord>>>;

// Run times come from measured points, from a fitted model, or from a formula for each network.
struct MeasurementsFile {
  std::string path;
};
struct ModelFile {
  std::string path;
};
using LatencySource = std::variant<MeasurementsFile, ModelFile, std::vector<learn::AnalyticRun>>;

struct PlanChangeRecord {
  TimePoint at;
  Located<PlanSource> plan;
};

struct BackgroundRecord {
  Located<std::string> service;
  std::size_t under_way = sim::BackgroundJob{}.under_way;
};

Shape services_shape();

// The whole file. Members carry the defaults, so a record that was read holds every value that the run will use.
struct ScenarioRecord {
  std::string name = "scenario";
  // Kept as a subtree: its own reader, which services files use as well, takes it later.
  formats::Subtree services{{}, &services_shape};
  std::optional<Located<PlanSource>> plan;
  std::optional<std::string> fleet;
  Located<LatencySource> latency;
  sched::SchedulerConfig scheduler;
  sim::NoiseModel noise;
  sim::FaultModel faults;
  std::optional<Duration> duration;
  std::optional<std::uint64_t> requests;
  std::uint64_t warmup_requests = 0;
  std::uint64_t seed = 1;
  std::size_t tenants = 1;
  double first_tenant_factor = 1;
  double rate_scale = 1;
  std::vector<PlanChangeRecord> plan_changes;
  std::vector<BackgroundRecord> background;
  std::optional<Located<TrainingRecord>> training;
};

}  // namespace
}  // namespace tangram::lab

namespace tangram::learn {

template <typename Visitor>
void describe(Visitor& v, AnalyticRun& c) {
  v.about("Run times of a model",
          "max(launch_ms, sample_ms * batch * (size / size_reference) ^ size_exponent * "
          "processes / slices ^ slice_exponent).");
  v.field("model", c.model, {.required = true}, "The network, with the name that the services use.");
  v.field("device", c.device, {.names = &device_type_names}, "The device type; default: all types.");
  v.field("launch_ms", c.launch_ms, {.max = 1e6, .above = 0, .required = true}, "The shortest run time.");
  v.field("sample_ms", c.sample_ms, {.max = 1e9, .above = 0, .required = true},
          "The time of one sample of the reference size on one compute slice (on the host: one core).");
  v.field("size_reference", c.size_reference, {.max = 1e9, .above = 0}, "The input size to which sample_ms refers.");
  v.field("size_exponent", c.size_exponent, {.min = 0, .max = 4}, "The time grows with this power of the input size.");
  v.field("slice_exponent", c.slice_exponent, {.min = 0, .max = 1},
          "The speed grows with this power of the compute slices; below 1, large slices gain less than their share.");
  v.field("p99_factor", c.p99_factor, {.min = 1, .max = 100}, "The p99 of a run time divided by its mean.");
  v.field("memory_gib", c.memory_gib, {.min = 0, .max = 1e6}, "The memory of the loaded model, per process.");
  v.field("memory_sample_gib", c.memory_sample_gib, {.min = 0, .max = 1e6},
          "The memory of each sample of the reference size in a batch.");
}

}  // namespace tangram::learn

namespace tangram::sim {

template <typename Visitor>
void describe(Visitor& v, NoiseModel& c) {
  v.about("Noise", "How real run times differ from the predictions.");
  v.field("spread", c.spread, {.min = 0, .max = 5},
          "The standard deviation of the logarithm of run times; their mean stays as predicted.");
  v.field("factor", c.factor, {.max = 1e3, .above = 0},
          "The factor for all real run times, to simulate a wrong model.");
  v.field("exponential", c.exponential, "Run times are exponential with the predicted mean, as in queueing formulas.");
}

template <typename Visitor>
void describe(Visitor& v, FaultModel& c) {
  // All faults are off by default: a probability or a mean time of 0 means that the fault never happens.
  constexpr formats::Limits kShare{.min = 0, .max = 1};
  constexpr formats::Limits kSeconds{.min = 0, .max = 1e9};
  v.about("Faults", "The faults to inject.");
  v.field("slow_probability", c.slow_probability, kShare,
          "The probability that a batch takes slow_factor times as long.");
  v.field("slow_factor", c.slow_factor, {.min = 1, .max = 1e6}, "The factor for the time of a slow batch.");
  v.field("fail_probability", c.fail_probability, kShare, "The probability that a batch ends with an error.");
  v.field("stuck_probability", c.stuck_probability, kShare, "The probability that a batch is never answered.");
  v.field("slice_lost_mean_s", c.slice_lost_mean_s, kSeconds,
          "The mean time between losses of a slice, over all slices; 0: none.");
  v.field("restart_s", c.restart_s, kSeconds, "The time until a lost slice serves again.");
  v.field("reshape_s", c.reshape_s, kSeconds, "The time to re-cut a device and load its models.");
  v.field("reshape_fail_probability", c.reshape_fail_probability, kShare, "The probability that a re-cut fails.");
  v.field("recall_s", c.recall_s, kSeconds, "The time until a lent slice is returned.");
}

}  // namespace tangram::sim

namespace tangram::lab {
namespace {

template <typename Visitor>
void describe(Visitor& v, BucketRecord& c) {
  v.about("Bucket", "Input sizes that are padded to one size and batched together.");
  v.field("size_max", c.size_max, {.min = 1, .max = 1e9},
          "The largest size of the bucket; it takes all sizes above the next smaller bucket of the service.");
  v.field("batch_size", c.batch_size, {.min = 1, .max = sched::kBatchMax, .required = true}, "The largest batch.");
}

template <typename Visitor>
void describe(Visitor& v, ReplicaRecord& c) {
  v.about("Replicas", "One model loaded on slices of each device.");
  v.field("service", c.service, {.required = true, .text = TextRule::name}, "The service that the replicas serve.");
  v.field("slices", c.slices,
          "The slices: a MigProfile (`3g.40gb`), or one slice (`3g.40gb@4`); default: every slice.");
  v.field("processes", c.processes, {.min = 1, .max = 1000},
          "The number of processes of this replica that share the slice.");
  v.field("buckets", c.buckets, {.required = true, .items_min = 1},
          "The buckets that they serve, in ascending order of sizes.");
  v.field("rate_max_per_s", c.rate_max_per_s, {.max = kRateMax, .above = 0},
          "On slices that services share: the requests a second of the service, on all its slices together, beyond "
          "which it is rejected; default: no limit.");
}

template <typename Visitor>
void describe(Visitor& v, DeviceRecord& c) {
  v.about("Devices", "A number of equal devices with the same cuts and replicas.");
  v.field("type", c.type, {.required = true, .names = &device_type_names}, "The device type.");
  v.field("name", c.name, {.text = TextRule::name}, "The prefix of the devices' names; default: the type.");
  v.field("count", c.count, {.min = 1, .max = kDevicesMax}, "The number of devices.");
  v.field("layout", c.layout, {.required = true}, "The cuts of each device: `4g.40gb@0 + 3g.40gb@4`.");
  v.field("replicas", c.replicas, {.required = true},
          "The replicas on the slices. Several replicas on a slice take turns.");
  v.field("cores", c.cores, {.min = 1, .max = kCpuCoresMax}, "Only for cpu, and required there: the number of cores.");
  v.field("memory_gib", c.memory_gib, {.min = 0, .max = 1e6}, "Only for cpu, and required there: the memory.");
  v.field("quota", c.quota, "Only for cpu, and required there: whether it is cut by quarters of a core.");
}

template <typename Visitor>
void describe(Visitor& v, PlanSource& plan) {
  v.plain(plan, &PlanFile::path, {}, "The path of a plan file, relative to this file.");
  v.option("devices", plan, std::vector<Located<DeviceRecord>>{}, "The plan itself.");
}

template <typename Visitor>
void describe(Visitor& v, LatencySource& latency) {
  v.shorthand("measurements", latency, &MeasurementsFile::path, {},
              "The path of a measurements file, relative to this file; run times are interpolated linearly.");
  v.shorthand("model", latency, &ModelFile::path, {},
              "The path of a model that `tangram learn` wrote, relative to this file.");
  v.option("models", latency, std::vector<learn::AnalyticRun>{}, "A formula for each model.");
}

template <typename Visitor>
void describe(Visitor& v, PlanChangeRecord& c) {
  v.about("Plan change", "A plan that takes effect while the simulation runs.");
  v.field("at_s", c.at, {.min = 0, .max = kSecondsMax, .required = true}, "When.");
  v.field("plan", c.plan, {.required = true}, "The plan, for the same devices.");
}

template <typename Visitor>
void describe(Visitor& v, BackgroundRecord& c) {
  v.about("Offline job", "Rows that run in the background, in the capacity that online traffic leaves.");
  v.field("service", c.service, {.required = true, .text = TextRule::name}, "The service that runs the rows.");
  v.field("under_way", c.under_way, {.min = 1, .max = sched::kBackgroundMax},
          "The number of rows that are queued or run at any time, until the last request has arrived.");
}

template <typename Visitor>
void describe(Visitor& v, ScenarioRecord& c) {
  v.about("Scenario", "A simulation: services, a plan, run times, a scheduler and faults.");
  v.field("name", c.name, {.text = TextRule::name}, "The name in reports.");
  v.field("services", c.services, {.required = true}, "The services: a services file, or the list itself.");
  v.field("plan", c.plan, "The cuts of the devices and their replicas. Required, unless there is a fleet.");
  v.field("fleet", c.fleet,
          "The path of a fleet file, relative to this file, for `tangram simulate --replan`, which makes the plans "
          "itself.");
  v.field("latency", c.latency, {.required = true}, "The run times.");
  v.field("scheduler", c.scheduler, "The scheduler: how requests are admitted, batched and dispatched.");
  v.field("noise", c.noise, "How real run times differ from the predictions.");
  v.field("faults", c.faults, "The faults to inject.");
  v.field("duration_s", c.duration, {.max = kSecondsMax, .above = 0},
          "The virtual time in which requests arrive; requests in flight at its end are still served.");
  v.field("requests", c.requests, {.min = 1, .max = kRequestsMax}, "The number of requests, instead of a duration.");
  v.field("warmup_requests", c.warmup_requests, {.min = 0, .max = kRequestsMax},
          "The number of requests at the start that are served but not counted.");
  v.field("seed", c.seed, {.min = 0}, "The seed of all random numbers; the same seed repeats the run exactly.");
  v.field("tenants", c.tenants, {.min = 1, .max = kTenantsMax},
          "The number of tenants to which requests are assigned at random.");
  v.field("first_tenant_factor", c.first_tenant_factor, {.min = 0.001, .max = 1000},
          "How many times as many requests the first tenant sends as each of the others.");
  v.field("rate_scale", c.rate_scale, {.max = 1e6, .above = 0}, "The factor for all rates; traces run faster.");
  v.field("plan_changes", c.plan_changes, "Plans that take effect during the run, in order of time.");
  v.field("background", c.background, "Offline jobs beside the traffic.");
  v.field("training", c.training, "Elastic training on slices that the services lend.");
}

// A path, or the list.
Shape services_shape() {
  Shape path;
  path.kind = Shape::Kind::text;
  Shape shape;
  shape.kind = Shape::Kind::choice;
  shape.fields.push_back({"", "The path of a services file, relative to this file.", true, std::nullopt, path});
  shape.fields.push_back(
      {"", "The services, in the form of a services file.", true, std::nullopt, formats::service_list_shape()});
  // The two alternatives have no key of their own: text is a path, a list is the services.
  return shape;
}

// "folder/" of a path that has one, "" of a bare file name. Appending a file name gives its neighbour in both cases.
std::string folder_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? "" : std::string(path.substr(0, slash + 1));
}

std::string bounded_name(const std::string& prefix, int number) { return fmt::format("{}-{}", prefix, number); }

// Builds the parts of a scenario and reports where they do not fit together. A part that cannot be built comes back
// empty, with the reason added to the problems, so that the other parts are still checked.
class ScenarioAssembler {
 public:
  ScenarioAssembler(const formats::ReadFile& read_file, Problems& problems)
      : read_file_(read_file), problems_(problems) {}

  // The workload, from the list in the scenario or from the services file that it names.
  Workload services(const Node& node) {
    if (node.kind != Node::Kind::scalar) return formats::read_services(node, read_file_, problems_);
    const auto text = read(node.text, node.at);
    if (!text) return {};
    // What the services file names is meant relative to it.
    const std::string folder = folder_of(node.text);
    const formats::ReadFile beside = [&](const std::string& path) {
      // A services file can be used by scenarios in several folders, so its paths must not depend on who reads it.
      return read_file_(path.starts_with('/') ? path : folder + path);
    };
    auto workload = formats::parse_workload({node.text, *text}, beside);
    if (workload) return std::move(*workload);
    // The message names the other file and its line already.
    problems_.add_complete(node.at, workload.error().message);
    return {};
  }

  Plan plan(const Located<PlanSource>& source) {
    if (const auto* file = std::get_if<PlanFile>(&source.value)) {
      const auto text = read(file->path, source.at);
      if (!text) return {};
      auto plan = formats::parse_plan({file->path, *text});
      if (plan) return std::move(*plan);
      problems_.add_complete(source.at, plan.error().message);
      return {};
    }
    Plan plan;
    // Numbers go on over all entries with the same prefix, so that names are unique in the plan.
    std::map<std::string, int> used;
    for (const auto& device : std::get<std::vector<Located<DeviceRecord>>>(source.value)) {
      add_devices(device, used, plan);
    }
    return plan;
  }

  // The run times; null, with a problem added, if they cannot be read.
  std::shared_ptr<const LatencyModel> latency(const Located<LatencySource>& source) {
    if (const auto* runs = std::get_if<std::vector<learn::AnalyticRun>>(&source.value)) {
      return std::make_shared<learn::AnalyticModel>(*runs);
    }
    if (const auto* model = std::get_if<ModelFile>(&source.value)) return fitted(model->path, source.at);
    const std::string& path = std::get<MeasurementsFile>(source.value).path;
    const auto text = read(path, source.at);
    if (!text) return nullptr;
    const auto measurements = formats::parse_measurements({path, *text});
    if (measurements) return std::make_shared<learn::TableModel>(*measurements);
    problems_.add_complete(source.at, measurements.error().message);
    return nullptr;
  }

 private:
  // A model file written by `tangram learn`.
  std::shared_ptr<const LatencyModel> fitted(const std::string& path, Position at) {
    const auto text = read(path, at);
    if (!text) return nullptr;
    auto model = parse_model({path, *text});
    if (model) return std::make_shared<learn::FittedModel>(std::move(*model));
    problems_.add_complete(at, model.error().message);
    return nullptr;
  }

  // The text of a file that the scenario names; nullopt, with a problem at the place of the name, if it cannot be read.
  std::optional<std::string> read(const std::string& path, Position at) {
    if (path.empty()) return std::nullopt;  // A missing path has been reported already.
    auto text = read_file_(path);
    if (text) return std::move(*text);
    problems_.add(at, fmt::format("cannot read {}: {}", path, text.error().message));
    return std::nullopt;
  }

  // The geometry of an entry; nullopt if it is incomplete. Only a host needs the fields that describe it, and only a
  // host may have them: on a GPU they would be ignored without a word.
  std::optional<Geometry> geometry_of(const Located<DeviceRecord>& device) {
    const DeviceRecord& record = device.value;
    if (record.type.value.empty()) return std::nullopt;
    if (record.type.value != "cpu") {
      for (const Position at : {record.cores.at, record.memory_gib.at, record.quota.at}) {
        // Line 0: the field was not given.
        if (at.line != 0) problems_.add(at, "cores, memory_gib and quota apply only to type cpu");
      }
      return *find_geometry(record.type.value);
    }
    if (!record.cores.value || !record.memory_gib.value || !record.quota.value) {
      problems_.add(device.at, "a device of type cpu needs cores, memory_gib and quota");
      return std::nullopt;
    }
    return cpu_geometry({*record.cores.value, *record.memory_gib.value, *record.quota.value});
  }

  // Adds `count` devices that are cut and loaded alike. The layout is parsed first, because replicas select among its
  // slices.
  void add_devices(const Located<DeviceRecord>& device, std::map<std::string, int>& used, Plan& plan) {
    const auto geometry = geometry_of(device);
    if (!geometry) return;
    const DeviceRecord& record = device.value;
    const auto layout = parse_layout(*geometry, record.layout.value);
    // A layout is one string with several slices, so problems point into it.
    for (const auto& problem : layout.problems) problems_.add(record.layout.at_offset(problem.offset), problem.message);
    PlannedDevice planned{"", record.type.value, *geometry, {}};
    for (const Slice& slice : layout.layout.slices) planned.slices.push_back({slice, {}});
    for (const auto& replica : record.replicas) add_replica(replica, *geometry, planned);
    const std::string prefix = record.name.value_or(record.type.value);
    int& next = used[prefix];
    for (int i = 0; i < record.count; ++i) {
      planned.name = bounded_name(prefix, next++);
      plan.devices.push_back(planned);
    }
  }

  // Puts one replica on every slice of `device` that the record selects. A selection without a slice is an error: its
  // replica would silently be missing from the plan.
  void add_replica(const ReplicaRecord& record, const Geometry& geometry, PlannedDevice& device) {
    Replica replica{record.service.value, {}, record.processes};
    replica.rate_max_per_s = record.rate_max_per_s;
    for (const auto& bucket : record.buckets.value) {
      // Each bucket takes the sizes above those of the bucket before it, so an edge that does not ascend leaves it
      // empty.
      if (!replica.buckets.empty() && bucket.size_max <= replica.buckets.back().size_max) {
        problems_.add(record.buckets.at, fmt::format("buckets of {} must ascend in size_max", record.service.value));
      }
      replica.buckets.push_back({bucket.size_max, bucket.batch_size});
    }
    bool placed = false;
    for (auto& planned : device.slices) {
      if (record.slices.value && !selects(*record.slices.value, geometry, planned.slice)) continue;
      planned.replicas.push_back(replica);
      placed = true;
    }
    if (placed) return;
    problems_.add(record.slices.value ? record.slices.at : record.service.at,
                  record.slices.value ? "no slice of the layout is " + *record.slices.value
                                      : std::string("the layout of this device has no slices"));
  }

  // True if `text` names the slice: "3g.40gb@4" names one, "3g.40gb" and "3g" all of a profile.
  static bool selects(const std::string& text, const Geometry& geometry, const Slice& slice) {
    const auto at = text.find('@');
    const auto profile = find_profile(geometry, text::trim(std::string_view(text).substr(0, at)));
    if (!profile || *profile != slice.profile) return false;
    return at == std::string::npos || text::parse_integer(text::trim(text.substr(at + 1))) == slice.start;
  }

  const formats::ReadFile& read_file_;
  Problems& problems_;
};

// True if the run has an end without duration_s and requests: every trace ends, all other traffic goes on for ever.
bool ends_by_itself(const Workload& workload) {
  return std::ranges::all_of(
      workload.services, [](const Service& service) { return std::holds_alternative<TraceTraffic>(service.traffic); });
}

// The plan, compiled. Does nothing while there are problems: the plan may be incomplete, and its errors would only
// repeat them.
std::optional<sched::Deployment> compiled(const Plan& plan, const Scenario& scenario, Position at, Problems& problems) {
  if (!problems.empty()) return std::nullopt;
  auto deployment = sched::compile(plan, scenario.workload, *scenario.latency);
  if (!deployment) {
    problems.add(at, deployment.error().message);
    return std::nullopt;
  }
  // A gateway would not start with it, so a simulation must not say how well it serves.
  if (const auto lacks = sched::why_memory_lacks(*deployment)) {
    problems.add(at, *lacks);
    return std::nullopt;
  }
  return std::move(*deployment);
}

// True if both plans are for the same hardware. Layouts and replicas may differ; that is what a plan change is for.
bool same_devices(const Plan& a, const Plan& b) {
  return std::ranges::equal(a.devices, b.devices, [](const PlannedDevice& x, const PlannedDevice& y) {
    return x.type == y.type && x.name == y.name;
  });
}

// Compiles the plans that come into force on the way. They must be in order of time and for the devices of the first
// plan: a simulated fleet neither grows nor shrinks.
void add_plan_changes(const ScenarioRecord& record, ScenarioAssembler& assembler, Scenario& scenario,
                      Problems& problems) {
  TimePoint last;
  for (const auto& change : record.plan_changes) {
    const Plan plan = assembler.plan(change.plan);
    if (change.at < last) problems.add(change.plan.at, "plan_changes must be in order of time");
    if (problems.empty() && !same_devices(plan, scenario.plan)) {
      problems.add(change.plan.at, "a new plan must have the same devices, in the same order");
    }
    last = change.at;
    if (auto deployment = compiled(plan, scenario, change.plan.at, problems)) {
      scenario.config.plan_changes.push_back({change.at, std::move(*deployment)});
    }
  }
}

// Offline jobs name their service; the simulation knows services by number.
void add_background(const ScenarioRecord& record, Scenario& scenario, Problems& problems) {
  const auto& services = scenario.workload.services;
  for (const auto& job : record.background) {
    const auto found = std::ranges::find(services, job.service.value, &Service::name);
    if (found == services.end()) {
      problems.add(job.service.at, fmt::format("unknown service {}", job.service.value));
      continue;
    }
    const ServiceId service(static_cast<std::uint32_t>(found - services.begin()));
    scenario.config.background.push_back({service, job.under_way});
  }
}

// Values that need no check beyond their limits.
void fill_config(const ScenarioRecord& record, sim::SimulationConfig& config) {
  config.scheduler = record.scheduler;
  config.noise = record.noise;
  config.faults = record.faults;
  config.seed = record.seed;
  if (record.duration) config.duration = *record.duration;
  if (record.requests) config.requests_max = *record.requests;
  config.warmup_requests = record.warmup_requests;
  config.rate_scale = record.rate_scale;
  config.tenants = record.tenants;
  config.first_tenant_factor = record.first_tenant_factor;
}

// Makes scalars valid JSON: words in quotes, numbers without a bare point or leading zeros. YAML allows more spellings,
// such as "~" for null and ".5".
void make_json(Node& node) {
  if (node.kind == Node::Kind::scalar && !node.quoted) {
    if (const auto integer = text::parse_integer(node.text)) {
      node.text = std::to_string(*integer);
    } else if (const auto number = text::parse_number(node.text)) {
      node.text = formats::detail::write_number(*number);
    } else if (node.text == "~") {
      node.text = "null";
    } else {
      node.quoted = !formats::detail::looks_typed(node.text);
    }
  }
  for (auto& item : node.items) make_json(item);
  for (auto& entry : node.entries) make_json(entry.value);
}

// Sets a key, in its place if it is there, else at the end.
void put(Node& map, const std::string& key, Node value) {
  for (auto& entry : map.entries) {
    if (entry.key != key) continue;
    entry.value = std::move(value);
    return;
  }
  map.entries.push_back({key, {}, std::move(value)});
}

}  // namespace

Result<Scenario> parse_scenario(const formats::Source& source, const formats::ReadFile& read_file) {
  // Three kinds of errors are reported in turn: the syntax, the fields, and how the parts fit together. Within each,
  // all problems come back at once.
  Problems problems(source.name);
  const auto root = formats::parse_yaml(source, problems);
  if (!root) return problems.error();
  ScenarioRecord record;
  formats::read_document(*root, problems, record);
  if (!problems.empty()) return problems.error();

  ScenarioAssembler assembler(read_file, problems);
  Scenario scenario;
  scenario.name = record.name;
  scenario.workload = assembler.services(record.services.node);
  scenario.fleet = record.fleet.value_or("");
  if (record.plan) scenario.plan = assembler.plan(*record.plan);
  if (!record.plan && !record.fleet) problems.add(root->at, "needs a plan, or a fleet to plan for");
  // Problems of a plan that is missing point at the document.
  const Position plan_at = record.plan ? record.plan->at : root->at;
  scenario.latency = assembler.latency(record.latency);
  fill_config(record, scenario.config);
  if (!record.duration && !record.requests && problems.empty() && !ends_by_itself(scenario.workload)) {
    problems.add(root->at, "needs duration_s or requests: the traffic does not end by itself");
  }
  if (auto deployment = compiled(scenario.plan, scenario, plan_at, problems)) {
    scenario.deployment = std::move(*deployment);
  }
  add_plan_changes(record, assembler, scenario, problems);
  if (problems.empty()) add_background(record, scenario, problems);
  if (record.training) {
    // Training lives on what one plan lends. Without a plan, or with a second one, the tables of needs would be for
    // other slices.
    if (!record.plan) problems.add(record.training->at, "training needs a plan whose slices can be lent");
    if (!record.plan_changes.empty()) {
      problems.add(record.training->at,
                   "training and plan_changes cannot be combined: the slices to lend come from one plan");
    }
    scenario.training = training_setup(record.training->value, read_file, record.seed, problems);
  }
  if (!problems.empty()) return problems.error();
  // A service may get its first replica in a later plan, so all plans are looked at together.
  std::vector<const sched::Deployment*> plans{&scenario.deployment};
  for (const auto& change : scenario.config.plan_changes) plans.push_back(&change.deployment);
  if (!record.plan) plans.clear();
  for (const auto& service :
       plans.empty() ? std::vector<std::string>{} : services_without_replica(scenario.workload, plans)) {
    problems.add(plan_at, fmt::format("the service {} has no replica in the plan{}: all its requests would be rejected",
                                      service, plans.size() > 1 ? ", nor in a later plan" : ""));
  }
  if (!problems.empty()) return problems.error();
  // These scenarios run; a warning says what is probably not meant.
  if (!plans.empty()) scenario.warnings = doubts(scenario.workload, plans);
  scenario.document = formats::write_document(record, formats::Defaults::keep);
  make_json(scenario.document);
  return scenario;
}

std::string effective_configuration(const Scenario& scenario) {
  const sim::SimulationConfig& config = scenario.config;
  Node document = scenario.document;
  // Overrides change the configuration after the file was read. What they can change is written from the configuration,
  // everything else from the document.
  put(document, "scheduler", formats::write_document(config.scheduler, formats::Defaults::keep));
  put(document, "seed", formats::plain_node(std::to_string(config.seed)));
  put(document, "rate_scale", formats::plain_node(text::shortest(config.rate_scale)));
  if (config.duration != Duration::max()) {
    put(document, "duration_s",
        formats::plain_node(formats::detail::write_time(config.duration.count(), "duration_s")));
  }
  return formats::to_json(document);
}

formats::Shape scenario_shape() { return formats::shape_of<ScenarioRecord>(); }

}  // namespace tangram::lab
