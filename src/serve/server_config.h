// What a server is made of, each with its default. The command line changes these fields and has no defaults of its
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/recut_clock.h"
#include "engines/executor.h"
#include "engines/remote/remote_link.h"
#include "host/log.h"
#include "host/service_manager.h"
#include "sched/lending.h"
#include "sched/recorder.h"
#include "sched/roster.h"
#include "sched/scheduler.h"
#include "serve/gpu_cuts.h"
#include "serve/http_context.h"
#include "serve/memory_budget.h"
#include "serve/node_hub.h"
#include "serve/page_desk.h"
#include "serve/security.h"
#include "worker/worker_link.h"

namespace tangram::serve {

// A batch that was answered, in terms of latency models. The names are valid during the call.
struct ServedBatch {
  std::string_view device;  // Type.
  std::string_view mig_profile;
  std::string_view model;
  std::int64_t samples = 1;
  std::int64_t size = 1;  // Padded.
  Duration took{};
};

// The defaults of sched, with two exceptions. A live client is better rejected at once than queued behind 100,000
// others. And the models of four devices may load at once: more would share the same disk and links.
inline sched::SchedulerConfig live_scheduler_config() {
  sched::SchedulerConfig config;
  config.requests_max = 100'000;
  config.devices_cut_max = 4;
  return config;
}

// What a reload of the plan and the services has read.
struct ReloadedPlan {
  sched::Roster roster;
  // For the services of the roster, by their ids; nothing: the server follows its traffic and makes the plan itself.
  std::optional<sched::Deployment> deployment;
};

// A server that runs the batches of slices with one MigProfile.
struct SliceServer {
  std::string mig_profile;  // Empty: with any.
  host::Endpoint address;
};

// Below the workers of inference and the gateway wherever they share a core: a ninth of their weight.
inline constexpr int kTrainerNice = 10;

// Training jobs on the slices that inference lends.
struct TrainingOptions {
  std::string folder;  // Of jobs, their logs and states.
  std::string python;  // Empty: the first on this machine that has PyTorch.
  int nice = kTrainerNice;
  bool whole_devices = false;  // See TrainingDesk::Setup, and below.
  sched::LendingConfig lending;
  // See TrainingDesk::Setup.
  std::function<sched::LendingPlan()> needs;
};

struct ServerConfig {
  std::string address = "127.0.0.1";       // Where clients connect, in numbers, v4 or v6.
  std::uint16_t http_port = 8000;          // 0 takes a free one, here and below.
  std::optional<std::uint16_t> grpc_port;  // Nothing: no gRPC.
  // The admin interface: metrics, status, reload, log level, drain.
  std::string admin_address = "127.0.0.1";
  std::uint16_t metrics_port = 8002;
  std::string admin_socket;  // The same at a Unix socket, for whoever may open it. Empty: none.
  Security security;
  int threads = 1;
  HttpLimits limits;
  CrossSiteRules cross_site;
  std::uint64_t memory_max = default_memory_max();  // Of everything that is held for callers, over HTTP and gRPC.
  sched::SchedulerConfig scheduler = live_scheduler_config();
  std::string engine = "emulated";  // Of batch_engines(), "command" or "remote": of services that name none.
  std::string command;              // With the engine `command`: of services that have none of their own.
  bool workers = false;             // Each slice runs in a process of its own. Engines but `emulated` need it.
  std::optional<worker::WorkerUser> worker_user;  // Whom they become; nothing: they stay who we are.
  std::string worker_program;                     // Of workers; empty: the one beside this program.
  std::string models;                             // The folder with the weights of the models.
  std::string onnx_provider;                      // Of the engine `onnx`; empty: as suits the device.
  // Variables that the environment of a slice's worker has in addition to ours: its MIG device. Empty: none.
  std::function<std::vector<std::string>(const std::string& device, const Slice& slice)> worker_environment;
  std::vector<host::Endpoint> remotes;               // With the engine `remote`: slices take them in turn, ...
  std::vector<std::vector<SliceServer>> remotes_of;  // ... unless their service has some of its own. By ServiceId.
  // ... and except those of these devices, which have one each, by its place in `remotes`. So a server that is lost is
  // one lost device.
  std::map<std::string, std::size_t> remote_of_device;
  engines::RemoteCaller remote_caller;  // Of all of them.
  worker::WorkerPatience patience;      // With workers.
  engines::EmulatedExecutorConfig emulated;
  // How long cutting takes; nothing: no time, and whoever changes the plan has cut the devices before.
  std::optional<control::RecutClock> emulated_cuts;
  // Cuts the GPUs of this machine when the plan changes; nothing: whoever changes the plan has cut them before.
  std::optional<GpuCutOptions> gpu_cuts;
  std::optional<TrainingOptions> training;  // Nothing: no slice is lent.
  PageConfig page;
  std::optional<NodeHubConfig> nodes;       // All slices are on nodes that join; nothing: on this machine.
  std::string version;
  bool triton_metrics = false;
  host::ServiceManager manager;  // Hears when the server is ready, reloads, ends, and that it is alive.
  host::LogLevel log_level = host::LogLevel::info;
  sched::RecordingSink recording;
  Duration drain_delay{};  // How long the server says that it is not ready and still takes requests, when it stops.
  Duration exit_timeout = std::chrono::seconds(30);  // For requests in flight when the server stops, after that.
  // Reads plan and services again, on a thread of its own; `now` are the services that are known. Empty: no reload.
  std::function<Result<ReloadedPlan>(const sched::Roster& now)> reload;
  // The same for certificates and access.
  std::function<Result<Security>()> reload_security;
  // The same for how the remotes know us.
  std::function<Result<engines::RemoteCaller>()> reload_remote_caller;
  // Called for each batch, on the thread of the world. May be empty.
  std::function<void(const ServedBatch&)> on_batch;
};

}  // namespace tangram::serve
