// One HTTP request from its head to the world: its address, its caller, and the call that is made of it.
//
// A connection has one exchange, for the request that it is reading, and reuses it for the next. The steps are those of
// the Frontdoor: begin() routes, identify() authenticates as soon as the head is complete, and dispatch() does the rest
// when the body is complete.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/http_parser.h"
#include "host/tls.h"
#include "serve/http_context.h"

namespace tangram::serve {

class HttpExchange {
 public:
  // The context outlives it, and so do the accounts of `places`, which count for requests of unknown callers.
  HttpExchange(HttpContext& context, const ListenOptions& options, const MemoryPlaces& places = {},
               std::shared_ptr<ConnectionMemory> memory = nullptr)
      : context_(context),
        port_(options.port),
        trusted_(options.trusted),
        asks_who_(context.gateway.access.on() && !options.trusted),
        places_(places),
        memory_(std::move(memory)) {}
  ~HttpExchange() { drop_body(); }
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  // A head is complete: finds its address and keeps the fields that matter to inference.
  void begin(const host::HttpHead& head);
  // Authenticates the caller, before the body is read. A denial becomes the answer of the request. `tls` is the stream
  // of the connection, null if it is plain.
  void identify(const host::HttpHead& head, const host::TlsStream* tls);
  // The answer that the request gets whatever its body holds: its address is wrong, or its caller is denied.
  const std::optional<Reply>& refusal() const { return target_.refusal; }
  // True if callers are authenticated, so that a refused stranger is not worth a long body.
  bool asks_who() const { return asks_who_; }

  // How the client takes the body of the answer, and the fields that its page needs to read it, which live as long as
  // the server.
  host::ContentCoding accepted_coding(const host::HttpHead& head) const;
  std::string_view cors_fields() const { return cors_fields_; }

  // False: the body means nothing and is discarded.
  bool takes_body() const;
  // The longest body, unpacked.
  std::uint64_t body_max() const {
    return is_infer() ? context_.limits.body_max : std::min(context_.limits.control_max, context_.limits.body_max);
  }
  // The body begins. Returns why it is refused, here and below.
  std::optional<host::HttpRefusal> open_body(const host::HttpHead& head);
  // A part of the body has come: keeps it, unpacked, if there is memory for it. `length` is what the body has
  // announced, 0: nothing. Requires that unpacks_more() is false, or no bytes.
  std::optional<host::HttpRefusal> take_body(std::string_view bytes, std::uint64_t length);
  // A part of what has come is to be unpacked by further calls of take_body(), in later turns: one turn does a slice of
  // the work.
  bool unpacks_more() const { return unpacks_more_; }
  std::optional<host::HttpRefusal> end_body();
  std::string& body() { return call_ != nullptr ? call_->body : text_; }
  // Discards the body and releases what was charged for it.
  void drop_body();

  // The request is complete. Returns the answer, or the asker of the call that was posted to the world for `asker`.
  std::variant<Reply, HttpAsker*> dispatch(HttpConnection* asker);

  // The rest of the request is not read. Reports it if it was inference and was not reported yet.
  void cut_off(const host::HttpRefusal& refusal);
  // The input is no valid head, so it may have been any request.
  void malformed(const host::HttpRefusal& refusal);

 private:
  // The fields that matter to inference, as the head had them.
  struct Fields {
    std::string json_length;
    std::string deadline_ms;
    std::string input_size;
    std::string background;
    std::string traceparent;
    bool has_json_length = false;
    bool has_deadline = false;
    bool has_input_size = false;
    bool has_background = false;
    std::string_view repeated;  // Which of these came twice.
  };

  bool is_infer() const { return target_.endpoint == Endpoint::infer; }
  // Refuses requests of pages of other sites, and of names that are not ours.
  void check_site(const host::HttpHead& head);
  // The charge of the body that is read.
  Charge& charge() { return call_ != nullptr ? call_->memory : text_charge_; }
  // Ensures that the body has room for so many bytes.
  std::optional<host::HttpRefusal> make_room(std::uint64_t bytes, std::uint64_t length);
  // Why there is no room for a body of so many bytes.
  host::HttpRefusal no_room(std::uint64_t bytes);
  // Unpacks a slice of packed_.
  std::optional<host::HttpRefusal> unpack();
  // Notes the fields of a head, in strings that keep their memory.
  void take_fields(const host::HttpHead& head);
  void take_field(const host::HttpField& field, std::string_view name, std::string& value, bool& has);
  // Fills in the call from fields and body. Requires that its model is set.
  static std::optional<CallProblem> read(const Fields& fields, Call& call);
  // Has another thread read the call, which is then posted or refused by the server.
  std::variant<Reply, HttpAsker*> dispatch_large(HttpConnection* asker, HttpCall* call);
  // True for a request that is to be read by LargeRequests.
  bool is_large(const Call& call) const;
  // Admits and posts the call, or returns the reason not to. Requires a complete body.
  std::variant<Reply, HttpAsker*> dispatch_infer(HttpConnection* asker);
  // Answers a request other than inference, or posts it as a control call.
  std::variant<Reply, HttpAsker*> dispatch_control(HttpConnection* asker);
  // The traceparent of the request, empty if it has no valid one.
  std::string_view trace() const;
  // Counts and logs a request that is not processed further. Sets told_, so that this happens once per request.
  void tell_of_refused(RequestRefusal why, int status, std::string_view reason);

  HttpContext& context_;
  const Port port_;
  const bool trusted_;
  const bool asks_who_;
  const MemoryPlaces places_;
  const std::shared_ptr<ConnectionMemory> memory_;
  Target target_;
  Fields fields_;
  Caller caller_;
  std::optional<std::vector<std::string>> certificate_names_;  // Of the connection, once they were asked for.
  bool told_ = false;                                          // That the request was refused.
  HttpCall* call_ = nullptr;  // Of an inference request, from open_body() on: its body is read into it.
  std::string text_;          // The body of any other request.
  Charge text_charge_;
  bool discards_ = false;                     // The body is not kept.
  std::unique_ptr<host::Unpacker> unpacker_;  // Of a packed body.
  std::string packed_;                        // What came of it and is not unpacked yet.
  bool unpacks_more_ = false;
  std::string_view cors_fields_;
  bool open_metrics_ = false;  // The client wants metrics in that form.
};

}  // namespace tangram::serve
