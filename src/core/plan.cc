#include "core/plan.h"

namespace tangram {

// Keeps the order of the slices and does not sort them, so that why_invalid() notices a plan that is out of order.
Layout reserved_of(const PlannedDevice& device) {
  Layout layout;
  for (const auto& planned : device.slices) {
    if (planned.reserved) layout.slices.push_back(planned.slice);
  }
  return layout;
}

Layout layout_of(const PlannedDevice& device) {
  Layout layout;
  for (const auto& planned : device.slices) layout.slices.push_back(planned.slice);
  return layout;
}

}  // namespace tangram
