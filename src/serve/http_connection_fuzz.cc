// Whole HTTP/1.1 connections: any bytes in any pieces, answers that come in any order or not at all, clients that
// leave. Whatever comes, the output is answers of HTTP, the memory for callers stays within its limit, and nothing of
// it is left when the connection has ended.
//
// The first bytes of an input choose the pieces and the answers; the rest is what the client says.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "serve/http_connection.h"

namespace {

using namespace tangram;
using namespace tangram::serve;

void require(bool holds) {
  if (!holds) std::abort();
}

// A model that takes a row of numbers of any length, and one that takes texts.
const std::vector<ServedModel>& models() {
  static const std::vector<ServedModel> kModels = [] {
    std::vector<ServedModel> all(2);
    all[0].name = "m";
    all[0].signature = {{{"x", Datatype::fp32, {kVariableAxis}, 0, false}}, {{"y", Datatype::fp32, {2}, 0, false}}};
    all[0].size_max = 64;
    all[1].name = "t";
    all[1].service = ServiceId(1);
    all[1].signature = {{{"x", Datatype::bytes, {kVariableAxis}, 0, false}}, {{"y", Datatype::fp32, {2}, 0, false}}};
    return all;
  }();
  return kModels;
}

GatewayConfig little_memory() {
  GatewayConfig config;
  config.memory_max = MemoryBudget::kLeast;
  return config;
}

struct Nobody final : CallOwner, ControlOwner {
  void on_answered(Call*) override {}
  void on_controlled(ControlCall*) override {}
};

// One server thread without a world: it answers what was posted as the input says.
class Door {
 public:
  Door()
      : gateway_(models(), little_memory()),
        shared_(100, std::uint64_t{8} << 20),
        context_{.loop = loop_,
                 .clock = clock_,
                 .gateway = gateway_,
                 .limits = {.head_max = 4096, .body_max = 64 << 10, .pipeline_max = 4, .control_max = 8 << 10},
                 .shared = shared_,
                 .frontdoor = Frontdoor(gateway_, clock_),
                 .calls = HttpCalls(nobody_, nobody_, inbox_, false, &gateway_.memory.data()),
                 .writer = HttpAnswerWriter(clock_.now()),
                 .now = clock_.now()} {
    context_.on_closed = [this](HttpConnection*) { closed_ = true; };
    shared_.cross_site.origins = {"http://a"};
    shared_.cross_site.answer_fields = {cors_answer_fields("http://a")};
    // The calls of the pool stay charged, so they are made before anything is compared.
    std::vector<HttpCall*> calls;
    for (int i = 0; i < 16; ++i) calls.push_back(context_.calls.take());
    for (HttpCall* call : calls) context_.calls.give_back(call);
  }

  void run(std::uint8_t choice, std::uint8_t answers, std::string_view said) {
    const std::uint64_t before = gateway_.memory.data().used();
    std::array<int, 2> ends{};
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
    closed_ = false;
    {
      const PeerKey key;
      auto peer = shared_.peers.enter(key);
      HttpConnection connection(context_, ends[0], {.port = (choice & 1) != 0 ? Port::admin : Port::data}, key,
                                std::move(peer), Charge());
      const std::size_t piece = 1 + std::size_t{choice} * choice;
      while (!said.empty() && !closed_) {
        const ssize_t sent = send(ends[1], said.data(), std::min(piece, said.size()), MSG_NOSIGNAL);
        if (sent <= 0) break;
        said.remove_prefix(static_cast<std::size_t>(sent));
        turn(connection, answers);
        hear(ends[1]);
      }
      // Leaves in the midst of everything, or reads until all is answered.
      if ((choice & 2) == 0) shutdown(ends[1], SHUT_WR);
      for (int i = 0; (choice & 2) == 0 && !closed_ && i < 200; ++i) {
        turn(connection, static_cast<std::uint8_t>(answers | 1));
        hear(ends[1]);
      }
      require(gateway_.memory.data().used() <= gateway_.memory.data().limit());
    }
    close(ends[1]);
    answer(1);
    heard_.clear();
    context_.dirty.clear();
    context_.later.clear();
    require(gateway_.memory.data().used() == before);
    require(gateway_.memory.admin().used() == 0);
  }

 private:
  void turn(HttpConnection& connection, std::uint8_t answers) {
    loop_.wait(clock_, kTimeZero);
    context_.now = clock_.now();
    context_.unpacked = 0;
    if (!closed_ && (answers & 1) != 0) answer(answers);
    for (std::size_t i = 0; i < context_.dirty.size(); ++i) {
      if (!closed_) context_.dirty[i]->proceed();
    }
    context_.dirty.clear();
    const auto later = std::exchange(context_.later, {});
    for (HttpConnection* one : later) {
      if (!closed_) one->proceed_later();
    }
    for (std::size_t i = 0; i < context_.dirty.size(); ++i) {
      if (!closed_) context_.dirty[i]->proceed();
    }
    context_.dirty.clear();
    if (!closed_) connection.out_of_time(context_.now);
  }

  // Answers what was posted, in the order of posting or against it.
  void answer(std::uint8_t how) {
    Inbox::Contents taken;
    inbox_.take(taken);
    auto& calls = taken.calls;
    if ((how & 2) != 0) std::reverse(calls.begin(), calls.end());
    for (const auto& posted : calls) {
      if (auto* const* call = std::get_if<Call*>(&posted)) finish(static_cast<HttpCall*>(*call), how);
      if (auto* const* call = std::get_if<ControlCall*>(&posted)) {
        auto* control = static_cast<HttpControl*>(*call);
        control->answer = "{}";
        if (control->asker.connection != nullptr) control->asker.connection->answered(*control);
        context_.calls.give_back(control);
      }
    }
  }
  void finish(HttpCall* call, std::uint8_t how) {
    if ((how & 4) != 0) {
      call->status = CallStatus::refused;
      call->error = "too many requests are queued";
    } else {
      call->answer.assign(static_cast<std::size_t>(call->samples) * 8, '\0');
      call->answer_ends = {call->answer.size()};
    }
    if (call->asker.connection != nullptr) call->asker.connection->answered(*call);
    context_.calls.give_back(call);
  }

  void hear(int fd) {
    std::array<char, 4096> part;
    for (ssize_t got = 0; (got = recv(fd, part.data(), part.size(), MSG_DONTWAIT)) > 0;) {
      if (heard_.size() < 64) heard_.append(part.data(), static_cast<std::size_t>(got));
    }
    if (heard_.size() >= 9) require(heard_.starts_with("HTTP/1.1 "));
  }

  Nobody nobody_;
  Inbox inbox_;
  host::EventLoop loop_;
  host::LiveClock clock_;
  Gateway gateway_;
  HttpShared shared_;
  HttpContext context_;
  bool closed_ = false;
  std::string heard_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Door door;
  if (size < 2) return 0;
  door.run(data[0], data[1], {reinterpret_cast<const char*>(data) + 2, size - 2});
  return 0;
}
