// Brings news of nodes to the world as events of its own: what happens between two steps is told inside of the next.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "serve/call.h"
#include "serve/gpu_watch.h"
#include "serve/inbox.h"

namespace tangram::serve {

// One thread, that of the world.
class NodeNews final : public ControlOwner {
 public:
  // Called inside step().
  using Tell = std::function<void(LiveWorld&, const DeviceNews&)>;

  NodeNews(Inbox& inbox, Tell tell) : inbox_(inbox), tell_(std::move(tell)) {
    call_.owner = this;
    call_.work = [this](LiveWorld& world, ControlCall&) {
      for (const auto& one : std::exchange(news_, {})) tell_(world, one);
    };
  }

  void add(DeviceNews news) {
    news_.push_back(std::move(news));
    if (!std::exchange(posted_, true)) inbox_.post(&call_);
  }
  void on_controlled(ControlCall*) override { posted_ = false; }

 private:
  Inbox& inbox_;
  Tell tell_;
  ControlCall call_;
  std::vector<DeviceNews> news_;
  bool posted_ = false;
};

}  // namespace tangram::serve
