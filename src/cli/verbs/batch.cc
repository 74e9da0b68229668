// `tangram batch`: runs an offline job, a file of rows, through a served model with the capacity that online traffic
// leaves.
//
// The job itself is in `client/offline_job.h`. This file describes a job from the options, keeps it in a store folder,
// and runs it here or in a detached process. The store is the only state: the detached process receives the job's name
// and how to reach the server, so `resume` after a crash, a reboot or a kill takes the same path as the first run. One
// process at a time runs a job, because run_here() locks the store first.

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/program.h"
#include "cli/server_options.h"
#include "client/offline_input.h"
#include "client/offline_job.h"
#include "client/offline_output.h"
#include "host/files.h"
#include "report/number_text.h"
#include "report/table.h"

extern char** environ;

namespace tangram::cli {
namespace batch_verb {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct Options {
  std::string action;
  std::string job;
  std::string model;
  std::string input;
  std::string output;
  bool overwrite = false;
  std::string format;
  std::string deadline;
  std::string wait = "10m";
  std::string address;
  int http_port = 0;
  std::vector<std::string> headers;
  CallerOptions caller;
  std::size_t under_way_max = 256;
  bool detach = false;
  std::string store;
};

// Parses "2h", "90m", "30s" or "1d". Spans end at 1e8 seconds, about three years, so that an instant computed from one
// cannot overflow. `option` is for the error message.
Result<Duration> parse_span(const std::string& option, const std::string& text) {
  static constexpr std::pair<char, double> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  for (const auto& [unit, seconds] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto number = text::parse_number(std::string_view(text).substr(0, text.size() - 1));
    if (number && *number > 0 && *number * seconds <= 1e8) return from_seconds(*number * seconds);
  }
  return invalid_input(fmt::format("{} {}: expected a time such as 30s, 90m, 2h or 1d", option, text));
}

// The folder of the jobs: --store, or the place that the XDG base directory specification gives to state that must
// survive a reboot. Without $HOME it is below the current folder.
std::string store_folder(const Options& options) {
  if (!options.store.empty()) return options.store;
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && *state != '\0') return (fs::path(state) / "tangram" / "batch").string();
  return (fs::path(home == nullptr ? "." : home) / ".local" / "state" / "tangram" / "batch").string();
}

// ---- The state of a job ----

// The store only knows "open". Whether an open job is running follows from its lock, so a killed job shows as
// "interrupted" without having written that down.
std::string state_text(const client::OfflineJob& job, bool running) {
  if (job.state != client::OfflineState::open) return std::string(client::to_string(job.state));
  return running ? "running" : "interrupted";
}

// The deadline and a forecast: rows left divided by the last rate. Without a rate there is no forecast.
std::string deadline_text(const client::OfflineJob& job) {
  if (job.deadline_ms == 0) return "-";
  // The last update of a finished job is its end.
  if (job.state == client::OfflineState::done) {
    return job.updated_ms <= job.deadline_ms
               ? "kept"
               : "missed by " + report::distance_text((job.updated_ms - job.deadline_ms) * 1ms);
  }
  const Duration left = (job.deadline_ms - client::wall_ms()) * 1ms;
  if (left < Duration::zero()) return "missed";
  const std::string in = "in " + report::distance_text(left);
  if (job.rows_per_s <= 0) return in;
  const bool kept = static_cast<double>(job.left()) / job.rows_per_s <= to_seconds(left);
  return in + (kept ? ", will be kept" : ", will be missed");
}

// Instants are milliseconds since the epoch. Keys that do not apply to the job are left out.
report::Json job_json(const client::OfflineJob& job, bool running) {
  report::Json json{{"id", job.id},
                    {"state", state_text(job, running)},
                    {"model", job.model},
                    {"input", job.input},
                    {"output", job.output},
                    {"rows", job.rows},
                    {"answered", job.answered},
                    {"failed", job.failed},
                    {"left", job.left()},
                    {"rows_per_s", job.rows_per_s},
                    {"submitted_ms", job.submitted_ms},
                    {"updated_ms", job.updated_ms}};
  if (job.deadline_ms != 0) json["deadline_ms"] = job.deadline_ms;
  if (job.failed > 0) json["failed_rows"] = client::failed_path(job.output);
  if (!job.message.empty()) json["message"] = job.message;
  return json;
}

// Lists one job, or all jobs of the store.
Result<ExitCode> status(Session& session, const Options& options) {
  const std::string folder = store_folder(options);
  const auto ids = options.job.empty() ? client::OfflineStore::list(folder) : std::vector<std::string>{options.job};
  report::Table table({{"JOB"},
                       {"STATE"},
                       {"ROWS", report::Align::right},
                       {"DONE", report::Align::right},
                       {"FAILED", report::Align::right},
                       {"ROWS/S", report::Align::right},
                       {"TIME LEFT", report::Align::right},
                       {"DEADLINE"},
                       {"OUTPUT", report::Align::left, true}});
  report::Json all = report::Json::array();
  // Messages do not fit into a table, so they follow it.
  std::string messages;
  for (const auto& id : ids) {
    const auto store = client::OfflineStore::open(folder, id);
    const auto read = store ? store->read() : Result<client::OfflineJob>(store.error());
    if (!read) {
      // A damaged file hides itself, not the other jobs.
      if (!options.job.empty()) return read.error();
      all.push_back({{"id", id}, {"state", "unreadable"}, {"message", read.error().message}});
      messages += fmt::format("{}: {}\n", id, read.error().message);
      table.add({{id, Style::accent}, {"unreadable", Style::bad}, "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    const client::OfflineJob& job = *read;
    const bool running = store->running();
    // The rate of an interrupted job is old, so a time left computed from it would be wrong.
    const bool going = running && job.rows_per_s > 0;
    all.push_back(job_json(job, running));
    if (!job.message.empty()) messages += fmt::format("{}: {}\n", id, job.message);
    table.add({{id, Style::accent},
               state_text(job, running),
               fmt::to_string(job.rows),
               job.rows == 0 ? "100 %"
                             : fmt::format("{:.0f} %", 100.0 * static_cast<double>(job.rows - job.left()) /
                                                           static_cast<double>(job.rows)),
               {fmt::to_string(job.failed), job.failed > 0 ? Style::bad : Style::plain},
               going ? fmt::format("{:.1f}", job.rows_per_s) : "-",
               going ? report::distance_text(from_seconds(static_cast<double>(job.left()) / job.rows_per_s)) : "-",
               deadline_text(job),
               job.output});
  }
  if (session.structured()) {
    // A question about one job is answered by one object, a question about all by a list.
    session.print_value(options.job.empty() ? all : all[0]);
    return ExitCode::done;
  }
  session.print(table.empty() ? "no jobs\n" : table.render(session.terminal) + messages);
  return ExitCode::done;
}

// ---- Running a job ----

// The text before the progress bar.
std::string label_of(const std::string& id, const client::OfflineView& view) {
  std::string label = fmt::format("{}  {:.0f} rows/s", id, view.rows_per_s);
  if (view.failed > 0) label += fmt::format(", {} failed", view.failed);
  if (view.deadline_in && view.needed) {
    label += *view.needed <= *view.deadline_in
                 ? ", in time"
                 : ", too late by " + report::distance_text(*view.needed - *view.deadline_in);
  }
  if (!view.trouble.empty()) label += ", waits: " + view.trouble;
  return label;
}

// Prints the reason of a stall: when it is first known, and again when the reason changes, at most once a minute. A
// server that alternates between two errors would otherwise fill the terminal.
class StallNotes {
 public:
  explicit StallNotes(Session& session) : session_(session) {}

  void look_at(const std::string& id, const client::OfflineView& view) {
    const auto now = std::chrono::steady_clock::now();
    if (!view.stalled || view.trouble == told_ || (!told_.empty() && now - told_at_ < kNoteEvery)) return;
    told_ = view.trouble;
    told_at_ = now;
    if (session_.err_terminal.interactive) session_.err << "\r\x1b[K";  // Clears the bar; it is drawn again below.
    session_.note(fmt::format("{}: no row makes progress: {}", id, view.trouble));
    session_.err.flush();
  }

 private:
  static constexpr auto kNoteEvery = 60s;

  Session& session_;
  std::string told_;
  std::chrono::steady_clock::time_point told_at_;
};

// Prints how the job ended. A job with failed rows or a missed deadline ends with `answer_is_no`: its output exists,
// but not all of what was asked for.
Result<ExitCode> conclude(Session& session, const client::OfflineStore& store, client::OfflineEnd end) {
  TANGRAM_TRY(const auto job, store.read());
  if (end == client::OfflineEnd::interrupted) {
    session.note(
        fmt::format("{} rows are done; `tangram batch resume {}` continues the job", job.rows - job.left(), job.id));
    return ExitCode::interrupted;
  }
  if (end == client::OfflineEnd::cancelled) {
    session.note(fmt::format("{}: cancelled; {} of {} rows were done", job.id, job.rows - job.left(), job.rows));
    return ExitCode::answer_is_no;
  }
  if (session.structured()) session.print_value(job_json(job, false));
  session.remark(fmt::format("{}: {} rows answered in {}\n", job.output, job.answered,
                             report::distance_text((job.updated_ms - job.submitted_ms) * 1ms)));
  const bool late = job.deadline_ms != 0 && job.updated_ms > job.deadline_ms;
  if (job.failed > 0)
    session.warn(fmt::format("{}: {} rows have no answer", client::failed_path(job.output), job.failed));
  if (late) session.warn(fmt::format("the deadline was {}", deadline_text(job)));
  return job.failed > 0 || late ? ExitCode::answer_is_no : ExitCode::done;
}

// Reads the key and the TLS material into `config`.
Result<Nothing> identify(const CallerOptions& caller, client::OfflineRunConfig& config) {
  TANGRAM_TRY(auto key, caller.key());
  config.key = std::move(key);
  config.server_name = caller.server_name;
  TANGRAM_TRY(auto context, caller.tls_context());
  config.tls = std::move(context);
  return Nothing{};
}

// Runs the job in this process until it ends, fails or is interrupted. `patience` is how long a server that does not
// answer is waited for.
Result<ExitCode> run_here(Session& session, client::OfflineStore& store, const Options& options, Duration patience) {
  // Lock first, then read: what another process wrote before it released the lock must be in `job`.
  TANGRAM_RETURN_IF_ERROR(store.lock());
  TANGRAM_TRY(const auto job, store.read());
  const InterruptGuard guard;
  // The bar covers the rows of this run only. With rows of earlier runs its estimate of the time left would be too
  // short.
  const std::uint64_t before = job.rows - job.left();
  Progress progress = session.progress(job.id, job.left());
  client::OfflineRunConfig config;
  config.headers = options.headers;
  TANGRAM_RETURN_IF_ERROR(identify(options.caller, config));
  config.under_way_max = options.under_way_max;
  config.patience = patience;
  config.interrupted = [&] { return guard.interrupted(); };
  StallNotes stalls(session);
  config.progress = [&](const client::OfflineView& view) {
    progress.label(label_of(job.id, view));
    progress.set(view.answered + view.failed - before);
    stalls.look_at(job.id, view);
  };
  const auto end = client::run_offline_job(store, config);
  progress.finish();
  if (!end) {
    const ExitCode code = session.fail(end.error());
    // An invalid input stays invalid for this job: the job is bound to the digest of its input, and a corrected file
    // has another digest. Any other error may go away, so resuming makes sense.
    session.note(end.error().code == ErrorCode::invalid
                     ? fmt::format("correct it and submit the job again; {} cannot continue", job.id)
                     : fmt::format("finished rows are kept; `tangram batch resume {}` continues the job", job.id));
    return code;
  }
  return conclude(session, store, *end);
}

// Runs the job in a new process without a terminal: `tangram batch resume ID` with the same connection options. The
// child needs its own session (setsid), or closing the terminal would send it SIGHUP.
ExitCode run_apart(Session& session, const client::OfflineStore& store, const Options& options) {
  // Paths become absolute, because the child resolves them by itself. The key is passed as the path of its file and
  // never as an argument, which every user of the machine can read in /proc.
  std::vector<std::string> words{"tangram",
                                 "batch",
                                 "resume",
                                 store.id(),
                                 "--quiet",
                                 "--store",
                                 fs::absolute(store_folder(options)).string(),
                                 "--wait",
                                 options.wait,
                                 "--under-way",
                                 fmt::to_string(options.under_way_max)};
  for (const auto& header : options.headers) words.insert(words.end(), {"--header", header});
  const CallerOptions& caller = options.caller;
  const std::pair<const char*, const std::string*> files[] = {{"--token-file", &caller.token_file},
                                                              {"--ca", &caller.authorities},
                                                              {"--certificate", &caller.certificate},
                                                              {"--certificate-key", &caller.certificate_key}};
  for (const auto& [name, path] : files) {
    if (!path->empty()) words.insert(words.end(), {name, fs::absolute(*path).string()});
  }
  if (!caller.server_name.empty()) words.insert(words.end(), {"--server-name", caller.server_name});
  if (caller.tls) words.emplace_back("--tls");
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // Output and errors share one log, in the order in which they were written.
  const std::string log = store.log_path();
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_addopen(&streams, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&streams, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&streams, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t child = 0;
  // /proc/self/exe is this very program, also when `tangram` in $PATH is another version or was replaced.
  const int failed = posix_spawn(&child, "/proc/self/exe", &streams, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&streams);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0)
    return session.fail({ErrorCode::unavailable, fmt::format("cannot start the job: {}", std::strerror(failed))});
  session.remark(
      fmt::format("the job runs in the background; `tangram batch status {}` shows its progress\n", store.id()));
  return ExitCode::done;
}

// ---- The actions ----

// The file that --output names, with symbolic links resolved. Anything but a regular file is an error: the output
// appears by renaming a finished file, which would replace a device or a pipe instead of writing to it.
Result<std::string> output_file(const Options& options) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(fs::absolute(options.output), error);
  if (error) return Error{ErrorCode::unavailable, fmt::format("{}: {}", options.output, error.message())};
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    return invalid_input(fmt::format(
        "--output {}: is not a regular file; the answers are written to a temporary file beside it, which is then "
        "renamed",
        options.output));
  }
  // Answers may have taken hours: they are replaced only if that is said.
  if (!options.overwrite && fs::exists(path, error) && fs::file_size(path, error) > 0) {
    return invalid_input(
        fmt::format("--output {}: the file exists; --overwrite replaces it when the job is done", options.output));
  }
  // Two jobs with one output would each replace the other's answers at their end, hours after the mistake.
  for (const auto& id : client::OfflineStore::list(store_folder(options))) {
    const auto store = client::OfflineStore::open(store_folder(options), id);
    // An unreadable job of the store is no reason to refuse this one.
    if (!store) continue;
    const auto job = store->read();
    if (job && store->running() && job->output == path) {
      return invalid_input(fmt::format("--output {}: the running job {} writes this file", options.output, id));
    }
  }
  return path.string();
}

// Describes a new job from the options. Reads the whole input once, to count its rows, check them and take its digest.
Result<client::OfflineJob> describe(const Options& options) {
  if (options.model.empty() || options.input.empty() || options.output.empty()) {
    return invalid_input("submit needs --model NAME, --input FILE and --output FILE");
  }
  if (!options.job.empty())
    return invalid_input(fmt::format("{}: submit takes no job name; it chooses one", options.job));
  const auto format = client::parse_row_format(options.format.empty() ? options.input : options.format);
  if (!format)
    return invalid_input(
        fmt::format("{}: cannot tell the format from the file name; give --format jsonl or csv", options.input));
  // Rows are read again after a resume, which a pipe cannot do.
  std::error_code error;
  if (fs::exists(options.input, error) && !fs::is_regular_file(options.input, error)) {
    return invalid_input(
        fmt::format("--input {}: is not a regular file; its rows are read more than once", options.input));
  }
  TANGRAM_RETURN_IF_ERROR(host::check_outputs({{"--output", options.output}}, {options.input}));
  TANGRAM_TRY(const auto output, output_file(options));
  client::OfflineJob job;
  job.model = options.model;
  job.input = fs::absolute(options.input).string();
  job.output = output;
  job.format = *format;
  if (!options.address.empty()) job.address = options.address;
  if (options.http_port != 0) job.port = static_cast<std::uint16_t>(options.http_port);
  job.submitted_ms = client::wall_ms();
  if (!options.deadline.empty()) {
    TANGRAM_TRY(const auto span, parse_span("--deadline", options.deadline));
    job.deadline_ms = job.submitted_ms + span / 1ms;
  }
  // Size and digest detect an input that changes between two runs: its rows would no longer match the answers.
  TANGRAM_TRY(const auto facts, client::scan_input(job.input, job.format));
  job.rows = facts.rows;
  job.input_bytes = facts.bytes;
  job.input_digest = facts.digest;
  return job;
}

// Parse --wait first: a job with a wrong option must not be created.
Result<ExitCode> submit(Session& session, const Options& options) {
  TANGRAM_TRY(const auto patience, parse_span("--wait", options.wait));
  TANGRAM_TRY(auto job, describe(options));
  TANGRAM_TRY(auto store, client::OfflineStore::create(store_folder(options), job));
  session.remark(fmt::format("{}: {} rows\n", store.id(), job.rows));
  session.out.flush();  // The user needs the name to resume after a kill.
  return options.detach ? run_apart(session, store, options) : run_here(session, store, options, patience);
}

// Continues a job that no process runs. A cancelled job becomes open again. The server may have moved, so --address and
// --http-port replace the stored ones.
Result<ExitCode> resume(Session& session, const Options& options) {
  TANGRAM_TRY(const auto patience, parse_span("--wait", options.wait));
  TANGRAM_TRY(auto store, client::OfflineStore::open(store_folder(options), options.job));
  TANGRAM_TRY(const auto job, store.read());
  // Checked here as well as by lock(), because a detached child could only report it in its log.
  if (store.running()) {
    return session.fail({ErrorCode::unavailable, fmt::format("{}: another process runs this job", options.job)});
  }
  if (job.state == client::OfflineState::cancelled) {
    if (auto opened = store.change_state(client::OfflineState::cancelled, client::OfflineState::open); !opened)
      return session.fail(opened.error());
  }
  if (!options.address.empty() || options.http_port != 0) {
    const auto port = options.http_port != 0 ? static_cast<std::uint16_t>(options.http_port) : job.port;
    TANGRAM_RETURN_IF_ERROR(store.set_server(options.address.empty() ? job.address : options.address, port));
  }
  return options.detach ? run_apart(session, store, options) : run_here(session, store, options, patience);
}

// Cancels an open job. A running process notices the new state and ends; nothing is killed.
Result<ExitCode> cancel(Session& session, const Options& options) {
  TANGRAM_TRY(auto store, client::OfflineStore::open(store_folder(options), options.job));
  TANGRAM_TRY(const auto changed, store.change_state(client::OfflineState::open, client::OfflineState::cancelled));
  // The change is a compare-and-swap: the job may have ended in the meantime, and a finished job stays finished.
  if (!changed) {
    TANGRAM_TRY(const auto job, store.read());
    session.note(fmt::format("{}: the job is already {}", options.job, client::to_string(job.state)));
    return ExitCode::answer_is_no;
  }
  session.remark(fmt::format("{}: cancelled\n", options.job));
  return ExitCode::done;
}

// For `submit`, --output is a file. The other actions write none, so there it selects the output format as it does for
// every other verb.
void choose_form(Session& session, const Options& options) {
  if (options.action == "submit") return;
  if (options.output == "json") session.format = OutputFormat::json;
  if (options.output == "yaml") session.format = OutputFormat::yaml;
}

// `submit` names the job itself and `status` can list all; the other actions need a name.
Result<ExitCode> run(Session& session, const Options& options) {
  choose_form(session, options);
  if (options.action == "submit") return submit(session, options);
  if (options.action == "status") return status(session, options);
  if (options.job.empty())
    return session.fail(
        invalid_input(fmt::format("expected the name of the job: tangram batch {} JOB", options.action)));
  return options.action == "cancel" ? cancel(session, options) : resume(session, options);
}

void add_options(Program& program, Arguments& verb, Options& options) {
  program.one_of(verb.add_option("ACTION", options.action, "submit, status, cancel or resume.")->required(),
                 {"submit", "status", "cancel", "resume"});
  verb.add_option("JOB", options.job,
                  "The name of the job, as submit prints it. Without a name, status lists all jobs.");
  verb.add_option("--model", options.model, "submit: the served model to use.")->type_name("NAME");
  program.offers_files(verb.add_option("--input", options.input, "submit: the file of rows.")->type_name("FILE"));
  program.offers_files(verb.add_option("--output", options.output,
                                       "submit: the file for the answers. Other actions: table, json or yaml.")
                           ->type_name("FILE"));
  program.one_of(
      verb.add_option("--format", options.format, "submit: the format of the input, if its name does not show it.")
          ->type_name("F"),
      {"jsonl", "csv"});
  verb.add_option("--deadline", options.deadline,
                  "submit: the time from now by which all rows should be done: 30m, 2h, 1d.")
      ->type_name("TIME");
  verb.add_flag("--overwrite", options.overwrite, "With submit: replace the file of --output if it exists.");
  verb.add_option("--address", options.address, "The server: a name or an IP address; default 127.0.0.1.")
      ->type_name("HOST");
  program.whole_number(
      verb.add_option("--http-port", options.http_port, "The HTTP port of the server; default 8000.")->type_name("N"),
      1, 65535);
  verb.add_option("--header", options.headers, "A header to send with every request, \"Name: value\". May be repeated.")
      ->type_name("TEXT");
  add_caller_options(program, verb, options.caller);
  verb.add_option("--under-way", options.under_way_max, "The largest number of rows sent and not yet answered.")
      ->type_name("N")
      ->capture_default_str()
      ->range(1, 16'384);
  verb.add_option("--wait", options.wait, "How long to wait for a server that does not answer.")
      ->type_name("TIME")
      ->capture_default_str();
  verb.add_flag("--detach", options.detach, "Run in the background, detached from this terminal.");
  program.offers_files(verb.add_option("--store", options.store,
                                       "The folder that holds the jobs; default $XDG_STATE_HOME/tangram/batch.")
                           ->type_name("DIR"));
}

}  // namespace
}  // namespace batch_verb

void add_batch(Program& program) {
  using namespace batch_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "batch",
       .group = "Serve",
       .summary = "run a file of rows through a served model, in idle time",
       .description =
           "Sends every row of a JSONL or CSV file to a running server and writes the answers in the same order. "
           "Rows run in the background: `tangram serve` starts one only if that makes no online request late. Each "
           "answer is saved as it arrives, so the job can be killed at any time and resumed; every row is answered "
           "exactly once. Rows that failed are listed in OUTPUT.failed.jsonl. Exit code 1: some rows have no answer, "
           "the deadline was missed, or the job was cancelled.",
       .examples =
           {{"tangram batch submit --model rank-answers --input examples/serving/rows.jsonl --output DIR/answers.jsonl",
             "Rows such as {\"input_ids\": [17, 4, 9]}."},
            {"tangram batch submit --model rank-answers --input DIR/rows.csv --output DIR/answers.jsonl --deadline 2h "
             "--detach",
             "In the background, to be done within two hours."},
            {"tangram batch status", "List all jobs, and whether they will meet their deadlines."},
            {"tangram batch resume rank-answers-1", "Continue after a kill, a crash or a reboot."}},
       .output_is_file = true},
      [options](Session& session) { return run(session, *options); });
  add_options(program, verb, *options);
}

}  // namespace tangram::cli
