// What the gRPC connections of one thread share, and the calls that they wait for.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "serve/frontdoor.h"
#include "serve/grpc_server.h"
#include "serve/http_calls.h"
#include "serve/inbox.h"
#include "serve/memory_budget.h"

namespace tangram::serve {

class GrpcConnection;
class GrpcStream;

// The stream is where the answer goes; null: the client has gone, and the answer is discarded.
struct GrpcCall final : Call {
  // What is charged is given back before the account can go.
  ~GrpcCall() { memory = {}; }
  GrpcStream* stream = nullptr;
  std::shared_ptr<ConnectionMemory> connection_memory;  // Whose accounts `memory` can count for.
};

struct GrpcControl final : ControlCall {
  GrpcStream* stream = nullptr;
};

// Hands out calls and takes them back. One thread only; posting passes a call to the thread of the world. A call is
// with its stream, with the world or free; its memory is never freed before the server ends, because messages that its
// caller has gone may reach the world late.
class GrpcCalls {
 public:
  // All outlive it. `wake`: the world is driven by another thread, which sleeps.
  GrpcCalls(CallOwner& owner, ControlOwner& control_owner, Inbox& inbox, bool wake)
      : owner_(owner), control_owner_(control_owner), inbox_(inbox), wake_(wake) {}

  GrpcCall* take();
  GrpcControl* take_control();
  // The call has ended: releases its tenant's request in flight and its bytes.
  void give_back(GrpcCall* call);
  void give_back(GrpcControl* call);
  // Posts the call to the world, which answers the owner. The call must not be touched until then.
  void post(Call* call) { post_any(call); }
  void post(ControlCall* call) { post_any(call); }
  // The client of a posted call has gone: the world need not answer it.
  void abandon(GrpcCall* call);
  // Whether anything was posted since this was last asked.
  bool take_posted() { return std::exchange(posted_, false); }

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
  std::vector<std::unique_ptr<GrpcCall>> calls_;
  std::vector<GrpcCall*> calls_free_;
  std::vector<std::unique_ptr<GrpcControl>> controls_;
  std::vector<GrpcControl*> controls_free_;
};

struct GrpcContext {
  host::EventLoop& loop;
  const GrpcShared shared;
  const GrpcLimits limits;
  Frontdoor frontdoor;
  GrpcCalls calls;
  TimePoint now;                                        // Of the turn that is being handled.
  bool draining = false;                                // Connections end when their calls are answered.
  std::vector<GrpcConnection*> dirty = {};              // Something is to be sent.
  std::set<GrpcStream*> watches = {};                   // Calls of Health/Watch.
  std::function<void(GrpcConnection*)> on_closed = {};  // It may still be on the stack.
};

}  // namespace tangram::serve
