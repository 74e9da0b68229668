// The p99 of many latencies: by sketch, and exactly by std::nth_element over all of them kept.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>

#include "base/quantile_sketch.h"
#include "base/rng.h"

namespace tangram {
namespace {

std::vector<std::uint64_t> latencies(std::int64_t count) {
  Rng rng(1);
  std::vector<std::uint64_t> values(static_cast<std::size_t>(count));
  for (auto& v : values) v = static_cast<std::uint64_t>(rng.log_normal(15, 1));
  return values;
}

std::uint64_t exact_p99(std::vector<std::uint64_t> values) {
  const auto rank = static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(values.size()))) - 1;
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

std::uint64_t sketched_p99(const std::vector<std::uint64_t>& values) {
  QuantileSketch sketch;
  for (const auto v : values) sketch.add(v);
  return sketch.quantile(0.99);
}

void p99_tangram(benchmark::State& state) {
  const auto values = latencies(state.range(0));
  const auto exact = static_cast<double>(exact_p99(values));
  const double error = std::abs(static_cast<double>(sketched_p99(values)) - exact) / exact;
  if (error > QuantileSketch::kRelativeError) state.SkipWithError("the quantile is off by more than is stated");
  for (auto _ : state) benchmark::DoNotOptimize(sketched_p99(values));
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["error"] = error;
}
void p99_nth_element(benchmark::State& state) {
  const auto values = latencies(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(exact_p99(values));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(p99_tangram)->Name("BM_QuantileP99/tangram")->ArgName("values")->Arg(1'000)->Arg(1'000'000);
BENCHMARK(p99_nth_element)->Name("BM_QuantileP99/nth_element")->ArgName("values")->Arg(1'000)->Arg(1'000'000);

void merge(benchmark::State& state) {
  QuantileSketch part;
  for (const auto v : latencies(10'000)) part.add(v);
  for (auto _ : state) {
    QuantileSketch whole;
    whole.merge(part);
    benchmark::DoNotOptimize(whole.count());
  }
}
BENCHMARK(merge)->Name("BM_QuantileMerge");

}  // namespace
}  // namespace tangram
