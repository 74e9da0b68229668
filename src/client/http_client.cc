#include "client/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace tangram::client {
namespace {

constexpr std::size_t kAnswerMax = std::size_t{256} << 20;

// Closes the descriptor when it goes.
struct Socket {
  explicit Socket(int fd) : descriptor(fd) {}
  ~Socket() {
    if (descriptor >= 0) close(descriptor);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int descriptor;
};

Error failure(const HttpQuestion& question, const char* what) {
  return {ErrorCode::unavailable, fmt::format("{}: {}: {}", question.place(), what, std::strerror(errno))};
}

// An address in numbers of either family, or a path.
struct PeerAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

bool find_local_peer(const std::string& path, PeerAddress& peer) {
  auto* local = reinterpret_cast<sockaddr_un*>(&peer.storage);
  if (path.size() >= sizeof local->sun_path) return false;
  local->sun_family = AF_UNIX;
  std::memcpy(local->sun_path, path.data(), path.size());
  peer.length = sizeof *local;
  return true;
}

bool find_peer(const HttpQuestion& question, PeerAddress& peer) {
  if (!question.socket_path.empty()) return find_local_peer(question.socket_path, peer);
  auto* v4 = reinterpret_cast<sockaddr_in*>(&peer.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&peer.storage);
  if (inet_pton(AF_INET, question.address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(question.port);
    peer.length = sizeof *v4;
  } else if (inet_pton(AF_INET6, question.address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(question.port);
    peer.length = sizeof *v6;
  }
  return peer.length > 0;
}

void limit_time(int descriptor, Duration timeout) {
  timeval limit{};
  limit.tv_sec = timeout.count() / 1'000'000'000;
  limit.tv_usec = timeout.count() % 1'000'000'000 / 1000;
  setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

// One connection that waits, plain or encrypted.
class ClientConnection {
 public:
  explicit ClientConnection(const HttpQuestion& question) : question_(question) {}

  HttpStage stage() const { return stage_; }

  Result<Nothing> open() {
    PeerAddress peer;
    if (!find_peer(question_, peer)) {
      return Error{ErrorCode::invalid, question_.place() + ": expected an address in numbers"};
    }
    socket_.descriptor = ::socket(peer.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    limit_time(socket_.descriptor, question_.timeout);
    if (connect(socket_.descriptor, reinterpret_cast<const sockaddr*>(&peer.storage), peer.length) != 0) {
      return failure(question_, "cannot connect");
    }
    stage_ = question_.tls == nullptr ? HttpStage::asking : HttpStage::securing;
    if (question_.tls == nullptr) return Nothing{};
    tls_ = host::TlsStream::connect(question_.tls, socket_.descriptor,
                              question_.server_name.empty() ? question_.address : question_.server_name);
    tls_->set_waiting(true);
    if (auto known = checked(tls_->shake_hands(), "cannot connect with TLS"); !known) return known;
    stage_ = HttpStage::asking;
    return Nothing{};
  }

  Result<Nothing> send_all(std::string_view rest) {
    while (!rest.empty()) {
      const auto sent = send_some(rest);
      if (!sent) return sent.error();
      rest.remove_prefix(*sent);
    }
    return Nothing{};
  }

  // How many bytes came; zero at the end.
  Result<std::size_t> receive(char* buffer, std::size_t room) {
    if (tls_ != nullptr) {
      const auto moved = tls_->read(buffer, room);
      if (moved.status == host::TlsStream::Status::closed) return std::size_t{0};
      if (const auto good = checked(moved, "no answer"); !good) return good.error();
      return moved.bytes;
    }
    while (true) {
      const ssize_t got = recv(socket_.descriptor, buffer, room, 0);
      // A call with a time limit is interrupted even by signals that nobody handles, as when a child ends.
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failure(question_, "no answer");
      return static_cast<std::size_t>(got);
    }
  }

 private:
  Result<std::size_t> send_some(std::string_view bytes) {
    if (tls_ != nullptr) {
      const auto moved = tls_->write(bytes.data(), bytes.size());
      if (const auto good = checked(moved, "cannot send"); !good) return good.error();
      return moved.bytes;
    }
    while (true) {
      const ssize_t sent = send(socket_.descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return failure(question_, "cannot send");
      return static_cast<std::size_t>(sent);
    }
  }

  // Where calls wait, wanting the socket means that its time was over.
  Result<Nothing> checked(const host::TlsStream::Moved& moved, const char* what) const {
    if (moved.status == host::TlsStream::Status::done) return Nothing{};
    const bool failed = moved.status == host::TlsStream::Status::failed;
    const std::string why = failed                                      ? tls_->why()
                            : moved.status == host::TlsStream::Status::closed ? "the connection was closed"
                                                                        : "it took too long";
    return Error{ErrorCode::unavailable, fmt::format("{}: {}: {}", question_.place(), what, why)};
  }

  const HttpQuestion& question_;
  HttpStage stage_ = HttpStage::connecting;
  Socket socket_{-1};
  std::unique_ptr<host::TlsStream> tls_;
};

std::string message_of(const HttpQuestion& question) {
  std::string fields = fmt::format("Host: {}\r\nConnection: close\r\n", question.place());
  if (!question.key.empty()) fields += fmt::format("Authorization: Bearer {}\r\n", question.key);
  return fmt::format("{} {} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{}", question.method, question.path, fields,
                     question.body.size(), question.body);
}

Result<HttpAnswer> ask_over(ClientConnection& connection, const HttpQuestion& question) {
  if (const auto opened = connection.open(); !opened) return opened.error();
  if (const auto sent = connection.send_all(message_of(question)); !sent) return sent.error();
  // The connection is closed behind the answer, so its end is the end.
  std::string text;
  std::array<char, 32 << 10> buffer;
  while (true) {
    const auto got = connection.receive(buffer.data(), buffer.size());
    if (!got) return got.error();
    if (*got == 0) break;
    text.append(buffer.data(), *got);
    if (text.size() > kAnswerMax) return Error{ErrorCode::exhausted, "the answer is too long"};
  }
  const auto end = text.find("\r\n\r\n");
  HttpAnswer answer;
  const bool status_read = text.starts_with("HTTP/1.1 ") && text.size() > 12 &&
                           std::from_chars(text.data() + 9, text.data() + 12, answer.status).ec == std::errc{};
  if (end == std::string::npos || !status_read) {
    return Error{ErrorCode::unavailable, question.place() + ": not an HTTP answer"};
  }
  answer.body = text.substr(end + 4);
  answer.head = text.substr(0, end + 2);
  return answer;
}

}  // namespace

std::string HttpQuestion::place() const {
  if (!socket_path.empty()) return socket_path;
  const bool v6 = address.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", address, v6 ? "]" : "", port);
}

Result<HttpAnswer> ask_http(const HttpQuestion& question, HttpStage* reached) {
  ClientConnection connection(question);
  auto answer = ask_over(connection, question);
  if (reached != nullptr) *reached = connection.stage();
  return answer;
}

}  // namespace tangram::client
