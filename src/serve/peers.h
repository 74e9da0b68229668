// Who is connected: how many connections each peer has, over all threads and protocols.
//
// A peer is an IPv4 address or the /64 of an IPv6 address, because whoever has one address of a /64 has all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "host/mutex.h"
#include "serve/memory_budget.h"

struct sockaddr_storage;

namespace tangram::serve {

struct PeerKey {
  // The family, and the bytes of the address that count: four or eight. All zeros: a Unix socket.
  std::array<std::uint8_t, 9> bytes{};
  bool admin = false;  // At the admin port, which has no limit for each peer.
  auto operator<=>(const PeerKey&) const = default;

  // An IPv4 address that is mapped into IPv6 is the IPv4 address.
  static PeerKey of(const sockaddr_storage& address);
};

// A peer that has connections, or whose requests are still held.
struct Peer {
  explicit Peer(std::uint64_t memory_max) : memory(memory_max) {}
  // What is held for it where callers are not authenticated; where they are, tenants have accounts instead.
  MemoryAccount memory;
};

// Counts connections. Any thread; one lock for each connection that comes or goes.
class Peers {
 public:
  // `peer_max` connections of each peer; `peer_memory_max` bytes for each.
  Peers(std::size_t peer_max, std::uint64_t peer_memory_max) : peer_max_(peer_max), memory_max_(peer_memory_max) {}

  // A connection has come. Null: the peer has as many as it may. Each that is not null is ended by leave().
  std::shared_ptr<Peer> enter(const PeerKey& key) EXCLUDES(mutex_);
  void leave(const PeerKey& key) EXCLUDES(mutex_);
  std::size_t count(const PeerKey& key) const EXCLUDES(mutex_);
  std::size_t peer_max() const { return peer_max_; }

 private:
  struct Entry {
    std::shared_ptr<Peer> peer;
    std::size_t connections = 0;
  };

  const std::size_t peer_max_;
  const std::uint64_t memory_max_;
  mutable host::Mutex mutex_;
  // As many entries as there are connections at most. A peer without a connection whose requests are still held loses
  // its entry, and has a new account when it comes again: what the old one holds is still charged to the whole.
  std::map<PeerKey, Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace tangram::serve
