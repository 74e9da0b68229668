#include "control/recut_clock.h"

#include <algorithm>

namespace tangram::control {
namespace {

// How many slices of `from` are not in `in`. Slices that both layouts have are not cut again.
std::size_t missing(const Layout& in, const Layout& from) {
  return static_cast<std::size_t>(std::ranges::count_if(
      from.slices, [&](const Slice& slice) { return std::ranges::find(in.slices, slice) == in.slices.end(); }));
}

}  // namespace

Duration RecutClock::time_of(const Layout& before, const Layout& target, TimePoint now) const {
  const std::size_t created = missing(before, target);
  const std::size_t destroyed = missing(target, before);
  Duration takes{};
  if (destroyed > 0) takes += recut_.destroy(destroyed);
  if (created > 0) takes += recut_.create(created);
  // Models are loaded onto the slices of a device at once.
  if (!target.slices.empty()) takes += load_;
  return before.slices.empty() ? std::max(Duration::zero(), takes - (now - begun_)) : takes;
}

}  // namespace tangram::control
