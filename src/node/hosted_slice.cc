#include "node/hosted_slice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "engines/executor_links.h"
#include "node/batch_tensors.h"

namespace tangram::node {
namespace {

constexpr std::size_t kBatchHeadMax = 16 << 10;
constexpr Duration kConnectPauseMin = std::chrono::milliseconds(50);
constexpr Duration kConnectPauseMax = std::chrono::seconds(2);
// From the first packet of a connection to the gateway's answer.
constexpr Duration kConnectMax = std::chrono::seconds(5);

// What the executor and its process depend on, beside the models.
bool same_engine(const worker::WorkerSpec& a, const worker::WorkerSpec& b) {
  return a.engine == b.engine && a.config.device == b.config.device && a.config.time_scale == b.config.time_scale &&
         a.config.mig_profile == b.config.mig_profile && a.config.memory_mib == b.config.memory_mib &&
         a.config.provider == b.config.provider;
}

bool same_cut(const ControlMessage& a, const ControlMessage& b) {
  return a.board == b.board && a.offered == b.offered && a.mig_profile == b.mig_profile && a.start == b.start &&
         a.process == b.process && a.device_units == b.device_units && a.cut_units == b.cut_units &&
         a.units_per_core == b.units_per_core;
}

}  // namespace

std::string_view HostedSlice::state() const {
  switch (state_) {
    case State::nothing: return "empty";
    case State::starting: return "starting";
    case State::ready: return "ready";
    case State::running: return "busy";
    case State::ending: return "ending";
    case State::cold: return "lost";
  }
  return "";
}

// ---- What it serves ----

// A gateway that comes back asks for what is there most often, and finds it loaded.
Result<Nothing> HostedSlice::load(const ControlMessage& message) {
  TANGRAM_TRY(auto spec, worker::read_worker_spec(message.spec));
  std::size_t in_max = 0;
  for (const auto& model : spec.models) {
    const auto most = batch_request_max(model);
    if (!most) return Error{ErrorCode::exhausted, "the batches of " + model.name + " are larger than the address space"};
    in_max = std::max(in_max, *most);
  }
  const bool same = executor_ != nullptr && same_engine(spec_, spec) && same_cut(place_, message);
  const bool same_models = same && spec_.models == spec.models;
  disconnect();
  place_ = message;
  spec_ = std::move(spec);
  in_max_ = in_max + kBatchHeadMax;
  std::size_t services = 0;
  for (const auto& model : spec_.models) services = std::max(services, model.service.index() + 1);
  // An emulated executor looks into the table, which therefore keeps its place while it is large enough.
  if (signatures_.size() < services) {
    if (!signatures_.empty()) executor_.reset();
    signatures_.resize(services, nullptr);
  }
  for (const auto& model : spec_.models) signatures_[model.service.index()] = &model.signature;
  owes_answer_ = true;
  connect_at_ = host_.now();
  if (!same || executor_ == nullptr) {
    executor_.reset();
    ends_at_ = kTimeNever;
    auto made = host_.make_executor(*this);
    if (!made) {
      state_ = State::cold;
      fail_load(made.error().message);
      return Nothing{};
    }
    executor_ = std::move(*made);
    start_executor();
    return Nothing{};
  }
  if (message.fresh || state_ == State::cold || state_ == State::nothing) {
    start_executor();
  } else if (!same_models && state_ == State::ready && change_models()) {
    state_ = State::starting;
  } else if (!same_models) {
    executor_.reset();
    ends_at_ = kTimeNever;
    auto made = host_.make_executor(*this);
    if (made) {
      executor_ = std::move(*made);
      start_executor();
    } else {
      state_ = State::cold;
      fail_load(made.error().message);
    }
  } else {
    answer_load();  // Ready; otherwise the end of the start or of the batch answers.
  }
  return Nothing{};
}

bool HostedSlice::change_models() {
  auto models = host_.models_of(spec_);
  return models && executor_->change_models(SliceId(number_), std::move(*models));
}

void HostedSlice::start_executor() {
  ends_at_ = kTimeNever;
  state_ = State::starting;
  if (executor_->restart()) enter_ready();
}

void HostedSlice::enter_ready() {
  state_ = State::ready;
  answer_load();
}

void HostedSlice::answer_load() {
  if (!owes_answer_ || state_ != State::ready) return;
  const auto digests = host_.digests(spec_);
  if (!digests) return;  // work() asks again.
  owes_answer_ = false;
  ControlMessage answer{.kind = ControlKind::ready, .slice = place_.slice, .life = place_.life};
  answer.digests = *digests;
  host_.tell(answer);
}

void HostedSlice::fail_load(const std::string& why) {
  if (!owes_answer_) return;
  owes_answer_ = false;
  host_.tell({.kind = ControlKind::failed, .slice = place_.slice, .life = place_.life, .reason = why});
}

void HostedSlice::on_event(const SliceEvent& event) {
  switch (event.kind) {
    case SliceEvent::Kind::done:
    case SliceEvent::Kind::stopped:
      // A batch of an earlier life of the executor.
      if (!running() || event.batch != batch_.job.batch) return;
      return end_batch(event.text, event.kind == SliceEvent::Kind::stopped);
    case SliceEvent::Kind::restarted:
      if (state_ == State::starting) enter_ready();
      return;
    case SliceEvent::Kind::not_restarted:
      if (state_ != State::starting) return;
      state_ = State::cold;
      return fail_load(host_.why_not_started());
    case SliceEvent::Kind::lost: break;
  }
  if (state_ == State::nothing || state_ == State::cold) return;
  ++counts_.lost;
  state_ = State::cold;
  if (owes_answer_) return fail_load(event.text);
  // Before the connection ends: the gateway hears the reason first.
  host_.tell({.kind = ControlKind::lost, .slice = place_.slice, .life = place_.life, .reason = event.text});
  disconnect();
}

void HostedSlice::on_gateway_lost() {
  owes_answer_ = false;
  disconnect();
  connect_at_ = kTimeNever;
}

// ---- The connection ----

void HostedSlice::connect() {
  connect_at_ = kTimeNever;
  if (wire_ != nullptr || host_.session().empty() || place_.slice.empty()) return;
  wire_ = host_.dial(in_max_, *this);
  if (wire_ == nullptr) {
    connect_at_ =
        host_.now() + engines::pause_before_attempt(++connects_in_vain_, kConnectPauseMin, kConnectPauseMax);
    return;
  }
  link_ = Link::asking;
  asked_until_ = host_.now() + kConnectMax;
}

void HostedSlice::disconnect() {
  if (wire_ != nullptr) {
    wire_->close();
    old_wire_ = std::move(wire_);
  }
  link_ = Link::none;
  asked_until_ = kTimeNever;
  request_began_ = kTimeNever;
  abandon();
}

void HostedSlice::abandon() {
  if (state_ != State::running) return;
  state_ = State::ending;
  if (executor_->stop(batch_.job.batch, false)) end_batch("", true);
}

bool HostedSlice::on_open(Wire& wire, const std::string& fingerprint) {
  if (fingerprint != host_.gateway_fingerprint()) return false;
  wire.send(write_first_request(kSlicePath, host_.gateway_place(),
                                write_slice_join({host_.session(), place_.slice, place_.life})));
  return true;
}

void HostedSlice::on_bytes(Wire& wire) {
  if (link_ == Link::asking) {
    auto answer = take_answer(wire.in());
    if (answer && !*answer) return;
    if (!answer || (*answer)->status != 200) {
      disconnect();
      connect_at_ =
          host_.now() + engines::pause_before_attempt(++connects_in_vain_, kConnectPauseMin, kConnectPauseMax);
      return;
    }
    connects_in_vain_ = 0;
    link_ = Link::serving;
    asked_until_ = kTimeNever;
  }
  serve();
}

void HostedSlice::on_closed(Wire&, const std::string&) {
  disconnect();
  connect_at_ = host_.now() + engines::pause_before_attempt(++connects_in_vain_, kConnectPauseMin, kConnectPauseMax);
}

void HostedSlice::work(TimePoint now) {
  old_wire_.reset();
  if (now >= asked_until_) {
    disconnect();
    connect_at_ = now + engines::pause_before_attempt(++connects_in_vain_, kConnectPauseMin, kConnectPauseMax);
  }
  if (now >= connect_at_) connect();
  if (now >= ends_at_) {
    ends_at_ = kTimeNever;
    end_batch("", false);
  }
  if (owes_answer_) answer_load();
}

TimePoint HostedSlice::next_due() const { return std::min({connect_at_, asked_until_, ends_at_}); }

// ---- Batches ----

// A batch can end inside of the call that starts it: then the loop goes on, not the call.
void HostedSlice::serve() {
  if (std::exchange(serving_, true)) return;
  while (serve_one()) continue;
  serving_ = false;
}

// One request at a time: the next one waits in the buffer until this one is answered.
bool HostedSlice::serve_one() {
  if (wire_ == nullptr || running() || wire_->in().empty()) return false;
  if (request_began_ == kTimeNever) request_began_ = host_.now();
  host::HttpHead head;
  const auto parsed = host::parse_http_head(wire_->in(), kBatchHeadMax, head);
  if (parsed.kind == host::HttpHeadResult::Kind::need_more) return false;
  const bool good = parsed.kind == host::HttpHeadResult::Kind::complete && !head.chunked &&
                    head.method == host::HttpMethod::post && head.content_length + parsed.consumed <= in_max_;
  if (!good) {
    // What follows cannot be told apart any more.
    disconnect();
    connect_at_ = host_.now() + kConnectPauseMin;
    return false;
  }
  const auto length = static_cast<std::size_t>(head.content_length);
  if (wire_->in().size() < parsed.consumed + length) return false;
  auto fields = read_batch_fields(head);
  const auto json_field = head.find("inference-header-content-length");
  std::size_t json_length = length;
  if (json_field) {
    json_length = 0;
    for (const char c : *json_field) {
      const bool digit = c >= '0' && c <= '9' && json_length <= length;
      json_length = digit ? json_length * 10 + static_cast<std::size_t>(c - '0') : length + 1;
    }
  }
  if (fields && json_length <= length) {
    run(*fields, std::string_view(wire_->in()).substr(parsed.consumed, length), json_length);
  } else {
    batch_ = {};
    refuse(400, fields ? "the length of its JSON makes no sense" : fields.error().message);
  }
  request_began_ = kTimeNever;
  if (wire_ == nullptr) return false;
  wire_->in().erase(0, parsed.consumed + length);
  return true;
}

const engines::ModelSpec* HostedSlice::model_of(ServiceId service) const {
  const auto model = std::ranges::find(spec_.models, service, &engines::ModelSpec::service);
  return model == spec_.models.end() ? nullptr : &*model;
}

void HostedSlice::run(const BatchHead& head, std::string_view body, std::size_t json_length) {
  if (state_ != State::ready) {
    batch_ = head;
    return refuse(503, "the slice is not ready");
  }
  batch_ = head;
  if (head.life != place_.life) return refuse(409, "the batch is for another life of the slice");
  const auto* model = model_of(head.job.service);
  if (model == nullptr) return refuse(404, "the slice has no replica of the service");
  const bool fits = std::ranges::any_of(model->shapes, [&](const engines::BatchShape& shape) {
    return head.job.samples <= shape.batch && head.job.size <= shape.size;
  });
  if (!fits) return refuse(400, "the batch is larger than those that the slice was loaded for");
  begun_ = host_.now();
  if (head.remaining > Duration::zero() && begun_ - request_began_ > head.remaining) {
    return refuse(504, "its deadline passed while it was on its way");
  }
  for (const ServiceId copy : head.unloaded) executor_->unload(copy);
  const auto memory = executor_->prepare(head.job);
  if (!memory) return refuse(500, memory.error().message);
  memory_ = *memory;
  if (const auto read = read_batch_tensors(*model, head.job, body, json_length, *memory_); !read) {
    return refuse(400, read.error().message);
  }
  state_ = State::running;
  if (const auto takes = executor_->start(head.job)) {
    ends_at_ = begun_ + *takes;
    if (*takes <= Duration::zero()) {
      ends_at_ = kTimeNever;
      end_batch("", false);
    }
  }
}

void HostedSlice::refuse(int status, const std::string& why) {
  if (wire_ == nullptr) return;
  const std::string body = write_refusal(why, false);
  wire_->send(fmt::format("HTTP/1.1 {} {}\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", status,
                          host::http_status_text(status),
                          write_answer_fields({batch_.job.batch.value(), batch_.life, {}, false}), body.size(), body));
}

void HostedSlice::end_batch(const std::string& failure, bool stopped) {
  const bool asked = state_ == State::running && wire_ != nullptr && link_ == Link::serving;
  state_ = State::ready;
  ends_at_ = kTimeNever;
  const Duration ran = host_.now() - begun_;
  if (asked) {
    const AnswerHead head{batch_.job.batch.value(), batch_.life, ran, stopped};
    if (failure.empty() && !stopped) {
      ++counts_.batches;
      wire_->send(write_batch_answer(*model_of(batch_.job.service), batch_.job, *memory_, write_answer_fields(head)));
    } else {
      ++counts_.failed;
      const std::string body = write_refusal(stopped ? "the batch was stopped" : failure, false);
      wire_->send(fmt::format(
          "HTTP/1.1 500 Internal Server Error\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
          write_answer_fields(head), body.size(), body));
    }
  }
  answer_load();
  serve();
}

void HostedSlice::stop(const ControlMessage& message) {
  if (message.life != place_.life || state_ != State::running || batch_.job.batch.value() != message.batch) return;
  if (executor_->stop(batch_.job.batch, message.must)) end_batch("", true);
}

}  // namespace tangram::node
