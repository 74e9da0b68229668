// Reading CSV beside the least that any reader must do: finding the line ends with memchr.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>

#include "formats/csv.h"
#include "formats/measurements_file.h"
#include "formats/trace_file.h"

namespace tangram::formats {
namespace {

constexpr std::int64_t kRows = 20'000;

// Rows that a real trace could have: times with three decimals, sizes of one to four digits.
std::string trace_text() {
  std::string text = "at_s,size,samples\n";
  for (std::int64_t i = 0; i < kRows; ++i)
    text += fmt::format("{}.{:03},{},1\n", i / 8, i % 8 * 125, 1 + i * 37 % 4096);
  return text;
}

std::string measurements_text() {
  std::string text =
      "device,mig_profile,model,batch,size,processes,latency_ms,latency_spread_ms,memory_mib,throughput_per_s\n";
  for (std::int64_t i = 0; i < kRows; ++i) {
    text += fmt::format("a100-80gb,3g.40gb,model-{},{},{},1,{}.5,0.25,2048,\n", i / 512, 1 + i % 8, 1 + i / 8 % 64,
                        1 + i % 50);
  }
  return text;
}

std::int64_t count_lines(std::string_view text) {
  std::int64_t lines = 0;
  while (!text.empty()) {
    const auto* end = static_cast<const char*>(std::memchr(text.data(), '\n', text.size()));
    ++lines;
    text.remove_prefix(end == nullptr ? text.size() : static_cast<std::size_t>(end - text.data()) + 1);
  }
  return lines;
}

std::int64_t count_rows(std::string_view text) {
  Problems problems("bench.csv");
  CsvReader reader(text, problems);
  std::vector<CsvField> row;
  std::int64_t rows = 0;
  while (reader.next(row)) ++rows;
  return problems.empty() ? rows : -1;
}

void set_rate(benchmark::State& state, const std::string& text) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void rows_tangram(benchmark::State& state) {
  const std::string text = trace_text();
  if (count_rows(text) != kRows + 1) state.SkipWithError("the rows are not all there");
  for (auto _ : state) benchmark::DoNotOptimize(count_rows(text));
  set_rate(state, text);
}
void rows_memchr(benchmark::State& state) {
  const std::string text = trace_text();
  if (count_lines(text) != kRows + 1) state.SkipWithError("the lines are not all there");
  for (auto _ : state) benchmark::DoNotOptimize(count_lines(text));
  set_rate(state, text);
}
BENCHMARK(rows_tangram)->Name("BM_CsvRows/tangram");
BENCHMARK(rows_memchr)->Name("BM_CsvRows/memchr");

void trace_tangram(benchmark::State& state) {
  const Source source{"trace.csv", trace_text()};
  const auto trace = parse_trace(source);
  if (!trace || trace->size() != kRows || trace->back().at != TimePoint(Duration((kRows - 1) * 125'000'000))) {
    state.SkipWithError("the trace is wrong");
  }
  for (auto _ : state) benchmark::DoNotOptimize(parse_trace(source));
  set_rate(state, source.text);
}
BENCHMARK(trace_tangram)->Name("BM_ParseTrace/tangram");
BENCHMARK(rows_memchr)->Name("BM_ParseTrace/memchr");

void measurements_tangram(benchmark::State& state) {
  const Source source{"measurements.csv", measurements_text()};
  const auto measurements = parse_measurements(source);
  if (!measurements || measurements->size() != kRows || measurements->back().model != "model-39") {
    state.SkipWithError("the measurements are wrong");
  }
  for (auto _ : state) benchmark::DoNotOptimize(parse_measurements(source));
  set_rate(state, source.text);
}
void measurements_memchr(benchmark::State& state) {
  const std::string text = measurements_text();
  if (count_lines(text) != kRows + 1) state.SkipWithError("the lines are not all there");
  for (auto _ : state) benchmark::DoNotOptimize(count_lines(text));
  set_rate(state, text);
}
BENCHMARK(measurements_tangram)->Name("BM_ParseMeasurements/tangram");
BENCHMARK(measurements_memchr)->Name("BM_ParseMeasurements/memchr");

}  // namespace
}  // namespace tangram::formats
