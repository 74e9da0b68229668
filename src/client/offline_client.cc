// Sends rows over as many keep-alive connections as there are rows under way, on one thread with poll(2).
//
// Invariant: every row that send() accepts comes back from wait() once, with status 0 if its connection broke.
#include "client/offline_client.h"

#include <fmt/format.h>
#include <poll.h>

#include <utility>

namespace tangram::client {

struct RowClient::Connection {
  HttpConnection http;
  std::uint64_t row = 0;  // Of the request under way.
};

RowClient::RowClient(RowClientConfig config)
    : config_(std::move(config)), target_{{config_.address, config_.port}, config_.tls, config_.server_name} {
  headers_ = fmt::format("Host: {}\r\n", target_.endpoint.text());
  for (const auto& header : config_.headers) headers_ += header + "\r\n";
  if (!config_.key.empty()) headers_ += fmt::format("Authorization: Bearer {}\r\n", config_.key);
}

RowClient::~RowClient() = default;

// Returns an idle connection, or opens one. Closed connections are removed only here: wait() indexes the list while
// answers close some of them.
Result<RowClient::Connection*> RowClient::free_connection() {
  std::erase_if(connections_, [](const auto& connection) { return !connection->http.stream().is_open(); });
  for (const auto& connection : connections_) {
    if (!connection->http.busy()) return connection.get();
  }
  auto made = std::make_unique<Connection>();
  // Connecting may block: a job without a server has nothing else to do.
  const auto opened = made->http.stream().open(target_, StreamWaiting::connecting);
  if (!opened && opened.error().code == ErrorCode::invalid) {
    return Error{ErrorCode::invalid, fmt::format("{}: {}", config_.address, opened.error().message)};
  }
  if (!opened) {
    return Error{ErrorCode::unavailable,
                 fmt::format("{}: cannot connect: {}", target_.endpoint.text(), opened.error().message)};
  }
  connections_.push_back(std::move(made));
  return connections_.back().get();
}

Result<Nothing> RowClient::send(std::uint64_t row, std::string_view body, std::string_view header) {
  TANGRAM_TRY(const auto found, free_connection());
  Connection& connection = *found;
  std::string request = fmt::format("POST {} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}",
                                    config_.path, body.size(), headers_);
  if (!header.empty()) request.append(header).append("\r\n");
  request.append("\r\n").append(body);
  connection.row = row;
  ++under_way_;
  connection.http.begin(std::move(request));
  // A loss is reported as an answer with status 0, by the next wait(): the row is sent again like any other.
  take(connection, connection.http.write());
  return Nothing{};
}

std::vector<RowAnswer> RowClient::wait(Duration limit) {
  // send() may have lost a connection already; its row must not wait for poll.
  if (!answers_.empty()) return std::exchange(answers_, {});
  std::vector<pollfd> waits;
  for (const auto& connection : connections_) {
    const short events = connection->http.wants_write() ? POLLIN | POLLOUT : POLLIN;
    waits.push_back({connection->http.stream().descriptor(), events, 0});  // poll(2) skips negative descriptors.
  }
  const auto ms = static_cast<int>(limit / std::chrono::milliseconds(1));
  if (poll(waits.data(), waits.size(), ms) > 0) {
    for (std::size_t i = 0; i < waits.size(); ++i) {
      const short ready = waits[i].revents;
      if (ready == 0) continue;
      Connection& connection = *connections_[i];
      take(connection, connection.http.on_ready((ready & (POLLIN | POLLHUP | POLLERR)) != 0, (ready & POLLOUT) != 0));
    }
  }
  return std::exchange(answers_, {});
}

void RowClient::take(Connection& connection, HttpConnection::Event event) {
  HttpConnection& http = connection.http;
  switch (event) {
    case HttpConnection::Event::none: return;
    // An idle connection has ended; no row was on it.
    case HttpConnection::Event::ended: return http.stream().close();
    case HttpConnection::Event::answered: {
      const HttpAnswerReader& answer = http.answer();
      const Duration retry_after = answer.retry_after().value_or(Duration::zero());
      const bool binary = answer.json_length().has_value();
      return finish(connection, {connection.row, answer.status(), http.take_body(), retry_after, binary},
                    answer.keep_alive());
    }
    case HttpConnection::Event::garbled:
      return finish(connection, {connection.row, 0, "not an HTTP/1.1 response"}, false);
    case HttpConnection::Event::lost: break;
  }
  // TLS gives a reason, for example an untrusted certificate; a plain connection just ends.
  const bool told = http.stream().encrypted() && !http.stream().why().empty();
  finish(connection, {connection.row, 0, told ? http.stream().why() : "the connection was closed"}, false);
}

void RowClient::finish(Connection& connection, RowAnswer answer, bool keep) {
  answers_.push_back(std::move(answer));
  --under_way_;
  if (!keep) connection.http.stream().close();
}

}  // namespace tangram::client
