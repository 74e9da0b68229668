#include "sim/offline_rows.h"

#include <gtest/gtest.h>

#include "sched/background.h"
#include "sim/event_kind.h"

namespace tangram::sim {
namespace {

using namespace std::chrono_literals;

Workload two_services() {
  Workload workload;
  workload.services.resize(2);
  return workload;
}

TEST(OfflineRows, KeepAsManyUnderWayAsTheJobSays) {
  const Workload workload = two_services();
  const std::vector<BackgroundJob> jobs{{ServiceId(1), 3}, {ServiceId(0), 2}};
  EventQueue queue;
  OfflineRows rows(jobs, workload, Rng(1), queue);
  rows.start();
  ASSERT_EQ(queue.size(), 5u);
  std::vector<Request> all;
  while (!queue.empty()) all.push_back(rows.arrive(queue.pop().index, kTimeZero));
  EXPECT_EQ(all[0].service, ServiceId(1));
  EXPECT_EQ(all[4].service, ServiceId(0));
  for (const auto& row : all) {
    EXPECT_TRUE(sched::is_background(row));
    EXPECT_GE(row.id.value(), std::uint64_t{1} << 40);  // Requests keep the numbers that they have without rows.
  }
}

// An answered row is followed at once, a rejected one after 100 ms, by a row of the same job.
TEST(OfflineRows, FollowEachOther) {
  const Workload workload = two_services();
  const std::vector<BackgroundJob> jobs{{ServiceId(0), 1}, {ServiceId(1), 1}};
  EventQueue queue;
  OfflineRows rows(jobs, workload, Rng(1), queue);
  const Request row = rows.arrive(1, kTimeZero);
  rows.follow(row, OutcomeKind::rejected, TimePoint(5s));
  rows.follow(row, OutcomeKind::late, TimePoint(5s));
  const Event at_once = queue.pop();
  EXPECT_EQ(at_once.when, TimePoint(5s));
  EXPECT_EQ(at_once.kind, kRow);
  EXPECT_EQ(at_once.index, 1u);
  EXPECT_EQ(queue.pop().when, TimePoint(5s + 100ms));
}

}  // namespace
}  // namespace tangram::sim
