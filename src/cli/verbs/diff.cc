// `tangram diff`: what changes between two plans, and how to get from one to the other.

#include <fmt/format.h>

#include <algorithm>

#include "adapters/nvml/nvml.h"
#include "base/text.h"
#include "cli/inputs.h"
#include "cli/plan_inputs.h"
#include "cli/program.h"
#include "formats/plan_file.h"
#include "host/files.h"
#include "plan/demand.h"
#include "plan/replica_capacity.h"
#include "plan/transition.h"
#include "recut/live_gpus.h"
#include "report/mosaic.h"
#include "report/table.h"

namespace tangram::cli {
namespace {

constexpr std::size_t kDevicesDrawn = 16;  // More are only listed.
constexpr int kSparesMax = 1000;

struct Options {
  bool live = false;
  std::vector<std::string> gpus;
  std::vector<std::string> devices;
  std::string before;
  std::string after;
  bool steps = false;
  std::optional<std::size_t> rollback;
  bool by_name = false;
  bool keep_places = false;
  bool no_temporaries = false;
  std::string services;
  LatencySource latency;
  std::string recut_times;
  double load_s = 10;
  double drain_s = 1;
  std::vector<std::string> spares;
  std::string to;
};

// What the options mean. The workload and the latency model live here because the capacity refers to them.
struct Question {
  Plan before;
  Plan after;
  std::optional<Workload> workload;
  std::shared_ptr<const LatencyModel> latency;
  plan::TransitionOptions options;
  std::set<std::string> unknown;   // Replicas without run times.
  std::vector<std::string> apart;  // With --live: slices that are there, but not as one part.
};

// "a100-80gb:2" stands for two empty devices that may help out.
Result<std::vector<PlannedDevice>> spares_of(const std::vector<std::string>& texts) {
  std::vector<PlannedDevice> spares;
  for (const auto& text : texts) {
    const auto parts = text::split(text, ':');
    const Geometry* geometry = find_geometry(parts[0]);
    const auto count = parts.size() > 1 ? text::parse_integer(parts[1]) : std::optional<std::int64_t>(1);
    if (geometry == nullptr || parts.size() > 2 || !count || *count < 1 || *count > kSparesMax) {
      return Error{ErrorCode::invalid,
                   fmt::format("--spare: expected TYPE or TYPE:COUNT with a GPU type, found \"{}\"", text)};
    }
    for (std::int64_t i = 0; i < *count; ++i) {
      spares.push_back({fmt::format("spare-{}-{}", geometry->type, i), geometry->type, *geometry, {}});
    }
  }
  return spares;
}

Result<Nothing> read_capacity(const Options& options, Question& question) {
  if (options.services.empty() && !options.latency.given()) return Nothing{};
  if (options.services.empty() || !options.latency.given()) {
    return Error{ErrorCode::invalid, "capacities need both --services and one of --measurements and --model"};
  }
  TANGRAM_TRY(auto workload, load_workload(options.services));
  TANGRAM_TRY(auto latency, load_latency(options.latency));
  question.workload = std::move(workload);
  question.latency = std::move(latency);
  question.options.capacity =
      plan::capacity_by(*question.workload, *question.latency, {&question.before, &question.after});
  for (const auto& service : question.workload->services) {
    // A closed loop and a job have no rate of their own; there the two plans set the floor.
    const double rate = plan::planning_rate_per_s(service);
    if (rate > 0) question.options.demand[service.name] = rate;
  }
  question.unknown = plan::without_run_times(question.before, *question.workload, *question.latency);
  question.unknown.merge(plan::without_run_times(question.after, *question.workload, *question.latency));
  return Nothing{};
}

std::string slice_text(const Geometry& geometry, const Slice& slice) {
  return fmt::format("{}@{}", geometry.profiles[slice.profile].name, slice.start);
}

// The GPUs of this machine as they are cut, and the plan as far as it cuts GPUs of this machine.
Result<Nothing> read_live(const Options& options, Question& question) {
  TANGRAM_TRY(auto plan, load_plan(options.before));
  TANGRAM_TRY(const auto choices, recut::parse_gpu_choices(options.gpus));
  const auto driver = adapters::probe_nvml(recut::nvml_library());
  TANGRAM_TRY(auto cuts, recut::compare_live(std::move(plan), options.devices, driver, choices));
  question.before = std::move(cuts.now);
  question.after = std::move(cuts.planned);
  question.apart = std::move(cuts.apart);
  return Nothing{};
}

Result<Nothing> read_plans(const Options& options, Question& question) {
  TANGRAM_TRY(auto before, load_plan(options.before));
  TANGRAM_TRY(auto after, load_plan(options.after));
  question.before = std::move(before);
  question.after = std::move(after);
  return Nothing{};
}

Result<Nothing> read_question(const Options& options, Question& question) {
  if (options.live != options.after.empty()) {
    return Error{ErrorCode::invalid, options.live ? "--live compares one plan with this machine; found two plans"
                                                  : "expected two plans, BEFORE and AFTER, or --live and one"};
  }
  TANGRAM_RETURN_IF_ERROR(options.live ? read_live(options, question) : read_plans(options, question));
  auto& wanted = question.options;
  // A GPU is a device by its match above, and a slice is one by its place: programs find it there.
  wanted.match = {.rename = !options.by_name && !options.live, .move = !options.keep_places && !options.live};
  wanted.temporaries = !options.no_temporaries;
  wanted.load_default = from_seconds(options.load_s);
  wanted.drain = from_seconds(options.drain_s);
  TANGRAM_TRY(auto spares, spares_of(options.spares));
  wanted.spares = std::move(spares);
  if (!options.recut_times.empty()) {
    TANGRAM_TRY(auto times, load_recut_times(options.recut_times));
    wanted.recut = std::move(times);
  }
  return read_capacity(options, question);
}

// Words.

std::string replica_text(const Replica& replica) {
  std::vector<std::string> buckets;
  for (const auto& bucket : replica.buckets)
    buckets.push_back(fmt::format("{}:{}", bucket.size_max, bucket.batch_size));
  return fmt::format("{} {}{}", replica.service, text::join(buckets, ","),
                     replica.processes > 1 ? fmt::format(" x{}", replica.processes) : "");
}

std::string replicas_text(const std::vector<Replica>& replicas) {
  std::vector<std::string> texts;
  for (const auto& replica : replicas) texts.push_back(replica_text(replica));
  return texts.empty() ? "free" : text::join(texts, " + ");
}

std::string_view change_text(plan::SliceChange change) {
  switch (change) {
    case plan::SliceChange::kept: return "kept";
    case plan::SliceChange::changed: return "changed";
    case plan::SliceChange::destroyed: return "destroyed";
    case plan::SliceChange::created: return "created";
  }
  return "";
}

Style style_of(plan::SliceChange change) {
  if (change == plan::SliceChange::created) return Style::good;
  return change == plan::SliceChange::destroyed ? Style::bad : Style::plain;
}

bool differs(const plan::DeviceDifference& device) {
  return std::ranges::any_of(device.slices, [](const auto& slice) { return slice.change != plan::SliceChange::kept; });
}

std::string summary(const plan::DifferenceCounts& c) {
  return fmt::format(
      "{} devices become {}. Slices: {} kept, {} changed, {} destroyed, {} created. Replicas: {} kept, {} "
      "retuned, {} stopped, {} loaded.\n",
      c.devices_before, c.devices_after, c.slices_kept, c.slices_changed, c.slices_destroyed, c.slices_created,
      c.replicas_kept, c.replicas_retuned, c.replicas_stopped, c.replicas_loaded);
}

void print_mosaics(Session& session, const plan::Difference& difference) {
  std::size_t drawn = 0;
  for (const auto& device : difference.devices) {
    if (!differs(device)) continue;
    if (++drawn > kDevicesDrawn) break;
    const report::MosaicRow rows[] = {{layout_of(device.before), "before", ""}, {layout_of(device.after), "after", ""}};
    const std::string role = device.role.empty()                 ? ", no longer used"
                             : device.role == device.before.name ? ""
                                                                 : fmt::format(", {} in the new plan", device.role);
    session.print(fmt::format("\n{} ({}){}\n", paint(session.terminal, Style::bold, device.before.name),
                              device.before.type, role));
    session.print(report::draw_mosaic(device.before.geometry, rows, session.terminal, {.left_title = "unit"}));
  }
  if (drawn > kDevicesDrawn) session.remark(fmt::format("... and more devices; the table has them all\n"));
}

std::string slices_table(const plan::Difference& difference, const Terminal& terminal) {
  report::Table table(
      {{"DEVICE"}, {"SLICE"}, {""}, {"BEFORE", report::Align::left, true}, {"AFTER", report::Align::left, true}});
  for (const auto& device : difference.devices) {
    for (const auto& slice : device.slices) {
      if (slice.change == plan::SliceChange::kept) continue;
      const bool created = slice.change == plan::SliceChange::created;
      const bool destroyed = slice.change == plan::SliceChange::destroyed;
      table.add({{device.before.name, Style::accent},
                 slice_text(device.before.geometry, slice.slice),
                 {std::string(change_text(slice.change)), style_of(slice.change)},
                 created ? "-" : replicas_text(slice.before),
                 destroyed ? "-" : replicas_text(slice.after)});
    }
  }
  return table.empty() ? "" : "\n" + table.render(terminal);
}

// Geometries of every device that a step may name.
std::map<std::string, const Geometry*> geometries_of(const plan::Difference& difference,
                                                     const plan::TransitionOptions& options) {
  std::map<std::string, const Geometry*> geometries;
  for (const auto& device : difference.devices) geometries[device.before.name] = &device.before.geometry;
  for (const auto& spare : options.spares) geometries[spare.name] = &spare.geometry;
  return geometries;
}

std::string slices_text(const Geometry& geometry, const plan::Step& step) {
  std::vector<std::string> slices;
  for (const auto& slice : step.slices) slices.push_back(slice_text(geometry, slice));
  return text::join(slices, " + ");
}

std::string capacity_text(const plan::Step& step) {
  std::vector<std::string> texts;
  for (const auto& [service, value] : step.capacity) {
    const bool below = std::ranges::find(step.below, service) != step.below.end();
    texts.push_back(fmt::format("{} {:.4g}{}", service, value, below ? " (below)" : ""));
  }
  return text::join(texts, ", ");
}

std::string steps_table(const std::vector<plan::Step>& steps, const std::map<std::string, const Geometry*>& geometries,
                        bool requests, const Terminal& terminal) {
  report::Table table({{"#", report::Align::right},
                       {"PHASE", report::Align::right},
                       {"AT S", report::Align::right},
                       {"TAKES S", report::Align::right},
                       {"STEP"},
                       {"DEVICE"},
                       {"SLICE"},
                       {"REPLICA", report::Align::left, true},
                       {requests ? "REQUESTS/S THEN" : "COMPUTE SLICES THEN", report::Align::left, true}});
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const plan::Step& step = steps[i];
    const Style style = step.below.empty() ? Style::plain : Style::bad;
    const bool retune = step.action == plan::StepAction::retune;
    const std::string replica = step.replica.service.empty() ? "" : replica_text(retune ? step.retuned : step.replica);
    table.add({fmt::format("{}", i + 1),
               fmt::format("{}", step.phase + 1),
               fmt::format("{:.2f}", to_seconds(step.begins)),
               fmt::format("{:.2f}", to_seconds(step.takes)),
               std::string(to_string(step.action)),
               {step.device, Style::accent},
               slices_text(*geometries.at(step.device), step),
               replica + (step.temporary ? " (for a while)" : ""),
               {capacity_text(step), style}});
  }
  return table.render(terminal);
}

// Needs are means where traffic comes in bursts, and a mean is no promise for a burst.
std::string burst_notes(const std::optional<Workload>& workload) {
  std::string text;
  if (!workload) return text;
  for (const auto& service : workload->services) {
    const auto* bursts = std::get_if<BurstTraffic>(&service.traffic);
    if (bursts == nullptr) continue;
    text +=
        fmt::format("{} comes in bursts of {:.4g}/s, and {:.4g}/s were taken for its need: change plans in its calm.\n",
                    service.name, burst_rate_per_s(*bursts), plan::planning_rate_per_s(service));
  }
  return text;
}

std::string verdict(const plan::Transition& moved, bool all_known) {
  std::string text = fmt::format("{} steps in {} phases, {:.1f} s; steps of one phase run at once.\n",
                                 moved.steps.size(), moved.phases, to_seconds(moved.takes));
  if (moved.temporaries > 0) {
    text += fmt::format("{} {} on spare room for a while.\n", moved.temporaries,
                        moved.temporaries == 1 ? "replica is copied" : "replicas are copied");
  }
  if (!all_known) text += "What has no run times counts nothing, so that nobody watches over its services.\n";
  if (!moved.first_below) return text + "No service falls below what it needs on the way.\n";
  const plan::Step& step = moved.steps[*moved.first_below];
  text += fmt::format("After step {} {} below what {} needed", *moved.first_below + 1, text::join(step.below, ", "),
                      step.below.size() == 1 ? "is" : "are");
  std::vector<std::string> floors;
  for (const auto& service : step.below) floors.push_back(fmt::format("{:.4g}", moved.floors.at(service)));
  text += fmt::format(" ({})", text::join(floors, ", "));
  return text +
         (moved.exhaustive ? "; every order was tried, and without more room none avoids it.\n"
                           : "; no order was found that avoids it.\n") +
         "Spare devices would help: --spare TYPE.\n";
}

// Values.

report::Json replicas_json(const std::vector<Replica>& replicas) {
  report::Json list = report::Json::array();
  for (const auto& replica : replicas) {
    report::Json buckets = report::Json::array();
    for (const auto& bucket : replica.buckets) {
      buckets.push_back({{"size_max", bucket.size_max}, {"batch_size", bucket.batch_size}});
    }
    list.push_back({{"service", replica.service}, {"processes", replica.processes}, {"buckets", std::move(buckets)}});
  }
  return list;
}

report::Json counts_json(const plan::DifferenceCounts& c) {
  return {{"devices_before", c.devices_before},     {"devices_after", c.devices_after},
          {"slices_kept", c.slices_kept},           {"slices_changed", c.slices_changed},
          {"slices_destroyed", c.slices_destroyed}, {"slices_created", c.slices_created},
          {"replicas_kept", c.replicas_kept},       {"replicas_retuned", c.replicas_retuned},
          {"replicas_stopped", c.replicas_stopped}, {"replicas_loaded", c.replicas_loaded}};
}

report::Json difference_json(const plan::Difference& difference) {
  report::Json devices = report::Json::array();
  for (const auto& device : difference.devices) {
    const Geometry& geometry = device.before.geometry;
    report::Json slices = report::Json::array();
    for (const auto& slice : device.slices) {
      slices.push_back({{"slice", slice_text(geometry, slice.slice)},
                        {"change", change_text(slice.change)},
                        {"before", replicas_json(slice.before)},
                        {"after", replicas_json(slice.after)}});
    }
    devices.push_back({{"name", device.before.name},
                       {"type", device.before.type},
                       {"role", device.role.empty() ? report::Json(nullptr) : report::Json(device.role)},
                       {"layout_before", to_string(geometry, layout_of(device.before))},
                       {"layout_after", to_string(geometry, layout_of(device.after))},
                       {"slices", std::move(slices)}});
  }
  return {{"same", difference.empty()}, {"counts", counts_json(difference.counts)}, {"devices", std::move(devices)}};
}

report::Json step_json(const plan::Step& step, const Geometry& geometry) {
  report::Json slices = report::Json::array();
  for (const auto& slice : step.slices) slices.push_back(slice_text(geometry, slice));
  report::Json json{{"action", to_string(step.action)}, {"device", step.device}, {"slices", std::move(slices)}};
  if (!step.replica.service.empty()) json["replica"] = replicas_json({step.replica})[0];
  if (step.action == plan::StepAction::retune) json["retuned"] = replicas_json({step.retuned})[0];
  json["temporary"] = step.temporary;
  json["phase"] = step.phase + 1;
  json["begins_s"] = to_seconds(step.begins);
  json["takes_s"] = to_seconds(step.takes);
  json["capacity"] = step.capacity;
  json["below"] = step.below;
  return json;
}

report::Json steps_json(const std::vector<plan::Step>& steps,
                        const std::map<std::string, const Geometry*>& geometries) {
  report::Json list = report::Json::array();
  for (const auto& step : steps) list.push_back(step_json(step, *geometries.at(step.device)));
  return list;
}

report::Json transition_json(const plan::Transition& moved, const Question& question) {
  const auto geometries = geometries_of(moved.difference, question.options);
  report::Json json{{"capacity_unit", question.workload ? "requests_per_s" : "compute_slices"},
                    {"capacity_before", moved.capacity_before},
                    {"capacity_after", moved.capacity_after},
                    {"floors", moved.floors}};
  json["steps"] = steps_json(moved.steps, geometries);
  json["first_below"] = moved.first_below ? report::Json(*moved.first_below + 1) : report::Json(nullptr);
  json["every_order_tried"] = moved.exhaustive;
  json["temporaries"] = moved.temporaries;
  json["phases"] = moved.phases;
  json["takes_s"] = to_seconds(moved.takes);
  return json;
}

ExitCode print_difference(Session& session, const plan::Difference& difference, report::Json* json) {
  if (json != nullptr) {
    *json = difference_json(difference);
    return ExitCode::done;
  }
  session.print(summary(difference.counts));
  print_mosaics(session, difference);
  session.print(slices_table(difference, session.terminal));
  return ExitCode::done;
}

Result<ExitCode> print_steps(Session& session, const Options& options, const Question& question,
                             const plan::Transition& moved, report::Json* json) {
  const bool rolls_back = options.rollback.has_value();
  if (rolls_back && *options.rollback > moved.steps.size()) {
    return Error{ErrorCode::invalid,
                 fmt::format("--rollback: there are only {} steps, found {}", moved.steps.size(), *options.rollback)};
  }
  const auto back = rolls_back ? plan::rollback(question.before, moved, *options.rollback, question.options)
                               : std::vector<plan::Step>{};
  const auto geometries = geometries_of(moved.difference, question.options);
  if (json != nullptr) {
    json->update(transition_json(moved, question));
    if (rolls_back) (*json)["rollback"] = steps_json(back, geometries);
  } else {
    const bool requests = question.workload.has_value();
    session.print("\n" + steps_table(moved.steps, geometries, requests, session.terminal));
    session.print("\n" + verdict(moved, question.unknown.empty()) + burst_notes(question.workload));
    if (rolls_back) {
      session.print(fmt::format("\nBack from step {}:\n", *options.rollback));
      session.print(steps_table(back, geometries, requests, session.terminal));
    }
  }
  return moved.first_below ? ExitCode::answer_is_no : ExitCode::done;
}

Result<ExitCode> run(Session& session, const Options& options) {
  Question question;
  TANGRAM_RETURN_IF_ERROR(read_question(options, question));
  TANGRAM_TRY(const auto moved, plan::transition(question.before, question.after, question.options));
  report::Json json;
  report::Json* structured = session.structured() ? &json : nullptr;
  ExitCode code = print_difference(session, moved.difference, structured);
  if (options.steps || options.rollback) {
    for (const auto& what : question.unknown)
      session.note("no run times are known for " + what + ": it counts nothing");
    TANGRAM_TRY(const auto printed, print_steps(session, options, question, moved, structured));
    code = printed;
  }
  if (!options.to.empty()) {
    TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(options.to, formats::write_plan(moved.difference.target)));
    session.note("wrote " + options.to);
  }
  if (structured != nullptr) session.print_value(json);
  for (const auto& slice : question.apart) session.note(slice + " is not one part with all of its compute");
  const bool differs_live = options.live && (!moved.difference.empty() || !question.apart.empty());
  return differs_live ? ExitCode::answer_is_no : code;
}

VerbInfo info() {
  return {
      .name = "diff",
      .group = "Plan",
      .summary = "what changes between two plans, and how to get from one to the other",
      .description =
          "Compares the plans BEFORE and AFTER and shows which slices are kept, changed, destroyed and created. "
          "Devices of one type are interchangeable, and so are the places of equal slices, so that as much as "
          "possible stays as it is; --by-name and --keep-places take the plans by the letter. With --steps, prints "
          "an order of steps that touches nothing that stays and lets no service fall below what it needs, if there "
          "is one, with the time and what every service can take after each step; if there is none it says so and "
          "ends with 1. What a service needs is its rate, the mean where it comes in bursts, but no more than both "
          "plans give it. Capacities are "
          "requests a second with --services and run times, compute slices without. --rollback N prints the way "
          "back after the first N steps. With --live and one plan, compares the cuts of that plan with those of the "
          "GPUs of this machine, which tangram apply would make, and ends with 1 if they differ.",
      .examples = {
          {"tangram diff examples/plan.json examples/plan-evening.json", "What changes."},
          {"tangram diff examples/plan.json examples/plan-evening.json --steps --services "
           "examples/services.yaml --measurements examples/measurements.csv",
           "How to get there, in requests a second."},
          {"tangram diff examples/plan.json examples/plan-evening.json --steps --spare a100-80gb",
           "With an empty device that may help out."},
          {"tangram diff examples/plan.json examples/plan-evening.json --rollback 3",
           "The way back after three steps."},
          {"tangram diff --live examples/serving/plan.json", "Whether this machine is cut as the plan says."}}};
}

void add_time_options(Program& program, Arguments& verb, Options& options) {
  program.offers_files(verb.add_option("--recut-times", options.recut_times,
                                       "Measured times of re-cuts, as CSV; medians of an A100 without it.")
                           ->type_name("FILE"));
  verb.add_option("--load-s", options.load_s, "Seconds that a model takes to load.")
      ->type_name("S")
      ->capture_default_str()
      ->range(0.0, 1e6);
  verb.add_option("--drain-s", options.drain_s, "Seconds until a replica has finished what it has.")
      ->type_name("S")
      ->capture_default_str()
      ->range(0.0, 1e6);
}

}  // namespace

void add_diff(Program& program) {
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(info(), [options](Session& session) { return run(session, *options); });
  program.offers_files(
      verb.add_option("BEFORE", options->before, "The plan that is in force, JSON; with --live the one that is wanted.")
          ->required());
  program.offers_files(verb.add_option("AFTER", options->after, "The plan that is wanted, JSON."));
  verb.add_flag("--live", options->live, "Compare one plan with the GPUs of this machine.");
  verb.add_option("--gpu", options->gpus, "With --live, which GPU a device is: NAME=UUID or NAME=INDEX.")
      ->type_name("CHOICE");
  verb.add_option("--device", options->devices, "With --live, only this device of the plan; several may be named.")
      ->type_name("NAME");
  verb.add_flag("--steps", options->steps, "Print the steps from one to the other.");
  verb.add_option("--rollback", options->rollback, "Print the way back after the first N steps, too.")->type_name("N");
  const auto file = [&](const char* name, std::string& path, const char* help) {
    return program.offers_files(verb.add_option(name, path, help)->type_name("FILE"));
  };
  file("--services", options->services, "The services, for their rates and sizes.");
  Argument* measurements = file("--measurements", options->latency.measurements, "Run times, measured.");
  file("--model", options->latency.model, "Run times, as tangram learn wrote them.")->excludes(measurements);
  program.offers(verb.add_option("--spare", options->spares, "Empty devices that may help out: TYPE or TYPE:COUNT.")
                     ->type_name("TYPE"),
                 device_type_names());
  verb.add_flag("--no-temporaries", options->no_temporaries, "Never copy a replica to spare room for a while.");
  verb.add_flag("--by-name", options->by_name, "Each device takes the role of its own name.");
  verb.add_flag("--keep-places", options->keep_places, "Slices lie exactly where AFTER says.");
  add_time_options(program, verb, *options);
  file("-o,--to", options->to, "Write AFTER as it will be, under the names of the devices.");
}

}  // namespace tangram::cli
