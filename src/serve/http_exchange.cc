// From a request's head to a posted call.
//
// The order of the steps is a matter of cost and of trust. Routing and authentication need the head only, so a request
// that will be denied is known before its body arrives, and it takes no HttpCall. An inference body goes from the input
// buffer straight into the HttpCall that is posted later. Each body is counted in HttpCalls::body_bytes from its
// announcement until its call is given back, which bounds the memory of all clients together.

#include "serve/http_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "serve/page_desk.h"

namespace tangram::serve {
namespace {

// How much memory is reserved for an announced body. A client that announces much and sends nothing costs no more than
// this.
constexpr std::uint64_t kReserveMax = 1 << 20;

// The reason under which a request that is not read to its end is counted.
RequestRefusal refusal_of_http(int status) {
  switch (status) {
    case 408: return RequestRefusal::too_slow;
    case 413:
    case 414:
    case 431: return RequestRefusal::too_large;
    case 503: return RequestRefusal::overloaded;
    default: return RequestRefusal::malformed;
  }
}

// Counts requests that are not valid HTTP. One that is too large, too slow or beyond a limit is valid HTTP.
void count_malformed(Gateway& gateway, const host::HttpRefusal& refusal) {
  if (refusal_of_http(refusal.status) != RequestRefusal::malformed) return;
  gateway.traffic.requests_malformed.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// ---- The head ----

// Resets what belongs to the previous request of the connection.
void HttpExchange::begin(const host::HttpHead& head) {
  target_ = context_.gateway.route(port_, head.method, head.path);
  caller_.tenant = nullptr;
  told_ = false;
  take_fields(head);
}

// A repeated field is remembered and refused later, with the request: two readers could take different ones.
void HttpExchange::take_field(const host::HttpField& field, std::string_view name, std::string& value, bool& has) {
  if (std::exchange(has, true)) fields_.repeated = name;
  value = field.value;
}

// The strings keep their memory from request to request, so only the flags are reset.
void HttpExchange::take_fields(const host::HttpHead& head) {
  fields_.has_json_length = fields_.has_deadline = fields_.has_input_size = fields_.has_background = false;
  fields_.repeated = {};
  fields_.traceparent.clear();
  for (const auto& field : head.all_fields()) {
    // Runs for every field of every request. Most have another length than the fields that matter, so the length
    // decides before any text is compared.
    switch (field.name.size()) {
      case 11:
        if (host::equals_ignoring_case(field.name, "traceparent")) fields_.traceparent = field.value;
        break;
      case 18:
        if (host::equals_ignoring_case(field.name, "tangram-background")) {
          take_field(field, "Tangram-Background", fields_.background, fields_.has_background);
        } else if (host::equals_ignoring_case(field.name, "tangram-input-size")) {
          take_field(field, "Tangram-Input-Size", fields_.input_size, fields_.has_input_size);
        }
        break;
      case 19:
        if (!host::equals_ignoring_case(field.name, "tangram-deadline-ms")) break;
        take_field(field, "Tangram-Deadline-Ms", fields_.deadline_ms, fields_.has_deadline);
        break;
      case 31:
        if (!host::equals_ignoring_case(field.name, "inference-header-content-length")) break;
        take_field(field, "Inference-Header-Content-Length", fields_.json_length, fields_.has_json_length);
        break;
      default: break;
    }
  }
}

// Requires begin(). A denial replaces a refusal of the address: a caller without rights learns nothing about which
// addresses and models exist.
void HttpExchange::identify(const host::HttpHead& head, const host::TlsStream* tls) {
  const bool infer = target_.endpoint == Endpoint::infer;
  std::optional<AccessDenial> denial;
  if (asks_who_) {
    const auto show = [&](Credentials& shown) -> std::optional<AccessDenial> {
      // The names of a certificate stay the same for the whole connection and are expensive to extract: once is enough.
      if (tls != nullptr && !certificate_names_) certificate_names_ = tls->peer_names();
      shown = {head.find("authorization").value_or(""), head.find("x-api-key").value_or(""), {}};
      if (certificate_names_) shown.certificate_names = *certificate_names_;
      return std::nullopt;  // The parser has refused heads with several of either.
    };
    denial = context_.frontdoor.identify(access_need(port_, target_.endpoint), target_.model, show, caller_);
  }
  if (denial) {
    // Only inference is counted and logged as a refused request; told_ keeps cut_off() from doing so again.
    if (infer) {
      told_ = true;
      context_.frontdoor.tell_of_denied(*denial, caller_, target_.model, trace());
    }
    target_.refusal = reply_to(*denial);
  } else if (infer && target_.refusal) {
    tell_of_refused(RequestRefusal::not_found, target_.refusal->status, target_.refusal->reason);
  }
}

// ---- The body ----

void HttpExchange::open_body(std::uint64_t announced) {
  // A request that will be refused gets no call; its body goes to text_ and is discarded.
  if (target_.endpoint == Endpoint::infer && !target_.refusal) call_ = context_.calls.take();
  body_counted_ = announced;
  context_.calls.body_bytes += announced;
  body().reserve(static_cast<std::size_t>(std::min(announced, kReserveMax)));
}

// A chunked body is counted as it grows, since it has no announced length.
void HttpExchange::count_body() {
  context_.calls.body_bytes += body().size() - body_counted_;
  body_counted_ = body().size();
}

void HttpExchange::drop_body() {
  context_.calls.body_bytes -= std::exchange(body_counted_, 0);
  text_ = {};
  if (call_ != nullptr) context_.calls.give_back(std::exchange(call_, nullptr));
}

// ---- The whole request ----

std::variant<Reply, HttpAsker*> HttpExchange::dispatch(HttpConnection* asker) {
  if (!target_.refusal) return target_.endpoint == Endpoint::infer ? dispatch_infer(asker) : dispatch_control(asker);
  drop_body();
  return *target_.refusal;
}

// Takes the call over from the exchange first, so that it is given back exactly once: here on a denial, otherwise after
// its answer.
std::variant<Reply, HttpAsker*> HttpExchange::dispatch_infer(HttpConnection* asker) {
  HttpCall* call = std::exchange(call_, nullptr);
  call->body_bytes = std::exchange(body_counted_, 0);
  call->model = target_.model;
  call->traceparent = trace();
  if (const auto denial = context_.frontdoor.admit(caller_, *call, [this](Call& c) { return read(c); })) {
    context_.calls.give_back(call);
    return reply_to(*denial);
  }
  // The asker is where the answer goes. The connection clears it if it closes before.
  call->asker = {asker, call};
  context_.calls.post(call);
  return &call->asker;
}

std::optional<CallProblem> HttpExchange::read(Call& call) const {
  if (!fields_.repeated.empty()) return invalid_request(fmt::format("several {} fields", fields_.repeated));
  InferHeaders headers;
  if (fields_.has_json_length) headers.json_length = fields_.json_length;
  if (fields_.has_deadline) headers.deadline_ms = fields_.deadline_ms;
  if (fields_.has_input_size) headers.input_size = fields_.input_size;
  if (fields_.has_background) headers.background = fields_.background;
  return read_infer_request(headers, call);
}

// Runs handle() on the I/O thread. Only what needs the world becomes a control call.
std::variant<Reply, HttpAsker*> HttpExchange::dispatch_control(HttpConnection* asker) {
  auto handled = context_.gateway.handle(target_, text_);
  drop_body();
  if (Reply* now = std::get_if<Reply>(&handled)) return std::move(*now);
  HttpControl* call = context_.calls.take_control();
  call->work = std::move(std::get<ControlWork>(handled));
  call->type = answer_type(target_.endpoint);
  call->asker = {asker};
  context_.calls.post(call);
  return &call->asker;
}

// ---- Refusals ----

std::string_view HttpExchange::trace() const {
  return is_traceparent(fields_.traceparent) ? std::string_view(fields_.traceparent) : std::string_view();
}

void HttpExchange::tell_of_refused(RequestRefusal why, int status, std::string_view reason) {
  told_ = true;
  RefusedRequest refused{why, status, reason, target_.model};
  if (caller_.tenant != nullptr) refused.tenant = caller_.tenant->said.name;
  refused.traceparent = trace();
  context_.gateway.tell_of_refused(refused);
}

void HttpExchange::cut_off(const host::HttpRefusal& refusal) {
  // The head was complete, so it is known whether this is inference, and identify() can have reported it already.
  if (target_.endpoint == Endpoint::infer && !told_) {
    tell_of_refused(refusal_of_http(refusal.status), refusal.status, refusal.reason);
  }
  count_malformed(context_.gateway, refusal);
  drop_body();
}

void HttpExchange::malformed(const host::HttpRefusal& refusal) {
  // Forget the previous request of the connection, or this one would be logged with its model and tenant.
  target_ = {};
  caller_.tenant = nullptr;
  fields_.traceparent.clear();
  // It may have been inference at the data port. The admin port has none.
  if (port_ == Port::data) {
    tell_of_refused(refusal_of_http(refusal.status), refusal.status, refusal.reason);
  }
  count_malformed(context_.gateway, refusal);
  drop_body();
}

}  // namespace tangram::serve
