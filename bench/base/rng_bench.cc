// Draws a second, beside those of the standard library in the same run.

#include <benchmark/benchmark.h>

#include <cmath>
#include <random>

#include "base/math.h"
#include "base/rng.h"

namespace tangram {
namespace {

// Stops the benchmark unless the mean of many draws is where the distribution puts it.
template <typename Draw>
bool mean_is(benchmark::State& state, double expected, double tolerance, Draw draw) {
  constexpr int kDraws = 100'000;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) sum += draw();
  if (std::abs(sum / kDraws - expected) <= tolerance) return true;
  state.SkipWithError("the mean of the draws is wrong");
  return false;
}

template <typename Draw>
void time_draws(benchmark::State& state, double expected, double tolerance, Draw draw) {
  if (!mean_is(state, expected, tolerance, draw)) return;
  for (auto _ : state) benchmark::DoNotOptimize(draw());
}

void uniform_tangram(benchmark::State& state) {
  Rng rng(1);
  time_draws(state, 0.5, 0.01, [&] { return rng.uniform(); });
}
void uniform_std(benchmark::State& state) {
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> distribution;
  time_draws(state, 0.5, 0.01, [&] { return distribution(generator); });
}
BENCHMARK(uniform_tangram)->Name("BM_Uniform/tangram");
BENCHMARK(uniform_std)->Name("BM_Uniform/std");

void exponential_tangram(benchmark::State& state) {
  Rng rng(1);
  time_draws(state, 3, 0.06, [&] { return rng.exponential(3); });
}
void exponential_std(benchmark::State& state) {
  std::mt19937_64 generator(1);
  std::exponential_distribution<double> distribution(1.0 / 3);
  time_draws(state, 3, 0.06, [&] { return distribution(generator); });
}
BENCHMARK(exponential_tangram)->Name("BM_Exponential/tangram");
BENCHMARK(exponential_std)->Name("BM_Exponential/std");

void normal_tangram(benchmark::State& state) {
  Rng rng(1);
  time_draws(state, 0, 0.02, [&] { return rng.normal(); });
}
void normal_std(benchmark::State& state) {
  std::mt19937_64 generator(1);
  std::normal_distribution<double> distribution;
  time_draws(state, 0, 0.02, [&] { return distribution(generator); });
}
BENCHMARK(normal_tangram)->Name("BM_Normal/tangram");
BENCHMARK(normal_std)->Name("BM_Normal/std");

void gamma_tangram(benchmark::State& state) {
  Rng rng(1);
  time_draws(state, 2.5, 0.05, [&] { return rng.gamma(2.5, 1); });
}
void gamma_std(benchmark::State& state) {
  std::mt19937_64 generator(1);
  std::gamma_distribution<double> distribution(2.5, 1);
  time_draws(state, 2.5, 0.05, [&] { return distribution(generator); });
}
BENCHMARK(gamma_tangram)->Name("BM_Gamma/tangram");
BENCHMARK(gamma_std)->Name("BM_Gamma/std");

std::vector<double> many_weights() {
  std::vector<double> weights(1000);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(i);
  return weights;
}
void weighted_tangram(benchmark::State& state) {
  Rng rng(1);
  const AliasTable table(many_weights());
  // The mean index with weight i is 2/3 of a thousand.
  time_draws(state, 666.3, 3, [&] { return static_cast<double>(table.draw(rng)); });
}
void weighted_std(benchmark::State& state) {
  std::mt19937_64 generator(1);
  const auto weights = many_weights();
  std::discrete_distribution<int> distribution(weights.begin(), weights.end());
  time_draws(state, 666.3, 3, [&] { return static_cast<double>(distribution(generator)); });
}
BENCHMARK(weighted_tangram)->Name("BM_Weighted/tangram");
BENCHMARK(weighted_std)->Name("BM_Weighted/std");

void exp_tangram(benchmark::State& state) {
  double x = 0.1;
  for (auto _ : state) benchmark::DoNotOptimize(x = 0.1 * math::exp(x));
}
void exp_std(benchmark::State& state) {
  double x = 0.1;
  for (auto _ : state) benchmark::DoNotOptimize(x = 0.1 * std::exp(x));
}
BENCHMARK(exp_tangram)->Name("BM_Exp/tangram");
BENCHMARK(exp_std)->Name("BM_Exp/std");

}  // namespace
}  // namespace tangram
