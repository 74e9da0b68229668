// Many HTTP connections on one thread. Each has one request under way at most.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <memory>

#include "base/text.h"
#include "client/detail/load_clients.h"

namespace tangram::client {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);
constexpr std::size_t kPiece = 64 << 10;
constexpr std::size_t kLoadAnswerMax = std::size_t{256} << 20;
// How often progress is told and interruptions are asked for where nothing else happens.
constexpr std::chrono::milliseconds kBreath{100};

// What is known of an answer once its head is there.
struct AnswerHead {
  int status = 0;
  std::size_t length = 0;  // Of head and body.
  bool keep_alive = true;
};

// Reads the head at the beginning of `bytes`. False: not a head that we understand. Nothing: more must come.
std::optional<bool> read_head(std::string_view bytes, AnswerHead& head) {
  const auto end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  if (!bytes.starts_with("HTTP/1.") || bytes.size() < 12) return false;
  if (std::from_chars(bytes.data() + 9, bytes.data() + 12, head.status).ec != std::errc{}) return false;
  std::size_t body = 0;
  for (const auto line : text::split(bytes.substr(0, end), '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string name = text::lower(line.substr(0, colon));
    const auto value = text::trim(line.substr(colon + 1));
    if (name == "content-length" &&
        std::from_chars(value.data(), value.data() + value.size(), body).ec != std::errc{}) {
      return false;
    }
    if (name == "transfer-encoding") return false;  // No server of the protocol sends chunks.
    if (name == "connection" && text::lower(value) == "close") head.keep_alive = false;
  }
  head.length = end + 4 + body;
  return head.length <= kLoadAnswerMax;
}

struct Connection {
  int descriptor = -1;
  std::unique_ptr<host::TlsStream> tls;  // Null: plain.
  bool watched_for_writing = false;
  std::size_t request = kNone;  // Under way.
  std::string out;
  std::size_t sent = 0;
  std::string in;
  AnswerHead head;
};

class HttpLoad {
 public:
  explicit HttpLoad(LoadTask& task) : task_(task) {}
  ~HttpLoad() {
    for (const auto& connection : connections_) close(connection->descriptor);
    if (timer_ >= 0) close(timer_);
    if (poll_ >= 0) close(poll_);
  }
  HttpLoad(const HttpLoad&) = delete;
  HttpLoad& operator=(const HttpLoad&) = delete;

  Result<Nothing> run() {
    if (auto opened = open(); !opened) return opened;
    while (!finished()) {
      send_due();
      set_timer();
      wait();
      if (task_.config.progress) task_.config.progress(next_);
    }
    return Nothing{};
  }

 private:
  // The address is tried once, so that a server that is not there is an error and not a table of failures.
  Result<Nothing> open() {
    poll_ = epoll_create1(EPOLL_CLOEXEC);
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(poll_, EPOLL_CTL_ADD, timer_, &event);
    address_.sin_family = AF_INET;
    address_.sin_port = htons(task_.config.http_port);
    if (inet_pton(AF_INET, task_.config.address.c_str(), &address_.sin_addr) != 1) {
      return Error{ErrorCode::invalid, fmt::format("{}: expected an address in numbers", task_.config.address)};
    }
    for (const auto& header : task_.config.headers) headers_ += header + "\r\n";
    if (task_.mine.empty()) return Nothing{};
    if (task_.config.tls) {
      auto made = host::TlsContext::for_client(*task_.config.tls);
      if (!made) return made.error();
      tls_ = std::move(*made);
    }
    Connection* first = connect();
    if (first == nullptr) {
      return Error{ErrorCode::unavailable, fmt::format("{}:{}: {}", task_.config.address, task_.config.http_port,
                                                       why_not_.empty() ? std::strerror(errno) : why_not_)};
    }
    idle_.push_back(first);
    return Nothing{};
  }

  bool finished() {
    if (task_.interrupted()) return true;
    if (next_ < task_.mine.size() || !waiting_.empty()) return false;
    if (under_way_ == 0) return true;
    return LoadClock::now() > last_sent_ + task_.config.answer_timeout;
  }

  // The loopback connects at once, and a far server within a round trip; waiting for it here is the same late start
  // that the request would have anyway.
  Connection* connect() {
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return nullptr;
    if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) != 0) {
      const int problem = errno;
      close(descriptor);
      errno = problem;
      return nullptr;
    }
    const int yes = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    auto connection = std::make_unique<Connection>();
    connection->descriptor = descriptor;
    if (tls_ && !shake_hands(*connection)) {
      connection->tls.reset();
      close(descriptor);
      errno = EPROTO;
      return nullptr;
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = connection.get();
    epoll_ctl(poll_, EPOLL_CTL_ADD, descriptor, &event);
    connections_.push_back(std::move(connection));
    return connections_.back().get();
  }

  // Waited for, too; from then on nothing is.
  bool shake_hands(Connection& connection) {
    const std::string& name = task_.config.server_name;
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(connection.descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    connection.tls = host::TlsStream::connect(tls_, connection.descriptor, name.empty() ? task_.config.address : name);
    connection.tls->set_waiting(true);
    const bool done = connection.tls->shake_hands().status == host::TlsStream::Status::done;
    if (!done) why_not_ = connection.tls->why().empty() ? "no TLS handshake in time" : connection.tls->why();
    connection.tls->set_waiting(false);
    return done;
  }

  // As send() and recv() without waiting, with errno.
  static ssize_t moved(const host::TlsStream::Moved& moved) {
    if (moved.status == host::TlsStream::Status::done) return static_cast<ssize_t>(moved.bytes);
    if (moved.status == host::TlsStream::Status::closed) return 0;
    errno = moved.status == host::TlsStream::Status::failed ? EPROTO : EAGAIN;
    return -1;
  }
  static ssize_t send_some(Connection& connection) {
    const char* bytes = connection.out.data() + connection.sent;
    const std::size_t count = connection.out.size() - connection.sent;
    if (connection.tls) return moved(connection.tls->write(bytes, count));
    return send(connection.descriptor, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  static ssize_t receive_some(Connection& connection, char* buffer, std::size_t room) {
    if (connection.tls) return moved(connection.tls->read(buffer, room));
    return recv(connection.descriptor, buffer, room, MSG_DONTWAIT);
  }

  void send_due() {
    const auto now = LoadClock::now();
    while (next_ < task_.mine.size() && task_.due(task_.mine[next_]) <= now) waiting_.push_back(task_.mine[next_++]);
    while (!waiting_.empty()) {
      Connection* connection = free_connection();
      if (connection == nullptr) return;
      const std::size_t request = waiting_.front();
      waiting_.pop_front();
      begin(*connection, request);
    }
  }

  Connection* free_connection() {
    if (!idle_.empty()) {
      Connection* connection = idle_.back();
      idle_.pop_back();
      return connection;
    }
    if (connections_.size() >= task_.config.connections_max) return nullptr;
    Connection* made = connect();
    if (made == nullptr && under_way_ == 0 && !waiting_.empty()) {
      // Nobody will free one: the server has gone.
      fail(waiting_.front(), std::strerror(errno));
      waiting_.pop_front();
    }
    return made;
  }

  void begin(Connection& connection, std::size_t request) {
    connection.request = request;
    connection.out = message(request);
    connection.sent = 0;
    connection.in.clear();
    ++under_way_;
    task_.answers[request].sent_after = task_.since_due(request);
    task_.answers[request].sent = true;
    last_sent_ = LoadClock::now();
    write(connection);
  }

  // The protocol's binary form: JSON that names the tensors, and their bytes behind it.
  std::string message(std::size_t request) const {
    const LoadRequest& question = task_.requests[request];
    const LoadTarget& target = task_.targets[question.target];
    std::string inputs;
    std::string tensors;
    for (const auto i : sent_inputs(target.signature)) {
      const TensorSpec& spec = target.signature.inputs[i];
      const std::string bytes = task_.tensor(request, i);
      inputs += fmt::format(R"({}{{"name":"{}","datatype":"{}","shape":[{}],"parameters":{{"binary_data_size":{}}}}})",
                            inputs.empty() ? "" : ",", spec.name, to_string(spec.datatype),
                            fmt::join(sent_shape(spec, question), ","), bytes.size());
      tensors += bytes;
    }
    const std::string json =
        fmt::format(R"({{"id":"{}","parameters":{{"binary_data_output":true}},"inputs":[{}]}})", request, inputs);
    return fmt::format(
               "POST /v2/models/{}/infer HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/octet-stream\r\n"
               "Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n{}\r\n",
               target.model, task_.config.address, task_.config.http_port, json.size(), json.size() + tensors.size(),
               headers_) +
           json + tensors;
  }

  void write(Connection& connection) {
    while (connection.sent < connection.out.size()) {
      const ssize_t sent = send_some(connection);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (sent < 0) return lose(connection, "the connection broke");
      connection.sent += static_cast<std::size_t>(sent);
    }
    watch_writing(connection, connection.sent < connection.out.size());
  }

  void watch_writing(Connection& connection, bool wanted) const {
    if (connection.watched_for_writing == wanted) return;
    connection.watched_for_writing = wanted;
    epoll_event event{};
    event.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.ptr = &connection;
    epoll_ctl(poll_, EPOLL_CTL_MOD, connection.descriptor, &event);
  }

  void read(Connection& connection) {
    while (true) {
      const std::size_t before = connection.in.size();
      connection.in.resize(before + kPiece);
      const ssize_t got = receive_some(connection, connection.in.data() + before, kPiece);
      connection.in.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got <= 0) return lose(connection, "the connection was closed");
      if (connection.request == kNone) return lose(connection, "an answer without a question");
      if (connection.head.length == 0) {
        const auto understood = read_head(connection.in, connection.head);
        if (!understood) continue;
        if (!*understood) return lose(connection, "not an answer of HTTP/1.1");
      }
      if (connection.in.size() >= connection.head.length) return answered(connection);
    }
  }

  void answered(Connection& connection) {
    const std::size_t request = connection.request;
    LoadAnswer& answer = task_.answers[request];
    answer.latency = task_.since_due(request);
    const int status = connection.head.status;
    answer.outcome = status == 200 ? LoadOutcome::answered : status == 429 ? LoadOutcome::refused : LoadOutcome::failed;
    if (answer.outcome == LoadOutcome::failed && task_.first_failure.empty()) {
      task_.first_failure = fmt::format("{} {}", status, body_of(connection).substr(0, 300));
    }
    --under_way_;
    const bool keep = connection.head.keep_alive;
    connection.request = kNone;
    connection.head = {};
    if (keep) return idle_.push_back(&connection);
    drop(connection);
  }

  static std::string_view body_of(const Connection& connection) {
    const std::string_view all(connection.in);
    return text::trim(all.substr(std::min(all.size(), all.find("\r\n\r\n") + 4)));
  }

  void fail(std::size_t request, std::string_view reason) {
    task_.answers[request].outcome = LoadOutcome::failed;
    task_.answers[request].sent = true;
    task_.answers[request].latency = task_.since_due(request);
    if (task_.first_failure.empty()) task_.first_failure = reason;
  }

  void lose(Connection& connection, std::string_view reason) {
    if (connection.request != kNone) {
      fail(connection.request, reason);
      --under_way_;
    }
    drop(connection);
  }

  void drop(Connection& connection) {
    std::erase(idle_, &connection);
    if (connection.tls) connection.tls->say_goodbye();
    close(connection.descriptor);
    dropped_.push_back(&connection);
  }

  // Events of one wait may still point at a connection that another of them closed.
  void forget_dropped() {
    std::erase_if(connections_,
                  [&](const auto& connection) { return std::ranges::count(dropped_, connection.get()) > 0; });
    dropped_.clear();
  }

  // Wakes the wait when the next request is due.
  void set_timer() const {
    const auto soon = LoadClock::now() + kBreath;
    const auto due = next_ < task_.mine.size() ? std::min(task_.due(task_.mine[next_]), soon) : soon;
    const auto since = due.time_since_epoch();
    itimerspec when{};
    when.it_value.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(since).count();
    when.it_value.tv_nsec = std::chrono::nanoseconds(since).count() % 1'000'000'000;
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
  }

  void wait() {
    std::array<epoll_event, 256> events{};
    const int count = epoll_wait(poll_, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      auto* connection = static_cast<Connection*>(event.data.ptr);
      if (connection == nullptr) {
        std::uint64_t expirations = 0;
        [[maybe_unused]] const ssize_t got = ::read(timer_, &expirations, sizeof expirations);
        continue;
      }
      if (std::ranges::count(dropped_, connection) > 0) continue;
      if ((event.events & EPOLLOUT) != 0) write(*connection);
      if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && std::ranges::count(dropped_, connection) == 0) {
        read(*connection);
      }
    }
    forget_dropped();
  }

  LoadTask& task_;
  int poll_ = -1;
  int timer_ = -1;
  sockaddr_in address_{};
  std::string headers_;
  std::shared_ptr<const host::TlsContext> tls_;  // Null: plain.
  std::string why_not_;                    // The last handshake failed.
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> idle_;
  std::vector<Connection*> dropped_;
  std::deque<std::size_t> waiting_;  // Due, and no connection was free.
  std::size_t next_ = 0;             // Into task_.mine.
  std::size_t under_way_ = 0;
  LoadClock::time_point last_sent_ = LoadClock::now();
};

}  // namespace

Result<Nothing> run_http_load(LoadTask& task) { return HttpLoad(task).run(); }

}  // namespace tangram::client
