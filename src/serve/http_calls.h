// The calls of one HTTP thread: which connection waits for which call, and a pool of their memory.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "serve/inbox.h"
#include "serve/peers.h"

namespace tangram::serve {

class HttpConnection;

// The connection that waits for the answer. Null: the client has gone, and the answer is discarded.
struct HttpAsker {
  HttpConnection* connection = nullptr;
  Call* call = nullptr;  // Of the same request; null: it is a control call.
};

// What a connection holds. Shared with the calls that it has posted, which can outlive it.
struct ConnectionMemory {
  ConnectionMemory(std::uint64_t limit, std::shared_ptr<Peer> of) : account(limit), peer(std::move(of)) {}
  MemoryAccount account;
  const std::shared_ptr<Peer> peer;
};

struct HttpCall final : Call {
  HttpCall() = default;
  // The charge ends before the accounts that it counts for.
  ~HttpCall() { memory = {}; }
  HttpCall(const HttpCall&) = delete;
  HttpCall& operator=(const HttpCall&) = delete;

  HttpAsker asker;
  std::shared_ptr<ConnectionMemory> connection_memory;  // Whose accounts `memory` can count for.
  bool being_read = false;                              // By LargeRequests; the world does not know it yet.
};

struct HttpControl final : ControlCall {
  HttpAsker asker;
  std::string_view type;  // Of the answer's text.
};

// Hands out calls and takes them back. One thread only; posting passes a call to the thread of the world.
class HttpCalls {
 public:
  // All outlive it. `wake`: the world is driven by another thread, which sleeps. The pool of calls is charged to
  // `whole`, where there is one.
  HttpCalls(CallOwner& owner, ControlOwner& control_owner, Inbox& inbox, bool wake, MemoryAccount* whole = nullptr)
      : owner_(owner), control_owner_(control_owner), inbox_(inbox), wake_(wake), pool_(MemoryPlaces{{}, {}, whole}) {
    if (whole != nullptr) calls_max_ = static_cast<std::size_t>(whole->limit() / kPoolShare / kCallBytes);
  }

  // Null: as many as there may be are in flight.
  HttpCall* take();
  HttpControl* take_control();
  // The call has ended: releases its tenant's request in flight and what is charged for it.
  void give_back(HttpCall* call);
  void give_back(HttpControl* call);
  // Posts the call to the world, which answers the owner. The call must not be touched until then.
  void post(HttpCall* call) { post_any(call); }
  void post(HttpControl* call) { post_any(call); }
  // The client of a posted call has gone: the world need not answer it.
  void abandon(Call* call) {
    if (!static_cast<HttpCall*>(call)->being_read) post_any(Inbox::Abandoned{call});
  }
  // Whether anything was posted since this was last asked.
  bool take_posted() { return std::exchange(posted_, false); }

 private:
  // A call without its texts, and what the scheduler keeps for it. Calls are never freed, so their pool may take a
  // quarter of the memory for all callers at most.
  static constexpr std::uint64_t kCallBytes = 1024;
  static constexpr std::uint64_t kPoolShare = 4;

  void post_any(Inbox::Posted call) {
    posted_ = true;
    inbox_.post(call, wake_);
  }

  CallOwner& owner_;
  ControlOwner& control_owner_;
  Inbox& inbox_;
  const bool wake_;
  bool posted_ = false;
  Charge pool_;
  std::size_t calls_max_ = std::numeric_limits<std::size_t>::max();
  std::vector<std::unique_ptr<HttpCall>> calls_;
  std::vector<HttpCall*> calls_free_;
  std::vector<std::unique_ptr<HttpControl>> controls_;
  std::vector<HttpControl*> controls_free_;
};

}  // namespace tangram::serve
