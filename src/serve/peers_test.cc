#include "serve/peers.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace tangram::serve {
namespace {

PeerKey peer_at(const char* text) {
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
    address.ss_family = AF_INET;
  } else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
    address.ss_family = AF_INET6;
  }
  return PeerKey::of(address);
}

TEST(Peers, AddressesOfOneIpv6NetworkAreOnePeer) {
  EXPECT_EQ(peer_at("2001:db8:0:1::1"), peer_at("2001:db8:0:1:ffff:ffff:ffff:ffff"));
  EXPECT_NE(peer_at("2001:db8:0:1::1"), peer_at("2001:db8:0:2::1"));
}

TEST(Peers, AnIpv4AddressIsTheSamePeerInsideIpv6) {
  EXPECT_EQ(peer_at("127.0.0.1"), peer_at("::ffff:127.0.0.1"));
  EXPECT_NE(peer_at("127.0.0.1"), peer_at("127.0.0.2"));
}

TEST(Peers, OnePeerAtItsLimitLeavesTheOthersTheirs) {
  Peers peers(2, 1000);
  const auto first = peer_at("10.0.0.1");
  EXPECT_NE(peers.enter(first), nullptr);
  EXPECT_NE(peers.enter(first), nullptr);
  EXPECT_EQ(peers.enter(first), nullptr);
  EXPECT_NE(peers.enter(peer_at("10.0.0.2")), nullptr);
  peers.leave(first);
  EXPECT_NE(peers.enter(first), nullptr);
}

TEST(Peers, AllConnectionsOfAPeerShareOneAccount) {
  Peers peers(9, 1000);
  const auto one = peers.enter(peer_at("10.0.0.1"));
  EXPECT_EQ(one, peers.enter(peer_at("10.0.0.1")));
  EXPECT_NE(one, peers.enter(peer_at("10.0.0.2")));
  EXPECT_EQ(one->memory.limit(), 1000u);
  peers.leave(peer_at("10.0.0.2"));
  EXPECT_EQ(peers.count(peer_at("10.0.0.2")), 0u);
}

}  // namespace
}  // namespace tangram::serve
