// One client: frames requests, sends answers in order, and limits the time that the client may take for both.
//
// HttpExchange knows what a request means.
//
// States of the socket: it is read until a refusal, the last request or the end of the client's input makes it
// `closing_`. Then everything owed is sent. Then it is closed at once, or it is `lingering_` while the client still
// sends a body that is discarded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
  // What a connection takes of the memory for callers, however little it sends: its own objects and buffers, and those
  // of TLS.
  static constexpr std::uint64_t kPlainBytes = 8 << 10;
  static constexpr std::uint64_t kTlsBytes = 48 << 10;
  static std::uint64_t fixed_bytes(bool tls) { return tls ? kTlsBytes : kPlainBytes; }

  // Takes over the socket, and the place of `key` among the peers. `fixed` has its fixed bytes. The context outlives
  // it.
  HttpConnection(HttpContext& context, int socket, const ListenOptions& options, const PeerKey& key,
                 std::shared_ptr<Peer> peer, Charge fixed);
  ~HttpConnection() override { shut(); }

  void on_ready(bool readable, bool writable, bool broken) override;
  // The answer to one of the requests. It is sent after the answers to all requests before it.
  void answered(const HttpCall& call);
  void answered(const HttpControl& call);
  // Sends what can be sent, and continues with input that had to wait.
  void proceed();
  // The same, for a connection that had asked for another turn.
  void proceed_later();
  // Whether the client has exceeded a time limit: for the handshake, a request, reading its answer, or between two
  // requests.
  bool out_of_time(TimePoint now) const;
  // Begins a new time to measure the rate of a request over, if one has passed. Requires that it was fast enough.
  void renew_window(TimePoint now);
  // Ends a connection whose time is over: with 408 if a request is incomplete, otherwise without an answer.
  void time_out();
  // Closes the connection if nothing is under way. A request of which nothing came for kStallMax is given up.
  void stop_when_idle(TimePoint now);
  // Since when it waits for the client, with no answer owed or unsent: such a connection can give way to a new one.
  // Nothing: it is of use.
  std::optional<TimePoint> quiet_since() const;
  // Whether it has ever brought a whole request.
  bool has_asked() const { return has_asked_; }
  // Closes it without another answer.
  void give_way() { close_now(); }

  std::size_t index = 0;  // Of the server's connections.

 private:
  enum class Reading : std::uint8_t { head, body, chunks, nothing };

  // Reads what has arrived and parses it. Closes if the client has gone.
  void read_some();
  // Counts a failed TLS handshake; a client that spoke plain HTTP is told so.
  void fail_handshake(char* buffer, std::size_t room);
  // Parses the requests in input_, up to the limits of blocked().
  void parse();
  // Parses what is in in_, and keeps the rest there.
  void parse_kept();
  // Keeps what parse() has left of bytes that are not in in_.
  void keep_rest();
  // Each consumes what it can of the input. True: something else may follow.
  bool parse_head();
  bool parse_body();
  bool parse_chunks();
  // Passes content to the exchange, of a body that has announced `length`, or 0. False: it is refused, or it is
  // unpacked in further turns.
  bool take_content(std::string_view bytes, std::uint64_t length);
  // The content is complete. False: it is refused after all.
  bool end_content();
  // The largest body of the request that is being read.
  std::uint64_t body_max() const;
  // Ensures that the connection goes on in the next turn.
  void go_on_later();
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
  // Whether a request that is being read brings too little, over the last seconds.
  bool too_slow(TimePoint now) const;
  // Whose account the answer of this call counts for.
  MemoryAccount* group_of(const HttpCall& call) const;

  HttpContext& context_;
  ClientStream stream_;
  const PeerKey peer_key_;
  Charge fixed_;
  const std::shared_ptr<ConnectionMemory> memory_;
  const MemoryPlaces places_;  // Of what belongs to no tenant yet.
  HttpExchange exchange_;      // The request that is being read.
  AnswerForm form_;            // Of its answer.
  HttpAnswerQueue answers_;
  Reading reading_ = Reading::head;
  host::Interest interest_ = host::Interest::read;
  bool dirty_ = false;
  bool closing_ = false;  // Nothing more is read; closed once everything is sent.
  bool peer_done_ = false;
  bool more_comes_ = false;  // The client may still send a body that is discarded.
  bool lingering_ = false;   // Everything is sent; input is discarded.
  bool later_ = false;       // It is in context_.later.
  bool waits_ = false;       // For its next turn: the content that was read is still being unpacked.
  bool has_asked_ = false;
  std::string_view input_;  // What parse() has not consumed: of in_, or of the buffer that was just read.
  std::string in_;          // What was read and not parsed. Empty most of the time.
  std::size_t in_at_ = 0;
  Charge in_charge_;               // Of in_, beyond the first kKeptBytes.
  std::uint64_t body_length_ = 0;  // While reading a body that announced it.
  std::uint64_t body_came_ = 0;    // Of these bytes.
  host::ChunkedReader chunks_;     // While reading one that did not.
  TimePoint read_at_;              // When bytes last came.
  TimePoint quiet_since_;          // Since when no request is in flight.
  TimePoint window_began_;         // Of the rate of the request that is being read, from its begin.
  std::uint64_t window_bytes_ = 0;
  TimePoint unsent_since_;
};

}  // namespace tangram::serve
