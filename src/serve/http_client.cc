#include "serve/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace tangram::serve {
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
  return {ErrorCode::unavailable,
          fmt::format("{}:{}: {}: {}", question.address, question.port, what, std::strerror(errno))};
}

bool connect_to(const HttpQuestion& question, int descriptor) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(question.port);
  if (inet_pton(AF_INET, question.address.c_str(), &address.sin_addr) != 1) {
    errno = EINVAL;
    return false;
  }
  return connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

Result<HttpAnswer> ask_http(const HttpQuestion& question) {
  const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  timeval limit{};
  limit.tv_sec = question.timeout.count() / 1'000'000'000;
  limit.tv_usec = question.timeout.count() % 1'000'000'000 / 1000;
  setsockopt(socket.descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket.descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (!connect_to(question, socket.descriptor)) return failure(question, "cannot connect");
  const std::string request =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}", question.method,
                  question.path, question.address, question.port, question.body.size(), question.body);
  for (std::string_view rest = request; !rest.empty();) {
    const ssize_t sent = send(socket.descriptor, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return failure(question, "cannot send");
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  // The connection is closed behind the answer, so its end is the end.
  std::string text;
  char buffer[16384];
  while (true) {
    const ssize_t got = recv(socket.descriptor, buffer, sizeof buffer, 0);
    // A call with a time limit is interrupted even by signals that nobody handles, as when a child ends.
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(question, "no answer");
    if (got == 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kAnswerMax) return Error{ErrorCode::exhausted, "the answer is too long"};
  }
  const auto end = text.find("\r\n\r\n");
  HttpAnswer answer;
  const bool status_read = text.starts_with("HTTP/1.1 ") && text.size() > 12 &&
                           std::from_chars(text.data() + 9, text.data() + 12, answer.status).ec == std::errc{};
  if (end == std::string::npos || !status_read) {
    return Error{ErrorCode::unavailable, fmt::format("{}:{}: not an HTTP answer", question.address, question.port)};
  }
  answer.body = text.substr(end + 4);
  return answer;
}

}  // namespace tangram::serve
