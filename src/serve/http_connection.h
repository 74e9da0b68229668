// One client: bytes in, requests framed; answers in order, bytes out; and the time that the client may take for both.
//
// What a request means is the business of its HttpExchange.
//
// States of the socket: it is read, until a refusal, the last request or the client's end makes it `closing_`; then
// everything owed is sent; then it is closed at once, or `lingering_` while the client still sends what nobody wants.
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

class HttpConnection final : public host::Readiness {
 public:
  // Takes over the socket. The context outlives it.
  HttpConnection(HttpContext& context, int socket, const ListenOptions& options);
  ~HttpConnection() override { shut(); }

  void on_ready(bool readable, bool writable, bool broken) override;
  // The answer to one of the requests. Sent when those before it are.
  void answered(const HttpCall& call);
  void answered(const HttpControl& call);
  // Sends what can be sent and reads on where reading had stopped.
  void proceed();
  // Whether the client has used up its time: for the handshake, a request, its answer, or between two requests.
  bool out_of_time(TimePoint now) const;
  void time_out();
  // Closes the connection if nothing is under way.
  void stop_when_idle();

  std::size_t index = 0;  // Of the server's connections.

 private:
  enum class Reading : std::uint8_t { head, body, chunks, nothing };

  // Reads what has come and takes it apart. Closes where the client has gone.
  void read_some();
  // Counts a failed TLS handshake; a client that spoke plain HTTP is told so.
  void fail_handshake(char* buffer, std::size_t room);
  // Takes as many requests apart as have come and may be under way.
  void parse();
  // Each takes what it can of the input. True: something else may follow.
  bool parse_head();
  bool parse_body();
  bool parse_chunks();
  // A head is complete: decides whether and how its body is read.
  void begin(const host::HttpHead& head);
  // The request is complete: answers it, or owes the answer to the call that was posted.
  void dispatch();
  // Writes the answer where it belongs, and sends what is then due.
  void reply(HttpPending& pending, const Reply& reply);
  // An answer is written. Requires that it is owed.
  void finish(HttpPending& pending);
  // Refuses what is being read, and closes once that is sent: behind it nothing can be understood.
  void refuse(const host::HttpRefusal& refusal);
  void refuse_and_close(const Reply& answer);
  // Sends until nothing is left or the client takes no more.
  void flush();
  // Sees to it that proceed() is called in this turn.
  void mark_dirty();
  // Tells the loop what to wait for.
  void watch();
  // Everything is sent, and the client still sends: waits until it has understood.
  void linger();
  void read_unwanted(char* buffer, std::size_t room);
  // Shuts, and tells the server. Nothing of the connection is used afterwards but by callers that look at the stream.
  void close_now();
  // Gives the descriptor back and forgets the calls that are under way.
  void shut();
  // A client that does not take its answers, or has sent very many requests, is not read on.
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
  bool more_comes_ = false;  // The client sends a body that is not wanted.
  bool lingering_ = false;   // Everything is sent; what comes is thrown away.
  std::string in_;
  std::size_t in_at_ = 0;
  std::uint64_t body_length_ = 0;  // While reading a body that announced it.
  host::ChunkedReader chunks_;     // While reading one that did not.
  TimePoint read_at_;              // When bytes last came.
  TimePoint quiet_since_;          // Since when nothing is under way.
  TimePoint message_began_;        // Since when a request is being read.
  std::uint64_t message_bytes_ = 0;
  TimePoint unsent_since_;
};

}  // namespace tangram::serve
