// A kept connection to a server with at most one request under way, for callers that watch many sockets.
//
// Nothing here waits but open() where it is told to: the caller watches the socket and says when it is ready.
#pragma once

#include <string>

#include "client/http_answer.h"
#include "client/stream.h"

namespace tangram::client {

class HttpConnection {
 public:
  enum class Event : std::uint8_t {
    none,      // Nothing to report yet.
    answered,  // answer() is complete. The connection is free; it is of no more use unless answer().keep_alive().
    ended,     // The connection is of no more use, and no request was under way.
    lost,      // The same under a request.
    garbled,   // The server does not answer in HTTP, or too much.
  };

  explicit HttpConnection(HttpAnswerLimits limits = {}) : answer_(limits) {}

  Stream& stream() { return stream_; }
  const Stream& stream() const { return stream_; }
  const HttpAnswerReader& answer() const { return answer_; }
  std::string take_body() { return answer_.take_body(); }

  // A request has begun and is not answered.
  bool busy() const { return busy_; }
  // Takes a request, head and body. Requires an open stream and !busy(). Sends nothing yet: a stream that is still
  // connecting must become writable first.
  void begin(std::string request);
  // Sends the last request again from its first byte on, after the stream was opened again.
  void begin_again();
  // Gives the request up. The stream must be opened again before the next one.
  void abandon() { busy_ = false; }

  // Sends what the socket takes.
  Event write();
  // Takes what has come.
  Event read();
  // Both, after the socket became ready. A broken socket counts as readable: reading finds out why.
  Event on_ready(bool readable, bool writable);
  // Whether the socket is to be watched for writing, beside reading.
  bool wants_write() const { return stream_.wants_write(output_left()); }

 private:
  bool output_left() const { return busy_ && sent_ < out_.size(); }
  Event finish(Event event);

  Stream stream_;
  HttpAnswerReader answer_;
  bool busy_ = false;
  std::string out_;
  std::size_t sent_ = 0;  // Bytes of out_.
};

}  // namespace tangram::client
