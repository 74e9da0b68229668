#include "cli/parallel.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

namespace tangram::cli {
namespace {

TEST(RunAll, DoesEveryPieceOnce) {
  std::vector<int> times(1000, 0);
  run_all(times.size(), [&](std::size_t i) { ++times[i]; });
  EXPECT_EQ(std::accumulate(times.begin(), times.end(), 0), 1000);
  EXPECT_EQ(times, std::vector<int>(1000, 1));
}

TEST(RunAll, ReturnsAtOnceWhenThereIsNothingToDo) {
  run_all(0, [](std::size_t) { FAIL(); });
}

TEST(RunAll, PassesOnTheExceptionOfAPiece) {
  EXPECT_THROW(run_all(8,
                       [](std::size_t i) {
                         if (i == 3) throw std::runtime_error("no");
                       }),
               std::runtime_error);
}

}  // namespace
}  // namespace tangram::cli
