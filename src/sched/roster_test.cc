#include "sched/roster.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace tangram::sched {
namespace {

Workload workload_of(std::initializer_list<std::string> names) {
  Workload workload;
  for (const auto& name : names) {
    Service service;
    service.name = name;
    workload.services.push_back(service);
  }
  return workload;
}

std::string text_of(const Roster& roster) {
  std::string text;
  for (std::size_t s = 0; s < roster.removed.size(); ++s) {
    text += (roster.removed[s] ? "-" : "+") + roster.workload.services[s].name;
  }
  return text;
}

TEST(Roster, KeepsTheIdOfEveryServiceThatStaysLeavesOrReturns) {
  const Roster first = Roster::of(workload_of({"ask", "rank"}));
  const auto second = next_roster(first, workload_of({"rank", "find"}));
  ASSERT_TRUE(second);
  EXPECT_EQ(text_of(*second), "-ask+rank+find");
  EXPECT_EQ(second->served().services.size(), 2u);
  const auto third = next_roster(*second, workload_of({"find", "ask"}));
  ASSERT_TRUE(third);
  EXPECT_EQ(text_of(*third), "+ask-rank+find");
}

TEST(Roster, TakesWhatTheFileSaysOfAServiceThatStays) {
  Workload changed = workload_of({"ask"});
  changed.services[0].priority = 3;
  const auto next = next_roster(Roster::of(workload_of({"ask"})), changed);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->workload.services[0].priority, 3);
}

TEST(Roster, RejectsMoreServicesThanItHasPlacesFor) {
  Roster full = Roster::of(workload_of({"ask", "rank"}));
  EXPECT_EQ(full.places_max, 2 + kServicesAddedMax);
  full.places_max = 2;
  const auto next = next_roster(full, workload_of({"find"}));
  ASSERT_FALSE(next);
  EXPECT_NE(next.error().message.find("'find'"), std::string::npos);
  EXPECT_TRUE(next_roster(full, workload_of({"rank"})));
}

}  // namespace
}  // namespace tangram::sched
