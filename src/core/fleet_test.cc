#include "core/fleet.h"

#include <gtest/gtest.h>

namespace tangram {
namespace {

DeviceGroup group_of(const std::string& name, std::optional<int> count) {
  DeviceGroup group;
  group.name = name;
  group.type = "a100-80gb";
  group.count = count;
  return group;
}

TEST(Fleet, NamesDevicesByGroupAndNumber) {
  EXPECT_EQ(device_name(group_of("rack", 2), 1), "rack-1");
  EXPECT_EQ(device_name(group_of("", 2), 0), "a100-80gb-0");
  EXPECT_EQ(device_names(group_of("rack", 2)), (std::vector<std::string>{"rack-0", "rack-1"}));
  EXPECT_TRUE(device_names(group_of("rack", std::nullopt)).empty());
}

TEST(Fleet, FindsTheNumberOfItsOwnDevicesOnly) {
  EXPECT_EQ(device_number(group_of("rack", 2), "rack-1"), 1);
  EXPECT_FALSE(device_number(group_of("rack", 2), "rack-2"));
  EXPECT_FALSE(device_number(group_of("rack", 2), "rack-1-0"));
  EXPECT_FALSE(device_number(group_of("rack", 2), "rack-"));
  EXPECT_FALSE(device_number(group_of("rack", 2), "rack-+1"));
  EXPECT_EQ(device_number(group_of("rack", std::nullopt), "rack-700"), 700);
  EXPECT_FALSE(device_number(group_of("rack", std::nullopt), "rack-99999999999"));
}

}  // namespace
}  // namespace tangram
