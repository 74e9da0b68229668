// The life of one call. Every path ends in finish(), after which further bytes of the client are thrown away.

#ifdef TANGRAM_WITH_GRPC

#include "serve/grpc_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "serve/grpc_connection.h"

namespace tangram::serve {
namespace {

constexpr std::size_t kFrameHead = 5;
// With more answers than this unread, a stream reads no further requests.
constexpr std::size_t kStreamUnreadMax = 1 << 20;
// Smaller answers are not packed: it would save less than a packet.
constexpr std::size_t kPackMin = 1024;
constexpr std::string_view kNoRoom = "the server holds too many bytes for its callers";
// When a client may try again that was refused for want of memory.
constexpr Duration kRoomRetry = std::chrono::seconds(1);

void append_frame_head(std::string& out, bool packed, std::size_t size) {
  out += packed ? '\1' : '\0';
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift & 0xff);
}

bool is_grpc_content(std::string_view type) {
  constexpr std::string_view kType = "application/grpc";
  return type.starts_with(kType) &&
         (type.size() == kType.size() || type[kType.size()] == '+' || type[kType.size()] == ';');
}

// Whether a list of encodings names this one.
bool names_encoding(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    while (item.starts_with(' ')) item.remove_prefix(1);
    if (item == name) return true;
  }
  return false;
}

// Appends to `out` what `packed` holds, in steps that are charged before they are kept.
std::optional<CallProblem> unpack_message(host::ContentCoding coding, std::string_view packed, std::uint64_t max,
                                          std::string& out, Charge& charge) {
  thread_local std::array<char, 64 << 10> step;
  host::Unpacker unpacker(coding);
  while (unpacker.state() == host::Unpacker::State::more) {
    const auto made = unpacker.step(packed, step.data(), step.size());
    packed.remove_prefix(made.consumed);
    // Without progress the message has ended early.
    if (made.written == 0 && made.consumed == 0) break;
    if (out.size() + made.written > max) {
      return CallProblem{CallStatus::refused, fmt::format("the message has more than {} bytes unpacked", max)};
    }
    if (!grow_charged(out, out.size() + made.written, 0, charge)) {
      return CallProblem{CallStatus::refused, std::string(kNoRoom)};
    }
    out.append(step.data(), made.written);
  }
  if (unpacker.state() == host::Unpacker::State::done && packed.empty()) return std::nullopt;
  return invalid_request(fmt::format("the message is no valid {}", host::to_string(coding)));
}

}  // namespace

GrpcStream::GrpcStream(GrpcContext& context, GrpcConnection& connection, std::int32_t id, Charge charge)
    : context_(context), connection_(connection), id_(id), charge_(std::move(charge)), window_begin_(context.now) {}

GrpcStream::~GrpcStream() {
  if (watches_) context_.watches.erase(this);
  connection_.count_unsent(-static_cast<std::int64_t>(unsent().size()));
  drop_calls();
}

void GrpcStream::drop_calls() {
  if (call_ != nullptr) context_.calls.give_back(std::exchange(call_, nullptr));
  for (Pending& pending : pending_) {
    if (pending.call != nullptr) context_.calls.abandon(pending.call);
  }
  pending_.clear();
  if (control_ != nullptr) std::exchange(control_, nullptr)->stream = nullptr;
}

// ---- The head ----

void GrpcStream::on_field(std::string_view name, std::string_view value) {
  // Nothing beyond the limit is kept; the call fails when the fields have ended.
  if (metadata_.bytes() <= context_.limits.head_max) metadata_.add(name, value);
}

void GrpcStream::on_head() {
  began_ = context_.shared.clock.now();
  restart_clock();
  route_ = find_grpc_method(metadata_.value(GrpcField::path));
  if (metadata_.bytes() <= context_.limits.head_max) {
    if (metadata_.value(GrpcField::method) != "POST") return refuse_http(405);
    if (!is_grpc_content(metadata_.value(GrpcField::content_type))) return refuse_http(415);
  }
  if (auto hopeless = why_hopeless()) return finish(std::move(*hopeless));
  if (metadata_.has(GrpcField::encoding)) {
    packing_ = *host::parse_content_coding(metadata_.value(GrpcField::encoding));
    packs_ = packing_ != host::ContentCoding::identity &&
             names_encoding(metadata_.value(GrpcField::accept_encoding), host::to_string(packing_));
  }
  if (metadata_.has(GrpcField::timeout)) patience_ = parse_grpc_timeout(metadata_.value(GrpcField::timeout));
  open_call();
}

// Of a request that is no call of gRPC, which HTTP has a status for.
void GrpcStream::refuse_http(int status) {
  status_ = GrpcStatus{GrpcCode::unknown};
  begun_ = true;
  connection_.answer_http(*this, status);
}

// The caller comes before everything that it could learn from the answer.
std::optional<GrpcStatus> GrpcStream::why_hopeless() {
  if (metadata_.bytes() > context_.limits.head_max) {
    const auto why = fmt::format("the metadata of a call may have {} bytes", context_.limits.head_max);
    tell_of_refused(RequestRefusal::too_large, 431, why);
    return GrpcStatus{GrpcCode::resource_exhausted, why};
  }
  if (route_.method == GrpcMethod::unknown) {
    return GrpcStatus{GrpcCode::unimplemented, fmt::format("unknown method {}", metadata_.value(GrpcField::path))};
  }
  if (const auto denial = identify(route_.need, nullptr)) {
    if (route_.method == GrpcMethod::infer || route_.method == GrpcMethod::stream_infer) {
      context_.frontdoor.tell_of_denied(*denial, caller_, nullptr, traceparent());
    }
    return GrpcStatus{code_of(denial->status), denial->message, denial->retry_after};
  }
  if (route_.method == GrpcMethod::refused) return GrpcStatus{GrpcCode::unimplemented, std::string(route_.refusal)};
  const auto encoding = metadata_.value(GrpcField::encoding);
  if (!encoding.empty() && !host::parse_content_coding(encoding)) {
    return GrpcStatus{GrpcCode::unimplemented, "messages may be packed as gzip or deflate"};
  }
  const auto timeout = metadata_.value(GrpcField::timeout);
  if (metadata_.has(GrpcField::timeout) && !parse_grpc_timeout(timeout)) {
    return GrpcStatus{GrpcCode::invalid_argument, "grpc-timeout: expected up to eight digits and H, M, S, m, u or n"};
  }
  return std::nullopt;
}

std::string_view GrpcStream::traceparent() const {
  const auto trace = metadata_.value(GrpcField::traceparent);
  return is_traceparent(trace) ? trace : std::string_view();
}

void GrpcStream::open_call() {
  if (route_.method != GrpcMethod::infer && route_.method != GrpcMethod::stream_infer) {
    question_.clear();
    question_charge_ = Charge(connection_.places());
    return;
  }
  call_ = context_.calls.take();
  call_->connection_memory = connection_.memory();
  call_->memory = Charge(connection_.places(caller_.tenant == nullptr ? nullptr : &caller_.tenant->state->memory));
}

std::optional<AccessDenial> GrpcStream::identify(AccessNeed need, const ServedModel* model) {
  // Called only where access control is on, so plain servers pay nothing for it.
  const auto show = [&](Credentials& shown) -> std::optional<AccessDenial> {
    for (const auto& [field, name] :
         {std::pair{GrpcField::authorization, "authorization"}, std::pair{GrpcField::api_key, "x-api-key"}}) {
      if (!metadata_.repeated(field)) continue;
      return AccessDenial{CallStatus::invalid, fmt::format("several {} fields", name), {}};
    }
    shown = {metadata_.value(GrpcField::authorization), metadata_.value(GrpcField::api_key), {}};
    // Reading a certificate takes longer than looking up a key, so it is done only without a key.
    if (shown.authorization.empty() && shown.api_key.empty()) shown.certificate_names = connection_.certificate_names();
    return std::nullopt;
  };
  return context_.frontdoor.identify(need, model, show, caller_);
}

std::optional<AccessDenial> GrpcStream::may_use(const ServedModel* model) {
  return caller_.tenant == nullptr ? std::nullopt : why_forbidden(*caller_.tenant, AccessNeed::client, model);
}

// Tangram's own fields, with the same meaning as over HTTP. "several values" is no valid number, so a repeated field
// fails with a message that names it.
InferHeaders GrpcStream::headers() const {
  const auto field = [&](GrpcField which) -> std::optional<std::string_view> {
    if (!metadata_.has(which)) return std::nullopt;
    return metadata_.repeated(which) ? "several values" : metadata_.value(which);
  };
  InferHeaders headers;
  headers.deadline_ms = field(GrpcField::deadline_ms);
  headers.input_size = field(GrpcField::input_size);
  headers.background = field(GrpcField::background);
  return headers;
}

void GrpcStream::tell_of_refused(RequestRefusal why, int status, std::string_view reason) {
  if (route_.method != GrpcMethod::infer && route_.method != GrpcMethod::stream_infer) return;
  RefusedRequest refused{why, status, reason, nullptr};
  if (caller_.tenant != nullptr) refused.tenant = caller_.tenant->said.name;
  refused.traceparent = traceparent();
  context_.shared.gateway.tell_of_refused(refused);
}

// ---- Reading ----

void GrpcStream::restart_clock() {
  window_begin_ = context_.now;
  window_bytes_ = 0;
}

bool GrpcStream::waits() const {
  return route_.streams && (pending_.size() >= context_.limits.in_flight_max || unsent().size() > kStreamUnreadMax);
}

std::size_t GrpcStream::on_data(std::string_view bytes) {
  window_bytes_ += bytes.size();
  if (finished()) return bytes.size();
  const std::size_t read = held_.empty() ? feed(bytes) : 0;
  if (finished()) return bytes.size();
  if (read == bytes.size()) return read;
  // At most the window of the stream: the client gets no more of it for what is held.
  if (!charge_.grow(bytes.size() - read)) {
    finish({GrpcCode::resource_exhausted, std::string(kNoRoom), kRoomRetry});
    return bytes.size();
  }
  held_ += bytes.substr(read);
  return read;
}

void GrpcStream::read_on() {
  if (held_.empty() || waits() || finished()) return;
  // Out of the way: a call that fails meanwhile drops what it holds.
  const std::string waiting = std::exchange(held_, {});
  const std::size_t read = feed(waiting);
  charge_.shrink(read);
  connection_.consumed(*this, read);
  if (finished()) return;
  held_ = waiting.substr(read);
  if (client_done_) finish_if_done();
}

std::size_t GrpcStream::feed(std::string_view bytes) {
  std::string_view rest = bytes;
  while (!rest.empty() && !finished() && !waits()) {
    if (prefix_size_ < kFrameHead && !take_prefix(rest)) break;
    if (!take_body(rest)) break;
  }
  return finished() ? bytes.size() : bytes.size() - rest.size();
}

// True when the whole prefix is there and good.
bool GrpcStream::take_prefix(std::string_view& bytes) {
  if (prefix_size_ == 0 && messages_ > 0) restart_clock();
  const std::size_t take = std::min(bytes.size(), kFrameHead - prefix_size_);
  std::memcpy(prefix_ + prefix_size_, bytes.data(), take);
  prefix_size_ += take;
  bytes.remove_prefix(take);
  if (prefix_size_ < kFrameHead) return false;
  message_packed_ = prefix_[0] != 0;
  message_size_ = 0;
  for (std::size_t i = 1; i < kFrameHead; ++i) {
    message_size_ = message_size_ << 8 | static_cast<std::uint8_t>(prefix_[i]);
  }
  if (messages_ > 0 && !route_.streams) {
    finish({GrpcCode::internal, "the call has one request only"});
  } else if (prefix_[0] != 0 && (prefix_[0] != 1 || packing_ == host::ContentCoding::identity)) {
    finish({GrpcCode::internal, "the message is packed, and no grpc-encoding says how"});
  } else {
    const bool inference = call_ != nullptr || route_.method == GrpcMethod::load || route_.method == GrpcMethod::unload;
    const std::uint64_t most = inference ? context_.limits.message_max : kGrpcQuestionMax;
    if (message_size_ <= most) return true;
    const auto why = fmt::format("the message has {} bytes, and may have {}", message_size_, most);
    tell_of_refused(RequestRefusal::too_large, 413, why);
    finish({GrpcCode::resource_exhausted, why});
  }
  return false;
}

bool GrpcStream::take_body(std::string_view& bytes) {
  std::string& text = body();
  const std::size_t take = std::min<std::size_t>(bytes.size(), static_cast<std::size_t>(message_size_) - text.size());
  if (!grow_charged(text, text.size() + take, message_size_, body_charge())) {
    tell_of_refused(RequestRefusal::overloaded, 503, kNoRoom);
    finish({GrpcCode::resource_exhausted, std::string(kNoRoom), kRoomRetry});
    return false;
  }
  text += bytes.substr(0, take);
  bytes.remove_prefix(take);
  if (text.size() == message_size_) on_message();
  return !finished();
}

// A call with one request waits for the end of what the client sends, because a second request would make it invalid.
void GrpcStream::on_message() {
  prefix_size_ = 0;
  ++messages_;
  if (!route_.streams) return;
  route_.method == GrpcMethod::stream_infer ? dispatch_infer() : dispatch_question();
}

void GrpcStream::on_end() {
  client_done_ = true;
  if (finished()) return;
  if (!held_.empty()) return;  // read_on() comes here.
  if (prefix_size_ > 0 || (messages_ == 0 && !route_.streams)) {
    return finish({GrpcCode::internal, "the request ends before its message does"});
  }
  if (route_.streams) return finish_if_done();
  route_.method == GrpcMethod::infer ? dispatch_infer() : dispatch_question();
}

bool GrpcStream::too_slow(TimePoint now) {
  const bool within = !route_.streams || prefix_size_ > 0;
  if (finished() || client_done_ || !within || waits()) return false;
  if (now - window_begin_ <= context_.limits.grace) return false;
  const bool slow = static_cast<double>(window_bytes_) < context_.limits.rate_min * to_seconds(context_.limits.grace);
  restart_clock();
  return slow;
}

void GrpcStream::time_out() {
  constexpr std::string_view kWhy = "the request was not complete in time";
  context_.shared.gateway.traffic.timeouts.fetch_add(1, std::memory_order_relaxed);
  tell_of_refused(RequestRefusal::too_slow, 408, kWhy);
  finish({GrpcCode::deadline_exceeded, std::string(kWhy)});
}

// ---- Asking ----

void GrpcStream::dispatch_infer() {
  GrpcCall* call = std::exchange(call_, nullptr);
  pending_.push_back({call});
  call->stream = this;
  call->traceparent = traceparent();
  const TimePoint now = context_.shared.clock.now();
  if (patience_) call->patience = std::max<Duration>(*patience_ - (now - began_), Duration::zero());
  std::optional<AccessDenial> denial;
  // The caller of a stream is checked for each message: a key that is revoked while it is open must stop working.
  if (route_.streams && messages_ > 1) denial = identify(AccessNeed::client, nullptr);
  if (denial) {
    context_.frontdoor.tell_of_denied(*denial, caller_, nullptr, call->traceparent);
  } else {
    denial = context_.frontdoor.admit(caller_, *call, [this](Call& c) { return read(static_cast<GrpcCall&>(c)); });
  }
  if (denial) {
    refuse_request(denial->status, denial->message, denial->retry_after, call);
    context_.calls.give_back(call);
  } else {
    context_.calls.post(static_cast<Call*>(call));
  }
  if (route_.streams && !finished()) open_call();
}

// Inside the tenant's rate: whoever may not send so many requests cannot make the server unpack and read them.
std::optional<CallProblem> GrpcStream::read(GrpcCall& call) {
  if (message_packed_) {
    std::string plain;
    if (auto problem = unpack_message(packing_, call.body, context_.limits.message_max, plain, call.memory)) {
      return problem;
    }
    call.memory.shrink(call.body.size());
    call.body = std::move(plain);
  }
  // Kept from request to request, so that the usual one allocates nothing here.
  thread_local GrpcInferRequest request;
  if (auto problem = request.read(call.body)) return problem;
  call.model = context_.shared.gateway.find_model(request.model_name);
  call.id = request.id;
  if (call.model != nullptr) {
    if (const auto denial = may_use(call.model)) {
      call.model = nullptr;
      return CallProblem{denial->status, denial->message};
    }
  }
  return read_grpc_request(request, headers(), call);
}

void GrpcStream::dispatch_question() {
  if (message_packed_) {
    std::string plain;
    if (auto problem = unpack_message(packing_, question_, kGrpcQuestionMax, plain, question_charge_)) {
      return finish({code_of(problem->status), problem->message});
    }
    question_charge_.shrink(question_.size());
    question_ = std::move(plain);
  }
  if (route_.method == GrpcMethod::health_watch) return begin_watch();
  const auto permission = [this](AccessNeed need, const ServedModel* model) -> std::optional<AccessDenial> {
    return caller_.tenant == nullptr ? std::nullopt : why_forbidden(*caller_.tenant, need, model);
  };
  auto answer = answer_grpc(route_.method, question_, context_.shared.gateway, context_.shared.health, permission);
  question_ = {};
  question_charge_.release();
  if (GrpcReply* reply = std::get_if<GrpcReply>(&answer)) {
    if (reply->status.code != GrpcCode::ok) return finish(std::move(reply->status));
    std::string bytes = framed(reply->message);
    if (!finished()) send(std::move(bytes));
    if (!route_.streams && !finished()) finish({});
    return;
  }
  control_ = context_.calls.take_control();
  control_->stream = this;
  control_->work = std::move(std::get<ControlWork>(answer));
  context_.calls.post(static_cast<ControlCall*>(control_));
}

void GrpcStream::begin_watch() {
  auto service = read_health_question(question_);
  if (!service) return finish({GrpcCode::internal, "not a message of the protocol"});
  watched_ = std::move(*service);
  watches_ = true;
  context_.watches.insert(this);
  tell_health();
}

void GrpcStream::tell_health() {
  if (finished()) return;
  const HealthStatus now = health_of(context_.shared.health, watched_);
  if (told_ != now) {
    told_ = now;
    std::string bytes = framed(health_answer(now));
    if (finished()) return;
    send(std::move(bytes));
  }
  if (context_.shared.health.ending) finish({GrpcCode::unavailable, "the server shuts down"});
}

// ---- Answering ----

void GrpcStream::answered(GrpcCall& call) {
  if (finished()) return;
  if (call.status != CallStatus::ok) return refuse_request(call.status, call.error, call.retry_after, &call);
  answer_request(call);
}

void GrpcStream::answered(const GrpcControl& call) {
  control_ = nullptr;
  if (finished()) return;
  if (call.status != CallStatus::ok) return finish({code_of(call.status), call.answer});
  std::string bytes = framed(call.answer);
  if (finished()) return;
  send(std::move(bytes));
  finish({});
}

void GrpcStream::answer_request(GrpcCall& call) {
  const auto pending = std::ranges::find(pending_, &call, &Pending::call);
  pending->call = nullptr;
  const GrpcAnswer answer(call, route_.streams);
  std::string bytes = framed(answer);
  if (finished()) return;
  pending->bytes = std::move(bytes);
  send_answered();
}

void GrpcStream::refuse_request(CallStatus status, const std::string& message, Duration retry_after, GrpcCall* call) {
  const auto pending = std::ranges::find(pending_, call, &Pending::call);
  pending->call = nullptr;
  const bool ends =
      !route_.streams || status == CallStatus::unauthenticated || metadata_.value(GrpcField::stream_error) == "true";
  if (ends) return finish({code_of(status), message, retry_after});
  std::string bytes = framed(grpc_stream_problem(call->id, message));
  if (finished()) return;
  pending->bytes = std::move(bytes);
  send_answered();
}

std::string GrpcStream::framed(const GrpcAnswer& answer) {
  const std::size_t size = answer.bytes();
  if (!connection_.has_room_for(size) || !charge_.grow(kFrameHead + size)) {
    finish({GrpcCode::resource_exhausted, std::string(kNoRoom), kRoomRetry});
    return {};
  }
  std::string out;
  if (packs_ && size >= kPackMin) {
    Charge both(charge_.places());
    if (!both.resize(size + host::packed_max(size) + host::kPackBytes)) {
      finish({GrpcCode::resource_exhausted, std::string(kNoRoom), kRoomRetry});
      return {};
    }
    answer.append_to(out);
    std::string packed = packed_frame(out);
    // What was charged for the plain form; sent() takes back as much as is sent.
    charge_.shrink(kFrameHead + size);
    charge_.grow(packed.size());
    return packed;
  }
  out.reserve(kFrameHead + size);
  append_frame_head(out, false, size);
  answer.append_to(out);
  return out;
}

std::string GrpcStream::framed(std::string_view message) {
  if (!connection_.has_room_for(message.size()) || !charge_.grow(kFrameHead + message.size())) {
    finish({GrpcCode::resource_exhausted, std::string(kNoRoom), kRoomRetry});
    return {};
  }
  std::string out;
  append_frame_head(out, false, message.size());
  out += message;
  return out;
}

std::string GrpcStream::packed_frame(std::string_view message) {
  std::string packed(kFrameHead, '\0');
  host::pack(packing_, message, packed);
  packed.shrink_to_fit();
  std::string head;
  append_frame_head(head, true, packed.size() - kFrameHead);
  packed.replace(0, kFrameHead, head);
  return packed;
}

void GrpcStream::send_answered() {
  std::size_t ready = 0;
  while (ready < pending_.size() && pending_[ready].call == nullptr) send(std::move(pending_[ready++].bytes));
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(ready));
  finish_if_done();
}

void GrpcStream::finish_if_done() {
  if (finished() || !pending_.empty()) return;
  if (!route_.streams) return finish({});
  if (!client_done_ || !held_.empty()) return;
  if (prefix_size_ > 0) return finish({GrpcCode::internal, "the request ends before its message does"});
  finish({});
}

// The bytes were charged when they were made.
void GrpcStream::send(std::string bytes) {
  connection_.count_unsent(static_cast<std::int64_t>(bytes.size()));
  if (unsent().empty()) {
    out_ = std::move(bytes);
    out_at_ = 0;
  } else {
    out_ += bytes;
  }
  // The fields of a call with one answer go out with its status, which follows at once.
  if (begun_) return connection_.more_to_send(*this);
  if (route_.streams || watches_) connection_.begin_answer(*this);
}

void GrpcStream::sent(std::size_t bytes) {
  out_at_ += bytes;
  charge_.shrink(bytes);
  connection_.count_unsent(-static_cast<std::int64_t>(bytes));
  if (out_at_ < out_.size()) return;
  out_ = {};
  out_at_ = 0;
}

void GrpcStream::finish(GrpcStatus status) {
  if (finished()) return;
  status_ = std::move(status);
  if (status_->code != GrpcCode::ok) drop_calls();
  held_ = {};
  begun_ ? connection_.more_to_send(*this) : connection_.begin_answer(*this);
}

}  // namespace tangram::serve

#endif
