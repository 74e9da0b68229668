// Invariants of a link: the event loop watches its socket exactly while the stream is open; a request is under way in
// the states `asking` and `running` and in no other; every restart() is answered by one on_restarted(), and every
// start() by one on_done() or on_lost().
#include "engines/remote/remote_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.h"
#include "base/text.h"
#include "client/http_connection.h"
#include "client/infer_message.h"
#include "core/bytes_slot.h"
#include "engines/remote/remote_watch.h"
#include "engines/tensor_memory.h"
#include "host/resolve.h"

namespace tangram::engines {
namespace {

using client::HttpConnection;

// Larger than any batch of tensors; it only keeps a faulty server from exhausting the memory.
constexpr client::HttpAnswerLimits kAnswerLimits{.body_max = std::uint64_t{4} << 30};
// The Retry-After for clients when the remote server rejects a batch without giving one.
constexpr Duration kRetryAfterDefault = std::chrono::seconds(1);

Error rubbish(std::string what) {
  return {ErrorCode::invalid, "the remote server sent an invalid answer: " + std::move(what)};
}

// BYTES elements are fixed-size slots in memory and length-prefixed on the wire; other types are the same in both.
std::string wire_of(const TensorSpec& spec, std::span<const std::byte> tensor) {
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.data()), tensor.size());
  return spec.datatype == Datatype::bytes ? slots_to_wire(bytes) : std::string(bytes);
}

std::string reason_of(const client::HttpAnswerReader& answer) {
  const auto told = client::error_in(answer.body());
  return told ? *told : fmt::format("status {}", answer.status());
}

Duration retry_after(const client::HttpAnswerReader& answer) {
  return answer.retry_after().value_or(kRetryAfterDefault);
}

// Copies one output of the answer into `place`. Type and size are checked first, since the remote server is not trusted
// to match the signature: a wrong size would write past the tensor.
Result<Nothing> take_output(const TensorSpec& spec, const client::InferOutput& output, std::span<std::byte> place) {
  std::string slots;
  std::string_view bytes = output.bytes;
  if (spec.datatype == Datatype::bytes) {
    if (const auto problem = wire_to_slots(bytes, slots)) return rubbish(*problem);
    bytes = slots;
  }
  if (output.datatype != to_string(spec.datatype) || bytes.size() != place.size()) {
    return rubbish(
        fmt::format("output '{}' is not {} with {} bytes", spec.name, to_string(spec.datatype), place.size()));
  }
  if (!bytes.empty()) std::memcpy(place.data(), bytes.data(), bytes.size());
  return Nothing{};
}

}  // namespace

Result<host::Endpoint> parse_remote_address(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto port = text::parse_integer(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  std::string_view address = text.substr(0, colon);
  // An IPv6 address needs brackets, "[::1]:8000", because its colons would hide the port; an IPv4 address has none.
  const bool bracketed = address.starts_with('[') && address.ends_with(']');
  if (bracketed) address = address.substr(1, address.size() - 2);
  const bool v6 = address.find(':') != std::string_view::npos;
  host::Endpoint endpoint;
  if (!port || *port < 1 || *port > 65535 || v6 != bracketed || address.empty() ||
      address.find('/') != std::string_view::npos) {
    return Error{ErrorCode::invalid,
                 fmt::format("expected an address such as 127.0.0.1:8000 or triton:8000, read \"{}\"", text)};
  }
  TANGRAM_TRY(endpoint.address, host::resolve_host(std::string(address)));
  endpoint.port = static_cast<std::uint16_t>(*port);
  return endpoint;
}

std::string write_remote_request(const ModelSpec& model, const BatchJob& job, const BatchMemory& memory,
                                 std::string_view fields) {
  const auto& specs = model.signature.inputs;
  std::vector<std::string> tensors;  // The request points into them.
  for (std::size_t i = 0; i < specs.size(); ++i) tensors.push_back(wire_of(specs[i], memory.inputs[i]));
  const std::string id = std::to_string(job.batch.value());
  client::InferRequest request{.model = model.network, .id = id};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    request.inputs.push_back(
        {specs[i].name, specs[i].datatype, client::batched_shape(specs[i], job.samples, job.size), tensors[i]});
  }
  for (const auto& spec : model.signature.outputs) request.outputs.push_back(spec.name);
  return write_infer_request(request, fields);
}

Result<Nothing> read_remote_answer(const ModelSpec& model, std::string_view body, std::size_t json_length,
                                   const BatchMemory& memory) {
  const auto outputs = client::read_infer_answer(body, json_length);
  if (!outputs) return rubbish(outputs.error().message);
  for (std::size_t i = 0; i < model.signature.outputs.size(); ++i) {
    const TensorSpec& spec = model.signature.outputs[i];
    // Servers may list the outputs in any order.
    const auto output = std::ranges::find(*outputs, spec.name, &client::InferOutput::name);
    if (output == outputs->end()) return rubbish(fmt::format("no output '{}'", spec.name));
    TANGRAM_RETURN_IF_ERROR(take_output(spec, *output, memory.outputs[i]));
  }
  return Nothing{};
}

// The executor of one slice that is a model server elsewhere. A slice runs one batch at a time, so one connection with
// one request under way is enough.
class RemoteLink final : public Executor, private host::Readiness {
 public:
  // `watch` of the same server; null: nobody asks it whether it lives.
  RemoteLink(LinkContext context, LinkList<RemoteLink>& all, RemoteWatch* watch, SliceId slice, RemoteConfig config,
             ExecutorEvents& events)
      : context_(context), all_(all), watch_(watch), slice_(slice), config_(std::move(config)), events_(events) {
    set_caller(config_.caller);
    all_.add(this);
  }
  ~RemoteLink() override {
    disconnect();
    all_.remove(this);
  }

  // Executor.
  Result<BatchMemory*> prepare(const BatchJob& job) override;
  std::optional<Duration> start(const BatchJob& job) override;
  bool restart() override;
  bool ready() const override { return state_ == State::ready || state_ == State::running; }

  void set_caller(RemoteCaller caller) {
    config_.caller = std::move(caller);
    fields_ = fmt::format("Host: {}\r\n", place_);
    if (!config_.caller.key.empty()) fields_ += fmt::format("Authorization: Bearer {}\r\n", config_.caller.key);
  }
  void work(TimePoint now);
  TimePoint next_due() const { return due_; }
  const std::string& place() const { return place_; }
  const std::vector<ModelSpec>& models() const { return config_.models; }
  // Ready, and nothing runs: nobody but the watch would notice that the server is gone.
  bool idle() const { return watch_ != nullptr && state_ == State::ready; }
  // Requires idle().
  void server_gone(const std::string& reason);

 private:
  enum class State : std::uint8_t {
    cold,
    pausing,  // Asked again at `due_`.
    asking,   // Whether it is ready; given up at `due_`.
    ready,
    running,
  };

  const ModelSpec* find_model(ServiceId service) const;
  // Begins a new connection and watches it. False: the kernel refuses at once.
  bool connect_now();
  // Closes the connection, if there is one, and gives up its request. The last answer stays readable.
  void disconnect();
  // Sends a request, over the connection that is open or over a new one. Ends in answered() or connection_lost().
  void send(std::string request);
  // Handles one event of the connection.
  void take(HttpConnection::Event event);
  // Watches for writing exactly while output is left. Requires an open stream.
  void watch();
  // The reason for a lost connection in words; only TLS knows a specific one.
  std::string why_lost() const;
  void on_ready(bool readable, bool writable, bool broken) override;
  // Ends the request under way: not_ready() while asking, one retry or on_lost() while running, else nothing.
  void connection_lost();
  void answered();
  // Requires an answer to ask_ready(). Asks for the next model, or reports the slice as ready after the last.
  void answered_ready();
  // Requires an answer to a batch. Ends in exactly one on_done() or on_lost().
  void answered_batch();
  // Asks whether model `model_asked_` is ready. Ends in answered_ready() or not_ready(), at `due_` at the latest.
  void ask_ready();
  // Ends an attempt to get ready: the scheduler hears of it and asks for the next by restart().
  void not_ready(std::string reason);
  void log_not_ready(std::string_view reason) const;
  // Requires a running batch, whose slice is lost until the server reports ready again.
  void close_doors(const std::string& reason);
  // Requires a running batch. The server goes on to serve.
  void fail_batch(std::string reason);

  LinkContext context_;
  LinkList<RemoteLink>& all_;
  RemoteWatch* watch_;
  SliceId slice_;
  RemoteConfig config_;
  ExecutorEvents& events_;
  const std::string place_ = config_.address.text();  // "127.0.0.1:8000"
  std::string fields_;                                // Of the head of every request.
  State state_ = State::cold;
  TimePoint due_ = kTimeNever;
  int attempts_in_vain_ = 0;
  std::size_t model_asked_ = 0;
  HttpConnection http_{kAnswerLimits};
  bool watched_for_writing_ = false;
  bool used_before_ = false;  // The connection has carried an answer, so its end may mean that it was idle too long.
  std::vector<std::byte> memory_;
  BatchMemory tensors_;
  BatchJob job_;
};

const ModelSpec* RemoteLink::find_model(ServiceId service) const {
  const auto model = std::ranges::find(config_.models, service, &ModelSpec::service);
  return model == config_.models.end() ? nullptr : &*model;
}

// ---- The connection ----

bool RemoteLink::connect_now() {
  disconnect();
  const client::StreamTarget target{config_.address, config_.caller.tls, config_.caller.server_name};
  if (!http_.stream().open(target, client::StreamWaiting::never)) return false;
  used_before_ = false;
  watched_for_writing_ = true;
  context_.loop.add(http_.stream().descriptor(), host::Interest::both, this);
  return true;
}

void RemoteLink::disconnect() {
  if (!http_.stream().is_open()) return;
  context_.loop.remove(http_.stream().descriptor(), this);
  http_.stream().close();
  // The reader keeps the last answer, which close_doors() still needs.
  http_.abandon();
}

void RemoteLink::send(std::string request) {
  if (!http_.stream().is_open() && !connect_now()) return connection_lost();
  http_.begin(std::move(request));
  // A new connection must become writable first; the loop reports it.
  if (used_before_) take(http_.write());
}

void RemoteLink::take(HttpConnection::Event event) {
  switch (event) {
    case HttpConnection::Event::none: return watch();
    case HttpConnection::Event::answered: return answered();
    case HttpConnection::Event::ended:
    case HttpConnection::Event::lost: return connection_lost();
    case HttpConnection::Event::garbled: break;
  }
  disconnect();
  if (state_ == State::asking) return not_ready("it does not speak HTTP");
  fail_batch("the remote server sent an invalid answer");
}

void RemoteLink::watch() {
  const bool writes = http_.wants_write();
  if (writes == watched_for_writing_) return;
  watched_for_writing_ = writes;
  context_.loop.change(http_.stream().descriptor(), writes ? host::Interest::both : host::Interest::read, this);
}

void RemoteLink::on_ready(bool readable, bool writable, bool broken) {
  // Reading a broken connection gives the reason.
  take(broken ? http_.read() : http_.on_ready(readable, writable));
}

// A server may close an idle connection at any time. A request sent on one that had just ended is sent once more, on a
// new connection. Without a byte of an answer the server has most likely not seen it.
void RemoteLink::connection_lost() {
  const bool stale = used_before_ && !http_.answer().anything();
  const std::string why = why_lost();
  disconnect();
  if (state_ == State::asking) return not_ready(why);
  // An idle connection that ends loses nothing; the next batch opens another.
  if (state_ != State::running) return;
  if (stale && connect_now()) return http_.begin_again();
  state_ = State::cold;
  events_.on_lost(slice_, fmt::format("the remote server {}: {}", place_, why));
}

std::string RemoteLink::why_lost() const {
  const client::Stream& stream = http_.stream();
  const bool told = stream.encrypted() && !stream.why().empty();
  return told ? "the TLS connection failed: " + stream.why() : "it cannot be reached";
}

// ---- Getting ready ----

bool RemoteLink::restart() {
  if (state_ == State::running) log_not_ready("it does not answer: a batch takes too long");
  disconnect();
  // Exponential pauses, so that a server that is down is not asked in a tight loop.
  const Duration pause = pause_before_attempt(attempts_in_vain_, config_.pause_min, config_.pause_max);
  ++attempts_in_vain_;
  state_ = State::pausing;
  due_ = context_.clock.now() + pause;
  return false;
}

void RemoteLink::ask_ready() {
  state_ = State::asking;
  due_ = context_.clock.now() + config_.answer;
  send(fmt::format("GET /v2/models/{}/ready HTTP/1.1\r\n{}\r\n", config_.models[model_asked_].network, fields_));
}

void RemoteLink::work(TimePoint now) {
  if (now < due_) return;
  due_ = kTimeNever;
  if (state_ == State::asking) return not_ready("it does not answer");
  if (state_ != State::pausing) return;
  // All models are asked for on every attempt: the server may have restarted without one of them.
  model_asked_ = 0;
  ask_ready();
}

void RemoteLink::answered() {
  used_before_ = true;
  if (watch_ != nullptr) watch_->heard();
  if (http_.answer().keep_alive()) {
    watch();
  } else {
    disconnect();
  }
  if (state_ == State::asking) return answered_ready();
  answered_batch();
}

void RemoteLink::answered_ready() {
  const int status = http_.answer().status();
  if (status == 401 || status == 403) return not_ready("it denies access: " + reason_of(http_.answer()));
  if (status != 200) {
    return not_ready(fmt::format("model '{}' is not ready on it", config_.models[model_asked_].network));
  }
  if (++model_asked_ < config_.models.size()) return ask_ready();
  state_ = State::ready;
  due_ = kTimeNever;
  events_.on_restarted(slice_, true);
}

void RemoteLink::not_ready(std::string reason) {
  disconnect();
  state_ = State::cold;
  due_ = kTimeNever;
  if (!config_.starts) log_not_ready(reason);
  events_.on_restarted(slice_, false);
}

void RemoteLink::log_not_ready(std::string_view reason) const {
  context_.log.write(host::LogLine(host::LogLevel::warning, "remote_not_ready")
                         .text("slice", config_.title)
                         .text("server", place_)
                         .text("reason", reason));
}

void RemoteLink::server_gone(const std::string& reason) {
  disconnect();
  log_not_ready(reason);
  state_ = State::cold;
  events_.on_lost(slice_, fmt::format("the remote server {}: {}", place_, reason));
}

// ---- Batches ----

Result<BatchMemory*> RemoteLink::prepare(const BatchJob& job) {
  const ModelSpec* model = find_model(job.service);
  if (model == nullptr) return Error{ErrorCode::not_found, "the slice has no replica of the service"};
  const auto needed = memory_needed(model->signature, job);
  if (!needed) return Error{ErrorCode::exhausted, "the batch is larger than the address space"};
  // Grows only, so that a steady load allocates nothing.
  if (memory_.size() < *needed) memory_.resize(*needed);
  cut_memory(model->signature, job, memory_.data(), tensors_);
  return &tensors_;
}

std::optional<Duration> RemoteLink::start(const BatchJob& job) {
  TANGRAM_CHECK(state_ != State::running, "a slice runs one batch at a time");
  job_ = job;
  state_ = State::running;
  send(write_remote_request(*find_model(job.service), job, tensors_, fields_));
  // No duration: the end comes as an event.
  return std::nullopt;
}

void RemoteLink::fail_batch(std::string reason) {
  state_ = State::ready;
  events_.on_done(slice_, job_.batch, std::move(reason));
}

// A server that rejects everything now must report ready, as at the start, before it gets another batch.
void RemoteLink::close_doors(const std::string& reason) {
  disconnect();
  log_not_ready(reason);
  state_ = State::cold;
  events_.on_rejected_upstream(slice_, retry_after(http_.answer()));
  events_.on_lost(slice_, fmt::format("the remote server {}: {}", place_, reason));
}

void RemoteLink::answered_batch() {
  const int status = http_.answer().status();
  if (status == 401 || status == 403) return close_doors("it denies access: " + reason_of(http_.answer()));
  if (status == 503) return close_doors(reason_of(http_.answer()));
  // The server works but has no capacity for this batch, so the batch fails and the slice stays ready.
  if (status == 429) events_.on_rejected_upstream(slice_, retry_after(http_.answer()));
  if (status != 200) return fail_batch(fmt::format("the remote server {}: {}", place_, reason_of(http_.answer())));
  const std::string& body = http_.answer().body();
  const std::size_t json_length = http_.answer().json_length().value_or(body.size());
  const auto read = read_remote_answer(*find_model(job_.service), body, json_length, tensors_);
  if (!read) return fail_batch(read.error().message);
  // Only a batch that worked resets the backoff: a server can report ready and still fail at once.
  attempts_in_vain_ = 0;
  state_ = State::ready;
  events_.on_done(slice_, job_.batch, "");
}

// ---- All of them ----

Remotes::Remotes(host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log)
    : context_{loop, clock, log} {}

Remotes::~Remotes() = default;

RemoteWatch& Remotes::watch_of(const RemoteConfig& config) {
  const std::string place = config.address.text();
  auto& watch = watches_[place];
  if (watch != nullptr) return *watch;
  const auto idle_links = [this, place] {
    std::vector<RemoteLink*> list;
    links_.for_each([&](RemoteLink& link) {
      if (link.idle() && link.place() == place) list.push_back(&link);
    });
    return list;
  };
  RemoteWatch::Slices slices;
  slices.models = [idle_links] {
    std::set<std::string> models;
    for (const RemoteLink* link : idle_links()) {
      for (const auto& model : link->models()) models.insert(model.network);
    }
    return std::vector<std::string>(models.begin(), models.end());
  };
  slices.gone = [idle_links](const std::string& model, const std::string& reason) {
    for (RemoteLink* link : idle_links()) {
      const auto& models = link->models();
      const bool hit = model.empty() || std::ranges::find(models, model, &ModelSpec::network) != models.end();
      if (hit) link->server_gone(reason);
    }
  };
  watch = std::make_unique<RemoteWatch>(context_, config.address, config.caller, std::move(slices));
  return *watch;
}

std::unique_ptr<Executor> Remotes::make(SliceId slice, RemoteConfig config, ExecutorEvents& events) {
  // The process of a server that we started is watched instead. With one thread it could not answer in the middle of a
  // batch; and it has another port after each start, so its watches would pile up.
  RemoteWatch* const watch = config.starts ? nullptr : &watch_of(config);
  return std::make_unique<RemoteLink>(context_, links_, watch, slice, std::move(config), events);
}

void Remotes::set_caller(const RemoteCaller& caller) {
  for (const auto& [place, watch] : watches_) watch->set_caller(caller);
  links_.for_each([&](RemoteLink& link) { link.set_caller(caller); });
}

void Remotes::work(TimePoint now) {
  links_.work(now);
  for (const auto& [place, watch] : watches_) watch->work(now);
}

TimePoint Remotes::next_due() const {
  TimePoint due = links_.next_due();
  for (const auto& [place, watch] : watches_) due = std::min(due, watch->next_due());
  return due;
}

}  // namespace tangram::engines
