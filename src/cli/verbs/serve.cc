// `tangram serve`: a plan behind an address.

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>

#include "base/text.h"
#include "cli/build_info.h"
#include "cli/inputs.h"
#include "cli/plan_inputs.h"
#include "cli/program.h"
#include "cli/server_options.h"
#include "engines/batch_engine.h"
#include "formats/access_file.h"
#include "formats/plan_file.h"
#include "host/files.h"
#include "lab/model_file.h"
#include "recut/mig_pins.h"
#include "sched/policy.h"
#include "serve/drift_watch.h"
#include "serve/grpc_server.h"
#include "serve/recording_file.h"
#include "serve/server.h"

namespace tangram::cli {
namespace {

// What the command line sets beside the fields of `config`, or in other units.
struct Options {
  serve::ServerConfig config;
  std::string plan;
  std::string services;
  LatencySource latency;
  std::uint16_t grpc_port = serve::GrpcConfig().port;
  bool no_grpc = false;
  std::vector<std::string> remotes;
  CallerOptions remote_caller;
  std::vector<std::string> gpus;
  std::string refit;
  std::string record;
  std::string access;
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;
  std::string log_level{to_string(config.log_level)};
  bool no_admission = false;
  bool log_requests = false;
  double exit_timeout_s = to_seconds(config.exit_timeout);
  double body_max_mib = static_cast<double>(config.limits.body_max) / (1 << 20);
  double head_max_kib = static_cast<double>(config.limits.head_max) / (1 << 10);
};

constexpr std::uint64_t kPemMax = 1 << 20;

struct Served {
  Workload workload;
  sched::Deployment deployment;
  std::shared_ptr<const learn::FittedModel> fitted;  // With --model; else null.
};

// Everything that the user's files say, compiled; with `fitted`, that takes the place of the model file.
Result<Served> load(const Options& options, std::shared_ptr<const learn::FittedModel> fitted = nullptr) {
  TANGRAM_TRY(const auto source, read_source(options.plan));
  TANGRAM_TRY(const auto plan, formats::parse_plan(source));
  TANGRAM_TRY(auto workload, load_workload(options.services));
  TANGRAM_TRY(auto latency,
              fitted == nullptr ? load_latency(options.latency) : std::shared_ptr<const LatencyModel>(fitted));
  fitted = std::dynamic_pointer_cast<const learn::FittedModel>(latency);
  auto deployment = sched::compile(plan, workload, *latency);
  if (!deployment) return Error{deployment.error().code, options.plan + ": " + deployment.error().message};
  return Served{std::move(workload), std::move(*deployment), std::move(fitted)};
}

// Certificates and access, as the files say now.
Result<serve::Security> load_security(const Options& options) {
  serve::Security security;
  if (!options.access.empty()) {
    TANGRAM_TRY(const auto source, read_source(options.access));
    TANGRAM_TRY(auto access, formats::parse_access(source));
    security.access = std::move(access);
  }
  if (options.tls_certificate.empty()) return security;
  host::TlsMaterial material;
  const auto read = [](const std::string& path, std::string& text) -> Result<Nothing> {
    if (path.empty()) return Nothing{};
    TANGRAM_TRY(auto content, host::read_file(path, kPemMax));
    text = std::move(content);
    return Nothing{};
  };
  TANGRAM_RETURN_IF_ERROR(read(options.tls_certificate, material.certificate));
  TANGRAM_RETURN_IF_ERROR(read(options.tls_key, material.key));
  TANGRAM_RETURN_IF_ERROR(read(options.tls_client_ca, material.authorities));
  material.certificate_file = options.tls_certificate;
  material.key_file = options.tls_key;
  material.authorities_file = options.tls_client_ca;
  security.tls = std::move(material);
  return security;
}

// The devices of a deployment as a plan has them.
Plan devices_of(const sched::Deployment& deployment) {
  Plan plan;
  for (const auto& device : deployment.devices) {
    plan.devices.push_back({device.name, device.geometry.type, device.geometry, {}});
    for (const auto& slice : device.layout.slices) plan.devices.back().slices.push_back({slice, {}});
  }
  return plan;
}

// Workers of slices of GPUs run on their MIG devices, which are looked up now and at each reload.
Result<std::string> pin_workers(const Options& options, const sched::Deployment& deployment,
                                serve::ServerConfig& config) {
  TANGRAM_TRY(const auto choices, recut::parse_gpu_choices(options.gpus));
  if (!config.workers) return std::string();
  const auto pins = std::make_shared<recut::MigPins>(choices, options.config.engine != "emulated");
  auto note = pins->look_up(devices_of(deployment));
  if (!note) return note.error();
  config.worker_environment = [pins](const std::string& device, const Slice& slice) {
    return pins->environment(device, slice);
  };
  config.reload = [pins, read = config.reload]() -> Result<sched::Deployment> {
    auto again = read();
    if (!again) return again;
    TANGRAM_RETURN_IF_ERROR(pins->look_up(devices_of(*again)));
    return again;
  };
  return note;
}

// What the server goes by: the services, and the model in force and whether it is newer than its file.
struct WatchedModel {
  Workload workload;  // As served since the start.
  std::atomic<bool> renewed{false};
  std::unique_ptr<serve::DriftWatch> watch;  // Null: nothing to watch.
};

// The files again; the model only if it is not the server itself that asks, with one that it has fitted.
Result<sched::Deployment> load_again(const Options& options, WatchedModel& model) {
  const bool renewed = model.renewed.exchange(false) && model.watch != nullptr;
  TANGRAM_TRY(auto again, load(options, renewed ? model.watch->model() : nullptr));
  if (const auto alike = serve::check_served_alike(model.workload, again.workload); !alike) {
    return Error{alike.error().code, options.services + ": " + alike.error().message};
  }
  if (!renewed && model.watch != nullptr && again.fitted != nullptr) model.watch->restart(again.fitted);
  return std::move(again.deployment);
}

// `model` outlives what is made of it.
serve::ServerConfig server_config(const Options& options, WatchedModel& model) {
  serve::ServerConfig config = options.config;
  if (serve::has_grpc() && !options.no_grpc) config.grpc_port = options.grpc_port;
  config.limits.body_max = static_cast<std::uint64_t>(options.body_max_mib * 1024 * 1024);
  config.limits.head_max = static_cast<std::size_t>(options.head_max_kib * 1024);
  config.scheduler.admission = !options.no_admission;
  config.workers |= config.engine != "emulated" && config.engine != engines::kRemoteEngine;
  config.version = build_info().version;
  config.log_level = options.log_requests ? host::LogLevel::requests
                                          : host::parse_log_level(options.log_level).value_or(host::LogLevel::info);
  config.exit_timeout = from_seconds(options.exit_timeout_s);
  config.reload = [options, &model] { return load_again(options, model); };
  if (!options.access.empty() || !options.tls_certificate.empty()) {
    config.reload_security = [options] { return load_security(options); };
  }
  return config;
}

// How the servers behind --remote know us, and we them.
Result<engines::RemoteCaller> remote_caller(const CallerOptions& options) {
  engines::RemoteCaller caller;
  // Not $TANGRAM_TOKEN, which is for whoever asks this server.
  if (!options.token_file.empty()) {
    TANGRAM_TRY(auto key, options.key());
    caller.key = std::move(key);
  }
  TANGRAM_TRY(auto tls, options.tls_context());
  caller.tls = std::move(tls);
  caller.server_name = options.server_name;
  return caller;
}

// What of the options cannot be checked one by one.
Result<Nothing> set_up_engine(const Options& options, serve::ServerConfig& config) {
  const bool remote = options.config.engine == engines::kRemoteEngine;
  if (remote == options.remotes.empty()) {
    return Error{ErrorCode::invalid, remote ? "the engine remote needs --remote IP:PORT, where batches run"
                                            : "--remote is for --engine remote"};
  }
  if (!remote && (options.remote_caller.wants_tls() || !options.remote_caller.token_file.empty())) {
    return Error{ErrorCode::invalid, "--remote-ca and its like are for --engine remote"};
  }
  for (const auto& text : options.remotes) {
    TANGRAM_TRY(auto address, engines::parse_remote_address(text));
    config.remotes.push_back(std::move(address));
  }
  if (remote) {
    TANGRAM_TRY(auto caller, remote_caller(options.remote_caller));
    config.remote_caller = std::move(caller);
    config.reload_remote_caller = [caller_options = options.remote_caller] { return remote_caller(caller_options); };
  }
  if (config.workers && worker::find_worker_program().empty()) {
    return Error{ErrorCode::not_found, "the program tangram-worker is not beside this one: workers cannot be started"};
  }
  return Nothing{};
}

Result<Nothing> check_security_options(const Options& options) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return Error{ErrorCode::invalid, "--tls-certificate and --tls-key belong together"};
  }
  if (!options.tls_client_ca.empty() && options.tls_certificate.empty()) {
    return Error{ErrorCode::invalid, "--tls-client-ca needs --tls-certificate and --tls-key"};
  }
  return Nothing{};
}

// "127.0.0.1:8000", "[::1]:8000".
std::string host_and_port(const std::string& address, std::uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", address, v6 ? "]" : "", port);
}

// Where clients find it. Written whatever the log's level is, because free ports are known from nowhere else.
void tell_where(host::LogWriter& log, const Options& options, const serve::Server& server, std::size_t models) {
  const char* scheme = options.tls_certificate.empty() ? "http" : "https";
  host::LogLine line(host::LogLevel::info, "serving");
  line.integer("models", static_cast<std::int64_t>(models));
  line.text("http", fmt::format("{}://{}", scheme, host_and_port(options.config.address, server.http_port())));
  if (server.grpc_port() != 0) line.text("grpc", host_and_port(options.config.address, server.grpc_port()));
  line.text("metrics",
            fmt::format("{}://{}/metrics", scheme, host_and_port(options.config.admin_address, server.metrics_port())));
  log.write(line.done());
}

// Watches the model that the server runs by. What it learns is written to the file of --refit and comes into force as a
// reload does.
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
    if (options.config.engine == "emulated") return;  // It runs by the model: to change that would be to move the goal.
    renewed = true;
    kill(getpid(), SIGHUP);
  });
}

Result<std::unique_ptr<serve::RecordingFile>> open_recording(const std::string& path, host::LogWriter& log) {
  serve::RecordingFile::Config config;
  config.on_problem = [&log](const Error& problem) {
    log.write(host::LogLine(host::LogLevel::error, "recording_failed").text("reason", problem.message));
  };
  return serve::RecordingFile::open(path, std::move(config));
}

Result<ExitCode> run(Session& session, const Options& options) {
  TANGRAM_RETURN_IF_ERROR(check_security_options(options));
  if (options.latency.measurements.empty() == options.latency.model.empty()) {
    return session.fail(
        {ErrorCode::invalid, "expected one of --measurements FILE and --model FILE: how long runs take"});
  }
  TANGRAM_TRY(auto served, load(options));
  WatchedModel model;
  model.workload = served.workload;
  serve::ServerConfig config = server_config(options, model);
  TANGRAM_RETURN_IF_ERROR(set_up_engine(options, config));
  TANGRAM_TRY(const auto pinned, pin_workers(options, served.deployment, config));
  TANGRAM_TRY(auto security, load_security(options));
  config.security = std::move(security);
  serve::keep_signals_for_server();
  host::LogWriter log(STDERR_FILENO);
  std::unique_ptr<serve::RecordingFile> recording;
  if (!options.record.empty()) {
    TANGRAM_TRY(auto opened, open_recording(options.record, log));
    recording = std::move(opened);
    config.recording = [&recording](std::string_view line) { recording->add(line); };
  }
  if (!pinned.empty()) log.write(host::LogLine(host::LogLevel::info, "workers_not_pinned").text("reason", pinned));
  bool all_answered = true;
  if (served.fitted != nullptr && options.config.emulated.time_scale > 0) {
    config.on_batch = [&model](const serve::ServedBatch& batch) { model.watch->served(batch); };
    model.watch = watch_model(options, served.fitted, log, model.renewed);
  }
  {
    serve::Server server(std::move(served.deployment), served.workload, std::move(config), log);
    TANGRAM_RETURN_IF_ERROR(server.open());
    tell_where(log, options, server, served.workload.services.size());
    all_answered = server.run();
    if (!server.unrecoverable().empty()) return session.fail({ErrorCode::unavailable, server.unrecoverable()});
  }
  model.watch.reset();
  if (!all_answered) {
    log.write(host::LogLine(host::LogLevel::warning, "stopped")
                  .text("reason", "requests are unanswered: the exit timeout had passed"));
  }
  if (recording != nullptr && !recording->finish()) return ExitCode::no_access;
  return all_answered ? ExitCode::done : ExitCode::answer_is_no;
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const auto& engine : engines::batch_engines()) names.emplace_back(engine.name);
  names.emplace_back(engines::kRemoteEngine);
  return names;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const auto& policy : sched::policies()) names.emplace_back(policy.name);
  return names;
}

void add_files(Program& program, Arguments& verb, Options& options) {
  const auto file = [&](const char* name, std::string& path, const char* help) {
    return program.offers_files(verb.add_option(name, path, help)->type_name("FILE"));
  };
  program.offers_files(verb.add_option("PLAN", options.plan, "The plan file.")->required());
  file("--services", options.services, "The services file.")->required();
  file("--measurements", options.latency.measurements, "How long runs take: measured, linear between.");
  file("--model", options.latency.model,
       "How long runs take: a model file of `tangram learn`. When served batches take another time for long, the log "
       "says so, and the server goes on by a model fitted anew.");
  file("--refit", options.refit, "Where to write a model that was fitted anew, for the next plan.");
  file("--access", options.access, "Who may call, and how much: tenants with keys, rates and quotas.");
  file("--tls-certificate", options.tls_certificate, "Speak TLS, with this certificate and those behind it.");
  file("--tls-key", options.tls_key, "Its private key.");
  file("--tls-client-ca", options.tls_client_ca, "Only clients with a certificate of these authorities.");
  file("--admin-socket", options.config.admin_socket,
       "Also a Unix socket for metrics, status and reload, for this user alone.");
  file("--record", options.record, "Write every event and decision, for `tangram replay`.");
}

void add_numbers(Program& program, Arguments& verb, Options& options) {
  const auto whole = [&](const char* name, auto& value, std::int64_t min, std::int64_t max, const char* help) {
    program.whole_number(verb.add_option(name, value, help)->type_name("N"), min, max);
  };
  whole("--http-port", options.config.http_port, 0, 65535, "The port of the protocol; 0 takes a free one.");
  whole("--grpc-port", options.grpc_port, 0, 65535, "The port of the same protocol over gRPC; 0 takes a free one.");
  whole("--metrics-port", options.config.metrics_port, 0, 65535,
        "The port of metrics, status, reload, log level and drain; 0 takes a free one.");
  whole("--threads", options.config.threads, 1, 256,
        "Threads that speak with clients. With one, it also schedules; with more, scheduling has a thread of its own.");
  whole("--connections-max", options.config.limits.connections_max, 1, 1'000'000, "Connections of each thread.");
  whole("--requests-max", options.config.scheduler.requests_max, 1, 1'000'000,
        "Requests that wait or run; one more is refused.");
  const auto number = [&](const char* name, double& value, const char* unit, double min, double max, const char* help) {
    verb.add_option(name, value, help)->type_name(unit)->range(min, max);
  };
  number("--body-max", options.body_max_mib, "MIB", 0.001, 65536, "The largest request body.");
  number("--head-max", options.head_max_kib, "KIB", 0.25, 1024, "The largest head of a request.");
  number("--exit-timeout", options.exit_timeout_s, "S", 0, 86400,
         "How long to wait for requests under way at the end.");
  number("--time-scale", options.config.emulated.time_scale, "X", 0, 1000,
         "The emulated engine takes this many times what the model says; 0 answers at once.");
}

}  // namespace

void add_serve(Program& program) {
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "serve",
       .group = "Serve",
       .summary = "a plan behind an address",
       .description =
           "Serves the services of a plan with the Open Inference Protocol v2 over HTTP and gRPC, until SIGTERM or "
           "Ctrl-C; what is under way then is answered first. The scheduler is the one that `tangram simulate` runs. Requests are "
           "padded to their bucket, batched, and answered as if each had run alone; one that no slice can answer in "
           "time is refused at once with 429. SIGHUP or `tangram reload` reads the files again and moves to the new "
           "plan without dropping a request. Slices run the engine `emulated`, which keeps the time that "
           "--measurements or --model says, unless --engine names another. With --workers each slice has a process of "
           "its own, which is replaced when it dies, hangs or answers rubbish; the worker of a slice of a GPU runs on "
           "its MIG device, which `tangram apply` makes. Logs are lines of JSON on standard error.",
       .examples =
           {{"tangram serve examples/serving/plan.json --services examples/serving/services.yaml --measurements "
             "examples/measurements.csv",
             "The example plan on the usual ports."},
            {"tangram serve examples/serving/plan.json --services examples/serving/services.yaml --measurements "
             "examples/measurements.csv --threads 2 --record DIR/day.recording",
             "With two I/O threads, and every decision on record."},
            {"tangram serve examples/serving/plan.json --services examples/serving/services.yaml --measurements "
             "examples/measurements.csv --workers",
             "Each slice in a process of its own."},
            {"tangram serve examples/serving/plan.json --services examples/serving/services.yaml --measurements "
             "examples/measurements.csv --address 0.0.0.0 --tls-certificate DIR/server.pem --tls-key DIR/server.key "
             "--access DIR/access.yaml",
             "Open to others, over TLS, to those whom the access file names."}},
       .text_only = true},
      [options](Session& session) { return run(session, *options); });
  add_files(program, verb, *options);
  verb.add_option("--address", options->config.address, "Where to listen, in numbers.")->type_name("IP");
  verb.add_option("--admin-address", options->config.admin_address, "Where the metrics port listens, in numbers.")
      ->type_name("IP");
  add_numbers(program, verb, *options);
  program.one_of(
      verb.add_option("--policy", options->config.scheduler.policy, "How work is dispatched.")->type_name("P"),
      policy_names());
  program.one_of(verb.add_option("--engine", options->config.engine, "What runs the batches.")->type_name("E"),
                 engine_names());
  verb.add_flag(
      "--workers", options->config.workers,
      "A process for each slice. Engines that load models always have them; `emulated` otherwise runs inside.");
  program.offers_files(verb.add_option("--models", options->config.models,
                                       "The folder with the weights, named as `model` in the services file.")
                           ->type_name("DIR"));
  verb.add_option("--remote", options->remotes,
                  "A server (IP:PORT) that runs batches for --engine remote; slices take turns.")
      ->type_name("ADDRESS");
  add_caller_options(program, verb, options->remote_caller, "remote-");
  verb.add_option("--gpu", options->gpus,
                  "Which GPU a device of the plan is, NAME=UUID or NAME=INDEX, as for `tangram apply`.")
      ->type_name("CHOICE");
  verb.add_flag("--no-grpc", options->no_grpc, "Serve HTTP alone.");
  verb.add_flag("--no-admission", options->no_admission, "Take requests that will be late, too.");
  program.one_of(verb.add_option("--log-level", options->log_level,
                                 "What is logged; each holds those before it. `tangram log-level` changes it.")
                     ->type_name("L"),
                 {"error", "warning", "info", "requests"});
  verb.add_flag("--log-requests", options->log_requests, "The same as --log-level requests.");
  verb.add_flag("--triton-metrics", options->config.triton_metrics, "Also the nv_inference_* names.");
}

}  // namespace tangram::cli
