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
  EXPECT_EQ(clock_of().time_of(kOne, kTwo), 1100ms);
  EXPECT_EQ(clock_of().time_of(kTwo, kOne), 1200ms);
  EXPECT_EQ(clock_of().time_of(kOne, kEmpty), 200ms);
}

// They are asked for one after the other, and are ready together.
TEST(RecutClock, PreparesEmptyDevicesAtOnce) {
  RecutClock clock = clock_of();
  clock.begin_move();
  EXPECT_EQ(clock.time_of(kEmpty, kOne), 1100ms);
  EXPECT_EQ(clock.time_of(kEmpty, kTwo), 50ms);
  EXPECT_EQ(clock.time_of(kEmpty, kOne), 0ms);
  EXPECT_EQ(clock.time_of(kOne, kTwo), 1100ms);
  clock.begin_move();
  EXPECT_EQ(clock.time_of(kEmpty, kOne), 1100ms);
}

}  // namespace
}  // namespace tangram::control
