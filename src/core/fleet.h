// The devices that may be cut.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/geometry.h"
#include "core/layout.h"

namespace tangram {

// What a fleet keeps in hand against the loss of a device.
enum class SparePolicy {
  none,
  one_device,  // Every promise still holds when any one device is lost.
};

// A number of equal devices.
struct DeviceGroup {
  std::string name;          // Prefix of the device names; the type where it is not given.
  std::string type;          // An id of the catalogue, or "cpu".
  std::optional<int> count;  // Nothing: unlimited, as many as the plan needs.
  double price_per_hour = 0;
  ProfileSet profiles = ProfileSet::all;  // The profiles that a plan may use.
  std::optional<Layout> layout;           // How each device of the group is cut today, if it is.
  Layout reserved;                        // Slices of each device that others use: no plan cuts or uses them.
  std::optional<CpuHost> host;            // Only for "cpu"; nothing means the machine that reads the file.
};

struct Fleet {
  std::vector<DeviceGroup> groups;
  SparePolicy spare = SparePolicy::none;
};

}  // namespace tangram
