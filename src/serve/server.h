// A plan behind an address: everything of this room put together.
//
// One thread drives the world. With one I/O thread it drives the sockets, too; with more, each has a thread, sockets
// and an epoll loop of its own, and they meet the world in its inbox.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/executor.h"
#include "formats/access_file.h"
#include "serve/gateway.h"
#include "serve/http_server.h"
#include "serve/live_world.h"
#include "host/log.h"
#include "engines/remote/remote_link.h"
#include "host/tls.h"
#include "worker/worker_link.h"

namespace tangram::serve {

// What keeps others out. Whether there is TLS, and whether callers are asked who they are, stays as it was at the
// start.
struct Security {
  std::optional<host::TlsMaterial> tls;         // Nothing: plain connections.
  std::optional<formats::Access> access;  // Nothing: nobody is asked.
};

// A batch that was answered, in the words of latency models. The names are valid during the call.
struct ServedBatch {
  std::string_view device;  // Type.
  std::string_view mig_profile;
  std::string_view model;
  std::int64_t samples = 1;
  std::int64_t size = 1;  // Padded.
  Duration took{};
};

struct ServerConfig {
  std::string address = "127.0.0.1";
  std::uint16_t http_port = 8000;
  std::optional<std::uint16_t> grpc_port;  // Nothing: no gRPC.
  // The admin interface: metrics, status, reload, log level, drain.
  std::string admin_address = "127.0.0.1";
  std::uint16_t metrics_port = 8002;
  std::string admin_socket;  // The same at a Unix socket, for whoever may open it. Empty: none.
  Security security;
  int threads = 1;
  HttpLimits limits;
  sched::SchedulerConfig scheduler;
  std::string engine = "emulated";  // Of batch_engines(), or "remote".
  bool workers = false;             // Each slice runs in a process of its own. Engines but `emulated` need it.
  std::string worker_program;       // Of workers; empty: the one beside this program.
  std::string models;               // The folder with the weights of the models.
  // What the worker of a slice finds in its environment beside ours: the MIG device that it runs on. Empty: nothing.
  std::function<std::vector<std::string>(const std::string& device, const Slice& slice)> worker_environment;
  std::vector<host::Endpoint> remotes;  // With the engine `remote`: slices take them in turn.
  engines::RemoteCaller remote_caller;          // Of all of them.
  worker::WorkerPatience patience;             // With workers.
  engines::EmulatedExecutorConfig emulated;
  std::string version;
  bool triton_metrics = false;
  host::LogLevel log_level = host::LogLevel::info;
  sched::RecordingSink recording;
  Duration exit_timeout = std::chrono::seconds(30);  // For what is under way when the server is asked to stop.
  // Reads plan and services again, on a thread of its own. Empty: no reload.
  std::function<Result<sched::Deployment>()> reload;
  // The same for certificates and access.
  std::function<Result<Security>()> reload_security;
  // The same for how the remotes know us.
  std::function<Result<engines::RemoteCaller>()> reload_remote_caller;
  // Told of every batch, on the thread that drives the World. May be empty.
  std::function<void(const ServedBatch&)> on_batch;
};

// Keeps SIGTERM, SIGINT and SIGHUP for Server::run, in this thread and those that it starts. To be called before there
// is any other thread, because a signal goes to whoever does not block it.
void keep_signals_for_server();

class Server {
 public:
  Server(sched::Deployment deployment, const Workload& workload, ServerConfig config, host::LogWriter& log);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Opens the ports.
  Result<Nothing> open();
  std::uint16_t http_port() const;
  std::uint16_t metrics_port() const;
  std::uint16_t grpc_port() const;  // 0: no gRPC.
  // Serves until it is asked to stop and what was under way is answered. SIGTERM and SIGINT ask, SIGHUP reloads, where
  // they were kept for it. Returns false if time ran out before all was answered, or a worker could never start.
  bool run();
  // Why a worker could never start; empty: all did.
  const std::string& hopeless() const;
  // Any thread.
  void request_stop();
  void request_reload();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tangram::serve
