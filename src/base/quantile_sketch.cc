// Counts in buckets of constant relative width, kept only for the range of powers of two that was seen.
//
// Invariant: counts_ covers the buckets [first_, first_ + counts_.size()), both ends at a power of two, and count_ is
// the sum of counts_. Merging adds counts, so the result does not depend on the order in which sketches are merged,
// except for the last bits of the sum.

#include "base/quantile_sketch.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tangram {

// The inverse of bucket_of(). Values under 256 have a bucket each. For the bucket behind the last one the shift
// overflows to 0, so `low_of(last + 1) - 1` is UINT64_MAX, as it should be.
std::uint64_t QuantileSketch::low_of(std::size_t bucket) {
  if (bucket < (2u << kBits)) return bucket;
  const auto shift = static_cast<unsigned>(bucket >> kBits) - 1;
  const std::uint64_t mantissa = (bucket & ((1u << kBits) - 1)) | (1u << kBits);
  return mantissa << shift;
}

// Ensures that counts_ covers `bucket`. It grows by whole powers of two of the value, so that a run of new extremes
// does not move the counts each time, and never by more than asked: there are at most 58 steps.
void QuantileSketch::reserve_for(std::size_t bucket) {
  constexpr std::size_t kGroup = std::size_t{1} << kBits;
  const std::size_t low = bucket / kGroup * kGroup;
  if (counts_.empty()) {
    first_ = low;
    counts_.resize(kGroup);
  } else if (bucket < first_) {
    std::vector<std::uint64_t> wider(first_ - low + counts_.size());
    std::ranges::copy(counts_, wider.begin() + static_cast<std::ptrdiff_t>(first_ - low));
    counts_ = std::move(wider);
    first_ = low;
  } else if (bucket >= first_ + counts_.size()) {
    // resize() alone may double the capacity; the memory is a promise of the header.
    counts_.reserve(low + kGroup - first_);
    counts_.resize(low + kGroup - first_);
  }
}

void QuantileSketch::add(std::uint64_t value, std::uint64_t times) {
  if (times == 0) return;
  const std::size_t bucket = bucket_of(value);
  // Unsigned, so a bucket below first_ wraps to a large number and is caught by the same comparison.
  if (bucket - first_ >= counts_.size()) reserve_for(bucket);
  counts_[bucket - first_] += times;
  count_ += times;
  sum_ += static_cast<double>(value) * static_cast<double>(times);
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void QuantileSketch::merge(const QuantileSketch& other) {
  if (other.empty()) return;
  // Both ends first; every bucket between them is then covered too.
  reserve_for(other.first_);
  reserve_for(other.first_ + other.counts_.size() - 1);
  for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[other.first_ + i - first_] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

std::uint64_t QuantileSketch::quantile(double q) const {
  TANGRAM_CHECK(q >= 0 && q <= 1, "a quantile lies between 0 and 1");
  if (count_ == 0) return 0;
  const auto wanted =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count_))));
  // The extremes are known exactly, so they need not be estimated by a bucket.
  if (wanted == 1) return min_;
  if (wanted >= count_) return max_;
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen < wanted) continue;
    const std::uint64_t low = low_of(first_ + i);
    // A bucket is at most 1/128 of its value wide, so its middle is off by 1/256 at most.
    const std::uint64_t high = low_of(first_ + i + 1) - 1;
    return std::clamp(low + (high - low) / 2, min_, max_);
  }
  return max_;
}

std::uint64_t QuantileSketch::count_at_most(std::uint64_t limit) const {
  const std::size_t last = bucket_of(limit);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size() && first_ + i <= last; ++i) seen += counts_[i];
  return seen;
}

std::vector<QuantileSketch::Bucket> QuantileSketch::buckets() const {
  std::vector<Bucket> result;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    result.push_back({low_of(first_ + i), low_of(first_ + i + 1) - 1, counts_[i]});
  }
  return result;
}

void CountHistogram::merge(const CountHistogram& other) {
  TANGRAM_CHECK(counts_.size() == other.counts_.size(), "histograms of one limit can be merged");
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::uint64_t CountHistogram::total() const {
  std::uint64_t sum = 0;
  for (const auto c : counts_) sum += c;
  return sum;
}

}  // namespace tangram
