// The generator's seeding and its distributions.
//
// Everything that is drawn is a function of the seed, the stream's name and the number of draws, on every machine: logs
// and exponentials come from base/math.h, never from the C library. (std::sqrt is exactly rounded by IEEE 754.)

#include "base/rng.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/math.h"

namespace tangram {
namespace {

__extension__ using Wide = unsigned __int128;

// Steele, Lea and Flood (2014), with the constants of Vigna's reference code. It spreads similar seeds, such as 1 and
// 2, over all 64 bits; xoshiro itself would need many draws to separate them.
std::uint64_t splitmix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// FNV-1a, 64 bits. std::hash may differ between libraries, and names must give the same streams everywhere.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

// The ziggurat of the exponential distribution: 256 layers of equal area (Marsaglia and Tsang 2000). The table is
// computed once from base/math.h, so it is the same everywhere.
constexpr double kTail = 7.69711747013104972;   // Where the lowest layer turns into the tail.
constexpr double kArea = 3.949659822581572e-3;  // The area of each layer.

std::array<double, 257> exponential_widths() {
  std::array<double, 257> x{};
  // The lowest layer includes the tail, so its width is that of a rectangle of the same area; x[256] stays 0, the peak.
  x[0] = kArea / math::exp(-kTail);
  x[1] = kTail;
  for (std::size_t i = 2; i < 256; ++i) x[i] = -math::log(math::exp(-x[i - 1]) + kArea / x[i - 1]);
  return x;
}

}  // namespace

const std::array<double, 257> Rng::kExponentialWidths = exponential_widths();

Rng::Rng(std::uint64_t seed) : Rng(seed, 0) {}

Rng::Rng(std::uint64_t seed, std::uint64_t salt) {
  std::uint64_t mixer = seed;
  // The salt enters between two mixings, so neither similar seeds nor similar names give related states.
  root_ = splitmix64(mixer) ^ salt;
  std::uint64_t filler = root_;
  for (auto& word : state_) word = splitmix64(filler);
}

Rng Rng::stream(std::string_view name) const { return Rng(root_, hash(name)); }

Rng Rng::stream(std::string_view name, std::uint64_t index) const {
  std::uint64_t mixer = index + 1;
  return Rng(root_, hash(name) ^ splitmix64(mixer));
}

std::uint64_t Rng::below(std::uint64_t bound) {
  TANGRAM_CHECK(bound > 0, "a draw below zero has no answer");
  // Lemire (2019), multiply and reject. The high word of the product is the result; the low word says whether the draw
  // belongs to the surplus that would favour some results. The division runs with probability bound / 2^64 only.
  auto product = static_cast<Wide>(next_u64()) * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < threshold) {
      product = static_cast<Wide>(next_u64()) * bound;
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

std::int64_t Rng::integer(std::int64_t low, std::int64_t high) {
  TANGRAM_CHECK(low <= high, "the range of an integer draw is empty");
  // Unsigned, because high - low may not fit a signed number. The span of all 2^64 numbers wraps to zero.
  const auto span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  if (span == 0) return static_cast<std::int64_t>(next_u64());
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + below(span));
}

double Rng::exponential_beyond(double mean, std::size_t layer, double x) {
  double shift = 0;
  do {
    if (layer == 0) {
      shift += kTail;  // The tail of an exponential is the same exponential again.
    } else {
      // The point lies in the wedge between the layer's rectangle and its upper neighbour: accept it if it is under the
      // curve, otherwise draw again.
      const double low = math::exp(-kExponentialWidths[layer]);
      const double high = math::exp(-kExponentialWidths[layer + 1]);
      if (low + (high - low) * uniform() < math::exp(-x)) break;
    }
    const std::uint64_t bits = next_u64();
    layer = bits & 255;
    x = unit(bits) * kExponentialWidths[layer];
  } while (x >= kExponentialWidths[layer + 1]);
  return mean * (shift + x);
}

double Rng::normal() {
  // Marsaglia's polar method, which accepts 79 of 100 points. It makes two numbers; the second is discarded, so that
  // the generator has no state besides its 256 bits.
  while (true) {
    const double u = 2 * uniform() - 1;
    const double v = 2 * uniform() - 1;
    const double s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * math::log(s) / s);
  }
}

double Rng::log_normal(double mu, double sigma) { return math::exp(mu + sigma * normal()); }

double Rng::gamma(double shape, double scale) {
  TANGRAM_CHECK(shape > 0 && scale > 0, "a gamma distribution has a positive shape and scale");
  // Marsaglia and Tsang (2000), "A simple method for generating gamma variables", for shape >= 1. A smaller shape comes
  // from shape + 1 times U^(1/shape). U is 1 - uniform(), in (0, 1], so that its logarithm is finite.
  if (shape < 1) return gamma(shape + 1, scale) * math::pow(1 - uniform(), 1 / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal();
    const double t = 1 + c * x;
    if (t <= 0) continue;
    const double v = t * t * t;
    const double u = 1 - uniform();
    if (u < 1 - 0.0331 * (x * x) * (x * x)) return d * v * scale;  // Their squeeze: nearly all end here, without a log.
    if (math::log(u) < 0.5 * x * x + d - d * v + d * math::log(v)) return d * v * scale;
  }
}

std::uint64_t Rng::poisson(double mean) {
  TANGRAM_CHECK(mean >= 0, "a Poisson distribution has a mean that is not negative");
  // Counts the exponential gaps that fit into the mean. Exact, at a cost linear in the mean.
  std::uint64_t count = 0;
  double left = mean - exponential(1);
  while (left > 0) {
    ++count;
    left -= exponential(1);
  }
  return count;
}

// Walker's alias method in Vose's form, linear in the number of weights. Scaled so that the average weight is 1, each
// slot keeps its own index with probability keep_ and otherwise gives its alias.
AliasTable::AliasTable(std::span<const double> weights) : keep_(weights.size()), alias_(weights.size()) {
  double total = 0;
  for (const double w : weights) {
    TANGRAM_CHECK(w >= 0, "weights are not negative");
    total += w;
  }
  TANGRAM_CHECK(total > 0, "at least one weight is positive");
  TANGRAM_CHECK(std::isfinite(total), "the sum of the weights is finite");
  const auto n = weights.size();
  std::vector<std::uint32_t> small;
  std::vector<std::uint32_t> large;
  for (std::size_t i = 0; i < n; ++i) {
    keep_[i] = weights[i] * static_cast<double>(n) / total;
    alias_[i] = static_cast<std::uint32_t>(i);
    (keep_[i] < 1 ? small : large).push_back(static_cast<std::uint32_t>(i));
  }
  // Each step fills one small slot from a large one, so the weights that remain still average 1 and the loop ends after
  // at most n steps.
  while (!small.empty() && !large.empty()) {
    const auto s = small.back();
    const auto l = large.back();
    small.pop_back();
    alias_[s] = l;
    keep_[l] -= 1 - keep_[s];
    if (keep_[l] < 1) {
      large.pop_back();
      small.push_back(l);
    }
  }
  for (const auto i : large) keep_[i] = 1;
  for (const auto i : small) keep_[i] = 1;  // Only rounding leaves any.
}

std::size_t AliasTable::draw(Rng& rng) const {
  const auto i = static_cast<std::size_t>(rng.below(keep_.size()));
  return rng.uniform() < keep_[i] ? i : alias_[i];
}

}  // namespace tangram
