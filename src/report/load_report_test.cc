#include "report/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tangram::report {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

Workload two_services() {
  Workload workload;
  workload.services.push_back({.name = "rank <answers>", .model = "encoder", .slo = {100ms, 50}});
  workload.services.push_back({.name = "classify", .model = "images", .slo = {10ms, 99}});
  return workload;
}

// Of four requests for the first service, two are in time: exactly at the promise of half of them. The second has one
// of two.
std::vector<LoadSample> six_samples() {
  return {{0, 0.0, 20ms, 1ms, LoadEnd::answered},  {0, 0.5, 100ms, 0ms, LoadEnd::answered},
          {0, 1.0, 101ms, 0ms, LoadEnd::answered}, {0, 1.5, 5ms, 0ms, LoadEnd::refused},
          {1, 1.6, 3ms, 0ms, LoadEnd::answered},   {1, 2.0, 0ms, 0ms, LoadEnd::unanswered}};
}

TEST(LoadReport, CountsEveryRequestOnceAndAgainstWhatWasSent) {
  const Workload workload = two_services();
  const LoadReport report = summarise_load(workload, six_samples(), 2);
  const LoadTally& first = report.services[0];
  EXPECT_EQ(first.sent, 4u);
  EXPECT_EQ(first.in_time, 2u);
  EXPECT_EQ(first.late, 1u);
  EXPECT_EQ(first.refused, 1u);
  EXPECT_EQ(first.latency.count(), 3u);
  EXPECT_TRUE(LoadReport::kept(workload.services[0], first));
  EXPECT_EQ(report.services[1].unanswered, 1u);
  EXPECT_FALSE(LoadReport::kept(workload.services[1], report.services[1]));
  EXPECT_EQ(report.total.sent, 6u);
  EXPECT_DOUBLE_EQ(report.per_second(report.total.in_time), 1.5);
}

TEST(LoadReport, PageEscapesNamesAndMarksPromisesThatWereBroken) {
  const Workload workload = two_services();
  const auto samples = six_samples();
  const std::string page = load_html({.program = "tangram", .commit = "", .configuration = ""}, "Load", workload,
                                     samples, summarise_load(workload, samples, 2));
  EXPECT_THAT(page, HasSubstr("rank &lt;answers&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("rank <answers>")));
  EXPECT_THAT(page, HasSubstr("class=\"good\">50.0"));
  EXPECT_THAT(page, HasSubstr("class=\"bad\">50.0"));
}

TEST(LoadReport, HasNoShareWhereNothingWasSent) {
  const Workload workload = two_services();
  const auto samples = six_samples();
  const LoadReport report = summarise_load(workload, std::span(samples).first(4), 2);
  EXPECT_EQ(report.services[0].in_time_text(), "50.0 %");
  EXPECT_EQ(report.services[1].in_time_text(), "-");
  EXPECT_THAT(load_html({}, "Load", workload, samples, report), HasSubstr("<td class=\"\">-</td>"));
}

}  // namespace
}  // namespace tangram::report
