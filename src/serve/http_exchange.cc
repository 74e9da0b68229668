// From a request's head to a posted call.
//
// The order of the steps is a matter of cost and of trust. Routing and authentication need the head only, so a request
// that will be denied is known before its body arrives, and it takes no HttpCall. An inference body goes from the input
// buffer straight into the HttpCall that is posted later. Each byte of a body is charged before it is kept, and until
// its call is given back.

#include "serve/http_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "serve/page_desk.h"

namespace tangram::serve {
namespace {

// What all connections of a thread together unpack in a turn, before the clients that wait have theirs: less than half
// a millisecond.
constexpr std::size_t kUnpackedInTurn = 128 << 10;
// What comes out of the unpacker at a time.
constexpr std::size_t kUnpackRoom = 64 << 10;
// What a packed body takes besides its content: the unpacker, and packed bytes that wait for it.
constexpr std::uint64_t kUnpackBytes = host::Unpacker::kBytes + (64 << 10);

// Longer JSON, and longer bodies, are read by another thread: this much JSON takes about five milliseconds here.
constexpr std::size_t kJsonReadHere = 256 << 10;
constexpr std::size_t kBytesReadHere = 4 << 20;

constexpr std::string_view kTooMuchHeld = "the server holds too many bytes for its callers";
constexpr std::string_view kNeverRoom = "the body needs more memory than one caller may have (--memory-max)";

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

// Prometheus names both forms with weights, and prefers this one where it is configured to read it.
bool wants_open_metrics(const host::HttpHead& head) {
  const auto accept = head.find("accept");
  return accept && accept->find("application/openmetrics-text") != std::string_view::npos;
}

}  // namespace

// ---- The head ----

// Resets what belongs to the previous request of the connection.
void HttpExchange::begin(const host::HttpHead& head) {
  target_ = context_.gateway.route(port_, head.method, head.path);
  caller_.tenant = nullptr;
  told_ = false;
  take_fields(head);
  open_metrics_ = target_.endpoint == Endpoint::metrics && wants_open_metrics(head);
  check_site(head);
}

// The data port answers pages of other sites only where they were allowed to ask. What changes the server is refused to
// them at every port, and the admin port refuses names that it does not know, but for metrics: collectors use names of
// their own, and reading a metric harms nobody.
void HttpExchange::check_site(const host::HttpHead& head) {
  cors_fields_ = {};
  if (trusted_) return;
  const CrossSiteRules& rules = context_.shared.cross_site;
  const auto deny = [&](std::string_view reason) {
    target_.refusal = Reply{403, kJsonType, error_body(reason), {}, std::string(reason)};
  };
  // A page cannot send a key to another site without being asked by OPTIONS first.
  const bool shows_key = head.find("authorization") || head.find("x-api-key");
  if (port_ == Port::admin && target_.endpoint != Endpoint::metrics && !shows_key &&
      !is_known_host(head.find("host").value_or("localhost"), rules.admin_hosts)) {
    return deny("unknown Host: ask by number or as localhost, or name it with --admin-host");
  }
  static const std::vector<std::string> kNone;
  const bool changes = head.method != host::HttpMethod::get && head.method != host::HttpMethod::head;
  if (changes && (port_ == Port::admin || access_need(port_, target_.endpoint) == AccessNeed::admin)) {
    if (const auto reason = why_cross_site(head, kNone)) return deny(*reason);
  }
  if (port_ != Port::data) return;
  cors_fields_ = serve::cors_fields(head, rules);
  // What a page may send is asked by OPTIONS first, without a key.
  if (head.method == host::HttpMethod::options && !cors_fields_.empty()) {
    target_ = {Endpoint::live, nullptr, Reply{200, kTextType, "", std::string(kPreflightFields)}};
  }
}

host::ContentCoding HttpExchange::accepted_coding(const host::HttpHead& head) const {
  const auto field = head.find("accept-encoding");
  return field ? host::accepted_coding(*field) : host::ContentCoding::identity;
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

bool HttpExchange::takes_body() const {
  switch (target_.endpoint) {
    case Endpoint::infer:
    case Endpoint::repository_index:
    case Endpoint::load:
    case Endpoint::unload:
    case Endpoint::logging:
    case Endpoint::training_command: return true;
    default: return false;
  }
}

// A request that will be refused gets no call, and its body is discarded as it comes.
std::optional<host::HttpRefusal> HttpExchange::open_body(const host::HttpHead& head) {
  discards_ = target_.refusal || !takes_body();
  const auto field = head.find("content-encoding");
  const auto coding = field ? host::parse_content_coding(*field) : host::ContentCoding::identity;
  if (!coding) return host::HttpRefusal{415, "this content encoding is not supported; gzip and deflate are"};
  if (discards_) return std::nullopt;
  if (is_infer()) {
    call_ = context_.calls.take();
    if (call_ == nullptr) return host::HttpRefusal{503, kTooMuchHeld};
    call_->connection_memory = memory_;
  }
  MemoryPlaces places = places_;
  if (caller_.tenant != nullptr) places.group = &caller_.tenant->state->memory;
  charge() = Charge(places);
  if (*coding == host::ContentCoding::identity) {
    // Known before a byte of it has come, so that no client sends what can never be kept.
    if (!charge().could_hold(head.content_length)) return no_room(head.content_length);
    return std::nullopt;
  }
  if (!charge().grow(kUnpackBytes)) return host::HttpRefusal{503, kTooMuchHeld};
  unpacker_ = std::make_unique<host::Unpacker>(*coding);
  return std::nullopt;
}

host::HttpRefusal HttpExchange::no_room(std::uint64_t bytes) {
  return charge().could_hold(bytes) ? host::HttpRefusal{503, kTooMuchHeld} : host::HttpRefusal{413, kNeverRoom};
}

std::optional<host::HttpRefusal> HttpExchange::make_room(std::uint64_t bytes, std::uint64_t length) {
  if (grow_charged(body(), bytes, length, charge())) return std::nullopt;
  return no_room(bytes);
}

std::optional<host::HttpRefusal> HttpExchange::take_body(std::string_view bytes, std::uint64_t length) {
  if (discards_) return std::nullopt;
  if (unpacker_ != nullptr) {
    packed_.append(bytes);
    return unpack();
  }
  if (const auto wrong = make_room(body().size() + bytes.size(), length)) return wrong;
  body().append(bytes);
  return std::nullopt;
}

// The unpacked size is bounded and charged before it grows, whatever the packed bytes become.
std::optional<host::HttpRefusal> HttpExchange::unpack() {
  thread_local std::array<char, kUnpackRoom> room;
  unpacks_more_ = false;
  std::string_view rest = packed_;
  while (true) {
    if (context_.unpacked >= kUnpackedInTurn) {
      unpacks_more_ = true;
      break;
    }
    const host::Unpacker::Step step = unpacker_->step(rest, room.data(), room.size());
    rest.remove_prefix(step.consumed);
    if (unpacker_->state() == host::Unpacker::State::broken) {
      return host::HttpRefusal{400, "the body is not what its Content-Encoding says"};
    }
    if (body().size() + step.written > body_max()) return host::HttpRefusal{413, "body too large"};
    if (const auto wrong = make_room(body().size() + step.written, 0)) return wrong;
    body().append(room.data(), step.written);
    context_.unpacked += step.written;
    if (step.written < room.size()) break;
  }
  if (unpacker_->state() == host::Unpacker::State::done && !rest.empty()) {
    return host::HttpRefusal{400, "bytes follow the packed body"};
  }
  packed_.erase(0, packed_.size() - rest.size());
  return std::nullopt;
}

std::optional<host::HttpRefusal> HttpExchange::end_body() {
  if (unpacker_ == nullptr) return std::nullopt;
  if (unpacker_->state() != host::Unpacker::State::done) {
    return host::HttpRefusal{400, "the packed body is cut off"};
  }
  unpacker_.reset();
  packed_ = {};
  charge().shrink(kUnpackBytes);
  return std::nullopt;
}

void HttpExchange::drop_body() {
  unpacker_.reset();
  packed_ = {};
  unpacks_more_ = false;
  text_ = {};
  text_charge_.release();
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
  call->model = target_.model;
  call->traceparent = trace();
  if (is_large(*call)) return dispatch_large(asker, call);
  if (const auto denial = context_.frontdoor.admit(caller_, *call, [this](Call& c) { return read(fields_, c); })) {
    context_.calls.give_back(call);
    return reply_to(*denial);
  }
  // The asker is where the answer goes. The connection clears it if it closes before.
  call->asker = {asker, call};
  context_.calls.post(call);
  return &call->asker;
}

// The fields are copied, because the exchange goes on with the next request of its connection.
std::variant<Reply, HttpAsker*> HttpExchange::dispatch_large(HttpConnection* asker, HttpCall* call) {
  HttpReading reading{.call = call, .caller = caller_};
  if (const auto denial = context_.frontdoor.limit(caller_, *call, reading.time)) {
    context_.calls.give_back(call);
    return reply_to(*denial);
  }
  call->being_read = true;
  call->asker = {asker, call};
  context_.read_elsewhere(std::move(reading), [fields = fields_](Call& c) { return read(fields, c); });
  return &call->asker;
}

bool HttpExchange::is_large(const Call& call) const {
  if (!context_.read_elsewhere) return false;
  if (call.body.size() > kBytesReadHere) return true;
  if (call.body.size() <= kJsonReadHere) return false;
  const auto json_length = fields_.has_json_length ? text::parse_integer(fields_.json_length) : std::nullopt;
  return !json_length || *json_length > static_cast<std::int64_t>(kJsonReadHere);
}

std::optional<CallProblem> HttpExchange::read(const Fields& fields, Call& call) {
  if (!fields.repeated.empty()) return invalid_request(fmt::format("several {} fields", fields.repeated));
  InferHeaders headers;
  if (fields.has_json_length) headers.json_length = fields.json_length;
  if (fields.has_deadline) headers.deadline_ms = fields.deadline_ms;
  if (fields.has_input_size) headers.input_size = fields.input_size;
  if (fields.has_background) headers.background = fields.background;
  return read_infer_request(headers, call);
}

// Runs handle() on the I/O thread. Only what needs the world becomes a control call.
std::variant<Reply, HttpAsker*> HttpExchange::dispatch_control(HttpConnection* asker) {
  auto handled = context_.gateway.handle(target_, text_, open_metrics_);
  drop_body();
  if (Reply* now = std::get_if<Reply>(&handled)) return std::move(*now);
  HttpControl* call = context_.calls.take_control();
  call->work = std::move(std::get<ControlWork>(handled));
  call->type = target_.endpoint == Endpoint::metrics && open_metrics_ ? kOpenMetricsType : answer_type(target_.endpoint);
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
