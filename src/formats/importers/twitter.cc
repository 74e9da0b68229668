// A rate curve with one second on each line, in which 0 marks seconds that were not recorded.
//
// Gaps are filled linearly between their neighbours, and a comment in the output marks each of them. A simulator that
// replayed the zeros would see pauses that never happened.

#include <fmt/format.h>

#include "formats/importers/importers.h"
#include "formats/trace_file.h"

namespace tangram::formats::importers {
namespace {

// The rate of second `i` in the gap [begin, end). A gap at either end of the file has one neighbour and repeats it.
double between(const std::vector<double>& rates, std::size_t begin, std::size_t end, std::size_t i) {
  if (begin == 0) return rates[end];
  if (end == rates.size()) return rates[begin - 1];
  const double share = static_cast<double>(i - begin + 1) / static_cast<double>(end - begin + 1);
  return rates[begin - 1] + share * (rates[end] - rates[begin - 1]);
}

}  // namespace

Result<std::string> twitter(const Files& files, std::string_view) {
  if (files.size() != 1) return Error{ErrorCode::invalid, "twitter: expected one file"};
  TANGRAM_TRY(const auto curve, parse_rate_curve(files.front()));
  const auto& rates = curve;
  std::string out = "# Requests a second, one line a second.\n";
  for (std::size_t i = 0; i < rates.size();) {
    std::size_t end = i;
    while (end < rates.size() && rates[end] == 0) ++end;
    if (end - i == rates.size()) return Error{ErrorCode::invalid, files.front().name + ": every rate is 0"};
    if (end > i) out += fmt::format("# The next {} were not recorded and are interpolated.\n", end - i);
    const std::size_t begin = i;
    for (; i < end; ++i) out += fmt::format("{:.6g}\n", between(rates, begin, end, i));
    if (i < rates.size()) out += write_rate_curve({rates[i++]});
  }
  return out;
}

}  // namespace tangram::formats::importers
