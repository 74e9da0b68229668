// The answers of one connection, which leave in the order of their requests, and the bytes that are to be sent.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "host/event_loop.h"
#include "serve/gateway.h"
#include "serve/http_answer.h"
#include "serve/http_calls.h"

namespace tangram::serve {

// Where the time that the gateway took for an answer is counted.
enum class AddedTime : std::uint8_t { nowhere, infer, other };

// An answer that is owed, from the request's last byte on.
struct HttpPending {
  AnswerForm form = {};
  HttpAsker* asker = nullptr;  // Of the call, while that is in flight.
  bool done = false;
  AddedTime added = AddedTime::other;
  TimePoint read = {};  // When the last byte of the request was.
  Duration compute{};
  std::string text = {};  // The answer, while others must be sent first.
};

// An answer is written straight into the output if no answer must be sent before it; otherwise it is kept until its
// turn.
class HttpAnswerQueue {
 public:
  HttpAnswerQueue() = default;
  // What is not sent yet is charged to these, beyond the first kFreeBytes, which the connection has for itself.
  explicit HttpAnswerQueue(const MemoryPlaces& places) : charge_(places) {}
  static constexpr std::size_t kFreeBytes = 4 << 10;

  HttpPending& add(HttpPending pending) { return owed_.emplace_back(std::move(pending)); }
  std::size_t owed() const { return owed_.size(); }
  // The answer that a call of `asker` brings. It is owed.
  HttpPending& find(const HttpAsker* asker);
  // Where the text of an owed answer goes.
  std::string& output_of(HttpPending& pending) { return &pending == &owed_.front() ? tail() : pending.text; }
  // Before an answer of at most `bytes` is written for this group (null: as before): false if there is no room for it.
  bool make_room(std::size_t bytes, MemoryAccount* group);
  // The answer is written. True if no answer is owed any more.
  bool finish(HttpPending& pending);
  // True if the client waits for an answer that is not there yet, and understands an interim one.
  bool waits_for_first() const { return !owed_.empty() && !owed_.front().done && owed_.front().form.http_1_1; }
  // Bytes that are no answer: requires that none is owed, or waits_for_first() and that nothing is unsent.
  void append(std::string_view bytes) {
    tail() += bytes;
    written_ += bytes.size();
  }

  // The next bytes to send; empty: everything is sent.
  std::string_view unsent() const {
    return out_.empty() ? std::string_view() : std::string_view(out_.front()).substr(sent_);
  }
  // All bytes that are written and not sent, also those of answers that must wait for others.
  std::size_t unsent_bytes() const { return written_ - sent_; }
  // `bytes` of the unsent ones were sent. With the first of them, the time of all written answers is counted.
  void sent(std::size_t bytes, const host::LiveClock& clock, Gateway::Traffic& traffic);
  // The client has gone: the answers of calls in flight will be discarded. `gone` is called with each inference call.
  void abandon(const std::function<void(Call*)>& gone);

 private:
  // An answer in the output of which nothing was sent yet.
  struct Unsent {
    TimePoint read;
    Duration compute;
    AddedTime added;
  };

  // The text that further bytes are appended to.
  std::string& tail();
  // Charges what is held.
  void settle();

  std::deque<HttpPending> owed_;
  // One text after the other. Small answers share one, so that they leave in one system call; a large one keeps its
  // own, so that it is never copied.
  std::vector<std::string> out_;
  std::size_t sent_ = 0;     // Bytes of the first of them.
  std::size_t written_ = 0;  // Bytes of all of them, and of the texts of owed answers.
  Charge charge_;
  std::vector<Unsent> uncounted_;
};

}  // namespace tangram::serve
