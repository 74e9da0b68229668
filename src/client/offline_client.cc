#include "client/offline_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/text.h"

namespace tangram::client {
namespace {

constexpr std::size_t kRowPiece = 64 << 10;
constexpr std::size_t kRowAnswerMax = std::size_t{256} << 20;

// What is known of an answer once its head is there.
struct RowHead {
  int status = 0;
  std::size_t begin = 0;  // Of the body.
  std::size_t end = 0;
  bool keep_alive = true;
  bool binary = false;
  Duration retry_after{};
};

// Reads the head at the beginning of `bytes`. False: not one that we understand. Nothing: more must come.
std::optional<bool> read_row_head(std::string_view bytes, RowHead& head) {
  const auto end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  if (!bytes.starts_with("HTTP/1.") || bytes.size() < 12) return false;
  if (std::from_chars(bytes.data() + 9, bytes.data() + 12, head.status).ec != std::errc{}) return false;
  std::int64_t length = 0;
  for (const auto line : text::split(bytes.substr(0, end), '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string name = text::lower(line.substr(0, colon));
    const auto value = text::trim(line.substr(colon + 1));
    if (name == "content-length") length = text::parse_integer(value).value_or(-1);
    if (name == "transfer-encoding") return false;  // No server of the protocol sends chunks.
    if (name == "connection" && text::lower(value) == "close") head.keep_alive = false;
    if (name == "inference-header-content-length") head.binary = true;
    if (name == "retry-after") head.retry_after = from_seconds(text::parse_number(value).value_or(0));
  }
  if (length < 0 || static_cast<std::size_t>(length) > kRowAnswerMax) return false;
  head.begin = end + 4;
  head.end = head.begin + static_cast<std::size_t>(length);
  return true;
}

}  // namespace

struct RowClient::Connection {
  int descriptor = -1;  // -1: closed.
  std::unique_ptr<host::TlsStream> tls;
  bool tls_wants_write = false;
  bool busy = false;
  std::uint64_t row = 0;
  std::string out;
  std::size_t sent = 0;
  std::string in;
};

RowClient::RowClient(RowClientConfig config) : config_(std::move(config)) {
  for (const auto& header : config_.headers) headers_ += header + "\r\n";
  if (!config_.key.empty()) headers_ += fmt::format("Authorization: Bearer {}\r\n", config_.key);
}

RowClient::~RowClient() {
  for (const auto& connection : connections_) {
    if (connection->descriptor >= 0) close(connection->descriptor);
  }
}

Result<RowClient::Connection*> RowClient::connect() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(config_.port);
  if (inet_pton(AF_INET, config_.address.c_str(), &address.sin_addr) != 1) {
    return Error{ErrorCode::invalid, fmt::format("{}: expected an address in numbers", config_.address)};
  }
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0 || ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int reason = errno;
    if (descriptor >= 0) close(descriptor);
    return Error{ErrorCode::unavailable,
                 fmt::format("{}:{}: cannot connect: {}", config_.address, config_.port, std::strerror(reason))};
  }
  const int yes = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  auto made = std::make_unique<Connection>();
  made->descriptor = descriptor;
  if (config_.tls != nullptr) {
    const std::string& name = config_.server_name.empty() ? config_.address : config_.server_name;
    made->tls = host::TlsStream::connect(config_.tls, descriptor, name);
  }
  connections_.push_back(std::move(made));
  return connections_.back().get();
}

Result<Nothing> RowClient::send(std::uint64_t row, std::string_view body, std::string_view header) {
  std::erase_if(connections_, [](const auto& connection) { return connection->descriptor < 0; });
  Connection* free = nullptr;
  for (const auto& connection : connections_) {
    if (!connection->busy) free = connection.get();
  }
  if (free == nullptr) {
    auto made = connect();
    if (!made) return made.error();
    free = *made;
  }
  free->out =
      fmt::format("POST {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}",
                  config_.path, config_.address, config_.port, body.size(), headers_);
  if (!header.empty()) free->out.append(header).append("\r\n");
  free->out.append("\r\n").append(body);
  free->sent = 0;
  free->in.clear();
  free->row = row;
  free->busy = true;
  ++under_way_;
  write(*free);
  return Nothing{};
}

std::vector<RowAnswer> RowClient::wait(Duration limit) {
  if (answers_.empty()) {
    std::vector<pollfd> waits;
    for (const auto& c : connections_) {
      const bool writes = c->tls_wants_write || (c->tls == nullptr && c->busy && c->sent < c->out.size());
      const short events = writes ? POLLIN | POLLOUT : POLLIN;
      waits.push_back({c->descriptor, events, 0});  // Descriptors below zero are passed over.
    }
    const auto ms = static_cast<int>(limit / std::chrono::milliseconds(1));
    if (poll(waits.data(), waits.size(), ms) > 0) {
      for (std::size_t i = 0; i < waits.size(); ++i) {
        Connection& connection = *connections_[i];
        // An encrypted stream may have to read before it can write.
        if ((waits[i].revents & POLLOUT) != 0 || (connection.tls != nullptr && waits[i].revents != 0))
          write(connection);
        if ((waits[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && connection.descriptor >= 0) read(connection);
      }
    }
  }
  return std::exchange(answers_, {});
}

ssize_t RowClient::send_some(Connection& connection, std::string_view bytes) {
  if (connection.tls == nullptr) {
    return ::send(connection.descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  const host::TlsStream::Moved moved = connection.tls->write(bytes.data(), bytes.size());
  connection.tls_wants_write = moved.status == host::TlsStream::Status::want_write;
  return host::bytes_moved(moved);
}

ssize_t RowClient::receive_some(Connection& connection, char* buffer, std::size_t room) {
  if (connection.tls == nullptr) return recv(connection.descriptor, buffer, room, MSG_DONTWAIT);
  const host::TlsStream::Moved moved = connection.tls->read(buffer, room);
  connection.tls_wants_write = moved.status == host::TlsStream::Status::want_write;
  return host::bytes_moved(moved);
}

void RowClient::write(Connection& connection) {
  while (connection.sent < connection.out.size()) {
    const ssize_t sent = send_some(connection, std::string_view(connection.out).substr(connection.sent));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) return lose(connection, why_broken(connection));
    connection.sent += static_cast<std::size_t>(sent);
  }
}

void RowClient::read(Connection& connection) {
  while (true) {
    const std::size_t before = connection.in.size();
    connection.in.resize(before + kRowPiece);
    const ssize_t got = receive_some(connection, connection.in.data() + before, kRowPiece);
    connection.in.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0 || !connection.busy) return lose(connection, why_broken(connection));
    RowHead head;
    const auto understood = read_row_head(connection.in, head);
    if (!understood) continue;
    if (!*understood) return lose(connection, "not an answer of HTTP/1.1");
    if (connection.in.size() < head.end) continue;
    return finish(connection,
                  {connection.row, head.status, connection.in.substr(head.begin, head.end - head.begin),
                   head.retry_after, head.binary},
                  head.keep_alive);
  }
}

void RowClient::finish(Connection& connection, RowAnswer answer, bool keep) {
  answers_.push_back(std::move(answer));
  connection.busy = false;
  --under_way_;
  if (keep) return;
  close(connection.descriptor);
  connection.descriptor = -1;
}

std::string RowClient::why_broken(const Connection& connection) {
  const bool told = connection.tls != nullptr && !connection.tls->why().empty();
  return told ? connection.tls->why() : "the connection was closed";
}

void RowClient::lose(Connection& connection, std::string_view reason) {
  if (connection.busy) return finish(connection, {connection.row, 0, std::string(reason)}, false);
  close(connection.descriptor);
  connection.descriptor = -1;
}

}  // namespace tangram::client
