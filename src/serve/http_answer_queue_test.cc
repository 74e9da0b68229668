#include "serve/http_answer_queue.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

struct Queue {
  HttpPending& owe(HttpAsker& asker) { return answers.add({.asker = &asker}); }
  void write(HttpPending& pending, std::string_view text) { answers.output_of(pending) += text; }

  HttpAnswerQueue answers;
  HttpAsker first;
  HttpAsker second;
  host::LiveClock clock;
  Gateway::Traffic traffic;
};

TEST(HttpAnswerQueue, SendsAnswersInTheOrderOfTheirRequests) {
  Queue queue;
  HttpPending& one = queue.owe(queue.first);
  HttpPending& two = queue.owe(queue.second);
  queue.write(two, "two");
  EXPECT_FALSE(queue.answers.finish(two));
  EXPECT_EQ(queue.answers.unsent(), "");
  EXPECT_EQ(&queue.answers.find(&queue.first), &one);
  queue.write(one, "one ");
  EXPECT_TRUE(queue.answers.finish(one));
  EXPECT_EQ(queue.answers.unsent(), "one two");
  EXPECT_EQ(queue.answers.owed(), 0u);
}

// Both answers stand in the output when its first byte leaves, so both are counted then, and once.
TEST(HttpAnswerQueue, CountsTheTimeOfAnAnswerWithItsFirstByte) {
  Queue queue;
  HttpPending& one = queue.owe(queue.first);
  queue.write(one, "one");
  queue.answers.finish(one);
  HttpPending& two = queue.owe(queue.second);
  two.added = AddedTime::infer;
  queue.write(two, "two");
  queue.answers.finish(two);
  queue.answers.sent(1, queue.clock, queue.traffic);
  queue.answers.sent(5, queue.clock, queue.traffic);
  EXPECT_EQ(queue.traffic.added_other.count(), 1u);
  EXPECT_EQ(queue.traffic.added_infer.count(), 1u);
  EXPECT_EQ(queue.answers.unsent(), "");
}

TEST(HttpAnswerQueue, ForgetsWhoAskedWhenTheClientHasGone) {
  Queue queue;
  queue.first.connection = reinterpret_cast<HttpConnection*>(&queue);  // Never followed.
  queue.owe(queue.first);
  Call call;
  queue.first.call = &call;
  std::vector<Call*> gone;
  queue.answers.abandon([&](Call* of) { gone.push_back(of); });
  EXPECT_EQ(gone, std::vector{&call});
  EXPECT_EQ(queue.first.connection, nullptr);
  EXPECT_EQ(queue.answers.owed(), 0u);
}

}  // namespace
}  // namespace tangram::serve
