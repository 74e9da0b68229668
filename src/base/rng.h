// Seeded randomness with named streams.
//
// One seed per run. A stream is derived from the seed and a name alone, never from how many numbers another
// stream has drawn, so one more draw here changes nothing there. The generator is xoshiro256++ seeded by
// splitmix64; the distributions are our own because those of the standard library differ between vendors.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tangram {

class Rng {
 public:
  explicit Rng(std::uint64_t seed);

  // An independent generator for `name`. The same seed and name give the same numbers, whatever this
  // generator has drawn before.
  Rng stream(std::string_view name) const;
  // The same for a numbered family, e.g. one stream per service.
  Rng stream(std::string_view name, std::uint64_t index) const;

  std::uint64_t next_u64() {
    const std::uint64_t sum = state_[0] + state_[3];
    const std::uint64_t result = ((sum << 23) | (sum >> 41)) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = (state_[3] << 45) | (state_[3] >> 19);
    return result;
  }

  // Uniform in [0, 1) with 53 bits.
  double uniform() { return unit(next_u64()); }
  // Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // Uniform in [0, bound), without bias. `bound` > 0.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [low, high], both included.
  std::int64_t integer(std::int64_t low, std::int64_t high);
  // True with probability p.
  bool chance(double p) { return uniform() < p; }

  // Exponential with the given mean: the ziggurat of Marsaglia and Tsang (2000), whose first look suffices in 98 of
  // 100 draws.
  double exponential(double mean) {
    const std::uint64_t bits = next_u64();
    const std::size_t layer = bits & 255;
    const double x = unit(bits) * kExponentialWidths[layer];
    if (x < kExponentialWidths[layer + 1]) [[likely]]
      return mean * x;
    return exponential_beyond(mean, layer, x);
  }
  // Standard normal.
  double normal();
  double normal(double mean, double deviation) { return mean + deviation * normal(); }
  // exp(normal(mu, sigma)): its median is exp(mu).
  double log_normal(double mu, double sigma);
  // Gamma with the given shape and scale, both > 0: its mean is shape * scale.
  double gamma(double shape, double scale);
  // Number of events of a Poisson process with `mean` expected. `mean` >= 0; the cost is linear in it.
  std::uint64_t poisson(double mean);

  // Fisher-Yates.
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  // A stream: the same seed and salt give the same numbers.
  Rng(std::uint64_t seed, std::uint64_t salt);

  // The high 53 bits as a number in [0, 1). They fit a signed number, which converts in one instruction.
  static double unit(std::uint64_t bits) {
    return static_cast<double>(static_cast<std::int64_t>(bits >> 11)) * 0x1p-53;
  }
  // The rest of an exponential draw whose first point, `x` in `layer`, does not lie wholly under the curve.
  double exponential_beyond(double mean, std::size_t layer, double x);

  // The layers of the exponential ziggurat, widest first. Computed before main() begins: nothing draws earlier.
  static const std::array<double, 257> kExponentialWidths;

  std::uint64_t root_;  // What streams are derived from; drawing does not change it.
  std::array<std::uint64_t, 4> state_;
};

// Draws indices with given weights in constant time (Walker's alias method).
class AliasTable {
 public:
  AliasTable() = default;
  // `weights` are not negative and their sum is positive and finite.
  explicit AliasTable(std::span<const double> weights);

  std::size_t size() const { return keep_.size(); }
  std::size_t draw(Rng& rng) const;

 private:
  // Slot i gives i with probability keep_[i], and alias_[i] otherwise.
  std::vector<double> keep_;
  std::vector<std::uint32_t> alias_;
};

}  // namespace tangram
