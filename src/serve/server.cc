// Puts the parts together and drives them: one loop, one thread, until everything is answered.
//
// The parts refer to each other, so the order of construction matters: the models first, since the gateway and the
// world keep references into them; the world before the listeners, which post into its inbox; the reloader last.
// Callbacks of the world can use world_, because none is called before run().

#include "serve/server.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/layout.h"
#include "host/prompt_thread.h"
#include "serve/reports.h"

namespace tangram::serve {
namespace {

// The least time after which a batch on a real worker or remote server counts as stuck. Shorter than the default of two
// seconds: such a process can really hang, and its restart is the cure.
constexpr Duration kStuckMinOfWorkers = std::chrono::seconds(1);
// A turn that handles so much later what is due has first to catch up with what came, in so many calls of the loop.
constexpr Duration kHeldUp = std::chrono::milliseconds(100);
constexpr int kCatchUpMax = 16;
// How often a draining server checks whether all connections are closed. I/O threads do not report that.
constexpr Duration kDrainTurn = std::chrono::milliseconds(20);

std::int64_t wall_milliseconds() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
}

}  // namespace

// ---- Its parts ----

Server::Server(sched::Deployment deployment, const Workload& workload, ServerConfig config, host::LogWriter& log,
               std::unique_ptr<Follower::Setup> follow)
    : config_(std::move(config)),
      log_(log),
      models_(served_models(deployment, workload, config_.engine)),
      executors_(config_, models_, loop_, clock_, log_) {
  gateway_ = std::make_unique<Gateway>(models_, gateway_config());
  gateway_->set_log_level(config_.log_level);
  const auto start_ms = wall_milliseconds() - clock_.now().time_since_epoch() / std::chrono::milliseconds(1);
  page_ = std::make_unique<PageDesk>(config_.page, start_ms);
  gateway_->set_page(page_.get());
  if (config_.security.access) gateway_->access.set(*config_.security.access);
  warn_of_openness(log_, config_.security, {config_.address, config_.admin_address});
  warn_of_unserved(log_, deployment, models_);
  roster_ = sched::Roster::of(workload);
  world_ = std::make_unique<LiveWorld>(std::move(deployment), models_, world_config());
  // A call that a handler of the loop posts on this thread is handled in step() right after the handlers: no wake-up is
  // needed, which saves a system call.
  world_->inbox().set_waker([this] {
    if (std::this_thread::get_id() != driver_ || !loop_.delivering()) loop_.wake();
  });
  listeners_ = std::make_unique<Listeners>(config_, loop_, clock_, *gateway_, *world_);
  Reloader::Hooks hooks;
  hooks.prepare = [this](const sched::Roster& roster) {
    return follower_ == nullptr ? Result<Nothing>(Nothing{}) : follower_->prepare(roster);
  };
  hooks.settled = [this](LiveWorld& world, const ReloadedFiles& files) { return settled(world, files); };
  hooks.take = [this](LiveWorld& world, const ReloadedFiles& files) { return take_files(world, files); };
  hooks.wake = [this] { loop_.wake(); };
  reloader_ = std::make_unique<Reloader>(config_, world_->inbox(), gateway_->reloads, log_, roster_, std::move(hooks));
  cuts_ = config_.emulated_cuts;
  if (config_.gpu_cuts && follow != nullptr) {
    gpu_watch_ = std::make_unique<GpuWatch>(
        recut::nvml_library(), config_.gpu_cuts->choices, world_->inbox(), log_,
        [this](LiveWorld& world, const DeviceNews& news) { follower_->on_device_news(world, news); });
  }
  if (config_.gpu_cuts) {
    gpu_cuts_ = std::make_unique<GpuCuts>(*config_.gpu_cuts, world_->inbox(), log_, gpu_watch_.get());
  }
  if (follow == nullptr) return;
  if (follow->past) world_->recall(follow->past->corrections);
  follower_ = std::make_unique<Follower>(std::move(*follow), world_->inbox(), log_,
                                         [this](LiveWorld& world, const sched::Deployment& next) {
                                           if (!follower_->reason().empty())
                                             page_->history().note_reason(follower_->reason());
                                           return put_in_force(world, next);
                                         });
  gateway_->set_follower(follower_.get());
}

Result<Nothing> Server::open() {
  if (config_.training) {
    TrainingDesk::Setup setup;
    TANGRAM_TRY(setup.store, TrainingStore::open(config_.training->folder));
    setup.python = config_.training->python;
    setup.nice = config_.training->nice;
    setup.whole_devices = config_.training->whole_devices;
    setup.worker_program = config_.worker_program.empty() ? worker::find_worker_program() : config_.worker_program;
    setup.lending = config_.training->lending;
    setup.needs = config_.training->needs;
    TANGRAM_TRY(training_, TrainingDesk::open(std::move(setup), world_->inbox(), log_,
                                              [this](const LiveWorld& world, SliceId slice) {
                                                return executors_.training_place(world, slice);
                                              }));
    gateway_->set_training(training_.get());
  }
  if (executors_.nodes() != nullptr) {
    TANGRAM_RETURN_IF_ERROR(executors_.nodes()->open());
    gateway_->set_nodes(executors_.nodes());
    if (follower_ != nullptr) {
      node_news_ = std::make_unique<NodeNews>(
          world_->inbox(), [this](LiveWorld& world, const DeviceNews& news) { follower_->on_device_news(world, news); });
      executors_.nodes()->set_device_told([this](const std::string& device, bool works, const std::string& why) {
        node_news_->add({.device = device, .works = works, .until_works = true, .reason = why});
      });
    }
  }
  return listeners_->open();
}

// The thread of a reload uses config_ and the inbox, and those of training jobs use the inbox.
Server::~Server() {
  training_.reset();
  if (follower_ != nullptr) follower_->stop_preparing();
  reloader_->join();
}

GatewayConfig Server::gateway_config() {
  GatewayConfig gateway{config_.version, config_.triton_metrics, nullptr};
  if (Reloader::reloads_anything(config_)) gateway.request_reload = [this] { request_reload(); };
  gateway.request_drain = [this] { request_stop(); };
  gateway.log = &log_;
  gateway.memory_max = config_.memory_max;
  return gateway;
}

LiveWorldConfig Server::world_config() {
  LiveWorldConfig world;
  world.scheduler = config_.scheduler;
  // Who sends is only known where callers show who they are.
  world.scheduler.fair_share |= config_.security.access.has_value();
  world.recording = config_.recording;
  // The wall clock at time zero of clock_, for statistics that show a date.
  world.wall_start_ms = wall_milliseconds() - clock_.now().time_since_epoch() / std::chrono::milliseconds(1);
  watch_for_page(world);
  const bool elsewhere = config_.nodes.has_value() ||
                         std::ranges::any_of(models_, [](const ServedModel& m) { return m.platform != "emulated"; });
  if (config_.workers || elsewhere) {
    world.scheduler.stuck_min = std::min(config_.scheduler.stuck_min, kStuckMinOfWorkers);
  }
  world.make_executor = [this](SliceId slice, const sched::Place& place, engines::ExecutorEvents& events) {
    return executors_.make(*world_, slice, place, events);
  };
  world.change_executor = [this](SliceId slice, const sched::Place& place, engines::Executor& executor) {
    return executors_.change(*world_, slice, place, executor);
  };
  if (config_.emulated_cuts) {
    world.recut_time = [this](const sched::DeployedDevice& before, const Layout& target) {
      const Duration takes = cuts_->time_of(before.layout, target, world_->time());
      tell_of_cut(before, target, takes);
      return takes;
    };
  }
  if (config_.gpu_cuts) {
    world.cut = [this](DeviceId id, const sched::DeployedDevice& device, const Layout& target) {
      PlannedDevice goal{device.name, device.geometry.type, device.geometry, {}};
      for (const auto& slice : target.slices) goal.slices.push_back({slice, {}});
      // The cores of a host are cut by the workers on them.
      if (device.geometry.units_per_core > 0) return world_->inbox().on_cut(id, true);
      tell_of_cut(device, target, std::nullopt);
      gpu_cuts_->begin(id, std::move(goal));
    };
  }
  if (config_.training) {
    world.lend = [this](SliceId slice) { training_->lend(slice); };
    world.recall = [this](SliceId slice) { training_->recall(slice); };
  }
  world.on_arrived = [this](const Call& call) {
    if (training_ != nullptr) training_->arrived(call);
    if (follower_ != nullptr) follower_->arrived(call);
  };
  world.on_resolved = [this](const Call& call, const Outcome& outcome, TimePoint now) {
    on_resolved(call, outcome, now);
  };
  world.on_refused = [this](const Call& call) { gateway_->tell_of_refused(refused_by_world(call)); };
  world.on_speed = [this](SliceId slice, const ServedModel& model, double real_over_planned, bool slow) {
    log_.write(
        host::LogLine(slow ? host::LogLevel::warning : host::LogLevel::info, slow ? "slice_slow" : "slice_as_planned")
            .text("slice", slice_name(*world_, slice.index()))
            .text("model", model.name)
            .number("real_over_planned", real_over_planned));
  };
  world.on_failure = [this](SliceId slice, const ServedModel& model, std::size_t requests, const std::string& reason) {
    log_.write(host::LogLine(host::LogLevel::warning, "batch_failed")
                   .text("slice", slice_name(*world_, slice.index()))
                   .text("model", model.name)
                   .integer("requests", static_cast<std::int64_t>(requests))
                   .text("reason", reason));
  };
  if (config_.on_batch) {
    world.on_batch = [this](SliceId slice, const ServedModel& model, std::int32_t samples, std::int64_t size,
                            Duration took) { tell_of_batch(slice, model, samples, size, took); };
  }
  return world;
}

void Server::watch_for_page(LiveWorldConfig& world) {
  world.watcher = &page_->history();
  world.on_unseen = [this](const Request& request, const Outcome& outcome, TimePoint now) {
    page_->history().ended_unseen(request, outcome, now);
  };
}

void Server::tell_of_cut(const sched::DeployedDevice& device, const Layout& target, std::optional<Duration> takes) {
  host::LogLine line(host::LogLevel::info, "device_cutting");
  line.text("device", device.name).text("layout", to_string(device.geometry, target));
  if (takes) line.number("takes_s", to_seconds(*takes));
  log_.write(line);
}

// Runs on the thread of the world for each request, so only counters and, if asked for, one log line.
void Server::on_resolved(const Call& call, const Outcome& outcome, TimePoint now) {
  if (call.tenant_state != nullptr) {
    call.tenant_state->outcomes[static_cast<std::size_t>(outcome.kind)].fetch_add(1, std::memory_order_relaxed);
    const bool ran = call.launched != TimePoint{};
    if (outcome.kind == OutcomeKind::abandoned && !ran && call.quota_day >= 0) {
      return_quota(*call.tenant_state, call.quota_day);
    }
  }
  page_->history().note_name(call.id);
  if (follower_ != nullptr) follower_->ended(call, outcome);
  if (gateway_->log_requests()) log_.write(request_line(*world_, call, outcome, now));
  // The plan was made for smaller requests than the traffic has: a hint that a new plan is due.
  if (outcome.reason == RejectReason::too_large) beyond_plan_.add(log_, *world_, call, now);
}

void Server::tell_of_batch(SliceId slice, const ServedModel& model, std::int32_t samples, std::int64_t size,
                           Duration took) {
  // The names are views into the deployment, valid during the call.
  const sched::State& state = world_->scheduler().state();
  const sched::Place& place = state.slices[slice.index()].place;
  const Geometry& geometry = state.deployment.devices[place.device.index()].geometry;
  config_.on_batch({geometry.type, geometry.profiles[place.slice.profile].name, model.network, samples, size, took});
}

// ---- The loop ----

bool Server::run() {
  host::wake_promptly();
  SignalWatch signals(loop_, [this](int number) { number == SIGHUP ? request_reload() : request_stop(); });
  listeners_->start();
  driver_ = std::this_thread::get_id();
  world_->open_slices();
  if (config_.manager.watchdog()) tell_alive_at_ = clock_.now();
  bool all_answered = false;
  // Ends when everything is answered or the deadline of the drain has passed.
  while (!(all_answered = drained()) && !(draining_ && clock_.now() >= drain_deadline_)) {
    if (!told_ready_ && (world_->slices_starting() == 0 || may_begin_without_all())) tell_ready();
    // During the first start, a worker that cannot start ends the server, and run() returns false.
    if (!executors_.unrecoverable().empty() && !draining_) begin_drain();
    if (stop_asked_.exchange(false) || clock_.now() >= drain_at_) begin_drain();
    // Only one plan moves at a time. A reload that is requested meanwhile stays requested until the move has ended.
    if (!world_->scheduler().moving()) reloader_->begin_if_asked();
    tell_manager();
    turn();
  }
  if (follower_ != nullptr) follower_->stop_preparing();
  reloader_->join();
  listeners_->stop();
  if (executors_.nodes() != nullptr) executors_.nodes()->keep_loaded();
  return all_answered && executors_.unrecoverable().empty();
}

// One turn: sleep until something is due, then let each part work. Sockets are served by loop_.wait() itself.
void Server::turn() {
  TimePoint until = std::min({world_->next_due(), executors_.next_due(), listeners_->next_due()});
  until = std::min({until, reloader_->next_due(), tell_alive_at_, drain_at_});
  if (draining_) until = std::min(until, std::min(drain_deadline_, clock_.now() + kDrainTurn));
  const bool trains = training_ != nullptr && !draining_;
  if (trains) until = std::min(until, training_->next_due());
  const bool follows = follower_ != nullptr && !draining_;
  if (follows) until = std::min(until, follower_->next_due());
  loop_.wait(clock_, until);
  // This thread was held up. Answers of workers that came meanwhile wait in their sockets, and must count before the
  // time of their batches does: a healthy worker would be taken for a stuck one.
  const bool held_up = until != kTimeNever && clock_.now() - until > kHeldUp;
  for (int more = 0; held_up && more < kCatchUpMax && loop_.wait(clock_, kTimeZero) > 0; ++more) continue;
  executors_.work(clock_.now());
  if (follows) follower_->work(*world_, clock_.now());
  if (trains) training_->work(clock_.now());
  reloader_->work(clock_.now());
  // With one thread, answers that the world gives are sent by listeners_, which can read and post further pipelined
  // requests. These are handled before sleeping, because nothing would wake the loop for them.
  do {
    world_->step(clock_.now());
  } while (listeners_->work(clock_.now()));
  if (told_ready_ && !draining_) watch_readiness();
}

// A node may stay away for good; what the others have is served meanwhile.
bool Server::may_begin_without_all() const {
  const NodeHub* nodes = executors_.nodes();
  if (nodes == nullptr || !nodes->first_wait_over(clock_.now())) return false;
  const auto& services = world_->scheduler().state().services;
  return std::ranges::any_of(services, [](const auto& service) { return service.slices > 0; });
}

// A reload that began and ended since the last turn is not told: there was nothing to wait for.
void Server::tell_manager() {
  if (told_ready_ && !draining_ && reloader_->busy() != told_reloading_) {
    told_reloading_ = reloader_->busy();
    told_reloading_ ? config_.manager.reloading() : config_.manager.ready("serving");
  }
  if (clock_.now() < tell_alive_at_) return;
  config_.manager.alive();
  tell_alive_at_ = clock_.now() + *config_.manager.watchdog();
}

// Not ready while no service can be served: every slice of every service is away. One service that cannot be says so
// itself, in its own ready call; the others must not be taken out of a load balancer for it.
void Server::watch_readiness() {
  const auto& services = world_->scheduler().state().services;
  const bool usable = std::ranges::any_of(services, [](const auto& service) { return service.slices > 0; });
  if (usable == usable_ || drain_at_ != kTimeNever) return;
  usable_ = usable;
  gateway_->set_ready(usable);
  listeners_->set_serving(usable);
  host::LogLine line(usable ? host::LogLevel::info : host::LogLevel::warning, usable ? "ready_again" : "not_ready");
  log_.write(line);
}

// From here on a worker that cannot start is retried: a running server must not end because of one slice.
void Server::tell_ready() {
  told_ready_ = true;
  executors_.end_first_start();
  gateway_->set_ready(true);
  listeners_->set_serving(true);
  config_.manager.ready("serving");
  log_.write(host::LogLine(host::LogLevel::info, "ready").number("after_s", to_seconds(clock_.now())));
}

// ---- The end ----

void Server::request_stop() {
  stop_asked_ = true;
  loop_.wake();
}

// Load balancers look at readiness now and then: until they have, requests come and are answered as ever.
void Server::announce_drain() {
  drain_at_ = clock_.now() + config_.drain_delay;
  gateway_->set_ready(false);
  listeners_->set_serving(false);
  config_.manager.stopping();
  log_.write(host::LogLine(host::LogLevel::info, "drain_announced").number("delay_s", to_seconds(config_.drain_delay)));
}

void Server::begin_drain() {
  if (draining_) {  // Asked twice: whoever asks does not want to wait.
    drain_deadline_ = clock_.now();
    return;
  }
  if (config_.drain_delay > Duration::zero() && told_ready_ && drain_at_ == kTimeNever) {
    announce_drain();
    return;
  }
  drain_at_ = kTimeNever;
  draining_ = true;
  drain_deadline_ = clock_.now() + config_.exit_timeout;
  gateway_->set_draining();
  config_.manager.stopping();
  log_.write(host::LogLine(host::LogLevel::info, "draining")
                 .integer("in_flight", static_cast<std::int64_t>(world_->in_flight())));
  // Queued background requests are rejected, since they would delay the exit up to their deadlines. Everything else is
  // answered.
  world_->begin_drain();
  if (training_ != nullptr) training_->end();
  listeners_->drain();
}

// Both conditions: an answer that is written but not sent still has an open connection.
bool Server::drained() const {
  return draining_ && world_->in_flight() == 0 &&
         gateway_->traffic.connections_open.load(std::memory_order_relaxed) == 0;
}

// ---- Other plans ----

Result<Nothing> Server::put_in_force(LiveWorld& world, const sched::Deployment& next) {
  if (cuts_) cuts_->begin_move(world.time());
  TANGRAM_RETURN_IF_ERROR(world.change_plan(next));
  executors_.end_first_start();
  // Read by I/O threads at the same time, hence SharedNumbers. All else about a model stays the same.
  for (std::size_t i = 0; i < next.services.size(); ++i) {
    models_[i].samples_max = next.services[i].samples_max;
    models_[i].size_max = size_max_of(next.services[i]);
  }
  warn_of_unserved(log_, next, models_);
  log_.write(host::LogLine(host::LogLevel::info, "plan_changed")
                 .integer("plan_changes", static_cast<std::int64_t>(world.plans_applied())));
  return Nothing{};
}

// ---- Reload ----

void Server::mark_removed(const sched::Roster& roster) {
  for (std::size_t s = 0; s < models_.size() && s < roster.removed.size(); ++s) {
    models_[s].removed = roster.removed[s] ? 1 : 0;
  }
}

bool Server::settled(LiveWorld& world, const ReloadedFiles& files) {
  if (!files.plan) return true;
  // A service that returns is refused until its plan is in force.
  Duration longest{};
  bool answered = true;
  const auto& services = world.scheduler().state().deployment.services;
  for (std::size_t s = 0; s < services.size(); ++s) {
    if (!files.plan->roster.removed[s] || roster_.removed[s]) continue;
    models_[s].removed = 1;
    longest = std::max(longest, services[s].slo.latency);
    answered &= world.in_flight(ServiceId(static_cast<std::uint32_t>(s))) == 0;
  }
  if (!removal_deadline_) removal_deadline_ = world.time() + longest;
  if (world.scheduler().moving() || (!answered && world.time() < *removal_deadline_)) return false;
  removal_deadline_.reset();
  return true;
}

void Server::take_roster(LiveWorld& world, const sched::Roster& roster) {
  const auto& services = roster.workload.services;
  for (std::size_t s = models_.size(); s < services.size(); ++s) {
    models_.push_back(served_model(services[s], ServiceId(static_cast<std::uint32_t>(s)), config_.engine));
    models_.back().removed = 1;  // Until its plan is in force.
  }
  executors_.take_models();
  world.take_models();
}

// Requires that nothing moves, which settled() has seen in this step.
Result<Nothing> Server::take_plan(LiveWorld& world, const ReloadedPlan& plan) {
  if (world.scheduler().moving()) return Error{ErrorCode::unavailable, "the server is still moving to another plan"};
  take_roster(world, plan.roster);
  if (plan.deployment) {
    page_->history().note_reason("The files were read again: another plan file, or other services.");
    return put_in_force(world, *plan.deployment);
  }
  return follower_->put_prepared_in_force(world, plan.roster);
}

// Puts new files in force. The plan comes first because only it can fail here, so an error leaves all as it was. Open
// connections keep their certificates; keys and limits apply from the next request on.
Result<Nothing> Server::take_files(LiveWorld& world, const ReloadedFiles& files) {
  if (files.plan) {
    const sched::Roster& roster = files.plan->roster;
    const Result<Nothing> taken = take_plan(world, *files.plan);
    mark_removed(taken ? roster : roster_);
    if (!taken) return taken;
    for (std::size_t s = 0; s < models_.size(); ++s) models_[s].priority = roster.workload.services[s].priority;
    gateway_->take_models();
    roster_ = roster;
  }
  if (files.remote_caller) executors_.set_remote_caller(*files.remote_caller);
  if (!files.security) return Nothing{};
  const Security& next = *files.security;
  if (files.tls) listeners_->set_tls(files.tls);
  // Access control cannot be switched on by a reload: connections decided at their start whether to ask.
  if (next.access && config_.security.access) gateway_->access.set(*next.access);
  log_.write(host::LogLine(host::LogLevel::info, "security_reloaded")
                 .integer("tenants", next.access ? static_cast<std::int64_t>(next.access->tenants.size()) : 0));
  return Nothing{};
}

}  // namespace tangram::serve
