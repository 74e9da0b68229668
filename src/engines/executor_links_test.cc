#include "engines/executor_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tangram::engines {
namespace {

using namespace std::chrono_literals;

// 100, 200, 400, 800 ms, and then the longest pause; the hundredth doubling must not overflow.
TEST(PauseBeforeAttempt, DoublesUpToItsMaximum) {
  const auto pause = [](int in_vain) { return pause_before_attempt(in_vain, 100ms, 1s); };
  EXPECT_EQ(pause(0), 0ms);
  EXPECT_EQ(pause(1), 100ms);
  EXPECT_EQ(pause(2), 200ms);
  EXPECT_EQ(pause(4), 800ms);
  EXPECT_EQ(pause(5), 1s);
  EXPECT_EQ(pause(100), 1s);
}

struct FakeLink {
  FakeLink(LinkList<FakeLink>& list, TimePoint due) : list_(list), due_(due) { list_.add(this); }
  ~FakeLink() { list_.remove(this); }
  FakeLink(const FakeLink&) = delete;
  FakeLink& operator=(const FakeLink&) = delete;
  void work(TimePoint now) { worked_at_ = now; }
  TimePoint next_due() const { return due_; }

  LinkList<FakeLink>& list_;
  TimePoint due_;
  TimePoint worked_at_ = kTimeZero;
};

TEST(LinkList, IsDueWithItsFirstLinkAndLetsAllOfThemWork) {
  LinkList<FakeLink> list;
  EXPECT_EQ(list.next_due(), kTimeNever);
  const FakeLink later(list, kTimeZero + 2s);
  {
    const FakeLink sooner(list, kTimeZero + 1s);
    EXPECT_EQ(list.next_due(), kTimeZero + 1s);
    list.work(kTimeZero + 1s);
    EXPECT_EQ(sooner.worked_at_, kTimeZero + 1s);
  }
  EXPECT_EQ(later.worked_at_, kTimeZero + 1s);
  EXPECT_EQ(list.next_due(), kTimeZero + 2s);
}

}  // namespace
}  // namespace tangram::engines
