#include "core/fleet.h"

#include "base/text.h"

namespace tangram {
namespace {

std::string prefix_of(const DeviceGroup& group) { return group_name(group) + "-"; }

}  // namespace

const std::string& group_name(const DeviceGroup& group) { return group.name.empty() ? group.type : group.name; }

std::string device_name(const DeviceGroup& group, int number) { return prefix_of(group) + std::to_string(number); }

std::optional<int> device_number(const DeviceGroup& group, std::string_view name) {
  const std::string prefix = prefix_of(group);
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  // Nine digits fit into an int; parse_integer would also take a sign.
  if (name.empty() || name.size() > 9 || name.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  const auto number = text::parse_integer(name);
  if (!number || (group.count && *number >= *group.count)) return std::nullopt;
  return static_cast<int>(*number);
}

std::vector<std::string> device_names(const DeviceGroup& group) {
  std::vector<std::string> names;
  for (int i = 0; i < group.count.value_or(0); ++i) names.push_back(device_name(group, i));
  return names;
}

}  // namespace tangram
