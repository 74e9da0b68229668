#include "control/recut_clock.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

using namespace std::chrono_literals;

// 100 ms to create one slice and 150 ms two, 200 ms to destroy any, and a second to load.
RecutClock clock_of() { return {{.create_ms = {100, 150}, .destroy_ms = {200}}, 1s}; }

const Layout kEmpty;
const Layout kOne{{{.profile = 0, .start = 0}}};
const Layout kTwo{{{.profile = 0, .start = 0}, {.profile = 0, .start = 1}}};

TEST(RecutClock, CutsOnlyWhatDiffersAndLoads) {
  EXPECT_EQ(clock_of().time_of(kOne, kTwo, kTimeZero), 1100ms);
  EXPECT_EQ(clock_of().time_of(kTwo, kOne, kTimeZero), 1200ms);
  EXPECT_EQ(clock_of().time_of(kOne, kEmpty, kTimeZero), 200ms);
}

// One is asked for when another has been prepared, which took 1.1 s: the rest of its own 1.15 s is 50 ms. Those that
// are asked for at once take the whole time, each of them. A device that serves is not in preparation.
TEST(RecutClock, PreparesEmptyDevicesAtOnce) {
  RecutClock clock = clock_of();
  clock.begin_move(kTimeZero + 1s);
  EXPECT_EQ(clock.time_of(kEmpty, kOne, kTimeZero + 1s), 1100ms);
  EXPECT_EQ(clock.time_of(kEmpty, kTwo, kTimeZero + 1s), 1150ms);
  EXPECT_EQ(clock.time_of(kEmpty, kTwo, kTimeZero + 2100ms), 50ms);
  EXPECT_EQ(clock.time_of(kEmpty, kOne, kTimeZero + 2150ms), 0ms);
  EXPECT_EQ(clock.time_of(kOne, kTwo, kTimeZero + 2150ms), 1100ms);
  clock.begin_move(kTimeZero + 9s);
  EXPECT_EQ(clock.time_of(kEmpty, kOne, kTimeZero + 9s), 1100ms);
}

}  // namespace
}  // namespace tangram::control
