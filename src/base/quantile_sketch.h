// Quantiles of any number of values in bounded memory, with a stated relative error.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tangram {

// Counts values in buckets whose width is a fixed share of the value: each power of two is cut into 128
// equal buckets, so a quantile is off by at most 1/256 (0.4 %) of itself. Zero is exact. Values are unsigned
// integers (nanoseconds, bytes, samples); memory is 1 kB for each power of two between the smallest and the
// largest value seen, 60 kB at the very most.
class QuantileSketch {
 public:
  static constexpr double kRelativeError = 1.0 / 256;

  void add(std::uint64_t value) {
    const std::size_t bucket = bucket_of(value);
    if (bucket - first_ >= counts_.size()) [[unlikely]]
      return add(value, 1);
    ++counts_[bucket - first_];
    ++count_;
    sum_ += static_cast<double>(value);
    if (value < min_) min_ = value;
    if (value > max_) max_ = value;
  }
  void add(std::uint64_t value, std::uint64_t times);
  void merge(const QuantileSketch& other);

  std::uint64_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double sum() const { return sum_; }
  // Exact. Zero when empty.
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const { return max_; }

  // The value below which a share `q` of all values lies (0 <= q <= 1): the value of rank ceil(q * count), within
  // kRelativeError; the first and the last rank are exact. Zero when empty.
  std::uint64_t quantile(double q) const;
  // How many values are at most `limit`, up to the bucket that `limit` falls in.
  std::uint64_t count_at_most(std::uint64_t limit) const;

  // The non-empty buckets in ascending order, for pictures and for files.
  struct Bucket {
    std::uint64_t low;   // Smallest value that falls in.
    std::uint64_t high;  // Largest value that falls in.
    std::uint64_t count;
  };
  std::vector<Bucket> buckets() const;
  std::size_t memory_bytes() const { return counts_.capacity() * sizeof(std::uint64_t) + sizeof(*this); }

 private:
  static constexpr unsigned kBits = 7;  // 128 buckets in each power of two.

  // Values under 128 have a bucket each. Above, the bucket number is the exponent followed by the next seven bits.
  static std::size_t bucket_of(std::uint64_t value) {
    if (value < (1u << kBits)) return static_cast<std::size_t>(value);
    const auto exponent = static_cast<unsigned>(std::bit_width(value)) - 1;
    const std::uint64_t mantissa = value >> (exponent - kBits);  // In [128, 256).
    return static_cast<std::size_t>(((exponent - kBits) << kBits) + mantissa);
  }
  // The smallest value of a bucket: the inverse of bucket_of().
  static std::uint64_t low_of(std::size_t bucket);
  // Ensures that counts_ covers `bucket`; existing counts stay.
  void reserve_for(std::size_t bucket);

  std::vector<std::uint64_t> counts_;
  std::size_t first_ = 0;  // The bucket number of counts_[0].
  std::uint64_t count_ = 0;
  double sum_ = 0;
  std::uint64_t min_ = UINT64_MAX;
  std::uint64_t max_ = 0;
};

// Counts small whole numbers exactly, e.g. batch sizes; what exceeds the limit shares one last bucket.
class CountHistogram {
 public:
  // Counts 0..limit one by one and everything larger together.
  explicit CountHistogram(std::size_t limit) : counts_(limit + 2) {}

  void add(std::size_t value, std::uint64_t times = 1) {
    counts_[value < counts_.size() ? value : counts_.size() - 1] += times;
  }
  void merge(const CountHistogram& other);

  std::size_t limit() const { return counts_.size() - 2; }
  std::uint64_t count(std::size_t value) const { return counts_[value < counts_.size() ? value : counts_.size() - 1]; }
  std::uint64_t overflow() const { return counts_.back(); }
  std::uint64_t total() const;

 private:
  std::vector<std::uint64_t> counts_;
};

}  // namespace tangram
