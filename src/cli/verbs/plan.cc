// `tangram plan`: cuts the fleet for the services, on the fewest devices.
//
// The planner searches, the certifier simulates, and check_plan() verifies the result independently of both. This file
// reads the Question, connects a progress bar to the search, and writes the answer as text, JSON, a plan file, a
// picture or a page. "No plan exists" is an answer (exit code 1), with the reason and the nearest change that helps.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "cli/build_info.h"
#include "cli/inputs.h"
#include "cli/plan_inputs.h"
#include "cli/program.h"
#include "formats/measurements_file.h"
#include "formats/plan_file.h"
#include "host/files.h"
#include "lab/certify.h"
#include "plan/check_plan.h"
#include "plan/difference.h"
#include "plan/remedy.h"
#include "plan/replan.h"
#include "plan/sharing.h"
#include "report/plan_view.h"

namespace tangram::cli {
namespace plan_verb {
namespace {

struct Options {
  std::string fleet;
  std::string services;
  LatencySource latency;
  std::string planner = "elastic";
  std::string rule = "certified";
  std::string objective = "devices";
  std::string buckets = "chosen";
  std::string sharing = "all";
  int processes = 1;
  double memory_headroom = plan::PlanOptions{}.memory_headroom;
  std::uint64_t seed = 1;
  double noise = lab::CertifyOptions{}.noise;
  std::string check;  // A plan to certify again instead of making one.
  std::string from;   // The plan that is running, to stay close to.
  bool explain = false;
  std::string to;
  std::string svg;
  std::string html;
};

// Everything that a plan is made from. `problem` holds a pointer to the latency model, so `latency` keeps it alive.
struct Question {
  std::shared_ptr<const LatencyModel> latency;
  plan::Problem problem;
};

// Parses --buckets: "chosen" lets the planner choose the edges, "longest" makes one bucket of the largest size, and
// "fixed:32,64,128" takes the user's edges, which must ascend.
Result<Nothing> read_buckets(const std::string& text, plan::PlanOptions& options) {
  if (text == "chosen" || text == "longest") {
    options.bucketing = text == "chosen" ? plan::Bucketing::chosen : plan::Bucketing::longest;
    return Nothing{};
  }
  // One message for every mistake in the list, with the expected form.
  const Error wrong{
      ErrorCode::invalid,
      fmt::format("--buckets: expected chosen, longest or fixed:32,64,... ascending, found \"{}\"", text)};
  if (!text.starts_with("fixed:")) return wrong;
  options.bucketing = plan::Bucketing::fixed;
  for (const auto part : text::split(std::string_view(text).substr(6), ',')) {
    const auto edge = text::parse_integer(part);
    if (!edge || *edge < 1 || (!options.edges.empty() && *edge <= options.edges.back())) return wrong;
    options.edges.push_back(*edge);
  }
  return Nothing{};
}

// ParvaGPU's planner leaves half of the Slo for waiting and simulates nothing, so its plans must not be called
// certified. The default rule is `certified`; the user has to say --rule half and thereby know the difference.
Result<Nothing> check_rule(const Options& options) {
  if (!options.from.empty() && (options.planner != "elastic" || !options.check.empty())) {
    return Error{ErrorCode::invalid, "--from needs --planner elastic, and cannot be combined with --check"};
  }
  if (options.planner != "parva" || options.rule != "certified") return Nothing{};
  return Error{ErrorCode::invalid, "--planner parva has a rule of its own and certifies nothing; give --rule half"};
}

Result<Nothing> read_question(const Options& options, Question& question) {
  TANGRAM_RETURN_IF_ERROR(check_rule(options));
  TANGRAM_TRY(auto fleet, load_fleet(options.fleet));
  TANGRAM_TRY(auto workload, load_workload(options.services));
  TANGRAM_TRY(auto latency, load_latency(options.latency));
  question.latency = std::move(latency);
  plan::Problem& problem = question.problem;
  problem.fleet = std::move(fleet);
  problem.workload = std::move(workload);
  problem.latency = question.latency.get();
  // Rule and objective were checked against the list of names when the options were parsed.
  problem.options.rule = *plan::parse_rule(options.rule);
  problem.options.objective = *plan::parse_objective(options.objective);
  problem.options.processes_max = options.processes;
  problem.options.memory_headroom = options.memory_headroom;
  problem.options.sharing = *plan::parse_sharing(options.sharing);
  return read_buckets(options.buckets, problem.options);
}

// A certifier that reports to the progress bar and passes every question on. Without it the bar would not move while a
// service is simulated.
class WatchedCertifier final : public plan::Certifier {
 public:
  WatchedCertifier(plan::Certifier& certifier, Progress& progress) : certifier_(certifier), progress_(progress) {}

  plan::Verdict certify(const Service& service, std::span<const plan::ReplicaGroup> groups, bool confirm) override {
    progress_.label(fmt::format("{} {}", confirm ? "confirming" : "certifying", service.name));
    progress_.advance(0);
    return certifier_.certify(service, groups, confirm);
  }
  std::vector<plan::Verdict> certify_together(std::span<const Service> services,
                                              std::span<const plan::SharedGroup> groups, bool confirm) override {
    progress_.label(
        fmt::format("{} {} services that share slices", confirm ? "confirming" : "certifying", services.size()));
    progress_.advance(0);
    return certifier_.certify_together(services, groups, confirm);
  }

 private:
  plan::Certifier& certifier_;
  Progress& progress_;
};

// The bar shows the lower bound as a share of the best price so far. At 100 % the plan is proved optimal; the rest is
// the gap.
constexpr std::uint64_t kProgressTotal = 1000;

// The plan nearest to the running one that is as cheap as the objective allows, with the roles given to devices so that
// few slices move. Tells how much moves.
Result<plan::PlanAnswer> plan_from(Session& session, const Options& options, const plan::Problem& problem) {
  TANGRAM_TRY(const Plan running, load_plan(options.from));
  plan::PlanAnswer answer = plan::replan(problem, plan::as_running(problem, running)).answer;
  if (answer.status != plan::PlanStatus::planned) return answer;
  TANGRAM_TRY(auto difference, plan::diff(running, answer.plan));
  answer.plan = std::move(difference.target);
  const auto& counts = difference.counts;
  session.note(fmt::format("from {}: {} slices kept, {} changed, {} destroyed, {} created; {} replicas loaded",
                           options.from, counts.slices_kept, counts.slices_changed, counts.slices_destroyed,
                           counts.slices_created, counts.replicas_loaded));
  return answer;
}

// Ensures that `question.problem` refers to nothing local on return: the watched certifier and the bar end with this
// function, and --explain plans again later with the plain certifier. For an answer without a plan, `remedy` is what
// would help.
Result<plan::PlanAnswer> make_plan(Session& session, const Options& options, Question& question,
                                   const plan::Planner& planner, plan::Certifier& certifier, plan::Remedy& remedy) {
  Progress progress = session.progress("planning", kProgressTotal);
  WatchedCertifier watched(certifier, progress);
  question.problem.certifier = &watched;
  question.problem.budget.progress = [&](double price, double bound) {
    // Before the first plan is found the price is not a number that can be shown. The negations also catch NaN.
    if (!(price > 0) || !(bound >= 0) || price > 1e9) return;
    // Clamped, because rounding may put the bound above the price.
    const double share = std::clamp(bound / price, 0.0, 1.0);
    progress.label(fmt::format("planning: {:.4g}, bound {:.4g}, gap {:.1f} %", price, bound, 100 * (1 - share)));
    progress.set(static_cast<std::uint64_t>(share * kProgressTotal));
  };
  Result<plan::PlanAnswer> answer = options.from.empty() ? Result<plan::PlanAnswer>(planner.plan(question.problem))
                                                         : plan_from(session, options, question.problem);
  question.problem.budget.progress = {};
  // Where one service cannot be served at all, the reason names the change that helps; more devices would not.
  if (answer && answer->status != plan::PlanStatus::planned && answer->service.empty()) {
    remedy = plan::find_remedy(question.problem, planner, {.progress = [&](const std::string& what) {
                                 progress.label(what);
                                 progress.advance(0);
                               }});
  }
  question.problem.certifier = &certifier;
  return answer;
}

// One line for each service whose model has no run times at all, which is most often a misspelt name.
std::string unknown_models(const Options& options, const Question& question) {
  std::set<std::string> known;
  if (const auto* fitted = dynamic_cast<const learn::FittedModel*>(question.latency.get())) {
    for (const auto& run : fitted->runs()) known.insert(run.model);
  } else if (const auto source = read_source(options.latency.measurements)) {
    // A table model does not list its models, so the file is read a second time. This runs only after planning has
    // failed.
    const auto measurements = formats::parse_measurements(*source);
    if (!measurements) return {};
    for (const auto& row : *measurements) known.insert(row.model);
  }
  std::string text;
  for (const auto& service : question.problem.workload.services) {
    if (known.empty() || known.contains(service.model)) continue;
    text += fmt::format("{}: no run times are known for {}; they are known for {}\n", service.name, service.model,
                        text::join(std::vector<std::string>(known.begin(), known.end()), ", "));
  }
  return text;
}

// Null where nothing was found.
report::Json remedy_json(const plan::Remedy& remedy) {
  report::Json json{{"devices", nullptr}, {"service", nullptr}, {"service_devices", nullptr}, {"rate_factor", nullptr}};
  if (remedy.devices) {
    json["devices"] = *remedy.devices;
    json["service"] = remedy.service;
    json["service_devices"] = remedy.service_devices;
  }
  if (remedy.rate_factor) json["rate_factor"] = *remedy.rate_factor;
  return json;
}

// No plan was found. The reason goes to standard error even with --quiet, because it is what the user needs next.
ExitCode refuse(Session& session, const Options& options, const Question& question, const plan::PlanAnswer& answer,
                const plan::Remedy& remedy) {
  if (session.structured()) {
    report::Json json = report::plan_json({question.problem, answer, options.planner, options.seed});
    json["remedy"] = remedy_json(remedy);
    session.print_value(json);
  }
  session.err << "no plan: " << answer.reason << "\n" << plan::to_text(remedy) << unknown_models(options, question);
  return ExitCode::answer_is_no;
}

// Each file is written whole or not at all; the first failure ends it.
Result<Nothing> write_files(Session& session, const Options& options, const report::PlanStory& story) {
  const auto write = [&](const std::string& path, const std::string& content) -> Result<Nothing> {
    const auto written = host::write_file_atomically(path, content);
    if (written) session.note("wrote " + path);
    return written;
  };
  if (!options.to.empty()) {
    TANGRAM_RETURN_IF_ERROR(write(options.to, formats::write_plan(story.answer.plan)));
  }
  if (!options.svg.empty()) {
    TANGRAM_RETURN_IF_ERROR(write(options.svg, report::plan_svg(story)));
  }
  if (!options.html.empty()) {
    TANGRAM_RETURN_IF_ERROR(write(options.html, report::plan_html(story, generator_text(build_info()))));
  }
  return Nothing{};
}

// Everything that the report shows. With --explain this also plans again with longer Slos, to find out what each would
// save.
report::PlanStory tell(Session& session, const Options& options, const Question& question,
                       const plan::PlanAnswer& answer, const plan::Planner& planner) {
  report::PlanStory story{question.problem, answer, options.planner, options.seed};
  story.costs = plan::service_costs(question.problem, answer);
  // The rest plans again, so it is computed only on request.
  if (!options.explain) return story;
  story.explained = true;
  Progress progress = session.progress("explaining", 0);
  story.relief = plan::slo_relief(question.problem, planner, answer);
  story.neighbours = plan::neighbours_of(question.problem, answer);
  // Only a fitted model knows how sure its predictions are.
  if (const auto* fitted = dynamic_cast<const learn::FittedModel*>(question.latency.get())) {
    story.confidence = lab::confidence_of(question.problem, answer, *fitted);
  }
  return story;
}

// The planner cuts devices anew whatever `layout` of the fleet says. Says so, because what runs on those slices stops.
void note_recuts(Session& session, const Fleet& fleet, const Plan& plan) {
  for (const auto& group : fleet.groups) {
    if (!group.layout || group.layout->slices.empty()) continue;
    const auto recut = std::ranges::count_if(plan.devices, [&](const PlannedDevice& device) {
      return plan::group_of_device(fleet, device) == &group && layout_of(device) != *group.layout;
    });
    if (recut == 0) continue;
    session.note(
        fmt::format("{}: the plan cuts {} device{} otherwise than the fleet's layout; tangram diff shows the "
                    "steps from the plan that runs there, and --from stays close to it",
                    group_name(group), recut, recut == 1 ? "" : "s"));
  }
}

// A planner whose plan violates its own constraints has a bug, and the plan must not be used. The check shares no code
// with the search.
Result<Nothing> check(const Question& question, const plan::PlanAnswer& answer) {
  plan::Problem problem = question.problem;
  // With the objective `headroom` the planner claims more than the demand. The plan has to carry what was claimed.
  problem.options.demand_factor = answer.headroom;
  const auto wrong = plan::check_plan(problem, answer.plan);
  if (wrong.empty()) return Nothing{};
  return Error{ErrorCode::invalid, "the plan does not pass its check: " + text::join(wrong, "; ")};
}

// Certifies an existing plan with other random numbers than those it was made with, even if the seed is the same. The
// answer has the form of a new plan's, without a bound.
Result<ExitCode> check_again(Session& session, const Options& options, Question& question) {
  TANGRAM_TRY(const auto source, read_source(options.check));
  TANGRAM_TRY(Plan plan, formats::parse_plan(source));
  const auto wrong = plan::check_plan(question.problem, plan);
  const lab::CertifyOptions certify{.seed = options.seed, .noise = options.noise};
  lab::SimulatedCertifier certifier(*question.latency, certify.checking());
  Progress progress = session.progress("certifying", question.problem.workload.services.size());
  const auto checked = plan::certify_plan(question.problem, plan, certifier, [&](const std::string& service) {
    progress.label("certifying " + service);
    progress.advance(1);
  });
  progress.finish();
  const bool holds = wrong.empty() && checked.all_hold();
  if (session.structured()) {
    session.print_value(report::checked_plan_json(question.problem, checked, wrong, options.seed));
  } else {
    session.print(report::checked_plan_text(question.problem, checked, wrong, session.terminal));
  }
  return holds ? ExitCode::done : ExitCode::answer_is_no;
}

Result<ExitCode> run(Session& session, const Options& options) {
  Question question;
  TANGRAM_RETURN_IF_ERROR(read_question(options, question));
  for (const auto& doubt : plan::tenant_doubts(question.problem.workload)) session.warn(doubt);
  if (!options.check.empty()) return check_again(session, options, question);
  const std::vector<host::OutputFile> outputs{{"--to", options.to}, {"--svg", options.svg}, {"--html", options.html}};
  const std::vector<std::string> inputs{options.fleet, options.services, options.latency.measurements,
                                        options.latency.model, options.from};
  // Planning can take minutes, so find out first whether its results can be written.
  TANGRAM_RETURN_IF_ERROR(host::check_outputs(outputs, inputs));
  // Never null: the name was checked against the registry when it was parsed.
  const auto planner = plan::find_planner(options.planner)->make();
  lab::SimulatedCertifier certifier(*question.latency, {.seed = options.seed, .noise = options.noise});
  plan::Remedy remedy;
  TANGRAM_TRY(const auto answer, make_plan(session, options, question, *planner, certifier, remedy));
  if (answer.status != plan::PlanStatus::planned) return refuse(session, options, question, answer, remedy);
  // A failed check is a bug of ours and not wrong input, so it has its own exit code.
  if (const auto right = check(question, answer); !right) {
    session.err << right.error().message << "\n";
    return ExitCode::internal_bug;
  }
  const report::PlanStory story = tell(session, options, question, answer, *planner);
  if (session.structured()) {
    session.print_value(report::plan_json(story));
  } else {
    session.print(report::plan_text(story, session.terminal));
    if (story.explained) session.print(report::explanation_text(story, session.terminal));
  }
  note_recuts(session, question.problem.fleet, answer.plan);
  TANGRAM_RETURN_IF_ERROR(write_files(session, options, story));
  return ExitCode::done;
}

// The help lists the registry, so a new planner is documented by its own summary.
std::string planners_text() {
  std::string text;
  for (const auto& planner : plan::planners()) text += fmt::format(" {}: {}", planner.name, planner.summary);
  return text;
}

std::vector<std::string> planner_names() {
  std::vector<std::string> names;
  for (const auto& planner : plan::planners()) names.emplace_back(planner.name);
  return names;
}

VerbInfo info() {
  return {
      .name = "plan",
      .group = "Plan",
      .summary = "plan the cuts of a fleet for its services, on the fewest devices",
      .description =
          "Decides how each device of FLEET is cut and what runs on every slice, with which buckets of input sizes "
          "and which batch sizes, so that SERVICES keep their promises on as few devices as possible, and gives a "
          "proved lower bound. Services may share slices where their memory is known; see --sharing. The rule says when a slice is fast "
          "enough. certified, the default, simulates every service with the scheduler that will serve it, until its "
          "percentile holds in the long run with 95 % confidence for each service. "
          "half leaves half of the Slo for waiting, as ParvaGPU does. no_waiting gives a bound, not a plan to serve: "
          "a run only has to fit into the Slo, in a batch that can gather in the rest of it. The planner parva needs "
          "--rule half. Rates are those at the peak of a day or curve; a service with a job is sized to finish "
          "before its deadline. Every plan is checked by separate code before it is written. If there is no plan, "
          "the reason and the smallest change that helps are printed, and the exit code is 1. Planners:" +
          planners_text(),
      .examples = {{"tangram plan examples/fleet.yaml examples/services.yaml --measurements "
                    "examples/measurements.csv -o plan.json",
                    "Plan, print the plan, and save it."},
                   {"tangram plan examples/fleet.yaml examples/services.yaml --measurements "
                    "examples/measurements.csv --explain --html plan.html",
                    "With the reasons, and a page to share."},
                   {"tangram plan --check plan.json examples/fleet.yaml examples/services.yaml --measurements "
                    "examples/measurements.csv --seed 7",
                    "Certify a plan again; exit code 1 if a promise does not hold."},
                   {"tangram plan examples/fleet.yaml examples/services.yaml --measurements "
                    "examples/measurements.csv --objective price --rule half --output json",
                    "The lowest price under ParvaGPU's rule, for a program."}}};
}

void add_options(Program& program, Arguments& verb, Options& options) {
  program.offers_files(verb.add_option("FLEET", options.fleet, "The fleet file.")->required());
  program.offers_files(verb.add_option("SERVICES", options.services, "The services file.")->required());
  const auto file = [&](const char* name, std::string& path, const char* help) {
    return program.offers_files(verb.add_option(name, path, help)->type_name("FILE"));
  };
  Argument* measurements = file("--measurements", options.latency.measurements, "Measured run times, CSV.");
  file("--model", options.latency.model, "A latency model that tangram learn wrote.")->excludes(measurements);
  const auto choice = [&](const char* name, std::string& value, const char* help, std::vector<std::string> values) {
    program.one_of(verb.add_option(name, value, help)->type_name("NAME")->capture_default_str(), std::move(values));
  };
  choice("--planner", options.planner, "The planner.", planner_names());
  choice("--rule", options.rule, "The rule for when a slice is fast enough.", {"half", "certified", "no_waiting"});
  choice("--objective", options.objective, "What to optimise: fewest devices, lowest price, or the highest rates.",
         {"devices", "price", "headroom"});
  choice("--sharing", options.sharing,
         "Which services may share slices: none, only services of one model, or all that allow it. Only the planner "
         "elastic shares by this option.",
         {"none", "model", "all"});
  program.whole_number(verb.add_option("--processes", options.processes, "The largest number of processes on a slice.")
                           ->type_name("N")
                           ->capture_default_str(),
                       1, 48);
  verb.add_option("--memory-headroom", options.memory_headroom,
                  "The share of a slice's memory that runs must leave free, where their peak memory was measured.")
      ->type_name("SHARE")
      ->capture_default_str()
      ->range(0.0, 0.9);
  program.offers(verb.add_option("--buckets", options.buckets,
                                 "The buckets of input sizes: chosen, longest, or fixed:32,64,128 with your edges.")
                     ->type_name("HOW")
                     ->capture_default_str(),
                 {"chosen", "longest", "fixed:"});
  verb.add_option("--seed", options.seed, "The seed of the simulations that certify.")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--noise", options.noise,
                  "Spread of run times in the simulations, as a share of the run time, where neither the measurements "
                  "nor the learned model have any; 0: none.")
      ->type_name("SHARE")
      ->capture_default_str()
      ->range(0.0, 1.0);
  file("--check", options.check,
       "Certify this plan again instead of making one. Another --seed gives other random numbers.");
  file("--from", options.from,
       "Stay close to this plan, which is running: move as few slices and replicas as the objective allows.");
  verb.add_flag(
      "--explain", options.explain,
      "Explain why not fewer devices, who shares slices and what that saves and costs, what a longer promise of each "
      "service would save, and how certain the run times are.");
  file("-o,--to", options.to, "Write the plan, JSON.");
  file("--svg", options.svg, "Draw the devices.");
  file("--html", options.html, "Write a page with the picture and the tables.");
}

}  // namespace
}  // namespace plan_verb

void add_plan(Program& program) {
  using namespace plan_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(info(), [options](Session& session) { return run(session, *options); });
  add_options(program, verb, *options);
}

}  // namespace tangram::cli
