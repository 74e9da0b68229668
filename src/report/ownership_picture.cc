// GPUs over time by owner, as stacked areas.
//
// The height of the picture is the number of GPUs, so what is left above the areas belongs to no one and needs no area.

#include "report/ownership_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "report/plot.h"

namespace tangram::report {
namespace {

using lab::Ownership;

constexpr double kOwnersWidth = 900;
constexpr double kOwnersHeight = 240;
constexpr double kOwnersLeft = 50;
constexpr double kOwnersBottom = 205;
constexpr double kOwnersTop = 16;

// One table for the picture and its key, so that colours and names cannot disagree.
struct Kind {
  const char* name;
  const char* colour;
  double Ownership::*count;
};
// From the bottom of the picture up.
constexpr Kind kKinds[] = {{"training", "training", &Ownership::training},
                           {"running requests", "running", &Ownership::running},
                           {"protected for requests", "guarded", &Ownership::guarded},
                           {"asleep: free to lend", "asleep", &Ownership::asleep}};

}  // namespace

// Areas are stacked by adding up: the upper edge of one owner is the lower edge of the next.
std::string ownership_picture(const std::vector<Ownership>& timeline, double gpus) {
  const double end_s = timeline.empty() ? 1 : std::max(timeline.back().at_s, 1.0);
  plot::Picture picture(kOwnersWidth, kOwnersHeight, "GPUs over time, by owner");
  const plot::Scale across{0, end_s, kOwnersLeft, kOwnersWidth - 10, false};
  const plot::Scale upwards{0, gpus, kOwnersBottom, kOwnersTop, false};
  std::vector<double> x;
  std::vector<double> low(timeline.size(), 0);
  for (const auto& now : timeline) x.push_back(across(now.at_s));
  for (const auto& kind : kKinds) {
    std::vector<double> high = low;
    for (std::size_t i = 0; i < timeline.size(); ++i) high[i] += timeline[i].*kind.count;
    std::vector<double> y_low;
    std::vector<double> y_high;
    for (std::size_t i = 0; i < timeline.size(); ++i) {
      y_low.push_back(upwards(low[i]));
      y_high.push_back(upwards(high[i]));
    }
    if (!timeline.empty()) picture.area(x, y_low, y_high, kind.colour, 0.9);
    low = std::move(high);
  }
  // Axes are drawn after the areas, so that grid lines stay visible on them.
  picture.y_axis(upwards, kOwnersLeft, kOwnersWidth - 10, 4, " GPUs");
  picture.time_axis(across, kOwnersBottom, 8);
  return picture.take();
}

std::string ownership_key() {
  std::string html = "<p class=\"key\">";
  for (const auto& kind : kKinds) {
    html += fmt::format(
        "<span style=\"display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 "
        "1em;background:var(--{})\"></span>{}",
        kind.colour, kind.name);
  }
  return html + ", and unused above.</p>\n";
}

}  // namespace tangram::report
