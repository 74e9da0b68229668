#include "serve/inbox.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

// Two calls and one report are posted. The first call finds an empty inbox and wakes; the second does not, because the
// world has not looked since; a report always does.
TEST(Inbox, WakesForTheFirstCallAndForEveryReport) {
  Inbox inbox;
  int woken = 0;
  inbox.set_waker([&] { ++woken; });
  Call call;
  inbox.post(&call);
  inbox.post(&call);
  EXPECT_EQ(woken, 1);
  inbox.on_lost(SliceId(0), "gone");
  EXPECT_EQ(woken, 2);
}

TEST(Inbox, WakesForQuietPostsOnlyWhenAskedAndOnlyIfThereAreSome) {
  Inbox inbox;
  int woken = 0;
  inbox.set_waker([&] { ++woken; });
  inbox.wake_for_posted();
  EXPECT_EQ(woken, 0);
  Call call;
  inbox.post(&call, false);
  EXPECT_EQ(woken, 0);
  inbox.wake_for_posted();
  EXPECT_EQ(woken, 1);
}

TEST(Inbox, KeepsTheOrderOfInferenceAndControl) {
  Inbox inbox;
  Call first;
  ControlCall second;
  Call third;
  inbox.post(&first);
  inbox.post(&second);
  inbox.post(&third);
  Inbox::Contents taken;
  inbox.take(taken);
  const std::vector<Inbox::Posted> expected{&first, &second, &third};
  EXPECT_EQ(taken.calls, expected);
  taken.calls.clear();
  inbox.take(taken);
  EXPECT_TRUE(taken.calls.empty());
}

TEST(Inbox, TellsAFailureFromAnAnswerByItsReason) {
  Inbox inbox;
  inbox.on_done(SliceId(1), BatchId(7), "");
  inbox.on_rejected_upstream(SliceId(2), 3s);
  inbox.on_done(SliceId(2), BatchId(8), "there is no room");
  inbox.on_restarted(SliceId(3), false);
  Inbox::Contents taken;
  inbox.take(taken);
  ASSERT_EQ(taken.reports.size(), 3u);
  EXPECT_EQ(taken.reports[0].kind, WorldEventKind::done);
  EXPECT_EQ(taken.reports[1].kind, WorldEventKind::failed);
  EXPECT_EQ(taken.reports[1].reason, "there is no room");
  EXPECT_EQ(taken.reports[2].kind, WorldEventKind::not_restarted);
  ASSERT_EQ(taken.rejected_upstream.size(), 1u);
  EXPECT_EQ(taken.rejected_upstream[0].retry_after, 3s);
}

}  // namespace
}  // namespace tangram::serve
