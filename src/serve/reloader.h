// Reads the files of a server again, beside its loop.
//
// A thread of its own reads them; what they say comes back to the thread of the world as a control call, and counts
// from then on as a whole or not at all. Services that the files no longer have are refused to clients first, and the
// rest waits until their requests are answered. One reload runs at a time. A request that comes meanwhile is
// remembered, because what is being read may be older than the request.
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
  std::optional<ReloadedPlan> plan;
  std::optional<Security> security;
  std::shared_ptr<const host::TlsContext> tls;  // Of `security`, made.
  std::optional<engines::RemoteCaller> remote_caller;
};

class Reloader final : public ControlOwner {
 public:
  struct Hooks {
    // Has a plan made for the services, where the files have none. The thread of the reload. Errors: there is none.
    // May be empty.
    std::function<Result<Nothing>(const sched::Roster&)> prepare;
    // Whether what was read can be applied now. Refuses services that it no longer has to clients. The thread of the
    // world, as of take. May be empty: always.
    std::function<bool(LiveWorld&, const ReloadedFiles&)> settled;
    // Applies what was read. Errors: it cannot be applied, and nothing has changed.
    std::function<Result<Nothing>(LiveWorld&, const ReloadedFiles&)> take;
    // Wakes the loop of the world.
    std::function<void()> wake;
  };
  // How long to wait between two looks whether what was read can be applied.
  static constexpr Duration kSettlePause = std::chrono::milliseconds(20);

  // All outlive it. `roster`: the services that are known.
  Reloader(const ServerConfig& config, Inbox& inbox, Reloads& reloads, host::LogWriter& log, sched::Roster roster,
           Hooks hooks)
      : config_(config),
        inbox_(inbox),
        reloads_(reloads),
        log_(log),
        hooks_(std::move(hooks)),
        roster_(std::move(roster)) {
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
  // Looks again whether what was read can be applied. The thread of the world.
  void work(TimePoint now);
  // A reload was begun and is not yet done. The thread of the world.
  bool busy() const { return running_; }
  TimePoint next_due() const { return settling_ && !posted_ ? look_at_ : kTimeNever; }
  // Waits until nothing is being read.
  void join();

  void on_controlled(ControlCall* call) override;

 private:
  // Reads everything that is reloaded. Errors: one of the files is wrong. The thread of the reload.
  Result<ReloadedFiles> read() const;
  // The body of the thread: reads, and posts the result to the world.
  void run();
  // Applies what was read, or lets it wait. Inside step().
  void take(LiveWorld& world, const Result<ReloadedFiles>& files);

  const ServerConfig& config_;
  Inbox& inbox_;
  Reloads& reloads_;
  host::LogWriter& log_;
  Hooks hooks_;
  sched::Roster roster_;  // Of the last reload that was taken. Belongs to whichever of thread and world has the turn.
  std::atomic<bool> asked_{false};
  bool running_ = false;      // From the start of the thread until its call is done. The thread of the world.
  bool settling_ = false;     // What was read waits until it can be applied.
  bool posted_ = false;       // ... and call_ is on its way.
  TimePoint look_at_;         // When to look again.
  bool again_ = false;        // Asked for while another one was running.
  std::uint64_t number_ = 0;  // Of the last request that the running reload answers.
  std::thread thread_;
  ControlCall call_;
};

}  // namespace tangram::serve
