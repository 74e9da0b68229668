// Traces, rate curves and histograms of input sizes.
//
// Order is checked here once: times of a trace do not decrease and sizes of a histogram ascend, so the rest of the
// program relies on it without sorting.

#include "formats/trace_file.h"

#include <fmt/format.h>

#include "base/text.h"
#include "formats/detail/limits.h"
#include "formats/detail/shapes.h"
#include "formats/detail/utf8.h"
#include "formats/table.h"

namespace tangram::formats {

template <typename Visitor>
void describe(Visitor& v, TraceEntry& c) {
  v.about("Trace", "One recorded request in each row, in order of time.");
  v.field("at_s", c.at, {.min = 0, .required = true}, "The arrival time, in seconds from the start.");
  v.field("size", c.size, {.min = 1, .max = kSizeMax, .required = true},
          "The input size: tokens, pixels of a side, milliseconds of audio.");
  v.field("samples", c.samples, {.min = 1, .max = kSamplesMax}, "The number of inputs in the request.");
}

template <typename Visitor>
void describe(Visitor& v, HistogramSize::Bin& c) {
  v.about("Histogram of input sizes", "One size in each row, ascending.");
  v.field("size", c.size, {.min = 1, .max = kSizeMax, .required = true}, "Input size.");
  v.field("weight", c.weight, {.max = 1e15, .above = 0, .required = true}, "How often it occurs, in any unit.");
}

namespace {

// The rate in `text`, or nullopt after a problem has been added.
std::optional<double> rate_in(std::string_view text, Position at, Problems& problems) {
  double rate = 0;
  const std::string problem = detail::read_number(text, {.min = 0, .max = kRateMax}, rate);
  if (problem.empty()) return rate;
  problems.add(at, "the rate " + problem);
  return std::nullopt;
}

}  // namespace

Result<Trace> parse_trace(const Source& source) {
  Problems problems(source.name);
  Trace trace;
  TimePoint latest;
  const auto in_order = [&](const TraceEntry& entry, const RowPlace& place, const RowReader& read) {
    if (!read.right({"at_s"})) return;
    if (entry.at < latest) {
      problems.add(place.of("at_s"), "at_s is earlier than in the row before; a trace must be in order of time");
    }
    // The maximum, not the last value: after one early row, the rows behind it are still compared with the right time.
    latest = std::max(latest, entry.at);
  };
  for_each_judged_row<TraceEntry>(source, Header::strict, problems, in_order,
                                  [&](const TraceEntry& entry, const RowPlace&) { trace.push_back(entry); });
  if (!problems.empty()) return problems.error();
  return trace;
}

std::string write_trace(const Trace& trace) { return write_table(trace); }

Result<std::vector<double>> parse_rate_curve(const Source& source) {
  Problems problems(source.name);
  // A rate curve is no CSV, so it needs the check that table.h does for the others.
  if (const auto bad = first_bad_byte(source.text)) {
    problems.add(*bad, "not UTF-8 text");
    return problems.error();
  }
  std::vector<double> rates;
  std::string_view rest = without_byte_order_mark(source.text);
  for (int line = 1; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = text::trim(rest.substr(0, end));
    if (!text.empty() && text[0] != '#') {
      // `text` is a part of `rest`, which begins at the line, so the distance is the column.
      const auto column = static_cast<int>(text.data() - rest.data()) + 1;
      if (const auto rate = rate_in(text, {line, column}, problems)) rates.push_back(*rate);
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  // A curve repeats, and an empty one would have nothing to repeat.
  if (rates.empty() && problems.empty()) {
    problems.add({}, text::trim(source.text).empty() ? "the file is empty" : "the file has no rate");
  }
  if (!problems.empty()) return problems.error();
  return rates;
}

// The shortest text of each rate, so that reading it back gives the same doubles.
std::string write_rate_curve(const std::vector<double>& rate_per_s) {
  std::string out;
  for (const double rate : rate_per_s) out += detail::write_number(rate) + "\n";
  return out;
}

Result<std::vector<HistogramSize::Bin>> parse_histogram(const Source& source) {
  Problems problems(source.name);
  std::vector<HistogramSize::Bin> rows;
  std::int64_t largest = 0;
  const auto ascending = [&](const HistogramSize::Bin& row, const RowPlace& place, const RowReader& read) {
    if (!read.right({"size"})) return;
    // Ascending sizes make a repeated size visible, and readers may take the last one for the largest.
    if (row.size <= largest) problems.add(place.of("size"), "sizes must be in ascending order, each once");
    largest = std::max(largest, row.size);
  };
  for_each_judged_row<HistogramSize::Bin>(source, Header::strict, problems, ascending,
                                          [&](const HistogramSize::Bin& row, const RowPlace&) { rows.push_back(row); });
  if (rows.empty() && problems.empty()) problems.add({}, "the histogram has no rows");
  if (!problems.empty()) return problems.error();
  return rows;
}

std::string write_histogram(const std::vector<HistogramSize::Bin>& histogram) { return write_table(histogram); }

Shape trace_shape() { return shape_of<TraceEntry>(); }
Shape histogram_shape() { return shape_of<HistogramSize::Bin>(); }

}  // namespace tangram::formats
