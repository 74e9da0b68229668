// What the connections of one HTTP thread share.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "host/event_loop.h"
#include "host/tls.h"
#include "serve/cross_site.h"
#include "serve/frontdoor.h"
#include "serve/gateway.h"
#include "serve/http_answer.h"
#include "serve/http_calls.h"
#include "serve/peers.h"

namespace tangram::serve {

struct HttpLimits {
  std::size_t head_max = 16 << 10;
  std::uint64_t body_max = std::uint64_t{64} << 20;
  std::size_t connections_max = 4096;          // Of each thread.
  std::size_t peer_max = 0;                    // Connections of one peer, of all threads; 0: half of all there may be.
  std::size_t pipeline_max = 64;               // Requests of one connection in flight.
  std::uint64_t control_max = 1 << 20;         // The body of a request other than inference.
  Duration grace = std::chrono::seconds(10);   // For a head, and the time over which the rate of a body is taken.
  double rate_min = 4096;                      // Bytes a second that a body must bring in each such time.
  Duration idle = std::chrono::seconds(75);    // Between two requests.
  Duration unread = std::chrono::seconds(30);  // For a client that does not read its answer.
  Duration quiet_min = std::chrono::seconds(1);  // A connection quiet for that long gives way where the table is full.
};

// What all HTTP threads of a server share.
struct HttpShared {
  HttpShared(std::size_t peer_max, std::uint64_t peer_memory_max) : peers(peer_max, peer_memory_max) {}

  Peers peers;
  CrossSiteRules cross_site;
};

// How the clients of a listening socket are treated.
struct ListenOptions {
  Port port = Port::data;
  const host::TlsSlot* tls = nullptr;  // Null: plain. Outlives the server.
  bool trusted = false;                // File permissions decide who can connect, so no key is required.
};

// A call that LargeRequests reads.
struct HttpReading {
  HttpCall* call = nullptr;
  Caller caller = {};
  AccessTime time = {};
  std::optional<CallProblem> problem = {};
};

struct HttpContext {
  host::EventLoop& loop;
  const host::LiveClock& clock;
  Gateway& gateway;
  const HttpLimits limits;
  HttpShared& shared;
  Frontdoor frontdoor;
  HttpCalls calls;
  HttpAnswerWriter writer;
  TimePoint now;                            // Of the turn that is being handled.
  std::size_t unpacked = 0;                 // Bytes that packed bodies have become in this turn.
  bool draining = false;                    // Answers announce that the connection closes.
  std::vector<HttpConnection*> dirty = {};  // Something is to be sent, or reading may go on.
  std::vector<HttpConnection*> later = {};  // The same, in the next turn: others come first.
  // Has another thread call `read`, and posts or refuses the call afterwards. Empty: there is no such thread.
  std::function<void(HttpReading reading, std::function<std::optional<CallProblem>(Call&)> read)> read_elsewhere = {};
  // A connection has closed its socket. It may still be on the stack.
  std::function<void(HttpConnection*)> on_closed = {};
};

}  // namespace tangram::serve
