// One client: frames requests, sends answers in order, and limits the time that the client may take for both.
//
// HttpExchange knows what a request means.
//
// States of the socket: it is read until a refusal, the last request or the end of the client's input makes it
// `closing_`. Then everything owed is sent. Then it is closed at once, or it is `lingering_` while the client still
// sends a body that is discarded.
#pragma once

#include <cstdint>
#include <string>

#include "host/event_loop.h"
#include "host/http_parser.h"
#include "serve/client_stream.h"
#include "serve/http_answer_queue.h"
#include "serve/http_context.h"
#include "serve/http_exchange.h"

namespace tangram::serve {

// The class has about 30 methods, most of them private and a few lines long: each step of the state machine above is a
// function, and all of them work on the same socket, buffer and deadlines.
class HttpConnection final : public host::Readiness {
 public:
  // Takes over the socket. The context outlives it.
  HttpConnection(HttpContext& context, int socket, const ListenOptions& options);
  ~HttpConnection() override { shut(); }

  void on_ready(bool readable, bool writable, bool broken) override;
  // The answer to one of the requests. It is sent after the answers to all requests before it.
  void answered(const HttpCall& call);
  void answered(const HttpControl& call);
  // Sends what can be sent, and continues with input that had to wait.
  void proceed();
  // Whether the client has exceeded a time limit: for the handshake, a request, reading its answer, or between two
  // requests.
  bool out_of_time(TimePoint now) const;
  // Ends a connection whose time is over: with 408 if a request is incomplete, otherwise without an answer.
  void time_out();
  // Closes the connection if nothing is under way.
  void stop_when_idle();

  std::size_t index = 0;  // Of the server's connections.

 private:
  enum class Reading : std::uint8_t { head, body, chunks, nothing };

  // Reads what has arrived and parses it. Closes if the client has gone.
  void read_some();
  // Counts a failed TLS handshake; a client that spoke plain HTTP is told so.
  void fail_handshake(char* buffer, std::size_t room);
  // Parses the requests that have arrived, up to the limits of blocked().
  void parse();
  // Each consumes what it can of the input. True: something else may follow.
  bool parse_head();
  bool parse_body();
  bool parse_chunks();
  // A head is complete: decides whether and how its body is read.
  void begin(const host::HttpHead& head);
  // The request is complete: answers it, or owes the answer to the call that was posted.
  void dispatch();
  // Writes the answer at its place in the queue. Requires that it is owed.
  void reply(HttpPending& pending, const Reply& reply);
  // An answer is written. Requires that it is owed.
  void finish(HttpPending& pending);
  // Refuses the request that is being read and closes once that is sent: what follows it cannot be parsed.
  void refuse(const host::HttpRefusal& refusal);
  // The same with this answer, for a request that was reported already.
  void refuse_and_close(const Reply& answer);
  // Sends until nothing is left or the client takes no more.
  void flush();
  // Ensures that proceed() is called in this turn.
  void mark_dirty();
  // Tells the loop what to wait for.
  void watch();
  // Requires that everything is sent. Discards what the client still sends, until it closes or kLingerMax has passed.
  void linger();
  // Discards input while lingering. Closes at its end.
  void read_unwanted(char* buffer, std::size_t room);
  // Shuts and notifies the server. Afterwards callers may only check whether the stream is open.
  void close_now();
  // Closes the socket and abandons the calls in flight. Ensures that no answer reaches the connection any more.
  void shut();
  // True if the client must not be read: it does not read its answers, or has too many requests in flight.
  bool blocked() const;
  // Whether a request has begun and not ended.
  bool in_message() const { return reading_ != Reading::head || in_at_ < in_.size(); }

  HttpContext& context_;
  ClientStream stream_;
  HttpExchange exchange_;  // The request that is being read.
  AnswerForm form_;        // Of its answer.
  HttpAnswerQueue answers_;
  Reading reading_ = Reading::head;
  host::Interest interest_ = host::Interest::read;
  bool dirty_ = false;
  bool closing_ = false;  // Nothing more is read; closed once everything is sent.
  bool peer_done_ = false;
  bool more_comes_ = false;  // The client may still send a body that is discarded.
  bool lingering_ = false;   // Everything is sent; input is discarded.
  std::string in_;
  std::size_t in_at_ = 0;
  std::uint64_t body_length_ = 0;  // While reading a body that announced it.
  host::ChunkedReader chunks_;     // While reading one that did not.
  TimePoint read_at_;              // When bytes last came.
  TimePoint quiet_since_;          // Since when no request is in flight.
  TimePoint message_began_;        // Since when a request is being read.
  std::uint64_t message_bytes_ = 0;
  TimePoint unsent_since_;
};

}  // namespace tangram::serve
