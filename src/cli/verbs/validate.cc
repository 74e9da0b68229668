// `tangram validate`: checks files and reports everything that is wrong with them.
//
// Each file goes through the parser that the other verbs use, so a file that passes here is accepted there. The kind is
// detected from the content unless --kind names it. For a valid file the answer is one line of counts, a quick check
// that the file holds what its author thinks it holds. With --services, plans are also checked against what they must
// carry.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "cli/file_kind.h"
#include "cli/inputs.h"
#include "cli/plan_inputs.h"
#include "cli/problem_text.h"
#include "cli/program.h"
#include "formats/access_file.h"
#include "formats/fleet_file.h"
#include "formats/jobs_file.h"
#include "formats/measurements_file.h"
#include "formats/plan_file.h"
#include "formats/recuts_file.h"
#include "formats/trace_file.h"
#include "formats/training_file.h"
#include "formats/workload_file.h"
#include "lab/model_file.h"
#include "lab/scenario.h"
#include "plan/check_plan.h"
#include "plan/sharing.h"

namespace tangram::cli {
namespace validate_verb {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string kind;
  std::string fleet;
  std::string services;
  LatencySource latency;
  std::string rule = "certified";
  double memory_headroom = plan::PlanOptions{}.memory_headroom;

  // The other options of a plan check need --services, so it decides.
  bool checks_plans() const { return !services.empty(); }
};

// "1 device", "2 devices".
std::string counted(std::size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// One overload of summary_of() for each kind of file; summarise() selects it by the type that the parser returns.
std::string summary_of(const Fleet& fleet) {
  int devices = 0;
  bool unlimited = false;
  for (const auto& group : fleet.groups) {
    devices += group.count.value_or(0);
    unlimited = unlimited || !group.count;
  }
  // A fleet with only unlimited groups has no number of devices worth printing.
  std::string text = counted(fleet.groups.size(), "group", "groups");
  if (devices > 0 || !unlimited) text += ", " + counted(static_cast<std::size_t>(devices), "device", "devices");
  return text + (unlimited ? ", unlimited others" : "");
}

// An offline job has rows instead of a rate, so jobs are counted apart and do not add to the rate.
std::string summary_of(const Workload& workload) {
  double rate = 0;
  std::size_t jobs = 0;
  std::int64_t rows = 0;
  for (const auto& service : workload.services) {
    if (service.job) {
      ++jobs;
      rows += service.job->rows;
    } else {
      rate += mean_rate_per_s(service.traffic);
    }
  }
  const std::size_t services = workload.services.size() - jobs;
  const std::string text = fmt::format("{}, {:.6g} requests/s", counted(services, "service", "services"), rate);
  return jobs == 0 ? text : fmt::format("{}; {}, {} rows", text, counted(jobs, "job", "jobs"), rows);
}

// A run that ran out of memory is a valid row, so these are counted separately.
std::string summary_of(const Measurements& measurements) {
  std::set<std::string> devices;
  std::set<std::string> models;
  std::size_t out_of_memory = 0;
  for (const auto& row : measurements) {
    devices.insert(row.device);
    models.insert(row.model);
    out_of_memory += row.out_of_memory() ? 1 : 0;
  }
  return fmt::format("{} of {} on {}, {} out of memory", counted(measurements.size(), "measurement", "measurements"),
                     counted(models.size(), "model", "models"), counted(devices.size(), "device type", "device types"),
                     out_of_memory);
}

// Requires a trace in order of time, which the parser ensures.
std::string summary_of(const Trace& trace) {
  if (trace.empty()) return "no requests";
  const auto [smallest, largest] = std::ranges::minmax(trace, {}, &TraceEntry::size);
  return fmt::format("{} in {:.6g} s, sizes {} to {}", counted(trace.size(), "request", "requests"),
                     to_seconds(trace.back().at - trace.front().at), smallest.size, largest.size);
}

// A curve is a rate for each step of time.
std::string summary_of(const std::vector<double>& curve) {
  double sum = 0;
  for (const double rate : curve) sum += rate;
  return fmt::format("{}, {:.6g} requests/s on average", counted(curve.size(), "step", "steps"),
                     curve.empty() ? 0 : sum / static_cast<double>(curve.size()));
}

std::string summary_of(const std::vector<HistogramSize::Bin>& bins) { return counted(bins.size(), "size", "sizes"); }

std::string summary_of(const std::vector<formats::ClusterJob>& jobs) { return counted(jobs.size(), "job", "jobs"); }

std::string summary_of(const std::vector<formats::TrainingRow>& rows) {
  std::set<std::string> applications;
  for (const auto& row : rows) applications.insert(row.application);
  return fmt::format("{} of {}", counted(rows.size(), "row", "rows"),
                     counted(applications.size(), "training application", "training applications"));
}

std::string summary_of(const std::vector<formats::Recut>& recuts) {
  return counted(recuts.size(), "summary of re-cuts", "summaries of re-cuts");
}

// A slice without replicas is valid: it is free.
std::string summary_of(const Plan& plan) {
  std::size_t slices = 0;
  std::size_t replicas = 0;
  for (const auto& device : plan.devices) {
    slices += device.slices.size();
    for (const auto& slice : device.slices) replicas += slice.replicas.size();
  }
  return fmt::format("{}, {}, {}", counted(plan.devices.size(), "device", "devices"),
                     counted(slices, "slice", "slices"), counted(replicas, "replica", "replicas"));
}

std::string summary_of(const formats::Access& access) {
  std::size_t keys = 0;
  for (const auto& tenant : access.tenants) keys += tenant.keys.size();
  return fmt::format("{}, {}", counted(access.tenants.size(), "tenant", "tenants"), counted(keys, "key", "keys"));
}

std::string summary_of(const lab::Scenario& scenario) {
  return fmt::format("{}; {}; policy {}", summary_of(scenario.workload), summary_of(scenario.plan),
                     scenario.config.scheduler.policy);
}

// A model file holds one fitted run for each pair of network and device type.
std::string summary_of(const learn::FittedModel& model) {
  std::set<std::string> devices;
  std::size_t measured = 0;
  for (const auto& run : model.runs()) {
    devices.insert(run.device);
    measured += run.measured.size();
  }
  return fmt::format("{} on {}, fitted to {}", counted(model.runs().size(), "model", "models"),
                     counted(devices.size(), "device type", "device types"),
                     counted(measured, "measurement", "measurements"));
}

// What a valid file contains, in one line, and what is allowed but probably not intended.
struct Summary {
  std::string text;
  std::vector<std::string> warnings;
};

// Keeps the parser's error, or replaces the parsed value by its summary. The value is dropped at once: only one file is
// in memory at a time.
template <typename T>
Result<Summary> summarise(const Result<T>& parsed) {
  if (!parsed) return parsed.error();
  return Summary{summary_of(*parsed), {}};
}

// Only services and scenarios have warnings of their own.
Result<Summary> summarise(const Result<Workload>& parsed) {
  if (!parsed) return parsed.error();
  return Summary{summary_of(*parsed), plan::tenant_doubts(*parsed)};
}

Result<Summary> summarise(const Result<lab::Scenario>& parsed) {
  if (!parsed) return parsed.error();
  return Summary{summary_of(*parsed), parsed->warnings};
}

// Parses the file as `kind`. Files that it names are read relative to `path` and checked with it.
Result<Summary> inspect(FileKind kind, const formats::Source& source, const std::string& path) {
  switch (kind) {
    case FileKind::fleet: return summarise(formats::parse_fleet(source, this_host()));
    case FileKind::services: return summarise(formats::parse_workload(source, reader_beside(path)));
    case FileKind::measurements: return summarise(formats::parse_measurements(source));
    case FileKind::trace: return summarise(formats::parse_trace(source));
    case FileKind::curve: return summarise(formats::parse_rate_curve(source));
    case FileKind::histogram: return summarise(formats::parse_histogram(source));
    case FileKind::jobs: return summarise(formats::parse_jobs(source));
    case FileKind::training: return summarise(formats::parse_training(source));
    case FileKind::recuts: return summarise(formats::parse_recuts(source));
    case FileKind::plan: return summarise(formats::parse_plan(source));
    case FileKind::model: return summarise(lab::parse_model(source));
    case FileKind::access: return summarise(formats::parse_access(source));
    case FileKind::scenario: return summarise(lab::parse_scenario(source, reader_beside(path)));
  }
  return Error{ErrorCode::invalid, "no such kind"};
}

// What plans are checked against, read once for all files. `problem` refers to `latency`.
struct PlanCheck {
  std::shared_ptr<const LatencyModel> latency;
  plan::Problem problem;
};

// A fleet with any number of each device type in the plan, for use without --fleet: the check is then about slices,
// buckets and capacity, and not about the number of devices.
Fleet fleet_for(const Plan& plan) {
  Fleet fleet;
  std::set<std::string> kinds;
  for (const auto& device : plan.devices) {
    DeviceGroup group;
    group.type = device.type;
    group.reserved = reserved_of(device);
    // No name of a device belongs to it: the plan itself says which slices others use.
    group.name = fmt::format("any {} beside {}", device.type, to_string(device.geometry, group.reserved));
    // One group for each kind of device is enough, because a group without a count is unlimited.
    if (!kinds.insert(group.name).second) continue;
    // The cores of a plan need not be those of this machine. The host is rebuilt from the plan's own geometry: a slice
    // cannot have more memory than the host, and more than one unit per core means that quotas could be set.
    if (device.type == "cpu") {
      const auto& geometry = device.geometry;
      double memory = 0;
      for (const auto& profile : geometry.profiles) memory = std::max(memory, profile.memory_gib.value);
      group.host = CpuHost{geometry.units / std::max(1, geometry.units_per_core), memory, geometry.units_per_core > 1};
    }
    fleet.groups.push_back(std::move(group));
  }
  return fleet;
}

// Errors in these files end the verb: without them no plan can be judged.
Result<PlanCheck> read_plan_check(const Options& options) {
  PlanCheck check;
  TANGRAM_TRY(auto workload, load_workload(options.services));
  TANGRAM_TRY(auto latency, load_latency(options.latency));
  check.latency = std::move(latency);
  check.problem.workload = std::move(workload);
  check.problem.latency = check.latency.get();
  check.problem.options.rule = *plan::parse_rule(options.rule);
  check.problem.options.memory_headroom = options.memory_headroom;
  // Without --fleet each plan gets its own fleet, see fleet_for().
  if (options.fleet.empty()) return check;
  TANGRAM_TRY(auto fleet, load_fleet(options.fleet));
  check.problem.fleet = std::move(fleet);
  return check;
}

// What the check has established. Nothing is simulated here, so the text must not say "certified".
std::string carried_text(const plan::Problem& problem) {
  const std::string services = counted(problem.workload.services.size(), "service", "services");
  if (problem.options.rule != plan::Rule::certified) {
    return fmt::format("can serve {} under rule {}", services, to_string(problem.options.rule));
  }
  return fmt::format("can serve {} by capacity and run time; waiting was not simulated", services);
}

// Checks a plan against its services. All problems are in the message of the error, one line each, like those of a
// parser.
Result<Summary> inspect_plan(const formats::Source& source, const PlanCheck& check) {
  const auto plan = formats::parse_plan(source);
  if (!plan) return plan.error();
  plan::Problem problem = check.problem;
  if (problem.fleet.groups.empty()) problem.fleet = fleet_for(*plan);
  std::string message;
  for (const auto& wrong : plan::check_plan(problem, *plan)) {
    message += (message.empty() ? "" : "\n") + source.name + ": " + wrong;
  }
  if (!message.empty()) return Error{ErrorCode::invalid, message};
  return Summary{summary_of(*plan) + "; " + carried_text(problem), {}};
}

// What was found about one file.
struct Verdict {
  std::string file;
  std::string name;  // The name in its problems: "standard input" for "-".
  std::optional<FileKind> kind;
  Result<Summary> summary;
};

// Never fails as a whole: a file that cannot be read or recognised is a verdict like any other, so the next file is
// still checked.
Verdict judge(const std::string& path, const Options& options, const std::optional<PlanCheck>& check) {
  const auto source = read_source(path);
  if (!source) return {path, path, std::nullopt, source.error()};
  // An empty file has no kind to detect. With --kind, the parser of that kind decides whether empty is valid.
  if (options.kind.empty() && text::trim(source->text).empty()) {
    return {path, source->name, std::nullopt, Error{ErrorCode::invalid, source->name + ": the file is empty"}};
  }
  const auto kind = options.kind.empty() ? detect_file_kind(path, source->text) : parse_file_kind(options.kind);
  // The message has the place 1:1, so that editors treat it like every other problem of a file.
  if (!kind) {
    return {path, source->name, kind,
            Error{ErrorCode::invalid,
                  fmt::format("{}:1:1: cannot tell the kind of this file; name it with --kind, one of {}", source->name,
                              text::join(file_kind_names(), ", "))}};
  }
  if (kind == FileKind::plan && check) return {path, source->name, kind, inspect_plan(*source, *check)};
  return {path, source->name, kind, inspect(*kind, *source, path)};
}

// All keys are present for every file, so that programs need no case distinction.
report::Json verdict_json(const Verdict& verdict) {
  report::Json json{{"file", verdict.file},
                    {"kind", verdict.kind ? report::Json(to_string(*verdict.kind)) : report::Json(nullptr)},
                    {"valid", verdict.summary.ok()},
                    {"summary", verdict.summary ? report::Json(verdict.summary->text) : report::Json(nullptr)},
                    {"warnings", verdict.summary ? report::Json(verdict.summary->warnings) : report::Json::array()}};
  json["problems"] =
      verdict.summary ? report::Json::array() : problems_json(verdict.summary.error().message, verdict.name);
  return json;
}

// The exit code is that of the worst file. A file that cannot be read (3) is worse than a wrong one (2), because
// nothing is known about it; the numbers of the exit codes are in that order.
Result<ExitCode> run(Session& session, const Options& options) {
  // Read once, before the first file: it is the same for all plans.
  std::optional<PlanCheck> check;
  if (options.checks_plans()) {
    TANGRAM_TRY(auto read, read_plan_check(options));
    check = std::move(read);
  }
  ExitCode worst = ExitCode::done;
  report::Json list = report::Json::array();
  for (const auto& path : options.files) {
    const Verdict verdict = judge(path, options, check);
    // Problems go to standard error in every form, and into the document as well.
    if (!verdict.summary) worst = std::max(worst, session.fail(verdict.summary.error()));
    if (session.structured()) list.push_back(verdict_json(verdict));
    if (!verdict.summary) continue;
    session.remark(fmt::format("{}: {}\n", path, verdict.summary->text));
    for (const auto& warning : verdict.summary->warnings) session.warn(fmt::format("{}: {}", verdict.name, warning));
  }
  if (session.structured()) session.print_value(list);
  return worst;
}

}  // namespace
}  // namespace validate_verb

void add_validate(Program& program) {
  using namespace validate_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "validate",
       .group = "Files",
       .summary = "check files and print all errors in them",
       .description =
           "Reads each FILE, detects its kind (fleet, services, measurements, trace, plan, model, ...) and checks "
           "all of it, with the files that it names. Every error is printed as file:line:column: text, and the exit "
           "code is then 2; a file that cannot be read gives 3. A valid file is summarised in one line. A dash reads "
           "standard input. With --services and run times, plans are also checked against the load: every input size "
           "has a bucket, every run fits into the Slo, and the slices have enough time for all requests. This is not "
           "a simulation: plan and simulate show whether promises hold when requests queue.",
       .examples = {{"tangram validate examples/fleet.yaml examples/services.yaml", "Check two files."},
                    {"tangram validate --kind trace examples/trace.csv", "Name the kind, if it cannot be detected."},
                    {"tangram validate --quiet examples/*.yaml && echo fine", "Print only errors; test the exit code."},
                    {"tangram validate plan.json --services examples/services.yaml --measurements "
                     "examples/measurements.csv --fleet examples/fleet.yaml",
                     "Check that a plan can serve the services."},
                    {"tangram validate examples/fleet.yaml --output json",
                     "Print errors as file, line, column, message."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers_files(verb.add_option("FILE", options->files, "The files to check.")->required());
  program.one_of(
      verb.add_option("--kind", options->kind, "The kind of the files, if it cannot be detected.")->type_name("KIND"),
      file_kind_names());
  const auto file = [&](const char* name, std::string& path, const char* help) {
    return program.offers_files(verb.add_option(name, path, help)->type_name("FILE"));
  };
  Argument* services = file("--services", options->services, "The services that plans must be able to serve.");
  Argument* measurements = file("--measurements", options->latency.measurements, "Measured run times, CSV.");
  measurements->needs(services);
  file("--model", options->latency.model, "A latency model that tangram learn wrote.")
      ->needs(services)
      ->excludes(measurements);
  file("--fleet", options->fleet, "The fleet that plans may use; default: any number of devices.")->needs(services);
  program.one_of(verb.add_option("--rule", options->rule, "The rule for when a slice is fast enough.")
                     ->type_name("NAME")
                     ->capture_default_str()
                     ->needs(services),
                 {"half", "certified", "no_waiting"});
  verb.add_option("--memory-headroom", options->memory_headroom,
                  "The share of a slice's memory that runs must leave free, where their peak memory was measured.")
      ->type_name("SHARE")
      ->capture_default_str()
      ->needs(services)
      ->range(0.0, 0.9);
}

}  // namespace tangram::cli
