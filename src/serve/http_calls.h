// The calls of one HTTP thread: which connection waits for which call, and a pool of their memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "serve/inbox.h"

namespace tangram::serve {

class HttpConnection;

// The connection that waits for the answer. Null: the client has gone, and the answer is discarded.
struct HttpAsker {
  HttpConnection* connection = nullptr;
  Call* call = nullptr;  // Of the same request; null: it is a control call.
};

struct HttpCall final : Call {
  HttpAsker asker;
  std::uint64_t body_bytes = 0;  // Its share of HttpCalls::body_bytes.
};

struct HttpControl final : ControlCall {
  HttpAsker asker;
  std::string_view type;  // Of the answer's text.
};

// Hands out calls and takes them back. One thread only; posting passes a call to the thread of the world.
class HttpCalls {
 public:
  // All outlive it. `wake`: the world is driven by another thread, which sleeps.
  HttpCalls(CallOwner& owner, ControlOwner& control_owner, Inbox& inbox, bool wake)
      : owner_(owner), control_owner_(control_owner), inbox_(inbox), wake_(wake) {}

  HttpCall* take();
  HttpControl* take_control();
  // The call has ended: releases its tenant's request in flight and its bytes.
  void give_back(HttpCall* call);
  void give_back(HttpControl* call);
  // Posts the call to the world, which answers the owner. The call must not be touched until then.
  void post(HttpCall* call) { post_any(call); }
  void post(HttpControl* call) { post_any(call); }
  // The client of a posted call has gone: the world need not answer it.
  void abandon(Call* call) { post_any(Inbox::Abandoned{call}); }
  // Whether anything was posted since this was last asked.
  bool take_posted() { return std::exchange(posted_, false); }

  // Bytes of all bodies in memory. Whoever reads a body adds to it; give_back() subtracts the share of its call.
  std::uint64_t body_bytes = 0;

 private:
  void post_any(Inbox::Posted call) {
    posted_ = true;
    inbox_.post(call, wake_);
  }

  CallOwner& owner_;
  ControlOwner& control_owner_;
  Inbox& inbox_;
  const bool wake_;
  bool posted_ = false;
  std::vector<std::unique_ptr<HttpCall>> calls_;
  std::vector<HttpCall*> calls_free_;
  std::vector<std::unique_ptr<HttpControl>> controls_;
  std::vector<HttpControl*> controls_free_;
};

}  // namespace tangram::serve
