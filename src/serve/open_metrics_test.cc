#include <gtest/gtest.h>

#include "serve/reports.h"

namespace tangram::serve {
namespace {

TEST(OpenMetrics, NamesTheFamilyOfACounterWithoutTotalAndMarksTheEnd) {
  EXPECT_EQ(to_open_metrics("# HELP a_total What.\n# TYPE a_total counter\na_total{x=\"1\"} 3\n"
                            "# HELP b What else.\n# TYPE b gauge\nb 4\n"),
            "# HELP a What.\n# TYPE a counter\na_total{x=\"1\"} 3\n"
            "# HELP b What else.\n# TYPE b gauge\nb 4\n# EOF\n");
}

TEST(OpenMetrics, ACounterUnderAnotherNameIsOfUnknownType) {
  EXPECT_EQ(to_open_metrics("# HELP nv_ok Ok.\n# TYPE nv_ok counter\nnv_ok 1\n"),
            "# HELP nv_ok Ok.\n# TYPE nv_ok unknown\nnv_ok 1\n# EOF\n");
}

}  // namespace
}  // namespace tangram::serve
