#include "formats/fleet_file.h"

#include <gtest/gtest.h>

#include "formats/detail/files_test.h"

namespace tangram::formats {
namespace {

constexpr CpuHost kHost{.cores = 4, .memory_gib = 16, .quota = true};

Result<Fleet> parsed_fleet(const std::string& text) { return parse_fleet({"fleet.yaml", text}, kHost); }
std::string fleet_problems(const std::string& text) {
  const auto fleet = parsed_fleet(text);
  return fleet ? "" : fleet.error().message;
}

TEST(FleetFile, ReadsEveryKey) {
  const auto fleet = parsed_fleet(
      "spare: one_device\ndevices:\n"
      "  - type: a100-80gb\n    name: rack1\n    count: 4\n    price_per_hour: 1.80\n    profiles: me\n    layout: "
      "4g.40gb@0 + 3g.40gb@4\n"
      "  - type: h200-141gb\n    unlimited: true\n"
      "  - type: cpu\n    cores: 8\n");
  ASSERT_TRUE(fleet) << fleet.error().message;
  EXPECT_EQ(fleet->spare, SparePolicy::one_device);
  ASSERT_EQ(fleet->groups.size(), 3U);
  const auto& rack = fleet->groups[0];
  EXPECT_EQ(rack.name, "rack1");
  EXPECT_EQ(rack.count, 4);
  EXPECT_EQ(rack.price_per_hour, 1.8);
  EXPECT_EQ(rack.profiles, ProfileSet::media);
  EXPECT_EQ(to_string(group_geometry(rack, kHost), *rack.layout), "4g.40gb@0 + 3g.40gb@4");
  EXPECT_EQ(fleet->groups[1].name, "h200-141gb");
  EXPECT_FALSE(fleet->groups[1].count.has_value());
  // Cores are its own, the rest is the reading machine's.
  EXPECT_EQ(fleet->groups[2].host->cores, 8);
  EXPECT_EQ(fleet->groups[2].host->memory_gib, 16);
}

TEST(FleetFile, LeavesTheHostOpenWhereTheEntrySaysNothing) {
  const auto fleet = parsed_fleet("devices:\n  - type: cpu\n");
  ASSERT_TRUE(fleet);
  EXPECT_FALSE(fleet->groups[0].host.has_value());
  EXPECT_EQ(group_geometry(fleet->groups[0], kHost).units, 16);
  // A layout depends on the size of the host, so it pins it.
  const auto cut = parsed_fleet("devices:\n  - type: cpu\n    layout: 1c@0 + 3c@4\n");
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->groups[0].host->cores, 4);
}

TEST(FleetFile, ReadsWhatOthersUse) {
  const std::string text = "devices:\n  - type: a100-80gb\n    profiles: base\n    reserved: 3g.40gb@4\n";
  const auto fleet = parsed_fleet(text);
  ASSERT_TRUE(fleet) << fleet.error().message;
  EXPECT_EQ(to_string(group_geometry(fleet->groups[0], kHost), fleet->groups[0].reserved), "3g.40gb@4");
  const auto again = parsed_fleet(write_fleet(*fleet));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->groups[0].reserved, fleet->groups[0].reserved);
  // It is cut already, so the layout of today has it.
  EXPECT_TRUE(parsed_fleet(text + "    layout: 4g.40gb@0 + 3g.40gb@4\n"));
  EXPECT_EQ(fleet_problems(text + "    layout: 7g.80gb@0\n"),
            "fleet.yaml:4:15: reserved has 3g.40gb@4, which is not in layout: 7g.80gb@0");
  EXPECT_EQ(fleet_problems("devices:\n  - type: a100-80gb\n    reserved: 3g.40gb@2\n"),
            "fleet.yaml:3:15: 3g.40gb cannot start at 2; allowed: 0, 4");
}

// 3g.20gb may start at 0 and 4 on an A100-40GB; the second slice overlaps the first good one.
TEST(FleetFile, PointsAtEachWrongSliceInALayout) {
  EXPECT_EQ(fleet_problems("devices:\n  - type: a100-40gb\n    layout: 3g.20gb@2 + 4g.20gb@0 + 1g.5gb@3\n"),
            "fleet.yaml:3:13: 3g.20gb cannot start at 2; allowed: 0, 4\n"
            "fleet.yaml:3:37: 1g.5gb@3 overlaps 4g.20gb@0");
  EXPECT_EQ(fleet_problems("devices:\n  - type: a100-40gb\n    layout: \"3g.20gb@2\"\n"),
            "fleet.yaml:3:14: 3g.20gb cannot start at 2; allowed: 0, 4");
}

TEST(FleetFile, ReportsAllProblemsAtOnce) {
  EXPECT_EQ(fleet_problems(
                "spares: none\ndevices:\n  - type: a100\n    count: 0\n  - type: a30\n    cores: 2\n    count: 1\n    "
                "unlimited: true\n"),
            "fleet.yaml:1:1: key is unknown: \"spares\", did you mean spare?; known: spare, devices\n"
            "fleet.yaml:3:11: type is unknown: \"a100\", did you mean a100-40gb?; known: a30, a100-40gb, a100-80gb, "
            "h100-80gb, h100-94gb, h100-96gb, h200-141gb, gh200-144gb, b200-180gb, gb200-186gb, b300, gb300, "
            "rtx-pro-6000, cpu\n"
            "fleet.yaml:4:12: count must be at least 1, not 0\n"
            "fleet.yaml:6:12: cores applies only to type cpu, not to a30\n"
            "fleet.yaml:8:16: count and unlimited cannot be combined");
}

TEST(FleetFile, RefusesAHostWithoutCores) {
  EXPECT_EQ(fleet_problems("devices:\n  - {type: cpu, cores: 0, layout: 1c@0}\n"),
            "fleet.yaml:2:24: cores must be at least 1, not 0");
}

TEST(FleetFile, WantsADistinctNameForEachGroup) {
  EXPECT_EQ(fleet_problems("devices:\n  - type: a30\n  - type: a30\n    count: 2\n"),
            "fleet.yaml:3:11: the name a30 is already used by the entry in line 2; give this entry another name");
}

TEST(FleetFile, RefusesAnEmptyFile) {
  EXPECT_EQ(fleet_problems(""), "fleet.yaml: the file is empty");
  EXPECT_EQ(fleet_problems("devices: []\n"), "fleet.yaml:1:10: devices must not be empty");
  EXPECT_EQ(fleet_problems("spare: none\n"), "fleet.yaml:1:1: devices is missing");
}

TEST(FleetFile, RefusesALayoutOfProfilesThatItForbids) {
  EXPECT_EQ(fleet_problems("devices:\n  - {type: a30, profiles: base, layout: 1g+me@0}\n"),
            "fleet.yaml:2:41: layout contains 1g.6gb+me, which is not in profiles: base");
  EXPECT_EQ(fleet_problems("devices:\n  - {type: a30, profiles: me, layout: 1g+me@0}\n"), "");
}

TEST(FleetFile, ReportsWhatDoesNotGoTogetherBesideWhatIsWrong) {
  EXPECT_EQ(fleet_problems("devices:\n  - type: a30\n  - {type: a30, count: 0, unlimited: true, layout: 2g@1}\n"),
            "fleet.yaml:3:12: the name a30 is already used by the entry in line 2; give this entry another name\n"
            "fleet.yaml:3:24: count must be at least 1, not 0\n"
            "fleet.yaml:3:38: count and unlimited cannot be combined\n"
            "fleet.yaml:3:52: 2g.12gb cannot start at 1; allowed: 0, 2");
}

TEST(FleetFile, ReadsAFoldedLayout) {
  const auto fleet = parsed_fleet("devices:\n  - type: a30\n    layout: >\n      2g@0 +\n      2g@2\n");
  ASSERT_TRUE(fleet) << fleet.error().message;
  EXPECT_EQ(fleet->groups[0].layout->slices.size(), 2U);
}

TEST(FleetFile, OfTheExamplesReadsBackTheSame) {
  const auto fleet = parse_fleet(test::example("fleet.yaml"), kHost);
  ASSERT_TRUE(fleet) << fleet.error().message;
  const std::string text = write_fleet(*fleet);
  const auto again = parsed_fleet(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(write_fleet(*again), text);
  EXPECT_EQ(again->groups.size(), fleet->groups.size());
  EXPECT_EQ(again->groups[0].layout, fleet->groups[0].layout);
}

}  // namespace
}  // namespace tangram::formats
