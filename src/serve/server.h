// A plan behind an address: all parts of serve put together.
//
// One thread drives the world; Listeners says which threads drive the sockets.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host/event_loop.h"
#include "host/log.h"
#include "sched/roster.h"
#include "serve/executor_factory.h"
#include "serve/follower.h"
#include "serve/gateway.h"
#include "serve/gpu_watch.h"
#include "serve/listeners.h"
#include "serve/live_world.h"
#include "serve/node_news.h"
#include "serve/reloader.h"
#include "serve/server_config.h"
#include "serve/serving_log.h"
#include "serve/signal_watch.h"
#include "serve/training_desk.h"

namespace tangram::serve {

class Server {
 public:
  // With `follow`, it follows its traffic: see serve/follower.h.
  Server(sched::Deployment deployment, const Workload& workload, ServerConfig config, host::LogWriter& log,
         std::unique_ptr<Follower::Setup> follow = nullptr);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Opens the ports, and takes up the training jobs.
  Result<Nothing> open();
  std::uint16_t http_port() const { return listeners_->http_port(); }
  std::uint16_t metrics_port() const { return listeners_->admin_port(); }
  std::uint16_t grpc_port() const { return listeners_->grpc_port(); }  // 0: no gRPC.
  // The nodes of this server; null: it has none.
  const NodeHub* nodes() const { return executors_.nodes(); }
  // Serves until it is asked to stop and everything in flight is answered. SIGTERM and SIGINT ask it to stop, SIGHUP to
  // reload, if keep_signals_for_server() was called. Returns false if time ran out before everything was answered, or
  // if a worker could never start.
  bool run();
  // Why a worker could never start; empty: all did.
  const std::string& unrecoverable() const { return executors_.unrecoverable(); }
  // Any thread.
  void request_stop();
  void request_reload() { reloader_->ask(); }

 private:
  // The configuration of the gateway and of the world, derived from config_.
  GatewayConfig gateway_config();
  LiveWorldConfig world_config();
  // The world's history for the page, and what only the server knows for it.
  void watch_for_page(LiveWorldConfig& world);
  // A request has ended: counts it for its tenant and logs it.
  void on_resolved(const Call& call, const Outcome& outcome, TimePoint now);
  // Passes a batch to config_.on_batch, in terms of latency models. Requires that on_batch is set.
  void tell_of_batch(SliceId slice, const ServedModel& model, std::int32_t samples, std::int64_t size, Duration took);
  // A device begins to be cut. `takes`: with the loading of its models, where that is known.
  void tell_of_cut(const sched::DeployedDevice& device, const Layout& target, std::optional<Duration> takes);
  // Waits until something happens or is due, and handles it.
  void turn();
  // Some slices of the first plan have no node, others serve, and the wait for nodes is over.
  bool may_begin_without_all() const;
  // Tells the service manager of reloads, and that this thread still turns.
  void tell_manager();
  // All slices of the first plan are ready: reports it to clients and to the log. Called once.
  void tell_ready();
  // Tells clients and probes when nothing can be served any more, and when it can again.
  void watch_readiness();
  // Says that the server is not ready, and takes requests all the same, until drain_at_.
  void announce_drain();
  // Announces the drain, where that is wanted; otherwise stops accepting, and what is in flight is answered. Each
  // further call goes on to the next step: the last ends the drain at once.
  void begin_drain();
  // Whether everything is answered and all connections are closed.
  bool drained() const;
  // Refuses the services that `files` no longer have to clients, and says whether their requests are answered and no
  // plan moves. Those that are left after the longest of their promises are given up. Inside step().
  bool settled(LiveWorld& world, const ReloadedFiles& files);
  // Marks services as served or removed, as the roster says.
  void mark_removed(const sched::Roster& roster);
  // Adds the models of the services that are new, and takes over what may change of the others.
  void take_roster(LiveWorld& world, const sched::Roster& roster);
  // Puts the plan and the services of a reload in force. Errors: it cannot be, and nothing has changed.
  Result<Nothing> take_plan(LiveWorld& world, const ReloadedPlan& plan);
  // Moves to another plan for the services that are known. Errors: it cannot be, and nothing has changed. Inside
  // step().
  Result<Nothing> put_in_force(LiveWorld& world, const sched::Deployment& next);
  // Puts in force what a reload has read, all of it or nothing. The thread of the world, inside step().
  Result<Nothing> take_files(LiveWorld& world, const ReloadedFiles& files);

  const ServerConfig config_;
  host::LogWriter& log_;
  host::LiveClock clock_;
  host::EventLoop loop_;
  std::vector<ServedModel> models_;
  ExecutorFactory executors_;
  BeyondPlan beyond_plan_;
  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<PageDesk> page_;  // Before the world, which tells it what happens.
  std::unique_ptr<LiveWorld> world_;
  std::unique_ptr<Listeners> listeners_;
  std::unique_ptr<Reloader> reloader_;
  std::optional<control::RecutClock> cuts_;
  std::unique_ptr<GpuWatch> gpu_watch_;     // Null: there is no GPU, or nobody would plan around one.
  std::unique_ptr<NodeNews> node_news_;     // Null: there are no nodes, or nobody would plan around one.
  std::unique_ptr<GpuCuts> gpu_cuts_;       // Null: the server cuts nothing.
  std::unique_ptr<Follower> follower_;      // Null: the plan changes by reloads only.
  std::unique_ptr<TrainingDesk> training_;  // Null: the server lends nothing.
  std::atomic<std::thread::id> driver_;     // The thread of the world.
  std::atomic<bool> stop_asked_{false};
  bool draining_ = false;
  bool told_ready_ = false;
  bool told_reloading_ = false;
  TimePoint tell_alive_at_ = kTimeNever;
  bool usable_ = true;               // Some service can be served.
  TimePoint drain_at_ = kTimeNever;  // When a drain that is announced begins.
  TimePoint drain_deadline_ = kTimeNever;
  sched::Roster roster_;                       // The services that are known. The thread of the world.
  std::optional<TimePoint> removal_deadline_;  // Of a reload that removes services and waits for their requests.
};

}  // namespace tangram::serve
