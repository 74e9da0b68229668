// Hears which GPUs of this machine break while the server runs, on a thread of its own, and tells the world.
//
// It keeps the driver's library open. That would keep a GPU from changing its MIG mode, so whoever cuts a GPU stops the
// watch meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "adapters/nvml/gpu_events.h"
#include "host/log.h"
#include "host/mutex.h"
#include "recut/live_gpus.h"
#include "serve/call.h"
#include "serve/inbox.h"

namespace tangram::serve {

// What has happened to a device.
struct DeviceNews {
  std::string device;
  bool works = false;        // It can be reached again.
  bool until_works = false;  // It is broken until news say that it works; otherwise it may be tried again later.
  std::string reason;        // Why it is broken.
};

class GpuWatch final : public ControlOwner {
 public:
  // Called inside step().
  using Tell = std::function<void(LiveWorld&, const DeviceNews&)>;

  // `devices`: the UUID of each device's GPU. `library`: of the driver; empty: the usual one. `inbox` and `log` outlive
  // it.
  GpuWatch(std::string library, const recut::GpuChoices& devices, Inbox& inbox, host::LogWriter& log, Tell tell);
  ~GpuWatch() override;

  // Closes the library, and returns once it is closed. Every call is answered by a resume(). Any thread but its own.
  void suspend() EXCLUDES(mutex_);
  void resume() EXCLUDES(mutex_);

  void on_controlled(ControlCall* call) override EXCLUDES(mutex_);

 private:
  // The body of the thread.
  void run() EXCLUDES(mutex_);
  // Waits until nobody keeps the library closed. False: the watch ends.
  bool may_listen() EXCLUDES(mutex_);
  // Opens the library. Null: it cannot be; the log has the reason once.
  std::unique_ptr<adapters::GpuEvents> open();
  void pass_on(const std::vector<adapters::GpuEvent>& events) EXCLUDES(mutex_);
  // Inside step().
  void deliver(LiveWorld& world) EXCLUDES(mutex_);

  std::string library_;
  recut::GpuChoices devices_;
  Inbox& inbox_;
  host::LogWriter& log_;
  Tell tell_;
  std::set<std::string> unreachable_;  // UUIDs, as of the last event. The thread's.
  std::string told_;                   // The last problem in the log. The thread's.
  ControlCall call_;

  host::Mutex mutex_;
  host::CondVar changed_;
  int suspended_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = true;  // The library is.
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool posted_ GUARDED_BY(mutex_) = false;  // call_ is.
  std::vector<DeviceNews> news_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tangram::serve
