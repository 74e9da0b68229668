#include "serve/node_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace tangram::serve {
namespace {

// The share of the newest ping in the mean.
constexpr double kRttWeight = 0.2;
constexpr Duration kRightsEvery = std::chrono::seconds(1);
constexpr std::size_t kSessionBytes = 16;

// A node that says nothing for so long gets no further batches: 0.75 s where it is lost after two.
Duration doubt_after(const NodeHubConfig& config) { return config.silence_max * 3 / 8; }

std::string new_session() {
  std::array<std::uint8_t, kSessionBytes> random{};
  host::fill_with_secrets(random.data(), random.size());
  std::string text;
  for (const auto byte : random) text += fmt::format("{:02x}", byte);
  return text;
}

bool equal_secret(const std::string& a, const std::string& b) {
  return a.size() == b.size() && host::equal_in_constant_time(a.data(), b.data(), a.size());
}

}  // namespace

// A node that has joined, or had.
struct NodeHub::Peer final : node::WireOwner {
  explicit Peer(NodeHub& h) : hub(h) {}

  bool on_open(node::Wire&, const std::string&) override { return true; }
  void on_bytes(node::Wire&) override { hub.on_control(*this); }
  void on_closed(node::Wire&, const std::string& why) override { hub.lose(*this, why); }

  // It does not answer.
  void doubt();

  NodeHub& hub;
  std::string name;
  std::string address;
  std::string version;
  std::string fingerprint;
  std::string session;
  std::vector<node::OfferedBoard> boards;
  std::unique_ptr<node::Wire> wire;  // Null: it is lost.
  bool leaving = false;
  bool doubted = false;  // It has said nothing for a while.
  bool by_token = true;  // Its certificate is in the file of tokens.
  TimePoint heard_at;
  TimePoint ping_at;
  TimePoint pinged_at;
  std::uint64_t ping_number = 0;
  double rtt_us = 0;
  TimePoint since;
  std::uint64_t joins = 0;
  std::uint64_t losses = 0;
};

NodeHub::NodeHub(NodeHubConfig config, host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log)
    : config_(std::move(config)),
      context_{loop, clock, log},
      tokens_(config_.door.folder),
      next_rights_(clock.now()),
      first_wait_until_(clock.now() + config_.first_wait),
      door_(config_.door, log, [this, &loop](NodeArrival arrival) {
        {
          const host::MutexLock lock(mutex_);
          arrivals_.push_back(std::move(arrival));
        }
        loop.wake();
      }) {
  // Lives of another run of the gateway must not be taken for ours.
  std::array<std::uint8_t, 4> random{};
  host::fill_with_secrets(random.data(), random.size());
  for (const auto byte : random) life_ = life_ << 8 | byte;
  life_ <<= 24;
  if (!config_.models.empty()) own_digests_ = std::make_unique<node::ModelDigests>([&loop] { loop.wake(); });
}

NodeHub::~NodeHub() = default;

Result<Nothing> NodeHub::open() { return door_.open(); }

std::unique_ptr<engines::Executor> NodeHub::make(SliceId slice, NodeSliceConfig config,
                                                 engines::ExecutorEvents& events) {
  return std::make_unique<NodeLink>(*this, context_, slice, std::move(config), events);
}

void NodeHub::add(NodeLink* link) {
  links_.add(link);
  by_title_[link->config().title] = link;
  ++devices_[link->config().device];
  // The digests of our own weights are begun now, so that they are known when a node is ready.
  if (own_digests_ == nullptr) return;
  for (const auto& model : link->config().spec.models) {
    if (!model.path.empty()) own_digests_->find(config_.models + "/" + model.path);
  }
}

void NodeHub::remove(NodeLink* link) {
  unbind(link);
  links_.remove(link);
  const auto named = by_title_.find(link->config().title);
  if (named != by_title_.end() && named->second == link) by_title_.erase(named);
  if (--devices_[link->config().device] == 0) {
    devices_.erase(link->config().device);
    boards_of_.erase(link->config().device);
    down_.erase(link->config().device);
  }
}

// ---- Who is there ----

NodeHub::Peer* NodeHub::find(const std::string& name) const {
  const auto found = peers_.find(name);
  return found == peers_.end() || found->second->wire == nullptr ? nullptr : found->second.get();
}

void NodeHub::take_arrivals() {
  std::vector<NodeArrival> arrivals;
  {
    const host::MutexLock lock(mutex_);
    arrivals.swap(arrivals_);
  }
  for (auto& arrival : arrivals) {
    if (const auto* join = std::get_if<node::JoinRequest>(&arrival.wants)) {
      const node::JoinRequest request = *join;
      take_join(std::move(arrival), request);
    } else {
      const node::SliceJoin request = std::get<node::SliceJoin>(arrival.wants);
      take_slice(std::move(arrival), request);
    }
  }
}

namespace {

// Answers and ends a connection that nobody wants.
void turn_away(NodeArrival& arrival, int status, const std::string& why, bool final) {
  const std::string answer = node::write_answer(status, node::write_refusal(why, final));
  // What the socket does not take now is lost: the reason is a courtesy.
  arrival.parts.tls->write(answer.data(), answer.size());
  arrival.parts.tls->say_goodbye();
  arrival.parts.tls.reset();
}

}  // namespace

void NodeHub::take_join(NodeArrival arrival, const node::JoinRequest& join) {
  auto& entry = peers_[join.name];
  const TimePoint now = context_.clock.now();
  if (entry == nullptr) {
    if (peers_.size() > config_.nodes_max && !forget_one_lost()) {
      peers_.erase(join.name);
      return turn_away(arrival, 503, fmt::format("the gateway has {} nodes, which is the most", config_.nodes_max), false);
    }
    entry = std::make_unique<Peer>(*this);
    entry->name = join.name;
  } else if (entry->wire != nullptr && entry->fingerprint != arrival.fingerprint) {
    ++counts_.name_conflicts;
    return turn_away(arrival, 409,
                     fmt::format("another node has the name {} and is here: give each its own --name", join.name), false);
  }
  Peer& peer = *entry;
  // The node has given its last connection up, and we have not noticed yet.
  if (peer.wire != nullptr) lose(peer, "it joins again");
  peer.address = arrival.address;
  peer.version = join.version;
  peer.fingerprint = arrival.fingerprint;
  peer.session = new_session();
  peer.boards = join.boards;
  peer.by_token = arrival.munge.empty();
  peer.leaving = false;
  peer.doubted = false;
  peer.heard_at = peer.since = now;
  peer.ping_at = now;
  next_ping_ = std::min(next_ping_, now);
  ++peer.joins;
  ++counts_.joins;
  peer.wire = std::make_unique<node::Wire>(context_.loop, std::move(arrival.parts), node::kControlLineMax, peer);
  node::JoinAnswer answer{.version = config_.door.version,
                          .session = peer.session,
                          .ping_every = config_.ping_every,
                          .silence_max = config_.silence_max,
                          .munge = arrival.munge};
  peer.wire->send(node::write_answer(200, node::write_join_answer(answer)));
  log(host::LogLevel::info, "node_joined", peer, "");
  place_all(&peer);
  tell_devices(peer, true, "");
}

// Names of nodes that will never come back must not fill the list: the one that is lost for longest goes.
bool NodeHub::forget_one_lost() {
  auto oldest = peers_.end();
  for (auto entry = peers_.begin(); entry != peers_.end(); ++entry) {
    if (entry->second == nullptr || entry->second->wire != nullptr) continue;
    if (oldest == peers_.end() || entry->second->since < oldest->second->since) oldest = entry;
  }
  if (oldest == peers_.end()) return false;
  peers_.erase(oldest);
  return true;
}

void NodeHub::take_slice(NodeArrival arrival, const node::SliceJoin& join) {
  const auto found = by_title_.find(join.slice);
  NodeLink* const link = found == by_title_.end() ? nullptr : found->second;
  Peer* const peer = link == nullptr || !link->spot() ? nullptr : find(link->spot()->node);
  const bool known = peer != nullptr && peer->fingerprint == arrival.fingerprint &&
                     equal_secret(peer->session, join.session);
  if (!known) return turn_away(arrival, 403, "the node has not joined with this session", false);
  if (link->life() != join.life) {
    ++counts_.late_answers;
    return turn_away(arrival, 409, "the slice was loaded anew", false);
  }
  const std::string answer = node::write_answer(200, "{}");
  const auto sent = arrival.parts.tls->write(answer.data(), answer.size());
  // A new connection has room for some hundred bytes.
  if (sent.status != host::TlsStream::Status::done || sent.bytes != answer.size()) return;
  link->attach(std::move(arrival.parts));
}

void NodeHub::lose(Peer& peer, const std::string& why) {
  if (peer.wire == nullptr) return;
  peer.wire->close();
  old_wires_.push_back(std::move(peer.wire));
  peer.session.clear();
  peer.since = context_.clock.now();
  ++peer.losses;
  ++counts_.losses;
  log(peer.leaving ? host::LogLevel::info : host::LogLevel::warning, peer.leaving ? "node_left" : "node_lost", peer, why);
  // Idle slices first: a batch that is lost runs once more, and must not do so on the same node.
  std::vector<NodeLink*> busy;
  std::vector<NodeLink*> idle;
  links_.for_each([&](NodeLink& link) {
    if (link.spot() && link.spot()->node == peer.name) (link.busy() ? busy : idle).push_back(&link);
  });
  const std::string reason = peer.leaving ? "the node has left" : "the node was lost: " + why;
  for (NodeLink* link : idle) link->on_node_lost(reason);
  for (NodeLink* link : busy) link->on_node_lost(reason);
  rebind_at_ = std::min(rebind_at_, peer.since + config_.rebind_after);
  tell_devices(peer, false, reason);
}

// A batch that is sent to a node that has stopped is found stuck a second later. So slices that are idle are taken from
// a node that does not answer; those that are busy have until then.
void NodeHub::Peer::doubt() {
  doubted = true;
  hub.log(host::LogLevel::warning, "node_silent", *this, "");
  std::vector<NodeLink*> idle;
  hub.links_.for_each([&](NodeLink& link) {
    if (link.spot() && link.spot()->node == name && !link.busy()) idle.push_back(&link);
  });
  for (NodeLink* link : idle) link->on_node_lost("the node does not answer");
}

void NodeHub::on_control(Peer& peer) {
  peer.heard_at = context_.clock.now();
  if (std::exchange(peer.doubted, false)) {
    log(host::LogLevel::info, "node_answers", peer, "");
    place_all(&peer);
  }
  std::size_t taken = 0;
  while (peer.wire != nullptr) {
    const std::string& in = peer.wire->in();
    const auto end = in.find('\n', taken);
    if (end == std::string::npos) break;
    const auto message = node::read_control(std::string_view(in).substr(taken, end - taken));
    if (!message || !handle(peer, *message)) return lose(peer, "it sent a message that means nothing");
    taken = end + 1;
  }
  if (peer.wire != nullptr) peer.wire->in().erase(0, taken);
}

bool NodeHub::handle(Peer& peer, const node::ControlMessage& message) {
  switch (message.kind) {
    case node::ControlKind::pong: {
      if (message.number != peer.ping_number) return true;
      const double us = to_seconds(peer.heard_at - peer.pinged_at) * 1e6;
      peer.rtt_us = peer.rtt_us == 0 ? us : peer.rtt_us + kRttWeight * (us - peer.rtt_us);
      return true;
    }
    case node::ControlKind::ready:
    case node::ControlKind::failed:
    case node::ControlKind::lost: {
      const auto found = by_title_.find(message.slice);
      const bool its = found != by_title_.end() && found->second->spot() && found->second->spot()->node == peer.name;
      // Of a slice that has gone elsewhere meanwhile.
      if (its) found->second->on_message(message);
      return true;
    }
    case node::ControlKind::leaving: {
      peer.leaving = true;
      peer.since = context_.clock.now();
      log(host::LogLevel::info, "node_leaving", peer, "");
      std::vector<NodeLink*> links;
      links_.for_each([&](NodeLink& link) {
        if (link.spot() && link.spot()->node == peer.name) links.push_back(&link);
      });
      for (NodeLink* link : links) link->on_node_leaving();
      rebind_at_ = std::min(rebind_at_, context_.clock.now());
      return true;
    }
    default: return false;
  }
}

void NodeHub::ping(Peer& peer, TimePoint now) {
  if (now - peer.heard_at >= config_.silence_max) return lose(peer, "it is silent");
  if (!peer.doubted && now - peer.heard_at >= doubt_after(config_)) peer.doubt();
  if (now < peer.ping_at) return;
  // The number of the last one that was answered stays the one that counts, until it is.
  ++peer.ping_number;
  peer.pinged_at = now;
  peer.ping_at = now + config_.ping_every;
  peer.wire->send(node::write_control({.kind = node::ControlKind::ping, .number = peer.ping_number}));
}

// `tangram token revoke` takes the right back of every node that came in with the token.
void NodeHub::check_rights() {
  if (!tokens_.changed()) return;
  const auto file = tokens_.list();
  if (!file) return;
  for (const auto& [name, peer] : peers_) {
    if (peer->wire == nullptr || !peer->by_token) continue;
    if (std::ranges::find(file->nodes, peer->fingerprint, &node::PinnedNode::fingerprint) == file->nodes.end()) {
      lose(*peer, "its join token was revoked");
    }
  }
}

bool NodeHub::tell(const NodeLink& link, const node::ControlMessage& message) {
  Peer* const peer = link.spot() ? find(link.spot()->node) : nullptr;
  if (peer == nullptr) return false;
  peer->wire->send(node::write_control(message));
  return true;
}

// ---- Which slice is where ----

bool NodeHub::may_leave(const NodeLink& link, TimePoint now) const {
  if (!link.spot()) return true;
  const auto found = peers_.find(link.spot()->node);
  if (found == peers_.end()) return true;
  const Peer& peer = *found->second;
  if (peer.leaving) return true;
  return peer.wire == nullptr && now - peer.since >= config_.rebind_after;
}

std::optional<NodeSpot> NodeHub::find_spot(const NodeLink& link, const Peer& peer) const {
  const NodeSliceConfig& wanted = link.config();
  const auto free_for = [&](const NodeSpot& spot, const std::string& what) {
    const auto owner = owners_.find(spot);
    return owner == owners_.end() || owner->second.what == what;
  };
  const auto bound = boards_of_.find(wanted.device);
  for (std::size_t b = 0; b < peer.boards.size(); ++b) {
    const node::OfferedBoard& board = peer.boards[b];
    if (!board.name.empty() && board.name != wanted.device) continue;
    if (!board.type.empty() && board.type != wanted.type) continue;
    if (board.whole) {
      const NodeSpot spot{peer.name, b, ""};
      // A device is on one board, so that its cuts cannot overlap.
      if (bound != boards_of_.end() && bound->second != spot && find(bound->second.node) != nullptr) continue;
      const bool large = wanted.units_per_core == 0 || board.cores * wanted.units_per_core >= wanted.device_units;
      // A node that has the name of another device of the plan is kept for that one.
      const bool kept = board.name.empty() && peer.boards.size() == 1 && peer.name != wanted.device &&
                        devices_.contains(peer.name);
      if (large && !kept && free_for(spot, wanted.device)) return spot;
      continue;
    }
    for (const auto& slice : board.slices) {
      if (slice.mig_profile != wanted.mig_profile) continue;
      if (!board.name.empty() && slice.start >= 0 && slice.start != wanted.start) continue;
      const NodeSpot spot{peer.name, b, slice.id};
      if (free_for(spot, wanted.cut())) return spot;
    }
  }
  return std::nullopt;
}

void NodeHub::bind(NodeLink* link, const NodeSpot& spot) {
  if (link->spot() == spot) return;
  unbind(link);
  Owner& owner = owners_[spot];
  owner.what = spot.offered.empty() ? link->config().device : link->config().cut();
  ++owner.links;
  if (spot.offered.empty()) boards_of_[link->config().device] = spot;
  link->set_spot(spot);
}

void NodeHub::unbind(NodeLink* link) {
  if (!link->spot()) return;
  const auto owner = owners_.find(*link->spot());
  if (owner != owners_.end() && --owner->second.links == 0) owners_.erase(owner);
  link->set_spot(std::nullopt);
}

// A slice keeps its spot while its node may come back, and other processes of the same cut go where the first is.
void NodeHub::place(NodeLink* link) {
  if (!link->wanting()) return;
  const TimePoint now = context_.clock.now();
  if (link->spot()) {
    Peer* const peer = find(link->spot()->node);
    if (peer != nullptr && peer->doubted) return;  // Its next word decides, or the limit of its silence.
    if (peer != nullptr && !peer->leaving) {
      // The node may offer other things than it did.
      const auto spot = find_spot(*link, *peer);
      if (spot == link->spot()) return link->load();
      if (spot) {
        bind(link, *spot);
        return link->load();
      }
    } else if (!may_leave(*link, now)) {
      rebind_at_ = std::min(rebind_at_, peers_.at(link->spot()->node)->since + config_.rebind_after);
      return;
    }
  }
  for (const auto& [name, peer] : peers_) {
    if (peer->wire == nullptr || peer->leaving || peer->doubted) continue;
    if (const auto spot = find_spot(*link, *peer)) {
      bind(link, *spot);
      return link->load();
    }
  }
}

void NodeHub::place_all(Peer* peer) {
  std::vector<NodeLink*> wanting;
  links_.for_each([&](NodeLink& link) {
    if (link.wanting()) wanting.push_back(&link);
  });
  for (NodeLink* link : wanting) {
    if (peer == nullptr || (link->spot() && link->spot()->node == peer->name)) {
      place(link);
    } else if (may_leave(*link, context_.clock.now())) {
      if (const auto spot = find_spot(*link, *peer)) {
        bind(link, *spot);
        link->load();
      }
    }
  }
}

void NodeHub::tell_devices(const Peer& peer, bool works, const std::string& why) {
  if (!told_) return;
  std::map<std::string, bool> placed;  // Whether some slice of the device has a node, or could have this one.
  links_.for_each([&](const NodeLink& link) {
    const bool has = link.spot() && find(link.spot()->node) != nullptr;
    placed[link.config().device] |= has || (works && find_spot(link, peer).has_value());
  });
  for (const auto& [device, has] : placed) {
    if (!works && !has && down_.insert(device).second) told_(device, false, why);
    if (works && has && down_.erase(device) > 0) told_(device, true, "");
  }
}

// The first that says what its weights are is believed, unless the gateway has them itself: all others must have the
// same, or clients would get answers of two models.
std::string NodeHub::why_other_models(const NodeLink& link, const std::map<std::string, std::string>& digests) {
  for (const auto& [path, digest] : digests) {
    std::string right;
    if (own_digests_ != nullptr) right = own_digests_->find(config_.models + "/" + path).value_or("");
    const bool own = !right.empty();
    if (!own) right = digests_.emplace(path, digest).first->second;
    if (right == digest) continue;
    ++counts_.model_mismatches;
    return fmt::format("its weights of {} have the SHA-256 {}..., and those of {} have {}...: copy the same files to {}", path,
                       digest.substr(0, 12), own ? "the gateway" : "the node that loaded them first", right.substr(0, 12),
                       link.spot()->node);
  }
  return "";
}

// ---- The loop ----

void NodeHub::work(TimePoint now) {
  old_wires_.clear();
  take_arrivals();
  if (now >= next_ping_) {
    next_ping_ = kTimeNever;
    for (const auto& [name, peer] : peers_) {
      if (peer->wire != nullptr) ping(*peer, now);
      if (peer->wire != nullptr) {
        const Duration limit = peer->doubted ? config_.silence_max : doubt_after(config_);
        next_ping_ = std::min({next_ping_, peer->ping_at, peer->heard_at + limit});
      }
    }
  }
  if (now >= next_rights_) {
    next_rights_ = now + kRightsEvery;
    check_rights();
  }
  links_.work(now);
  if (now >= rebind_at_) {
    rebind_at_ = kTimeNever;
    place_all(nullptr);
  }
}

TimePoint NodeHub::next_due() const {
  return std::min({next_ping_, next_rights_, rebind_at_, links_.next_due()});
}

std::size_t NodeHub::slices_waiting() const {
  std::size_t count = 0;
  links_.for_each([&](const NodeLink& link) { count += !link.spot() || find(link.spot()->node) == nullptr ? 1 : 0; });
  return count;
}

std::string NodeHub::node_of(const std::string& title) const {
  const auto found = by_title_.find(title);
  return found == by_title_.end() || !found->second->spot() ? "" : found->second->spot()->node;
}

std::vector<NodeReport> NodeHub::report() const {
  const TimePoint now = context_.clock.now();
  std::map<std::string, std::vector<NodeSliceReport>> slices;
  links_.for_each([&](const NodeLink& link) {
    if (!link.spot()) return;
    NodeSliceReport slice{link.config().title, link.config().mig_profile, {}, std::string(link.state()),
                          to_seconds(link.network_mean()) * 1e6};
    for (const auto& model : link.config().spec.models) slice.services.push_back(model.name);
    slices[link.spot()->node].push_back(std::move(slice));
  });
  std::vector<NodeReport> report;
  for (const auto& [name, peer] : peers_) {
    NodeReport node;
    node.name = name;
    node.address = peer->address;
    node.state = peer->wire == nullptr ? "lost" : peer->leaving ? "leaving" : "joined";
    node.version = peer->version;
    node.rtt_us = peer->rtt_us;
    node.since_s = to_seconds(now - peer->since);
    node.joins = peer->joins;
    node.losses = peer->losses;
    for (const auto& board : peer->boards) node.slices_offered += board.slices.size();
    node.slices = std::move(slices[name]);
    report.push_back(std::move(node));
  }
  return report;
}

void NodeHub::log(host::LogLevel level, std::string_view event, const Peer& peer, const std::string& reason) const {
  host::LogLine line(level, event);
  line.text("node", peer.name).text("address", peer.address);
  if (!reason.empty()) line.text("reason", reason);
  context_.log.write(line);
}

}  // namespace tangram::serve
