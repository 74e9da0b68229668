// Plans as pictures: the SVG and HTML of plan_view.h.
//
// One row for each device, drawn to the scale of its memory units, with slices coloured by the service on them. Unlike
// the terminal's mosaic every device has a row, up to a limit, because a picture can be scrolled.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "report/plan_view.h"

#include "report/colours.h"
#include "report/plot.h"

namespace tangram::report {
namespace {

// All lengths are in pixels of a picture 960 wide.
constexpr double kPlanWidth = 960;
constexpr double kPlanMargin = 36;
constexpr double kPlanHeader = 96;
constexpr double kPlanNameWidth = 150;
constexpr double kPlanRowHeight = 40;
constexpr double kPlanRowGap = 8;
constexpr double kPlanTileGap = 3;
constexpr double kPlanLegendItem = 210;
constexpr double kPlanLegendHeight = 24;
// A picture with more rows is slow to show; the subtitle says that devices are left out.
constexpr std::size_t kPlanRowsMax = 200;

struct PlanPoint {
  double x = 0;
  double y = 0;
};

std::string plan_text_at(PlanPoint at, const char* style, const char* anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n", at.x, at.y, style,
                     anchor, plot::escape(text));
}

// As much of the text as fits, at about seven pixels per letter. SVG cannot measure text, so this is an estimate.
std::string cut_to(std::string text, double width) {
  const auto letters = static_cast<std::size_t>(std::max(0.0, (width - 8) / 7));
  if (text.size() <= letters) return text;
  return letters < 3 ? "" : text.substr(0, letters - 1) + "…";
}

// Draws one plan. Services get colours in the order of the workload, so the same workload has the same colours in every
// plan.
class Picture {
 public:
  explicit Picture(const PlanStory& story) : story_(story) {
    for (const auto& service : story.problem.workload.services) {
      // Colours repeat after the last one; the tooltip and the name on the tile still tell services apart.
      const std::size_t next = colours_.size() % std::size(kServiceColours);
      colours_.try_emplace(service.name, kServiceColours[next]);
      names_.push_back(service.name);
    }
  }

  // The height is computed first, because the opening tag needs it.
  std::string draw() const {
    const auto& devices = story_.answer.plan.devices;
    const std::size_t rows = std::min(devices.size(), kPlanRowsMax);
    const double legend_y = kPlanHeader + static_cast<double>(rows) * (kPlanRowHeight + kPlanRowGap) + 14;
    const std::size_t columns = static_cast<std::size_t>((kPlanWidth - 2 * kPlanMargin) / kPlanLegendItem);
    const std::size_t lines = (names_.size() + columns - 1) / columns;
    const double height = legend_y + static_cast<double>(lines) * kPlanLegendHeight + kPlanMargin;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "role=\"img\">\n",
        kPlanWidth, height);
    svg += kPlanSvgStyle;
    svg += fmt::format("<rect x=\"0.5\" y=\"0.5\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"14\" class=\"panel\"/>\n",
                       kPlanWidth - 1, height - 1);
    svg += plan_text_at({kPlanMargin, 46}, "title", "start", title());
    svg += plan_text_at({kPlanMargin, 70}, "subtitle", "start", subtitle(rows));
    for (std::size_t i = 0; i < rows; ++i) {
      svg += row(devices[i], kPlanHeader + static_cast<double>(i) * (kPlanRowHeight + kPlanRowGap));
    }
    for (std::size_t i = 0; i < names_.size(); ++i) {
      svg += legend_item(names_[i], {kPlanMargin + static_cast<double>(i % columns) * kPlanLegendItem,
                                     legend_y + static_cast<double>(i / columns) * kPlanLegendHeight});
    }
    return svg + "</svg>\n";
  }

  std::string title() const {
    return fmt::format("{} services on {} device{}", story_.answer.services.size(), story_.answer.devices,
                       story_.answer.devices == 1 ? "" : "s");
  }

 private:
  std::string subtitle(std::size_t rows) const {
    const auto& answer = story_.answer;
    std::string text = fmt::format("planner {}, rule {}", story_.planner, to_string(story_.problem.options.rule));
    if (answer.bound > 0)
      text += fmt::format(", bound {:.4g}{}", answer.bound, answer.proved ? ", " + proved_text(answer) : "");
    if (rows < answer.plan.devices.size()) text += fmt::format("; the first {} devices are drawn", rows);
    return text;
  }

  std::string row(const PlannedDevice& device, double y) const {
    const Geometry& geometry = device.geometry;
    const double unit = (kPlanWidth - 2 * kPlanMargin - kPlanNameWidth) / geometry.units;
    std::string svg = plan_text_at({kPlanMargin, y + 17}, "small", "start", cut_to(device.name, kPlanNameWidth)) +
                      plan_text_at({kPlanMargin, y + 32}, "small", "start", cut_to(device.type, kPlanNameWidth));
    const double bar = kPlanMargin + kPlanNameWidth;
    // The whole bar is drawn as unused first; slices cover what is used.
    svg +=
        fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" rx=\"6\" class=\"unused\"/>\n",
                    bar, y, unit * geometry.units - kPlanTileGap, kPlanRowHeight);
    for (const auto& slice : device.slices) svg += tile(geometry, slice, {bar + slice.slice.start * unit, y}, unit);
    return svg;
  }

  // The tooltip has everything, also what has no room on the tile: "3g.40gb@4: rank 64:16 512:2".
  std::string tile(const Geometry& geometry, const PlannedSlice& slice, PlanPoint at, double unit) const {
    const auto& profile = geometry.profiles[slice.slice.profile];
    const double width = profile.units * unit - kPlanTileGap;
    std::vector<std::string> names;
    std::vector<std::string> details;
    for (const auto& replica : slice.replicas) {
      names.push_back(replica.service);
      for (const auto& bucket : replica.buckets) {
        details.push_back(fmt::format("{}:{}", bucket.size_max, bucket.batch_size));
      }
    }
    const bool free = names.empty();
    const std::string nobody = slice.reserved ? "reserved" : "free";
    const std::string hint = fmt::format("{}@{}: {} {}", profile.name, slice.slice.start,
                                         free ? nobody : text::join(names, " + "), text::join(details, " "));
    // A slice with several services has the colour of the first; its label names all of them.
    const std::string fill = free ? std::string(kFreeSliceColour) : colour(names[0]);
    std::string svg = fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" rx=\"6\" "
        "fill=\"{}\"><title>{}</title></rect>"
        "\n",
        at.x, at.y, width, kPlanRowHeight, fill, plot::escape(hint));
    svg += plan_text_at({at.x + width / 2, at.y + 17}, "tile", "middle",
                        cut_to(free ? nobody : text::join(names, " + "), width));
    return svg + plan_text_at({at.x + width / 2, at.y + 32}, "tile-small", "middle", cut_to(profile.name, width));
  }

  // A service that is not in the workload has the colour of a free slice.
  std::string colour(const std::string& service) const {
    const auto found = colours_.find(service);
    return found == colours_.end() ? kFreeSliceColour : found->second;
  }

  std::string legend_item(const std::string& name, PlanPoint at) const {
    return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"14\" rx=\"4\" fill=\"{}\"/>\n", at.x,
                       at.y, colour(name)) +
           plan_text_at({at.x + 22, at.y + 12}, "small", "start", cut_to(name, kPlanLegendItem - 22));
  }

  const PlanStory& story_;
  std::map<std::string, std::string> colours_;
  std::vector<std::string> names_;
};

}  // namespace

std::string plan_svg(const PlanStory& story) { return Picture(story).draw(); }

std::string plan_title(const PlanStory& story) { return Picture(story).title(); }

}  // namespace tangram::report
