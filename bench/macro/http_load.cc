// Open-loop load over HTTP, which counts every answer.
//
//   http_load PORT [model=NAME] [tensor=NAME:INT64] [rate=R] [seconds=S] [connections=C] [seed=N] [deadline_ms=D]
//             [median=M] [sigma=S] [size_max=X] [closed=1] [exact=0] [path=/v2/health/live]
//
// Requests come as a Poisson process whatever the server does, each on a connection of its own while it is under way,
// so that a slow server is not spared. Sizes are log-normal; a question of one size is always the same, and so must its
// answer be, to the byte unless `exact` is 0, to its length then. `closed` sends the next request of a connection when
// the last is answered, to find what the server can do. `path` asks that address with the same bytes instead, which
// costs the server everything but the inference.
//
// Prints one line of JSON. Ends with 1 if an answer is missing, came twice, or is not the one to the question.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/quantile_sketch.h"
#include "base/rng.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPatience = 30s;  // After the last request, for the answers that are missing.

struct Options {
  int port = 0;
  std::string model = "m";
  std::string tensor = "INPUT";
  bool int64 = false;
  double rate = 100;
  double seconds = 5;
  std::size_t connections = 512;
  std::uint64_t seed = 1;
  double deadline_ms = 0;
  double median = 64;
  double sigma = 0;
  std::int64_t size_max = 1 << 20;
  bool closed = false;
  bool exact = true;
  std::string path;
};

Options parse(int argc, char** argv) {
  Options o;
  if (argc < 2) {
    std::fputs("http_load PORT [key=value]...: see the head of its source\n", stderr);
    std::exit(2);
  }
  o.port = std::atoi(argv[1]);
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto at = word.find('=');
    const std::string_view key = word.substr(0, at);
    const std::string value(at == std::string_view::npos ? "" : word.substr(at + 1));
    if (key == "model")
      o.model = value;
    else if (key == "tensor") {
      o.tensor = value.substr(0, value.find(':'));
      o.int64 = value.ends_with(":INT64");
    } else if (key == "rate")
      o.rate = std::atof(value.c_str());
    else if (key == "seconds")
      o.seconds = std::atof(value.c_str());
    else if (key == "connections")
      o.connections = static_cast<std::size_t>(std::atol(value.c_str()));
    else if (key == "seed")
      o.seed = static_cast<std::uint64_t>(std::atoll(value.c_str()));
    else if (key == "deadline_ms")
      o.deadline_ms = std::atof(value.c_str());
    else if (key == "median")
      o.median = std::atof(value.c_str());
    else if (key == "sigma")
      o.sigma = std::atof(value.c_str());
    else if (key == "size_max")
      o.size_max = std::atoll(value.c_str());
    else if (key == "closed")
      o.closed = value == "1";
    else if (key == "exact")
      o.exact = value != "0";
    else if (key == "path")
      o.path = value;
    else {
      std::fprintf(stderr, "http_load: what is '%s'?\n", argv[i]);
      std::exit(2);
    }
  }
  return o;
}

struct Connection {
  int socket = -1;
  bool busy = false;
  std::uint64_t id = 0;
  std::int64_t size = 0;
  Clock::time_point asked;
  std::string out;
  std::size_t out_at = 0;
  std::string in;
};

struct Counts {
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;
  std::uint64_t lost = 0;      // The connection ended without an answer.
  std::uint64_t twice = 0;     // Something came that nobody had asked for.
  std::uint64_t wrong = 0;     // Another id, or other bytes than the same question got before.
  std::uint64_t not_sent = 0;  // No connection was free: the load, not the server, is at its limit.
  std::map<int, std::uint64_t> by_status;
  std::map<std::string, std::uint64_t> reasons;  // Of 500s.
};

class Load {
 public:
  explicit Load(const Options& options)
      : o_(options), rng_(options.seed), arrivals_(rng_.stream("arrivals")), sizes_(rng_.stream("sizes")) {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
  }

  int run() {
    prctl(PR_SET_TIMERSLACK, 1);
    begin_ = Clock::now();
    const auto end = begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(o_.seconds));
    next_ = begin_;
    if (o_.closed) {
      for (std::size_t i = 0; i < o_.connections; ++i) ask();
    }
    while (Clock::now() < end) {
      while (!o_.closed && next_ <= Clock::now() && next_ < end) {
        ask();
        schedule();
      }
      wait(o_.closed ? end : std::min(next_, end));
    }
    ended_ = true;
    const double took = std::chrono::duration<double>(Clock::now() - begin_).count();
    const std::uint64_t in_time = counts_.answered;
    while (busy_ > 0 && Clock::now() < end + kPatience) wait(end + kPatience);
    counts_.lost += busy_;
    print(static_cast<double>(in_time) / took);
    return counts_.lost + counts_.twice + counts_.wrong > 0 ? 1 : 0;
  }

 private:
  void schedule() {
    const double gap = arrivals_.exponential(1 / o_.rate);
    next_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(gap));
  }

  std::int64_t draw_size() {
    if (o_.sigma == 0) return static_cast<std::int64_t>(o_.median);
    const double size = sizes_.log_normal(std::log(o_.median), o_.sigma);
    return std::clamp(static_cast<std::int64_t>(std::lround(size)), std::int64_t{1}, o_.size_max);
  }

  // The numbers 1, 2, 3 ... as bytes.
  const std::string& tensor_of(std::int64_t size) {
    std::string& bytes = tensors_[size];
    for (std::int64_t i = 1; bytes.empty() && i <= size;) {
      for (; i <= size; ++i) {
        const auto number = static_cast<float>(i);
        o_.int64 ? bytes.append(reinterpret_cast<const char*>(&i), 8)
                 : bytes.append(reinterpret_cast<const char*>(&number), 4);
      }
    }
    return bytes;
  }

  // An id has twelve digits, so that questions of one size differ in them alone.
  static std::array<char, 12> digits_of(std::uint64_t id) {
    std::array<char, 12> digits;
    for (std::size_t i = digits.size(); i-- > 0; id /= 10) digits[i] = static_cast<char>('0' + id % 10);
    return digits;
  }

  void write_question(Connection& c) {
    std::string& known = questions_[c.size];
    if (known.empty()) known = question(c.size);
    c.out = known;
    const auto digits = digits_of(c.id);
    std::memcpy(c.out.data() + c.out.find("\"id\":\"") + 6, digits.data(), digits.size());
  }

  std::string question(std::int64_t size) {
    const std::string& tensor = tensor_of(size);
    const std::string json = "{\"id\":\"000000000000\",\"inputs\":[{\"name\":\"" + o_.tensor + "\",\"datatype\":\"" +
                             (o_.int64 ? "INT64" : "FP32") + "\",\"shape\":[1," + std::to_string(size) +
                             "],\"parameters\":{\"binary_data_size\":" + std::to_string(tensor.size()) +
                             "}}],\"parameters\":{\"binary_data_output\":true}}";
    const bool plain = !o_.path.empty();
    std::string out = plain ? "GET " + o_.path : "POST /v2/models/" + o_.model + "/infer";
    out += " HTTP/1.1\r\nHost: localhost\r\n";
    if (o_.deadline_ms > 0) out += "Tangram-Deadline-Ms: " + std::to_string(o_.deadline_ms) + "\r\n";
    if (!plain) out += "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n";
    out += "Content-Length: " + std::to_string(json.size() + tensor.size()) + "\r\n\r\n";
    return out + json + tensor;
  }

  Connection* take() {
    if (!free_.empty()) {
      Connection* connection = free_.back();
      free_.pop_back();
      return connection;
    }
    if (all_.size() - dead_ >= o_.connections) return nullptr;
    all_.push_back(std::make_unique<Connection>());
    Connection& c = *all_.back();
    c.socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(o_.port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int one = 1;
    setsockopt(c.socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c.socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      std::perror("http_load: connect");
      std::exit(3);
    }
    fcntl(c.socket, F_SETFL, O_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.ptr = &c;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, c.socket, &event);
    return &c;
  }

  void ask() {
    Connection* c = take();
    if (c == nullptr) {
      ++counts_.not_sent;
      return;
    }
    c->busy = true;
    c->id = ++counts_.sent;
    c->size = draw_size();
    write_question(*c);
    c->out_at = 0;
    // From when it should have been sent: what waits in this program counts as the server's.
    c->asked = o_.closed ? Clock::now() : std::min(next_, Clock::now());
    ++busy_;
    flush(*c);
  }

  void flush(Connection& c) {
    while (c.out_at < c.out.size()) {
      const ssize_t sent = send(c.socket, c.out.data() + c.out_at, c.out.size() - c.out_at, MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return close_it(c);
      if (sent < 0) break;
      c.out_at += static_cast<std::size_t>(sent);
    }
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | (c.out_at < c.out.size() ? std::uint32_t{EPOLLOUT} : 0u);
    event.data.ptr = &c;
    if (c.out_at < c.out.size() || writing_) epoll_ctl(epoll_, EPOLL_CTL_MOD, c.socket, &event);
    writing_ |= c.out_at < c.out.size();
  }

  void close_it(Connection& c) {
    if (c.socket < 0) return;
    close(c.socket);
    c.socket = -1;
    ++dead_;
    if (c.busy) {
      ++counts_.lost;
      --busy_;
      c.busy = false;
    }
    std::erase(free_, &c);
  }

  void wait(Clock::time_point until) {
    std::array<epoll_event, 256> events;
    const auto left = std::max(Clock::duration::zero(), until - Clock::now());
    timespec limit{};
    limit.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
    limit.tv_nsec = (left % 1s).count();
    const int count = epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &limit, nullptr);
    for (int i = 0; i < count; ++i) {
      auto& c = *static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr);
      if (c.socket >= 0 && (events[static_cast<std::size_t>(i)].events & EPOLLOUT) != 0) flush(c);
      if (c.socket >= 0) read(c);
    }
  }

  void read(Connection& c) {
    static std::array<char, 1 << 16> buffer;
    const ssize_t got = recv(c.socket, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return close_it(c);
    c.in.append(buffer.data(), static_cast<std::size_t>(got));
    if (!c.busy) {
      ++counts_.twice;
      c.in.clear();
      return;
    }
    take_answer(c);
  }

  static std::size_t number_after(std::string_view head, std::string_view field) {
    const auto at = head.find(field);
    if (at == std::string_view::npos) return 0;
    std::size_t value = 0;
    std::from_chars(head.data() + at + field.size(), head.data() + head.size(), value);
    return value;
  }

  void take_answer(Connection& c) {
    const auto end = c.in.find("\r\n\r\n");
    if (end == std::string::npos) return;
    const std::string_view head = std::string_view(c.in).substr(0, end + 2);
    const std::size_t length = number_after(head, "Content-Length: ");
    if (c.in.size() < end + 4 + length) return;
    const int status = static_cast<int>(number_after(head, "HTTP/1.1 "));
    const std::string_view body = std::string_view(c.in).substr(end + 4, length);
    judge(c, status, head, body);
    if (c.in.size() > end + 4 + length) ++counts_.twice;
    const bool closes = head.find("Connection: close") != std::string_view::npos;
    c.in.clear();
    c.busy = false;
    --busy_;
    ++counts_.answered;
    if (closes) {
      close_it(c);
    } else {
      free_.push_back(&c);
    }
    if (o_.closed && !ended_) ask();
  }

  void judge(const Connection& c, int status, std::string_view head, std::string_view body) {
    ++counts_.by_status[status];
    if (status == 500) {
      if (counts_.reasons.size() < 8) ++counts_.reasons[std::string(body.substr(0, 200))];
      return;
    }
    if (status != 200) return;
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - c.asked).count();
    latency_.add(static_cast<std::uint64_t>(std::max<std::int64_t>(0, took)));
    if (!o_.path.empty()) return;
    const std::size_t json = number_after(head, "Inference-Header-Content-Length: ");
    const auto digits = digits_of(c.id);
    const auto id = body.find("\"id\":\"");
    const bool mine = id != std::string_view::npos && body.substr(id + 6, 12) == std::string_view(digits.data(), 12);
    const std::string_view tail = body.substr(std::min(json, body.size()));
    auto& known = answers_[c.size];
    if (known.empty()) known = tail;
    if (!mine || tail.empty() || (o_.exact ? known != tail : known.size() != tail.size())) ++counts_.wrong;
  }

  void print(double rate) const {
    std::string statuses;
    for (const auto& [status, count] : counts_.by_status) {
      statuses += (statuses.empty() ? "\"" : ", \"") + std::to_string(status) + "\": " + std::to_string(count);
    }
    std::string reasons;
    for (const auto& [reason, count] : counts_.reasons) {
      std::string escaped;
      for (const char letter : reason)
        escaped += letter == '"' || letter == '\\' ? std::string("\\") + letter : std::string(1, letter);
      reasons += (reasons.empty() ? "\"" : ", \"") + escaped + "\": " + std::to_string(count);
    }
    const auto us = [&](double q) { return static_cast<double>(latency_.quantile(q)) / 1000; };
    std::printf(
        "{\"sent\": %llu, \"answered\": %llu, \"lost\": %llu, \"twice\": %llu, \"wrong\": %llu, "
        "\"not_sent\": %llu, \"rate_per_s\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"status\": {%s}, "
        "\"reasons\": {%s}}\n",
        static_cast<unsigned long long>(counts_.sent), static_cast<unsigned long long>(counts_.answered),
        static_cast<unsigned long long>(counts_.lost), static_cast<unsigned long long>(counts_.twice),
        static_cast<unsigned long long>(counts_.wrong), static_cast<unsigned long long>(counts_.not_sent), rate,
        us(0.5), us(0.99), statuses.c_str(), reasons.c_str());
  }

  Options o_;
  tangram::Rng rng_;
  tangram::Rng arrivals_;
  tangram::Rng sizes_;
  int epoll_ = -1;
  bool ended_ = false;
  bool writing_ = false;  // Some connection once could not take all at once.
  Clock::time_point begin_;
  Clock::time_point next_;
  std::vector<std::unique_ptr<Connection>> all_;
  std::vector<Connection*> free_;
  std::size_t dead_ = 0;
  std::size_t busy_ = 0;
  Counts counts_;
  tangram::QuantileSketch latency_;
  std::map<std::int64_t, std::string> tensors_;
  std::unordered_map<std::int64_t, std::string> questions_;
  std::unordered_map<std::int64_t, std::string> answers_;
};

}  // namespace

int main(int argc, char** argv) { return Load(parse(argc, argv)).run(); }
