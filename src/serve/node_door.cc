#include "serve/node_door.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "host/http_parser.h"
#include "host/listen_socket.h"
#include "host/prompt_thread.h"
#include "host/socket.h"
#include "node/munge.h"

namespace tangram::serve {
namespace {

constexpr int kStrangersTogether = 32;
// The kernel gives up a peer that acknowledges nothing for so long; pings notice most ends before.
constexpr int kNodeUserTimeoutMs = 10'000;
// A stranger that has had so long gives way when there are too many.
constexpr Duration kStrangerLeast = std::chrono::milliseconds(500);
constexpr Duration kDoorTurn = std::chrono::milliseconds(100);

std::int64_t wall_seconds() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1);
}

std::string address_of(const sockaddr_storage& from) {
  char text[INET6_ADDRSTRLEN] = "";
  if (from.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(from).sin_addr, text, sizeof text);
  } else if (from.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(from).sin6_addr, text, sizeof text);
  }
  return text;
}

}  // namespace

class NodeDoor::Listener final : private host::Readiness {
 public:
  Listener(host::EventLoop& loop, int socket, std::function<void()> accept)
      : loop_(loop), socket_(socket), accept_(std::move(accept)) {
    loop_.add(socket_, host::Interest::read, this);
  }
  ~Listener() override { loop_.remove(socket_, this); }
  void watch(bool wanted) { loop_.change(socket_, wanted ? host::Interest::read : host::Interest::none, this); }

 private:
  void on_ready(bool, bool, bool) override { accept_(); }

  host::EventLoop& loop_;
  int socket_;
  std::function<void()> accept_;
};

// Somebody who has not said who they are.
class NodeDoor::Stranger final : private node::WireOwner {
 public:
  Stranger(NodeDoor& door, node::WireParts parts, std::string from, TimePoint until)
      : address(std::move(from)),
        give_up_at(until),
        door_(door),
        wire(door.loop_, std::move(parts), node::kJoinHeadMax + node::kJoinBodyMax, *this) {}

  const std::string address;
  const TimePoint give_up_at;
  std::string fingerprint;
  // The whole first request.
  host::HttpHead head;
  std::string body;
  bool refused = false;  // Only its answer is still being sent.

 private:
  bool on_open(node::Wire&, const std::string& shown) override {
    fingerprint = shown;
    return !shown.empty();
  }
  void on_bytes(node::Wire&) override {
    if (refused) return wire.in().clear();
    const auto parsed = host::parse_http_head(wire.in(), node::kJoinHeadMax, head);
    if (parsed.kind == host::HttpHeadResult::Kind::need_more) return;
    const bool good = parsed.kind == host::HttpHeadResult::Kind::complete && head.method == host::HttpMethod::post &&
                      !head.chunked && head.content_length <= node::kJoinBodyMax;
    if (!good) {
      door_.counts_.failed.fetch_add(1, std::memory_order_relaxed);
      return door_.forget(*this);
    }
    const std::size_t whole = parsed.consumed + static_cast<std::size_t>(head.content_length);
    if (wire.in().size() < whole) return;
    path = std::string(head.path);
    body = wire.in().substr(parsed.consumed, static_cast<std::size_t>(head.content_length));
    wire.in().erase(0, whole);
    door_.admit(*this);
  }
  void on_closed(node::Wire&, const std::string&) override {
    if (!refused) door_.counts_.failed.fetch_add(1, std::memory_order_relaxed);
    door_.forget(*this);
  }

  NodeDoor& door_;

 public:
  std::string path;
  node::Wire wire;  // Last: its end needs what is above.
};

NodeDoor::NodeDoor(NodeDoorConfig config, host::LogWriter& log, std::function<void(NodeArrival)> arrived)
    : config_(std::move(config)), log_(log), arrived_(std::move(arrived)), tokens_(config_.folder) {}

NodeDoor::~NodeDoor() {
  stopping_ = true;
  loop_.wake();
  if (thread_.joinable()) thread_.join();
  strangers_.clear();
  gone_.clear();
  listener_.reset();
}

Result<Nothing> NodeDoor::open() {
  TANGRAM_RETURN_IF_ERROR(node::make_private_folder(config_.folder));
  TANGRAM_TRY(identity_, node::open_identity(config_.folder + "/gateway.pem", "tangram-gateway"));
  TANGRAM_TRY(tls_, host::TlsContext::for_pinned(host::TlsSide::server, identity_.material));
  TANGRAM_TRY(const int socket, host::listen_at(config_.address, config_.port, false));
  socket_.reset(socket);
  port_ = host::port_of(socket);
  listener_ = std::make_unique<Listener>(loop_, socket, [this] { accept(); });
  listening_ = true;
  allowance_at_ = clock_.now();
  thread_ = std::thread([this] { run(); });
  return Nothing{};
}

void NodeDoor::run() {
  while (!stopping_) {
    const bool waits = !strangers_.empty() || !listening_;
    loop_.wait(clock_, waits ? clock_.now() + kDoorTurn : kTimeNever);
    work(clock_.now());
  }
}

void NodeDoor::work(TimePoint now) {
  gone_.clear();
  allowance_ = std::min<double>(kStrangersPerSecond,
                                allowance_ + to_seconds(now - allowance_at_) * kStrangersPerSecond);
  allowance_at_ = now;
  std::vector<Stranger*> late;
  for (const auto& [key, stranger] : strangers_) {
    if (now >= stranger->give_up_at || (stranger->refused && stranger->wire.unsent() == 0)) late.push_back(key);
  }
  for (Stranger* stranger : late) {
    if (!stranger->refused) counts_.failed.fetch_add(1, std::memory_order_relaxed);
    forget(*stranger);
  }
  gone_.clear();
  // Beyond the allowance, connections wait in the queue of the kernel.
  const bool may = allowance_ >= 1 && (strangers_.size() < kStrangersMax || make_room());
  if (may != listening_) {
    listening_ = may;
    listener_->watch(may);
  }
}

void NodeDoor::accept() {
  for (int n = 0; n < kStrangersTogether && allowance_ >= 1; ++n) {
    if (strangers_.size() >= kStrangersMax && !make_room()) return;
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    host::Descriptor socket(
        accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.open()) return;
    allowance_ -= 1;
    const std::string address = address_of(from);
    auto& others = per_address_[address];
    if (others >= kStrangersPerAddressMax) {
      counts_.refused.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    ++others;
    counts_.accepted.fetch_add(1, std::memory_order_relaxed);
    host::send_without_delay(socket.get());
    setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kNodeUserTimeoutMs, sizeof kNodeUserTimeoutMs);
    node::WireParts parts;
    parts.tls = host::TlsStream::accept(tls_, socket.get());
    parts.socket = std::move(socket);
    auto stranger = std::make_unique<Stranger>(*this, std::move(parts), address, clock_.now() + config_.stranger_time);
    Stranger* key = stranger.get();
    strangers_.emplace(key, std::move(stranger));
  }
}

// Those who hold connections and say nothing do not keep a node out: its own handshake takes some milliseconds.
bool NodeDoor::make_room() {
  const auto oldest = std::ranges::min_element(strangers_, {}, [](const auto& entry) { return entry.second->give_up_at; });
  if (oldest == strangers_.end() || oldest->second->give_up_at - config_.stranger_time + kStrangerLeast > clock_.now()) return false;
  counts_.refused.fetch_add(1, std::memory_order_relaxed);
  forget(*oldest->second);
  return true;
}

void NodeDoor::forget(Stranger& stranger) {
  const auto found = strangers_.find(&stranger);
  if (found == strangers_.end()) return;
  const auto others = per_address_.find(stranger.address);
  if (others != per_address_.end() && --others->second == 0) per_address_.erase(others);
  stranger.wire.close();
  gone_.push_back(std::move(found->second));
  strangers_.erase(found);
}

Result<Nothing> NodeDoor::may_join(const Stranger& stranger, const node::JoinRequest& join) {
  if (join.munge.empty()) return tokens_.admit(stranger.fingerprint, join.name, join.token, wall_seconds());
  if (!config_.munge) {
    return Error{ErrorCode::denied, "this gateway takes no credentials of MUNGE: start it with --node-munge"};
  }
  auto good = node::check_munge(join.munge, stranger.fingerprint, config_.munge_users);
  if (!good) return Error{ErrorCode::denied, "the credential of MUNGE: " + good.error().message};
  return good;
}

// Blocks this thread for a file read, or for some ten milliseconds where MUNGE is asked: strangers wait for each other,
// and nobody else does.
void NodeDoor::admit(Stranger& stranger) {
  const auto refuse = [&](int status, const std::string& why, bool final) {
    counts_.denied.fetch_add(1, std::memory_order_relaxed);
    log_.write(host::LogLine(host::LogLevel::warning, "node_refused").text("address", stranger.address).text("reason", why));
    stranger.refused = true;
    stranger.wire.send(node::write_answer(status, node::write_refusal(why, final)));
  };
  NodeArrival arrival;
  if (stranger.path == node::kJoinPath) {
    auto join = node::read_join(stranger.body);
    if (!join) return refuse(400, join.error().message, true);
    if (join->protocol != node::kNodeProtocol) {
      return refuse(409,
                    fmt::format("the gateway is Tangram {} and speaks version {} of the protocol for nodes; the node is "
                                "Tangram {} and speaks {}: install the same version on both",
                                config_.version, node::kNodeProtocol, join->version, join->protocol),
                    true);
    }
    if (const auto may = may_join(stranger, *join); !may) return refuse(403, may.error().message, true);
    if (!join->munge.empty()) {
      auto own = node::make_munge(identity_.fingerprint);
      if (!own) return refuse(503, own.error().message, false);
      arrival.munge = std::move(*own);
    }
    if (admitted_.size() >= node::kPinnedMax) admitted_.clear();  // Their next slice asks them to join again.
    admitted_.insert(stranger.fingerprint);
    join->token.clear();
    join->munge.clear();
    arrival.wants = std::move(*join);
  } else if (stranger.path == node::kSlicePath) {
    // The scheduler's thread compares the session with the certificate, and is asked for nodes that have joined alone.
    if (!admitted_.contains(stranger.fingerprint)) return refuse(403, "the node has not joined", false);
    auto join = node::read_slice_join(stranger.body);
    if (!join) return refuse(400, join.error().message, true);
    arrival.wants = std::move(*join);
  } else {
    return refuse(404, "unknown path: this is the port for nodes", true);
  }
  arrival.fingerprint = stranger.fingerprint;
  arrival.address = stranger.address;
  arrival.parts = stranger.wire.release();
  forget(stranger);
  arrived_(std::move(arrival));
}

}  // namespace tangram::serve
