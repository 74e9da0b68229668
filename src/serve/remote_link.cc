#include "serve/remote_link.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text.h"
#include "core/bytes_slot.h"
#include "engines/tensor_memory.h"
#include "host/http_parser.h"

namespace tangram::serve {
namespace {

using PlainJson = nlohmann::json;

constexpr std::size_t kHeadMax = 64 << 10;
constexpr std::uint64_t kBodyMax = std::uint64_t{4} << 30;
constexpr std::size_t kRemoteReadBytes = 64 << 10;
// What clients are told who were turned away by a server that does not say for how long, and at most.
constexpr Duration kTurnedAway = std::chrono::seconds(1);
constexpr std::int64_t kTurnedAwayMaxSeconds = 3600;

Error rubbish(std::string what) {
  return {ErrorCode::invalid, "the remote server answered rubbish: " + std::move(what)};
}

PlainJson shape_of(const TensorSpec& spec, const engines::BatchJob& job) {
  PlainJson shape = PlainJson::array({job.samples});
  for (const std::int64_t axis : spec.shape) shape.push_back(axis == kVariableAxis ? job.size : axis);
  return shape;
}

std::string wire_of(const TensorSpec& spec, std::span<const std::byte> tensor) {
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.data()), tensor.size());
  return spec.datatype == Datatype::bytes ? slots_to_wire(bytes) : std::string(bytes);
}

// One answer as it comes in.
class AnswerReader {
 public:
  enum class State : std::uint8_t { reading, complete, broken };

  // Appends what came. Bytes behind a complete answer are broken: nothing was asked that they could belong to.
  State feed(std::string_view bytes) {
    in_ += bytes;
    if (!has_head_ && !read_head()) return broken_ ? State::broken : State::reading;
    if (chunked_) return read_chunks();
    if (in_.size() < length_) return State::reading;
    if (in_.size() > length_) return State::broken;
    body_.swap(in_);
    return State::complete;
  }

  int status() const { return status_; }
  bool keep_alive() const { return keep_alive_; }
  Duration retry_after() const { return retry_after_; }
  std::size_t json_length() const { return json_length_.value_or(body_.size()); }
  const std::string& body() const { return body_; }
  bool anything() const { return has_head_ || !in_.empty(); }

 private:
  bool read_head() {
    const auto end = in_.find("\r\n\r\n");
    if (end == std::string::npos) {
      broken_ = in_.size() > kHeadMax;
      return false;
    }
    has_head_ = true;
    const std::string head = in_.substr(0, end);
    in_.erase(0, end + 4);
    const auto lines = text::split(head, '\n');
    const std::string_view first = lines[0];
    broken_ = !first.starts_with("HTTP/1.1 ") || first.size() < 12 ||
              std::from_chars(first.data() + 9, first.data() + 12, status_).ec != std::errc{};
    for (std::size_t i = 1; i < lines.size() && !broken_; ++i) broken_ = !read_field(text::trim(lines[i]));
    return !broken_;
  }

  bool read_field(std::string_view line) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) return false;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = text::trim(line.substr(colon + 1));
    if (host::equals_ignoring_case(name, "content-length")) {
      const auto length = text::parse_integer(value);
      if (!length || *length < 0 || static_cast<std::uint64_t>(*length) > kBodyMax) return false;
      length_ = static_cast<std::size_t>(*length);
    } else if (host::equals_ignoring_case(name, "inference-header-content-length")) {
      const auto length = text::parse_integer(value);
      if (!length || *length < 0) return false;
      json_length_ = static_cast<std::size_t>(*length);
    } else if (host::equals_ignoring_case(name, "transfer-encoding")) {
      chunked_ = host::equals_ignoring_case(value, "chunked");
      return chunked_;
    } else if (host::equals_ignoring_case(name, "retry-after")) {
      // It may also be a date, which says as much as nothing here.
      const std::int64_t seconds = text::parse_integer(value).value_or(0);
      if (seconds > 0) retry_after_ = std::chrono::seconds(std::min(seconds, kTurnedAwayMaxSeconds));
    } else if (host::equals_ignoring_case(name, "connection")) {
      keep_alive_ = !host::equals_ignoring_case(value, "close");
    }
    return true;
  }

  State read_chunks() {
    in_.erase(0, chunks_.feed(in_, body_, kBodyMax));
    if (chunks_.state() == host::ChunkedReader::State::refused) return State::broken;
    if (chunks_.state() == host::ChunkedReader::State::reading) return State::reading;
    return in_.empty() ? State::complete : State::broken;
  }

  std::string in_;
  std::string body_;
  bool has_head_ = false;
  bool broken_ = false;
  bool chunked_ = false;
  bool keep_alive_ = true;
  int status_ = 0;
  Duration retry_after_ = kTurnedAway;
  std::size_t length_ = 0;
  std::optional<std::size_t> json_length_;
  host::ChunkedReader chunks_;
};

// What an error body says; {"error":"..."} where the server keeps to the protocol.
std::string reason_of(const AnswerReader& answer) {
  const PlainJson json = PlainJson::parse(answer.body(), nullptr, false);
  if (json.is_object() && json.contains("error") && json["error"].is_string()) return json["error"];
  return fmt::format("status {}", answer.status());
}

const PlainJson* find_output(const PlainJson& outputs, const std::string& name) {
  for (const auto& output : outputs) {
    if (output.at("name") == name) return &output;
  }
  return nullptr;
}

}  // namespace

Result<RemoteAddress> parse_remote_address(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto port = text::parse_integer(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  in_addr unused{};
  RemoteAddress address{std::string(text.substr(0, colon)), 0};
  if (!port || *port < 1 || *port > 65535 || inet_pton(AF_INET, address.host.c_str(), &unused) != 1) {
    return Error{ErrorCode::invalid, fmt::format("expected an address as 127.0.0.1:8000, got \"{}\"", text)};
  }
  address.port = static_cast<std::uint16_t>(*port);
  return address;
}

std::string write_remote_request(const engines::ModelSpec& model, const engines::BatchJob& job,
                                 const engines::BatchMemory& memory, std::string_view fields) {
  PlainJson inputs = PlainJson::array();
  std::vector<std::string> tensors;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < model.signature.inputs.size(); ++i) {
    const TensorSpec& spec = model.signature.inputs[i];
    tensors.push_back(wire_of(spec, memory.inputs[i]));
    bytes += tensors.back().size();
    inputs.push_back({{"name", spec.name},
                      {"datatype", std::string(to_string(spec.datatype))},
                      {"shape", shape_of(spec, job)},
                      {"parameters", {{"binary_data_size", tensors.back().size()}}}});
  }
  PlainJson outputs = PlainJson::array();
  for (const auto& spec : model.signature.outputs) {
    outputs.push_back({{"name", spec.name}, {"parameters", {{"binary_data", true}}}});
  }
  const std::string json =
      PlainJson{{"id", std::to_string(job.batch.value())}, {"inputs", inputs}, {"outputs", outputs}}.dump();
  std::string request = fmt::format(
      "POST /v2/models/{}/infer HTTP/1.1\r\n{}Content-Type: application/octet-stream\r\n"
      "Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n",
      model.network, fields, json.size(), json.size() + bytes);
  request.reserve(request.size() + json.size() + bytes);
  request += json;
  for (const auto& tensor : tensors) request += tensor;
  return request;
}

Result<Nothing> read_remote_answer(const engines::ModelSpec& model, std::string_view body, std::size_t json_length,
                                   const engines::BatchMemory& memory) {
  if (json_length > body.size()) return rubbish("its JSON is longer than the answer");
  try {
    const PlainJson json = PlainJson::parse(body.substr(0, json_length));
    const PlainJson& outputs = json.at("outputs");
    // The bytes of all outputs lie behind the JSON in the order in which it names them.
    std::vector<std::pair<std::string, std::string_view>> parts;
    std::string_view rest = body.substr(json_length);
    for (const auto& output : outputs) {
      const auto size = output.at("parameters").at("binary_data_size").get<std::size_t>();
      if (size > rest.size()) return rubbish("bytes are missing");
      parts.emplace_back(output.at("name").get<std::string>(), rest.substr(0, size));
      rest.remove_prefix(size);
    }
    for (std::size_t i = 0; i < model.signature.outputs.size(); ++i) {
      const TensorSpec& spec = model.signature.outputs[i];
      const auto part = std::ranges::find(parts, spec.name, &std::pair<std::string, std::string_view>::first);
      const PlainJson* about = find_output(outputs, spec.name);
      if (part == parts.end() || about == nullptr) return rubbish(fmt::format("no output '{}'", spec.name));
      std::string slots;
      std::string_view bytes = part->second;
      if (spec.datatype == Datatype::bytes) {
        if (const auto problem = wire_to_slots(bytes, slots)) return rubbish(*problem);
        bytes = slots;
      }
      if (about->at("datatype") != std::string(to_string(spec.datatype)) || bytes.size() != memory.outputs[i].size()) {
        return rubbish(fmt::format("output '{}' is not {} with {} bytes", spec.name, to_string(spec.datatype),
                                   memory.outputs[i].size()));
      }
      if (!bytes.empty()) std::memcpy(memory.outputs[i].data(), bytes.data(), bytes.size());
    }
    return Nothing{};
  } catch (const std::exception& problem) {
    return rubbish(problem.what());
  }
}

class RemoteLink final : public engines::Executor, private host::Readiness {
 public:
  RemoteLink(Remotes& remotes, SliceId slice, RemoteConfig config, engines::ExecutorEvents& events)
      : remotes_(remotes),
        slice_(slice),
        config_(std::move(config)),
        events_(events),
        place_(fmt::format("{}:{}", config_.address.host, config_.address.port)) {
    set_caller(config_.caller);
    remotes_.links_.push_back(this);
  }
  ~RemoteLink() override {
    disconnect();
    std::erase(remotes_.links_, this);
  }

  // Executor.
  Result<engines::BatchMemory*> prepare(const engines::BatchJob& job) override;
  std::optional<Duration> start(const engines::BatchJob& job) override;
  bool restart() override;
  bool ready() const override { return state_ == State::ready || state_ == State::running; }

  void set_caller(RemoteCaller caller) {
    config_.caller = std::move(caller);
    fields_ = fmt::format("Host: {}\r\n", place_);
    if (!config_.caller.key.empty()) fields_ += fmt::format("Authorization: Bearer {}\r\n", config_.caller.key);
  }
  void work(TimePoint now);
  TimePoint next_due() const { return due_; }

 private:
  enum class State : std::uint8_t {
    cold,
    pausing,  // Asked again at `due_`.
    asking,   // Whether it is ready; given up at `due_`.
    ready,
    running,
  };

  const engines::ModelSpec* find_model(ServiceId service) const;
  bool connect_now();
  void disconnect();
  void send(std::string request);
  ssize_t send_some();
  ssize_t receive_some(char* buffer, std::size_t room);
  void flush();
  void watch();
  std::string why_lost() const;
  void on_ready(bool readable, bool writable, bool broken) override;
  void read_some();
  void connection_lost();
  void answered();
  void answered_ready();
  void answered_batch();
  void ask_ready();
  void not_ready(std::string reason);
  void log_not_ready(std::string_view reason) const;
  void close_doors(const std::string& reason);
  void fail_batch(std::string reason);

  Remotes& remotes_;
  SliceId slice_;
  RemoteConfig config_;
  engines::ExecutorEvents& events_;
  std::string place_;   // "127.0.0.1:8000"
  std::string fields_;  // Of the head of every request.
  State state_ = State::cold;
  TimePoint due_ = kTimeNever;
  int attempts_in_vain_ = 0;
  std::size_t model_asked_ = 0;
  int socket_ = -1;
  std::unique_ptr<host::TlsStream> tls_;
  bool tls_wants_write_ = false;
  bool used_before_ = false;  // The connection has carried an answer, so its end may mean that it was idle too long.
  std::string out_;
  std::size_t out_at_ = 0;
  AnswerReader answer_;
  std::vector<std::byte> memory_;
  engines::BatchMemory tensors_;
  engines::BatchJob job_;
};

const engines::ModelSpec* RemoteLink::find_model(ServiceId service) const {
  const auto model = std::ranges::find(config_.models, service, &engines::ModelSpec::service);
  return model == config_.models.end() ? nullptr : &*model;
}

// ---- The connection ----

bool RemoteLink::connect_now() {
  disconnect();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(config_.address.port);
  inet_pton(AF_INET, config_.address.host.c_str(), &address.sin_addr);
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return false;
  const int one = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS) {
    close(socket_);
    socket_ = -1;
    return false;
  }
  if (config_.caller.tls != nullptr) {
    const std::string& name = config_.caller.server_name;
    tls_ = host::TlsStream::connect(config_.caller.tls, socket_, name.empty() ? config_.address.host : name);
  }
  used_before_ = tls_wants_write_ = false;
  remotes_.loop_.add(socket_, host::Interest::both, this);
  return true;
}

void RemoteLink::disconnect() {
  if (socket_ < 0) return;
  remotes_.loop_.remove(socket_, this);
  tls_.reset();
  close(socket_);
  socket_ = -1;
}

void RemoteLink::send(std::string request) {
  out_ = std::move(request);
  out_at_ = 0;
  answer_ = AnswerReader();
  if (socket_ < 0 && !connect_now()) return connection_lost();
  if (used_before_) flush();
}

ssize_t RemoteLink::send_some() {
  const std::string_view rest = std::string_view(out_).substr(out_at_);
  if (tls_ == nullptr) return ::send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL);
  const host::TlsStream::Moved moved = tls_->write(rest.data(), rest.size());
  tls_wants_write_ = moved.status == host::TlsStream::Status::want_write;
  return host::bytes_moved(moved);
}

ssize_t RemoteLink::receive_some(char* buffer, std::size_t room) {
  if (tls_ == nullptr) return recv(socket_, buffer, room, 0);
  const host::TlsStream::Moved moved = tls_->read(buffer, room);
  tls_wants_write_ = moved.status == host::TlsStream::Status::want_write;
  return host::bytes_moved(moved);
}

void RemoteLink::flush() {
  while (out_at_ < out_.size()) {
    const ssize_t sent = send_some();
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (sent < 0) return connection_lost();
    out_at_ += static_cast<std::size_t>(sent);
  }
  watch();
}

// A plain connection waits for room while it has something to send; an encrypted one says itself what it waits for.
void RemoteLink::watch() {
  const bool writes = tls_ == nullptr ? out_at_ < out_.size() : tls_wants_write_;
  remotes_.loop_.change(socket_, writes ? host::Interest::both : host::Interest::read, this);
}

void RemoteLink::on_ready(bool readable, bool writable, bool broken) {
  // An encrypted connection may have to read before it can write.
  const bool sends = writable || (tls_ != nullptr && readable);
  if (sends && !broken && out_at_ < out_.size()) flush();
  if (socket_ >= 0 && (readable || broken)) read_some();
}

void RemoteLink::read_some() {
  thread_local std::array<char, kRemoteReadBytes> buffer;
  const ssize_t got = receive_some(buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return watch();
  if (got <= 0) return connection_lost();
  if (state_ != State::asking && state_ != State::running) return connection_lost();
  const auto state = answer_.feed({buffer.data(), static_cast<std::size_t>(got)});
  if (state == AnswerReader::State::reading) return;
  if (state == AnswerReader::State::broken) {
    disconnect();
    if (state_ == State::asking) return not_ready("it does not speak HTTP");
    return fail_batch("the remote server answered rubbish");
  }
  used_before_ = true;
  if (!answer_.keep_alive()) disconnect();
  answered();
}

// An idle connection may end at any time. A request that went into one that had just ended is sent once more.
void RemoteLink::connection_lost() {
  const bool stale = used_before_ && !answer_.anything();
  const std::string why = why_lost();
  disconnect();
  if (state_ == State::asking) return not_ready(why);
  if (state_ != State::running) return;
  if (stale && connect_now()) {
    out_at_ = 0;
    return;
  }
  state_ = State::cold;
  events_.on_lost(slice_, fmt::format("the remote server {}: {}", place_, why));
}

std::string RemoteLink::why_lost() const {
  const bool told = tls_ != nullptr && !tls_->why().empty();
  return told ? "no connection with TLS: " + tls_->why() : "it cannot be reached";
}

// ---- Getting ready ----

bool RemoteLink::restart() {
  if (state_ == State::running) log_not_ready("it does not answer: a batch takes too long");
  disconnect();
  Duration pause{};
  if (attempts_in_vain_ > 0) {
    pause = std::min(config_.pause_min * (std::int64_t{1} << std::min(attempts_in_vain_ - 1, 20)), config_.pause_max);
  }
  ++attempts_in_vain_;
  state_ = State::pausing;
  due_ = remotes_.clock_.now() + pause;
  return false;
}

void RemoteLink::ask_ready() {
  state_ = State::asking;
  due_ = remotes_.clock_.now() + config_.answer;
  send(fmt::format("GET /v2/models/{}/ready HTTP/1.1\r\n{}\r\n", config_.models[model_asked_].network, fields_));
}

void RemoteLink::work(TimePoint now) {
  if (now < due_) return;
  due_ = kTimeNever;
  if (state_ == State::asking) return not_ready("it does not answer");
  if (state_ != State::pausing) return;
  model_asked_ = 0;
  ask_ready();
}

void RemoteLink::answered() {
  if (state_ == State::asking) return answered_ready();
  answered_batch();
}

void RemoteLink::answered_ready() {
  const int status = answer_.status();
  if (status == 401 || status == 403) return not_ready("it does not let us in: " + reason_of(answer_));
  if (status != 200) {
    return not_ready(fmt::format("model '{}' is not ready there", config_.models[model_asked_].network));
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
  log_not_ready(reason);
  events_.on_restarted(slice_, false);
}

void RemoteLink::log_not_ready(std::string_view reason) const {
  remotes_.log_.write(host::LogLine(host::LogLevel::warning, "remote_not_ready")
                          .text("slice", config_.title)
                          .text("server", place_)
                          .text("reason", reason));
}

// ---- Batches ----

Result<engines::BatchMemory*> RemoteLink::prepare(const engines::BatchJob& job) {
  const engines::ModelSpec* model = find_model(job.service);
  if (model == nullptr) return Error{ErrorCode::not_found, "the slice does not hold the service"};
  const auto needed = engines::memory_needed(model->signature, job);
  if (!needed) return Error{ErrorCode::exhausted, "the batch is larger than any memory"};
  if (memory_.size() < *needed) memory_.resize(*needed);
  engines::cut_memory(model->signature, job, memory_.data(), tensors_);
  return &tensors_;
}

std::optional<Duration> RemoteLink::start(const engines::BatchJob& job) {
  TANGRAM_CHECK(state_ != State::running, "a slice runs one batch at a time");
  job_ = job;
  state_ = State::running;
  send(write_remote_request(*find_model(job.service), job, tensors_, fields_));
  return std::nullopt;
}

void RemoteLink::fail_batch(std::string reason) {
  state_ = State::ready;
  events_.on_done(slice_, job_.batch, std::move(reason));
}

// A server that lets nobody in now is asked whether it is ready, as at the start, before it gets another batch.
void RemoteLink::close_doors(const std::string& reason) {
  disconnect();
  log_not_ready(reason);
  state_ = State::cold;
  events_.on_turned_away(slice_, answer_.retry_after());
  events_.on_lost(slice_, fmt::format("the remote server {}: {}", place_, reason));
}

void RemoteLink::answered_batch() {
  const int status = answer_.status();
  if (status == 401 || status == 403) return close_doors("it does not let us in: " + reason_of(answer_));
  if (status == 503) return close_doors(reason_of(answer_));
  // It serves, but has no room for this batch.
  if (status == 429) events_.on_turned_away(slice_, answer_.retry_after());
  if (status != 200) return fail_batch(fmt::format("the remote server {}: {}", place_, reason_of(answer_)));
  const auto read = read_remote_answer(*find_model(job_.service), answer_.body(), answer_.json_length(), tensors_);
  if (!read) return fail_batch(read.error().message);
  attempts_in_vain_ = 0;
  state_ = State::ready;
  events_.on_done(slice_, job_.batch, "");
}

// ---- All of them ----

Remotes::~Remotes() { TANGRAM_CHECK(links_.empty(), "executors go before those who made them"); }

std::unique_ptr<engines::Executor> Remotes::make(SliceId slice, RemoteConfig config, engines::ExecutorEvents& events) {
  return std::make_unique<RemoteLink>(*this, slice, std::move(config), events);
}

void Remotes::set_caller(const RemoteCaller& caller) {
  for (RemoteLink* link : links_) link->set_caller(caller);
}

void Remotes::work(TimePoint now) {
  for (RemoteLink* link : links_) link->work(now);
}

TimePoint Remotes::next_due() const {
  TimePoint due = kTimeNever;
  for (const RemoteLink* link : links_) due = std::min(due, link->next_due());
  return due;
}

}  // namespace tangram::serve
