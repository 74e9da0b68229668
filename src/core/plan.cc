#include "core/plan.h"

namespace tangram {

Layout layout_of(const PlannedDevice& device) {
  Layout layout;
  for (const auto& planned : device.slices) layout.slices.push_back(planned.slice);
  return layout;
}

}  // namespace tangram
