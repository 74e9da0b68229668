// Reads the files of a server again, beside its loop.
//
// A thread of its own reads them; what they say comes back to the thread of the world as a control call, and counts
// from then on as a whole or not at all. One reload runs at a time. A request that comes meanwhile is remembered,
// because what is being read may be older than the request.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "base/result.h"
#include "host/log.h"
#include "host/tls.h"
#include "sched/scheduler.h"
#include "serve/gateway.h"
#include "serve/inbox.h"
#include "serve/security.h"
#include "serve/server_config.h"

namespace tangram::serve {

// The contents of the files. Nothing: that file is not reloaded.
struct ReloadedFiles {
  std::optional<sched::Deployment> deployment;
  std::optional<Security> security;
  std::shared_ptr<const host::TlsContext> tls;  // Of `security`, made.
  std::optional<engines::RemoteCaller> remote_caller;
};

class Reloader final : public ControlOwner {
 public:
  // Applies what was read, on the thread of the world. Errors: it cannot be applied, and nothing has changed.
  using Take = std::function<Result<Nothing>(LiveWorld&, const ReloadedFiles&)>;

  // All outlive it. `wake` wakes the loop of the world.
  Reloader(const ServerConfig& config, Inbox& inbox, Reloads& reloads, host::LogWriter& log, Take take,
           std::function<void()> wake)
      : config_(config), inbox_(inbox), reloads_(reloads), log_(log), take_(std::move(take)), wake_(std::move(wake)) {
    call_.owner = this;
  }
  ~Reloader() override { join(); }

  // Whether any file can be reloaded.
  static bool reloads_anything(const ServerConfig& config) {
    return config.reload || config.reload_security || config.reload_remote_caller;
  }

  // Any thread. The reload begins with the next begin_if_asked().
  void ask();
  // Begins the reload that was asked for, if any. The thread of the world.
  void begin_if_asked();
  // Waits until nothing is being read.
  void join();

  void on_controlled(ControlCall* call) override;

 private:
  // Reads everything that is reloaded. Errors: one of the files is wrong. The thread of the reload.
  Result<ReloadedFiles> read() const;
  // The body of the thread: reads, and posts the result to the world.
  void run();

  const ServerConfig& config_;
  Inbox& inbox_;
  Reloads& reloads_;
  host::LogWriter& log_;
  Take take_;
  std::function<void()> wake_;
  std::atomic<bool> asked_{false};
  bool running_ = false;      // From the start of the thread until its call is done. The thread of the world.
  bool again_ = false;        // Asked for while another one was running.
  std::uint64_t number_ = 0;  // Of the last request that the running reload answers.
  std::thread thread_;
  ControlCall call_;
};

}  // namespace tangram::serve
