// What the connections of one HTTP thread share.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "host/event_loop.h"
#include "host/tls.h"
#include "serve/frontdoor.h"
#include "serve/gateway.h"
#include "serve/http_answer.h"
#include "serve/http_calls.h"

namespace tangram::serve {

struct HttpLimits {
  std::size_t head_max = 16 << 10;
  std::uint64_t body_max = std::uint64_t{64} << 20;
  std::size_t connections_max = 4096;                 // Of each thread.
  std::size_t pipeline_max = 64;                      // Requests of one connection in flight.
  std::uint64_t bodies_max = std::uint64_t{1} << 30;  // Bytes of all bodies in memory, of each thread.
  Duration grace = std::chrono::seconds(10);          // For a head, and for a body before its rate counts.
  double rate_min = 4096;                             // Bytes a second that a body must bring on average after that.
  Duration idle = std::chrono::seconds(75);           // Between two requests.
  Duration unread = std::chrono::seconds(30);         // For a client that does not read its answer.
};

// How the clients of a listening socket are treated.
struct ListenOptions {
  Port port = Port::data;
  const host::TlsSlot* tls = nullptr;  // Null: plain. Outlives the server.
  bool trusted = false;                // File permissions decide who can connect, so no key is required.
};

struct HttpContext {
  host::EventLoop& loop;
  const host::LiveClock& clock;
  Gateway& gateway;
  const HttpLimits limits;
  Frontdoor frontdoor;
  HttpCalls calls;
  HttpAnswerWriter writer;
  TimePoint now;                            // Of the turn that is being handled.
  bool draining = false;                    // Answers announce that the connection closes.
  std::vector<HttpConnection*> dirty = {};  // Something is to be sent, or reading may go on.
  // A connection has closed its socket. It may still be on the stack.
  std::function<void(HttpConnection*)> on_closed = {};
};

}  // namespace tangram::serve
