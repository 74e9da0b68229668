// `tangram demo`: the examples that come with Tangram, shown at work.
//
// A demo is a list of scenes. Each scene takes the same inputs, prints, and does not depend on the others, so a new
// ability of Tangram is shown by one more function in kScenes. The simulated day comes last because it writes a file
// and can fail.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/plan_inputs.h"
#include "cli/program.h"
#include "cli/run_policies.h"
#include "formats/fleet_file.h"
#include "host/files.h"
#include "lab/certify.h"
#include "report/day_view.h"
#include "report/geometry_view.h"
#include "report/mosaic.h"
#include "report/number_text.h"
#include "report/plan_view.h"
#include "report/run_tables.h"
#include "report/table.h"
#include "report/text_width.h"
#include "report/tile.h"

namespace tangram::cli {
namespace demo_verb {
namespace {

struct Options {
  std::string fleet;
  std::string services;
  std::string measurements;
  std::string scenario;
  std::string html;
  double hours = 24;
};

struct Inputs {
  std::string fleet_path;
  std::string services_path;
  std::string measurements_path;
  std::string scenario_path;
  std::string html;  // Where the user wants the report; empty: place_report() chooses.
  Fleet fleet;
  Workload workload;
  lab::Scenario scenario;
};

// A device group with its geometry and layout. The layout's profiles are indices into `geometry`. `group` refers to the
// fleet in Inputs.
struct Group {
  const DeviceGroup& group;
  Geometry geometry;
  Layout layout;  // Empty if the group is not cut yet.
};

std::vector<Group> groups_of(const Inputs& inputs) {
  std::vector<Group> groups;
  for (const auto& group : inputs.fleet.groups) {
    groups.push_back({group, formats::group_geometry(group, this_host()), group.layout.value_or(Layout{})});
  }
  return groups;
}

// A group without a count may have any number of devices; a planner decides how many.
std::string count_text(const DeviceGroup& group) {
  return group.count ? fmt::format("{} x {}", *group.count, group.name) : "any number of " + group.name;
}

void scene_title(Session& session, int number, const std::string& text, const std::string& more) {
  session.print(fmt::format("\n{}  {}\n", paint(session.terminal, Style::bold, fmt::format("{}. {}", number, text)),
                            paint(session.terminal, Style::dim, more)));
}

// The path relative to the current folder if it is below it, otherwise as it is.
std::string near_path(const std::string& path) {
  std::error_code error;
  const std::string relative = std::filesystem::proximate(path, error).string();
  return error || relative.starts_with("..") ? path : relative;
}

// Scene: the fleet as it is cut now.
void show_fleet(Session& session, int number, const Inputs& inputs) {
  scene_title(session, number, "The fleet", near_path(inputs.fleet_path));
  for (const auto& [group, geometry, layout] : groups_of(inputs)) {
    const std::string price =
        group.price_per_hour > 0 ? fmt::format(", {:.2f} an hour each", group.price_per_hour) : "";
    session.print(fmt::format("\n  {}: {}{}\n", paint(session.terminal, Style::accent, count_text(group)),
                              geometry.title, price));
    const report::MosaicRow row{layout, "", ""};
    session.print(report::draw_mosaic(geometry, {&row, 1}, session.terminal, {.indent = 2}));
  }
}

std::string size_text(const SizeDistribution& distribution) {
  if (const auto* constant = std::get_if<ConstantSize>(&distribution)) return fmt::format("{}", constant->size);
  if (const auto* log_normal = std::get_if<LogNormalSize>(&distribution)) {
    return fmt::format("about {:.0f}, up to {}", log_normal->median, log_normal->max);
  }
  return std::holds_alternative<HistogramSize>(distribution) ? "from a histogram" : "from its trace";
}

// At least one eighth of a column, so that a service with little traffic is still visible.
std::string bar(double share, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = std::max(1, static_cast<int>(share * width * 8));
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[eighths % 8];
}

// Scene: the services, their Slos and their mean rates. Bars are relative to the largest rate.
void show_services(Session& session, int number, const Inputs& inputs) {
  constexpr int kBarWidth = 16;
  scene_title(session, number, "The services", near_path(inputs.services_path));
  double largest = 0;
  for (const auto& service : inputs.workload.services) largest = std::max(largest, mean_rate_per_s(service.traffic));
  report::Table table({{"SERVICE"},
                       {"MODEL", report::Align::left, true},
                       {"PROMISE"},
                       {"INPUT SIZE"},
                       {"PER S", report::Align::right},
                       {"LOAD"}});
  for (const auto& service : inputs.workload.services) {
    const double rate = mean_rate_per_s(service.traffic);
    table.add({{service.name, Style::accent},
               service.model,
               fmt::format("p{} {} ms", text::shortest(service.slo.percentile),
                           text::shortest(to_milliseconds(service.slo.latency))),
               size_text(service.input_size),
               rate < 10 ? fmt::format("{:.1f}", rate) : fmt::format("{:.0f}", rate),
               {largest > 0 ? bar(rate / largest, kBarWidth) : "", Style::good}});
  }
  session.print("\n" + table.render(session.terminal, 2));
}

// True if every slice of `part` is in `whole` at the same place.
bool contains(const Layout& whole, const Layout& part) {
  return std::ranges::all_of(
      part.slices, [&](const Slice& slice) { return std::ranges::find(whole.slices, slice) != whole.slices.end(); });
}

// The maximal layouts that contain `layout`: the ways to fill the rest of the device. Empty if a host has too many to
// list.
std::vector<Layout> ways_to_fill(const Geometry& geometry, const Layout& layout) {
  auto maximal = maximal_layouts(geometry);
  if (!maximal) return {};
  std::erase_if(*maximal, [&](const Layout& candidate) { return !contains(candidate, layout); });
  report::sort_for_display(geometry, *maximal);
  return std::move(*maximal);
}

// The same group with only the base profiles, if its layout uses no others. Variants with more memory or media engines
// multiply the rows without showing anything new. The layout goes through text, because profile indices differ between
// the two geometries.
Group simplest(const Group& whole) {
  const std::string text = to_string(whole.geometry, whole.layout);
  Geometry base = restrict_to(whole.geometry, ProfileSet::base);
  ParsedLayout parsed = parse_layout(base, text);
  if (!parsed.problems.empty()) return whole;
  return {whole.group, std::move(base), std::move(parsed.layout)};
}

// Scene: the layouts that each device could still have.
void show_free_layouts(Session& session, int number, const Inputs& inputs) {
  constexpr std::size_t kRowsMax = 6;
  scene_title(session, number, "What is still free", "all ways to cut the free units of each device");
  for (const auto& whole : groups_of(inputs)) {
    const Group group = simplest(whole);
    const auto ways = ways_to_fill(group.geometry, group.layout);
    const std::string name = paint(session.terminal, Style::accent, group.group.name);
    // A full device has exactly one way to fill it: its own layout.
    if (ways.size() == 1 && ways.front() == group.layout) {
      session.print(fmt::format("\n  {}: full\n", name));
      continue;
    }
    session.print(fmt::format("\n  {}: {}\n", name,
                              ways.empty() ? "more ways than can be listed" : fmt::format("{} ways", ways.size())));
    std::vector<report::MosaicRow> rows;
    for (std::size_t i = 0; i < std::min(ways.size(), kRowsMax); ++i) rows.push_back({ways[i], "", ""});
    session.print(report::draw_mosaic(group.geometry, rows, session.terminal, {.indent = 2, .ruler = false}));
    if (ways.size() > kRowsMax) session.print(fmt::format("    ... and {} more\n", ways.size() - kRowsMax));
  }
}

// Scene: where the next small slice should start so that large ones stay possible.
void show_next_slice(Session& session, int number, const Inputs& inputs) {
  scene_title(session, number, "Where the next slice goes", "so that the largest slices remain possible");
  report::Table table({{"DEVICE"}, {"NEXT"}, {"GOES TO"}, {"THEN STILL FITS", report::Align::left, true}});
  for (const auto& whole : groups_of(inputs)) {
    const Group group = simplest(whole);
    const auto& [device, geometry, layout] = group;
    // Profiles are in ascending order, so the first is the smallest.
    const std::string& smallest = geometry.profiles.front().name;
    const auto advice = advise_placement(geometry, layout, 0);
    if (!advice) {
      table.add({{device.name, Style::accent}, smallest, "nowhere: full", ""});
      continue;
    }
    const Layout after = with_slice(geometry, layout, *advice);
    // The largest profile that still fits shows what the advice has preserved.
    std::string room = "nothing";
    for (std::size_t i = geometry.profiles.size(); i-- > 0 && room == "nothing";) {
      const auto places = report::places_left(geometry, after, i);
      if (!places.empty()) room = fmt::format("{} at {}", geometry.profiles[i].name, report::starts_text(places));
    }
    table.add({{device.name, Style::accent}, smallest, fmt::format("unit {}", advice->start), room});
  }
  session.print("\n" + table.render(session.terminal, 2));
}

// Scene: the plan that serves the services on the fewest devices. A missing measurements file ends this scene and not
// the demo.
void show_plan(Session& session, int number, const Inputs& inputs) {
  scene_title(session, number, "The plan", "every promise simulated, on as few devices as possible");
  // Planning takes seconds; the title tells the user what is happening.
  session.out.flush();
  const auto latency = load_latency({.measurements = inputs.measurements_path, .model = ""});
  if (!latency) {
    session.print("\n  " + latency.error().message + "\n");
    return;
  }
  // The planner, rule and seed are the defaults of `tangram plan`, so the user can repeat this plan.
  lab::SimulatedCertifier certifier(**latency);
  plan::Problem problem;
  problem.fleet = inputs.fleet;
  problem.workload = inputs.workload;
  problem.latency = latency->get();
  problem.certifier = &certifier;
  const plan::PlanAnswer answer = plan::find_planner("elastic")->make()->plan(problem);
  if (answer.status != plan::PlanStatus::planned) {
    session.print("\n  " + report::wrap("no plan: " + answer.reason, session.terminal.width - 2, 2) + "\n");
    return;
  }
  report::PlanStory story{problem, answer, "elastic", 1};
  story.costs = plan::service_costs(problem, answer);
  session.print(report::plan_text(story, session.terminal, 2));
}

constexpr std::size_t kTimelineSteps = 288;  // Five minutes each, over a day.
// The report draws single batches; these are the first ones of the day. More would only make the page larger.
constexpr std::size_t kBatchesForPicture = 2000;

std::vector<lab::Run> simulate_day(Session& session, const lab::Scenario& scenario) {
  return run_policies(session, scenario, {scenario.config.scheduler.policy},
                      {.timeline_steps = kTimelineSteps, .batches_max = kBatchesForPicture, .decisions = false});
}

// True if nothing is at `path`, or a report that Tangram wrote, which the next demo may replace. Anything else is the
// user's own file and must not be overwritten.
bool free_or_ours(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return !error;
  const auto content = host::read_file(path);
  return content && content->substr(0, 1000).find("name=\"generator\" content=\"tangram ") != std::string::npos;
}

// Writes the report to tangram-demo.html in the current folder, or to the first tangram-demo-N.html that may be
// written. If the folder is not writable, the report goes to a new temporary folder, so that the demo also works in a
// read-only place.
Result<std::string> place_report(const std::string& report) {
  for (int n = 1; n <= 9; ++n) {
    const std::string name = n == 1 ? "tangram-demo.html" : fmt::format("tangram-demo-{}.html", n);
    if (!free_or_ours(name)) continue;
    // A name is free, but the write failed: the folder is the problem, and further names will not help.
    if (host::write_file_atomically(name, report)) return name;
    break;
  }
  std::error_code error;
  std::string folder = (std::filesystem::temp_directory_path(error) / "tangram-XXXXXX").string();
  // mkdtemp creates the folder under an unpredictable name, so the path cannot be a link planted by another user.
  if (error || ::mkdtemp(folder.data()) == nullptr) {
    return Error{ErrorCode::unavailable, "no file name was free for the report; name one with --html"};
  }
  const std::string path = folder + "/demo.html";
  TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(path, report));
  return path;
}

// Writes the report where the user said, or where place_report() finds room. Returns the path.
Result<std::string> write_report(const std::string& wanted, const lab::Scenario& scenario,
                                 const std::vector<lab::Run>& runs) {
  const std::string report = report::html_report(report_head(scenario), scenario, runs);
  if (wanted.empty()) return place_report(report);
  TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(wanted, report));
  return wanted;
}

// The last scene: a day of traffic in virtual time, and the report about it.
Result<ExitCode> show_day(Session& session, int number, const Inputs& inputs) {
  scene_title(session, number, "A day, simulated", near_path(inputs.scenario_path));
  session.out.flush();
  // Only the simulation is timed, and not the pictures.
  const auto begin = std::chrono::steady_clock::now();
  const auto runs = simulate_day(session, inputs.scenario);
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const report::RunView view = report::view_of(inputs.scenario, runs[0]);
  session.print("\n" + report::draw_day(view, runs[0], session.terminal, 2));
  session.print(fmt::format("\n  {} requests in {} batches; slices were busy {} of the time, with useful work {}:\n\n",
                            view.total.tally.arrived, view.batches, report::percent_text(view.busy_share.value_or(0)),
                            report::percent_text(view.useful_share.value_or(0))));
  session.print(report::draw_utilisation(inputs.scenario, view, session.terminal, 2));
  const std::string story = text::join(report::story_of(view, runs[0]), " ");
  session.print("\n  " + report::wrap(story, session.terminal.width - 2, 2) + "\n");
  TANGRAM_TRY(const auto report, write_report(inputs.html, inputs.scenario, runs));
  session.remark(
      fmt::format("\n  The full report, with pictures: {}\n", paint(session.terminal, Style::accent, report)));
  session.out.flush();
  // The speed goes to standard error: it is the only line that differs between runs, and the rest can be compared as
  // text.
  session.note(fmt::format("  simulated {:.1f} h in {:.1f} s: {:.0f} x real time, {:.2g} million requests/s",
                           view.end_s / 3600, wall_s, view.end_s / wall_s,
                           1e-6 * static_cast<double>(view.requests) / wall_s));
  return ExitCode::done;
}

using Scene = void (*)(Session&, int, const Inputs&);
// In the order in which they are shown. The day follows separately, because it can fail.
constexpr Scene kScenes[] = {show_fleet, show_services, show_free_layouts, show_next_slice, show_plan};

report::Json day_json(Session& session, const lab::Scenario& scenario) {
  const auto runs = simulate_day(session, scenario);
  report::Json json = report::head_json(report_head(scenario));
  json["scenario"] = scenario.name;
  json["runs"] = report::Json::array({report::run_json(report::view_of(scenario, runs[0]), runs[0])});
  return json;
}

// For programs: the numbers behind the scenes. The plan is left out, which `tangram plan --output json` gives in full.
report::Json demo_json(Session& session, const Inputs& inputs) {
  report::Json devices = report::Json::array();
  for (const auto& whole : groups_of(inputs)) {
    const Group group = simplest(whole);
    const auto advice = advise_placement(group.geometry, group.layout, 0);
    const auto ways = ways_to_fill(group.geometry, group.layout);
    devices.push_back({{"name", group.group.name},
                       {"type", group.group.type},
                       {"count", group.group.count ? report::Json(*group.group.count) : report::Json(nullptr)},
                       {"layout", to_string(group.geometry, group.layout)},
                       {"ways_to_fill", ways.empty() ? report::Json(nullptr) : report::Json(ways.size())},
                       {"next_slice", group.geometry.profiles.front().name},
                       {"next_slice_start", advice ? report::Json(advice->start) : report::Json(nullptr)}});
  }
  report::Json services = report::Json::array();
  for (const auto& service : inputs.workload.services) {
    services.push_back({{"name", service.name},
                        {"model", service.model},
                        {"slo_latency_ms", to_milliseconds(service.slo.latency)},
                        {"slo_percentile", service.slo.percentile},
                        {"rate_per_s", mean_rate_per_s(service.traffic)}});
  }
  return {
      {"fleet", std::move(devices)}, {"services", std::move(services)}, {"day", day_json(session, inputs.scenario)}};
}

// The files of the options, with the shipped examples for those that are missing. The examples are looked for only if
// at least one is needed, so a complete command line works without them.
Result<Inputs> load(const Options& options) {
  Inputs inputs{options.fleet, options.services, options.measurements, options.scenario, options.html, {}, {}, {}};
  // Each file can be replaced alone; the others stay the examples.
  if (inputs.fleet_path.empty() || inputs.services_path.empty() || inputs.scenario_path.empty() ||
      inputs.measurements_path.empty()) {
    TANGRAM_TRY(const auto examples, examples_directory());
    if (inputs.fleet_path.empty()) inputs.fleet_path = examples + "/fleet.yaml";
    if (inputs.services_path.empty()) inputs.services_path = examples + "/services.yaml";
    if (inputs.measurements_path.empty()) inputs.measurements_path = examples + "/measurements.csv";
    if (inputs.scenario_path.empty()) inputs.scenario_path = examples + "/scenario-day.yaml";
  }
  TANGRAM_TRY(auto fleet, load_fleet(inputs.fleet_path));
  TANGRAM_TRY(auto workload, load_workload(inputs.services_path));
  TANGRAM_TRY(auto scenario, load_scenario(inputs.scenario_path));
  // --hours shortens the scenario and never extends it.
  scenario.config.duration = std::min(scenario.config.duration, from_seconds(3600 * options.hours));
  inputs.fleet = std::move(fleet);
  inputs.scenario = std::move(scenario);
  inputs.workload = std::move(workload);
  return inputs;
}

Result<ExitCode> run(Session& session, const Options& options) {
  TANGRAM_TRY(const auto inputs, load(options));
  TANGRAM_RETURN_IF_ERROR(host::check_outputs({{"--html", options.html}}, {inputs.scenario_path}));
  if (session.structured()) {
    session.print_value(demo_json(session, inputs));
    return ExitCode::done;
  }
  session.print(paint(session.terminal, Style::bold, "Tangram") +
                ": plan, simulate and serve on GPUs that are cut into slices.\n");
  int number = 1;
  for (const Scene scene : kScenes) scene(session, number++, inputs);
  TANGRAM_TRY(const ExitCode shown, show_day(session, number, inputs));
  if (shown != ExitCode::done) return shown;
  session.remark(
      "\nNext: tangram simulate --help, tangram capacity --help, tangram geometry a100-80gb, tangram doctor\n");
  return ExitCode::done;
}

}  // namespace
}  // namespace demo_verb

void add_demo(Program& program) {
  using namespace demo_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "demo",
       .group = "Look",
       .summary = "demonstrate Tangram on a small fleet",
       .description =
           "Shows the devices of a fleet and their cuts, the load of the services, how the free units of each device "
           "could be cut, where the next slice should go, and the plan that serves the load on the fewest devices. "
           "Then simulates a day and writes a report with pictures: to tangram-demo.html in the current folder, or "
           "to a similar name if that file exists and is not such a report. Uses the example files that come with "
           "Tangram, unless options name yours.",
       .examples = {{"tangram demo", "Use the examples."},
                    {"tangram demo --hours 2 --html /tmp/report.html",
                     "Simulate two hours, and choose the file of the report."},
                    {"tangram demo --fleet examples/fleet.yaml --services examples/services.yaml",
                     "The same, with the files named."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers_files(
      verb.add_option("--fleet", options->fleet, "The fleet file; default: the example.")->type_name("FILE"));
  program.offers_files(
      verb.add_option("--services", options->services, "The services file; default: the example.")->type_name("FILE"));
  program.offers_files(
      verb.add_option("--measurements", options->measurements, "The measurements to plan with; default: the example's.")
          ->type_name("FILE"));
  program.offers_files(
      verb.add_option("--scenario", options->scenario, "The scenario to simulate; default: the example day.")
          ->type_name("FILE"));
  program.offers_files(verb.add_option("--html", options->html, "The file of the report; default: tangram-demo.html.")
                           ->type_name("FILE"));
  verb.add_option("--hours", options->hours, "How many hours of the scenario to simulate.")
      ->type_name("H")
      ->capture_default_str()
      ->range(0.01, 1e5);
}

}  // namespace tangram::cli
