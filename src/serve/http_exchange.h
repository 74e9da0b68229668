// One HTTP request from its head to the world: its address, its caller, and the call that is made of it.
//
// A connection has one exchange, for the request that it is reading, and reuses it for the next. The steps are those of
// the Frontdoor: begin() routes, identify() authenticates as soon as the head is complete, and dispatch() does the rest
// when the body is complete.
#pragma once

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
  // The context outlives it.
  HttpExchange(HttpContext& context, const ListenOptions& options)
      : context_(context), port_(options.port), asks_who_(context.gateway.access.on() && !options.trusted) {}
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

  // The body begins. `announced` bytes count as in memory from now on; 0: they are counted as they arrive.
  void open_body(std::uint64_t announced);
  std::string& body() { return call_ != nullptr ? call_->body : text_; }
  // Counts the bytes that have arrived since the last call, of a body that did not announce its length.
  void count_body();
  // Discards the body and releases what was counted for it.
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

  // Notes the fields of a head, in strings that keep their memory.
  void take_fields(const host::HttpHead& head);
  void take_field(const host::HttpField& field, std::string_view name, std::string& value, bool& has);
  // Fills in the call from fields and body. Requires that its model is set.
  std::optional<CallProblem> read(Call& call) const;
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
  const bool asks_who_;
  Target target_;
  Fields fields_;
  Caller caller_;
  std::optional<std::vector<std::string>> certificate_names_;  // Of the connection, once they were asked for.
  bool told_ = false;                                          // That the request was refused.
  HttpCall* call_ = nullptr;        // Of an inference request, from open_body() on: its body is read into it.
  std::string text_;                // The body of any other request.
  std::uint64_t body_counted_ = 0;  // Bytes of this body in HttpCalls::body_bytes.
};

}  // namespace tangram::serve
