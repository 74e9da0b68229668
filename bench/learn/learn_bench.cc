// Fitting, one step of the sampler, and one prediction on the hot path, on a network with known behaviour.

#include <benchmark/benchmark.h>

#include <cmath>

#include "learn/dense_table.h"
#include "learn/fit.h"
#include "learn/sampler.h"
#include "learn/test_network.h"

namespace tangram::learn {
namespace {

// Eleven models of 225 runs, 2,475 rows as in the largest public table.
Measurements many_models() {
  Measurements all;
  for (int i = 0; i < 11; ++i) {
    const auto table = TestNetwork{"model" + std::to_string(i), 2.0 + i, 0.3 * (1 + i)}.table(5);
    all.insert(all.end(), table.begin(), table.end());
  }
  return all;
}

void fit_file(benchmark::State& state) {
  const auto measurements = many_models();
  Result<FittedModel> model = fit(measurements, {}, {});
  for (auto _ : state) model = fit(measurements, {}, {});
  if (!model || model->runs().size() != 11) return state.SkipWithError("not every model was fitted");
  state.counters["rows"] = static_cast<double>(measurements.size());
}
BENCHMARK(fit_file)->Name("BM_Fit/rows:2475")->Unit(benchmark::kMillisecond);

void fit_model(benchmark::State& state) {
  const auto measurements = TestNetwork{}.table(5);
  const Knowledge knowledge = know(many_models());
  auto run = fit_target(measurements, knowledge, {});
  for (auto _ : state) run = fit_target(measurements, knowledge, {});
  const Measurement judge = TestNetwork{}.run("3g.40gb", 3, 39.25, 48);
  const double ratio = run->estimate(candidate_of(judge))->mean_ms / *judge.latency_ms;
  if (std::abs(ratio - 1) > 0.1) state.SkipWithError("the fit is wrong");
}
BENCHMARK(fit_model)->Name("BM_FitModel/rows:225")->Unit(benchmark::kMillisecond);

// One model measured at every batch: 2,500 rows of one target.
void fit_long(benchmark::State& state) {
  Measurements measurements;
  for (std::int64_t batch = 1; batch <= 250; ++batch) {
    for (std::int64_t processes = 1; processes <= 10; ++processes) {
      measurements.push_back(TestNetwork{}.run("7g.80gb", 7, 1e6, batch, processes));
    }
  }
  auto run = fit_target(measurements, {}, {});
  for (auto _ : state) run = fit_target(measurements, {}, {});
  if (!run) state.SkipWithError("the fit failed");
}
BENCHMARK(fit_long)->Name("BM_FitModel/rows:2500")->Unit(benchmark::kMillisecond);

// The 15th choice among 225 candidates, with other models known and regret by a plain rule.
void sampler_step(benchmark::State& state) {
  const auto table = TestNetwork{}.table(5);
  std::vector<Candidate> candidates;
  for (const auto& m : table) candidates.push_back(candidate_of(m));
  const Knowledge knowledge = know(many_models());
  const Regret regret{.loss = [](auto, auto) { return 0.1; },
                      .gain =
                          [](std::span<const Belief> believed) {
                            std::vector<double> gains;
                            for (const auto& belief : believed) gains.push_back(belief.deviation);
                            return gains;
                          }};
  Measurements measured;
  const SamplerInput input{{"a100-80gb", "net"}, candidates, {}, &knowledge, &regret};
  const auto ask = [&] {
    SamplerInput now = input;
    now.measured = measured;
    return next_measurement(now, {.budget = 100});
  };
  while (measured.size() < 14) measured.push_back(table[*ask().next]);
  SamplerChoice choice;
  for (auto _ : state) benchmark::DoNotOptimize(choice = ask());
  if (!choice.next) state.SkipWithError("the sampler chose nothing");
}
BENCHMARK(sampler_step)->Name("BM_SamplerStep/candidates:225")->Unit(benchmark::kMillisecond);

// What the scheduler asks for: one cell of the compiled table, at random places.
void hot_prediction(benchmark::State& state) {
  const auto model = *fit(TestNetwork{}.table(), {}, {});
  const DenseTable table(model, {"a100-80gb", "3g.40gb", "net", {1, 2, 4, 8}, 128, 1});
  const auto expected = model.predict({"a100-80gb", "3g.40gb", "net", 77, 1, 1});
  if (!expected || table.at(0, 77).mean != expected->mean) return state.SkipWithError("the table is wrong");
  std::uint32_t place = 1;
  for (auto _ : state) {
    place = place * 1664525U + 1013904223U;
    benchmark::DoNotOptimize(table.at(place >> 30, 1 + static_cast<std::int64_t>((place >> 20) % 128)));
  }
}
BENCHMARK(hot_prediction)->Name("BM_HotPrediction");

// The same from the fitted model itself, which also gives the interval.
void full_estimate(benchmark::State& state) {
  const auto model = *fit(TestNetwork{}.table(), {}, {});
  std::optional<Estimate> estimate;
  for (auto _ : state) {
    benchmark::DoNotOptimize(estimate = model.runs()[0].estimate({"3g.40gb", 48, 1, 1}));
  }
  if (!estimate) state.SkipWithError("no estimate");
}
BENCHMARK(full_estimate)->Name("BM_Estimate/rows:45");

}  // namespace
}  // namespace tangram::learn
