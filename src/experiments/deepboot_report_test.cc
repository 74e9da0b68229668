#include "experiments/deepboot_report.h"

#include <gtest/gtest.h>

namespace tangram::experiments {
namespace {

TEST(SharedReport, ShowsWhoHadTheGpus) {
  lab::SharedResult result;
  result.jct_mean_s = 120;
  result.jct_p99_s = 300;
  result.overheads_s = {2};
  result.overhead_mean_s = 2;
  result.timeline = {{.at_s = 0, .training = 40, .running = 24}, {.at_s = 60, .training = 64}};
  const SharedReportRow row{"<w>", "tangram", "whole_gpu", 3, 0.5, &result, 64};
  const std::string html = shared_report_html(std::vector{row});
  EXPECT_NE(html.find("&lt;w&gt;"), std::string::npos);
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_NE(html.find("<td>whole_gpu<td>3<td>"), std::string::npos);
  EXPECT_NE(html.find(">p99 JCT<"), std::string::npos);
  EXPECT_NE(html.find("var(--training)"), std::string::npos);
}

}  // namespace
}  // namespace tangram::experiments
