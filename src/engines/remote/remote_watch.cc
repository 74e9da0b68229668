// Invariant: the event loop watches the socket exactly while the stream is open.
#include "engines/remote/remote_watch.h"

#include <fmt/format.h>

#include <utility>

namespace tangram::engines {
namespace {

constexpr Duration kWatchEvery = std::chrono::milliseconds(500);
// Long for a machine that is busy, short enough to be noticed within two seconds.
constexpr Duration kAnswerWithin = std::chrono::seconds(1);
// The answer is not read: any answer is a sign of life. The limit keeps a faulty server from exhausting the memory.
constexpr client::HttpAnswerLimits kLifeSignLimits{.body_max = 1 << 16};

}  // namespace

RemoteWatch::RemoteWatch(LinkContext context, host::Endpoint address, RemoteCaller caller, Slices slices)
    : context_(context),
      address_(std::move(address)),
      caller_(std::move(caller)),
      slices_(std::move(slices)),
      http_(kLifeSignLimits),
      due_(context_.clock.now() + kWatchEvery) {}

void RemoteWatch::set_caller(RemoteCaller caller) {
  caller_ = std::move(caller);
  if (!asking_) disconnect();
}

void RemoteWatch::work(TimePoint now) {
  if (now < due_) return;
  if (asking_) {
    disconnect();
    // It may be busy with batches: their answers are signs of life, too.
    return now - heard_ < kAnswerWithin ? rest() : end("it does not answer");
  }
  due_ = now + kWatchEvery;
  to_ask_ = slices_.models();
  if (!to_ask_.empty()) ask();
}

void RemoteWatch::ask() {
  asking_ = true;
  due_ = context_.clock.now() + kAnswerWithin;
  if (!http_.stream().is_open() && !connect()) return end("it cannot be reached");
  std::string request =
      fmt::format("GET /v2/models/{}/ready HTTP/1.1\r\nHost: {}\r\n", to_ask_.front(), address_.text());
  if (!caller_.key.empty()) request += fmt::format("Authorization: Bearer {}\r\n", caller_.key);
  http_.begin(request + "\r\n");
  // A new connection must become writable first; the loop reports it.
  if (used_before_) take(http_.write());
}

bool RemoteWatch::connect() {
  disconnect();
  const client::StreamTarget target{address_, caller_.tls, caller_.server_name};
  if (!http_.stream().open(target, client::StreamWaiting::never)) return false;
  used_before_ = false;
  watched_for_writing_ = true;
  context_.loop.add(http_.stream().descriptor(), host::Interest::both, this);
  return true;
}

void RemoteWatch::disconnect() {
  if (!http_.stream().is_open()) return;
  context_.loop.remove(http_.stream().descriptor(), this);
  http_.stream().close();
  http_.abandon();
}

void RemoteWatch::on_ready(bool readable, bool writable, bool broken) {
  take(broken ? http_.read() : http_.on_ready(readable, writable));
}

void RemoteWatch::take(client::HttpConnection::Event event) {
  using client::HttpConnection;
  if (event == HttpConnection::Event::none) return watch();
  if (event == HttpConnection::Event::answered) {
    used_before_ = true;
    if (!http_.answer().keep_alive()) {
      disconnect();
    } else {
      watch();
    }
    return answered(http_.answer().status());
  }
  const bool stale = used_before_ && !http_.answer().anything();
  disconnect();
  // An idle connection that ends says nothing. A question sent on one that had just ended is asked once more.
  if (!asking_) return;
  if (stale && connect()) return http_.begin_again();
  end("it cannot be reached");
}

void RemoteWatch::watch() {
  const bool writes = http_.wants_write();
  if (writes == watched_for_writing_) return;
  watched_for_writing_ = writes;
  context_.loop.change(http_.stream().descriptor(), writes ? host::Interest::both : host::Interest::read, this);
}

// The same question as before a slice is used at all, so a server that does not know it never gets here.
void RemoteWatch::answered(int status) {
  heard();
  const std::string model = to_ask_.front();
  to_ask_.erase(to_ask_.begin());
  if (status == 401 || status == 403) {
    slices_.gone(model, "it denies access");
  } else if (status != 200 && status != 429) {  // Too many questions are no statement about the model.
    slices_.gone(model, fmt::format("model '{}' is no longer ready on it", model));
  }
  if (to_ask_.empty()) return rest();
  ask();
}

void RemoteWatch::end(const std::string& reason) {
  rest();
  slices_.gone("", reason);
}

void RemoteWatch::rest() {
  asking_ = false;
  due_ = context_.clock.now() + kWatchEvery;
}

}  // namespace tangram::engines
