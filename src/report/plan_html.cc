// The page of `tangram plan`: the picture, then what the table of the terminal says, as tables and bars.

#include <fmt/format.h>

#include <algorithm>

#include "report/colours.h"
#include "report/number_text.h"
#include "report/page.h"
#include "report/page_style.h"
#include "report/plan_view.h"
#include "report/plot.h"

namespace tangram::report {
namespace {

constexpr std::string_view kPlanPageStyle = R"(
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 18px;margin:14px 0;overflow-x:auto}
p.lead{font-size:17px;margin:8px 0 16px;max-width:85ch}figure{margin:0}td.text{white-space:normal}
)";

const Service& asked_for(const PlanStory& story, const std::string& name) {
  return *std::ranges::find(story.problem.workload.services, name, &Service::name);
}

// The colour of the service in the picture of the plan, and on every page: by its place in the workload.
std::string colour_of_service(const PlanStory& story, const std::string& name) {
  const auto& services = story.problem.workload.services;
  const auto found = std::ranges::find(services, name, &Service::name);
  return page::series_colour(static_cast<std::size_t>(found - services.begin()));
}

std::string lead_text(const PlanStory& story) {
  const auto& answer = story.answer;
  if (answer.status != plan::PlanStatus::planned) return "There is no plan: " + answer.reason;
  std::string text = fmt::format("{} device{}", answer.devices, answer.devices == 1 ? "" : "s");
  text += answer.proved ? fmt::format(", {}.", proved_text(answer))
                        : fmt::format("; none takes less than {:.4g}.", answer.bound);
  return text;
}

// For each certified service the latency at its percentile beside its promise, as shares of the promise, so that
// services of milliseconds and of seconds fit one picture.
std::string latency_bars(const PlanStory& story) {
  constexpr double kRow = 26;
  constexpr double kLeft = 190;
  constexpr double kWidth = 1080;
  std::vector<const plan::ServicePlan*> shown;
  for (const auto& service : story.answer.services) {
    if (service.verdict) shown.push_back(&service);
  }
  if (shown.empty()) return "";
  const double height = static_cast<double>(shown.size()) * kRow + 46;
  plot::Picture picture(kWidth, height, "latency as simulated, as a share of the promise");
  double most = 1.1;
  for (const auto* service : shown) {
    const double promise_ms = to_milliseconds(asked_for(story, service->service).slo.latency);
    most = std::max(most, to_milliseconds(service->verdict->latency) / promise_ms * 1.1);
  }
  const plot::Scale x{0, 100 * most, kLeft, kWidth - 150};
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto& service = *shown[i];
    const Service& asked = asked_for(story, service.service);
    const double share = to_milliseconds(service.verdict->latency) / to_milliseconds(asked.slo.latency);
    const double top = static_cast<double>(i) * kRow;
    const std::string text = fmt::format("{} of {} at p{:g}", latency_text(service.verdict->latency),
                                         latency_text(asked.slo.latency), asked.slo.percentile);
    picture.text(kLeft - 8, top + 16, service.service, plot::Picture::Anchor::end, "ink", 12);
    picture.rect({kLeft, top + 5, x(100 * share) - kLeft, kRow - 11}, colour_of_service(story, service.service), text,
                 0.9, 3);
    picture.text(std::max(x(100 * share), kLeft) + 8, top + 16, text);
  }
  const double bottom = static_cast<double>(shown.size()) * kRow + 4;
  picture.line(x(100), 0, x(100), bottom, "bad", true);
  picture.x_axis(x, bottom, 6, "%");
  picture.text((kLeft + kWidth - 150) / 2, height - 4,
               "latency as simulated, share of the promise (dashed: the promise)", plot::Picture::Anchor::middle);
  return picture.take();
}

std::string plan_services_table(const PlanStory& story) {
  std::string out =
      "<table><tr><th class=\"text\">service<th class=\"text\">promise<th>samples/s<th class=\"text\">slices"
      "<th>in time, simulated<th class=\"text\">at least<th>cost</tr>\n";
  for (std::size_t s = 0; s < story.answer.services.size(); ++s) {
    const auto& service = story.answer.services[s];
    const Service& asked = asked_for(story, service.service);
    std::string slices;
    for (const auto& group : service.groups) {
      slices += (slices.empty() ? "" : ", ") + fmt::format("{} x {}", group.count, group.mig_profile);
    }
    if (!service.shares_with.empty()) slices += fmt::format(", shared with {} more", service.shares_with.size());
    const auto& verdict = service.verdict;
    out += fmt::format(
        "<tr><td class=\"text\"><i class=\"dot\" style=\"background:var(--{})\"></i>{}<td class=\"text\">{:g} % in {}<td>{}"
        "<td class=\"text\">{}<td>{}<td class=\"text\">{}<td>{}</tr>\n",
        colour_of_service(story, service.service), plot::escape(service.service), asked.slo.percentile,
        latency_text(asked.slo.latency), number_text(service.rate_per_s), plot::escape(slices),
        verdict ? percent_text(verdict->attainment) : "-", verdict ? percent_text(verdict->attainment_low) : "-",
        number_text(story.costs.empty() ? 0 : story.costs[s]));
  }
  return out + "</table>\n";
}

}  // namespace

std::string plan_html(const PlanStory& story, const std::string& generator) {
  std::string out = page::opening({.title = plan_title(story), .program = generator, .style = kPlanPageStyle});
  out += fmt::format("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n", plot::escape(plan_title(story)),
                     plot::escape(lead_text(story)));
  if (story.answer.status == plan::PlanStatus::planned) {
    out += "<h2>Devices</h2>\n<figure>" + plan_svg(story) + "</figure>\n";
    out += "<h2>Services</h2>\n<div class=\"card\">" + plan_services_table(story) + "</div>\n";
    const std::string bars = latency_bars(story);
    if (!bars.empty())
      out += "<h2>How close to its promise each service is</h2>\n<div class=\"card\">" + bars + "</div>\n";
  }
  // The whole answer as the terminal has it, for those who compare.
  const Terminal wide{.width = 160};
  out +=
      "<details><summary>The same as text</summary><pre>" + plot::escape(plan_text(story, wide)) + "</pre></details>\n";
  if (story.explained) {
    out += "<details open><summary>Why</summary><pre>" + plot::escape(explanation_text(story, wide)) +
           "</pre></details>\n";
  }
  return out + fmt::format("<footer>{}, seed {}</footer>\n", plot::escape(generator), story.seed) + page::closing();
}

}  // namespace tangram::report
