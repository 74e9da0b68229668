#include "client/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "client/test_listener.h"
#include "host/test_certificates.h"

namespace tangram::client {
namespace {

using namespace std::chrono_literals;
using Status = Stream::Status;

// Whatever the family, what one side says the other hears.
void expect_talk(const host::Endpoint& place) {
  const test::Listener listener(place);
  if (!listener.open()) GTEST_SKIP() << "no such family here";
  Stream stream;
  const auto opened = stream.open({listener.endpoint()}, StreamWaiting::always, 30s);
  ASSERT_TRUE(opened) << opened.error().message;
  const test::Peer peer = listener.accept();
  EXPECT_EQ(stream.send_some("hello").bytes, 5U);
  EXPECT_EQ(peer.hear(5), "hello");
  peer.say("you");
  std::array<char, 16> buffer{};
  EXPECT_EQ(stream.receive_some(buffer.data(), buffer.size()).bytes, 3U);
  EXPECT_STREQ(buffer.data(), "you");
}

TEST(Stream, TalksOverIpv4) { expect_talk({.address = "127.0.0.1"}); }
TEST(Stream, TalksOverIpv6) { expect_talk({.address = "::1"}); }
TEST(Stream, TalksOverAUnixSocket) {
  const std::string path = testing::TempDir() + "stream_" + std::to_string(getpid());
  expect_talk({.socket_path = path});
  std::filesystem::remove(path);
}

TEST(Stream, SaysWhyItCannotBeOpened) {
  Stream stream;
  const auto name = stream.open({{.address = "tangram.invalid", .port = 1}}, StreamWaiting::always, 1s);
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, ErrorCode::invalid);
  // Resolving it would wait.
  const auto waits = stream.open({{.address = "localhost", .port = 1}}, StreamWaiting::never);
  ASSERT_FALSE(waits);
  EXPECT_EQ(waits.error().code, ErrorCode::invalid);
  host::Endpoint free_port;
  {
    const test::Listener listener;
    free_port = listener.endpoint();
  }
  const auto refused = stream.open({free_port}, StreamWaiting::always, 1s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  EXPECT_EQ(refused.error().message, "Connection refused");
  EXPECT_FALSE(stream.is_open());
}

// The server's buffers and ours are finite: whoever never waits is told so, and wants the socket to be writable.
TEST(Stream, IsBlockedWhereItMayNotWait) {
  const test::Listener listener;
  Stream stream;
  ASSERT_TRUE(stream.open({listener.endpoint()}, StreamWaiting::never));
  test::wait_for(stream.descriptor(), POLLOUT);
  const test::Peer peer = listener.accept();
  std::array<char, 16> buffer{};
  EXPECT_EQ(stream.receive_some(buffer.data(), buffer.size()).status, Status::blocked);
  EXPECT_FALSE(stream.wants_write(false));
  const std::string much(1 << 20, 'x');
  Stream::Moved moved;
  while (moved.status == Status::moved) moved = stream.send_some(much);
  EXPECT_EQ(moved.status, Status::blocked);
  EXPECT_TRUE(stream.wants_write(true));
}

TEST(Stream, FailsWhereItMayWaitAndItsLimitPasses) {
  const test::Listener listener;
  Stream stream;
  ASSERT_TRUE(stream.open({listener.endpoint()}, StreamWaiting::always, 1ms));
  const test::Peer peer = listener.accept();
  std::array<char, 16> buffer{};
  EXPECT_EQ(stream.receive_some(buffer.data(), buffer.size()).status, Status::failed);
  EXPECT_EQ(stream.why(), std::strerror(EAGAIN));
}

TEST(Stream, TellsTheEndOfTheOtherSideFromAFailure) {
  const test::Listener listener;
  Stream stream;
  ASSERT_TRUE(stream.open({listener.endpoint()}, StreamWaiting::always, 30s));
  test::Peer peer = listener.accept();
  peer.hang_up();
  std::array<char, 16> buffer{};
  EXPECT_EQ(stream.receive_some(buffer.data(), buffer.size()).status, Status::closed);
}

class SecureStream : public testing::Test {
 protected:
  // A server that accepts one connection, echoes what it is told once, and goes.
  void serve_once() {
    thread_ = std::thread([this] {
      const test::Peer peer = listener_.accept();
      const auto tls = host::TlsStream::accept(server_, peer.descriptor());
      tls->set_waiting(true);
      std::vector<char> buffer(16 << 10);
      const auto got = tls->read(buffer.data(), buffer.size());
      if (got.status == host::TlsStream::Status::done) tls->write(buffer.data(), got.bytes);
      tls->say_goodbye();
    });
  }
  ~SecureStream() override {
    if (thread_.joinable()) thread_.join();
  }
  static std::shared_ptr<const host::TlsContext> trusting(const host::test::Authority& authority) {
    return *host::TlsContext::for_client({.certificate = "", .key = "", .authorities = authority.pem()});
  }

  host::test::Authority authority_{"our authority"};
  std::shared_ptr<const host::TlsContext> server_ =
      *host::TlsContext::for_server(authority_.issue("server", "DNS:server.example,IP:127.0.0.1"));
  test::Listener listener_;
  std::thread thread_;
};

TEST_F(SecureStream, TalksToTheServerThatItExpects) {
  serve_once();
  Stream stream;
  ASSERT_TRUE(stream.open({listener_.endpoint(), trusting(authority_), "server.example"}, StreamWaiting::always, 30s));
  const auto secured = stream.shake_hands(30s);
  ASSERT_TRUE(secured) << secured.error().message;
  EXPECT_TRUE(stream.encrypted());
  EXPECT_EQ(stream.send_some("hello").bytes, 5U);
  std::vector<char> buffer(16 << 10);
  EXPECT_EQ(stream.receive_some(buffer.data(), buffer.size()).bytes, 5U);
  EXPECT_EQ(stream.receive_some(buffer.data(), buffer.size()).status, Status::closed);
}

TEST_F(SecureStream, RefusesACertificateOfAnotherNameOrAuthority) {
  const host::test::Authority stranger("another authority");
  struct Case {
    std::shared_ptr<const host::TlsContext> tls;
    std::string name;
  };
  for (const auto& [tls, name] : {Case{trusting(authority_), "other.example"}, Case{trusting(stranger), ""}}) {
    serve_once();
    Stream stream;
    ASSERT_TRUE(stream.open({listener_.endpoint(), tls, name}, StreamWaiting::connecting));
    const auto secured = stream.shake_hands(30s);
    ASSERT_FALSE(secured);
    EXPECT_THAT(secured.error().message, testing::HasSubstr("certificate"));
    EXPECT_EQ(stream.why(), secured.error().message);
    stream.close();
    thread_.join();
  }
}

// A TLS stream waits for the server's hello before it can send a byte of ours: it must not spin on writability.
TEST_F(SecureStream, MayHaveToReadBeforeItCanWrite) {
  Stream stream;
  ASSERT_TRUE(stream.open({listener_.endpoint(), trusting(authority_)}, StreamWaiting::connecting));
  EXPECT_EQ(stream.send_some("hello").status, Status::blocked);
  EXPECT_FALSE(stream.wants_write(true));
  EXPECT_TRUE(stream.may_send(true, false));
}

}  // namespace
}  // namespace tangram::client
