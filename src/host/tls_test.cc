#include "host/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "host/test_certificates.h"

namespace tangram::host {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Status = TlsStream::Status;

std::shared_ptr<const TlsContext> server_context(const TlsMaterial& material) {
  auto made = TlsContext::for_server(material);
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

std::shared_ptr<const TlsContext> client_context(const std::string& authorities, TlsMaterial own = {}) {
  own.authorities = authorities;
  auto made = TlsContext::for_client(own);
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

TlsMaterial asking_for(const std::string& authorities, TlsMaterial material) {
  material.authorities = authorities;
  return material;
}

// Both ends of one connection, on one thread: neither ever waits.
struct Pair {
  Pair(std::shared_ptr<const TlsContext> of_server, std::shared_ptr<const TlsContext> of_client,
       const std::string& name = "localhost") {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
    server = TlsStream::accept(std::move(of_server), sockets[0]);
    client = TlsStream::connect(std::move(of_client), sockets[1], name);
  }
  ~Pair() {
    server.reset();
    client.reset();
    for (const int socket : sockets) close(socket);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // Takes turns until both are through, or one has failed. TLS 1.3 needs two turns.
  bool shake_hands() {
    for (int turn = 0; turn < 8; ++turn) {
      const auto a = client->shake_hands().status;
      const auto b = server->shake_hands().status;
      if (a == Status::done && b == Status::done) return true;
      if (a == Status::failed || b == Status::failed) return false;
    }
    return false;
  }

  std::array<int, 2> sockets{-1, -1};
  std::unique_ptr<TlsStream> server;
  std::unique_ptr<TlsStream> client;
};

std::string read_all(TlsStream& stream) {
  std::string text;
  std::array<char, 64 << 10> buffer;
  while (true) {
    const auto moved = stream.read(buffer.data(), buffer.size());
    if (moved.status != Status::done) return text;
    text.append(buffer.data(), moved.bytes);
  }
}

TEST(Tls, CarriesBytesBothWays) {
  const test::Authority authority("authority");
  Pair pair(server_context(authority.server()), client_context(authority.pem()));
  ASSERT_TRUE(pair.shake_hands()) << pair.client->why();
  EXPECT_EQ(pair.client->write("question", 8).bytes, 8U);
  EXPECT_EQ(read_all(*pair.server), "question");
  EXPECT_EQ(pair.server->write("answer", 6).bytes, 6U);
  EXPECT_EQ(read_all(*pair.client), "answer");
  pair.client->say_goodbye();
  std::array<char, 16 << 10> buffer;
  EXPECT_EQ(pair.server->read(buffer.data(), buffer.size()).status, Status::closed);
}

// A megabyte does not fit into a socket: what does not is sent when the other side has read, from where it stopped.
TEST(Tls, GoesOnWhereAFullSocketStoppedIt) {
  const test::Authority authority("authority");
  Pair pair(server_context(authority.server()), client_context(authority.pem()));
  ASSERT_TRUE(pair.shake_hands());
  std::string sent(1 << 20, 'x');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>('a' + i % 23);
  std::string got;
  std::size_t at = 0;
  bool stopped = false;
  while (at < sent.size()) {
    const auto moved = pair.client->write(sent.data() + at, sent.size() - at);
    at += moved.bytes;
    if (moved.status == Status::done) continue;
    ASSERT_EQ(moved.status, Status::want_write);
    stopped = true;
    got += read_all(*pair.server);
  }
  got += read_all(*pair.server);
  EXPECT_TRUE(stopped);
  EXPECT_EQ(got, sent);
}

TEST(Tls, RefusesAServerThatAnotherAuthoritySigned) {
  const test::Authority right("right");
  const test::Authority wrong("wrong");
  Pair pair(server_context(wrong.server()), client_context(right.pem()));
  EXPECT_FALSE(pair.shake_hands());
  EXPECT_THAT(pair.client->why(), HasSubstr("certificate verify failed"));
}

TEST(Tls, RefusesAServerOfAnotherName) {
  const test::Authority authority("authority");
  const auto server = server_context(authority.issue("other", "DNS:other.example"));
  Pair by_name(server, client_context(authority.pem()), "localhost");
  EXPECT_FALSE(by_name.shake_hands());
  EXPECT_THAT(by_name.client->why(), HasSubstr("hostname mismatch"));
  Pair by_address(server, client_context(authority.pem()), "127.0.0.1");
  EXPECT_FALSE(by_address.shake_hands());
  EXPECT_THAT(by_address.client->why(), HasSubstr("IP address mismatch"));
  Pair right(server, client_context(authority.pem()), "other.example");
  EXPECT_TRUE(right.shake_hands());
}

// It held until a minute ago.
TEST(Tls, RefusesAServerWhoseCertificateHasExpired) {
  const test::Authority authority("authority");
  Pair pair(server_context(authority.server({.from_s = -3600, .until_s = -60})), client_context(authority.pem()));
  EXPECT_FALSE(pair.shake_hands());
  EXPECT_THAT(pair.client->why(), HasSubstr("expired"));
}

TEST(Tls, KnowsAClientByTheNamesOfItsCertificate) {
  const test::Authority authority("authority");
  const auto server = server_context(asking_for(authority.pem(), authority.server()));
  Pair pair(server, client_context(authority.pem(), authority.issue("search", "DNS:search.example,IP:10.0.0.1")));
  ASSERT_TRUE(pair.shake_hands()) << pair.server->why();
  EXPECT_THAT(pair.server->peer_names(), ElementsAre("search", "search.example"));
}

TEST(Tls, RefusesClientsWithoutACertificateOrWithAForeignOne) {
  const test::Authority authority("authority");
  const test::Authority foreign("foreign");
  const auto server = server_context(asking_for(authority.pem(), authority.server()));
  Pair without(server, client_context(authority.pem()));
  EXPECT_FALSE(without.shake_hands());
  EXPECT_THAT(without.server->why(), HasSubstr("peer did not return a certificate"));
  EXPECT_TRUE(without.server->peer_names().empty());
  Pair other(server, client_context(authority.pem(), foreign.issue("search")));
  EXPECT_FALSE(other.shake_hands());
  EXPECT_THAT(other.server->why(), HasSubstr("certificate verify failed"));
  EXPECT_TRUE(other.server->peer_names().empty());
  Pair old(server, client_context(authority.pem(), authority.issue("search", "", {.from_s = -3600, .until_s = -60})));
  EXPECT_FALSE(old.shake_hands());
  EXPECT_THAT(old.server->why(), HasSubstr("expired"));
}

TEST(Tls, SaysThatPlainHttpCame) {
  const test::Authority authority("authority");
  Pair pair(server_context(authority.server()), client_context(authority.pem()));
  const std::string plain = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  ASSERT_EQ(send(pair.sockets[1], plain.data(), plain.size(), 0), static_cast<ssize_t>(plain.size()));
  EXPECT_EQ(pair.server->shake_hands().status, Status::failed);
  EXPECT_TRUE(pair.server->spoke_plain_http());
}

TEST(Tls, FailsOnRubbishAndOnASilentEnd) {
  const test::Authority authority("authority");
  Pair rubbish(server_context(authority.server()), client_context(authority.pem()));
  const std::string bytes(300, '\x7f');
  ASSERT_GT(send(rubbish.sockets[1], bytes.data(), bytes.size(), 0), 0);
  EXPECT_EQ(rubbish.server->shake_hands().status, Status::failed);
  EXPECT_FALSE(rubbish.server->spoke_plain_http());
  Pair gone(server_context(authority.server()), client_context(authority.pem()));
  shutdown(gone.sockets[1], SHUT_RDWR);
  const auto status = gone.server->shake_hands().status;
  EXPECT_TRUE(status == Status::failed || status == Status::closed);
}

TEST(Tls, SaysWhichOfItsFilesCannotBeUsed) {
  const test::Authority authority("authority");
  const TlsMaterial good = authority.server();
  const auto problem = [](const TlsMaterial& material) {
    const auto made = TlsContext::for_server(material);
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(problem(good), "");
  EXPECT_THAT(problem({"", good.key, ""}), HasSubstr("the certificate cannot be used"));
  EXPECT_THAT(problem({"", good.key, "", "server.pem", "server.key", "ca.pem"}),
              testing::StartsWith("server.pem: the certificate cannot be used"));
  EXPECT_THAT(problem({good.certificate, "rubbish", "", "server.pem", "server.key", "ca.pem"}),
              testing::StartsWith("server.key: the private key cannot be used"));
  EXPECT_THAT(problem({good.certificate, good.key, "rubbish", "server.pem", "server.key", "ca.pem"}),
              testing::StartsWith("ca.pem: the file of authorities has no certificate"));
  EXPECT_THAT(problem({good.certificate, "rubbish", ""}), HasSubstr("the private key cannot be used"));
  EXPECT_THAT(problem({good.certificate, authority.server().key, ""}), HasSubstr("private key"));
  EXPECT_THAT(problem({good.certificate, good.key, "rubbish"}),
              HasSubstr("the file of authorities has no certificate"));
}

// SHA-256 of "abc", from FIPS 180-4.
TEST(Tls, HashesAsTheStandardSays) {
  std::array<std::uint8_t, 32> digest{};
  sha256("a", "bc", digest.data());
  const std::array<std::uint8_t, 8> begin{0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea};
  EXPECT_TRUE(std::equal(begin.begin(), begin.end(), digest.begin()));
  EXPECT_TRUE(equal_in_constant_time("same", "same", 4));
  EXPECT_FALSE(equal_in_constant_time("same", "some", 4));
}

}  // namespace
}  // namespace tangram::host
