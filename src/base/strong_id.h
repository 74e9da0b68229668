// Ids that cannot be mixed up: a DeviceId is not a SliceId, though both are small integers.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace tangram {

// `Tag` makes each id a type of its own; `Rep` is its width. Ids index arrays, so they start at zero and the owner of
// the named objects hands them out without gaps.
template <typename Tag, typename Rep = std::uint32_t>
class StrongId {
 public:
  using rep = Rep;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  Rep value_ = 0;
};

}  // namespace tangram

template <typename Tag, typename Rep>
struct std::hash<tangram::StrongId<Tag, Rep>> {
  std::size_t operator()(tangram::StrongId<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value()); }
};
