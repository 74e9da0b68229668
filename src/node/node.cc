#include "node/node.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "adapters/cpu_host/core_share.h"
#include "base/check.h"
#include "base/text.h"
#include "core/geometry.h"
#include "host/resolve.h"
#include "node/munge.h"

namespace tangram::node {
namespace {

// From the first packet to the answer of the gateway.
constexpr Duration kJoinMax = std::chrono::seconds(10);
// A gateway that says nothing for this many times its own limit is gone.
constexpr double kSilenceFactor = 1.5;
// A node that hosts more than this was sent nonsense.
constexpr std::size_t kHostedMax = 1'024;

Result<int> connect_to(const host::Endpoint& endpoint) {
  const auto address = host::socket_address(endpoint);
  if (!address) return Error{ErrorCode::invalid, "this is not an address"};
  host::Descriptor socket(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) return Error{ErrorCode::unavailable, std::strerror(errno)};
  host::send_without_delay(socket.get());
  if (connect(socket.get(), address->get(), address->length) != 0 && errno != EINPROGRESS) {
    return Error{ErrorCode::unavailable, std::strerror(errno)};
  }
  return socket.release();
}

}  // namespace

std::string GatewayAddress::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

Result<GatewayAddress> parse_gateway(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto port = text::parse_integer(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool v6 = host.find(':') != std::string_view::npos;
  if (!port || *port < 1 || *port > 65535 || v6 != bracketed || host.empty() ||
      host.find_first_of("/ ,") != std::string_view::npos) {
    return Error{ErrorCode::invalid,
                 fmt::format("expected HOST:PORT, such as gateway:8003 or [::1]:8003, read \"{}\"", text)};
  }
  return GatewayAddress{std::string(host), static_cast<std::uint16_t>(*port)};
}

Node::Node(NodeConfig config, host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log)
    : config_(std::move(config)),
      context_{loop, clock, log},
      clock_(clock),
      workers_(loop, clock, log),
      due_(clock.now()) {
  TANGRAM_CHECK(!config_.gateways.empty(), "a node has a gateway to join");
  auto tls = host::TlsContext::for_pinned(host::TlsSide::client, config_.identity.material);
  TANGRAM_CHECK(tls.ok(), "an identity of our own can be used");
  tls_ = *tls;
  // A worker that cannot start is told to the gateway, which asks again.
  workers_.end_first_start();
}

Node::~Node() = default;

// ---- Joining ----

void Node::begin_join() {
  const GatewayAddress& gateway = config_.gateways[gateway_];
  if (endpoints_.empty()) {
    // May wait for the resolver; nothing is served meanwhile. Names are looked up at each attempt, because a gateway
    // that was started elsewhere keeps its name and changes its address.
    const auto addresses = host::addresses_of(gateway.host);
    if (!addresses) return lose_gateway(addresses.error().message);
    for (const auto& address : *addresses) endpoints_.push_back({.address = address, .port = gateway.port});
  }
  endpoint_ = endpoints_.front();
  endpoints_.erase(endpoints_.begin());
  place_ = gateway.text();
  shown_.clear();
  state_ = State::dialing;
  due_ = clock_.now() + kJoinMax;
  control_ = dial(kControlLineMax, *this);
  if (control_ == nullptr) lose_gateway("it cannot be reached");
}

std::unique_ptr<Wire> Node::dial(std::size_t in_max, WireOwner& owner) {
  const auto socket = connect_to(endpoint_);
  if (!socket) return nullptr;
  WireParts parts;
  parts.socket.reset(*socket);
  parts.tls = host::TlsStream::connect(tls_, *socket, endpoint_.address);
  return std::make_unique<Wire>(context_.loop, std::move(parts), in_max, owner);
}

// The token goes to nobody but the gateway whose fingerprint it has. Without one, a credential of MUNGE is bound to our
// certificate and of no use to anybody else; the gateway then shows one of its own.
bool Node::on_open(Wire& wire, const std::string& fingerprint) {
  if (!config_.gateway_fingerprint.empty() && fingerprint != config_.gateway_fingerprint) return false;
  shown_ = fingerprint;
  JoinRequest join{.version = config_.version, .name = config_.name, .token = config_.token, .boards = config_.boards};
  if (config_.munge) {
    auto credential = make_munge(config_.identity.fingerprint);
    if (!credential) {
      log(host::LogLevel::error, "munge_failed", credential.error().message);
    } else {
      join.munge = std::move(*credential);
    }
  }
  state_ = State::joining;
  wire.send(write_first_request(kJoinPath, place_, write_join(join)));
  return true;
}

void Node::on_closed(Wire&, const std::string& why) { lose_gateway(why); }

void Node::lose_gateway(const std::string& why) {
  const bool was_joined = state_ == State::joined;
  if (control_ != nullptr) {
    control_->close();
    old_control_ = std::move(control_);
  }
  session_.clear();
  state_ = State::idle;
  for (const auto& [name, slice] : slices_) slice->on_gateway_lost();
  // Each attempt in vain is logged once a minute or so, since the pauses grow to seconds.
  if (was_joined || attempts_in_vain_ % 20 == 0) {
    log(host::LogLevel::warning, was_joined ? "gateway_lost" : "gateway_not_joined", why);
  }
  if (was_joined) attempts_in_vain_ = 0;
  // First the other addresses of the gateway, then the other gateways, then a pause.
  const bool more = !endpoints_.empty();
  bool round = false;
  if (!more) {
    gateway_ = (gateway_ + 1) % config_.gateways.size();
    round = gateway_ == 0 || was_joined;
    if (was_joined) gateway_ = (gateway_ + config_.gateways.size() - 1) % config_.gateways.size();
  }
  Duration pause{};
  if (round) {
    pause = engines::pause_before_attempt(++attempts_in_vain_, config_.pause_min, config_.pause_max);
    // Nodes that were lost together do not come back at one instant.
    std::uint8_t chance = 0;
    host::fill_with_secrets(&chance, 1);
    pause -= pause * chance / 1024;
  }
  due_ = clock_.now() + pause;
}

void Node::take_join_answer() {
  auto taken = take_answer(control_->in());
  if (!taken) return lose_gateway(taken.error().message);
  if (!*taken) return;
  if ((*taken)->status != 200) {
    const Refusal refusal = read_refusal((*taken)->body);
    log(host::LogLevel::error, "join_refused", refusal.why);
    if (refusal.final && !ever_joined_) refused_ = refusal.why;
    return lose_gateway(refusal.why);
  }
  const auto answer = read_join_answer((*taken)->body);
  if (!answer) return lose_gateway(answer.error().message);
  if (config_.gateway_fingerprint.empty()) {
    // Whoever listens there has proved nothing yet.
    const auto shown = check_munge(answer->munge, shown_);
    if (!shown) return lose_gateway("the gateway has no credential of MUNGE for its certificate: " + shown.error().message);
  }
  state_ = State::joined;
  ever_joined_ = true;
  attempts_in_vain_ = 0;
  endpoints_.clear();
  session_ = answer->session;
  silence_max_ = std::chrono::duration_cast<Duration>(answer->silence_max * kSilenceFactor);
  heard_at_ = clock_.now();
  due_ = heard_at_ + silence_max_;
  context_.log.write(host::LogLine(host::LogLevel::info, "joined")
                         .text("gateway", place_)
                         .text("version", answer->version)
                         .integer("slices_loaded", static_cast<std::int64_t>(slices_.size())));
  if (leaving_) tell({.kind = ControlKind::leaving});
}

void Node::on_bytes(Wire&) {
  if (state_ == State::joining) take_join_answer();
  if (state_ != State::joined) return;
  heard_at_ = clock_.now();
  due_ = heard_at_ + silence_max_;
  std::size_t taken = 0;
  while (control_ != nullptr) {
    const std::string& in = control_->in();
    const auto end = in.find('\n', taken);
    if (end == std::string::npos) break;
    if (!handle(std::string_view(in).substr(taken, end - taken))) {
      return lose_gateway("it sent a message that means nothing");
    }
    taken = end + 1;
  }
  if (control_ != nullptr) control_->in().erase(0, taken);
}

bool Node::handle(std::string_view line) {
  const auto message = read_control(line);
  if (!message) return false;
  switch (message->kind) {
    case ControlKind::ping: tell({.kind = ControlKind::pong, .number = message->number}); return true;
    case ControlKind::load: load(*message); return true;
    case ControlKind::unload: {
      const auto found = slices_.find(message->slice);
      if (found == slices_.end()) return true;
      by_number_.erase(found->second->number());
      removed_.push_back(std::move(found->second));
      slices_.erase(found);
      return true;
    }
    case ControlKind::stop:
      if (const auto found = slices_.find(message->slice); found != slices_.end()) found->second->stop(*message);
      return true;
    default: return false;
  }
}

void Node::tell(const ControlMessage& message) {
  if (state_ == State::joined && control_ != nullptr) control_->send(write_control(message));
}

// ---- Slices ----

namespace {

bool overlap(int a, int a_units, int b, int b_units) { return a < b + b_units && b < a + a_units; }

}  // namespace

std::string Node::why_no_room(const ControlMessage& m) const {
  if (m.board >= config_.boards.size()) return "the node has no such device";
  const OfferedBoard& board = config_.boards[m.board];
  if (!board.whole) {
    const auto own = std::ranges::find(board.slices, m.offered, &OfferedSlice::id);
    if (own == board.slices.end()) return "the node has no such slice";
    return "";
  }
  for (const auto& [name, slice] : slices_) {
    const ControlMessage& other = slice->place();
    const bool same = other.start == m.start && other.cut_units == m.cut_units && other.process != m.process;
    if (name == m.slice || other.board != m.board || same) continue;
    if (overlap(other.start, other.cut_units, m.start, m.cut_units)) {
      return fmt::format("{} overlaps {}, which is loaded", m.slice, name);
    }
  }
  return "";
}

void Node::load(const ControlMessage& m) {
  const auto refuse = [&](const std::string& why) {
    log(host::LogLevel::error, "load_refused", why);
    tell({.kind = ControlKind::failed, .slice = m.slice, .life = m.life, .reason = why});
  };
  if (m.slice.empty() || slices_.size() >= kHostedMax) return refuse("the load names no slice, or there are too many");
  if (const std::string why = why_no_room(m); !why.empty()) return refuse(why);
  auto& slice = slices_[m.slice];
  if (slice == nullptr) {
    slice = std::make_unique<HostedSlice>(static_cast<SliceHost&>(*this), next_number_++);
    by_number_[slice->number()] = slice.get();
  }
  if (const auto loaded = slice->load(m); !loaded) refuse(loaded.error().message);
}

// The gateway says what is served; where it runs and what it may use is the node's own to know.
Result<std::unique_ptr<engines::Executor>> Node::make_executor(const HostedSlice& slice) {
  const ControlMessage& place = slice.place();
  const OfferedBoard& board = config_.boards[place.board];
  const SliceId id(slice.number());
  if (slice.spec().engine == "emulated" && !config_.workers) {
    return engines::make_emulated_executor(slice.signatures(), {.time_scale = slice.spec().config.time_scale});
  }
  worker::WorkerConfig worker;
  worker.program = config_.worker_program.empty() ? worker::find_worker_program() : config_.worker_program;
  if (worker.program.empty()) {
    return Error{ErrorCode::not_found, "tangram-worker was not found in the folder of the node's program"};
  }
  worker.title = place.slice;
  worker.user = config_.worker_user;
  worker.patience = config_.patience;
  worker.spec = slice.spec();
  worker.spec.cores.clear();
  TANGRAM_TRY(worker.spec.models, models_of(slice.spec()));
  if (worker.spec.engine != "emulated" && config_.models.empty()) {
    return Error{ErrorCode::invalid, fmt::format("the engine {} needs weights: start the node with --models DIR",
                                                 worker.spec.engine)};
  }
  if (!board.whole) {
    const auto own = std::ranges::find(board.slices, place.offered, &OfferedSlice::id);
    if (config_.environment) worker.environment = config_.environment(*own);
  } else if (place.units_per_core > 0) {
    // As the gateway would share its own cores.
    Geometry geometry;
    geometry.units = place.device_units;
    geometry.units_per_core = place.units_per_core;
    MigProfile cut;
    cut.name = place.mig_profile;
    cut.units = place.cut_units;
    geometry.profiles.push_back(cut);
    const adapters::CoreShare share = adapters::core_share(
        geometry, {.profile = 0, .start = static_cast<std::uint16_t>(place.start)}, adapters::usable_cores());
    worker.spec.cores = share.cores;
    worker.spec.config.threads = share.threads();
    if (share.needs_quota()) worker.quota_cores = share.worth;
  }
  return workers_.make(id, std::move(worker), *this);
}

Result<std::vector<engines::ModelSpec>> Node::models_of(const worker::WorkerSpec& spec) const {
  std::vector<engines::ModelSpec> models = spec.models;
  for (auto& model : models) {
    // A name with ".." would leave the folder.
    if (model.path.find("..") != std::string::npos || model.path.starts_with('/')) {
      return Error{ErrorCode::invalid, fmt::format("\"{}\" is not a name in the folder of models", model.path)};
    }
    if (!model.path.empty() && !config_.models.empty()) model.path = config_.models + "/" + model.path;
  }
  return models;
}

std::optional<std::map<std::string, std::string>> Node::digests(const worker::WorkerSpec& spec) {
  std::map<std::string, std::string> all;
  if (spec.engine == "emulated" || config_.models.empty()) return all;
  if (digests_ == nullptr) digests_ = std::make_unique<ModelDigests>([this] { context_.loop.wake(); });
  bool known = true;
  for (const auto& model : spec.models) {
    if (model.path.empty()) continue;
    auto digest = digests_->find(config_.models + "/" + model.path);
    known &= digest.has_value();
    if (digest && !digest->empty()) all.emplace(model.path, std::move(*digest));
  }
  if (!known) return std::nullopt;
  return all;
}

std::string Node::why_not_started() const {
  return workers_.unrecoverable().empty() ? "its worker could not start; the log of the node has the reason"
                                          : workers_.unrecoverable();
}

void Node::on_done(SliceId slice, BatchId batch, std::string failure) {
  events_.push_back({slice.value(), {SliceEvent::Kind::done, batch, std::move(failure)}});
}
void Node::on_stopped(SliceId slice, BatchId batch) {
  events_.push_back({slice.value(), {SliceEvent::Kind::stopped, batch, ""}});
}
void Node::on_lost(SliceId slice, std::string reason) {
  events_.push_back({slice.value(), {SliceEvent::Kind::lost, {}, std::move(reason)}});
}
void Node::on_restarted(SliceId slice, bool ok) {
  events_.push_back(
      {slice.value(), {ok ? SliceEvent::Kind::restarted : SliceEvent::Kind::not_restarted, {}, ""}});
}

// Handling one can cause others.
void Node::deliver_events() {
  while (!events_.empty()) {
    const auto events = std::exchange(events_, {});
    for (const auto& [number, event] : events) {
      const auto found = by_number_.find(number);
      if (found != by_number_.end()) found->second->on_event(event);
    }
  }
}

// ---- The loop ----

void Node::work(TimePoint now) {
  workers_.work(now);
  removed_.clear();
  old_control_.reset();
  deliver_events();
  for (const auto& [name, slice] : slices_) slice->work(now);
  deliver_events();
  if (now < due_) return;
  switch (state_) {
    case State::idle:
      if (refused_.empty() && !(leaving_ && !ever_joined_)) return begin_join();
      due_ = kTimeNever;
      return;
    case State::dialing:
    case State::joining: return lose_gateway("it does not answer");
    case State::joined:
      if (now - heard_at_ >= silence_max_) return lose_gateway("it is silent");
      due_ = heard_at_ + silence_max_;
  }
}

TimePoint Node::next_due() const {
  if (!events_.empty()) return TimePoint{};
  TimePoint due = std::min({due_, workers_.next_due(), leave_until_});
  for (const auto& [name, slice] : slices_) due = std::min(due, slice->next_due());
  return due;
}

void Node::leave() {
  if (std::exchange(leaving_, true)) return;
  leave_until_ = clock_.now() + config_.leave_max;
  tell({.kind = ControlKind::leaving});
}

// The gateway answers with an unload for each slice, once nothing runs there.
bool Node::left() const {
  if (!leaving_) return false;
  if (state_ != State::joined || slices_.empty()) return true;
  return clock_.now() >= leave_until_;
}

void Node::log(host::LogLevel level, std::string_view event, std::string_view reason) const {
  host::LogLine line(level, event);
  if (!place_.empty()) line.text("gateway", place_);
  line.text("reason", reason);
  context_.log.write(line);
}

}  // namespace tangram::node
