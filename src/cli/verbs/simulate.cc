// `tangram simulate`: runs a scenario in virtual time.
//
// The scheduler is the one that serves; only time and engines are simulated. The same scenario and seed give the same
// answer byte for byte, so everything that depends on the machine, such as the speed of the run, goes to standard
// error. --replan is a second mode: plans follow the traffic, and they are compared with one plan for the peak and with
// an oracle.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/page_files.h"
#include "cli/program.h"
#include "cli/run_policies.h"
#include "host/files.h"
#include "report/replan_view.h"
#include "report/run_tables.h"
#include "sched/scheduler_description.h"
#include "serve/recording_file.h"

namespace tangram::cli {
namespace simulate_verb {
namespace {

// A step is a share of the duration, so a timeline has this many steps however long the run is.
constexpr std::size_t kTimelineSteps = 240;
// A page draws the first batches one by one. A trace viewer can show many more, but its file grows with each of them.
constexpr std::size_t kBatchesForPicture = 4000;
constexpr std::size_t kBatchesForTrace = 200'000;
// The same limit as --under-way of `tangram batch`, so that a simulated offline job can be run.
constexpr std::int64_t kRowsUnderWayMax = 16'384;

// An optional is set only if the option was given; otherwise the scenario decides.
struct Options {
  std::string scenario;
  std::optional<std::string> policy;
  std::vector<std::string> compare;
  std::optional<std::uint64_t> seed;
  std::optional<double> duration_s;
  std::optional<double> rate_scale;
  std::vector<std::string> background;
  std::string timeline;
  std::string html;
  std::string page;
  std::string trace;
  std::string log;
  std::string record;
  bool replan = false;
  double interval_s = 300;
  double speed = 1;
  std::string fleet;
  std::string rule = "certified";
  std::string sharing = "none";
  std::string objective = "devices";
};

// What the run must record. Details cost time and memory, so only those are recorded that a requested file needs.
lab::RunDetail detail_of(const Options& options) {
  lab::RunDetail detail;
  // A timeline is part of every picture.
  const bool pictures = !options.html.empty() || !options.trace.empty();
  if (pictures || !options.timeline.empty()) detail.timeline_steps = kTimelineSteps;
  if (!options.html.empty()) detail.batches_max = kBatchesForPicture;
  if (!options.trace.empty()) detail.batches_max = kBatchesForTrace;
  detail.decisions = !options.log.empty();
  return detail;
}

// The options override the scenario. An option that was not given leaves its value alone.
void apply(const Options& options, lab::Scenario& scenario) {
  if (options.policy) scenario.config.scheduler.policy = *options.policy;
  if (options.seed) scenario.config.seed = *options.seed;
  if (options.duration_s) scenario.config.duration = from_seconds(*options.duration_s);
  if (options.rate_scale) scenario.config.rate_scale = *options.rate_scale;
}

// Parses --background SERVICE=ROWS: an offline job that keeps this many rows under way. Without "=" the number is
// empty, which is the same error as a wrong number.
Result<Nothing> apply_background(const Options& options, lab::Scenario& scenario) {
  for (const auto& text : options.background) {
    const auto equals = std::min(text.find('='), text.size());
    const auto rows = text::parse_integer(std::string_view(text).substr(std::min(equals + 1, text.size())));
    const auto& services = scenario.workload.services;
    const auto found = std::ranges::find(services, text.substr(0, equals), &Service::name);
    if (found == services.end() || !rows || *rows < 1 || *rows > kRowsUnderWayMax) {
      return Error{ErrorCode::invalid, fmt::format("--background {}: expected SERVICE=ROWS with a service of the "
                                                   "scenario and 1 to {} rows",
                                                   text, kRowsUnderWayMax)};
    }
    const ServiceId service(static_cast<std::uint32_t>(found - services.begin()));
    scenario.config.background.push_back({service, static_cast<std::size_t>(*rows)});
  }
  return Nothing{};
}

// Writes the files that were asked for, in the order of the options, until one fails. A file that was not asked for is
// not even rendered: `make` is called only for a path.
Result<Nothing> write_files(Session& session, const Options& options, const lab::Scenario& scenario,
                            const std::vector<lab::Run>& runs) {
  // The head names program, commit, configuration and seed, so that each file can be reproduced by itself.
  const report::ReportHead head = report_head(scenario);
  const auto write = [&](const std::string& path, auto&& make) -> Result<Nothing> {
    if (path.empty()) return Nothing{};
    const auto written = host::write_file_atomically(path, make());
    if (written) session.note("wrote " + path);
    return written;
  };
  if (auto r = write(options.timeline, [&] { return report::timeline_csv(head, scenario, runs); }); !r) return r;
  if (auto r = write(options.html, [&] { return report::html_report(head, scenario, runs); }); !r) return r;
  if (auto r = write(options.trace, [&] { return report::perfetto_trace(head, scenario, runs); }); !r) return r;
  for (const auto& run : runs) {
    const auto& metrics = run.result.metrics;
    // A trace that ends early looks like a server that stopped, so the user is told that it was cut.
    if (options.trace.empty() || metrics.batches_beyond == 0) continue;
    session.note(
        fmt::format("the trace contains only the first {} of {} batches of {}; a shorter run (--duration) shows all",
                    metrics.batches.size(), metrics.batches.size() + metrics.batches_beyond, run.policy));
  }
  return write(options.log, [&] { return report::decision_log(head, runs); });
}

// Prints the answer, then the speed.
void print(Session& session, const lab::Scenario& scenario, const std::vector<lab::Run>& runs, double wall_s) {
  std::vector<report::RunView> views;
  double simulated_s = 0;
  double requests = 0;
  for (const auto& run : runs) {
    views.push_back(report::view_of(scenario, run));
    simulated_s += views.back().end_s;
    requests += static_cast<double>(views.back().requests);
  }
  if (session.structured()) {
    session.print_value(report::runs_json(report_head(scenario), scenario, runs, views));
  } else {
    session.print(report::runs_text(scenario, runs, views, session.terminal));
  }
  // The speed goes to standard error, because the answer itself is the same on every machine.
  session.note(fmt::format("simulated {:.0f} s in {:.2f} s: {:.0f} x real time, {:.0f} requests/s", simulated_s, wall_s,
                           simulated_s / wall_s, requests / wall_s));
}

// The fleet of --fleet, or that of the scenario. The path in a scenario is relative to the scenario file.
Result<Fleet> fleet_for(const Options& options, const lab::Scenario& scenario) {
  if (!options.fleet.empty()) return load_fleet(options.fleet);
  if (!scenario.fleet.empty()) {
    return load_fleet((std::filesystem::path(options.scenario).parent_path() / scenario.fleet).string());
  }
  return Error{ErrorCode::invalid,
               options.scenario + ": --replan needs a fleet: give --fleet FLEET, or the key fleet in the scenario"};
}

// Runs the scenario three times: with replanning, with one plan for the peak, and with an oracle that knows the
// traffic.
Result<ExitCode> run_replan(Session& session, const Options& options, const lab::Scenario& day) {
  const lab::Scenario scenario = lab::at_speed(day, options.speed);
  TANGRAM_TRY(const auto fleet, fleet_for(options, scenario));
  if (const auto possible = host::check_outputs({{"--html", options.html}}, {options.scenario, options.fleet});
      !possible) {
    return session.fail(possible.error());
  }
  // Each of the three runs fills a third of the bar.
  constexpr std::uint64_t kRunUnits = 1000;
  Progress progress = session.progress("planning", 3 * kRunUnits);
  lab::ReplanComparisonOptions settings;
  settings.controller.interval = from_seconds(options.interval_s);
  settings.rule = *plan::parse_rule(options.rule);
  settings.sharing = *plan::parse_sharing(options.sharing);
  settings.objective = *plan::parse_objective(options.objective);
  // One seed for traffic and certification, so that --seed reproduces the whole run.
  settings.certify.seed = scenario.config.seed;
  settings.progress = [&](const std::string& name, double share) {
    const std::uint64_t before = name == "replan" ? 0 : name == "static" ? kRunUnits : 2 * kRunUnits;
    progress.label(name);
    progress.set(before + static_cast<std::uint64_t>(share * kRunUnits));
    return true;
  };
  const auto comparison = lab::compare_replanning(scenario, fleet, lab::at_speed(settings, options.speed));
  progress.finish();
  if (!comparison) return session.fail(comparison.error());
  if (session.structured()) {
    report::Json json = report::head_json(report_head(scenario));
    json.update(report::replan_json(scenario, *comparison));
    session.print_value(json);
  } else {
    session.print(report::replan_table(scenario, *comparison, session.terminal));
  }
  // The controller is what the user would run; the other two are there to compare with.
  const ExitCode code = report::keeps_all(scenario, comparison->runs.front()) ? ExitCode::done : ExitCode::answer_is_no;
  if (options.html.empty()) return code;
  TANGRAM_RETURN_IF_ERROR(
      host::write_file_atomically(options.html, report::replan_html(report_head(scenario), scenario, *comparison)));
  session.note("wrote " + options.html);
  return code;
}

// Connects the scenario to the file of --record, which is written while the run goes on. Null without the option. The
// scenario then refers to the file, which must outlive the run.
Result<std::unique_ptr<serve::RecordingFile>> open_recording(const Options& options, lab::Scenario& scenario) {
  if (options.record.empty()) return std::unique_ptr<serve::RecordingFile>();
  auto file = serve::RecordingFile::open(options.record, {});
  if (file) scenario.config.recording = [to = file->get()](std::string_view line) { to->add(line); };
  return file;
}

// Of the run, as far as it is known before: a scenario may also end after a number of requests.
Duration length_of(const lab::Scenario& scenario) {
  return scenario.config.duration == Duration::max() ? Duration::zero() : scenario.config.duration;
}

// The order matters: everything that can be wrong with options and files is checked before the run, which may take
// minutes.
Result<ExitCode> run(Session& session, const Options& options) {
  TANGRAM_TRY(auto scenario, load_scenario(options.scenario));
  apply(options, scenario);
  TANGRAM_RETURN_IF_ERROR(apply_background(options, scenario));
  if (options.replan) return run_replan(session, options, scenario);
  // Only --replan can do without a plan.
  TANGRAM_RETURN_IF_ERROR(needs_plan(scenario, options.scenario));
  // --compare replaces the policy of the scenario.
  const std::vector<std::string> policies =
      options.compare.empty() ? std::vector{scenario.config.scheduler.policy} : options.compare;
  TANGRAM_RETURN_IF_ERROR(check_policies(policies));
  const std::vector<host::OutputFile> outputs{{"--timeline", options.timeline}, {"--html", options.html},
                                              {"--trace", options.trace},       {"--log", options.log},
                                              {"--record", options.record},     {"--page", options.page}};
  TANGRAM_RETURN_IF_ERROR(host::check_outputs(outputs, {options.scenario}));
  TANGRAM_TRY(auto recording, open_recording(options, scenario));
  std::optional<control::FleetHistory> history;
  if (!options.page.empty()) {
    if (policies.size() > 1)
      return session.fail({ErrorCode::invalid, "--page shows one policy: give --compare one name"});
    history.emplace(whole_history(length_of(scenario)));
    scenario.config.watcher = &*history;
  }
  // Before the run, so that a user who sees a warning can stop it.
  warn(session, scenario);
  const auto begin = std::chrono::steady_clock::now();
  const auto runs = run_policies(session, scenario, policies, detail_of(options));
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  print(session, scenario, runs, wall_s);
  TANGRAM_RETURN_IF_ERROR(write_files(session, options, scenario, runs));
  if (history) {
    const std::string name = scenario.name.empty() ? options.scenario : scenario.name;
    TANGRAM_RETURN_IF_ERROR(write_page(
        options.page, *history,
        {.title = name,
         .kind = "simulation",
         .about = fmt::format("Simulated with the policy {} and seed {}.", policies.front(), scenario.config.seed)}));
    session.note("wrote " + options.page);
  }
  if (recording == nullptr) return ExitCode::done;
  // The run itself succeeded and was printed, but the file is incomplete, and a replay would end in the middle.
  if (!recording->finish()) {
    return session.fail({ErrorCode::denied, options.record + ": cannot write the recording"});
  }
  session.note("wrote " + options.record);
  return ExitCode::done;
}

void add_options(Program& program, Arguments& verb, Options& options) {
  program.offers_files(verb.add_option("SCENARIO", options.scenario, "The scenario file.")->required());
  program.one_of(verb.add_option("--policy", options.policy, "The policy, instead of the scenario's.")->type_name("P"),
                 sched::policy_names());
  program.offers(verb.add_option("--compare", options.compare, "Compare these policies, p1,p2,...")
                     ->type_name("POLICIES")
                     ->delimiter(',')
                     ->excludes({"--policy"}),
                 sched::policy_names());
  verb.add_option("--seed", options.seed, "The seed, instead of the scenario's.")->type_name("N");
  verb.add_option("--duration", options.duration_s, "The duration in virtual seconds, instead of the scenario's.")
      ->type_name("S")
      ->range(1e-3, 1e9);
  verb.add_option("--rate-scale", options.rate_scale, "The factor for all rates, instead of the scenario's.")
      ->type_name("X")
      ->range(1e-6, 1e6);
  verb.add_option("--background", options.background,
                  "Add an offline job, SERVICE=ROWS, that keeps this many rows in flight. May be repeated.")
      ->type_name("JOB");
  const auto file = [&](const char* name, std::string& path, const char* help) {
    program.offers_files(verb.add_option(name, path, help)->type_name("FILE"));
  };
  file("--timeline", options.timeline, "Write a time series of the run, CSV.");
  file("--html", options.html, "Write a report with pictures, as one self-contained page.");
  file("--page", options.page, "Write a page with a slider over time: what every slice did, what happened and why.");
  file("--trace", options.trace, "Write the batches for Perfetto or chrome://tracing, as JSON.");
  file("--log", options.log, "Write every decision with its virtual time.");
  program.offers_files(
      verb.add_option("--record", options.record, "Record every event and decision, for `tangram replay`.")
          ->type_name("FILE")
          ->excludes({"--compare"}));
  auto* replan =
      verb.add_flag(
              "--replan", options.replan,
              "Make plans for the fleet, and new ones as rates and input sizes change; compare with one plan for the "
              "peak and with an oracle.")
          ->excludes({"--compare", "--timeline", "--trace", "--log", "--record", "--page"});
  verb.add_option("--interval", options.interval_s, "With --replan: virtual seconds between two checks of the traffic.")
      ->type_name("S")
      ->range(1.0, 1e6)
      ->needs(replan)
      ->capture_default_str();
  verb.add_option(
          "--speed", options.speed,
          "With --replan: let the day pass so many times as fast. Divides the duration, rate curves, diurnal "
          "periods, size drift, --interval, checks for surges, cutting and loading; rates, run times, promises, "
          "bursts and traces stay as they are.")
      ->type_name("X")
      ->range(1e-3, 1e4)
      ->needs(replan)
      ->capture_default_str();
  program.offers_files(
      verb.add_option("--fleet", options.fleet, "With --replan: the fleet file, instead of the scenario's fleet.")
          ->type_name("FLEET")
          ->needs(replan));
  program.one_of(verb.add_option("--rule", options.rule, "With --replan: the rule for when a slice is fast enough.")
                     ->type_name("R")
                     ->needs(replan)
                     ->capture_default_str(),
                 {"half", "certified"});
  program.one_of(verb.add_option("--objective", options.objective,
                                 "With --replan: what plans optimise, the fewest devices or the lowest price an hour.")
                     ->type_name("NAME")
                     ->needs(replan)
                     ->capture_default_str(),
                 {"devices", "price"});
  program.one_of(verb.add_option("--sharing", options.sharing,
                                 "With --replan: which services may share slices: none, only services of one model, "
                                 "or all that allow it.")
                     ->type_name("NAME")
                     ->needs(replan)
                     ->capture_default_str(),
                 {"none", "model", "all"});
}

}  // namespace
}  // namespace simulate_verb

void add_simulate(Program& program) {
  using namespace simulate_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "simulate",
       .group = "Simulate",
       .summary = "run a scenario in virtual time",
       .description =
           "Runs the scheduler on the services, plan and faults of SCENARIO in virtual time and prints the outcomes "
           "of requests by service, bucket, slice and tenant. The same seed gives the same output, byte for byte. "
           "With --compare, several policies receive the same requests. In JSON, shares are between 0 and 1, keys "
           "end with their unit, and a latency quantile is null if too few requests were answered to reach it. Rates "
           "(arrived_per_s, goodput_per_s) are averages over counted_s, the time in which the counted requests "
           "arrived: from the warm-up to the end of the duration, or to the last arrival if the traffic ends by "
           "itself. Shares of busy time are over end_s, the time at which the last request was resolved; offline "
           "work after that time is not counted. The speed of the simulation is printed on standard error. With "
           "--replan the scenario needs no plan: plans are made for its fleet and follow the traffic, and devices "
           "are re-cut in virtual time. The exit code is then 1 if the controller broke a promise; a saving is shown "
           "only if it and the plan for the peak kept all of them.",
       .examples = {{"tangram simulate examples/scenario.yaml", "Run the example."},
                    {"tangram simulate examples/scenario-day.yaml --html day.html", "Write a report with pictures."},
                    {"tangram simulate examples/scenario-day.yaml --page day.html",
                     "Write the page that a server shows, for the simulated day."},
                    {"tangram simulate examples/scenario-day.yaml --compare tangram,elsa,fifs",
                     "Compare three policies."},
                    {"tangram simulate examples/scenario-day.yaml --seed 7 --duration 60 --trace day.json",
                     "Trace one minute, for ui.perfetto.dev."},
                    {"tangram simulate examples/scenario-replan.yaml --replan --html replan.html",
                     "Simulate a day in which plans follow the traffic."}}},
      [options](Session& session) { return run(session, *options); });
  add_options(program, verb, *options);
}

}  // namespace tangram::cli
