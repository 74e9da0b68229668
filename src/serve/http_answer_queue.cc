// Keeps pipelined answers in the order of their requests (RFC 9112 section 9.3.2).
//
// The world answers in any order. The answer at the front is written straight into out_; others are written into their
// own text and moved to out_ when all before them are done. Invariant: no finished answer is at the front.

#include "serve/http_answer_queue.h"

#include <algorithm>

#include "base/check.h"

namespace tangram::serve {

// A linear search: pipeline_max bounds the number of owed answers.
HttpPending& HttpAnswerQueue::find(const HttpAsker* asker) {
  const auto found = std::ranges::find(owed_, asker, &HttpPending::asker);
  TANGRAM_CHECK(found != owed_.end(), "an answer belongs to a request");
  return *found;
}

bool HttpAnswerQueue::finish(HttpPending& pending) {
  pending.done = true;
  // An earlier answer is missing, so nothing can be sent yet.
  if (!owed_.front().done) return false;
  while (!owed_.empty() && owed_.front().done) {
    const HttpPending& first = owed_.front();
    // Empty for the answer that was first when it was written: its bytes are in out_ already.
    out_ += first.text;
    if (first.added != AddedTime::nowhere) uncounted_.push_back({first.read, first.compute, first.added});
    owed_.pop_front();
  }
  return owed_.empty();
}

// The time is counted at the first byte that leaves, for all answers in the output: they were all ready then. The clock
// is read only if there is something to count.
void HttpAnswerQueue::sent(std::size_t bytes, const host::LiveClock& clock, Gateway::Traffic& traffic) {
  sent_ += bytes;
  if (!uncounted_.empty()) {
    const TimePoint now = clock.now();
    for (const Unsent& answer : uncounted_) {
      const bool infer = answer.added == AddedTime::infer;
      (infer ? traffic.added_infer : traffic.added_other).add(now - answer.read - answer.compute);
    }
    uncounted_.clear();
  }
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  }
}

// Calls that are under way cannot be taken back from the world. Clearing the asker makes their answers go nowhere.
void HttpAnswerQueue::abandon(const std::function<void(Call*)>& gone) {
  for (HttpPending& pending : owed_) {
    if (pending.asker == nullptr) continue;
    pending.asker->connection = nullptr;
    if (pending.asker->call != nullptr) gone(pending.asker->call);
  }
  owed_.clear();
}

}  // namespace tangram::serve
