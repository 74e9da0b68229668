// `tangram reproduce`: reproduces published results from public data.
//
// The results are computed in the room `experiments`, which opens no files and prints nothing. This file reads the
// public data, passes it on as values, and prints the answer. A file that cannot be read is passed on as an error
// value, because only the experiment knows whether it needs that file. A new result is one function and one row of
// kPublished.

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <optional>

#include "cli/build_info.h"
#include "cli/inputs.h"
#include "cli/parallel.h"
#include "cli/program.h"
#include "experiments/reproduce.h"
#include "host/files.h"

namespace tangram::cli {
namespace reproduce_verb {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string result;
  std::string data = "../shared/data";
  bool full = false;
  bool quick = false;
  std::string report;
  std::optional<int> seeds;
};

// Runs the parts of an experiment on all cores, with a bar on standard error, and prints its messages through the
// session.
class SessionRunner final : public experiments::Runner {
 public:
  explicit SessionRunner(Session& session) : session_(session) {}

  void run_all(std::string_view activity, std::size_t count, const std::function<void(std::size_t)>& run) override {
    // Work without the name of an activity gets no bar.
    if (activity.empty()) return cli::run_all(count, run);
    // Parts end on several threads, but only the calling thread draws the bar, at each tick.
    std::atomic<std::uint64_t> done = 0;
    Progress progress = session_.progress(std::string(activity), count);
    cli::run_all(
        count,
        [&](std::size_t i) {
          run(i);
          ++done;
        },
        [&] { progress.set(done); });
  }
  void note(std::string_view line) override { session_.note(line); }
  void warn(std::string_view line) override { session_.warn(line); }

 private:
  Session& session_;
};

std::string path_in(const std::string& data, const std::string& file) { return (fs::path(data) / file).string(); }

// Adds a hint to an error: a missing file is most often a wrong --data. `holds` says what the right folder contains.
Error with_hint(const Error& error, const std::string& holds) {
  return {error.code, error.message + "\n--data names the folder that contains " + holds};
}

// One file of the data folder. `holds` is for the hint where an experiment needs several folders.
experiments::File read_data(const std::string& data, const std::string& file, const std::string& holds) {
  auto source = read_source(path_in(data, file));
  if (!source) return with_hint(source.error(), holds);
  return source;
}
experiments::File read_data(const std::string& data, const std::string& file) { return read_data(data, file, file); }

// Every .csv file in the folder and below, sorted by path: the order of a directory differs between file systems, and
// results must not depend on it.
Result<std::vector<formats::Source>> read_csv_files(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code bad;
  for (fs::recursive_directory_iterator entry(folder, bad), end; !bad && entry != end; entry.increment(bad)) {
    if (entry->is_regular_file() && entry->path().extension() == ".csv") paths.push_back(entry->path().string());
  }
  // An empty folder gets the same hint as a missing one: most often --data is wrong.
  if (bad || paths.empty()) {
    const std::string reason = bad ? "cannot read: " + bad.message() : "has no .csv file";
    return with_hint({ErrorCode::not_found, folder.string() + ": " + reason},
                     "pollux/traces, pollux/workloads and deepboot");
  }
  std::ranges::sort(paths);
  std::vector<formats::Source> sources;
  for (const auto& path : paths) {
    TANGRAM_TRY(auto source, read_source(path));
    sources.push_back(std::move(source));
  }
  return sources;
}

experiments::Folder read_folder(const std::string& data, const std::string& folder) {
  const fs::path path = fs::path(data) / folder;
  return {path.string(), read_csv_files(path)};
}

// One function for each result: it names the files of the data set, and passes on the options that the experiment
// knows.
using Answered = Result<experiments::Answer>;

Answered paris_elsa(const Options& options, experiments::Runner& runner) {
  return reproduce_paris_elsa({.profiles = read_data(options.data, "parvagpu/profiles.csv"),
                               .full = options.full,
                               .seeds = options.seeds.value_or(3),
                               .commit = build_info().commit},
                              runner);
}

Answered parvagpu(const Options& options, experiments::Runner& runner) {
  return reproduce_parvagpu({.profiles = read_data(options.data, "parvagpu/profiles.csv"),
                             .scenarios = read_data(options.data, "parvagpu/scenarios.csv")},
                            runner);
}

// The lengths are optional, so an error in reading them gets no hint about --data.
Answered elastic_batch(const Options& options, experiments::Runner& runner) {
  return reproduce_elastic_batch({.profiles = read_data(options.data, "migprofiler/profiles.csv"),
                                  .lengths = read_source(path_in(options.data, "text_lengths/length_histograms.csv")),
                                  .quick = options.quick},
                                 runner);
}

// Each data set may be missing: the experiment runs on those that were found. Zero seeds means the default of the
// experiment.
Answered few_shot(const Options& options, experiments::Runner& runner) {
  experiments::FewShotInput input{
      .folder = options.data,
      .hint = "--data names the folder that contains parvagpu/profiles.csv and migprofiler/profiles.csv",
      .datasets = {},
      .full = options.full,
      .seeds = options.seeds.value_or(0)};
  // The name of the folder is also the name of the import format.
  for (const std::string format : {"parvagpu", "migprofiler"}) {
    const std::string path = path_in(options.data, format + "/profiles.csv");
    input.datasets.push_back({format, path, read_source(path)});
  }
  return reproduce_few_shot(input, runner);
}

Answered pollux(const Options& options, experiments::Runner& runner) {
  return reproduce_pollux({.traces = read_folder(options.data, "pollux/traces"),
                           .workloads = read_folder(options.data, "pollux/workloads"),
                           .full = options.full,
                           .quick = options.quick},
                          runner);
}

Answered deepboot(const Options& options, experiments::Runner& runner) {
  return reproduce_deepboot({.traces = read_folder(options.data, "pollux/traces"),
                             .workloads = read_folder(options.data, "deepboot"),
                             .full = options.full,
                             .quick = options.quick,
                             .seeds = options.seeds.value_or(0),
                             .page = !options.report.empty()},
                            runner);
}

// The three files come from two folders, and the hint names both at once.
Answered slices(const Options& options, experiments::Runner& runner) {
  constexpr const char* kHolds = "parvagpu/ and miso/";
  return reproduce_slices({.profiles = read_data(options.data, "parvagpu/profiles.csv", kHolds),
                           .iterations = read_data(options.data, "miso/train_iteration_time.csv", kHolds),
                           .scenarios = read_data(options.data, "parvagpu/scenarios.csv", kHolds),
                           .full = options.full,
                           .quick = options.quick},
                          runner);
}

// One published result, and the options that it understands besides --data and --full.
struct Published {
  const char* name;
  Answered (*run)(const Options& options, experiments::Runner& runner);
  bool seeds = false;
  bool quick = false;
  bool report = false;
};
constexpr std::array kPublished{
    Published{.name = "paris-elsa", .run = paris_elsa, .seeds = true},
    Published{.name = "parvagpu", .run = parvagpu},
    Published{.name = "elastic-batch", .run = elastic_batch, .quick = true},
    Published{.name = "few-shot", .run = few_shot, .seeds = true},
    Published{.name = "pollux", .run = pollux, .quick = true},
    Published{.name = "deepboot", .run = deepboot, .seeds = true, .quick = true, .report = true},
    Published{.name = "slices", .run = slices, .quick = true},
};

// An option that this result does not understand is an error: the user would otherwise believe that, say, --quick had
// an effect.
Result<Nothing> check_options(const Published& published, const Options& options) {
  const auto does_nothing = [&](const std::string& option, const std::string& for_these) {
    return Error{ErrorCode::invalid, option + " has no effect on " + options.result + "; it applies to " + for_these};
  };
  if (options.seeds && !published.seeds) return does_nothing("--seeds", "paris-elsa, few-shot and deepboot");
  if (options.quick && !published.quick) return does_nothing("--quick", "pollux, deepboot, slices and elastic-batch");
  if (!options.report.empty() && !published.report) return does_nothing("--report", "deepboot");
  return Nothing{};
}

// Sections are printed in order; tables are rendered here because only the session knows the width of the terminal.
void print(Session& session, const experiments::Answer& answer) {
  if (session.structured()) return session.print_value(answer.json);
  for (const auto& section : answer.sections) {
    session.print(section.text);
    if (section.table) session.print(section.table->render(session.terminal));
  }
}

Result<ExitCode> run(Session& session, const Options& options) {
  // Always found: RESULT was checked against names() when it was parsed.
  const auto& published = *std::ranges::find(kPublished, options.result, &Published::name);
  TANGRAM_RETURN_IF_ERROR(check_options(published, options));
  SessionRunner runner(session);
  TANGRAM_TRY(const auto answer, published.run(options, runner));
  if (!options.report.empty()) {
    TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(options.report, answer.page));
  }
  print(session, answer);
  // `found` is false if the data is fine but the experiment has no result on it. That is an answer and not an error.
  return answer.found ? ExitCode::done : ExitCode::answer_is_no;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& published : kPublished) all.emplace_back(published.name);
  return all;
}

constexpr const char* kDescription =
    "paris-elsa: on the ParvaGPU profiles, the highest rate that keeps the p95 within the promise, for every way "
    "of cutting a budget of compute slices (homogeneous, random, PARIS) and the policies fifs, elsa and tangram. "
    "Every arrival counts, and a rejected query counts as never answered; the p99, or strictly the p99.9, must stay "
    "within three times the promise and the queue must not grow; 0 means infeasible. Rates are means over three seeds. "
    "REFERENCE compares with figures of an independent simulator. With --full, 600,000 queries a run instead of "
    "20,000, also with queries merged into batches, and queries of single samples. few-shot: on the ParvaGPU and "
    "MIGProfiler tables, how well a few measurements of a model predict the rest, as measure, learn and predict do it, "
    "for four ways to choose them, also with the whole family of the model unknown; with --full over 20 seeds. "
    "parvagpu: devices for its scenarios by its own planner, by exact search with a proof, and with every promise "
    "simulated. "
    "elastic-batch: GPUs for text models with and without slices and buckets. pollux: mean completion times of "
    "training jobs on 16 nodes of 4 GPUs; with --full also other intervals, and jobs that slow each other down. "
    "deepboot: training on GPUs that inference lends and takes back, on the published workloads and on heavier "
    "loads; with --full also each policy over its own parameter, and what each part of ours is worth. slices: training "
    "on slices that services do not need for now and on space that no service was given, over a day, against lending "
    "whole GPUs; with --full also against plans for every hour.";

std::vector<Example> examples() {
  return {{"tangram reproduce paris-elsa --data DIR", "Print the table."},
          {"tangram reproduce paris-elsa --data DIR --output json", "Print the same for programs."},
          {"tangram reproduce few-shot --data DIR", "Errors, intervals and regret of learned models."},
          {"tangram reproduce parvagpu --data DIR", "The fewest GPUs for the published scenarios."},
          {"tangram reproduce elastic-batch --data DIR", "What slices and buckets save."},
          {"tangram reproduce pollux --data DIR", "Training alone: Pollux, Optimus, Tiresias and Tangram."},
          {"tangram reproduce deepboot --data DIR --full --report sharing.html",
           "Training beside inference, with a page of pictures."},
          {"tangram reproduce paris-elsa --data DIR --full", "With long runs and dynamic batching; takes an hour."}};
}

}  // namespace
}  // namespace reproduce_verb

void add_reproduce(Program& program) {
  using namespace reproduce_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb({.name = "reproduce",
                                      .group = "Simulate",
                                      .summary = "compute published results again from public data",
                                      .description = kDescription,
                                      .examples = examples()},
                                     [options](Session& session) { return run(session, *options); });
  program.one_of(verb.add_option("RESULT", options->result, "The result to reproduce.")->required(), names());
  program.offers_files(verb.add_option("--data", options->data, "The folder that contains the public data.")
                           ->type_name("DIR")
                           ->capture_default_str());
  verb.add_flag("--full", options->full, "Also run the sweeps that take longer.");
  verb.add_flag(
      "--quick", options->quick,
      "pollux and deepboot: only the smallest workload, with a short search; slices: only the first scenario; "
      "elastic-batch: only one rate.");
  program.offers_files(
      verb.add_option("--report", options->report, "deepboot: the file for a page with pictures.")->type_name("FILE"));
  verb.add_option("--seeds", options->seeds,
                  "paris-elsa, few-shot and deepboot: the number of seeds; JSON then lists each.")
      ->type_name("N")
      ->range(1, 1000);
}

}  // namespace tangram::cli
