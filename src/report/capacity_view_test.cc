#include "report/capacity_view.h"

#include <gtest/gtest.h>

namespace tangram::report {
namespace {

using namespace std::chrono_literals;

lab::CapacityResult capacity_of_two() {
  lab::CapacityResult result;
  result.policy = "edf";
  result.rate_scale = 1.5;
  result.binding = "rank";
  result.services.push_back({.service = "rank", .percentile = 99, .rate_per_s = 30, .latency = 80ms, .slo = 100ms});
  result.services.push_back({.service = "idle", .percentile = 95, .slo = 50ms, .counted = false});
  return result;
}

TEST(CapacityTable, NamesThePolicyOnceAndSaysNothingOfAServiceWithoutRequests) {
  const std::vector results{capacity_of_two()};
  const std::string table = capacity_table(results, {});
  EXPECT_EQ(table.find("edf"), table.rfind("edf")) << table;
  EXPECT_NE(table.find("p99 100 ms"), std::string::npos) << table;
  EXPECT_NE(table.find("idle       0.0        -        -  p95 50 ms"), std::string::npos) << table;
}

TEST(CapacityJson, HasNoLatencyWhereNoRequestCame) {
  const std::vector results{capacity_of_two()};
  const Json json = capacity_json({"tangram 1", "", "{}", 7}, {"day", 0.01, results});
  EXPECT_EQ(json["scenario"], "day");
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["results"][0]["services"][0]["latency_ms"], 80);
  EXPECT_TRUE(json["results"][0]["services"][1]["latency_ms"].is_null());
  EXPECT_TRUE(json["results"][0]["infeasible_rate_scale"].is_null());
}

}  // namespace
}  // namespace tangram::report
