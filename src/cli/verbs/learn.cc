// `tangram learn`: fits a latency model to measurements, and reports how well it predicts.
//
// Wrong measurements are the usual reason of a wrong model, so the verb looks for them in three ways before it fits:
// runs that contradict each other about memory, runs that use more memory than their slice has, and latencies that no
// amount of work explains. It reports each with its line in the file and learns from all of them. Then it fits,
// predicts each run from the others, and reports error, coverage of the intervals, and what to measure next.

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "base/text.h"
#include "cli/inputs.h"
#include "cli/parallel.h"
#include "cli/program.h"
#include "formats/measurements_file.h"
#include "host/files.h"
#include "lab/features_file.h"
#include "lab/model_file.h"
#include "learn/assume.h"
#include "learn/contradictions.h"
#include "learn/fit.h"
#include "report/learn_report.h"
#include "report/learn_view.h"

namespace tangram::cli {
namespace learn_verb {
namespace {

struct Options {
  std::string measurements;
  std::vector<std::string> known;
  std::string features;
  std::string to;
  std::string html;
  std::string kind = "blend";
  double coverage = 0.95;
  std::vector<std::string> assume;
};

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const auto& kind : learn::model_kinds()) names.emplace_back(kind.name);
  return names;
}

// A wrong unit usually affects many rows. Five examples show the pattern; line numbers are enough for the rest.
constexpr std::size_t kContradictionsShown = 5;
constexpr std::size_t kLinesShown = 30;  // Runs whose line numbers are listed, the examples included.

// Prints the first few of `found` in full and the others by line number. `lines` maps the index of a measurement to its
// line in the file, `where` is the member of Found that holds that index.
template <typename Found, typename Tell>
void note_first(Session& session, const std::string& path, const std::vector<int>& lines,
                const std::vector<Found>& found, std::size_t Found::*where, Tell&& tell) {
  std::vector<std::string> more;
  for (std::size_t i = 0; i < std::min(found.size(), kLinesShown); ++i) {
    const int line = lines[found[i].*where];
    if (i < kContradictionsShown) session.note(fmt::format("{}:{}: {}", path, line, tell(found[i])));
    if (i >= kContradictionsShown) more.push_back(fmt::format("{}", line));
  }
  if (more.empty()) return;
  session.note(fmt::format("{}: {} more runs like these, in lines {}{}", path, found.size() - kContradictionsShown,
                           text::join(more, ", "), found.size() > kLinesShown ? ", ..." : ""));
}

// Reports measurements that cannot all be true. They are still used: an allocator can fail by chance, and only the
// person who measured can tell which of two runs has the wrong unit.
void warn_of_contradictions(Session& session, const std::string& path, const Measurements& measurements,
                            const std::vector<int>& lines) {
  const auto shape = [&](std::size_t index) {
    const Measurement& m = measurements[index];
    return fmt::format("on {} with batch {}, size {}, processes {}", m.mig_profile, m.batch, m.size, m.processes);
  };
  // A run failed although a run at least as large fitted into no more memory.
  const auto memory = learn::contradictions_of(measurements);
  note_first(session, path, lines, memory, &learn::Contradiction::failed, [&](const learn::Contradiction& c) {
    return fmt::format("{} ran out of memory {}, but the run in line {} did not, {}", measurements[c.failed].model,
                       shape(c.failed), lines[c.fitted], shape(c.fitted));
  });
  // A run used more memory than its slice has, which is most often bytes or GiB in the column for MiB.
  const auto overfull = learn::overfull_of(measurements);
  note_first(session, path, lines, overfull, &learn::Overfull::run, [&](const learn::Overfull& o) {
    const Measurement& m = measurements[o.run];
    return fmt::format("{} took {} MiB {}, which has only {:.0f} MiB; is the column in MiB?", m.model,
                       text::shortest(*m.memory_mib), shape(o.run), o.slice_mib);
  });
  // Two latencies differ by more than batch, size, processes and slice explain, which is most often seconds beside
  // milliseconds.
  const auto mismatches = learn::mismatches_of(measurements);
  note_first(session, path, lines, mismatches, &learn::Mismatch::run, [&](const learn::Mismatch& m) {
    return fmt::format(
        "{} took {} ms {}, but line {} took {} ms {}: {:.0f} times what the difference in work explains; are both in "
        "milliseconds?",
        measurements[m.run].model, text::shortest(*measurements[m.run].latency_ms), shape(m.run), lines[m.other],
        text::shortest(*measurements[m.other].latency_ms), shape(m.other), m.factor);
  });
}

// Files of --known are checked in the same way: their runs shape the intervals of the new model.
Result<Measurements> load_measurements(Session& session, const std::string& path) {
  TANGRAM_TRY(const auto source, read_source(path));
  std::vector<int> lines;
  auto measurements = formats::parse_measurements(source, &lines);
  if (!measurements) return measurements;
  warn_of_contradictions(session, path, *measurements, lines);
  return measurements;
}

// What is known before the new measurements: the runs of --known, and the features of --features.
Result<learn::Knowledge> load_knowledge(Session& session, const Options& options) {
  Measurements all;
  for (const auto& path : options.known) {
    TANGRAM_TRY(auto measurements, load_measurements(session, path));
    all.insert(all.end(), measurements.begin(), measurements.end());
  }
  learn::Knowledge knowledge = learn::know(all);
  if (!options.features.empty()) {
    TANGRAM_TRY(const auto source, read_source(options.features));
    TANGRAM_TRY(auto features, lab::parse_features(source));
    knowledge.features = std::move(features);
  }
  // After the features are known, because they change the predictions whose errors are learnt here.
  learn::learn_errors(knowledge, all);
  return knowledge;
}

// Everything known about all targets, those of `measurements` included. The report on one target removes that target
// first.
learn::Knowledge all_knowledge(const Measurements& measurements, const learn::Knowledge& elsewhere) {
  learn::Knowledge knowledge = learn::know(measurements);
  knowledge.seen.insert(knowledge.seen.end(), elsewhere.seen.begin(), elsewhere.seen.end());
  knowledge.features = elsewhere.features;
  return knowledge;
}

// Targets are independent and each report predicts every run from the others, so they run on all cores.
std::vector<report::LearnReport> report_all(const learn::Knowledge& knowledge, const learn::FittedModel& model) {
  std::vector<report::LearnReport> reports(model.runs().size());
  run_all(reports.size(), [&](std::size_t i) {
    const auto& run = model.runs()[i];
    reports[i] = report::report_on(run, learn::without(knowledge, learn::Target{run.device, run.model}));
  });
  return reports;
}

// Says which features have no effect, and why. Without this a user who supplies features would believe that they help.
void note_unused_features(Session& session, const Options& options, const learn::Knowledge& knowledge,
                          const learn::FittedModel& model) {
  if (options.features.empty()) return;
  for (const auto& run : model.runs()) {
    const learn::Target target{run.device, run.model};
    if (const auto why = learn::why_features_do_not_help(learn::without(knowledge, target), target)) {
      session.note(fmt::format("{}: does not determine the work of {} on {}: {}", options.features, run.model,
                               run.device, *why));
    }
  }
}

// Reports models whose runs predict each other worse than chance explains. The intervals are wide enough to be right,
// but the measurements deserve a look.
void warn_of_misfits(Session& session, const Options& options, const std::vector<report::LearnReport>& reports) {
  for (const auto& report : reports) {
    // Trees were asked for, but there are too few runs for them.
    if (options.kind == "boosted" && report.members == "analytic") {
      session.note(fmt::format(
          "{}: {} on {}: fewer than {} runs fitted into memory, so the model uses the formula without trees",
          options.measurements, report.model, report.device, learn::kBoostedMin));
    }
    // Below this number of runs a model normally borrows its intervals. If it uses its own, the borrowed ones did not
    // hold.
    const bool widened =
        report.calibration == learn::Calibration::own && report.unseen.size() < learn::kOwnCalibrationMin;
    if (!widened) continue;
    session.note(fmt::format(
        "{}: {} on {}: the median error of predicted runs is {:.0f} %, more than noise explains, so the intervals "
        "were widened; are all latencies in milliseconds and measured in the same way?",
        options.measurements, report.model, report.device, 100 * report.median_error));
  }
}

Result<Nothing> write_outputs(const Options& options, const learn::FittedModel& model,
                              const std::vector<report::LearnReport>& reports) {
  if (!options.to.empty()) {
    TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(options.to, lab::write_model(model)));
  }
  if (!options.html.empty()) return host::write_file_atomically(options.html, report::learn_html(reports));
  return Nothing{};
}

// Adds the device types of --assume to the model, and says what they were taken to be.
Result<report::Json> add_assumed(Session& session, const Options& options, learn::FittedModel& model) {
  report::Json list = report::Json::array();
  for (const auto& text : options.assume) {
    TANGRAM_TRY(const auto assumption, learn::parse_assumption(text));
    TANGRAM_TRY(const auto speeds, learn::assume(assumption, model));
    for (const auto& speed : speeds) {
      const double off = math::exp(math::normal_quantile((1 + options.coverage) / 2) * speed.assumed.deviation);
      session.note(fmt::format("{}: guessed: {:.3g} times as fast as {} ({}; up to {:.1f} times off), for {}",
                               assumption.device, speed.assumed.speed, assumption.from,
                               speed.points == 0 ? "as stated" : fmt::format("by {} measurements", speed.points), off,
                               text::join(speed.models, ", ")));
      list.push_back({{"device", assumption.device},
                      {"from", assumption.from},
                      {"speed", speed.assumed.speed},
                      {"deviation", speed.assumed.deviation},
                      {"points", speed.points},
                      {"models", speed.models}});
    }
  }
  return list;
}

// Every file that is read, so that no output can overwrite one.
std::vector<std::string> inputs_of(const Options& options) {
  std::vector<std::string> inputs = options.known;
  inputs.push_back(options.measurements);
  if (!options.features.empty()) inputs.push_back(options.features);
  return inputs;
}

Result<ExitCode> run(Session& session, const Options& options) {
  if (const auto possible = host::check_outputs({{"-o", options.to}, {"--html", options.html}}, inputs_of(options));
      !possible) {
    return session.fail(possible.error());
  }
  TANGRAM_TRY(const auto measurements, load_measurements(session, options.measurements));
  TANGRAM_TRY(const auto knowledge, load_knowledge(session, options));
  auto model = learn::fit(measurements, knowledge, {.kind = options.kind, .coverage = options.coverage});
  if (!model) {
    return session.fail({model.error().code, fmt::format("{}: {}", options.measurements, model.error().message)});
  }
  // The report predicts a target from all others, so it needs the runs of this file as well as those of --known.
  const auto everything = all_knowledge(measurements, knowledge);
  const auto reports = report_all(everything, *model);
  note_unused_features(session, options, everything, *model);
  warn_of_misfits(session, options, reports);
  auto assumed = add_assumed(session, options, *model);
  if (!assumed) return session.fail(assumed.error());
  TANGRAM_RETURN_IF_ERROR(write_outputs(options, *model, reports));
  if (session.structured()) {
    report::Json json = report::learn_json(reports);
    if (!assumed->empty()) json["assumed"] = std::move(*assumed);
    session.print_value(json);
    return ExitCode::done;
  }
  session.print(report::learn_overview(reports, session.terminal));
  for (const auto& report : reports) session.remark(report::learn_details(report, session.terminal));
  return ExitCode::done;
}

}  // namespace
}  // namespace learn_verb

void add_learn(Program& program) {
  using namespace learn_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "learn",
       .group = "Learn",
       .summary = "fit a latency model to measurements",
       .description =
           "Fits a latency model for each network and device type in MEASUREMENTS; each model also learns from the "
           "others. Reports the error by slice, batch, input size and processes (each run is predicted from all "
           "others), how many runs the intervals cover, and what to measure next. A model with few measurements "
           "takes the width of its intervals from the others, and the report says so.",
       .examples = {{"tangram learn examples/measurements.csv -o model.json", "Fit, report, and save the model."},
                    {"tangram learn DIR/few.csv --known DIR/others.csv -o model.json",
                     "Fit a new network with few runs, using the runs of others."},
                    {"tangram learn examples/measurements.csv --assume h100-80gb=a100-80gb*1.7 -o model.json",
                     "Guess the run times of a GPU type that nobody has measured."},
                    {"tangram learn examples/measurements.csv --html report.html",
                     "Compare measured and predicted times in pictures."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers_files(verb.add_option("MEASUREMENTS", options->measurements, "The measurements, CSV.")->required());
  program.offers_files(
      verb.add_option("-o,--to", options->to, "The file for the model, JSON; default: the model is not saved.")
          ->type_name("FILE"));
  program.offers_files(
      verb.add_option("--html", options->html, "The file for a page with pictures.")->type_name("FILE"));
  program.offers_files(
      verb.add_option("--known", options->known, "Measurements of other models to learn from.")->type_name("FILE"));
  program.offers_files(
      verb.add_option(
              "--features", options->features,
              "Facts about the models, CSV: model, parameters, flops_per_sample, size. They help to estimate the "
              "work of a model with few runs, if the file also has three other models that were measured.")
          ->type_name("FILE"));
  verb.add_option(
          "--assume", options->assume,
          "Guess a GPU type from one that was measured: h100-80gb=a100-80gb*1.7 says that an H100 is 1.7 times as "
          "fast as an A100; h100-80gb=a100-80gb takes the factor from at least four measurements on the H100. "
          "Such run times have wide intervals, and tangram plan is careful with them.")
      ->type_name("TYPE=TYPE*FACTOR");
  program.one_of(verb.add_option("--kind", options->kind, "The kind of model to fit.")->capture_default_str(),
                 kind_names());
  verb.add_option("--coverage", options->coverage, "The share of new runs that an interval should cover.")
      ->type_name("SHARE")
      ->capture_default_str()
      ->range(0.5, 0.999);
}

}  // namespace tangram::cli
