// One call: an HTTP/2 stream from its header fields to its status.
//
// A call of ModelInfer, or a question, has one request and one answer. ModelStreamInfer and the reflection service have
// any number on one stream, answered in the order of the requests; several can be in flight. The steps of a request are
// those of the Frontdoor: the caller is known before the first byte of a message is kept, the size before it is
// unpacked, and the model before its tensors are converted.
#pragma once

#ifdef TANGRAM_WITH_GRPC

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/content_coding.h"
#include "serve/grpc_codec.h"
#include "serve/grpc_context.h"
#include "serve/grpc_metadata.h"
#include "serve/grpc_methods.h"
#include "serve/grpc_status.h"

namespace tangram::serve {

class GrpcStream {
 public:
  // What a stream costs besides its messages, charged from its first field on: nghttp2's part and this object.
  static constexpr std::uint64_t kBytes = 4096;

  GrpcStream(GrpcContext& context, GrpcConnection& connection, std::int32_t id, Charge charge);
  // Abandons the calls that are not answered.
  ~GrpcStream();
  GrpcStream(const GrpcStream&) = delete;
  GrpcStream& operator=(const GrpcStream&) = delete;

  std::int32_t id() const { return id_; }
  GrpcConnection& connection() { return connection_; }

  // ---- What the client sends ----
  void on_field(std::string_view name, std::string_view value);
  // All fields have come.
  void on_head();
  // Returns how many of the bytes are done with; the rest is kept until there is room for its requests.
  std::size_t on_data(std::string_view bytes);
  // The client sends no more.
  void on_end();
  // Reads on what waited, if there is room for its requests now.
  void read_on();
  bool client_done() const { return client_done_; }

  // ---- What the client gets ----
  // The fields that the answer begins with.
  std::string_view traceparent() const;
  host::ContentCoding answer_packing() const { return packs_ ? packing_ : host::ContentCoding::identity; }
  bool begun() const { return begun_; }
  void set_begun() { begun_ = true; }
  // Bytes that can be sent now, which sent() ends.
  std::string_view unsent() const { return std::string_view(out_).substr(out_at_); }
  void sent(std::size_t bytes);
  // Nothing follows unsent() but the status.
  bool finished() const { return status_.has_value(); }
  const GrpcStatus& status() const { return *status_; }

  // ---- Answers ----
  void answered(GrpcCall& call);
  void answered(const GrpcControl& call);
  // Of a watch: the health of the server may have changed.
  void tell_health();

  // Whether the client has begun a message, or a call without one, and brings too little of it.
  bool too_slow(TimePoint now);
  void time_out();

 private:
  // A request that is not answered, or whose answer waits for those before it.
  struct Pending {
    GrpcCall* call = nullptr;  // Null: answered.
    std::string bytes = {};    // The answer, in its frame.
  };

  // ---- Reading ----
  void refuse_http(int status);
  // The reason why the call has no chance, by its fields alone.
  std::optional<GrpcStatus> why_hopeless();
  // Reads messages until the bytes end or the stream has to wait. Returns how many bytes were read.
  std::size_t feed(std::string_view bytes);
  bool take_prefix(std::string_view& bytes);
  // False: there is no room for the message, and the call has failed.
  bool take_body(std::string_view& bytes);
  bool waits() const;
  // A whole message has come.
  void on_message();
  std::string& body() { return call_ != nullptr ? call_->body : question_; }
  Charge& body_charge() { return call_ != nullptr ? call_->memory : question_charge_; }
  // Begins the call of the next message.
  void open_call();
  void restart_clock();

  // ---- Asking ----
  void dispatch_infer();
  void dispatch_question();
  void begin_watch();
  // Unpacks and reads the message of call_, and fills in the call.
  std::optional<CallProblem> read(GrpcCall& call);
  std::optional<AccessDenial> identify(AccessNeed need, const ServedModel* model);
  std::optional<AccessDenial> may_use(const ServedModel* model);
  InferHeaders headers() const;
  // Counts and logs a request that ended before its message was read.
  void tell_of_refused(RequestRefusal why, int status, std::string_view reason);

  // ---- Answering ----
  // The answer of one request of several: an error of a stream is a message, unless the client wants a status.
  void refuse_request(CallStatus status, const std::string& message, Duration retry_after, GrpcCall* call);
  void answer_request(GrpcCall& call);
  // One message in its frame, packed as the client sent its own; empty: no room for it, and the stream has failed.
  std::string framed(const GrpcAnswer& answer);
  std::string framed(std::string_view message);
  std::string packed_frame(std::string_view message);
  // Sends what is answered, in the order of the requests.
  void send_answered();
  void send(std::string bytes);
  void finish(GrpcStatus status);
  // Ends the stream once the client has sent everything and everything is answered.
  void finish_if_done();
  // Gives the calls back or abandons them.
  void drop_calls();

  GrpcContext& context_;
  GrpcConnection& connection_;
  const std::int32_t id_;
  Charge charge_;  // For this object and what is not sent.
  GrpcMetadata metadata_;
  GrpcRoute route_;
  host::ContentCoding packing_ = host::ContentCoding::identity;  // Of packed messages.
  bool packs_ = false;                                           // Answers, too: the client packs and accepts it.
  Caller caller_;
  std::optional<Duration> patience_;
  TimePoint began_;  // When the client began to wait.

  // The message that is being read.
  char prefix_[5] = {};
  std::size_t prefix_size_ = 0;
  std::uint64_t message_size_ = 0;  // As the prefix says.
  bool message_packed_ = false;
  GrpcCall* call_ = nullptr;  // Of inference; its body is the message.
  std::string question_;      // The message of anything else.
  Charge question_charge_;
  std::string held_;  // Bytes that wait until there is room for their requests.
  std::uint64_t messages_ = 0;
  bool client_done_ = false;
  TimePoint window_begin_;  // Of the rate of what the client sends.
  std::uint64_t window_bytes_ = 0;

  std::vector<Pending> pending_;
  GrpcControl* control_ = nullptr;
  std::optional<HealthStatus> told_;  // Of a watch.
  std::string watched_;
  bool watches_ = false;

  bool begun_ = false;  // The first fields of the answer are with nghttp2.
  std::string out_;
  std::size_t out_at_ = 0;
  std::optional<GrpcStatus> status_;

 public:
  std::size_t index = 0;  // Into the streams of the connection.
};

}  // namespace tangram::serve

#endif
