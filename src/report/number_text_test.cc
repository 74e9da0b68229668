#include "report/number_text.h"

#include <gtest/gtest.h>

namespace tangram::report {
namespace {

using namespace std::chrono_literals;

// 0.999995 rounds to 100.000 with three decimals; the text stays below the whole.
TEST(PercentText, NeverRoundsUpToTheWhole) {
  EXPECT_EQ(percent_text(1), "100 %");
  EXPECT_EQ(percent_text(0.999995), "99.999 %");
  EXPECT_EQ(percent_text(0.9953), "99.53 %");
  EXPECT_EQ(percent_text(0.5), "50.0 %");
  EXPECT_EQ(percent_text(0), "0 %");
  EXPECT_EQ(percent_text_against(0.9896, 99), "98.96 %");
  EXPECT_EQ(percent_text_against(0.989996, 99), "98.9996 %");
  EXPECT_EQ(percent_text_against(0.99, 99), "99.0 %");
  EXPECT_EQ(percent_text_against(0.9, 99), "90.0 %");
}

TEST(LatencyText, KeepsThreeDigitsFromMicrosecondsToSeconds) {
  EXPECT_EQ(latency_text(123us), "0.123 ms");
  EXPECT_EQ(latency_text(1234us), "1.23 ms");
  EXPECT_EQ(latency_text(12340us), "12.3 ms");
  EXPECT_EQ(latency_text(123ms), "123 ms");
  EXPECT_EQ(latency_text(12s), "12.0 s");
  EXPECT_EQ(latency_text(0ms), "0.00 ms");
  EXPECT_EQ(latency_text(Duration::max()), "never");
}

// The column names the unit, so there is no change to seconds.
TEST(MsText, StaysInMilliseconds) {
  EXPECT_EQ(ms_text(123us), "0.12");
  EXPECT_EQ(ms_text(12s), "12000");
  EXPECT_EQ(ms_text(Duration::max()), "never");
}

TEST(QuantileMsText, IsADashWhereNothingWasCounted) {
  QuantileSketch sketch;
  EXPECT_EQ(quantile_ms_text(sketch, 0.5), "-");
  sketch.add(2'000'000);
  EXPECT_EQ(quantile_ms_text(sketch, 0.5), "2");
}

TEST(RateText, HasOneDigitMoreWhereItIsPrecise) {
  EXPECT_EQ(rate_text(9.876), "9.88");
  EXPECT_EQ(precise_rate_text(9.876), "9.876");
  EXPECT_EQ(rate_text(98.76), "98.8");
  EXPECT_EQ(precise_rate_text(98.76), "98.76");
  EXPECT_EQ(precise_rate_text(1e6), "1000000");
}

TEST(CountText, GroupsThousandsOnlyForPages) {
  EXPECT_EQ(count_text(0), "-");
  EXPECT_EQ(count_text(12345), "12345");
  EXPECT_EQ(thousands_text(999), "999");
  EXPECT_EQ(thousands_text(1234567), "1\u202f234\u202f567");
  EXPECT_EQ(depth_text(12.34), "12.3");
  EXPECT_EQ(depth_text(123.4), "123");
}

TEST(NumberText, HasAnExponentOnlyWhereItMay) {
  EXPECT_EQ(number_text(1234567), "1.235e+06");
  EXPECT_EQ(plain_number_text(1234567), "1234567");
  EXPECT_EQ(plain_number_text(0.00001), "0.0000100");
  EXPECT_EQ(plain_number_text(12.3456), "12.35");
}

// 100 s: under the 4 minutes of a mean over jobs, over the 90 s of a deadline (100 / 60 = 1.67).
TEST(SpanText, ChangesTheUnitSoonerForADeadline) {
  EXPECT_EQ(span_text(100), "100 s");
  EXPECT_EQ(distance_text(100s), "2 min");
  EXPECT_EQ(distance_text(-100s), "2 min");
  EXPECT_EQ(span_text(7200), "2.0 h");
  EXPECT_EQ(long_span_text(7200), "2 hours");
  EXPECT_EQ(long_span_text(45), "45 seconds");
}

TEST(SloText, NamesThePercentileAndTheLatency) { EXPECT_EQ(slo_text({120ms, 99.9}), "p99.9 120 ms"); }

}  // namespace
}  // namespace tangram::report
