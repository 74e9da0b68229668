#include "serve/node_link.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "engines/remote/remote_link.h"
#include "engines/tensor_memory.h"
#include "serve/node_hub.h"

namespace tangram::serve {
namespace {

// A restart without a node is answered after a while, so that a plan that moves does not wait for ever.
constexpr Duration kNodeWaitMin = std::chrono::seconds(1);
constexpr Duration kNodeWaitMax = std::chrono::seconds(10);
// A batch that must end and does not: its slice is given up.
constexpr Duration kNodeStopMax = std::chrono::milliseconds(500);
constexpr std::uint64_t kAnswerBodyMax = std::uint64_t{4} << 30;
constexpr std::size_t kAnswerBytesTogether = std::size_t{1} << 20;
// The share of the newest batch in the mean time of the network.
constexpr double kNetworkWeight = 0.05;

}  // namespace

NodeLink::NodeLink(NodeHub& hub, engines::LinkContext context, SliceId slice, NodeSliceConfig config,
                   engines::ExecutorEvents& events)
    : hub_(hub),
      context_(context),
      slice_(slice),
      config_(std::move(config)),
      events_(events),
      answer_(client::HttpAnswerLimits{.body_max = kAnswerBodyMax}) {
  hub_.add(this);
}

NodeLink::~NodeLink() {
  close_wire();
  if (life_ != 0 && !hub_.keeps_loaded()) hub_.tell(*this, {.kind = node::ControlKind::unload, .slice = config_.title, .life = life_});
  hub_.remove(this);
}

std::string_view NodeLink::state() const {
  switch (state_) {
    case State::cold: return "lost";
    case State::waiting: return "waiting";
    case State::loading: return "loading";
    case State::ready: return "ready";
    case State::running: return "busy";
  }
  return "";
}

void NodeLink::log(host::LogLevel level, std::string_view event, const std::string& reason) const {
  host::LogLine line(level, event);
  line.text("slice", config_.title);
  if (spot_) line.text("node", spot_->node);
  if (!reason.empty()) line.text("reason", reason);
  context_.log.write(line);
}

void NodeLink::close_wire() {
  if (wire_ == nullptr) return;
  wire_->close();
  old_wire_ = std::move(wire_);
}

// ---- Getting ready ----

bool NodeLink::restart() {
  fresh_ |= state_ == State::running;  // Its batch took too long: the process is not to be trusted.
  close_wire();
  state_ = State::waiting;
  leaving_ = false;
  due_ = context_.clock.now() + engines::pause_before_attempt(++waits_in_vain_, kNodeWaitMin, kNodeWaitMax);
  hub_.place(this);
  return false;
}

void NodeLink::load() {
  TANGRAM_CHECK(state_ == State::waiting && spot_, "a slice is loaded on a node when it is asked for");
  life_ = hub_.next_life();
  loaded_ = false;
  close_wire();
  node::ControlMessage m{.kind = node::ControlKind::load, .slice = config_.title, .life = life_};
  m.board = spot_->board;
  m.offered = spot_->offered;
  m.mig_profile = config_.mig_profile;
  m.start = config_.start;
  m.device_units = config_.device_units;
  m.units_per_core = config_.units_per_core;
  m.cut_units = config_.units;
  m.process = config_.process;
  m.fresh = fresh_;
  m.spec = worker::write_worker_spec(config_.spec);
  if (!hub_.tell(*this, m)) return;  // It has just gone; its next join calls again.
  fresh_ = false;
  unloaded_.clear();
  state_ = State::loading;
  due_ = context_.clock.now() + hub_.load_max();
}

void NodeLink::on_message(const node::ControlMessage& message) {
  if (message.life != life_) return hub_.count_late();
  switch (message.kind) {
    case node::ControlKind::ready: {
      if (state_ != State::loading) return;
      if (const std::string why = hub_.why_other_models(*this, message.digests); !why.empty()) return lose(why);
      loaded_ = true;
      return become_ready();
    }
    case node::ControlKind::failed:
      if (state_ == State::loading) lose(message.reason);
      return;
    case node::ControlKind::lost:
      fresh_ = false;
      if (state_ != State::cold && state_ != State::waiting) lose(message.reason);
      return;
    default: return;
  }
}

void NodeLink::attach(node::WireParts parts) {
  close_wire();
  const std::size_t in_max = kAnswerBytesTogether;
  wire_ = std::make_unique<node::Wire>(context_.loop, std::move(parts), in_max, static_cast<node::WireOwner&>(*this));
  become_ready();
}

void NodeLink::become_ready() {
  if (!loaded_ || wire_ == nullptr || state_ != State::loading) return;
  state_ = State::ready;
  due_ = kTimeNever;
  log(host::LogLevel::info, "node_slice_ready", "");
  events_.on_restarted(slice_, true);
}

void NodeLink::lose(const std::string& why) {
  log(host::LogLevel::warning, "node_slice_lost", why);
  close_wire();
  const State before = state_;
  state_ = State::cold;
  due_ = kTimeNever;
  leaving_ = false;
  if (before == State::ready || before == State::running) {
    events_.on_lost(slice_, fmt::format("{} on node {}: {}", config_.title, spot_ ? spot_->node : "?", why));
  } else if (before == State::loading || before == State::waiting) {
    events_.on_restarted(slice_, false);
  }
}

// A slice that was waiting waits on: the node may join again, or another may take it.
void NodeLink::on_node_lost(const std::string& why) {
  if (state_ == State::ready || state_ == State::running || state_ == State::loading) lose(why);
  close_wire();
}

void NodeLink::on_node_leaving() {
  if (state_ == State::running) {
    leaving_ = true;
    return;
  }
  if (state_ == State::ready || state_ == State::loading) lose("the node leaves");
  hub_.tell(*this, {.kind = node::ControlKind::unload, .slice = config_.title, .life = life_});
}

bool NodeLink::change_models(SliceId slice, std::vector<engines::ModelSpec> models) {
  if (state_ != State::ready || leaving_) return false;
  slice_ = slice;
  config_.spec.models = std::move(models);
  state_ = State::waiting;
  load();
  if (state_ == State::loading) return true;
  // The node has just gone: the answer comes as to a restart.
  due_ = context_.clock.now() + kNodeWaitMin;
  return true;
}

void NodeLink::work(TimePoint now) {
  old_wire_.reset();
  if (now < due_) return;
  due_ = kTimeNever;
  switch (state_) {
    case State::waiting:
      // Nobody has it: the scheduler asks again at once, and the pause grows.
      state_ = State::cold;
      return events_.on_restarted(slice_, false);
    case State::loading: fresh_ = true; return lose("it did not load its models in time");
    case State::running:
      if (stopping_) {
        close_wire();
        fresh_ = true;
        state_ = State::cold;
        log(host::LogLevel::info, "node_slice_given_up", "its slice is needed, and its batch takes too long");
        return events_.on_stopped(slice_, job_.batch);
      }
      return;
    default: return;
  }
}

// ---- Batches ----

const engines::ModelSpec* NodeLink::model_of(ServiceId service) const {
  const auto model = std::ranges::find(config_.spec.models, service, &engines::ModelSpec::service);
  return model == config_.spec.models.end() ? nullptr : &*model;
}

Result<engines::BatchMemory*> NodeLink::prepare(const engines::BatchJob& job) {
  const auto* model = model_of(job.service);
  if (model == nullptr) return Error{ErrorCode::not_found, "the slice has no replica of the service"};
  const auto needed = engines::memory_needed(model->signature, job);
  if (!needed) return Error{ErrorCode::exhausted, "the batch is larger than the address space"};
  if (memory_.size() < *needed) memory_.resize(*needed);
  engines::cut_memory(model->signature, job, memory_.data(), tensors_);
  return &tensors_;
}

std::optional<Duration> NodeLink::start(const engines::BatchJob& job) {
  TANGRAM_CHECK(state_ != State::running, "a slice runs one batch at a time");
  if (state_ != State::ready) {
    events_.on_lost(slice_, fmt::format("{} has no node", config_.title));
    return std::nullopt;
  }
  job_ = job;
  stopping_ = false;
  state_ = State::running;
  due_ = kTimeNever;
  sent_at_ = context_.clock.now();
  answer_.begin();
  const node::BatchHead head{job, life_, job.remaining, std::exchange(unloaded_, {})};
  wire_->send(engines::write_remote_request(*model_of(job.service), job, tensors_,
                                            "Host: node\r\n" + node::write_batch_fields(head)));
  return std::nullopt;
}

bool NodeLink::stop(BatchId batch, bool must) {
  if (state_ != State::running || job_.batch != batch) return false;
  hub_.tell(*this, {.kind = node::ControlKind::stop,
                    .slice = config_.title,
                    .life = life_,
                    .batch = batch.value(),
                    .must = must});
  if (must) {
    stopping_ = true;
    due_ = std::min(due_, context_.clock.now() + kNodeStopMax);
  }
  return false;
}

void NodeLink::on_bytes(node::Wire& wire) {
  if (state_ != State::running) {
    // Nothing was asked.
    return lose("it sent bytes that nobody asked for");
  }
  const auto state = answer_.feed(wire.in());
  wire.in().clear();
  if (state == client::HttpAnswerReader::State::reading) return;
  if (state != client::HttpAnswerReader::State::complete) return lose("it sent an invalid answer");
  answered();
}

void NodeLink::on_closed(node::Wire&, const std::string& why) {
  if (state_ == State::ready || state_ == State::running) return lose("the connection for its batches ended: " + why);
  close_wire();
}

void NodeLink::answered() {
  const auto head = node::read_answer_fields(answer_.head());
  if (!head || head->life != life_ || head->batch != job_.batch.value()) return lose("it answered another batch");
  const int status = answer_.status();
  // Of a slice that is not what we think it is: it is loaded anew.
  if (status == 503 || status == 409) return lose(node::read_refusal(answer_.body()).why);
  ++batches_;
  hub_.count_batch();
  std::string failure;
  if (status == 200) {
    const std::string& body = answer_.body();
    const auto read = engines::read_remote_answer(*model_of(job_.service), body, answer_.json_length().value_or(body.size()),
                                                  tensors_);
    if (!read) failure = read.error().message;
    const Duration took = context_.clock.now() - sent_at_;
    const Duration beyond = std::max(took - head->ran, Duration::zero());
    network_ = batches_ == 1 ? beyond
                             : network_ + Duration(static_cast<std::int64_t>(
                                              kNetworkWeight * static_cast<double>((beyond - network_).count())));
    events_.on_ran(slice_, std::min(head->ran, took));
  } else {
    failure = node::read_refusal(answer_.body()).why;
  }
  state_ = State::ready;
  due_ = kTimeNever;
  waits_in_vain_ = 0;  // Only a batch proves that the slice works.
  if (head->stopped) {
    events_.on_stopped(slice_, job_.batch);
  } else {
    events_.on_done(slice_, job_.batch, failure);
  }
  if (leaving_) on_node_leaving();
}

}  // namespace tangram::serve
