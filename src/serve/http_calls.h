// The calls of one HTTP thread: which connection waits for which, and memory that is used again.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "serve/inbox.h"

namespace tangram::serve {

class HttpConnection;

// Who waits for the answer. Null: the client has gone, and the answer finds nobody.
struct HttpAsker {
  HttpConnection* connection = nullptr;
};

struct HttpCall final : Call {
  HttpAsker asker;
  std::uint64_t body_bytes = 0;  // Its share of HttpCalls::body_bytes.
};

struct HttpControl final : ControlCall {
  HttpAsker asker;
  std::string_view type;  // Of the answer's text.
};

// Hands out calls and takes them back. One thread, but for the posts, which go to another.
class HttpCalls {
 public:
  // All outlive it. `wake`: the world is driven by another thread, which sleeps.
  HttpCalls(CallOwner& owner, ControlOwner& control_owner, Inbox& inbox, bool wake)
      : owner_(owner), control_owner_(control_owner), inbox_(inbox), wake_(wake) {}

  HttpCall* take();
  HttpControl* take_control();
  // The call is over: its tenant and its bytes are free.
  void give_back(HttpCall* call);
  void give_back(HttpControl* call);
  // To the world, which answers the owner. Nobody touches the call until then.
  void post(HttpCall* call) { post_any(call); }
  void post(HttpControl* call) { post_any(call); }
  // Whether anything was posted since this was last asked.
  bool take_posted() { return std::exchange(posted_, false); }

  // Of all bodies that are here. Whoever reads a body adds; give_back() subtracts what its call holds.
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
