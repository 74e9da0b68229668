// The reports that programs read: CSV, the decision log and the Perfetto trace.
//
// Each file begins with the program, the commit, the seed and the configuration, so that its result can be produced
// again from the file alone.

#include <fmt/format.h>

#include "base/text.h"
#include "formats/document.h"
#include "report/run_view.h"

namespace tangram::report {
namespace {

// Puts JSON on one line, for a comment of one line. JSON escapes line breaks inside strings, so every line break is
// between two tokens.
std::string one_line(std::string_view json) {
  std::string out;
  for (const auto line : text::split(json, '\n')) {
    const auto trimmed = text::trim(line);
    if (!out.empty() && !trimmed.empty() && out.back() != '{' && out.back() != '[') out += ' ';
    out += trimmed;
  }
  return out;
}

std::string comment_head(const ReportHead& head) {
  return fmt::format("# {}{}\n# seed {}\n# configuration {}\n", head.program,
                     head.commit.empty() ? "" : ", commit " + head.commit, head.seed, one_line(head.configuration));
}

std::string quoted(const std::string& text) { return formats::to_json(formats::text_node(text)); }

// Trace Event Format counts time in microseconds.
double microseconds(TimePoint at) { return to_seconds(at) * 1e6; }

// The events of one run in the Trace Event Format: "M" names processes and threads, "X" is a batch with its duration,
// "C" is a counter. A run is a process and a slice is a thread, so several policies are shown one above the other.
void append_run(const lab::Scenario& scenario, const lab::Run& run, std::size_t process, std::string& out) {
  const auto add = [&](const std::string& event) {
    // JSON has no trailing comma, so the comma goes before each event but the first.
    if (!out.ends_with("[\n")) out += ",\n";
    out += event;
  };
  const RunView view = view_of(scenario, run);
  add(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":{}}}}})", process,
                  quoted(scenario.name + ", " + run.policy)));
  for (std::size_t i = 0; i < view.slices.size(); ++i) {
    add(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", process, i + 1,
                    quoted(view.slices[i].device + " " + view.slices[i].slice)));
  }
  for (const auto& batch : run.result.metrics.batches) {
    add(fmt::format(R"({{"name":{},"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},)"
                    R"("args":{{"bucket":{},"samples":{},"requests":{}}}}})",
                    quoted(scenario.workload.services[batch.service.index()].name), process, batch.slice.value() + 1,
                    microseconds(batch.start), to_seconds(batch.end - batch.start) * 1e6, batch.bucket, batch.samples,
                    batch.requests));
  }
  const auto& metrics = run.result.metrics;
  for (std::size_t s = 0; s < metrics.timeline.size(); ++s) {
    const std::string& service = scenario.workload.services[s].name;
    for (std::size_t step = 0; step < metrics.timeline[s].size(); ++step) {
      const TimePoint at = kTimeZero + metrics.timeline_step * static_cast<std::int64_t>(step);
      add(fmt::format(R"({{"name":{},"ph":"C","pid":{},"ts":{:.3f},"args":{{"arrived":{}}}}})",
                      quoted(service + " arrivals"), process, microseconds(at), metrics.timeline[s][step].arrived));
    }
  }
}

}  // namespace

std::string timeline_csv(const ReportHead& head, const lab::Scenario& scenario, std::span<const lab::Run> runs) {
  std::string out = comment_head(head) + "policy,at_s,service,arrived,served,late,lost,queue_max\n";
  for (const auto& run : runs) {
    const auto& metrics = run.result.metrics;
    const std::size_t steps = metrics.timeline.empty() ? 0 : metrics.timeline[0].size();
    for (std::size_t step = 0; step < steps; ++step) {
      const double at = to_seconds(metrics.timeline_step) * static_cast<double>(step);
      for (std::size_t s = 0; s < metrics.timeline.size(); ++s) {
        const sim::TimelineStep& row = metrics.timeline[s][step];
        out += fmt::format("{},{:.3f},{},{},{},{},{},{}\n", run.policy, at, scenario.workload.services[s].name,
                           row.arrived, row.served, row.late, row.lost, row.queue_max);
      }
    }
  }
  return out;
}

std::string perfetto_trace(const ReportHead& head, const lab::Scenario& scenario, std::span<const lab::Run> runs) {
  std::string out = fmt::format(R"({{"displayTimeUnit":"ms","otherData":{{"program":{},"commit":{},"seed":{},)"
                                R"("configuration":{}}},"traceEvents":[)",
                                quoted(head.program), quoted(head.commit), head.seed, one_line(head.configuration));
  out += "\n";
  for (std::size_t r = 0; r < runs.size(); ++r) append_run(scenario, runs[r], r + 1, out);
  return out + "\n]}\n";
}

std::string decision_log(const ReportHead& head, std::span<const lab::Run> runs) {
  std::string out = comment_head(head);
  for (const auto& run : runs) {
    out += fmt::format("# policy {}, digest {:016x}\n", run.policy, run.result.digest);
    for (const auto& line : run.result.decisions) out += line + "\n";
  }
  return out;
}

}  // namespace tangram::report
