#include "serve/http_answer_queue.h"

#include <algorithm>

#include "base/check.h"

namespace tangram::serve {

HttpPending& HttpAnswerQueue::find(const HttpAsker* asker) {
  const auto found = std::ranges::find(owed_, asker, &HttpPending::asker);
  TANGRAM_CHECK(found != owed_.end(), "an answer belongs to a request");
  return *found;
}

bool HttpAnswerQueue::finish(HttpPending& pending) {
  pending.done = true;
  if (!owed_.front().done) return false;
  while (!owed_.empty() && owed_.front().done) {
    const HttpPending& first = owed_.front();
    out_ += first.text;
    if (first.added != AddedTime::nowhere) uncounted_.push_back({first.read, first.compute, first.added});
    owed_.pop_front();
  }
  return owed_.empty();
}

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

void HttpAnswerQueue::abandon() {
  for (HttpPending& pending : owed_) {
    if (pending.asker != nullptr) pending.asker->connection = nullptr;
  }
  owed_.clear();
}

}  // namespace tangram::serve
