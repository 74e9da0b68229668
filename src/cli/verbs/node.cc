// `tangram node`: the process on a machine. It joins a gateway and runs the slices that the gateway asks for.

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "base/text.h"
#include "cli/build_info.h"
#include "cli/program.h"
#include "host/event_loop.h"
#include "host/files.h"
#include "host/log.h"
#include "host/prompt_thread.h"
#include "node/munge.h"
#include "node/node.h"
#include "node/offers.h"
#include "node/tokens.h"
#include "serve/signal_watch.h"
#include "worker/worker_process.h"

namespace tangram::cli {
namespace node_verb {
namespace {

struct Options {
  std::vector<std::string> join;
  std::string token_file;
  std::string gateway;  // The fingerprint, where there is no token.
  bool munge = false;
  std::string name;
  std::string models;
  std::string identity;
  std::vector<std::string> slices;
  std::vector<std::string> devices;
  bool workers = false;
  double leave_s = to_seconds(node::NodeConfig().leave_max);
};

constexpr std::uint64_t kTokenFileBytesMax = 64 << 10;

// Slurm may run several tasks on one machine; each has a job of its own.
std::string default_name() {
  std::array<char, 256> name{};
  std::string text = gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "";
  if (const char* job = std::getenv("SLURM_JOB_ID"); job != nullptr) text += fmt::format("-{}", job);
  return text;
}

// Who the gateway is: the token says it, or the user.
Result<Nothing> set_up_trust(const Options& options, node::NodeConfig& config) {
  // A task of a Slurm job has MUNGE, and nobody gave it a token.
  const bool in_slurm = std::getenv("SLURM_JOB_ID") != nullptr && options.token_file.empty() && node::has_munge();
  config.munge = options.munge || in_slurm;
  config.gateway_fingerprint = text::lower(options.gateway);
  if (!options.token_file.empty()) {
    TANGRAM_TRY(const auto text, host::read_file(options.token_file, kTokenFileBytesMax));
    config.token = std::string(text::trim(text));
    const auto token = node::parse_token(config.token);
    if (!token) {
      return Error{ErrorCode::invalid,
                   options.token_file + ": expected a join token, as `tangram token create` prints it"};
    }
    if (!config.gateway_fingerprint.empty() && config.gateway_fingerprint != token->gateway) {
      return Error{ErrorCode::invalid, "--gateway is another gateway than the one that made the token"};
    }
    config.gateway_fingerprint = token->gateway;
  }
  if (options.munge && !node::has_munge()) {
    return Error{ErrorCode::not_found, "--munge: the programs munge and unmunge are not installed"};
  }
  if (config.gateway_fingerprint.empty() && !config.munge) {
    return Error{ErrorCode::invalid,
                 "expected --token-file FILE, which `tangram token create` makes on the gateway's machine, or --munge"};
  }
  const bool digits = config.gateway_fingerprint.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!config.gateway_fingerprint.empty() && (config.gateway_fingerprint.size() != 64 || !digits)) {
    return Error{ErrorCode::invalid, "--gateway: expected 64 hexadecimal digits, as `tangram nodes` shows them"};
  }
  return Nothing{};
}

// What is named, else the MIG devices that this process was given, else the cores that it may use.
Result<std::vector<node::OfferedBoard>> boards_of(const Options& options) {
  std::vector<node::OfferedBoard> boards;
  for (const auto& text : options.slices) {
    TANGRAM_TRY(auto board, node::parse_slices(text));
    // The numbers of slices without hardware are those of the node.
    for (auto& slice : board.slices) {
      if (!slice.id.starts_with("MIG-")) slice.id = fmt::format("{}.{}", boards.size(), slice.id);
    }
    boards.push_back(std::move(board));
  }
  for (const auto& text : options.devices) {
    if (text == "cpu") {
      boards.push_back(node::host_board());
      continue;
    }
    TANGRAM_TRY(auto board, node::parse_device(text));
    boards.push_back(std::move(board));
  }
  if (!boards.empty()) return boards;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) visible = std::getenv("NVIDIA_VISIBLE_DEVICES");  // In a container.
  TANGRAM_TRY(boards, node::mig_boards(visible == nullptr ? "" : visible));
  if (boards.empty()) boards.push_back(node::host_board());
  return boards;
}

std::string text_of(const std::vector<node::OfferedBoard>& boards) {
  std::string text;
  for (const auto& board : boards) {
    if (!text.empty()) text += ", ";
    if (board.whole) {
      text += board.cores > 0 ? fmt::format("{} cores", board.cores) : board.type;
    } else {
      text += fmt::format("{} slices", board.slices.size());
    }
  }
  return text;
}

Result<ExitCode> run(Session& session, const Options& options) {
  node::NodeConfig config;
  for (const auto& entry : options.join) {
    std::string_view rest = entry;
    while (!rest.empty()) {
      const auto end = std::min(rest.find(','), rest.size());
      TANGRAM_TRY(auto gateway, node::parse_gateway(rest.substr(0, end)));
      config.gateways.push_back(std::move(gateway));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  if (config.gateways.empty()) return session.fail({ErrorCode::invalid, "expected --join HOST:PORT"});
  TANGRAM_RETURN_IF_ERROR(set_up_trust(options, config));
  config.name = options.name.empty() ? default_name() : options.name;
  if (!node::is_node_name(config.name)) {
    return session.fail({ErrorCode::invalid, fmt::format("--name {}: expected at most {} letters, digits and .-_:",
                                                         config.name, node::kNodeNameMax)});
  }
  config.version = build_info().version;
  TANGRAM_TRY(config.boards, boards_of(options));
  config.models = options.models;
  config.workers = options.workers;
  config.leave_max = from_seconds(options.leave_s);
  if (options.identity.empty()) {
    config.identity = node::make_identity(config.name);
  } else {
    TANGRAM_TRY(config.identity, node::open_identity(options.identity, config.name));
  }
  config.environment = [](const node::OfferedSlice& slice) {
    std::vector<std::string> variables;
    if (slice.id.starts_with("MIG-")) variables.push_back("CUDA_VISIBLE_DEVICES=" + slice.id);
    return variables;
  };
  // Before the first thread starts, because threads inherit the signal mask.
  serve::keep_signals_for_server();
  host::LogWriter log(STDERR_FILENO);
  host::LiveClock clock;
  host::EventLoop loop;
  host::wake_promptly();
  log.write(host::LogLine(host::LogLevel::info, "node_started")
                .text("name", config.name)
                .text("version", config.version)
                .text("fingerprint", config.identity.fingerprint)
                .text("offers", text_of(config.boards)));
  node::Node node(std::move(config), loop, clock, log);
  int asked = 0;
  serve::SignalWatch signals(loop, [&](int number) {
    if (number == SIGHUP) return;
    ++asked;
    node.leave();
  });
  while (!node.left() && asked < 2 && node.refused().empty()) {
    loop.wait(clock, node.next_due());
    node.work(clock.now());
  }
  if (!node.refused().empty()) return session.fail({ErrorCode::denied, node.refused()});
  log.write(host::LogLine(host::LogLevel::info, "node_stopped").done());
  return ExitCode::done;
}

}  // namespace
}  // namespace node_verb

void add_node(Program& program) {
  using namespace node_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "node",
       .group = "Serve",
       .summary = "run slices of a gateway's plan on this machine",
       .description =
           "Joins a `tangram serve --node-port N` and runs the slices that it asks for: MIG devices of "
           "CUDA_VISIBLE_DEVICES, or the cores that this process may use. The node opens no port. Models are read from "
           "--models; their files must be those of the other nodes. When the gateway restarts, or its standby takes "
           "over, the node keeps its models loaded and joins again. SIGTERM or Ctrl-C: it tells the gateway, ends the "
           "batches that it has, and exits. Logs are lines of JSON on standard error.",
       .examples =
           {{"tangram node --join 10.0.0.5:8003 --token-file token --models DIR/models",
             "Join a gateway with what this machine has."},
            {"tangram node --join gateway-a:8003,gateway-b:8003 --token-file token --name rack1-3",
             "Join a gateway or its standby, under a name of its own."},
            {"tangram node --join 127.0.0.1:8003 --token-file token --name n1 --slices 1x4g.40gb,1x2g.20gb,1x1g.10gb",
             "Rehearse: slices without a GPU, for the engine emulated."},
            {"tangram node --join 10.0.0.5:8003 --munge", "In a Slurm job: MUNGE says who the user is."}},
       .text_only = true},
      [options](Session& session) { return run(session, *options); });
  verb.add_option("--join", options->join,
                  "The gateway's port for nodes (HOST:PORT), and after a comma that of its standby.")
      ->required()
      ->type_name("ADDRESS");
  program.offers_files(verb.add_option("--token-file", options->token_file, "The join token of `tangram token create`.")
                           ->type_name("FILE"));
  verb.add_flag("--munge", options->munge, "Show a credential of MUNGE instead of a token, and expect one.");
  verb.add_option("--gateway", options->gateway,
                  "The fingerprint of the gateway's certificate; a token has it, MUNGE does not need it.")
      ->type_name("DIGEST");
  verb.add_option("--name", options->name,
                  "The name of the node; default: that of the machine, and in a Slurm job its number behind it.")
      ->type_name("NAME");
  program.offers_files(
      verb.add_option("--models", options->models, "The folder with the weights, as for `tangram serve`.")
          ->type_name("DIR"));
  program.offers_files(
      verb.add_option("--identity", options->identity,
                      "The file of the node's key and certificate, made if there is none; default: new ones at each "
                      "start, so that a restart needs a valid token.")
          ->type_name("FILE"));
  verb.add_option("--slices", options->slices,
                  "The slices of this node: 2x1g.10gb,3g.40gb without hardware, or MIG-UUID:1g.10gb. May be repeated.")
      ->type_name("LIST");
  verb.add_option("--device", options->devices,
                  "A device that takes any layout: cpu, or TYPE or NAME=TYPE without hardware. May be repeated.")
      ->type_name("DEVICE");
  verb.add_flag("--workers", options->workers, "Run emulated slices in processes of their own, too.");
  verb.add_option("--leave", options->leave_s, "How long batches may take to end after SIGTERM.")
      ->type_name("S")
      ->range(0, 3600);
}

}  // namespace tangram::cli
