// The HTML report of a simulation: one file that needs no server, no network and no library.
//
// Pictures are SVG that is generated here with plot::Picture, and the page has a few lines of script for its tabs.
// Pictures and tables about slices and batches are bounded, so that the page of a large fleet still opens quickly.
// Numbers come from RunView, as in the tables of the terminal; time lines and distributions come from the metrics
// themselves. All text that comes from a scenario (names of services, devices, policies) passes through plot::escape().

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/text.h"
#include "report/number_text.h"
#include "report/page.h"
#include "report/page_style.h"
#include "report/plot.h"
#include "report/run_view.h"

namespace tangram::report {
namespace {

using plot::Box;
using plot::escape;
using plot::Picture;
using plot::Scale;
using Anchor = plot::Picture::Anchor;

// Limits of one picture or table. More rows cannot be read, and they would make the page slow.
constexpr std::size_t kGanttTracksMax = 24;
constexpr std::size_t kMosaicDevicesMax = 32;
constexpr std::size_t kRowsMax = 64;  // Of a table about slices.

// "-" without arrivals. "never" (from latency_text) means that so many requests had no answer that the quantile is
// infinite.
std::string quantile_text(const sim::Tally& tally, double q) {
  return tally.arrived == 0 ? "-" : latency_text(tally.latency_quantile(q));
}

// The CSS class that colours an Slo: good, bad, or none where nothing was counted and nothing can be judged.
std::string_view verdict(const TallyView& view) {
  return !view.slo || !view.counted() ? "" : view.kept() ? "good" : "bad";
}

std::string_view verdict(const RunView& view) { return !view.total.counted() ? "" : view.kept() ? "good" : "bad"; }

// "p99 within 120 ms".
std::string promise_text(const Slo& slo) {
  return fmt::format("p{} within {} ms", text::shortest(slo.percentile), text::shortest(to_milliseconds(slo.latency)));
}

// ---- Over time ----

// The part of the time line that pictures show; the same for all services, so that their axes agree.
struct Timeline {
  double step_s = 0;
  std::size_t steps = 0;  // Up to the last in which something arrived.
  double span_s() const { return step_s * static_cast<double>(steps); }
};

// Steps after the last arrival are cut off: a duration that is much longer than the traffic would squeeze the picture.
Timeline timeline_of(const sim::Metrics& metrics) {
  Timeline timeline{to_seconds(metrics.timeline_step), 0};
  for (const auto& steps : metrics.timeline) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].arrived > 0) timeline.steps = std::max(timeline.steps, i + 1);
    }
  }
  return timeline;
}

// Stacked areas of the rates of served, late and lost requests, with a strip of the share in time below.
std::string load_picture(const std::vector<sim::TimelineStep>& steps, const Timeline& timeline,
                         const std::string& colour) {
  constexpr double kWidth = 560;
  constexpr double kBottom = 168;
  double most = 0;
  for (const auto& step : steps) most = std::max(most, step.arrived / timeline.step_s);
  // The lower limits of 1e-9 keep the scale valid where nothing arrived: a scale needs a span greater than zero.
  const plot::Scale x{0, std::max(timeline.span_s(), 1e-9), 44, kWidth - 4};
  const plot::Scale y{0, std::max(most * 1.05, 1e-9), kBottom, 12};
  plot::Picture picture(kWidth, 214, "requests a second over time");
  picture.y_axis(y, x.from, x.to, 4);
  std::vector<double> at;
  std::vector<double> levels[4];
  for (std::size_t i = 0; i < timeline.steps; ++i) {
    const auto& step = steps[i];
    at.push_back(x((static_cast<double>(i) + 0.5) * timeline.step_s));
    double sum = 0;
    // Each level is the sum of those below it, so the areas touch and the upper edge is the rate of arrivals.
    levels[0].push_back(y(0));
    for (std::size_t k = 0; const double count : {step.served, step.late, step.lost}) {
      sum += count / timeline.step_s;
      levels[++k].push_back(y(sum));
    }
  }
  picture.area(at, levels[0], levels[1], colour, 0.75);
  picture.area(at, levels[1], levels[2], "warn", 0.9);
  picture.area(at, levels[2], levels[3], "bad", 0.9);
  // The strip below the areas shows the share in time of each step, because a few late requests are invisible in the
  // areas.
  for (std::size_t i = 0; i < timeline.steps; ++i) {
    const auto& step = steps[i];
    const double left = x(static_cast<double>(i) * timeline.step_s);
    const double right = x(static_cast<double>(i + 1) * timeline.step_s);
    const double share = step.arrived == 0 ? 1 : static_cast<double>(step.served) / step.arrived;
    // 0.15 pixels wider than the step: without the overlap browsers show hairlines between the boxes.
    const plot::Box box{left, kBottom + 5, right - left + 0.15, 9};
    const std::string tip = fmt::format("{}: {} arrived, {} in time, {} late, {} lost",
                                        plot::time_label(static_cast<double>(i) * timeline.step_s, timeline.span_s()),
                                        step.arrived, step.served, step.late, step.lost);
    if (step.arrived == 0) {
      picture.rect(box, "idle", tip);
      // Full colour only for a share that rounds to 100.0 %; from 99 % on pale, then the colours for warnings.
    } else if (share >= 0.9995) {
      picture.rect(box, "good", tip, 0.8);
    } else {
      picture.rect(box, share >= 0.99 ? "good" : share >= 0.9 ? "warn" : "bad", tip, share >= 0.99 ? 0.45 : 0.9);
    }
  }
  picture.time_axis({x.low, x.high, x.from, x.to}, kBottom + 18, 6);
  return picture.take();
}

// The longest queues of the services in each step, stacked. The maxima of one step need not occur at the same instant,
// so the sum is an upper bound of the requests that waited together.
std::string queue_picture(const sim::Metrics& metrics, const Timeline& timeline) {
  constexpr double kWidth = 1130;
  std::vector<double> sums(timeline.steps, 0);
  for (const auto& steps : metrics.timeline) {
    for (std::size_t i = 0; i < timeline.steps; ++i) sums[i] += static_cast<double>(steps[i].queue_max);
  }
  // At least 1, so that an empty queue gives an axis and not a division by zero.
  const double most = sums.empty() ? 1 : std::max(1.0, *std::ranges::max_element(sums));
  const plot::Scale x{0, std::max(timeline.span_s(), 1e-9), 44, kWidth - 4};
  const plot::Scale y{0, most * 1.05, 130, 10};
  plot::Picture picture(kWidth, 156, "waiting requests over time");
  picture.y_axis(y, x.from, x.to, 3);
  std::vector<double> at;
  for (std::size_t i = 0; i < timeline.steps; ++i) at.push_back(x((static_cast<double>(i) + 0.5) * timeline.step_s));
  std::vector<double> sum(timeline.steps, 0);
  for (std::size_t s = 0; s < metrics.timeline.size(); ++s) {
    std::vector<double> low;
    std::vector<double> high;
    for (std::size_t i = 0; i < timeline.steps; ++i) {
      low.push_back(y(sum[i]));
      sum[i] += static_cast<double>(metrics.timeline[s][i].queue_max);
      high.push_back(y(sum[i]));
    }
    picture.area(at, low, high, page::series_colour(s), 0.75);
  }
  picture.time_axis(x, 130, 10);
  return picture.take();
}

// ---- Distributions ----

// A histogram of latencies on a logarithmic axis, with the Slo as a dashed line.
std::string latency_picture(const TallyView& view, const std::string& colour) {
  constexpr double kWidth = 400;
  constexpr double kBottom = 180;
  constexpr std::size_t kBins = 56;
  const sim::Tally& tally = view.tally;
  plot::Picture picture(kWidth, 214, "distribution of latencies");
  if (tally.latency.empty()) {
    picture.text(kWidth / 2, 100, "no request was answered", Anchor::middle);
    return picture.take();
  }
  // The Slo is always inside the axis, even if all requests were far from it: the distance to it is what the reader
  // looks for.
  const double slo_ms = to_milliseconds(view.slo->latency);
  // Nanoseconds to milliseconds. A logarithmic axis cannot begin at zero, hence at least one nanosecond.
  const double least = 1e-6 * static_cast<double>(std::max<std::uint64_t>(1, tally.latency.min()));
  const double low = 0.9 * std::min(least, slo_ms);
  // At least half as wide again as `low`: if all latencies are equal the axis still has a span.
  const double high = 1.15 * std::max({1e-6 * static_cast<double>(tally.latency.max()), slo_ms, 1.5 * low});
  const plot::Scale x{low, high, 8, kWidth - 8, true};
  std::vector<double> bins(kBins, 0);
  // A bucket of the sketch is 0.4 % wide, usually narrower than a bin, so each goes whole into the bin of its middle.
  for (const auto& bucket : tally.latency.buckets()) {
    const double middle = 0.5e-6 * static_cast<double>(bucket.low + bucket.high);
    const double share = math::log(std::max(middle, low) / low) / math::log(high / low);
    bins[std::min(kBins - 1, static_cast<std::size_t>(share * kBins))] += static_cast<double>(bucket.count);
  }
  const plot::Scale y{0, *std::ranges::max_element(bins) * 1.08, kBottom, 22};
  const double width = (x.to - x.from) / kBins;
  for (std::size_t i = 0; i < kBins; ++i) {
    if (bins[i] == 0) continue;
    // The inverse of the logarithmic scale: the latency at which bin i begins.
    const double begin = low * math::exp(math::log(high / low) * static_cast<double>(i) / kBins);
    // A bin counts as late if it begins beyond the Slo, so the bin that contains the Slo has the colour of the service.
    const bool late = begin > slo_ms;
    const double top = std::min(y(bins[i]), kBottom - 0.8);  // Rare ones stay visible.
    picture.rect({x.from + static_cast<double>(i) * width + 0.4, top, width - 0.8, kBottom - top},
                 late ? "bad" : colour, fmt::format("about {:.3g} ms: {:.0f} requests", begin, bins[i]), 0.85);
  }
  picture.x_axis(x, kBottom, 4);
  picture.line(x(slo_ms), 16, x(slo_ms), kBottom, "ink", true);
  // The label goes to the side with more room.
  const bool right = x(slo_ms) > kWidth / 2;
  picture.text(x(slo_ms) + (right ? -5 : 5), 24, fmt::format("promise {} ms", text::shortest(slo_ms)),
               right ? Anchor::end : Anchor::start, "ink");
  return picture.take();
}

// The share of batches by number of samples. The axis ends at the largest batch that occurred.
std::string batch_picture(const CountHistogram& sizes, const std::string& colour) {
  constexpr double kWidth = 280;
  constexpr double kBottom = 180;
  std::size_t last = 1;
  double most = 1;
  for (std::size_t n = 1; n <= sizes.limit(); ++n) {
    if (sizes.count(n) > 0) last = n;
    most = std::max(most, static_cast<double>(sizes.count(n)));
  }
  // At least one, so that a service without batches gives an empty picture.
  const double total = std::max(1.0, static_cast<double>(sizes.total()));
  const plot::Scale y{0, 100 * most / total * 1.08, kBottom, 12};
  plot::Picture picture(kWidth, 214, "samples in a batch");
  const double left = 40;
  picture.y_axis(y, left, kWidth - 4, 3, "%");
  const double width = (kWidth - 4 - left) / static_cast<double>(last);
  // At most about eight labels have room.
  const std::size_t every = (last + 7) / 8;
  for (std::size_t n = 1; n <= last; ++n) {
    const double share = 100 * static_cast<double>(sizes.count(n)) / total;
    const double x = left + static_cast<double>(n - 1) * width;
    if (sizes.count(n) > 0) {
      const double top = std::min(y(share), kBottom - 0.8);
      picture.rect({x + width * 0.08, top, width * 0.84, kBottom - top}, colour,
                   fmt::format("{} samples: {} batches, {:.1f} %", n, sizes.count(n), share), 0.85);
    }
    if (n == 1 || n % every == 0) picture.text(x + width / 2, kBottom + 16, std::to_string(n), Anchor::middle);
  }
  picture.line(left, kBottom, kWidth - 4, kBottom, "axis");
  return picture.take();
}

// ---- The fleet ----

// The use of one slice, averaged over the processes that divide it.
struct SliceUse {
  std::vector<std::string> services;
  double busy = 0;
  double useful = 0;
  std::uint64_t batches = 0;
  int processes = 0;
};

SliceUse use_of(const RunView& view, std::size_t device, const Slice& slice) {
  SliceUse use;
  for (const auto& place : view.slices) {
    // Only the slices of the first plan: the picture shows the layouts with which the run began.
    if (!place.first_plan || place.device_id.index() != device || !(place.place == slice)) continue;
    use.services = place.services;
    use.busy += place.busy_share;
    use.useful += place.useful_share;
    use.batches += place.batches;
    ++use.processes;
  }
  use.busy /= std::max(1, use.processes);
  use.useful /= std::max(1, use.processes);
  return use;
}

// As much of a text as fits. 6.3 pixels is about the mean width of a letter at this font size.
std::string fitted(const std::string& text, double width) {
  const auto room = static_cast<std::size_t>(std::max(0.0, width) / 6.3);
  if (text.size() <= room) return text;
  return room < 2 ? "" : text.substr(0, room - 1) + "…";
}

// Draws one slice with its name, its services and its bar. `nobody` is the label of a slice without services.
void draw_slice(const MigProfile& profile, const plot::Box& box, const SliceUse& use, const RunView& view,
                const char* nobody, plot::Picture& picture) {
  picture.rect(box, "idle", "", 0.7, 5);
  const std::string services = use.services.empty() ? nobody : text::join(use.services, ", ");
  picture.text(box.x + 9, box.y + 19, fitted(profile.name, box.width - 12), Anchor::start, "ink", 12.5);
  picture.text(box.x + 9, box.y + 35, fitted(services, box.width - 14), Anchor::start, "muted", 11.5);
  if (use.services.empty()) return;
  const std::string busy = fmt::format("{:.0f} %", 100 * use.busy);
  // The number is left out where it would overlap the name; the tooltip has it.
  if (box.width > 110) picture.text(box.x + box.width - 9, box.y + 19, busy, Anchor::end, "ink", 12.5);
  // A slice with several services has the colour of the first.
  std::size_t service = 0;
  for (std::size_t s = 0; s < view.services.size(); ++s) {
    if (view.services[s].name == use.services.front()) service = s;
  }
  const std::string tip = fmt::format("busy {}, useful {}, {} batches, {}", percent_text(use.busy),
                                      percent_text(use.useful), use.batches, services);
  const plot::Box bar{box.x + 9, box.y + 44, box.width - 18, 9};
  // Three layers: the track, the busy share in a pale colour, and the useful share on top of it. Useful never exceeds
  // busy.
  picture.rect(bar, "card", tip, 1, 3);
  picture.rect({bar.x, bar.y, bar.width * use.busy, bar.height}, page::series_colour(service), tip, 0.4, 3);
  picture.rect({bar.x, bar.y, bar.width * use.useful, bar.height}, page::series_colour(service), tip, 1, 3);
}

// Devices as rows of slices, drawn to the scale of their memory units.
std::string mosaic_picture(const lab::Scenario& scenario, const RunView& view) {
  constexpr double kWidth = 1130;
  constexpr double kRow = 66;
  constexpr double kLeft = 110;
  const auto& devices = scenario.deployment.devices;
  const char* const nobody = scenario.training ? "training" : "free";  // Training has what no service has.
  const std::size_t rows = std::min(devices.size(), kMosaicDevicesMax);
  plot::Picture picture(kWidth, static_cast<double>(rows) * (kRow + 12), "utilisation of every slice");
  for (std::size_t d = 0; d < rows; ++d) {
    const double y = static_cast<double>(d) * (kRow + 12) + 4;
    const Geometry& geometry = devices[d].geometry;
    // Every device has the full width, so devices of different types have units of different widths.
    const double unit = (kWidth - kLeft - 4) / geometry.units;
    picture.text(kLeft - 12, y + kRow / 2 + 4, fitted(devices[d].name, kLeft), Anchor::end, "ink", 13);
    picture.frame({kLeft, y, unit * geometry.units, kRow}, "line", 7);
    for (const Slice& slice : devices[d].layout.slices) {
      const MigProfile& profile = geometry.profiles[slice.profile];
      draw_slice(profile, {kLeft + unit * slice.start + 3, y + 3, unit * profile.units - 6, kRow - 6},
                 use_of(view, d, slice), view, nobody, picture);
    }
  }
  return picture.take();
}

// The first batches as a Gantt chart with one track for each slice.
std::string gantt_picture(const RunView& view, const sim::Metrics& metrics) {
  constexpr double kWidth = 1130;
  constexpr double kRow = 22;
  // Shows the time in which the busiest track has some forty batches. With more, the boxes are thinner than a pixel.
  std::vector<std::size_t> seen(view.slices.size(), 0);
  TimePoint end = metrics.batches.back().end;
  for (const auto& batch : metrics.batches) {
    if (++seen[batch.slice.index()] > 40) {
      end = batch.start;
      break;
    }
  }
  const TimePoint begin = metrics.batches.front().start;
  const std::size_t rows = std::min(view.slices.size(), kGanttTracksMax);
  const double bottom = static_cast<double>(rows) * (kRow + 5) + 4;
  plot::Picture picture(kWidth, bottom + 26, "the first batches on every slice");
  const bool long_span = end - begin > std::chrono::seconds(3);
  const double unit = long_span ? 1 : 1e3;
  const double first = unit * to_seconds(begin);
  const plot::Scale x{first, std::max(unit * to_seconds(end), first + 1e-6), 190, kWidth - 8};
  const auto top_of = [&](std::size_t row) { return static_cast<double>(row) * (kRow + 5) + 2; };
  for (std::size_t i = 0; i < rows; ++i) {
    // The track is drawn as idle first; batches cover it.
    picture.rect({x.from, top_of(i), x.to - x.from, kRow}, "idle", "", 0.6, 3);
    picture.text(x.from - 10, top_of(i) + 15, view.slices[i].device + " " + view.slices[i].slice, Anchor::end, "ink",
                 12);
  }
  for (const auto& batch : metrics.batches) {
    // Not `break`: batches are recorded in order of their start, but tracks beyond the limit are in between.
    if (batch.slice.index() >= rows || batch.start >= end) continue;
    const double left = x(unit * to_seconds(batch.start));
    // At least one pixel, or a short batch on a long axis would vanish; 0.6 less than its length, so that neighbours
    // are distinct.
    const double width = std::max(1.0, x(unit * to_seconds(batch.end)) - left - 0.6);
    const double row = top_of(batch.slice.index());
    picture.rect({left, row, width, kRow}, page::series_colour(batch.service.index()),
                 fmt::format("{}: {} samples of {} requests, {:.2f} ms from {:.2f} ms",
                             view.services[batch.service.index()].name, batch.samples, batch.requests,
                             1e3 * to_seconds(batch.end - batch.start), 1e3 * to_seconds(batch.start)),
                 0.85, 2);
    if (width > 16) {
      picture.text(left + width / 2, row + 15, std::to_string(batch.samples), Anchor::middle, "card", 10.5);
    }
  }
  picture.x_axis(x, bottom, 8, long_span ? " s" : " ms");
  return picture.take();
}

// The input that ran, divided into real input (full colour) and padding (pale).
std::string padding_picture(const RunView& view) {
  constexpr double kWidth = 1130;
  constexpr double kRow = 24;
  plot::Picture picture(kWidth, static_cast<double>(view.services.size()) * (kRow + 8) + 4, "padding");
  const double left = 190;
  for (std::size_t s = 0; s < view.services.size(); ++s) {
    const double y = static_cast<double>(s) * (kRow + 8) + 2;
    const double whole = kWidth - left - 150;
    const double padding = view.services[s].padding_share;
    picture.text(left - 10, y + 17, view.services[s].name, Anchor::end, "ink", 12);
    picture.rect({left, y, whole * (1 - padding), kRow}, page::series_colour(s), "", 0.85, 3);
    picture.rect({left + whole * (1 - padding), y, whole * padding, kRow}, page::series_colour(s), "padding", 0.25, 3);
    picture.text(
        left + whole + 10, y + 17,
        view.services[s].tally.latency.empty() ? "no batch ran" : fmt::format("{} padding", percent_text(padding)),
        Anchor::start, "ink", 12);
  }
  return picture.take();
}

// ---- Comparison ----

// One group of bars for each service, one bar for each policy. `value` is divided by `high` to give the length.
template <typename Value, typename Text>
std::string bars_picture(const std::vector<RunView>& views, double high, const Value& value, const Text& label,
                         std::string_view what) {
  constexpr double kWidth = 540;
  constexpr double kRow = 17;
  const std::size_t groups = views[0].services.size();
  const double group_height = static_cast<double>(views.size()) * (kRow + 3) + 26;
  plot::Picture picture(kWidth, static_cast<double>(groups) * group_height, what);
  for (std::size_t s = 0; s < groups; ++s) {
    const double top = static_cast<double>(s) * group_height;
    picture.text(0, top + 14, views[0].services[s].name, Anchor::start, "ink", 12.5);
    for (std::size_t r = 0; r < views.size(); ++r) {
      const double y = top + 20 + static_cast<double>(r) * (kRow + 3);
      const double share = std::clamp(value(views[r].services[s]) / high, 0.0, 1.0);
      picture.text(86, y + 13, views[r].policy, Anchor::end, "muted", 11.5);
      picture.rect({94, y, 360, kRow}, "idle", "", 0.7, 3);
      picture.rect({94, y, 360 * share, kRow}, page::series_colour(s), "", r == 0 ? 0.95 : 0.55, 3);
      picture.text(462, y + 13, label(views[r].services[s]), Anchor::start, views[r].services[s].kept() ? "ink" : "bad",
                   11.5);
    }
  }
  return picture.take();
}

std::string comparison(const std::vector<RunView>& views) {
  std::string out = "<h2>Policies side by side</h2>\n<p class=\"why\">All policies received the same requests.</p>\n";
  // Shares near 100 % differ by what is missing, so the bars do not begin at 0 % but at the worst share, rounded down
  // to a multiple of 5 %. The caption says where they begin.
  double worst = 1;
  for (const auto& view : views) {
    for (const auto& service : view.services) worst = std::min(worst, service.tally.slo_attainment());
  }
  const double floor = std::floor(20 * worst - 1e-9) / 20;
  const auto attained = [&](const TallyView& t) { return (t.tally.slo_attainment() - floor) / (1 - floor); };
  // Each service is judged at the percentile of its own Slo.
  const auto promised = [](const TallyView& t) {
    return t.tally.arrived == 0 ? Duration{} : t.tally.latency_quantile(t.slo->percentile / 100);
  };
  const auto of_slo = [&](const TallyView& t) {
    // An infinite quantile becomes a full bar.
    return promised(t) == Duration::max() ? 1e9 : to_milliseconds(promised(t)) / to_milliseconds(t.slo->latency);
  };
  const auto promised_text = [&](const TallyView& t) {
    return fmt::format("p{} {}", text::shortest(t.slo->percentile), latency_text(promised(t)));
  };
  out += "<div class=\"panels\" style=\"grid-template-columns:1fr 1fr\">";
  out +=
      fmt::format("<figure class=\"wide\"><figcaption>Answered in time; bars begin at {:.0f} %</figcaption>{}</figure>",
                  100 * floor,
                  bars_picture(
                      views, 1, attained, [](const TallyView& t) { return in_time_text(t); }, "answered in time"));
  out += fmt::format(
      "<figure class=\"wide\"><figcaption>Latency at the promised percentile; a full bar is twice the promise or "
      "more</figcaption>{}</figure></div>\n",
      bars_picture(views, 2, of_slo, promised_text, "latency"));
  out +=
      "<div class=\"scroll\" style=\"margin-top:14px\"><table><tr><th>Policy</th><th>In "
      "time</th><th>Goodput/s</th><th>p50</th><th>p99</th>"
      "<th>Late</th><th>Rejected</th><th>Failed</th><th>Busy</th><th>Useful</th><th>Batches</th></tr>\n";
  for (const auto& view : views) {
    const sim::Tally& tally = view.total.tally;
    out += fmt::format(
        "<tr><td>{}</td><td "
        "class=\"{}\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td>{}</td></tr>\n",
        plot::escape(view.policy), verdict(view), in_time_text(view.total), rate_text(view.total.goodput_per_s),
        quantile_text(tally, 0.5), quantile_text(tally, 0.99), tally.late, tally.rejected_total(), tally.failed,
        view.busy_share ? percent_text(*view.busy_share) : "",
        view.useful_share ? percent_text(*view.useful_share) : "", view.batches);
  }
  return out + "</table></div>\n";
}

// ---- One run ----

// `kind` is a CSS class, as verdict() returns it.
std::string card(std::string_view value, std::string_view name, std::string_view kind = {}) {
  return fmt::format("<div class=\"card {}\"><b>{}</b><span>{}</span></div>", kind, value, name);
}

std::string cards(const RunView& view) {
  const sim::Tally& tally = view.total.tally;
  // A service without counted requests neither keeps nor breaks its Slo, so it is not in the total either.
  const auto kept = std::ranges::count_if(view.services, [](const TallyView& s) { return s.counted() && s.kept(); });
  const auto judged = std::ranges::count_if(view.services, &TallyView::counted);
  std::string out = "<div class=\"cards\">";
  out += card(in_time_text(view.total), "answered in time", verdict(view));
  out += card(judged == 0 ? "-" : fmt::format("{} of {}", kept, judged), "promises kept", verdict(view));
  out += card(thousands_text(tally.arrived), "requests");
  out += card(rate_text(view.total.goodput_per_s), "in time, a second");
  out += card(quantile_text(tally, 0.99), "p99 of all requests");
  if (view.busy_share) out += card(percent_text(*view.busy_share), "of compute slices busy");
  if (view.useful_share) out += card(percent_text(*view.useful_share), "useful work");
  return out + "</div>\n";
}

// One service: its key figures, its load over time, its latencies and its batch sizes.
std::string service_card(const lab::Run& run, const RunView& view, const Timeline& timeline, std::size_t s) {
  const TallyView& service = view.services[s];
  const sim::Metrics& metrics = run.result.metrics;
  const std::string colour = page::series_colour(s);
  std::string out = fmt::format(
      "<div class=\"service\"><header><h3><i class=\"dot\" style=\"background:var(--{})\"></i>{}</h3>"
      "<span class=\"badge {}\">{} in time</span><small>{}</small><small>{} requests, {}/s</small><small>p50 {}, p99 "
      "{}</small>"
      "<small>batches of {:.1f}</small><small>{:.1f} waiting</small></header><div class=\"panels\">",
      colour, plot::escape(service.name), verdict(service), in_time_text(service), promise_text(*service.slo),
      thousands_text(service.tally.arrived), rate_text(service.arrived_per_s), quantile_text(service.tally, 0.5),
      quantile_text(service.tally, 0.99), service.batch_mean, service.queue.mean);
  if (!metrics.timeline.empty()) {
    out += fmt::format("<figure>{}<figcaption>requests a second, and the share in time</figcaption></figure>",
                       load_picture(metrics.timeline[s], timeline, colour));
  }
  out += fmt::format("<figure>{}<figcaption>latency in ms, logarithmic</figcaption></figure>",
                     latency_picture(service, colour));
  out += fmt::format("<figure>{}<figcaption>samples in a batch</figcaption></figure></div></div>\n",
                     batch_picture(metrics.service_batch_sizes(s), colour));
  return out;
}

// One row of the table of numbers, for a service, a bucket or a tenant.
std::string tally_rows(const std::string& name, const std::string& bucket, const TallyView& view) {
  const sim::Tally& tally = view.tally;
  std::string out =
      fmt::format("<tr><td>{}</td><td class=\"text\">{}</td><td>{}</td><td class=\"{}\">{}</td>", plot::escape(name),
                  plot::escape(bucket), tally.arrived, verdict(view), in_time_text(view));
  for (const auto& q : kQuantiles) out += fmt::format("<td>{}</td>", quantile_text(tally, q.share));
  const std::string batch = view.batch_mean > 0 ? fmt::format("{:.1f}", view.batch_mean) : "";
  return out + fmt::format("<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}</td></tr>\n", tally.late,
                           tally.rejected_total(), tally.failed, batch,
                           tally.latency.empty() ? "-" : percent_text(view.padding_share), view.queue.mean);
}

std::string tally_table(const RunView& view) {
  std::string out =
      "<div class=\"scroll\"><table><tr><th>Service</th><th class=\"text\">Input size</th><th>Requests</th><th>In "
      "time</th>";
  for (const auto& q : kQuantiles) out += fmt::format("<th>{}</th>", q.title);
  out +=
      "<th>Late</th><th>Rejected</th><th>Failed</th>"
      "<th>Batch</th><th>Padding</th><th>Waiting</th></tr>\n";
  for (std::size_t s = 0; s < view.services.size(); ++s) {
    out += tally_rows(view.services[s].name, "all", view.services[s]);
    // With one bucket its row would repeat the row of the service.
    if (view.buckets[s].size() < 2) continue;
    for (const auto& bucket : view.buckets[s]) out += tally_rows("", bucket.name, bucket);
  }
  for (const auto& tenant : view.tenants) out += tally_rows(tenant.name, "", tenant);
  return out + "</table></div>\n";
}

// Large fleets have no sketch for each slice, because a sketch takes some kilobytes.
std::string slice_quantile(const SliceView& slice, double q) {
  if (!slice.latency || slice.latency->empty()) return "-";
  return latency_text(Duration(static_cast<std::int64_t>(slice.latency->quantile(q))));
}

// Rows beyond kRowsMax are counted below the table, so that the reader knows that they exist.
std::string slice_table(const RunView& view) {
  std::string out =
      "<div class=\"scroll\"><table><tr><th>Device</th><th class=\"text\">Slice</th><th "
      "class=\"text\">Serves</th><th>Busy</th>"
      "<th>Useful</th><th>Batches</th><th>Samples</th><th>In "
      "time</th><th>Late</th><th>p50</th><th>p99</th><th>Padding</th>"
      "<th>Waiting</th></tr>\n";
  for (std::size_t i = 0; i < std::min(view.slices.size(), kRowsMax); ++i) {
    const SliceView& slice = view.slices[i];
    out += fmt::format(
        "<tr><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}</td></tr>\n",
        plot::escape(slice.device), plot::escape(slice.slice) + (slice.first_plan ? "" : " (later plan)"),
        plot::escape(text::join(slice.services, ", ")), percent_text(slice.busy_share),
        percent_text(slice.useful_share), slice.batches, slice.samples, slice.served, slice.late,
        slice_quantile(slice, 0.5), slice_quantile(slice, 0.99),
        slice.batches == 0 ? "-" : percent_text(slice.padding_share), slice.queue_mean);
  }
  out += "</table></div>\n";
  if (view.slices.size() > kRowsMax)
    out += fmt::format("<p class=\"sub\">and {} more</p>", view.slices.size() - kRowsMax);
  return out;
}

// Services have the same colours in all pictures of the page, in their order in the workload.
std::string legend(const RunView& view) {
  std::string out = "<div class=\"legend\">";
  for (std::size_t s = 0; s < view.services.size(); ++s) {
    out += fmt::format("<span><i class=\"dot\" style=\"background:var(--{})\"></i>{}</span>", page::series_colour(s),
                       plot::escape(view.services[s].name));
  }
  return out + "</div>";
}

// One tab. All runs are in the page, and all but the first are hidden until the script shows them.
std::string run_section(const lab::Scenario& scenario, const lab::Run& run, const RunView& view, bool hidden) {
  const sim::Metrics& metrics = run.result.metrics;
  const Timeline timeline = timeline_of(metrics);
  std::string out =
      fmt::format("<section class=\"run\" id=\"run-{}\"{}>\n", plot::escape(run.policy), hidden ? " hidden" : "");
  out += fmt::format("<p class=\"lead\">{}</p>\n", plot::escape(text::join(story_of(view, run), " ")));
  out += cards(view);
  out +=
      "<h2>Services</h2>\n<p class=\"why\">In colour: answered in time. <span "
      "style=\"color:var(--warn)\">Late</span> and <span style=\"color:var(--bad)\">rejected or failed</span> are on "
      "top; the strip below shows the share in time.</p>\n";
  for (std::size_t s = 0; s < view.services.size(); ++s) out += service_card(run, view, timeline, s);
  if (run.training) out += training_html(*run.training);
  out +=
      "<h2>The fleet</h2>\n<p class=\"why\">The bar of a slice is time: pale while it was busy, full where the work "
      "was useful, that is, neither padding nor what a fuller batch would have saved.</p>\n<div class=\"wide\">" +
      mosaic_picture(scenario, view) + legend(view) + "</div>\n";
  if (!metrics.batches.empty()) {
    out +=
        "<h2>The first batches</h2>\n<p class=\"why\">Each box is a batch with its number of samples.</p>\n"
        "<div class=\"wide\">" +
        gantt_picture(view, metrics) + legend(view) + "</div>\n";
  }
  if (timeline.steps > 0) {
    // The sentence gives the mean and p99 over arrivals; the picture shows the maxima of each step.
    const QuantileSketch& depth = metrics.queue_depth;
    out += fmt::format(
        "<h2>Waiting requests</h2>\n<p class=\"why\">The longest queue of each service in each step. Arrivals found "
        "{:.1f} requests of all services waiting on average, {} at p99.</p>\n<div class=\"wide\">{}{}</div>\n",
        depth.mean(), depth.quantile(0.99), queue_picture(metrics, timeline), legend(view));
  }
  out +=
      "<h2>Padding</h2>\n<p class=\"why\">Of the input that ran, how much was filled up to the bucket.</p>\n"
      "<div class=\"wide\">" +
      padding_picture(view) + "</div>\n";
  out += "<h2>Numbers</h2>\n" + tally_table(view) + "<p></p>" + slice_table(view);
  return out + "</section>\n";
}

}  // namespace

std::string html_report(const ReportHead& head, const lab::Scenario& scenario, std::span<const lab::Run> runs) {
  std::vector<RunView> views;
  for (const auto& run : runs) views.push_back(view_of(scenario, run));
  std::string out = page::opening({.title = scenario.name, .program = head.program, .style = kRunStyle});
  out += fmt::format("<h1>{}</h1>\n<p class=\"sub\">{} of {} services on {} {}, in virtual time; seed {}{}</p>\n",
                     plot::escape(scenario.name), long_span_text(views[0].end_s), views[0].services.size(),
                     scenario.deployment.devices.size(), scenario.deployment.devices.size() == 1 ? "device" : "devices",
                     head.seed, views.size() == 1 ? ", policy " + plot::escape(views[0].policy) : "");
  // A single run needs neither comparison nor tabs, and then the page contains no script at all.
  if (views.size() > 1) {
    out += comparison(views) + "<nav role=\"tablist\">";
    for (std::size_t i = 0; i < views.size(); ++i) {
      out += fmt::format("<button role=\"tab\" data-run=\"run-{0}\" aria-selected=\"{1}\">{0}</button>",
                         plot::escape(views[i].policy), i == 0);
    }
    out += "</nav>\n";
  }
  for (std::size_t i = 0; i < views.size(); ++i) out += run_section(scenario, runs[i], views[i], i > 0);
  out += fmt::format("<details><summary>Configuration</summary><pre>{}</pre></details>\n",
                     plot::escape(head.configuration));
  out += fmt::format(
      "<footer>{}{}; digest {:016x}. Latencies are within 0.4 %; every arrival counts; a request without an answer "
      "has infinite latency.</footer>\n</main>\n",
      plot::escape(head.program), head.commit.empty() ? "" : ", commit " + plot::escape(head.commit), views[0].digest);
  if (views.size() > 1) out += fmt::format("<script>{}</script>\n", kRunScript);
  return out + "</body>\n</html>\n";
}

}  // namespace tangram::report
