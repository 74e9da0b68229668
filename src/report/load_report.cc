// The report of a load test (`tangram load`).
//
// Load is open: a request is sent when it is due, whatever became of those before it, and its latency counts from then
// and not from when it was sent. Otherwise a slow server would slow the client down and hide its own delay (coordinated
// omission). How late the client itself was is reported separately.

#include "report/load_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "base/text.h"
#include "report/number_text.h"
#include "report/page.h"
#include "report/page_style.h"
#include "report/plot.h"

namespace tangram::report {
namespace {

using plot::Box;
using plot::escape;
using plot::Picture;
using plot::Scale;
using Anchor = plot::Picture::Anchor;

// Points that a picture can show; of more, every n-th is drawn.
constexpr std::size_t kPointsMax = 3000;

// Negative durations count as zero, because a sketch holds unsigned numbers.
void count(const LoadSample& sample, Duration promise, LoadTally& tally) {
  ++tally.sent;
  tally.sent_after.add(static_cast<std::uint64_t>(std::max<std::int64_t>(0, sample.sent_after.count())));
  switch (sample.end) {
    case LoadEnd::answered:
      ++(sample.latency <= promise ? tally.in_time : tally.late);
      tally.latency.add(static_cast<std::uint64_t>(std::max<std::int64_t>(0, sample.latency.count())));
      return;
    case LoadEnd::refused: ++tally.refused; return;
    case LoadEnd::failed: ++tally.failed; return;
    case LoadEnd::unanswered: ++tally.unanswered; return;
  }
}

// The latency axis of both pictures of a service: from the fastest answer to the slowest, with the Slo always inside.
plot::Scale latency_scale(const Service& service, const LoadTally& tally, double from, double to) {
  const double promise = to_milliseconds(service.slo.latency);
  // At least a microsecond, because a logarithmic axis cannot begin at zero.
  const double least = 1e-6 * static_cast<double>(std::max<std::uint64_t>(1000, tally.latency.min()));
  const double low = 0.8 * std::min(least, promise);
  return {low, 1.25 * std::max(1e-6 * static_cast<double>(tally.latency.max()), promise), from, to, true};
}

// Each answer as a dot at the time of sending and its latency. Requests without an answer are at the top, above the
// axis.
std::string time_picture(const Service& service, std::size_t index, std::span<const LoadSample> samples,
                         const LoadTally& tally, double seconds) {
  plot::Picture picture(620, 220, "latencies over time");
  const plot::Scale x{0, std::max(seconds, 1e-3), 46, 612};
  const plot::Scale y = latency_scale(service, tally, 188, 18);
  picture.y_axis(y, x.from, x.to, 4, " ms");
  picture.x_axis(x, 188, 8, " s");
  // Every n-th request keeps the page small and the shape of the cloud; a random sample would change with every run.
  const std::uint64_t step = 1 + tally.sent / kPointsMax;
  std::uint64_t seen = 0;
  for (const auto& sample : samples) {
    if (sample.service != index || seen++ % step != 0) continue;
    const bool answered = sample.end == LoadEnd::answered;
    const bool good = answered && sample.latency <= service.slo.latency;
    // 10 pixels from the top is above the scale, which begins at 18.
    const double at = answered ? y(std::max(y.low, to_milliseconds(sample.latency))) : 10;
    picture.rect({x(sample.at_s) - 1, at - 1, 2, 2}, good ? page::series_colour(index) : "bad", {}, 0.7);
  }
  const double promise = y(to_milliseconds(service.slo.latency));
  picture.line(x.from, promise, x.to, promise, "ink", true);
  return picture.take();
}

// The distribution of latencies, with the Slo as a dashed line.
std::string latency_picture(const Service& service, std::size_t index, const LoadTally& tally) {
  constexpr std::size_t kBins = 48;
  plot::Picture picture(400, 220, "distribution of latencies");
  if (tally.latency.empty()) {
    picture.text(200, 100, "no request was answered", Anchor::middle);
    return picture.take();
  }
  const plot::Scale x = latency_scale(service, tally, 8, 392);
  std::vector<double> bins(kBins, 0);
  for (const auto& bucket : tally.latency.buckets()) {
    const double middle = 0.5e-6 * static_cast<double>(bucket.low + bucket.high);
    const double share = math::log(std::max(middle, x.low) / x.low) / math::log(x.high / x.low);
    bins[std::min(kBins - 1, static_cast<std::size_t>(share * kBins))] += static_cast<double>(bucket.count);
  }
  const plot::Scale y{0, *std::ranges::max_element(bins) * 1.08, 188, 22};
  const double width = (x.to - x.from) / kBins;
  for (std::size_t i = 0; i < kBins; ++i) {
    if (bins[i] == 0) continue;
    const double begin = x.low * math::exp(math::log(x.high / x.low) * static_cast<double>(i) / kBins);
    const double top = std::min(y(bins[i]), 187.2);  // Rare ones stay visible.
    picture.rect({x.from + static_cast<double>(i) * width + 0.4, top, width - 0.8, 188 - top},
                 begin > to_milliseconds(service.slo.latency) ? "bad" : page::series_colour(index),
                 fmt::format("about {:.3g} ms: {:.0f} requests", begin, bins[i]), 0.85);
  }
  picture.x_axis(x, 188, 4, " ms");
  const double promise = x(to_milliseconds(service.slo.latency));
  picture.line(promise, 16, promise, 188, "ink", true);
  return picture.take();
}

// Failed and unanswered requests share a column: the client got no usable answer from either.
std::string row(const Service& service, const LoadTally& tally, const LoadReport& report) {
  return fmt::format(
      "<tr><td>{}</td><td>{:g} ms for {:g} %</td><td>{}</td><td>{:.1f}</td><td class=\"{}\">{}</td><td>{:.1f}</td>"
      "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
      plot::escape(service.name), to_milliseconds(service.slo.latency), service.slo.percentile, tally.sent,
      report.per_second(tally.sent),
      tally.sent == 0                    ? ""
      : LoadReport::kept(service, tally) ? "good"
                                         : "bad",
      tally.in_time_text(), report.per_second(tally.in_time), quantile_ms_text(tally.latency, 0.5),
      quantile_ms_text(tally.latency, 0.95), quantile_ms_text(tally.latency, 0.99), tally.late, tally.refused,
      tally.failed + tally.unanswered);
}

}  // namespace

std::string LoadTally::in_time_text() const { return sent == 0 ? "-" : percent_text(in_time_share()); }

LoadReport summarise_load(const Workload& workload, std::span<const LoadSample> samples, double seconds) {
  LoadReport report;
  report.services.resize(workload.services.size());
  report.seconds = seconds;
  for (const auto& sample : samples) {
    // The total judges each request by the Slo of its own service.
    const Duration promise = workload.services[sample.service].slo.latency;
    count(sample, promise, report.services[sample.service]);
    count(sample, promise, report.total);
  }
  return report;
}

std::string load_html(const ReportHead& head, const std::string& title, const Workload& workload,
                      std::span<const LoadSample> samples, const LoadReport& report) {
  std::string out = page::opening({.title = title, .program = head.program, .style = kLoadStyle});
  out += fmt::format(
      "<h1>{}</h1>\n<p>{} requests in {:.1f} s. Each was sent when it was due, even if earlier ones had no answer "
      "yet; its latency counts from then. The client itself sent {} ms late at the 99th percentile. Seed {}.</p>\n",
      plot::escape(title), report.total.sent, report.seconds, quantile_ms_text(report.total.sent_after, 0.99),
      head.seed);
  out +=
      "<div class=\"box\"><table>\n<tr><th>Service</th><th>Promise</th><th>Sent</th><th>/s</th><th>In time</th>"
      "<th>In time /s</th><th>p50 ms</th><th>p95 ms</th><th>p99 ms</th><th>Late</th><th>Refused</th><th>Failed</th>"
      "</tr>\n";
  for (std::size_t i = 0; i < workload.services.size(); ++i) {
    out += row(workload.services[i], report.services[i], report);
  }
  out += "</table></div>\n";
  for (std::size_t i = 0; i < workload.services.size(); ++i) {
    const Service& service = workload.services[i];
    out +=
        fmt::format("<h2>{} <small>{}</small></h2>\n<div class=\"box pair\">{}{}</div>\n", plot::escape(service.name),
                    plot::escape(service.model), time_picture(service, i, samples, report.services[i], report.seconds),
                    latency_picture(service, i, report.services[i]));
  }
  out += fmt::format("<footer>{} {}</footer>\n", plot::escape(head.program), plot::escape(head.commit));
  out += page::closing();
  return out;
}

}  // namespace tangram::report
