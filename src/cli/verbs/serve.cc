// `tangram serve`: serves a plan over HTTP and gRPC.
//
// This file turns options and files into one serve::ServerConfig and runs the server until it is asked to stop. The
// files are read at the start and again at every reload, by the same functions, so a reload accepts exactly what a
// start accepts. A reload happens on SIGHUP, on `tangram reload`, and when the drift watch has fitted a new latency
// model.
//
// Lifetimes: the server's callbacks refer to `log`, `recording` and `model` in run(), so the server is destroyed first.

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>

#include "base/text.h"
#include "cli/build_info.h"
#include "cli/following.h"
#include "cli/inputs.h"
#include "cli/page_files.h"
#include "cli/plan_inputs.h"
#include "cli/program.h"
#include "cli/server_options.h"
#include "cli/training_lending.h"
#include "cli/what_if.h"
#include "engines/batch_engine.h"
#include "formats/access_file.h"
#include "formats/plan_file.h"
#include "host/files.h"
#include "host/resolve.h"
#include "lab/model_file.h"
#include "node/identity.h"
#include "node/munge.h"
#include "recut/checkpoint.h"
#include "recut/mig_pins.h"
#include "sched/scheduler_description.h"
#include "sched/slice_memory.h"
#include "serve/drift_watch.h"
#include "serve/grpc_server.h"
#include "serve/recording_file.h"
#include "serve/server.h"
#include "worker/command_launcher.h"

namespace tangram::cli {
namespace serve_verb {
namespace {

// The options that are not fields of `config`, or that have another unit there. Defaults come from the configuration
// itself, so that help and server cannot disagree.
struct Options {
  serve::ServerConfig config;
  std::string plan;  // Empty with --follow.
  std::string services;
  FollowingOptions following;
  LatencySource latency;
  std::uint16_t grpc_port = serve::kGrpcPort;
  bool no_grpc = false;
  std::vector<std::string> remotes;
  CallerOptions remote_caller;
  std::vector<std::string> gpus;
  std::string refit;
  std::string record;
  std::string access;
  std::string worker_user;
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;
  std::string training;  // The folder of training jobs; empty: there are none.
  std::string training_python;
  int training_nice = serve::kTrainerNice;
  std::string training_lends = "slices";
  std::optional<int> node_port;  // Nothing: slices are on this machine.
  std::string node_address;                // Empty: that of clients.
  std::string node_state;
  bool node_munge = false;
  double node_wait_s = to_seconds(serve::NodeHubConfig().first_wait);
  std::shared_ptr<LendingTables> lending = std::make_shared<LendingTables>();
  std::string log_level{to_string(config.log_level)};
  bool no_admission = false;
  bool log_requests = false;
  bool loads_models = false;  // Some service of the start does: workers, commands and MIG devices are set up.
  double exit_timeout_s = to_seconds(config.exit_timeout);
  double history_mib = static_cast<double>(config.page.history.bytes_max) / (1 << 20);
  double body_max_mib = static_cast<double>(config.limits.body_max) / (1 << 20);
  double drain_delay_s = to_seconds(config.drain_delay);
  double memory_max_mib = static_cast<double>(config.memory_max) / (1 << 20);
  double head_max_kib = static_cast<double>(config.limits.head_max) / (1 << 10);
};

// A chain of certificates takes a few KiB. The limit keeps a wrong path, such as a model file, out of memory.
constexpr std::uint64_t kPemMax = 1 << 20;

// The files, read and compiled.
struct Served {
  Plan plan = {};  // Empty with --follow.
  Workload workload;
  sched::Deployment deployment;
  std::shared_ptr<const LatencyModel> latency;
  std::shared_ptr<const learn::FittedModel> fitted;  // The same; null unless --model was given.
  Following following = {};                          // Empty without --follow.
};

// The first two services on one slice of the plan that must not share, as a sentence; nothing if all may. `validate`
// lists them all.
std::optional<std::string> why_not_together(const Plan& plan, const Workload& workload) {
  const auto find = [&](const std::string& name) { return std::ranges::find(workload.services, name, &Service::name); };
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      for (const auto& a : slice.replicas) {
        for (const auto& b : slice.replicas) {
          const auto first = find(a.service);
          const auto second = find(b.service);
          if (first == workload.services.end() || second == workload.services.end() || first == second) continue;
          if (may_share_slices(*first, *second)) continue;
          return fmt::format(
              "{}: {} and {} share a slice, but the services file says that they must not (isolation, "
              "tenant, share_group)",
              device.name, a.service, b.service);
        }
      }
    }
  }
  return std::nullopt;
}

// Reads plan, services and run times and compiles them. If `fitted` is given it replaces the model file, which is how a
// model fitted by the drift watch comes into force.
Result<Served> load(const Options& options, std::shared_ptr<const learn::FittedModel> fitted = nullptr) {
  TANGRAM_TRY(const auto source, read_source(options.plan));
  TANGRAM_TRY(auto plan, formats::parse_plan(source));
  TANGRAM_TRY(auto workload, load_workload(options.services));
  TANGRAM_TRY(auto latency,
              fitted == nullptr ? load_latency(options.latency) : std::shared_ptr<const LatencyModel>(fitted));
  // Null for a table of measurements: only a fitted model can be watched for drift and fitted again.
  fitted = std::dynamic_pointer_cast<const learn::FittedModel>(latency);
  auto deployment = sched::compile(plan, workload, *latency);
  // compile() does not know the name of the file, so the message gets it here.
  if (!deployment) return Error{deployment.error().code, options.plan + ": " + deployment.error().message};
  // Before a worker starts: one that runs out of memory while it loads says less, and may take others with it.
  if (const auto lacks = sched::why_memory_lacks(*deployment)) return invalid_input(options.plan + ": " + *lacks);
  if (const auto apart = why_not_together(plan, workload)) return invalid_input(options.plan + ": " + *apart);
  return Served{std::move(plan), std::move(workload), std::move(*deployment), std::move(latency), std::move(fitted)};
}

// Reads services and run times, and plans for the fleet of --follow.
Result<Served> load_following(Session& session, const Options& options, const host::ServiceManager& manager) {
  // First: a standby reads its files when its turn has come.
  TANGRAM_TRY(auto store, open_state(session, options.following, manager));
  TANGRAM_TRY(auto workload, load_workload(options.services));
  TANGRAM_TRY(auto latency, load_latency(options.latency));
  auto fitted = std::dynamic_pointer_cast<const learn::FittedModel>(latency);
  TANGRAM_TRY(auto following, start_following(options.following, workload, latency, std::move(store)));
  sched::Deployment deployment = following.setup ? *following.setup->first.deployment : sched::Deployment{};
  return Served{
      {}, std::move(workload), std::move(deployment), std::move(latency), std::move(fitted), std::move(following)};
}

// Reads the certificates and the access file. Renewed certificates come into force by a reload, without a restart.
Result<serve::Security> load_security(const Options& options) {
  serve::Security security;
  if (!options.access.empty()) {
    TANGRAM_TRY(const auto source, read_source(options.access));
    TANGRAM_TRY(auto access, formats::parse_access(source));
    security.access = std::move(access);
  }
  if (options.tls_certificate.empty()) return security;
  host::TlsMaterial material;
  // An empty path means that the option was not given, and the text stays empty.
  const auto read = [](const std::string& path, std::string& text) -> Result<Nothing> {
    if (path.empty()) return Nothing{};
    TANGRAM_TRY(auto content, host::read_file(path, kPemMax));
    text = std::move(content);
    return Nothing{};
  };
  TANGRAM_RETURN_IF_ERROR(read(options.tls_certificate, material.certificate));
  TANGRAM_RETURN_IF_ERROR(read(options.tls_key, material.key));
  TANGRAM_RETURN_IF_ERROR(read(options.tls_client_ca, material.authorities));
  // The paths are for messages: TLS errors name the file.
  material.certificate_file = options.tls_certificate;
  material.key_file = options.tls_key;
  material.authorities_file = options.tls_client_ca;
  security.tls = std::move(material);
  return security;
}

// The devices and slices of a deployment, without replicas: all that is needed to find the MIG devices.
Plan devices_of(const sched::Deployment& deployment) {
  Plan plan;
  for (const auto& device : deployment.devices) {
    plan.devices.push_back({device.name, device.geometry.type, device.geometry, {}});
    for (const auto& slice : device.layout.slices) plan.devices.back().slices.push_back({slice, {}});
  }
  return plan;
}

// Looks up the MIG device of each slice, so that its worker sees no other. The lookup is repeated at each reload,
// because the UUID of a MIG device changes whenever it is cut again. Returns a note for the log, or an empty text.
Result<std::string> pin_workers(bool needs_slices, bool follows, const recut::GpuChoices& choices,
                                const sched::Deployment& deployment, serve::ServerConfig& config) {
  if (!config.workers) return std::string();
  // `emulated` runs without a GPU, so a missing MIG device is an error only for other engines.
  const auto pins = std::make_shared<recut::MigPins>(choices, needs_slices, follows);
  auto note = pins->look_up(devices_of(deployment));
  if (!note) return note.error();
  // A cut changes the MIG devices of one GPU.
  if (config.gpu_cuts) config.gpu_cuts->after = [pins](const Plan& device) { return pins->look_up_some(device); };
  config.worker_environment = [pins](const std::string& device, const Slice& slice) {
    return pins->environment(device, slice);
  };
  // A reload whose slices cannot be found fails as a whole, and the server keeps its old plan.
  if (!config.reload) return note;
  config.reload = [pins, read = config.reload](const sched::Roster& now) -> Result<serve::ReloadedPlan> {
    auto again = read(now);
    if (again && again->deployment) TANGRAM_RETURN_IF_ERROR(pins->look_up(devices_of(*again->deployment)));
    return again;
  };
  return note;
}

// What reloads must remember: whether the model in force is newer than its file.
struct WatchedModel {
  std::atomic<bool> renewed{false};
  std::unique_ptr<serve::DriftWatch> watch;  // Null if there is no fitted model to watch.
};

// The engine of a service: its own, or that of --engine.
std::string engine_of(const Options& options, const Service& service) {
  return service.engine == ServiceEngine::unnamed ? options.config.engine : std::string(to_string(service.engine));
}
bool any_runs(const Options& options, const Workload& workload, std::string_view engine) {
  return std::ranges::any_of(workload.services, [&](const Service& s) { return engine_of(options, s) == engine; });
}
// True if some service runs in a process on its slice.
bool loads_models(const Options& options, const Workload& workload) {
  return std::ranges::any_of(workload.services, [&](const Service& s) {
    const std::string engine = engine_of(options, s);
    return engine != "emulated" && engine != engines::kRemoteEngine;
  });
}

// A slice has one process or one connection: all of its services have the same engine. And each slice of the engine
// remote has a server for its MigProfile.
Result<Nothing> check_slices(const Options& options, const sched::Deployment& deployment, const Workload& workload) {
  for (const auto& place : deployment.places) {
    const auto& services = deployment.pools[place.pool.index()].services;
    if (services.empty()) continue;
    const Service& first = workload.services[services.front().service.index()];
    const auto& device = deployment.devices[place.device.index()];
    const std::string& profile = device.geometry.profiles[place.slice.profile].name;
    for (const auto& entry : services) {
      const Service& other = workload.services[entry.service.index()];
      if (engine_of(options, first) == engine_of(options, other) && first.command == other.command &&
          first.remotes == other.remotes) {
        continue;
      }
      return invalid_input(
          fmt::format("{} and {} share a {}, but have different engines, commands or servers: plan "
                      "again with this services file",
                      first.name, other.name, profile));
    }
    const bool has_one = std::ranges::any_of(first.remotes, [&](const RemoteServer& server) {
      return server.mig_profile.empty() || server.mig_profile == profile;
    });
    if (engine_of(options, first) == engines::kRemoteEngine && !has_one && options.remotes.empty()) {
      return invalid_input(
          fmt::format("{}: no server in `remote` is for slices of {}, on which it is planned", first.name, profile));
    }
  }
  return Nothing{};
}

// A service that a reload adds names no engine (check_served_alike), so it runs on the server's own. Errors: what that
// engine needs was not set up at the start.
Result<Nothing> check_added(const Options& options, const sched::Roster& now, const Workload& next) {
  const auto refused = [](const Service& service, const std::string& why) {
    return Error{ErrorCode::invalid,
                 fmt::format("service '{}' is new and {}, which requires a restart", service.name, why)};
  };
  for (const auto& service : next.services) {
    const auto& known = now.workload.services;
    if (std::ranges::find(known, service.name, &Service::name) != known.end()) continue;
    const std::string engine = engine_of(options, service);
    if (engine == engines::kRemoteEngine) {
      if (options.remotes.empty()) return refused(service, "runs on --engine remote, for which there is no --remote");
      continue;
    }
    if (engine != "emulated" && !options.loads_models) {
      return refused(service, fmt::format("is the first that runs on --engine {}", engine));
    }
    if (engine != engines::kCommandEngine) continue;
    // One of its own comes with an engine of its own.
    if (options.config.command.empty()) return refused(service, "has no `command`, and there is no --command");
    TANGRAM_RETURN_IF_ERROR(worker::fill_command(options.config.command, {}));
  }
  return Nothing{};
}

// The services of a reload by the ids that they have here. Errors: what clients and workers know about a service has
// changed, or there are too many.
Result<sched::Roster> roster_for(const Options& options, const sched::Roster& now, const Workload& next) {
  auto roster = sched::next_roster(now, next);
  auto alike = serve::check_served_alike(now.workload, next);
  if (alike) alike = check_added(options, now, next);
  if (alike && roster) return roster;
  const Error& error = alike ? roster.error() : alike.error();
  return Error{error.code, options.services + ": " + error.message};
}

// Reads the files for a reload. If the drift watch asked for it, its model replaces the model file; if a user asked,
// the file wins and the watch starts over with it. `renewed` is taken with exchange(), so one new model causes one such
// reload.
Result<serve::ReloadedPlan> load_again(const Options& options, WatchedModel& model, const sched::Roster& now) {
  const bool renewed = model.renewed.exchange(false) && model.watch != nullptr;
  TANGRAM_TRY(auto again, load(options, renewed ? model.watch->model() : nullptr));
  TANGRAM_TRY(auto roster, roster_for(options, now, again.workload));
  // The plan again, by the ids that the services have here.
  TANGRAM_TRY(auto deployment, sched::compile(again.plan, roster.workload, *again.latency));
  TANGRAM_RETURN_IF_ERROR(check_slices(options, deployment, roster.workload));
  if (!renewed && model.watch != nullptr && again.fitted != nullptr) model.watch->restart(again.fitted);
  options.lending->set(again.plan, roster.workload, again.latency);
  return serve::ReloadedPlan{std::move(roster), std::move(deployment)};
}

// Reads the services for a reload of a server that follows; it makes the plan for them.
Result<serve::ReloadedPlan> load_services_again(const Options& options, const sched::Roster& now) {
  TANGRAM_TRY(auto workload, load_workload(options.services));
  if (const auto checked = check_traffic(workload); !checked) {
    return Error{checked.error().code, options.services + ": " + checked.error().message};
  }
  TANGRAM_TRY(auto roster, roster_for(options, now, workload));
  return serve::ReloadedPlan{std::move(roster), std::nullopt};
}

// The server's configuration. Requires that `model` outlives it: the reload callback refers to it.
serve::ServerConfig server_config(const Options& options, const Workload& workload, WatchedModel& model) {
  serve::ServerConfig config = options.config;
  if (serve::has_grpc() && !options.no_grpc) config.grpc_port = options.grpc_port;
  config.limits.body_max = static_cast<std::uint64_t>(options.body_max_mib * 1024 * 1024);
  config.memory_max = static_cast<std::uint64_t>(options.memory_max_mib * 1024 * 1024);
  config.limits.head_max = static_cast<std::size_t>(options.head_max_kib * 1024);
  config.page.history.bytes_max = static_cast<std::size_t>(options.history_mib * 1024 * 1024);
  report::LivePage page = report::live_page(page_digest);
  config.page.html = std::move(page.html);
  config.page.policy = std::move(page.policy);
  config.scheduler.admission = !options.no_admission;
  // An engine that loads models runs in worker processes, so that a crash in a model does not end the server.
  config.workers |= loads_models(options, workload);
  // The nodes have them.
  if (options.node_port) config.workers = false;
  config.version = build_info().version;
  config.log_level = options.log_requests ? host::LogLevel::requests
                                          : host::parse_log_level(options.log_level).value_or(host::LogLevel::info);
  config.exit_timeout = from_seconds(options.exit_timeout_s);
  config.drain_delay = from_seconds(options.drain_delay_s);
  // `options` is copied, because the callbacks run on another thread for as long as the server lives.
  Options kept = options;
  kept.loads_models = loads_models(options, workload);
  config.reload = [kept = std::move(kept), &model](const sched::Roster& now) {
    return kept.following.wanted() ? load_services_again(kept, now) : load_again(kept, model, now);
  };
  if (!options.access.empty() || !options.tls_certificate.empty()) {
    config.reload_security = [options] { return load_security(options); };
  }
  return config;
}

// The credentials for the servers behind --remote.
Result<engines::RemoteCaller> remote_caller(const CallerOptions& options) {
  engines::RemoteCaller caller;
  // $TANGRAM_TOKEN is for clients of this server. Sending it to other servers would leak it.
  if (!options.token_file.empty()) {
    TANGRAM_TRY(auto key, options.key());
    caller.key = std::move(key);
  }
  TANGRAM_TRY(auto tls, options.tls_context());
  caller.tls = std::move(tls);
  caller.server_name = options.server_name;
  return caller;
}

// The servers that the services file names for a service of the engine remote, looked up. Errors: none is named there
// or on the command line, or a service of the engine command has no command, or one with a {word} that means nothing.
Result<std::vector<serve::SliceServer>> servers_of(const Options& options, const Service& service) {
  const std::string engine = engine_of(options, service);
  if (engine == engines::kRemoteEngine && options.remotes.empty() && service.remotes.empty()) {
    return Error{ErrorCode::invalid,
                 fmt::format("{}: the engine remote needs --remote HOST:PORT, the server that runs its batches, or "
                             "`remote` in the services file",
                             service.name)};
  }
  // A plan that is made later can put it on any MigProfile.
  const bool bound = std::ranges::none_of(service.remotes, [](const RemoteServer& s) { return s.mig_profile.empty(); });
  if (engine == engines::kRemoteEngine && options.following.wanted() && options.remotes.empty() && bound) {
    return Error{
        ErrorCode::invalid,
        fmt::format("{}: each server in `remote` is for one MigProfile, and --follow may plan for others: name "
                    "one for any, there or with --remote HOST:PORT",
                    service.name)};
  }
  const std::string& command = service.command.empty() ? options.config.command : service.command;
  if (engine == engines::kCommandEngine && command.empty()) {
    return Error{
        ErrorCode::invalid,
        fmt::format("{}: the engine command needs --command COMMAND, or `command` in the services file", service.name)};
  }
  if (engine == engines::kCommandEngine) TANGRAM_RETURN_IF_ERROR(worker::fill_command(command, {}));
  std::vector<serve::SliceServer> servers;
  for (const auto& server : service.remotes) {
    TANGRAM_TRY(auto address, engines::parse_remote_address(server.address));
    servers.push_back({server.mig_profile, std::move(address)});
  }
  return servers;
}

// Requires a name. Errors: nobody has it, it is root's, or we may not become anybody.
Result<worker::WorkerUser> find_worker_user(const std::string& name) {
  // The only thread so far.
  const passwd* entry = getpwnam(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  if (entry == nullptr) return Error{ErrorCode::invalid, fmt::format("--worker-user: there is no user {}", name)};
  if (entry->pw_uid == 0) return Error{ErrorCode::invalid, "--worker-user must not be root"};
  if (geteuid() != 0)
    return Error{ErrorCode::invalid, "--worker-user needs root: only it can start a process as another user"};
  return worker::WorkerUser{entry->pw_uid, entry->pw_gid};
}

// Checks the options that depend on each other, and sets up the remote engine. A security option without --engine
// remote is an error: the user would believe that a connection is protected which does not exist.
Result<Nothing> set_up_engine(const Options& options, const Served& served, serve::ServerConfig& config) {
  const Workload& workload = served.workload;
  const bool remote = any_runs(options, workload, engines::kRemoteEngine);
  if (!remote && !options.remotes.empty()) {
    return Error{ErrorCode::invalid, "--remote applies only to --engine remote"};
  }
  if (!remote && (options.remote_caller.wants_tls() || !options.remote_caller.token_file.empty())) {
    return Error{ErrorCode::invalid, "the --remote-* options apply only to --engine remote"};
  }
  if (!options.config.command.empty() && !any_runs(options, workload, engines::kCommandEngine)) {
    return Error{ErrorCode::invalid, "--command applies only to --engine command"};
  }
  for (const auto& service : workload.services) {
    TANGRAM_TRY(auto servers, servers_of(options, service));
    config.remotes_of.push_back(std::move(servers));
  }
  TANGRAM_RETURN_IF_ERROR(check_slices(options, served.deployment, workload));
  for (const auto& text : options.remotes) {
    TANGRAM_TRY(auto address, engines::parse_remote_address(text));
    config.remotes.push_back(std::move(address));
  }
  if (remote) {
    TANGRAM_TRY(auto caller, remote_caller(options.remote_caller));
    config.remote_caller = std::move(caller);
    config.reload_remote_caller = [caller_options = options.remote_caller] { return remote_caller(caller_options); };
  }
  if (!options.worker_user.empty()) {
    TANGRAM_TRY(config.worker_user, find_worker_user(options.worker_user));
  }
  // One error here is clearer than a failed start for each slice.
  if (config.workers && worker::find_worker_program().empty()) {
    return Error{ErrorCode::not_found,
                 "tangram-worker was not found in the folder of this program: workers cannot be started"};
  }
  return Nothing{};
}

// Where nodes join. Errors: an option that means nothing with nodes, or without them.
Result<Nothing> set_up_nodes(const Options& options, const Workload& workload, serve::ServerConfig& config) {
  if (!options.node_port) {
    const bool given = !options.node_address.empty() || !options.node_state.empty() || options.node_munge;
    if (given) return Error{ErrorCode::invalid, "--node-address, --node-state and --node-munge need --node-port N"};
    return Nothing{};
  }
  const auto refused = [](const char* what) {
    return Error{ErrorCode::invalid, fmt::format("--node-port: {} works on this machine only, not on nodes yet", what)};
  };
  if (!options.training.empty()) return refused("--training");
  if (options.following.cuts == "nvml") return refused("--cuts nvml");
  if (any_runs(options, workload, engines::kCommandEngine)) return refused("the engine command");
  serve::NodeHubConfig nodes;
  nodes.door.address = options.config.address;
  if (!options.node_address.empty()) {
    TANGRAM_TRY(nodes.door.address, host::resolve_host(options.node_address));
  }
  nodes.door.port = static_cast<std::uint16_t>(*options.node_port);
  nodes.door.folder = node::nodes_folder(options.node_state);
  nodes.door.version = build_info().version;
  nodes.door.munge = options.node_munge;
  if (options.node_munge && !node::has_munge()) {
    return Error{ErrorCode::not_found, "--node-munge: the programs munge and unmunge are not installed"};
  }
  nodes.models = options.config.models;
  nodes.first_wait = from_seconds(options.node_wait_s);
  config.nodes = std::move(nodes);
  return Nothing{};
}

Result<Nothing> check_security_options(const Options& options) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return Error{ErrorCode::invalid, "--tls-certificate and --tls-key must be given together"};
  }
  if (!options.tls_client_ca.empty() && options.tls_certificate.empty()) {
    return Error{ErrorCode::invalid, "--tls-client-ca needs --tls-certificate and --tls-key"};
  }
  return Nothing{};
}

// "127.0.0.1:8000" or "[::1]:8000": an IPv6 address needs brackets before a port.
std::string host_and_port(const std::string& address, std::uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", address, v6 ? "]" : "", port);
}

// Logs the addresses. Written at every log level, because port 0 takes a free port that the user can learn only here.
void tell_where(host::LogWriter& log, const Options& options, const serve::Server& server, std::size_t models) {
  const char* scheme = options.tls_certificate.empty() ? "http" : "https";
  host::LogLine line(host::LogLevel::info, "serving");
  line.integer("models", static_cast<std::int64_t>(models));
  line.text("http", fmt::format("{}://{}", scheme, host_and_port(options.config.address, server.http_port())));
  if (server.grpc_port() != 0) line.text("grpc", host_and_port(options.config.address, server.grpc_port()));
  if (server.nodes() != nullptr) {
    line.text("nodes", host_and_port(options.node_address.empty() ? options.config.address : options.node_address,
                                     server.nodes()->port()));
    line.text("nodes_fingerprint", server.nodes()->fingerprint());
  }
  line.text("metrics",
            fmt::format("{}://{}/metrics", scheme, host_and_port(options.config.admin_address, server.metrics_port())));
  log.write(line.done());
}

// Watches whether batches take as long as the model says. A newly fitted model is written to the file of --refit and
// comes into force by a reload. `log` and `renewed` must outlive the watch.
std::unique_ptr<serve::DriftWatch> watch_model(const Options& options, std::shared_ptr<const learn::FittedModel> fitted,
                                               host::LogWriter& log, std::atomic<bool>& renewed) {
  const auto tell = [&log](const serve::DriftWatch::News& news) {
    host::LogLine line(host::LogLevel::warning, "model_drift");
    line.text("model", news.model).text("device", news.device).number("real_over_predicted", news.ratio);
    if (!news.problem.empty()) line.text("not_fitted_anew", news.problem);
    log.write(line);
  };
  return std::make_unique<serve::DriftWatch>(std::move(fitted), tell, [&](const learn::FittedModel& model) {
    if (!options.refit.empty()) {
      if (const auto written = host::write_file_atomically(options.refit, lab::write_model(model)); !written) {
        host::LogLine line(host::LogLevel::error, "model_not_written");
        line.text("reason", written.error().message);
        log.write(line);
      }
    }
    // No reload there reads the model, and one would put a plan in force that nobody has asked for.
    if (options.following.wanted()) return;
    if (options.config.engine == "emulated") return;  // It takes its run times from the model itself.
    // The reload starts by a signal, as a user's does, so there is only one way to change the plan of a running server.
    // The flag is set first: load_again() may run as soon as the signal is sent.
    renewed = true;
    kill(getpid(), SIGHUP);
  });
}

Result<std::unique_ptr<serve::RecordingFile>> open_recording(const std::string& path, host::LogWriter& log) {
  // A recording that cannot be written is an error in the log. It does not stop the server.
  serve::RecordingFile::Config config;
  config.on_problem = [&log](const Error& problem) {
    log.write(host::LogLine(host::LogLevel::error, "recording_failed").text("reason", problem.message));
  };
  return serve::RecordingFile::open(path, std::move(config));
}

// Names are compared in lower case, and an origin that cannot match is a mistake.
Result<Nothing> check_cross_site(serve::CrossSiteRules& rules) {
  for (auto& name : rules.admin_hosts) {
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    if (name.empty() || name.find_first_of(":/ ") != std::string::npos) {
      return Error{ErrorCode::invalid, fmt::format("--admin-host: expected a name without port, got \"{}\"", name)};
    }
  }
  for (const auto& origin : rules.origins) {
    if (serve::is_origin(origin)) continue;
    return Error{ErrorCode::invalid,
                 fmt::format("--cors-origin: expected * or an origin in lower case without a path, such as "
                             "https://app.example, got \"{}\"",
                             origin)};
  }
  return Nothing{};
}

Result<ExitCode> run(Session& session, Options options) {
  if (const char* folder = std::getenv("TANGRAM_STATE"); folder != nullptr && options.following.state.empty()) {
    options.following.state = folder;
  }
  options.config.manager = host::ServiceManager::from_environment();
  TANGRAM_RETURN_IF_ERROR(check_security_options(options));
  TANGRAM_RETURN_IF_ERROR(check_following_options(options.following));
  TANGRAM_RETURN_IF_ERROR(check_cross_site(options.config.cross_site));
  serve::return_memory_early();
  if (options.plan.empty() != options.following.wanted()) {
    return session.fail({ErrorCode::invalid, options.plan.empty()
                                                 ? "expected PLAN, or --follow FLEET to make plans for a fleet"
                                                 : "--follow makes its own plans: leave out PLAN"});
  }
  if (options.training.empty() && options.training_lends != "slices") {
    return session.fail({ErrorCode::invalid, "--training-lends needs --training DIR"});
  }
  if (options.training.empty() && !options.training_python.empty()) {
    return session.fail({ErrorCode::invalid, "--training-python needs --training DIR"});
  }
  // Both would be ambiguous, and without run times the scheduler cannot tell which requests will be late.
  if (options.latency.measurements.empty() == options.latency.model.empty()) {
    return session.fail(
        {ErrorCode::invalid, "expected --measurements FILE or --model FILE, to read the run times from"});
  }
  // Parsed even without workers, so that a wrong --gpu is always an error.
  TANGRAM_TRY(options.following.gpus, recut::parse_gpu_choices(options.gpus));
  // From here to open() every error ends the program before a port is bound.
  TANGRAM_TRY(options.config.address, host::resolve_host(options.config.address));
  TANGRAM_TRY(options.config.admin_address, host::resolve_host(options.config.admin_address));
  TANGRAM_TRY(auto served,
              options.following.wanted() ? load_following(session, options, options.config.manager) : load(options));
  if (const auto& why = served.following.infeasible; !why.empty()) {
    session.note(why);
    return ExitCode::answer_is_no;
  }
  // Before the first thread starts, because threads inherit the signal mask.
  serve::keep_signals_for_server();
  // Before the model, so that it is destroyed after it: the thread of the drift watch writes to the log.
  host::LogWriter log(STDERR_FILENO);
  WatchedModel model;
  if (served.following.setup != nullptr) keep_state(served.following, log);
  serve::ServerConfig config = server_config(options, served.workload, model);
  TANGRAM_RETURN_IF_ERROR(set_up_engine(options, served, config));
  TANGRAM_RETURN_IF_ERROR(set_up_nodes(options, served.workload, config));
  if (served.following.setup != nullptr) {
    for (const auto& group : served.following.setup->fleet.groups) {
      if (group.price_per_hour > 0) config.page.history.prices[group_name(group)] = group.price_per_hour;
      for (const auto& device : device_names(group)) {
        config.remote_of_device.emplace(device, config.remote_of_device.size());
      }
    }
  }
  WhatIfBase what_if{.fleet = {}, .plan = served.plan, .workload = served.workload, .latency = served.latency};
  if (served.following.setup != nullptr) what_if.fleet = served.following.setup->fleet;
  config.page.what_if = make_what_if(std::move(what_if));
  if (!options.training.empty()) {
    if (served.following.setup == nullptr) {
      options.lending->set(served.plan, served.workload, served.latency);
    } else {
      served.following.setup->in_force = [tables = options.lending, latency = served.latency](
                                             const control::RunningPlan& running,
                                             const std::vector<Service>& services) {
        tables->set(running.standing, services, latency);
      };
    }
    config.training = serve::TrainingOptions{.folder = options.training,
                                             .python = options.training_python,
                                             .nice = options.training_nice,
                                             .whole_devices = options.training_lends == "devices",
                                             .lending = {},
                                             .needs = {}};
    // A slice is back within two steps of a job, and not after loading a model.
    config.training->lending.lead = std::chrono::seconds(1);
    config.training->lending.guard = std::chrono::seconds(5);
    config.training->lending.forgives_in_silence = true;
    config.training->needs = [tables = options.lending] { return tables->make(); };
  }
  TANGRAM_TRY(config.emulated_cuts, emulated_cuts(options.following));
  recut::GpuChoices choices = options.following.gpus;
  if (options.following.cuts == "nvml") {
    TANGRAM_TRY(choices, cut_for_start(options.following, served.following));
    config.gpu_cuts = serve::GpuCutOptions{.choices = choices, .directory = recut::state_directory(""), .after = {}};
    for (const auto& group : served.following.setup->fleet.groups) {
      for (const auto& device : device_names(group)) config.gpu_cuts->reserved.emplace(device, group.reserved);
    }
  }
  const bool needs_slices = loads_models(options, served.workload);
  TANGRAM_TRY(const auto pinned,
              pin_workers(needs_slices, options.following.wanted(), choices, served.deployment, config));
  TANGRAM_TRY(auto security, load_security(options));
  config.security = std::move(security);
  std::unique_ptr<serve::RecordingFile> recording;
  if (!options.record.empty()) {
    TANGRAM_TRY(auto opened, open_recording(options.record, log));
    recording = std::move(opened);
    config.recording = [&recording](std::string_view line) { recording->add(line); };
  }
  if (!pinned.empty()) log.write(host::LogLine(host::LogLevel::info, "workers_not_pinned").text("reason", pinned));
  bool all_answered = true;
  // With a time scale of 0 batches take no time, and every model would seem to have drifted.
  if (served.fitted != nullptr && options.config.emulated.time_scale > 0) {
    // No batch can arrive before the server starts, so the callback never sees a null watch.
    config.on_batch = [&model](const serve::ServedBatch& batch) { model.watch->served(batch); };
    model.watch = watch_model(options, served.fitted, log, model.renewed);
  }
  {
    // The inner scope destroys the server, and with it every thread that calls back, before the watch and the
    // recording.
    serve::Server server(std::move(served.deployment), served.workload, std::move(config), log,
                         std::move(served.following.setup));
    TANGRAM_RETURN_IF_ERROR(server.open());
    tell_where(log, options, server, served.workload.services.size());
    all_answered = server.run();
    // A worker that could never start is a wrong setup: end with an error instead of serving without that slice.
    if (!server.unrecoverable().empty()) return session.fail({ErrorCode::unavailable, server.unrecoverable()});
  }
  model.watch.reset();
  if (!all_answered) {
    log.write(host::LogLine(host::LogLevel::warning, "stopped")
                  .text("reason", "requests were not answered before the exit timeout"));
  }
  // The reason is in the log already, through on_problem.
  if (recording != nullptr && !recording->finish()) return ExitCode::no_access;
  return all_answered ? ExitCode::done : ExitCode::answer_is_no;
}

// `remote` is not in the registry of batch engines: its batches run on another server.
std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const auto& engine : engines::batch_engines()) names.emplace_back(engine.name);
  names.emplace_back(engines::kCommandEngine);
  names.emplace_back(engines::kRemoteEngine);
  return names;
}

// The options that name files.
void add_files(Program& program, Arguments& verb, Options& options) {
  const auto file = [&](const char* name, std::string& path, const char* help) {
    return program.offers_files(verb.add_option(name, path, help)->type_name("FILE"));
  };
  program.offers_files(verb.add_option("PLAN", options.plan, "The plan file. Not with --follow."));
  file("--services", options.services, "The services file.")->required();
  file("--measurements", options.latency.measurements, "Measured run times, CSV, interpolated linearly.");
  file("--model", options.latency.model,
       "A latency model of `tangram learn`. If served batches take longer or shorter for some time, the server logs a "
       "warning and fits the model again.");
  file("--refit", options.refit, "The file for a model that was fitted again, for the next plan.");
  file("--access", options.access, "The access file: tenants with their keys, rates and quotas.");
  file("--tls-certificate", options.tls_certificate, "Use TLS with this certificate chain.");
  file("--tls-key", options.tls_key, "The private key of the certificate.");
  file("--tls-client-ca", options.tls_client_ca, "Accept only clients with a certificate of these authorities.");
  file("--admin-socket", options.config.admin_socket,
       "Also listen on this Unix socket for metrics, status and reload, open to this user only.");
  file("--record", options.record, "Record every event and decision, for `tangram replay`.");
}

// The options with a number in a range.
void add_numbers(Program& program, Arguments& verb, Options& options) {
  const auto whole = [&](const char* name, auto& value, std::int64_t min, std::int64_t max, const char* help) {
    program.whole_number(verb.add_option(name, value, help)->type_name("N"), min, max);
  };
  whole("--http-port", options.config.http_port, 0, 65535, "The port for HTTP; 0 chooses a free one.");
  whole("--grpc-port", options.grpc_port, 0, 65535, "The port for gRPC; 0 chooses a free one.");
  whole("--metrics-port", options.config.metrics_port, 0, 65535,
        "The port for metrics, status, reload, log level and drain; 0 chooses a free one.");
  whole("--node-port", options.node_port, 0, 65535,
        "Run every slice on nodes, `tangram node`, which join at this port; 0 chooses a free one.");
  whole("--threads", options.config.threads, 1, 256,
        "The number of I/O threads. With one, it also schedules; with more, the scheduler has its own thread.");
  whole("--connections-max", options.config.limits.connections_max, 1, 1'000'000,
        "The largest number of connections per thread. Where it is reached, quiet connections give way to new ones.");
  whole("--connections-per-peer", options.config.limits.peer_max, 0, 1'000'000,
        "The largest number of HTTP connections of one IPv4 address, or of one /64 of IPv6. Default: half of all.");
  whole("--requests-max", options.config.scheduler.requests_max, 1, 1'000'000,
        "The largest number of requests that wait or run; further requests are rejected.");
  const auto number = [&](const char* name, double& value, const char* unit, double min, double max, const char* help) {
    verb.add_option(name, value, help)->type_name(unit)->range(min, max);
  };
  number("--body-max", options.body_max_mib, "MIB", 0.001, 65536, "The largest request body.");
  number("--history-mib", options.history_mib, "MIB", 1, 65536,
         "The memory for the history that the page shows; what is older becomes coarser.");
  number(
      "--memory-max", options.memory_max_mib, "MIB", 16, 1048576,
      "The memory for all that is held for callers, over HTTP and gRPC: requests, what they become, and answers that "
      "were not taken yet. Default: a quarter of the container's memory, at most 1024.");
  number("--head-max", options.head_max_kib, "KIB", 0.25, 1024, "The largest request head.");
  number("--node-wait", options.node_wait_s, "S", 0, 3600,
         "How long to wait for nodes that are missing, before those that are here serve.");
  number("--exit-timeout", options.exit_timeout_s, "S", 0, 86400, "How long to wait for unanswered requests at exit.");
  number("--drain-delay", options.drain_delay_s, "S", 0, 3600,
         "At exit, say that the server is not ready for so long, and still take requests, before it stops accepting "
         "connections. Load balancers see it meanwhile. Default: 0.");
  number("--time-scale", options.config.emulated.time_scale, "X", 0, 1000,
         "Multiplies the run times of the emulated engine; 0 answers at once.");
}

}  // namespace
}  // namespace serve_verb

void add_serve(Program& program) {
  using namespace serve_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "serve",
       .group = "Serve",
       .summary = "serve the services of a plan over HTTP and gRPC",
       .description =
           "Serves the services of a plan with the Open Inference Protocol v2 over HTTP and gRPC, until SIGTERM or "
           "Ctrl-C; it then answers the requests it has and exits. The scheduler is the one that `tangram simulate` "
           "runs. Requests are padded to their bucket, batched, and answered as if each had run alone; a request "
           "that no slice can answer in time is rejected at once with 429. SIGHUP or `tangram reload` reads the "
           "files again and moves to the new plan without dropping a request. Slices run the engine `emulated`, "
           "which takes the time that --measurements or --model predicts, unless --engine names another. With "
           "--workers, each slice has a process of its own, which is replaced when it crashes, hangs or sends an "
           "invalid answer; the worker of a GPU slice runs on its MIG device, which `tangram apply` creates. Logs "
           "are lines of JSON on standard error. The metrics port also serves a page (`/`) that shows the fleet, its "
           "past hours, and why promises were broken.",
       .examples =
           {{"tangram serve examples/serving/plan.json --services examples/serving/services.yaml --measurements "
             "examples/measurements.csv",
             "Serve the example plan on the default ports."},
            {"tangram serve examples/serving/plan.json --services examples/serving/services.yaml --measurements "
             "examples/measurements.csv --threads 2 --record DIR/day.recording",
             "With two I/O threads, and a recording of every decision."},
            {"tangram serve examples/serving/plan.json --services examples/serving/services.yaml --measurements "
             "examples/measurements.csv --workers",
             "With a process for each slice."},
            {"tangram serve examples/serving/plan.json --services examples/serving/services.yaml --measurements "
             "examples/measurements.csv --address 0.0.0.0 --tls-certificate DIR/server.pem --tls-key DIR/server.key "
             "--access DIR/access.yaml",
             "Accept remote clients over TLS, with the tenants of the access file."},
            {"tangram serve examples/serving/plan.json --services examples/serving/services.yaml --measurements "
             "examples/measurements.csv --address 0.0.0.0 --node-port 8003",
             "Run the slices on other machines: each runs `tangram node --join`."},
            {"tangram serve --follow examples/fleet.yaml --services examples/services.yaml --measurements "
             "examples/measurements.csv --engine emulated --cuts emulated --speed 60",
             "Rehearse a day in 24 minutes: follow the traffic on an emulated fleet."}},
       .text_only = true},
      [options](Session& session) { return run(session, *options); });
  add_files(program, verb, *options);
  add_following_options(program, verb, options->following);
  verb.add_option("--address", options->config.address, "The address to listen on, or a name of this machine.")
      ->type_name("HOST");
  verb.add_option("--admin-address", options->config.admin_address, "The address of the metrics port, or a name.")
      ->type_name("HOST");
  add_numbers(program, verb, *options);
  verb.add_option("--node-address", options->node_address,
                  "The address at which nodes join, or a name; default: --address.")
      ->type_name("HOST");
  program.offers_files(
      verb.add_option("--node-state", options->node_state,
                      "The folder of the gateway's identity, join tokens and nodes; default: `nodes` in $TANGRAM_STATE, "
                      "/var/lib/tangram or ~/.local/state/tangram.")
          ->type_name("DIR"));
  verb.add_flag("--node-munge", options->node_munge,
                "Let in nodes of this user that show a credential of MUNGE instead of a join token.");
  program.one_of(verb.add_option("--policy", options->config.scheduler.policy, "The dispatch policy.")->type_name("P"),
                 sched::policy_names());
  program.one_of(verb.add_option("--engine", options->config.engine,
                                 "The engine that runs the batches of services that name none.")
                     ->type_name("E"),
                 engine_names());
  verb.add_option("--worker-user", options->worker_user,
                  "The user that workers become before they load a model. Needs root.")
      ->type_name("NAME");
  verb.add_flag(
      "--workers", options->config.workers,
      "Run each slice in a process of its own. Engines that load models always do; `emulated` otherwise runs inside "
      "the server.");
  program.offers_files(
      verb.add_option("--models", options->config.models,
                      "The folder that contains the weights, with the names in `model` of the services file.")
          ->type_name("DIR"));
  verb.add_option("--command", options->config.command,
                  "The shell command for the engine command: it starts a server of the Open Inference Protocol on a "
                  "slice. {port}, {model}, {slice} and {cores} are replaced.")
      ->type_name("COMMAND");
  program.one_of(
      verb.add_option("--onnx-provider", options->config.onnx_provider,
                      "What computes for the engine onnx; default: cpu on the host's cores, cuda on a GPU. A "
                      "provider that cannot be used is an error.")
          ->type_name("P"),
      {"cpu", "cuda", "tensorrt"});
  verb.add_option(
          "--remote", options->remotes,
          "A server (HOST:PORT) that runs batches for the engine remote; slices take the servers in turn. May be "
          "repeated.")
      ->type_name("ADDRESS");
  add_caller_options(program, verb, options->remote_caller, "remote-");
  verb.add_option("--gpu", options->gpus,
                  "The GPU for a device of the plan, NAME=UUID or NAME=INDEX, as for `tangram apply`.")
      ->type_name("CHOICE");
  program.offers_files(
      verb.add_option(
              "--training", options->training,
              "Lend slices that inference does not need to training jobs, whose state is kept in this folder. "
              "Tenants of the role admin, or without --access this user, can then run commands: see `tangram train`.")
          ->type_name("DIR"));
  program.offers_files(verb.add_option("--training-python", options->training_python,
                                       "The Python interpreter of training jobs; default: the first that has PyTorch.")
                           ->type_name("FILE"));
  program.whole_number(
      verb.add_option("--training-nice", options->training_nice,
                      "The nice value of training jobs: how far they give way to others on their cores.")
          ->type_name("N"),
      0, 19);
  program.one_of(verb.add_option("--training-lends", options->training_lends,
                                 "What is lent: each of the `slices` that inference does not need, or those of whole "
                                 "`devices` of which it needs none.")
                     ->type_name("W"),
                 {"slices", "devices"});
  verb.add_option("--admin-host", options->config.cross_site.admin_hosts,
                  "A name under which the admin port may be asked, besides numbers and localhost. May be repeated.")
      ->type_name("NAME");
  verb.add_option("--cors-origin", options->config.cross_site.origins,
                  "An origin, such as https://app.example, whose pages may use the data port; * is every one. May be "
                  "repeated.")
      ->type_name("ORIGIN");
  verb.add_flag("--no-grpc", options->no_grpc, "Serve HTTP only.");
  verb.add_flag("--no-admission", options->no_admission, "Also accept requests that will be late.");
  program.one_of(verb.add_option("--log-level", options->log_level,
                                 "What to log; each level includes those before it. `tangram log-level` changes it.")
                     ->type_name("L"),
                 {"error", "warning", "info", "requests"});
  verb.add_flag("--log-requests", options->log_requests, "Same as --log-level requests.");
  verb.add_flag("--triton-metrics", options->config.triton_metrics,
                "Also export metrics under the nv_inference_* names.");
}

}  // namespace tangram::cli
