// Azure's public traces of language-model requests: when each arrived and how many tokens it brought.
//
// Times are absolute with a resolution of 100 ns, so they are read as integers of nanoseconds; a double would lose
// digits. The output counts from the first request of all files.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "formats/detail/limits.h"
#include "formats/importers/importers.h"
#include "formats/trace_file.h"

namespace tangram::formats::importers {
namespace {

struct Row {
  std::string timestamp;
  std::int64_t tokens = 0;
};

template <typename Visitor>
void describe(Visitor& v, Row& c) {
  v.field("TIMESTAMP", c.timestamp, {.required = true}, "");
  v.field("ContextTokens", c.tokens, {.min = 0, .max = kSizeMax, .required = true}, "");
}

// The number in `text` at [begin, begin + length), or -1.
std::int64_t digits_at(std::string_view text, std::size_t begin, std::size_t length) {
  const std::string_view part = text.substr(std::min(begin, text.size()), length);
  const bool digits = part.size() == length && part.find_first_not_of("0123456789") == std::string_view::npos;
  return digits ? text::parse_integer(part).value_or(-1) : -1;
}

// Nanoseconds since 1970 from "2023-11-16 18:15:46.6805900", with or without "+00:00" or "Z" behind it.
std::optional<std::int64_t> parse_timestamp(std::string_view text) {
  // Only UTC is accepted; the files of one trace must share a clock.
  if (text.ends_with('Z')) text.remove_suffix(1);
  if (text.ends_with("+00:00")) text.remove_suffix(6);
  const bool separated = text.size() >= 19 && text[4] == '-' && text[7] == '-' &&
                         (text[10] == ' ' || text[10] == 'T') && text[13] == ':' && text[16] == ':';
  if (!separated) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(digits_at(text, 0, 4))),
                                         std::chrono::month(static_cast<unsigned>(digits_at(text, 5, 2))),
                                         std::chrono::day(static_cast<unsigned>(digits_at(text, 8, 2)))};
  const std::int64_t hour = digits_at(text, 11, 2);
  const std::int64_t minute = digits_at(text, 14, 2);
  // A leap second is 60.
  Limits seconds{.min = 0, .below = 61};
  std::int64_t nanoseconds = 0;
  const bool right = date.ok() && digits_at(text, 0, 4) >= 1900 && digits_at(text, 0, 4) < 2200 && hour >= 0 &&
                     hour < 24 && minute >= 0 && minute < 60 && digits_at(text, 17, 2) >= 0 &&
                     detail::read_time(text.substr(17), "second_s", seconds, nanoseconds).empty();
  if (!right) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((days * 24 + hour) * 60 + minute) * 60'000'000'000 + nanoseconds;
}

}  // namespace

Result<std::string> azure_llm(const Files& files, std::string_view) {
  Trace trace;
  const auto problems = for_each_row_of<Row>(files, [&](Row row, const RowPlace& place, Problems& bad, const Source&) {
    const auto at = parse_timestamp(row.timestamp);
    if (!at) {
      return bad.add(place.of("TIMESTAMP"), fmt::format("TIMESTAMP must look like 2023-11-16 18:15:46.680, not {}",
                                                        detail::excerpt(row.timestamp)));
    }
    // A request without input tokens still takes a place in a batch, and sizes begin at 1.
    trace.push_back({TimePoint(Duration(*at)), std::max<std::int64_t>(1, row.tokens), 1});
  });
  if (!problems.empty()) return problems.error();
  if (trace.empty()) return no_rows(files);
  // Several files may overlap in time. Stable, so that equal times keep the order of the files.
  std::ranges::stable_sort(trace, {}, &TraceEntry::at);
  const Duration first = trace.front().at.time_since_epoch();
  for (auto& entry : trace) entry.at -= first;
  return write_trace(trace);
}

}  // namespace tangram::formats::importers
