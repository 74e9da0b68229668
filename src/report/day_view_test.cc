#include "report/day_view.h"

#include <gtest/gtest.h>

#include <limits>

#include "report/text_width.h"

namespace tangram::report {
namespace {

TEST(Sparkline, RisesFromTheGroundToTheTop) {
  const double values[] = {0, 0.5, 1, 2, -1, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_EQ(sparkline(values), "▁▅██▁ ");
}

// One service on half a device; it was busy a quarter of the time.
RunView small_view() {
  RunView view;
  SliceView slice;
  slice.place = {0, 0};
  slice.compute_slices = 1;
  slice.services = {"classify"};
  slice.busy_share = 0.25;
  view.slices.push_back(slice);
  return view;
}

TEST(Utilisation, ShowsWhatASliceServesAndHowMuchOfTheTime) {
  lab::Scenario scenario;
  const Geometry& geometry = *find_geometry("a30");
  const auto layout = parse_layout(geometry, "1g.6gb@0").layout;
  scenario.deployment.devices.push_back({"edge-0", geometry, layout});
  RunView view = small_view();
  view.slices[0].place = layout.slices[0];
  const std::string picture =
      draw_utilisation(scenario, view, {.interactive = false, .colour = false, .width = 100}, 2);
  EXPECT_NE(picture.find("edge-0 │1g.6gb classify"), std::string::npos) << picture;
  EXPECT_NE(picture.find(" 25 %"), std::string::npos) << picture;
  EXPECT_NE(picture.find("░░░"), std::string::npos) << picture;
}

}  // namespace
}  // namespace tangram::report
