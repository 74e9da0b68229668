// As Triton writes classes: numbers with a fraction have six digits behind the point, and there are no labels, because
// the services file has none.

#include "serve/classification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "serve/small_floats.h"

namespace tangram::serve {
namespace {

template <typename T>
T element_at(std::string_view raw, std::size_t index) {
  T value;
  std::memcpy(&value, raw.data() + index * sizeof value, sizeof value);
  return value;
}

// `value_at(index)` is an element of the row.
template <typename ValueAt>
void add_row(std::vector<std::string>& out, std::size_t length, std::size_t classes, ValueAt&& value_at) {
  std::vector<std::uint32_t> order(length);
  std::iota(order.begin(), order.end(), 0U);
  const auto above = [&](std::uint32_t a, std::uint32_t b) {
    const auto x = value_at(a);
    const auto y = value_at(b);
    // Every number is above NaN, and nothing else is comparable to it.
    if (x != x || y != y) return x == x && y != y;
    return x != y ? x > y : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(classes), order.end(), above);
  for (std::size_t i = 0; i < classes; ++i) {
    const auto value = value_at(order[i]);
    if constexpr (std::is_floating_point_v<std::remove_const_t<decltype(value)>>) {
      out.push_back(fmt::format("{:f}:{}", value, order[i]));
    } else {
      out.push_back(fmt::format("{}:{}", value, order[i]));
    }
  }
}

template <typename T>
std::vector<std::string> classify_as(std::string_view raw, std::int64_t samples, std::int64_t classes) {
  std::vector<std::string> out;
  const std::size_t length = raw.size() / sizeof(T) / static_cast<std::size_t>(samples);
  const std::size_t shown = std::min(length, static_cast<std::size_t>(classes));
  for (std::int64_t s = 0; s < samples; ++s) {
    const std::string_view row = raw.substr(static_cast<std::size_t>(s) * length * sizeof(T), length * sizeof(T));
    add_row(out, length, shown, [&](std::uint32_t i) { return element_at<T>(row, i); });
  }
  return out;
}

std::vector<std::string> classify_small(Datatype datatype, std::string_view raw, std::int64_t samples,
                                        std::int64_t classes) {
  std::string widened;
  for (std::size_t at = 0; at + 2 <= raw.size(); at += 2) {
    const float value = from_small_float(datatype, element_at<std::uint16_t>(raw, at / 2));
    widened.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return classify_as<float>(widened, samples, classes);
}

}  // namespace

bool can_classify(Datatype datatype) { return datatype != Datatype::bytes && datatype != Datatype::boolean; }

std::vector<std::string> classify(Datatype datatype, std::string_view raw, std::int64_t samples, std::int64_t classes) {
  if (samples < 1 || classes < 1) return {};
  switch (datatype) {
    case Datatype::uint8: return classify_as<std::uint8_t>(raw, samples, classes);
    case Datatype::uint16: return classify_as<std::uint16_t>(raw, samples, classes);
    case Datatype::uint32: return classify_as<std::uint32_t>(raw, samples, classes);
    case Datatype::uint64: return classify_as<std::uint64_t>(raw, samples, classes);
    case Datatype::int8: return classify_as<std::int8_t>(raw, samples, classes);
    case Datatype::int16: return classify_as<std::int16_t>(raw, samples, classes);
    case Datatype::int32: return classify_as<std::int32_t>(raw, samples, classes);
    case Datatype::int64: return classify_as<std::int64_t>(raw, samples, classes);
    case Datatype::fp32: return classify_as<float>(raw, samples, classes);
    case Datatype::fp64: return classify_as<double>(raw, samples, classes);
    case Datatype::fp16:
    case Datatype::bf16: return classify_small(datatype, raw, samples, classes);
    case Datatype::boolean:
    case Datatype::bytes: break;
  }
  return {};
}

}  // namespace tangram::serve
