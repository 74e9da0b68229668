// `tangram train`: elastic training of PyTorch scripts.
//
// `rehearse` and `run` need no server: they host the job in this process. What is decided is in train/elastic_job.h,
// what runs in serve/training_host.h. The others ask a server (cli/training_jobs.h).

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/statistics.h"
#include "base/text.h"
#include "cli/program.h"
#include "cli/training_jobs.h"
#include "report/number_text.h"
#include "serve/training_rehearsal.h"

namespace tangram::cli {
namespace train_verb {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string action;
  std::string script;
  std::vector<std::string> arguments;  // Of the script.
  std::string workers;
  std::int64_t every = 50;
  bool repeats = false;
  int kills = 0;
  int stops = 0;
  int logical_workers = 8;
  int threads = 1;
  std::string python;
  std::string checkpoint;
  double checkpoint_every_s = 60;
  std::int64_t seed = 1;
  double limit_s = 3600;
  bool follows = false;
  ServerOptions server;
};

// A folder for the socket and the log of one job, removed at the end.
class JobFolder {
 public:
  static Result<JobFolder> make() {
    std::string name = (fs::temp_directory_path() / "tangram-train-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      return Error{ErrorCode::unavailable, fmt::format("cannot make {}: {}", name, std::strerror(errno))};
    }
    return JobFolder(name);
  }
  ~JobFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  JobFolder(JobFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit JobFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Result<std::vector<int>> parse_workers(const std::string& text, int logical_workers) {
  std::vector<int> workers;
  for (const auto part : text::split(text, ',')) {
    const auto number = text::parse_integer(part);
    if (!number || *number < 1 || *number > logical_workers) {
      return invalid_input(
          fmt::format("--workers {}: expected numbers from 1 to {} (the logical workers), such as "
                      "1,2,4,3,1",
                      text, logical_workers));
    }
    workers.push_back(static_cast<int>(*number));
  }
  return workers;
}

Result<serve::TrainingHostOptions> host_options(const Options& options, const JobFolder& folder) {
  serve::TrainingHostOptions host;
  if (std::error_code error; !fs::is_regular_file(options.script, error)) {
    return Error{ErrorCode::not_found, options.script + ": expected a Python script"};
  }
  TANGRAM_TRY(host.python, serve::find_python_with_torch(options.python));
  TANGRAM_TRY(host.modules, serve::find_training_modules());
  host.script = options.script;
  host.arguments = options.arguments;
  host.logical_workers = options.logical_workers;
  host.threads = options.threads;
  host.folder = folder.path();
  return host;
}

report::Json quantiles(std::vector<double> values) {
  if (values.empty()) return {{"count", 0}, {"p50", nullptr}, {"p99", nullptr}};
  return {{"count", values.size()},
          {"p50", quantile_nearest_rank(values, 0.5)},
          {"p99", quantile_nearest_rank(values, 0.99)}};
}

report::Json value_of(const serve::Rehearsal& rehearsal) {
  const auto& run = rehearsal.elastic;
  return {{"steps", run.steps},
          {"steps_lost", rehearsal.steps_lost()},
          {"digest", run.digest},
          {"reference_digest", rehearsal.reference.digest},
          {"equal", rehearsal.equal()},
          {"leave_ms", quantiles(run.leave_ms)},
          {"join_ms", quantiles(run.join_ms)},
          {"recover_ms", quantiles(run.recover_ms)},
          {"step_ms", quantiles(run.step_ms)},
          {"leave_gap_ms", quantiles(run.leave_gap_ms)},
          {"join_gap_ms", quantiles(run.join_gap_ms)},
          {"steps_repeated", run.steps_repeated},
          {"changes", run.changes},
          {"kills", run.kills},
          {"stops", run.stops},
          {"generations", run.generations},
          {"states_compared", run.states_compared},
          {"states_different", run.states_different},
          {"seconds", run.seconds},
          {"reference_seconds", rehearsal.reference.seconds}};
}

std::string milliseconds_text(const std::vector<double>& values) {
  const auto found = quantiles(values);
  if (values.empty()) return "none";
  return fmt::format("{:.0f} ms in the median, {:.0f} ms at most of 99 % ({} times)", found["p50"].get<double>(),
                     found["p99"].get<double>(), values.size());
}

Result<ExitCode> rehearse(Session& session, const Options& options) {
  TANGRAM_TRY(const auto workers, parse_workers(options.workers, options.logical_workers));
  TANGRAM_TRY(const auto folder, JobFolder::make());
  serve::RehearsalOptions rehearsal;
  TANGRAM_TRY(rehearsal.host, host_options(options, folder));
  rehearsal.workers = workers;
  rehearsal.every = options.every;
  rehearsal.repeats = options.repeats;
  rehearsal.kills = options.kills;
  rehearsal.stops = options.stops;
  rehearsal.seed = static_cast<std::uint64_t>(options.seed);
  rehearsal.limit = from_seconds(options.limit_s);
  if (options.stops > 0) rehearsal.host.job.silent_max = std::chrono::seconds(2);
  TANGRAM_TRY(const auto result,
              serve::rehearse(rehearsal, [&](const std::string& text) { session.remark(text + "\n"); }));
  const auto& run = result.elastic;
  if (session.structured()) {
    session.print_value(value_of(result));
  } else {
    session.print(fmt::format("{} steps, {} lost, {} made again; {} changes, {} kills, {} stops, {} generations\n",
                              run.steps, result.steps_lost(), run.steps_repeated, run.changes, run.kills, run.stops,
                              run.generations));
    session.print(
        fmt::format("leave: {}\njoin: {}\n", milliseconds_text(run.leave_ms), milliseconds_text(run.join_ms)));
    session.print(fmt::format("digest {}, of one trainer {}: {}\n", run.digest, result.reference.digest,
                              result.equal() ? "equal, so its trainers may come and go"
                                             : "DIFFERENT, so the result would depend on who trains"));
  }
  return result.equal() && result.steps_lost() == 0 ? ExitCode::done : ExitCode::answer_is_no;
}

Result<ExitCode> run_script(Session& session, const Options& options) {
  TANGRAM_TRY(const auto workers, parse_workers(options.workers, options.logical_workers));
  TANGRAM_TRY(const auto folder, JobFolder::make());
  serve::RehearsalOptions run;
  TANGRAM_TRY(run.host, host_options(options, folder));
  run.host.show_output = true;
  // The script may change its folder.
  if (!options.checkpoint.empty()) run.host.checkpoint = fs::absolute(options.checkpoint).string();
  run.host.checkpoint_every_s = options.checkpoint_every_s;
  run.workers = {workers.front()};
  run.reference = false;
  run.limit = Duration::max();
  TANGRAM_TRY(const auto result, serve::rehearse(run, [](const std::string&) {}));
  if (session.structured()) {
    session.print_value({{"steps", result.elastic.steps}, {"digest", result.elastic.digest}});
  } else {
    session.remark(fmt::format("{} steps, digest {}\n", result.elastic.steps, result.elastic.digest));
  }
  return ExitCode::done;
}

}  // namespace
}  // namespace train_verb

void add_train(Program& program) {
  using namespace train_verb;
  const auto options = std::make_shared<Options>();
  options->workers = "1,2,4,3,1";
  Arguments& verb = program.add_verb(
      {.name = "train",
       .group = "Train",
       .summary = "train PyTorch scripts on slices that come and go between two steps",
       .description =
           "Runs an ordinary DistributedDataParallel script, unchanged, as an elastic job: its trainers may join, leave or "
           "die, and the result has the same bits for any number of them. `run` runs it here with the first number of "
           "--workers. `rehearse` runs it twice, once with one trainer and once with numbers that change every so many "
           "steps, and compares the results. Needs a Python with PyTorch. What cannot be made elastic is refused with its "
           "line. Exit code 1: the results differ, or steps were lost.\n"
           "`submit`, `list`, `show`, `logs` and `cancel` ask a server that was started with --training: it runs the "
           "job of a YAML file on slices that inference does not need, and takes them back when it does. Any other "
           "command can be such a job, too: it is ended by SIGTERM and started again. Exit code 1: the server refused.",
       .examples = {{"tangram train rehearse examples/training/digits.py --workers 1,2,1 --every 20",
                     "Whether the script may be trained on lent slices."},
                    {"tangram train run examples/training/digits.py --workers 2",
                     "With two trainers. Arguments of the script follow a --."},
                    {"tangram train submit examples/training/job.yaml", "Train on what inference leaves."},
                    {"tangram train list --output json", "How far the jobs are."},
                    {"tangram train logs -f digits", "What a job prints, until it has ended."}}},
      [options](Session& session) -> Result<ExitCode> {
        if (asks_for_training_jobs(options->action)) {
          return ask_for_training_jobs(session, options->server, {options->action, options->script, options->follows});
        }
        if (options->script.empty()) return session.fail({ErrorCode::invalid, options->action + " needs a SCRIPT"});
        return options->action == "run" ? run_script(session, *options) : rehearse(session, *options);
      });
  program.one_of(verb.add_option("ACTION", options->action, "What to do.")->required(),
                 {"run", "rehearse", "submit", "list", "show", "logs", "cancel"});
  program.offers_files(verb.add_option(
      "SCRIPT", options->script,
      "run, rehearse: the script; what follows -- goes to it. submit: the file of the job. Otherwise the "
      "name of the job."));
  program.takes_rest("train", options->arguments);
  verb.add_option("--workers", options->workers, "The number of trainers; for rehearse, one number after another.")
      ->type_name("LIST")
      ->capture_default_str();
  verb.add_option("--every", options->every, "rehearse: the number of steps between two changes.")
      ->type_name("STEPS")
      ->capture_default_str()
      ->range(std::int64_t{1}, std::int64_t{1'000'000'000});
  verb.add_flag("--repeat", options->repeats, "rehearse: begin the list of --workers again when it is done.");
  verb.add_option("--kill", options->kills, "rehearse: how many trainers are killed while they train.")
      ->type_name("N")
      ->capture_default_str()
      ->range(0, 10'000);
  verb.add_option("--stop", options->stops, "rehearse: how many trainers are made to hang while they train.")
      ->type_name("N")
      ->capture_default_str()
      ->range(0, 10'000);
  verb.add_option("--logical-workers", options->logical_workers,
                  "The world size that the script sees. The global batch is its batch size times this number, whoever "
                  "trains.")
      ->type_name("N")
      ->capture_default_str()
      ->range(1, 256);
  verb.add_option("--threads", options->threads, "Threads of each trainer. Another number may change the last bits.")
      ->type_name("N")
      ->capture_default_str()
      ->range(1, 1024);
  program.offers_files(
      verb.add_option("--python", options->python, "The Python interpreter; default: the first that has PyTorch.")
          ->type_name("FILE"));
  program.offers_files(verb.add_option("--checkpoint", options->checkpoint,
                                       "run: the file for the job's state. A job that was killed continues from it.")
                           ->type_name("FILE"));
  verb.add_option("--checkpoint-every-s", options->checkpoint_every_s, "run: seconds from one checkpoint to the next.")
      ->type_name("S")
      ->capture_default_str()
      ->range(0.01, 1e8);
  verb.add_option("--seed", options->seed, "rehearse: chooses who leaves and who is killed.")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--limit-s", options->limit_s, "rehearse: the most seconds that a run may take.")
      ->type_name("S")
      ->capture_default_str()
      ->range(1.0, 1e8);
  verb.add_flag("-f,--follow", options->follows, "logs: go on until the job has ended.");
  add_server_options(program, verb, options->server);
}

}  // namespace tangram::cli
