// `tangram diff`: what changes between two plans, and how to get from one to the other.
//
// The comparison and the search for an order of steps are in the room `plan`. This file turns options into one
// Question, asks for one Transition, and shows that value twice: as tables and mosaics for people, or as one JSON
// document for programs. Both come from the same Transition, so they cannot disagree. With --live the plan before is
// not a file: it is the layouts of this machine's GPUs as the driver reports them.

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
namespace diff_verb {
namespace {

// A mosaic takes several lines, so a large fleet would push the summary off the screen.
constexpr std::size_t kDevicesDrawn = 16;  // The table lists the rest.
// Each spare is a device in the search for steps, so a typing error such as TYPE:1000000 must not become a fleet.
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

// The options, read and checked. The workload and the latency model are members because `options.capacity` keeps
// references to them: a Question must not be copied or moved once read_capacity() has run.
struct Question {
  Plan before;
  Plan after;
  std::optional<Workload> workload;
  std::shared_ptr<const LatencyModel> latency;
  plan::TransitionOptions options;
  std::set<std::string> unknown;   // Replicas without run times.
  std::vector<std::string> apart;  // With --live: slices that are there, but not as one part.
};

// Parses --spare: "a100-80gb:2" means two empty devices, spare-a100-80gb-0 and spare-a100-80gb-1, that may hold
// temporary replicas. A missing count means one.
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

// Chooses the unit of capacity. Without --services and run times, capacity stays in compute slices, which every plan
// has. With both, it is requests per second. One of them alone gives neither unit, and that is an error rather than a
// silent return to compute slices.
Result<Nothing> read_capacity(const Options& options, Question& question) {
  if (options.services.empty() && !options.latency.given()) return Nothing{};
  if (options.services.empty() || !options.latency.given()) {
    return Error{ErrorCode::invalid,
                 "capacities in requests a second need --services and one of --measurements and --model"};
  }
  TANGRAM_TRY(auto workload, load_workload(options.services));
  TANGRAM_TRY(auto latency, load_latency(options.latency));
  question.workload = std::move(workload);
  question.latency = std::move(latency);
  question.options.capacity = plan::capacity_by(*question.workload, *question.latency);
  for (const auto& service : question.workload->services) {
    // A closed loop and an offline job have no rate of their own. Their floor is what both plans give them.
    const double rate = plan::planning_rate_per_s(service);
    if (rate > 0) question.options.demand[service.name] = rate;
  }
  question.unknown = plan::without_run_times(question.before, *question.workload, *question.latency);
  question.unknown.merge(plan::without_run_times(question.after, *question.workload, *question.latency));
  return Nothing{};
}

// "3g.40gb@4": the profile and the first unit.
std::string slice_text(const Geometry& geometry, const Slice& slice) {
  return fmt::format("{}@{}", geometry.profiles[slice.profile].name, slice.start);
}

// Reads --live: `before` becomes the layouts of this machine's GPUs, `after` the layouts of the plan for those GPUs.
// Neither has replicas, because a driver does not report them.
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

// Two plan files. Whether their devices can be matched is for plan::transition() to say.
Result<Nothing> read_plans(const Options& options, Question& question) {
  TANGRAM_TRY(auto before, load_plan(options.before));
  TANGRAM_TRY(auto after, load_plan(options.after));
  question.before = std::move(before);
  question.after = std::move(after);
  return Nothing{};
}

// Fills `question` in place, because its options keep references to it.
Result<Nothing> read_question(const Options& options, Question& question) {
  // The positional BEFORE holds the only plan with --live, so AFTER must be empty exactly when --live is given.
  if (options.live != options.after.empty()) {
    return Error{ErrorCode::invalid, options.live
                                         ? "--live compares one plan with this machine, but two plans were given"
                                         : "expected two plans, BEFORE and AFTER, or --live and one plan"};
  }
  TANGRAM_RETURN_IF_ERROR(options.live ? read_live(options, question) : read_plans(options, question));
  auto& wanted = question.options;
  // With --live, devices are already matched to GPUs, and running programs address a slice by its place. Renaming a
  // device or moving an equal slice would then hide a real difference.
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

// ---- Text for people ----

// "bert 64:8,512:2 x2": the service, each bucket as size:batch, and the processes if there are several.
std::string replica_text(const Replica& replica) {
  std::vector<std::string> buckets;
  for (const auto& bucket : replica.buckets)
    buckets.push_back(fmt::format("{}:{}", bucket.size_max, bucket.batch_size));
  return fmt::format("{} {}{}{}", replica.service, text::join(buckets, ","),
                     replica.processes > 1 ? fmt::format(" x{}", replica.processes) : "",
                     replica.rate_max_per_s ? fmt::format(" up to {:.4g}/s", *replica.rate_max_per_s) : "");
}

// "free" for a slice that the plan cuts but does not use. On a slice that many services share, those that are the same
// in `other` are only counted: "8 kept + rank 64:8".
std::string replicas_text(const std::vector<Replica>& replicas, const std::vector<Replica>& other) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> texts;
  int kept = 0;
  for (const auto& replica : replicas) {
    if (replicas.size() > kNamed && std::ranges::find(other, replica) != other.end()) {
      ++kept;
    } else {
      texts.push_back(replica_text(replica));
    }
  }
  if (kept > 0) texts.insert(texts.begin(), fmt::format("{} kept", kept));
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

// True if at least one slice of the device is not kept. Only these devices are drawn.
bool differs(const plan::DeviceDifference& device) {
  return std::ranges::any_of(device.slices, [](const auto& slice) { return slice.change != plan::SliceChange::kept; });
}

// One sentence of counts; it comes first, so that "nothing changes" is visible without reading a table.
std::string summary(const plan::DifferenceCounts& c) {
  return fmt::format(
      "{} devices become {}. Slices: {} kept, {} changed, {} destroyed, {} created. Replicas: {} kept, {} "
      "retuned, {} stopped, {} loaded.\n",
      c.devices_before, c.devices_after, c.slices_kept, c.slices_changed, c.slices_destroyed, c.slices_created,
      c.replicas_kept, c.replicas_retuned, c.replicas_stopped, c.replicas_loaded);
}

// Draws each device that differs, before above after, so that a slice that moved is visible as a shift.
void print_mosaics(Session& session, const plan::Difference& difference) {
  std::size_t drawn = 0;
  for (const auto& device : difference.devices) {
    if (!differs(device)) continue;
    if (++drawn > kDevicesDrawn) break;
    const report::MosaicRow rows[] = {{layout_of(device.before), "before", ""}, {layout_of(device.after), "after", ""}};
    // An empty role means that the new plan does not use this device. A role that is another device's name means that
    // the matching gave this device the place that the new plan calls by that name.
    const std::string role = device.role.empty()                 ? ", no longer used"
                             : device.role == device.before.name ? ""
                                                                 : fmt::format(", {} in the new plan", device.role);
    session.print(fmt::format("\n{} ({}){}\n", paint(session.terminal, Style::bold, device.before.name),
                              device.before.type, role));
    session.print(report::draw_mosaic(device.before.geometry, rows, session.terminal, {.left_title = "unit"}));
  }
  if (drawn > kDevicesDrawn) session.remark(fmt::format("... and more devices; the table lists all of them\n"));
}

// Kept slices are left out: in a large fleet they are most of the rows and say nothing about the change.
std::string slices_table(const plan::Difference& difference, const Terminal& terminal) {
  report::Table table(
      {{"DEVICE"}, {"SLICE"}, {""}, {"BEFORE", report::Align::left, true}, {"AFTER", report::Align::left, true}});
  for (const auto& device : difference.devices) {
    for (const auto& slice : device.slices) {
      if (slice.change == plan::SliceChange::kept) continue;
      // A dash means that the slice does not exist on that side, which is different from existing and being free.
      const bool created = slice.change == plan::SliceChange::created;
      const bool destroyed = slice.change == plan::SliceChange::destroyed;
      table.add({{device.before.name, Style::accent},
                 slice_text(device.before.geometry, slice.slice),
                 {std::string(change_text(slice.change)), style_of(slice.change)},
                 created ? "-" : replicas_text(slice.before, slice.after),
                 destroyed ? "-" : replicas_text(slice.after, slice.before)});
    }
  }
  return table.empty() ? "" : "\n" + table.render(terminal);
}

// The geometry of every device that a step can name. Steps hold only names, and a temporary replica may be on a spare
// that neither plan contains. The pointers refer to both arguments.
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

// What every service can take after this step; a service below its floor is marked.
std::string capacity_text(const plan::Step& step) {
  std::vector<std::string> texts;
  for (const auto& [service, value] : step.capacity) {
    const bool below = std::ranges::find(step.below, service) != step.below.end();
    texts.push_back(fmt::format("{} {:.4g}{}", service, value, below ? " (below)" : ""));
  }
  return text::join(texts, ", ");
}

// " beside s1 and s2": whose models stay loaded on the slice; nothing where the slice holds one service.
std::string beside_text(const plan::Step& step) {
  constexpr std::size_t kNamed = 3;
  if (step.beside.empty()) return "";
  if (step.beside.size() == 1) return " beside " + step.beside[0];
  if (step.beside.size() > kNamed) {
    return fmt::format(" beside {}, {} and {} more", step.beside[0], step.beside[1], step.beside.size() - 2);
  }
  const std::vector<std::string> first(step.beside.begin(), step.beside.end() - 1);
  return " beside " + text::join(first, ", ") + " and " + step.beside.back();
}

// `requests` chooses the unit in the heading and must match what read_capacity() chose.
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
    // A retuned replica is shown with its new buckets, because they are what the step does.
    const bool retune = step.action == plan::StepAction::retune;
    const std::string replica = step.replica.service.empty() ? "" : replica_text(retune ? step.retuned : step.replica);
    table.add({fmt::format("{}", i + 1),
               fmt::format("{}", step.phase + 1),
               fmt::format("{:.2f}", to_seconds(step.begins)),
               fmt::format("{:.2f}", to_seconds(step.takes)),
               std::string(to_string(step.action)),
               {step.device, Style::accent},
               slices_text(*geometries.at(step.device), step),
               replica + beside_text(step) + (step.temporary ? " (temporary)" : ""),
               {capacity_text(step), style}});
  }
  return table.render(terminal);
}

// The floor of a service with bursts is the least rate that can keep its Slo. A transition can still break the Slo
// during a burst, so the user gets the burst rate as well.
std::string burst_notes(const std::optional<Workload>& workload) {
  std::string text;
  if (!workload) return text;
  for (const auto& service : workload->services) {
    const auto* bursts = std::get_if<BurstTraffic>(&service.traffic);
    if (bursts == nullptr) continue;
    text += fmt::format(
        "{} arrives in bursts of {:.4g}/s, but the steps allow for {:.4g}/s; change plans in a calm period.\n",
        service.name, burst_rate_per_s(*bursts), plan::planning_rate_per_s(service));
  }
  return text;
}

// A service that one of the plans is too small for. The steps then keep what both plans have, which is less than the
// service needs.
std::string underserved_text(const plan::Transition& moved, const std::string& service, double demand) {
  const double before = moved.capacity_before.at(service);
  const double after = moved.capacity_after.at(service);
  const char* which = before >= demand ? "the new plan" : after >= demand ? "the old plan" : "each plan";
  return fmt::format(
      "{} needs {:.4g}/s, but {} carries less (before {:.4g}/s, after {:.4g}/s); the steps keep {:.4g}/s.\n", service,
      demand, which, before, after, moved.floors.at(service));
}

// The conclusion in sentences. It claims that no order exists only if the search was exhaustive; otherwise it only says
// that none was found.
std::string verdict(const plan::Transition& moved, const std::map<std::string, double>& demand, bool all_known) {
  std::string text = fmt::format("{} steps in {} phases, {:.1f} s; the steps of one phase run at the same time.\n",
                                 moved.steps.size(), moved.phases, to_seconds(moved.takes));
  if (moved.temporaries > 0) {
    text += fmt::format("{} {} to spare room temporarily.\n", moved.temporaries,
                        moved.temporaries == 1 ? "replica is copied" : "replicas are copied");
  }
  // A replica without run times has capacity zero, so a service that runs only on such replicas cannot fall below its
  // floor.
  if (!all_known)
    text +=
        "Replicas without run times count as zero capacity, so their services are not protected during the change.\n";
  for (const auto& service : moved.underserved) text += underserved_text(moved, service, demand.at(service));
  if (!moved.first_below) {
    return text + (moved.underserved.empty()
                       ? "No service falls below the capacity it needs during the change.\n"
                       : "No other service falls below the capacity it needs during the change.\n");
  }
  const plan::Step& step = moved.steps[*moved.first_below];
  text += fmt::format("After step {}, {} {} below the required capacity", *moved.first_below + 1,
                      text::join(step.below, ", "), step.below.size() == 1 ? "is" : "are");
  std::vector<std::string> floors;
  for (const auto& service : step.below) floors.push_back(fmt::format("{:.4g}", moved.floors.at(service)));
  text += fmt::format(" ({})", text::join(floors, ", "));
  return text +
         (moved.exhaustive ? "; all orders were tried, and without more room none avoids this.\n"
                           : "; no order was found that avoids this.\n") +
         "Spare devices would help: --spare TYPE.\n";
}

// ---- JSON for programs ----

// The same keys as in a plan file, so that programs can share their reader.
report::Json replicas_json(const std::vector<Replica>& replicas) {
  report::Json list = report::Json::array();
  for (const auto& replica : replicas) {
    report::Json buckets = report::Json::array();
    for (const auto& bucket : replica.buckets) {
      buckets.push_back({{"size_max", bucket.size_max}, {"batch_size", bucket.batch_size}});
    }
    list.push_back({{"service", replica.service}, {"processes", replica.processes}, {"buckets", std::move(buckets)}});
    if (replica.rate_max_per_s) list.back()["rate_max_per_s"] = *replica.rate_max_per_s;
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

// Unlike the table, the document also lists kept slices, so that a program sees every slice of a device.
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

// Phases are numbered from 1, as in the table. Only a retune has both `replica` (before) and `retuned` (after).
report::Json step_json(const plan::Step& step, const Geometry& geometry) {
  report::Json slices = report::Json::array();
  for (const auto& slice : step.slices) slices.push_back(slice_text(geometry, slice));
  report::Json json{{"action", to_string(step.action)}, {"device", step.device}, {"slices", std::move(slices)}};
  if (!step.replica.service.empty()) json["replica"] = replicas_json({step.replica})[0];
  if (step.action == plan::StepAction::retune) json["retuned"] = replicas_json({step.retuned})[0];
  json["temporary"] = step.temporary;
  json["beside"] = step.beside;
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

// The unit is part of the document, because a number alone does not say whether it is requests or slices. Step numbers
// count from 1, as in the table.
report::Json transition_json(const plan::Transition& moved, const Question& question) {
  const auto geometries = geometries_of(moved.difference, question.options);
  report::Json json{{"capacity_unit", question.workload ? "requests_per_s" : "compute_slices"},
                    {"capacity_before", moved.capacity_before},
                    {"capacity_after", moved.capacity_after},
                    {"floors", moved.floors},
                    {"demand", question.options.demand},
                    {"underserved", moved.underserved}};
  json["steps"] = steps_json(moved.steps, geometries);
  json["first_below"] = moved.first_below ? report::Json(*moved.first_below + 1) : report::Json(nullptr);
  json["every_order_tried"] = moved.exhaustive;
  json["temporaries"] = moved.temporaries;
  json["phases"] = moved.phases;
  json["takes_s"] = to_seconds(moved.takes);
  return json;
}

// `json` is null for text output. Otherwise the result goes there and nothing is printed, so that the steps can be
// added to the same document.
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

// Prints the steps and, with --rollback N, the way back after N of them. Answers `answer_is_no` if some service falls
// below its floor, so that a script can stop before it starts such a change.
Result<ExitCode> print_steps(Session& session, const Options& options, const Question& question,
                             const plan::Transition& moved, report::Json* json) {
  // plan::rollback() requires N <= steps, and N comes from the user.
  const bool rolls_back = options.rollback.has_value();
  if (rolls_back && *options.rollback > moved.steps.size()) {
    return Error{ErrorCode::invalid, fmt::format("--rollback: expected at most {}, the number of steps; found {}",
                                                 moved.steps.size(), *options.rollback)};
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
    session.print("\n" + verdict(moved, question.options.demand, question.unknown.empty()) +
                  burst_notes(question.workload));
    if (rolls_back) {
      session.print(fmt::format("\nThe steps back after step {}:\n", *options.rollback));
      session.print(steps_table(back, geometries, requests, session.terminal));
    }
  }
  return moved.first_below ? ExitCode::answer_is_no : ExitCode::done;
}

// Reads the question, computes one transition, prints the difference, and then the steps if they were asked for.
Result<ExitCode> run(Session& session, const Options& options) {
  Question question;
  TANGRAM_RETURN_IF_ERROR(read_question(options, question));
  // The transition contains the difference, so both kinds of output need only this one call.
  TANGRAM_TRY(const auto moved, plan::transition(question.before, question.after, question.options));
  report::Json json;
  report::Json* structured = session.structured() ? &json : nullptr;
  ExitCode code = print_difference(session, moved.difference, structured);
  if (options.steps || options.rollback) {
    // Each replica without run times is named, because the verdict below does not cover its service.
    for (const auto& what : question.unknown)
      session.note("no run times are known for " + what + "; its capacity counts as zero");
    TANGRAM_TRY(const auto printed, print_steps(session, options, question, moved, structured));
    code = printed;
  }
  // The target differs from AFTER in names and places: it has the devices of BEFORE that take over the roles. It is the
  // plan to serve after the change.
  if (!options.to.empty()) {
    TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(options.to, formats::write_plan(moved.difference.target)));
    session.note("wrote " + options.to);
  }
  // The document is printed once at the end; parts of it come from both functions above.
  if (structured != nullptr) session.print_value(json);
  for (const auto& slice : question.apart) session.note(slice + " is not one part with all of its compute");
  // A slice in several parts has the right shape, but no worker can use all of it. It counts as a difference.
  const bool differs_live = options.live && (!moved.difference.empty() || !question.apart.empty());
  return differs_live ? ExitCode::answer_is_no : code;
}

VerbInfo info() {
  return {
      .name = "diff",
      .group = "Plan",
      .summary = "show what changes between two plans, and the steps from one to the other",
      .description =
          "Compares the plans BEFORE and AFTER and shows which slices are kept, changed, destroyed and created. "
          "Devices of one type are interchangeable, and so are the positions of equal slices, so that as little as "
          "possible changes; --by-name and --keep-places turn this off. With --steps, prints an order of steps that "
          "leaves unchanged slices alone and keeps every service above the capacity it needs, with the time of each "
          "step and the capacity of every service after it; if there is no such order, it says so and exits with 1. "
          "A service needs its rate (the mean rate, if it arrives in bursts), but no more than both plans provide. "
          "Capacities are in requests a second with --services and run times, otherwise in compute slices. "
          "--rollback N also prints the way back after the first N steps. With --live and one plan, compares the "
          "cuts of that plan with the GPUs of this machine, prints what tangram apply would change, and exits with 1 "
          "if they differ.",
      .examples = {{"tangram diff examples/plan.json examples/plan-evening.json", "Show what changes."},
                   {"tangram diff examples/plan.json examples/plan-evening.json --steps --services "
                    "examples/services.yaml --measurements examples/measurements.csv",
                    "Show the steps, with capacities in requests a second."},
                   {"tangram diff examples/plan.json examples/plan-evening.json --steps --spare a100-80gb",
                    "Allow one empty device as temporary room."},
                   {"tangram diff examples/plan.json examples/plan-evening.json --rollback 3",
                    "Show the way back after three steps."},
                   {"tangram diff --live examples/serving/plan.json",
                    "Check whether this machine is cut according to the plan."}}};
}

// The times from which the length of the change is estimated.
void add_time_options(Program& program, Arguments& verb, Options& options) {
  program.offers_files(verb.add_option("--recut-times", options.recut_times,
                                       "Measured times of re-cuts, CSV; default: the medians of an A100.")
                           ->type_name("FILE"));
  verb.add_option("--load-s", options.load_s, "Seconds to load a model.")
      ->type_name("S")
      ->capture_default_str()
      ->range(0.0, 1e6);
  verb.add_option("--drain-s", options.drain_s, "Seconds until a replica has finished its queued requests.")
      ->type_name("S")
      ->capture_default_str()
      ->range(0.0, 1e6);
}

}  // namespace
}  // namespace diff_verb

void add_diff(Program& program) {
  using namespace diff_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(info(), [options](Session& session) { return run(session, *options); });
  program.offers_files(
      verb.add_option("BEFORE", options->before, "The current plan, JSON; with --live, the wanted plan.")->required());
  program.offers_files(verb.add_option("AFTER", options->after, "The wanted plan, JSON."));
  verb.add_flag("--live", options->live, "Compare one plan with the GPUs of this machine.");
  verb.add_option("--gpu", options->gpus, "With --live: the GPU for a device, NAME=UUID or NAME=INDEX.")
      ->type_name("CHOICE");
  verb.add_option("--device", options->devices, "With --live: compare only this device of the plan. May be repeated.")
      ->type_name("NAME");
  verb.add_flag("--steps", options->steps, "Print the steps from BEFORE to AFTER.");
  verb.add_option("--rollback", options->rollback, "Also print the way back after the first N steps.")->type_name("N");
  const auto file = [&](const char* name, std::string& path, const char* help) {
    return program.offers_files(verb.add_option(name, path, help)->type_name("FILE"));
  };
  file("--services", options->services, "The services file, for rates and input sizes.");
  Argument* measurements = file("--measurements", options->latency.measurements, "Measured run times, CSV.");
  file("--model", options->latency.model, "A latency model that tangram learn wrote.")->excludes(measurements);
  program.offers(
      verb.add_option("--spare", options->spares, "Empty devices to use as temporary room: TYPE or TYPE:COUNT.")
          ->type_name("TYPE"),
      device_type_names());
  verb.add_flag("--no-temporaries", options->no_temporaries, "Never copy a replica to spare room temporarily.");
  verb.add_flag("--by-name", options->by_name, "Map each device of BEFORE to the device of the same name.");
  verb.add_flag("--keep-places", options->keep_places, "Put slices exactly at the positions that AFTER names.");
  add_time_options(program, verb, *options);
  file("-o,--to", options->to, "Write AFTER with the device names of BEFORE.");
}

}  // namespace tangram::cli
