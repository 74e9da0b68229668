// From the text form of Prometheus to OpenMetrics 1.0 (the draft of the IETF, openmetrics.io).
//
// The samples are the same, but for counters: their family is named without "_total", and a counter whose samples lack
// it is of an unknown type. The end of the text is marked, so that a cut-off answer is not taken for a whole one.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "serve/reports.h"

namespace tangram::serve {
namespace {

constexpr std::string_view kTotal = "_total";

std::string_view without_total(std::string_view name) {
  return name.ends_with(kTotal) ? name.substr(0, name.size() - kTotal.size()) : name;
}

// "NAME rest": takes the name off.
std::string_view take_word(std::string_view& line) {
  const auto blank = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, blank);
  line.remove_prefix(std::min(blank + 1, line.size()));
  return word;
}

}  // namespace

// HELP precedes TYPE, and only TYPE says what is a counter: the line of HELP waits for it. No family but counters ends
// in
// "_total", which the format reserves.
std::string to_open_metrics(std::string_view prometheus) {
  std::string out;
  out.reserve(prometheus.size() + 8);
  while (!prometheus.empty()) {
    std::string_view line = prometheus.substr(0, prometheus.find('\n'));
    prometheus.remove_prefix(std::min(line.size() + 1, prometheus.size()));
    const bool help = line.starts_with("# HELP ");
    if (!help && !line.starts_with("# TYPE ")) {
      out.append(line).append("\n");
      continue;
    }
    const std::string_view mark = line.substr(0, 7);
    line.remove_prefix(7);
    const std::string_view name = take_word(line);
    const bool unknown = !help && line == "counter" && !name.ends_with(kTotal);
    out.append(mark).append(without_total(name)).append(" ").append(unknown ? "unknown" : line).append("\n");
  }
  return out + "# EOF\n";
}

}  // namespace tangram::serve
