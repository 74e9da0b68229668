// Counts of connections by peer, under one lock: connections come and go seldom compared with requests.

#include "serve/peers.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace tangram::serve {

PeerKey PeerKey::of(const sockaddr_storage& address) {
  PeerKey key;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    key.bytes[0] = 4;
    std::memcpy(key.bytes.data() + 1, &v4.sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    key.bytes[0] = mapped ? 4 : 6;
    std::memcpy(key.bytes.data() + 1, v6.sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 8);
  }
  return key;
}

std::shared_ptr<Peer> Peers::enter(const PeerKey& key) {
  const host::MutexLock lock(mutex_);
  Entry& entry = entries_[key];
  if (entry.peer == nullptr) entry.peer = std::make_shared<Peer>(memory_max_);
  if (!key.admin && entry.connections >= peer_max_) return nullptr;
  ++entry.connections;
  return entry.peer;
}

void Peers::leave(const PeerKey& key) {
  const host::MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  if (found != entries_.end() && --found->second.connections == 0) entries_.erase(found);
}

std::size_t Peers::count(const PeerKey& key) const {
  const host::MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? 0 : found->second.connections;
}

}  // namespace tangram::serve
