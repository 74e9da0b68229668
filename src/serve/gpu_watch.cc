// Invariant: `closed_` is false only while the thread has, or is about to have, the library open; suspend() waits for
// it.
#include "serve/gpu_watch.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace tangram::serve {
namespace {

// How long one wait for events takes at most, and so a suspend(). Every wait also asks the GPUs whether they answer.
constexpr Duration kPatience = std::chrono::milliseconds(250);
// Until a driver that does not answer is asked again.
constexpr std::chrono::seconds kPauseWithoutDriver{10};

}  // namespace

GpuWatch::GpuWatch(std::string library, const recut::GpuChoices& devices, Inbox& inbox, host::LogWriter& log, Tell tell)
    : library_(std::move(library)), devices_(devices), inbox_(inbox), log_(log), tell_(std::move(tell)) {
  call_.owner = this;
  call_.work = [this](LiveWorld& world, ControlCall&) { deliver(world); };
  thread_ = std::thread([this] { run(); });
}

GpuWatch::~GpuWatch() {
  {
    const host::MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void GpuWatch::suspend() {
  const host::MutexLock lock(mutex_);
  ++suspended_;
  while (!closed_) changed_.wait(mutex_);
}

void GpuWatch::resume() {
  {
    const host::MutexLock lock(mutex_);
    --suspended_;
  }
  changed_.notify_all();
}

bool GpuWatch::may_listen() {
  const host::MutexLock lock(mutex_);
  while (suspended_ > 0 && !stopping_) changed_.wait(mutex_);
  closed_ = stopping_;
  return !stopping_;
}

std::unique_ptr<adapters::GpuEvents> GpuWatch::open() {
  std::map<std::string, bool> gpus;
  for (const auto& [device, uuid] : devices_) gpus[uuid] = !unreachable_.contains(uuid);
  auto opened = adapters::GpuEvents::open(library_, gpus);
  const std::string problem = opened ? (*opened)->problem() : opened.error().message;
  if (!problem.empty() && std::exchange(told_, problem) != problem) {
    log_.write(host::LogLine(host::LogLevel::warning, "gpus_not_watched").text("reason", problem));
  }
  return opened ? std::move(*opened) : nullptr;
}

void GpuWatch::run() {
  while (may_listen()) {
    auto events = open();
    const bool listens = events != nullptr;
    while (listens) {
      pass_on(events->wait(kPatience));
      const host::MutexLock lock(mutex_);
      if (suspended_ > 0 || stopping_) break;
    }
    events.reset();
    const host::MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
    if (stopping_) return;
    if (!listens) changed_.wait_until(mutex_, std::chrono::steady_clock::now() + kPauseWithoutDriver);
  }
}

void GpuWatch::pass_on(const std::vector<adapters::GpuEvent>& events) {
  using Kind = adapters::GpuEvent::Kind;
  for (const auto& event : events) {
    std::string device;
    for (const auto& [name, uuid] : devices_) {
      if (uuid == event.gpu_uuid) device = name;
    }
    if (event.kind == Kind::unreachable) unreachable_.insert(event.gpu_uuid);
    if (event.kind == Kind::reachable) unreachable_.erase(event.gpu_uuid);
    const bool harmless = event.kind == Kind::xid && adapters::concerns_program_only(event.xid);
    if (event.kind == Kind::xid) {
      log_.write(host::LogLine(harmless ? host::LogLevel::info : host::LogLevel::warning, "gpu_xid")
                     .text("device", device)
                     .text("gpu", event.gpu_uuid)
                     .integer("xid", event.xid));
    }
    if (device.empty() || harmless) continue;
    DeviceNews news{device, event.kind == Kind::reachable, event.kind == Kind::unreachable, {}};
    news.reason = event.kind == Kind::xid ? fmt::format("XID {}", event.xid) : "the driver cannot reach the GPU";
    const host::MutexLock lock(mutex_);
    news_.push_back(std::move(news));
    if (!std::exchange(posted_, true)) inbox_.post(&call_);
  }
}

void GpuWatch::deliver(LiveWorld& world) {
  std::vector<DeviceNews> news;
  {
    const host::MutexLock lock(mutex_);
    news.swap(news_);
  }
  for (const auto& one : news) tell_(world, one);
}

void GpuWatch::on_controlled(ControlCall* call) {
  const host::MutexLock lock(mutex_);
  posted_ = !news_.empty();
  if (posted_) inbox_.post(call);
}

}  // namespace tangram::serve
