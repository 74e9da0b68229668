#include "sim/plan_feed.h"

#include <gtest/gtest.h>

namespace tangram::sim {
namespace {

using namespace std::chrono_literals;

Request arrival_of(std::uint32_t service, std::int64_t size) {
  Request request;
  request.service = ServiceId(service);
  request.size = size;
  return request;
}

// Two of service 1 arrive, one is served and one is rejected; at the next look both are forgotten.
TEST(PlanFeed, TellsTheControllerWhatHappenedSinceItWasLastTold) {
  std::vector<Observation> told;
  const Controller controller{1min, [&](const Observation& seen) -> std::optional<sched::Deployment> {
                                told.push_back(seen);
                                return std::nullopt;
                              }};
  const std::vector<PlanChange> changes;
  PlanFeed plans(changes, controller, 2);
  EXPECT_TRUE(plans.watched());
  plans.arrived(arrival_of(1, 20));
  plans.arrived(arrival_of(1, 20));
  plans.resolved(arrival_of(1, 20), OutcomeKind::served);
  plans.resolved(arrival_of(1, 20), OutcomeKind::rejected);
  std::vector<QueueDepth> queues(2);
  queues[1].waiting = 7;
  EXPECT_EQ(plans.control(TimePoint(60s), true, queues), std::nullopt);
  EXPECT_EQ(plans.control(TimePoint(120s), false, queues), std::nullopt);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].at, TimePoint(60s));
  EXPECT_TRUE(told[0].moving);
  EXPECT_EQ(told[0].services[0].arrived, 0u);
  EXPECT_EQ(told[0].services[1].arrived, 2u);
  EXPECT_EQ(told[0].services[1].served, 1u);
  EXPECT_EQ(told[0].services[1].lost, 1u);
  EXPECT_EQ(told[0].services[1].waiting, 7u);
  EXPECT_EQ(told[0].services[1].sizes.at(20), 2u);
  EXPECT_EQ(told[1].services[1].arrived, 0u);
  EXPECT_FALSE(told[1].moving);
}

// The configuration has plan 0; the controller's answers are 1 and 2.
TEST(PlanFeed, NumbersTheControllersPlansBehindThoseOfTheConfiguration) {
  int asked = 0;
  const Controller controller{1min, [&](const Observation&) -> std::optional<sched::Deployment> {
                                sched::Deployment next;
                                next.pools.resize(static_cast<std::size_t>(10 + asked++));
                                return next;
                              }};
  std::vector<PlanChange> changes(1);
  changes[0].deployment.pools.resize(5);
  PlanFeed plans(changes, controller, 1);
  const std::vector<QueueDepth> queues(1);
  EXPECT_EQ(plans.control(TimePoint(60s), false, queues), 1u);
  EXPECT_EQ(plans.control(TimePoint(120s), false, queues), 2u);
  EXPECT_EQ(plans.plan(0).pools.size(), 5u);
  EXPECT_EQ(plans.plan(1).pools.size(), 10u);
  EXPECT_EQ(plans.plan(2).pools.size(), 11u);
}

TEST(PlanFeed, CountsNothingWhereNobodyWatches) {
  const Controller controller;
  const std::vector<PlanChange> changes;
  PlanFeed plans(changes, controller, 2);
  EXPECT_FALSE(plans.watched());
  plans.arrived(arrival_of(1, 20));  // Would be out of range if it counted.
  plans.resolved(arrival_of(9, 20), OutcomeKind::late);
}

}  // namespace
}  // namespace tangram::sim
