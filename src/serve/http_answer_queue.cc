// Keeps pipelined answers in the order of their requests (RFC 9112 section 9.3.2).
//
// The world answers in any order. The answer at the front is written straight into out_; others are written into their
// own text and moved to out_ when all before them are done. Invariant: no finished answer is at the front.

#include "serve/http_answer_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tangram::serve {
namespace {

// A text of the output that has more bytes than this gets no further answer.
constexpr std::size_t kSharedMax = 64 << 10;

}  // namespace

// A linear search: pipeline_max bounds the number of owed answers.
HttpPending& HttpAnswerQueue::find(const HttpAsker* asker) {
  const auto found = std::ranges::find(owed_, asker, &HttpPending::asker);
  TANGRAM_CHECK(found != owed_.end(), "an answer belongs to a request");
  return *found;
}

std::string& HttpAnswerQueue::tail() {
  if (out_.empty() || out_.back().size() > kSharedMax) out_.emplace_back();
  return out_.back();
}

// What is held after the answer is at most what was held before it, the answer, and a copy of it while it is written.
bool HttpAnswerQueue::make_room(std::size_t bytes, MemoryAccount* group) {
  if (group != nullptr) charge_.move_to_group(group);
  const std::uint64_t total = unsent_bytes() + bytes;
  return total <= kFreeBytes || charge_.resize(std::max(charge_.bytes(), total));
}

void HttpAnswerQueue::settle() {
  written_ = 0;
  for (const auto& text : out_) written_ += text.size();
  for (const auto& pending : owed_) written_ += pending.text.size();
  // Less than make_room() has charged, so it succeeds.
  charge_.resize(unsent_bytes() > kFreeBytes ? unsent_bytes() : 0);
}

bool HttpAnswerQueue::finish(HttpPending& pending) {
  pending.done = true;
  // An earlier answer is missing, so nothing can be sent yet.
  if (!owed_.front().done) return settle(), false;
  while (!owed_.empty() && owed_.front().done) {
    HttpPending& first = owed_.front();
    // Empty for the answer that was first when it was written: its bytes are in out_ already.
    if (first.text.size() > kSharedMax) {
      // No empty text stays in front of another one: unsent() looks at the first.
      if (!out_.empty() && out_.back().empty()) out_.pop_back();
      out_.push_back(std::move(first.text));
    } else if (!first.text.empty()) {
      tail() += first.text;
    }
    if (first.added != AddedTime::nowhere) uncounted_.push_back({first.read, first.compute, first.added});
    owed_.pop_front();
  }
  settle();
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
  if (sent_ < out_.front().size()) return;
  written_ -= std::exchange(sent_, 0);
  // The last small text keeps its memory for the next answer.
  if (out_.size() == 1 && out_.front().capacity() <= kFreeBytes) {
    out_.front().clear();
  } else {
    out_.erase(out_.begin());
  }
  charge_.resize(std::min<std::uint64_t>(charge_.bytes(), unsent_bytes() > kFreeBytes ? unsent_bytes() : 0));
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
