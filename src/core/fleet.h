// The devices that may be cut.
#pragma once

#include <optional>
#include <string>
#include <string_view>
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

// The name of a group: its type where none is given.
const std::string& group_name(const DeviceGroup& group);
// The name of a device: that of its group and a number from 0 on, "rack1-3".
std::string device_name(const DeviceGroup& group, int number);
// The number of a device of the group by its name; nothing if the group has no such device. Only a number may follow
// the group's name: rack-1-0 belongs to rack-1, and not to rack.
std::optional<int> device_number(const DeviceGroup& group, std::string_view name);
// All devices of the group by name; none if there is no limit to them.
std::vector<std::string> device_names(const DeviceGroup& group);

}  // namespace tangram
