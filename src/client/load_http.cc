// The open-loop HTTP load: many connections on one thread, each with at most one request under way.
//
// A request is sent when it is due, whether or not earlier ones are answered, and its latency counts from that instant.
// A closed loop would slow down with the server and hide its queueing delay ("coordinated omission").
//
// Invariant: a connection is idle (in idle_), busy (request != kNone), or dropped (in dropped_ until the wait ends).

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "base/text.h"
#include "client/detail/load_clients.h"
#include "client/http_connection.h"
#include "client/infer_message.h"
#include "host/descriptor.h"
#include "host/resolve.h"

namespace tangram::client {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);
constexpr std::chrono::seconds kHandshakeLimit{10};
// The longest wait without a progress report and a check for interruption.
constexpr std::chrono::milliseconds kBreath{100};

struct Connection {
  HttpConnection http;
  bool watched_for_writing = false;
  std::size_t request = kNone;  // Under way.
};

class HttpLoad {
 public:
  explicit HttpLoad(LoadTask& task) : task_(task) {}

  Result<Nothing> run() {
    TANGRAM_RETURN_IF_ERROR(open());
    while (!finished()) {
      send_due();
      set_timer();
      wait();
      if (task_.config.progress) task_.config.progress(next_);
    }
    return Nothing{};
  }

 private:
  // Tries the address once, so that an absent server is one error and not a table of failed requests.
  Result<Nothing> open() {
    const LoadConfig& config = task_.config;
    poll_.reset(epoll_create1(EPOLL_CLOEXEC));
    timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(poll_.get(), EPOLL_CTL_ADD, timer_.get(), &event);
    target_.endpoint = {config.address, config.http_port};
    target_.server_name = config.server_name;
    // The same for every request, so they are formatted once.
    fields_ = fmt::format("Host: {}\r\n", target_.endpoint.text());
    for (const auto& header : config.headers) fields_ += header + "\r\n";
    if (task_.mine.empty()) return Nothing{};
    if (config.tls) {
      TANGRAM_TRY(auto made, host::TlsContext::for_client(*config.tls));
      target_.tls = std::move(made);
    }
    auto first = connect_first();
    if (!first) {
      return Error{ErrorCode::unavailable, fmt::format("{}: {}", target_.endpoint.text(), first.error().message)};
    }
    idle_.push_back(*first);
    return Nothing{};
  }

  // Chooses the address that answers, so that no connection during the load asks the resolver.
  Result<Connection*> connect_first() {
    const LoadConfig& config = task_.config;
    TANGRAM_TRY(const auto addresses, host::addresses_of(config.address));
    if (target_.server_name.empty() && addresses.front() != config.address) target_.server_name = config.address;
    for (const auto& address : addresses) {
      target_.endpoint.address = address;
      auto connection = connect();
      if (connection || address == addresses.back()) return connection;
    }
    return Error{ErrorCode::unavailable, "no address"};  // There is at least one.
  }

  bool finished() {
    if (task_.interrupted()) return true;
    if (next_ < task_.mine.size() || !waiting_.empty()) return false;
    // A server that never answers must not keep the run open: the timeout counts from the last request sent.
    if (under_way_ == 0) return true;
    return LoadClock::now() > last_sent_ + task_.config.answer_timeout;
  }

  // Blocks for the connection. The loopback connects at once and a remote server within a round trip, a delay that
  // the request would have in any case.
  Result<Connection*> connect() {
    // epoll events carry a pointer to the connection, so it must not move.
    auto connection = std::make_unique<Connection>();
    Stream& stream = connection->http.stream();
    TANGRAM_RETURN_IF_ERROR(stream.open(target_, StreamWaiting::connecting));
    TANGRAM_RETURN_IF_ERROR(stream.shake_hands(kHandshakeLimit));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = connection.get();
    epoll_ctl(poll_.get(), EPOLL_CTL_ADD, stream.descriptor(), &event);
    connections_.push_back(std::move(connection));
    return connections_.back().get();
  }

  void send_due() {
    const auto now = LoadClock::now();
    // Requires task_.mine in due order: the first request that is not due ends the search.
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
    // A failure to connect is not an error while others are under way: one of them will become free.
    const auto made = connect();
    if (made) return *made;
    if (under_way_ == 0 && !waiting_.empty()) {
      // No connection is left that could become free: the server has gone.
      fail(waiting_.front(), made.error().message);
      waiting_.pop_front();
    }
    return nullptr;
  }

  void begin(Connection& connection, std::size_t request) {
    connection.request = request;
    connection.http.begin(message(request));
    ++under_way_;
    task_.answers[request].sent_after = task_.since_due(request);
    task_.answers[request].sent = true;
    last_sent_ = LoadClock::now();
    take(connection, connection.http.write(), "the connection broke");
  }

  std::string message(std::size_t request) const {
    const LoadRequest& question = task_.requests[request];
    const LoadTarget& target = task_.targets[question.target];
    const std::string id = std::to_string(request);
    InferRequest asked{.model = target.model, .id = id};
    const auto sent = sent_inputs(target.signature);
    std::vector<std::string> tensors;
    for (const auto i : sent) tensors.push_back(task_.tensor(request, i));
    for (std::size_t k = 0; k < sent.size(); ++k) {
      const TensorSpec& spec = target.signature.inputs[sent[k]];
      asked.inputs.push_back(
          {spec.name, spec.datatype, batched_shape(spec, question.samples, question.size), tensors[k]});
    }
    return write_infer_request(asked, fields_);
  }

  // Handles one event of a connection. `if_lost` is the failure reason of its request if the connection is lost.
  void take(Connection& connection, HttpConnection::Event event, std::string_view if_lost) {
    switch (event) {
      case HttpConnection::Event::none: return watch_writing(connection, connection.http.wants_write());
      case HttpConnection::Event::answered: return answered(connection);
      case HttpConnection::Event::garbled: return lose(connection, "not an HTTP/1.1 response");
      case HttpConnection::Event::ended:
      case HttpConnection::Event::lost: return lose(connection, if_lost);
    }
  }

  // EPOLLOUT is on only while output is left; a level-triggered epoll would otherwise report it at every wait.
  void watch_writing(Connection& connection, bool wanted) const {
    if (connection.watched_for_writing == wanted) return;
    connection.watched_for_writing = wanted;
    epoll_event event{};
    event.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.ptr = &connection;
    epoll_ctl(poll_.get(), EPOLL_CTL_MOD, connection.http.stream().descriptor(), &event);
  }

  void answered(Connection& connection) {
    const std::size_t request = connection.request;
    const HttpAnswerReader& told = connection.http.answer();
    LoadAnswer& answer = task_.answers[request];
    answer.latency = task_.since_due(request);
    const int status = told.status();
    // 429 is a deliberate rejection, which a server under overload should give. Any other status but 200 is a failure.
    answer.outcome = status == 200 ? LoadOutcome::answered : status == 429 ? LoadOutcome::refused : LoadOutcome::failed;
    if (answer.outcome == LoadOutcome::failed && task_.first_failure.empty()) {
      task_.first_failure = fmt::format("{} {}", status, text::trim(told.body()).substr(0, 300));
    }
    --under_way_;
    connection.request = kNone;
    if (!told.keep_alive()) return drop(connection);
    watch_writing(connection, connection.http.wants_write());
    idle_.push_back(&connection);
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

  // Closes the connection but keeps the object until the events of this wait are handled.
  void drop(Connection& connection) {
    std::erase(idle_, &connection);
    connection.http.stream().close();
    dropped_.push_back(&connection);
  }

  // Frees the dropped connections. Requires that no event of the current wait is left to handle.
  void forget_dropped() {
    std::erase_if(connections_,
                  [&](const auto& connection) { return std::ranges::count(dropped_, connection.get()) > 0; });
    dropped_.clear();
  }

  // Wakes the wait when the next request is due. A timerfd, because the timeout of epoll_wait is in whole milliseconds
  // and would delay requests by up to one.
  void set_timer() const {
    const auto soon = LoadClock::now() + kBreath;
    const auto due = next_ < task_.mine.size() ? std::min(task_.due(task_.mine[next_]), soon) : soon;
    const auto since = due.time_since_epoch();
    itimerspec when{};
    when.it_value.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(since).count();
    when.it_value.tv_nsec = std::chrono::nanoseconds(since).count() % 1'000'000'000;
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  }

  void wait() {
    std::array<epoll_event, 256> events{};
    const int count = epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      auto* connection = static_cast<Connection*>(event.data.ptr);
      if (connection == nullptr) {
        std::uint64_t expirations = 0;
        [[maybe_unused]] const ssize_t got = ::read(timer_.get(), &expirations, sizeof expirations);
        continue;
      }
      // An earlier event of this wait has closed it.
      if (std::ranges::count(dropped_, connection) > 0) continue;
      const bool readable = (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
      take(*connection, connection->http.on_ready(readable, (event.events & EPOLLOUT) != 0),
           "the connection was closed");
    }
    forget_dropped();
  }

  LoadTask& task_;
  host::Descriptor poll_;
  host::Descriptor timer_;
  StreamTarget target_;
  std::string fields_;  // Of the head of every request.
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
