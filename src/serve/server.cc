#include "serve/server.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/check.h"
#include "serve/grpc_server.h"

namespace tangram::serve {
namespace {

// A real worker that says nothing for a second where ten times the expected is less is not coming back.
constexpr Duration kStuckMinOfWorkers = std::chrono::seconds(1);

std::int64_t wall_milliseconds() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
}

std::string request_line(const LiveWorld& world, const Call& call, const Outcome& outcome, TimePoint now) {
  host::LogLine line(host::LogLevel::requests, "request");
  line.text("id", call.id).text("model", call.model->name).text("outcome", to_string(outcome.kind));
  line.integer("status", http_status(call.status));
  if (call.tenant_state != nullptr) line.text("tenant", call.tenant_state->name);
  line.integer("size", call.size).integer("samples", call.samples);
  if (call.batch_samples > 0) {
    line.integer("bucket", call.padded_size).text("slice", slice_name(world, call.slice.index()));
    line.integer("batch", call.batch_samples);
    line.number("compute_ms", to_milliseconds(call.compute));
  }
  line.number("queue_ms", to_milliseconds(now - call.arrived - call.compute));
  if (!call.error.empty()) line.text("reason", call.error);
  if (!call.traceparent.empty()) line.text("traceparent", call.traceparent);
  return line.done();
}

// A plan may leave a service out; whoever made it may not have meant to.
void warn_of_unserved(host::LogWriter& log, const sched::Deployment& deployment) {
  for (const auto& service : deployment.services) {
    if (!service.pools.empty()) continue;
    log.write(host::LogLine(host::LogLevel::warning, "service_without_replica")
                  .text("model", service.name)
                  .text("reason", "no slice of the plan holds it: every request for it is refused"));
  }
}

// Requests that are larger than all that the plan was made for: the traffic has moved away from it. Told when they
// begin to come, and then once a minute while they do.
class BeyondPlan {
 public:
  void add(host::LogWriter& log, const LiveWorld& world, const Call& call, TimePoint now) {
    ++count_;
    size_max_ = std::max(size_max_, call.size);
    samples_max_ = std::max(samples_max_, call.samples);
    if (now < quiet_until_) return;
    const auto& service = world.scheduler().state().deployment.services[call.model->service.index()];
    log.write(host::LogLine(host::LogLevel::warning, "requests_beyond_plan")
                  .text("model", call.model->name)
                  .integer("requests", count_)
                  .integer("size_max", size_max_)
                  .integer("samples_max", samples_max_)
                  .integer("plan_size_max", service.edges.empty() ? 0 : service.edges.back())
                  .integer("plan_samples_max", service.samples_max));
    *this = {};
    quiet_until_ = now + kEvery;
  }

 private:
  static constexpr Duration kEvery = std::chrono::minutes(1);

  // Since the last line, of all models together.
  std::int64_t count_ = 0;
  std::int64_t size_max_ = 0;
  std::int32_t samples_max_ = 0;
  TimePoint quiet_until_;
};

RefusedRequest refused_by_world(const Call& call) {
  RefusedRequest refused{refusal_of(call.status), http_status(call.status), call.error, call.model};
  refused.id = call.id;
  if (call.tenant_state != nullptr) refused.tenant = call.tenant_state->name;
  refused.traceparent = call.traceparent;
  return refused;
}

sigset_t server_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  return set;
}

// Signals as something to wait for.
class SignalWatch final : public host::Readiness {
 public:
  SignalWatch(host::EventLoop& loop, std::function<void(int)> handle) : loop_(loop), handle_(std::move(handle)) {
    const sigset_t set = server_signals();
    descriptor_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    TANGRAM_CHECK(descriptor_ >= 0, "the process may open one more descriptor");
    loop_.add(descriptor_, host::Interest::read, this);
  }
  ~SignalWatch() override {
    loop_.remove(descriptor_, this);
    close(descriptor_);
  }

  void on_ready(bool, bool, bool) override {
    signalfd_siginfo info;
    while (read(descriptor_, &info, sizeof info) == sizeof info) handle_(static_cast<int>(info.ssi_signo));
  }

 private:
  host::EventLoop& loop_;
  std::function<void(int)> handle_;
  int descriptor_ = -1;
};

}  // namespace

// An I/O thread with its loop and its sockets.
struct IoThread {
  host::EventLoop loop;
  std::unique_ptr<HttpServer> http;
  std::thread thread;
};

struct Server::Parts final : public CallOwner {
  Parts(sched::Deployment deployment, const Workload& workload, ServerConfig c, host::LogWriter& l)
      : config(std::move(c)), log(l), models(served_models(deployment, workload, config.engine)) {
    for (const auto& model : models) signatures.push_back(&model.signature);
    GatewayConfig gateway_config{config.version, config.triton_metrics, nullptr};
    if (reloads_anything()) gateway_config.request_reload = [this] { ask_for_reload(); };
    gateway_config.request_drain = [this] { ask_to_stop(); };
    gateway_config.log = &log;
    gateway = std::make_unique<Gateway>(models, std::move(gateway_config));
    gateway->set_log_level(config.log_level);
    if (config.security.access) gateway->access.set(*config.security.access);
    LiveWorldConfig world_config;
    world_config.scheduler = config.scheduler;
    world_config.recording = config.recording;
    world_config.wall_start_ms = wall_milliseconds() - clock.now().time_since_epoch() / std::chrono::milliseconds(1);
    if (config.workers || config.engine == engines::kRemoteEngine)
      world_config.scheduler.stuck_min = std::min(config.scheduler.stuck_min, kStuckMinOfWorkers);
    world_config.make_executor = [this](SliceId slice, const sched::Place& place, engines::ExecutorEvents& events) {
      return make_executor(slice, place, events);
    };
    world_config.on_resolved = [this](const Call& call, const Outcome& outcome, TimePoint now) {
      if (call.tenant_state != nullptr) {
        call.tenant_state->outcomes[static_cast<std::size_t>(outcome.kind)].fetch_add(1, std::memory_order_relaxed);
      }
      if (gateway->log_requests()) log.write(request_line(*world, call, outcome, now));
      if (outcome.reason == RejectReason::too_large) beyond_plan.add(log, *world, call, now);
    };
    world_config.on_refused = [this](const Call& call) { gateway->tell_of_refused(refused_by_world(call)); };
    world_config.on_failure = [this](SliceId slice, const ServedModel& model, std::size_t requests,
                                     const std::string& reason) {
      log.write(host::LogLine(host::LogLevel::warning, "batch_failed")
                    .text("slice", slice_name(*world, slice.index()))
                    .text("model", model.name)
                    .integer("requests", static_cast<std::int64_t>(requests))
                    .text("reason", reason));
    };
    if (config.on_batch) {
      world_config.on_batch = [this](SliceId slice, const ServedModel& model, std::int32_t samples, std::int64_t size,
                                     Duration took) { tell_of_batch(slice, model, samples, size, took); };
    }
    warn_of_unserved(log, deployment);
    world = std::make_unique<LiveWorld>(std::move(deployment), models, std::move(world_config));
    // What a handler of the loop posts on this thread is handled when the handlers are through: no need to wake.
    world->set_waker([this] {
      if (std::this_thread::get_id() != driver || !loop.delivering()) loop.wake();
    });
  }
  ~Parts() override {
    if (reload_thread.joinable()) reload_thread.join();
    if (admin_socket_open) unlink(config.admin_socket.c_str());
  }

  void tell_of_batch(SliceId slice, const ServedModel& model, std::int32_t samples, std::int64_t size, Duration took) {
    const sched::State& state = world->scheduler().state();
    const sched::Place& place = state.slices[slice.index()].place;
    const Geometry& geometry = state.deployment.devices[place.device.index()].geometry;
    config.on_batch({geometry.type, geometry.profiles[place.slice.profile].name, model.network, samples, size, took});
  }

  std::unique_ptr<engines::Executor> make_executor(SliceId slice, const sched::Place& place,
                                                   engines::ExecutorEvents& events) {
    if (config.engine == engines::kRemoteEngine) return remotes.make(slice, remote_config(slice, place), events);
    if (!config.workers) return engines::make_emulated_executor(signatures, config.emulated);
    return workers.make(slice, worker_config(slice, place), events);
  }

  engines::RemoteConfig remote_config(SliceId slice, const sched::Place& place) const {
    engines::RemoteConfig remote;
    remote.address = config.remotes[slice.index() % config.remotes.size()];
    remote.caller = config.remote_caller;
    remote.title = slice_name(*world, slice.index());
    remote.models = model_specs(place);
    return remote;
  }

  worker::WorkerConfig worker_config(SliceId slice, const sched::Place& place) const {
    const sched::Deployment& deployment = world->scheduler().state().deployment;
    const Geometry& geometry = deployment.devices[place.device.index()].geometry;
    worker::WorkerConfig worker;
    worker.program = config.worker_program.empty() ? worker::find_worker_program() : config.worker_program;
    worker.title = slice_name(*world, slice.index());
    worker.patience = config.patience;
    worker.spec.engine = config.engine;
    worker.spec.config.device = geometry.type;
    worker.spec.config.time_scale = config.emulated.time_scale;
    worker.spec.models = model_specs(place);
    if (config.worker_environment)
      worker.environment = config.worker_environment(deployment.devices[place.device.index()].name, place.slice);
    if (geometry.units_per_core > 0) {
      const adapters::CoreShare share = adapters::core_share(geometry, place.slice, adapters::usable_cores());
      worker.spec.cores = share.cores;
      worker.spec.config.threads = share.threads();
      if (share.needs_quota()) worker.quota_cores = share.worth;
    }
    return worker;
  }

  std::vector<engines::ModelSpec> model_specs(const sched::Place& place) const {
    const sched::Deployment& deployment = world->scheduler().state().deployment;
    std::vector<engines::ModelSpec> specs;
    for (const auto& entry : deployment.pools[place.pool.index()].services) {
      specs.push_back(
          model_spec(models[entry.service.index()], entry, deployment.services[entry.service.index()].edges));
    }
    return specs;
  }

  engines::ModelSpec model_spec(const ServedModel& model, const sched::PoolService& entry,
                                const std::vector<std::int64_t>& edges) const {
    engines::ModelSpec spec;
    spec.service = model.service;
    spec.name = model.name;
    spec.network = model.network;
    spec.signature = model.signature;
    if (!config.models.empty()) spec.path = config.models + "/" + model.network;
    for (std::size_t bucket = 0; bucket < edges.size(); ++bucket) {
      if (entry.batch_max[bucket] > 0) spec.shapes.push_back({entry.batch_max[bucket], edges[bucket]});
    }
    return spec;
  }

  bool one_thread() const { return config.threads == 1; }
  bool reloads_anything() const { return config.reload || config.reload_security || config.reload_remote_caller; }

  const host::TlsSlot* tls_slot() const { return config.security.tls ? &tls : nullptr; }

  Result<Nothing> open() {
    if (config.security.tls) {
      auto made = host::TlsContext::for_server(*config.security.tls);
      if (!made) return made.error();
      tls.set(std::move(*made));
    }
    const int io_threads = one_thread() ? 1 : config.threads;
    for (int i = 0; i < io_threads; ++i) {
      host::EventLoop* its_loop = &loop;
      if (!one_thread()) its_loop = &io.emplace_back(std::make_unique<IoThread>())->loop;
      auto http = std::make_unique<HttpServer>(*its_loop, clock, *gateway, *world, config.limits, one_thread());
      const auto data = listen_at(config.address, i == 0 ? config.http_port : data_port, !one_thread());
      if (!data) return data.error();
      http->listen(*data, {.port = Port::data, .tls = tls_slot()});
      data_port = port_of(*data);
      if (i == 0) {
        if (const auto opened = open_admin(*http); !opened) return opened;
      }
      (one_thread() ? main_http : io.back()->http) = std::move(http);
    }
    return open_grpc();
  }

  // The admin interface lives on the first I/O thread.
  Result<Nothing> open_admin(HttpServer& http) {
    const auto admin = listen_at(config.admin_address, config.metrics_port, false);
    if (!admin) return admin.error();
    http.listen(*admin, {.port = Port::admin, .tls = tls_slot()});
    admin_port = port_of(*admin);
    if (config.admin_socket.empty()) return Nothing{};
    const auto local = listen_at_path(config.admin_socket);
    if (!local) return local.error();
    admin_socket_open = true;
    http.listen(*local, {.port = Port::admin, .trusted = true});
    return Nothing{};
  }

  Result<Nothing> open_grpc() {
    if (!config.grpc_port) return Nothing{};
    GrpcConfig grpc_config;
    grpc_config.address = config.address;
    grpc_config.port = *config.grpc_port;
    grpc_config.threads = config.threads;
    grpc_config.message_max = config.limits.body_max;
    grpc_config.head_max = config.limits.head_max;
    grpc_config.idle = config.limits.idle;
    grpc_config.tls = config.security.tls;
    grpc_config.clock = clock;
    auto made = make_grpc_server(grpc_config, *gateway, *world);
    if (!made) return made.error();
    grpc = std::move(*made);
    return Nothing{};
  }

  bool run() {
    prctl(PR_SET_TIMERSLACK, 1);  // A wake-up may be late by a nanosecond, not by the usual 50 microseconds.
    SignalWatch signals(loop, [this](int number) { number == SIGHUP ? ask_for_reload() : ask_to_stop(); });
    for (auto& part : io) part->thread = std::thread([this, &part] { run_io(*part); });
    driver = std::this_thread::get_id();
    world->open_slices();
    bool all_answered = false;
    while (!(all_answered = drained()) && !(draining && clock.now() >= drain_deadline)) {
      if (!told_ready && world->slices_starting() == 0) tell_ready();
      if (!workers.hopeless().empty() && !draining) begin_drain();
      if (stop_asked.exchange(false)) begin_drain();
      // One plan moves at a time; the next waits for it.
      if (!world->scheduler().moving() && reload_asked.exchange(false)) begin_reload();
      turn();
    }
    finished = true;
    if (reload_thread.joinable()) reload_thread.join();
    grpc.reset();
    for (auto& part : io) {
      part->loop.wake();
      part->thread.join();
    }
    return all_answered && workers.hopeless().empty();
  }

  void tell_ready() {
    told_ready = true;
    workers.end_first_start();
    gateway->set_ready(true);
    if (grpc) grpc->set_serving(true);
    log.write(host::LogLine(host::LogLevel::info, "ready").number("after_s", to_seconds(clock.now())));
  }

  // Waits for something to happen and handles it.
  void turn() {
    TimePoint until = std::min({world->next_due(), workers.next_due(), remotes.next_due()});
    if (draining) until = std::min(until, std::min(drain_deadline, clock.now() + std::chrono::milliseconds(20)));
    if (main_http) until = std::min(until, main_http->next_due());
    loop.wait(clock, until);
    workers.work(clock.now());
    remotes.work(clock.now());
    do {
      world->step(clock.now());
    } while (main_http && main_http->work(clock.now()));
  }

  void run_io(IoThread& part) {
    bool told = false;
    while (!finished) {
      part.loop.wait(clock, part.http->next_due());
      if (gateway->draining() && !told) {
        told = true;
        part.http->drain();
      }
      part.http->work(clock.now());
    }
    part.http->close_all();
  }

  void ask_to_stop() {
    stop_asked = true;
    loop.wake();
  }
  void ask_for_reload() {
    reload_asked = true;
    loop.wake();
  }

  void begin_drain() {
    if (draining) {  // Asked twice: whoever asks does not want to wait.
      drain_deadline = clock.now();
      return;
    }
    draining = true;
    drain_deadline = clock.now() + config.exit_timeout;
    gateway->set_draining();
    log.write(host::LogLine(host::LogLevel::info, "draining").integer("in_flight", static_cast<std::int64_t>(world->in_flight())));
    world->begin_drain();
    if (grpc) grpc->drain(config.exit_timeout);
    if (main_http) main_http->drain();
    for (auto& part : io) part->loop.wake();
  }

  bool drained() const {
    return draining && world->in_flight() == 0 &&
           gateway->traffic.connections_open.load(std::memory_order_relaxed) == 0;
  }

  // Files are read beside the loop; what they say comes back as a call. Either all of it counts from then on or
  // nothing.
  void begin_reload() {
    if (!reloads_anything()) return;
    if (reloading.exchange(true)) {  // What is read now may be older than the question.
      reload_again = true;
      return;
    }
    if (reload_thread.joinable()) reload_thread.join();
    reload_number = gateway->reloads.report().asked;
    reload_thread = std::thread([this] {
      auto files = read_files();
      reload_call.control = [this, read = std::make_shared<Result<Files>>(std::move(files))](LiveWorld& w, Call&) {
        const Result<Nothing> taken = *read ? take_files(w, **read) : Result<Nothing>(read->error());
        if (!taken) log.write(host::LogLine(host::LogLevel::error, "reload_failed").text("reason", taken.error().message));
        gateway->reloads.end(reload_number, taken ? "" : taken.error().message);
      };
      reload_call.owner = this;
      world->post(&reload_call);
    });
  }
  void on_answered(Call*) override {
    reloading = false;
    if (std::exchange(reload_again, false)) ask_for_reload();
  }

  struct Files {
    std::optional<sched::Deployment> deployment;
    std::optional<Security> security;
    std::shared_ptr<const host::TlsContext> tls;
    std::optional<engines::RemoteCaller> remote_caller;
  };

  Result<Files> read_files() const {
    Files files;
    if (config.reload_security) {
      auto security = config.reload_security();
      if (!security) return security.error();
      if (security->tls && config.security.tls) {
        auto made = host::TlsContext::for_server(*security->tls);
        if (!made) return made.error();
        files.tls = std::move(*made);
      }
      files.security = std::move(*security);
    }
    if (config.reload_remote_caller) {
      auto caller = config.reload_remote_caller();
      if (!caller) return caller.error();
      files.remote_caller = std::move(*caller);
    }
    if (config.reload) {
      auto next = config.reload();
      if (!next) return next.error();
      files.deployment = std::move(*next);
    }
    return files;
  }

  // Open connections keep the certificates that they began with; keys and limits count from the next request on.
  Result<Nothing> take_files(LiveWorld& w, const Files& files) {
    if (files.deployment) {
      if (auto changed = w.change_plan(*files.deployment); !changed) return changed;
      workers.end_first_start();
      const auto& services = files.deployment->services;
      for (std::size_t i = 0; i < services.size(); ++i) models[i].samples_max = services[i].samples_max;
      warn_of_unserved(log, *files.deployment);
      log.write(host::LogLine(host::LogLevel::info, "plan_changed")
                    .integer("plan_changes", static_cast<std::int64_t>(w.plans_applied())));
    }
    if (files.remote_caller) {
      config.remote_caller = *files.remote_caller;
      remotes.set_caller(*files.remote_caller);
    }
    if (!files.security) return Nothing{};
    const Security& next = *files.security;
    if (files.tls) {
      tls.set(files.tls);
      if (grpc) grpc->set_tls(*next.tls);
    }
    if (next.access && config.security.access) gateway->access.set(*next.access);
    log.write(host::LogLine(host::LogLevel::info, "security_reloaded")
                  .integer("tenants", next.access ? static_cast<std::int64_t>(next.access->tenants.size()) : 0));
    return Nothing{};
  }

  ServerConfig config;
  host::LogWriter& log;
  host::LiveClock clock;
  host::EventLoop loop;
  worker::Workers workers{loop, clock, log};
  engines::Remotes remotes{loop, clock, log};
  std::atomic<std::thread::id> driver;  // The thread of the world and the workers.
  std::vector<ServedModel> models;
  std::vector<const Signature*> signatures;
  host::TlsSlot tls;
  BeyondPlan beyond_plan;
  std::unique_ptr<Gateway> gateway;
  std::unique_ptr<LiveWorld> world;
  std::unique_ptr<HttpServer> main_http;
  std::vector<std::unique_ptr<IoThread>> io;
  std::unique_ptr<GrpcServer> grpc;
  std::uint16_t data_port = 0;
  std::uint16_t admin_port = 0;
  bool admin_socket_open = false;
  std::atomic<bool> stop_asked{false};
  std::atomic<bool> reload_asked{false};
  std::atomic<bool> reloading{false};
  std::atomic<bool> finished{false};
  bool draining = false;
  bool told_ready = false;
  TimePoint drain_deadline = kTimeNever;
  std::thread reload_thread;
  Call reload_call;
  std::uint64_t reload_number = 0;
  bool reload_again = false;
};

void keep_signals_for_server() {
  const sigset_t set = server_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Server::Server(sched::Deployment deployment, const Workload& workload, ServerConfig config, host::LogWriter& log)
    : parts_(std::make_unique<Parts>(std::move(deployment), workload, std::move(config), log)) {}
Server::~Server() = default;

Result<Nothing> Server::open() { return parts_->open(); }
std::uint16_t Server::http_port() const { return parts_->data_port; }
std::uint16_t Server::metrics_port() const { return parts_->admin_port; }
std::uint16_t Server::grpc_port() const { return parts_->grpc == nullptr ? 0 : parts_->grpc->port(); }
const std::string& Server::hopeless() const { return parts_->workers.hopeless(); }
bool Server::run() { return parts_->run(); }
void Server::request_stop() { parts_->ask_to_stop(); }
void Server::request_reload() { parts_->ask_for_reload(); }

}  // namespace tangram::serve
