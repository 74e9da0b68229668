// The run in a few sentences: whether each Slo was kept, which service had the least to spare, and which slice was
// busiest.
//
// The sentences are chosen from the numbers and never guess at causes.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "report/number_text.h"
#include "report/plot.h"
#include "report/run_view.h"

namespace tangram::report {
namespace {

constexpr std::size_t kWindows = 24;  // Hours, of a day.

std::string verdict_text(const RunView& view) {
  std::size_t judged = 0;
  std::vector<std::string> broken;
  for (const auto& service : view.services) {
    if (!service.counted()) continue;
    ++judged;
    if (!service.kept()) broken.push_back(service.name);
  }
  if (judged == 0) return "No request was counted, so it is unknown whether the promises hold.";
  if (broken.empty()) return judged == 1 ? "The promise was kept." : "Every promise was kept.";
  return fmt::format("{} of {} promises {} broken: {}.", broken.size(), judged, broken.size() == 1 ? "was" : "were",
                     text::join(broken, ", "));
}

// The used share of the error budget. With an Slo of p99, 0.5 % late or lost requests are a value of 0.5; above 1 the
// Slo is broken. It makes services with different percentiles comparable.
double spent(const TallyView& service) {
  return (1 - service.tally.slo_attainment()) / (1 - service.slo->percentile / 100);
}

// "between 18:00 and 19:00": the window in which the service lost the most requests; empty without a time line or
// losses.
std::string worst_window(const sim::Metrics& metrics, std::size_t service) {
  if (metrics.timeline.empty()) return "";
  const auto& steps = metrics.timeline[service];
  const std::size_t width = (steps.size() + kWindows - 1) / kWindows;
  std::size_t worst = 0;
  std::uint64_t most = 0;
  for (std::size_t begin = 0; begin < steps.size(); begin += width) {
    std::uint64_t lost = 0;
    for (std::size_t i = begin; i < std::min(begin + width, steps.size()); ++i) lost += steps[i].late + steps[i].lost;
    // The first of several equal windows is named.
    if (lost <= most) continue;
    most = lost;
    worst = begin;
  }
  if (most == 0) return "";
  const double step_s = to_seconds(metrics.timeline_step);
  const double span_s = step_s * static_cast<double>(steps.size());
  const auto label = [&](std::size_t step) { return plot::time_label(step_s * static_cast<double>(step), span_s); };
  return fmt::format("; it lost most between {} and {}", label(worst), label(std::min(worst + width, steps.size())));
}

std::string tightest_text(const RunView& view, const sim::Metrics& metrics) {
  std::optional<std::size_t> tightest;
  for (std::size_t s = 0; s < view.services.size(); ++s) {
    if (!view.services[s].counted()) continue;
    if (!tightest || spent(view.services[s]) > spent(view.services[*tightest])) tightest = s;
  }
  if (!tightest) return "";
  if (view.total.tally.served == view.total.tally.arrived) return "Every request was answered in time.";
  const TallyView& service = view.services[*tightest];
  return fmt::format("{} had the smallest margin: {} in time where {} % were promised{}.", service.name,
                     percent_text(service.tally.slo_attainment()), text::shortest(service.slo->percentile),
                     worst_window(metrics, *tightest));
}

std::string busiest_text(const RunView& view) {
  std::vector<const SliceView*> slices;
  for (const auto& slice : view.slices) {
    if (slice.batches > 0) slices.push_back(&slice);
  }
  // With one slice there is nothing to compare.
  if (slices.size() < 2) return "";
  const auto [least, most] = std::ranges::minmax(slices, {}, [](const SliceView* slice) { return slice->busy_share; });
  return fmt::format("The busiest slice, {} of {}, was busy {} of the time; the least busy, {} of {}, {}.", most->slice,
                     most->device, percent_text(most->busy_share), least->slice, least->device,
                     percent_text(least->busy_share));
}

}  // namespace

std::vector<std::string> story_of(const RunView& view, const lab::Run& run) {
  std::vector<std::string> sentences{verdict_text(view), tightest_text(view, run.result.metrics), busiest_text(view)};
  std::erase_if(sentences, [](const std::string& sentence) { return sentence.empty(); });
  return sentences;
}

}  // namespace tangram::report
