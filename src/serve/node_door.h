// The port for nodes: accepts connections, shakes hands, and finds out who is there, on a thread of its own. So nobody
// who has not proved who they are costs the scheduler any time.
//
// Limits: connections that have not said who they are (kStrangersMax, kStrangersPerAddressMax of one address), how many
// a second are accepted, how long each may take (kStrangerTime), and the bytes of its first request.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/result.h"
#include "host/descriptor.h"
#include "host/event_loop.h"
#include "host/log.h"
#include "host/mutex.h"
#include "node/identity.h"
#include "node/node_protocol.h"
#include "node/tokens.h"
#include "node/wire.h"

namespace tangram::serve {

inline constexpr std::size_t kStrangersMax = 512;
inline constexpr std::size_t kStrangersPerAddressMax = 256;
// To shake hands and to say what it wants.
inline constexpr Duration kStrangerTime = std::chrono::seconds(5);
// Handshakes cost about 0.3 ms each; joins of a fleet come in storms.
inline constexpr int kStrangersPerSecond = 1'000;

struct NodeDoorConfig {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::string folder;  // Of identity and tokens.
  std::string version;
  bool munge = false;             // Accept credentials of MUNGE, and show one.
  std::vector<uid_t> munge_users;  // Beside our own and root.
  Duration stranger_time = kStrangerTime;
};

// A connection whose first request has come from a node that may join.
struct NodeArrival {
  node::WireParts parts;
  std::string fingerprint;
  std::string address;
  std::variant<node::JoinRequest, node::SliceJoin> wants;
  std::string munge;  // Our credential for its answer.
};

// What happens at the port, since the start.
struct NodeDoorCounts {
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> refused{0};    // Too many at once.
  std::atomic<std::uint64_t> failed{0};     // In the handshake, or not in time.
  std::atomic<std::uint64_t> denied{0};     // No right to join.
};

class NodeDoor {
 public:
  // `arrived` is called on the thread of the door. All outlive it.
  NodeDoor(NodeDoorConfig config, host::LogWriter& log, std::function<void(NodeArrival)> arrived);
  ~NodeDoor();
  NodeDoor(const NodeDoor&) = delete;
  NodeDoor& operator=(const NodeDoor&) = delete;

  // Reads or makes the identity, and begins to listen.
  Result<Nothing> open();
  std::uint16_t port() const { return port_; }
  const std::string& fingerprint() const { return identity_.fingerprint; }
  const NodeDoorCounts& counts() const { return counts_; }

 private:
  class Stranger;
  class Listener;

  void run();
  void accept();
  // A stranger has sent a whole request, or has ended.
  void admit(Stranger& stranger);
  Result<Nothing> may_join(const Stranger& stranger, const node::JoinRequest& join);
  void forget(Stranger& stranger);
  // Ends the stranger that is here for longest, if that is long enough. False: it is not.
  bool make_room();
  // Ends those that take too long, and lets further ones in.
  void work(TimePoint now);

  NodeDoorConfig config_;
  host::LogWriter& log_;
  std::function<void(NodeArrival)> arrived_;
  node::Identity identity_;
  node::TokenStore tokens_;
  std::shared_ptr<const host::TlsContext> tls_;
  host::LiveClock clock_;
  host::EventLoop loop_;
  host::Descriptor socket_;
  std::uint16_t port_ = 0;
  std::unique_ptr<Listener> listener_;
  bool listening_ = false;  // The loop watches the socket.
  double allowance_ = kStrangersPerSecond;
  TimePoint allowance_at_;
  std::map<Stranger*, std::unique_ptr<Stranger>> strangers_;
  std::map<std::string, std::size_t> per_address_;
  std::set<std::string> admitted_;  // Fingerprints of nodes that were let in.
  std::vector<std::unique_ptr<Stranger>> gone_;
  NodeDoorCounts counts_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tangram::serve
