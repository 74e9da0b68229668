#include "core/service_key.h"

#include <gtest/gtest.h>

namespace tangram {
namespace {

TEST(ContentKey, LeavesTheNameOutAndNothingElseThatMatters) {
  Service service;
  service.name = "a";
  service.model = "bert";
  service.input_size = HistogramSize{.file = "sizes.csv", .bins = {{16, 1}, {64, 0.5}}};
  Service other = service;
  other.name = "b";
  EXPECT_EQ(content_key(service), content_key(other));
  other.input_size = HistogramSize{.file = "sizes.csv", .bins = {{16, 1}, {64, 0.25}}};
  EXPECT_NE(content_key(service), content_key(other));
  other = service;
  other.traffic = ConstantTraffic{};
  EXPECT_NE(content_key(service), content_key(other));
  other = service;
  other.slo.percentile = 95;
  EXPECT_NE(content_key(service), content_key(other));
  other = service;
  other.slo.late_limit = 3;
  EXPECT_NE(content_key(service), content_key(other));
  other = service;
  other.size_drift = SizeDrift{};
  EXPECT_NE(content_key(service), content_key(other));
}

// Traces of the same length differ in one entry.
TEST(ContentKey, TellsTracesApart) {
  Service service;
  service.traffic = TraceTraffic{.file = "", .speed = 1, .trace = {{kTimeZero, 7}, {kTimeZero, 90}}};
  Service other = service;
  EXPECT_EQ(content_key(service), content_key(other));
  std::get<TraceTraffic>(other.traffic).trace[1].size = 91;
  EXPECT_NE(content_key(service), content_key(other));
}

}  // namespace
}  // namespace tangram
