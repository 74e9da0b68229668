// `tangram slurm`: runs the slices of a plan as tasks of Slurm, and keeps them alive.
//
// Everything goes through Slurm's own programs as the user who calls. The tasks run `tangram node`, which dials the
// gateway, so no task needs an open port.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>

#include "adapters/slurm/slurm_cli.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/plan_inputs.h"
#include "cli/program.h"
#include "cli/server_options.h"
#include "report/number_text.h"
#include "report/table.h"

namespace tangram::cli {
namespace slurm_verb {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string action;
  std::string plan;
  std::vector<std::string> boards;
  std::string join;
  std::string token_file;
  std::string models;
  std::string program;
  std::string logs;
  std::string gateway;
  CallerOptions caller;
  double lead_s = 600;
  double warning_s = 120;
  double call_every_s = 10;
  std::vector<std::string> command;  // Behind --.
  adapters::SlurmJob job;
};

// SIGTERM and SIGINT end a keeper in an orderly way.
volatile std::sig_atomic_t asked_to_stop = 0;
void on_stop(int) { asked_to_stop = 1; }

Error wrong(std::string message) { return {ErrorCode::invalid, std::move(message)}; }

Result<std::map<std::string, std::string>> boards_of(const Options& options) {
  std::map<std::string, std::string> boards;
  for (const auto& text : options.boards) {
    const auto equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || !adapters::is_slurm_name(text.substr(equals + 1))) {
      return wrong(fmt::format("--board: expected TYPE=NAME with the name as slurmd -G prints it, found \"{}\"", text));
    }
    boards[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return boards;
}

Result<std::vector<adapters::SlurmKind>> kinds_of(const Options& options) {
  if (options.plan.empty()) return wrong(fmt::format("expected a plan: tangram slurm {} PLAN", options.action));
  TANGRAM_TRY(const auto plan, load_plan(options.plan));
  TANGRAM_TRY(const auto boards, boards_of(options));
  auto kinds = adapters::slurm_kinds(plan, boards);
  if (!kinds) return wrong(options.plan + ": " + kinds.error().message);
  return kinds;
}

// What a task runs. Paths must be the same on all nodes, so they are made absolute here.
Result<adapters::SlurmJob> job_of(const Options& options, bool submits) {
  adapters::SlurmJob job = options.job;
  if (!adapters::is_slurm_name(job.name)) {
    return wrong(fmt::format("--name {}: expected letters, digits, dots and dashes, at most 64", job.name));
  }
  if (!submits) return job;
  for (const auto& option : job.sbatch) {
    if (!option.starts_with("-")) return wrong(fmt::format("--sbatch {}: expected an option of sbatch", option));
  }
  job.warning = from_seconds(options.warning_s);
  if (!options.logs.empty()) job.log_folder = fs::absolute(options.logs).lexically_normal().string();
  if (!options.command.empty()) {
    job.command = options.command;
    return job;
  }
  if (options.join.empty()) return wrong("expected --join HOST:PORT, the gateway's node port");
  const auto colon = options.join.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == options.join.size()) {
    return wrong(fmt::format("--join {}: expected HOST:PORT", options.join));
  }
  std::string program = options.program;
  if (program.empty()) {
    std::error_code error;
    program = fs::read_symlink("/proc/self/exe", error).string();
  }
  for (const auto word : text::split(program, ' ')) {
    if (!word.empty()) job.command.emplace_back(word);
  }
  for (const auto* word : {"node", "--join"}) job.command.emplace_back(word);
  job.command.push_back(options.join);
  for (const auto* word : {"--name", "{name}"}) job.command.emplace_back(word);
  const auto add_path = [&](const char* option, const std::string& path) {
    if (path.empty()) return;
    job.command.emplace_back(option);
    job.command.push_back(fs::absolute(path).lexically_normal().string());
  };
  add_path("--token-file", options.token_file);
  add_path("--models", options.models);
  return job;
}

// "7:59:30"
std::string clock_text(Duration d) {
  const auto s = d / std::chrono::seconds(1);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

const char* state_text(adapters::SlurmState state) {
  switch (state) {
    case adapters::SlurmState::pending: return "pending";
    case adapters::SlurmState::running: return "running";
    case adapters::SlurmState::ending: return "ending";
  }
  return "";
}

Result<ExitCode> up(Session& session, const Options& options) {
  TANGRAM_TRY(const auto kinds, kinds_of(options));
  TANGRAM_TRY(const auto job, job_of(options, true));
  // A second `up` would double the tasks.
  TANGRAM_TRY(const auto before, adapters::slurm_queue(job));
  if (!before.empty()) {
    return session.fail(wrong(fmt::format(
        "{} tasks of \"{}\" are in the queue already; `tangram slurm keep` adds what is missing, `tangram slurm down` "
        "cancels them, and --name chooses another deployment",
        before.size(), job.name)));
  }
  report::Json submitted = report::Json::array();
  for (const auto& kind : kinds) {
    for (int left = kind.wanted; left > 0; left -= adapters::kSlurmTasksPerJobMax) {
      const int count = std::min(left, adapters::kSlurmTasksPerJobMax);
      const auto number = adapters::slurm_submit(job, kind, count, {});
      if (!number) {
        return session.fail({number.error().code, fmt::format("{} x {}: {}{}", count, kind.name, number.error().message,
                                                              submitted.empty() ? "" : "\nwhat was submitted before stays; tangram slurm down cancels it")});
      }
      submitted.push_back({{"job", *number}, {"kind", kind.name}, {"tasks", count}});
      if (!session.structured()) session.print(fmt::format("submitted {} x {} as job {}\n", count, kind.name, *number));
    }
  }
  if (session.structured()) session.print_value({{"name", job.name}, {"submitted", submitted}});
  session.remark("`tangram slurm keep` with the same options replaces tasks that end\n");
  return ExitCode::done;
}

Result<ExitCode> down(Session& session, const Options& options) {
  TANGRAM_TRY(const auto job, job_of(options, false));
  TANGRAM_TRY(const auto tasks, adapters::slurm_queue(job));
  std::vector<std::string> ids;
  for (const auto& task : tasks) {
    if (task.state != adapters::SlurmState::ending) ids.push_back(task.id);
  }
  // A thousand at a time, so that the arguments stay within the kernel's limit.
  constexpr std::size_t kAtOnce = 1000;
  for (std::size_t i = 0; i < ids.size(); i += kAtOnce) {
    const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), i + kAtOnce));
    TANGRAM_RETURN_IF_ERROR(adapters::slurm_cancel({ids.begin() + static_cast<std::ptrdiff_t>(i), end}));
  }
  if (session.structured()) {
    session.print_value({{"name", job.name}, {"cancelled", ids}});
  } else {
    session.print(ids.empty() ? fmt::format("no task of \"{}\" is in the queue\n", job.name)
                              : fmt::format("cancelled {} task{}\n", ids.size(), ids.size() == 1 ? "" : "s"));
  }
  return ExitCode::done;
}

report::Json task_json(const adapters::SlurmTask& task) {
  report::Json value{{"task", task.id}, {"kind", task.kind}, {"state", state_text(task.state)}};
  value["node"] = task.node.empty() ? report::Json(nullptr) : report::Json(task.node);
  value["time_left_s"] = task.time_left ? report::Json(*task.time_left / std::chrono::seconds(1)) : report::Json(nullptr);
  value["ran_s"] = task.ran / std::chrono::seconds(1);
  value["reason"] = task.reason.empty() ? report::Json(nullptr) : report::Json(task.reason);
  const auto meaning = adapters::slurm_reason_meaning(task.reason);
  if (!meaning.empty()) value["meaning"] = meaning;
  if (!task.reason.empty()) value["final"] = adapters::slurm_reason_is_final(task.reason);
  if (!task.excluded.empty()) value["excluded"] = task.excluded;
  return value;
}

struct KindCounts {
  int wanted = 0;
  int running = 0;
  int pending = 0;
  int ending = 0;
};

// With a PLAN the answer is no while a slice of it has no running task.
Result<ExitCode> status(Session& session, const Options& options) {
  TANGRAM_TRY(const auto job, job_of(options, false));
  std::map<std::string, KindCounts> counts;
  if (!options.plan.empty()) {
    TANGRAM_TRY(const auto kinds, kinds_of(options));
    for (const auto& kind : kinds) counts[kind.name].wanted = kind.wanted;
  }
  TANGRAM_TRY(const auto tasks, adapters::slurm_queue(job));
  for (const auto& task : tasks) {
    KindCounts& of = counts[task.kind];
    ++(task.state == adapters::SlurmState::running   ? of.running
       : task.state == adapters::SlurmState::pending ? of.pending
                                                     : of.ending);
  }
  const bool complete = std::ranges::all_of(counts, [](const auto& entry) { return entry.second.running >= entry.second.wanted; });
  const ExitCode answer = options.plan.empty() || complete ? ExitCode::done : ExitCode::answer_is_no;
  if (session.structured()) {
    report::Json kinds = report::Json::array();
    for (const auto& [name, of] : counts) {
      kinds.push_back({{"kind", name}, {"running", of.running}, {"pending", of.pending}, {"ending", of.ending}});
      if (!options.plan.empty()) kinds.back()["wanted"] = of.wanted;
    }
    report::Json list = report::Json::array();
    for (const auto& task : tasks) list.push_back(task_json(task));
    session.print_value({{"name", job.name}, {"kinds", kinds}, {"tasks", list}});
    return answer;
  }
  if (tasks.empty()) session.print(fmt::format("no task of \"{}\" is in the queue\n", job.name));
  if (!tasks.empty()) {
    report::Table table({{"TASK"}, {"KIND"}, {"STATE"}, {"NODE"}, {"TIME LEFT", report::Align::right}, {"WHY", report::Align::left, true}});
    for (const auto& task : tasks) {
      const auto meaning = adapters::slurm_reason_meaning(task.reason);
      table.add({{task.id, Style::accent},
                 task.kind,
                 state_text(task.state),
                 task.node,
                 task.state == adapters::SlurmState::pending ? ""
                 : task.time_left                            ? clock_text(*task.time_left)
                                                             : "no limit",
                 meaning.empty() ? task.reason : fmt::format("{}: {}", task.reason, meaning)});
    }
    session.print(table.render(session.terminal));
  }
  for (const auto& [name, of] : counts) {
    if (of.running < of.wanted) session.print(fmt::format("{}: {} of {} run\n", name, of.running, of.wanted));
  }
  return answer;
}

// The joined tasks, from the names of the gateway's nodes: "NAME-12_3".
Result<std::set<std::string>> joined_tasks(const Options& options, const client::HttpQuestion& question) {
  TANGRAM_TRY(const auto answer, client::ask_http(question));
  if (answer.status != 200) {
    return Error{ErrorCode::unavailable, fmt::format("the gateway at {} answers {}", question.place(), answer.status)};
  }
  const report::Json body = report::Json::parse(answer.body, nullptr, false);
  const report::Json* nodes = body.is_array() ? &body : body.is_object() && body.contains("nodes") ? &body["nodes"] : nullptr;
  if (nodes == nullptr || !nodes->is_array()) {
    return Error{ErrorCode::unavailable, fmt::format("the gateway at {} has no list of nodes", question.place())};
  }
  std::set<std::string> joined;
  const std::string prefix = options.job.name + "-";
  for (const auto& node : *nodes) {
    if (!node.is_object() || !node.contains("name") || !node["name"].is_string()) continue;
    const auto name = node["name"].get<std::string>();
    // What the gateway has lost it may list for a while.
    const std::string state = node.value("state", "");
    if (name.starts_with(prefix) && state != "lost" && state != "away") joined.insert(name.substr(prefix.size()));
  }
  return joined;
}

// Reads the plan again when its file is another.
class PlanWatch {
 public:
  explicit PlanWatch(const Options& options) : options_(options), seen_(stamp()) {}

  std::optional<std::vector<adapters::SlurmKind>> changed(Session& session) {
    const auto now = stamp();
    if (now == seen_) return std::nullopt;
    seen_ = now;
    auto kinds = kinds_of(options_);
    if (kinds) return *kinds;
    session.warn(fmt::format("the plan is kept as it was: {}", kinds.error().message));
    return std::nullopt;
  }

 private:
  std::pair<fs::file_time_type, std::uintmax_t> stamp() const {
    std::error_code error;
    const auto time = fs::last_write_time(options_.plan, error);
    const auto size = fs::file_size(options_.plan, error);
    return {time, size};
  }

  const Options& options_;
  std::pair<fs::file_time_type, std::uintmax_t> seen_;
};

Result<client::HttpQuestion> gateway_question(const Options& options) {
  client::HttpQuestion question{.method = "GET", .path = "/v2/nodes", .timeout = std::chrono::seconds(2)};
  const auto colon = options.gateway.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : text::parse_integer(options.gateway.substr(colon + 1));
  if (!port || *port < 1 || *port > 65'535 || colon == 0) {
    return wrong(fmt::format("--gateway {}: expected HOST:PORT, the gateway's metrics port", options.gateway));
  }
  question.address = options.gateway.substr(0, colon);
  question.port = static_cast<std::uint16_t>(*port);
  TANGRAM_TRY(question.key, options.caller.key());
  TANGRAM_TRY(question.tls, options.caller.tls_context());
  question.server_name = options.caller.server_name;
  return question;
}

Result<ExitCode> keep(Session& session, const Options& options) {
  adapters::SlurmKeepOptions keep;
  TANGRAM_TRY(keep.keeper.kinds, kinds_of(options));
  TANGRAM_TRY(keep.job, job_of(options, true));
  keep.keeper.lead = from_seconds(options.lead_s);
  keep.call_every = from_seconds(options.call_every_s);
  adapters::SlurmSurroundings around;
  std::optional<client::HttpQuestion> question;
  if (!options.gateway.empty()) {
    TANGRAM_TRY(question, gateway_question(options));
    around.joined = [&] { return joined_tasks(options, *question); };
  }
  asked_to_stop = 0;
  struct sigaction action {};
  action.sa_handler = on_stop;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  PlanWatch watch(options);
  around.stop = [] { return asked_to_stop != 0; };
  around.say = [&](const std::string& line) {
    if (session.structured()) {
      session.print_value({{"event", line}}, true);
    } else {
      session.print(line + "\n");
    }
    session.out.flush();
  };
  around.changed = [&] { return watch.changed(session); };
  std::string last;
  around.show = [&](const adapters::SlurmKeeper& keeper) {
    int running = 0;
    std::map<std::string, int> waiting;
    for (const auto& task : keeper.tasks()) {
      running += task.state == adapters::SlurmState::running ? 1 : 0;
      if (task.state == adapters::SlurmState::pending) ++waiting[task.reason];
    }
    std::string line = fmt::format("{} running", running);
    for (const auto& [reason, count] : waiting) {
      const auto meaning = adapters::slurm_reason_meaning(reason);
      line += fmt::format(", {} pending ({}{})", count, reason, meaning.empty() ? "" : fmt::format(": {}", meaning));
    }
    if (line != last) around.say(line);
    last = line;
  };
  TANGRAM_RETURN_IF_ERROR(adapters::keep_slurm(keep, around));
  session.note("the tasks stay; `tangram slurm down` cancels them");
  return ExitCode::done;
}

Result<ExitCode> run(Session& session, const Options& options) {
  if (options.action == "up") return up(session, options);
  if (options.action == "down") return down(session, options);
  if (options.action == "status") return status(session, options);
  return keep(session, options);
}

VerbInfo info() {
  return {
      .name = "slurm",
      .group = "Serve",
      .summary = "run the slices of a plan as tasks of Slurm",
      .description =
          "`up` submits one array task for each slice of PLAN; each runs `tangram node`, which joins the gateway at "
          "--join. `keep` does the same and then replaces tasks until it is stopped: a successor is submitted before "
          "a time limit ends; a task that is gone is submitted again; a task on a node that Slurm or the gateway "
          "(--gateway) has lost is cancelled and submitted again on other nodes. It follows changes of PLAN. Slurm's "
          "queue is its memory, so it may be ended and started again. `status` lists the tasks, and why some wait; "
          "with PLAN, exit code 1 says that a slice has no running task. `down` cancels all. Calls only sbatch, "
          "squeue, sinfo and scancel, as an ordinary user. Behind --, a command can be given that a task runs instead "
          "of `tangram node`.",
      .examples = {
          {"tangram slurm up DIR/plan.json --join gateway:8003 --token-file DIR/token --models DIR/models --partition "
           "infer --time 8:00:00",
           "Submit one task for each slice."},
          {"tangram slurm keep DIR/plan.json --join gateway:8003 --token-file DIR/token --models DIR/models --partition "
           "infer --time 8:00:00 --gateway gateway:8002",
           "Keep the tasks of the plan alive."},
          {"tangram slurm status DIR/plan.json", "List the tasks; exit code 1 while some do not run."},
          {"tangram slurm down", "Cancel all tasks."}}};
}

}  // namespace
}  // namespace slurm_verb

void add_slurm(Program& program) {
  using namespace slurm_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(info(), [options](Session& session) { return run(session, *options); });
  auto& job = options->job;
  program.one_of(verb.add_option("ACTION", options->action, "What to do.")->required(), {"up", "keep", "status", "down"});
  program.offers_files(verb.add_option("PLAN", options->plan, "The plan whose slices become tasks."));
  verb.add_option("--name", job.name, "The name of the deployment; its jobs are called tangram-NAME.")
      ->type_name("NAME")
      ->capture_default_str();
  verb.add_option("--join", options->join, "The gateway's node port, which the tasks dial.")->type_name("HOST:PORT");
  program.offers_files(
      verb.add_option("--token-file", options->token_file, "The join token; the file is read by the tasks.")->type_name("FILE"));
  program.offers_files(
      verb.add_option("--models", options->models, "The folder of the models, as the tasks see it.")->type_name("DIR"));
  verb.add_option("--partition", job.partition, "The partition of the tasks.")->type_name("P");
  verb.add_option("--account", job.account, "The account that pays.")->type_name("A");
  verb.add_option("--qos", job.qos, "The quality of service.")->type_name("Q");
  verb.add_option("--time", job.time_limit, "The time limit of a task, as sbatch takes it; default: the partition's.")->type_name("T");
  program.whole_number(verb.add_option("--cpus", job.cpus, "Cores of a task; a slice of a host has its own.")
                           ->type_name("N")
                           ->capture_default_str(), 1, 1024);
  program.whole_number(verb.add_option("--memory-mb", job.memory_mb, "Memory of a task; default: the partition's.")->type_name("N"),
                       1, 16'000'000);
  verb.add_option("--board", options->boards, "TYPE=NAME, where NAME is what slurmd -G prints before the profile.")->type_name("TYPE=NAME");
  verb.add_option("--sbatch", job.sbatch, "A further option of sbatch: --sbatch=--constraint=a100. Repeatable.")->type_name("OPTION");
  verb.add_option("--program", options->program, "How the tasks call tangram: a path, or words such as `apptainer exec X.sif tangram`; default: this program.")
      ->type_name("COMMAND");
  program.offers_files(verb.add_option("--logs", options->logs, "The folder for what the tasks print; default: nowhere.")->type_name("DIR"));
  verb.add_option("--warning-s", options->warning_s, "How long before its time limit a task is told to leave.")
      ->type_name("S")
      ->capture_default_str()
      ->range(1.0, 86'400.0);
  verb.add_option("--lead-s", options->lead_s, "keep: how long before a time limit the successor is submitted.")
      ->type_name("S")
      ->capture_default_str()
      ->range(1.0, 86'400.0);
  verb.add_option("--gateway", options->gateway, "keep: the gateway's metrics port, to learn at once of lost tasks.")->type_name("HOST:PORT");
  add_caller_options(program, verb, options->caller, "gateway-");
  verb.add_option("--call-every-s", options->call_every_s, "keep: at most one call of Slurm in this time, on average.")
      ->type_name("S")
      ->capture_default_str()
      ->range(0.5, 3'600.0);
  program.takes_rest("slurm", options->command);
}

}  // namespace tangram::cli
