#include "core/geometry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tangram {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const Geometry& board(std::string_view type) {
  const Geometry* found = find_geometry(type);
  TANGRAM_CHECK(found != nullptr, "the test names a board of the catalogue");
  return *found;
}

const MigProfile& profile(const Geometry& geometry, std::string_view name) {
  return geometry.profiles[*find_profile(geometry, name)];
}

std::string found_name(std::string_view type, std::string_view name) {
  const auto index = find_profile(board(type), name);
  return index ? board(type).profiles[*index].name : "error: " + index.error().message;
}

std::vector<std::string> names_of(const Geometry& geometry) {
  std::vector<std::string> names;
  for (const auto& p : geometry.profiles) names.push_back(p.name);
  return names;
}

// The names that the vendor prints, in the order 1g, 1g with double memory, 1g+me, 2g, 3g, 4g, 7g.
TEST(Geometry, OfEightUnitBoardsHasTheVendorsNames) {
  const std::map<std::string, std::vector<std::string>> expected{
      {"a100-40gb", {"1g.5gb", "1g.10gb", "1g.5gb+me", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}},
      {"a100-80gb", {"1g.10gb", "1g.20gb", "1g.10gb+me", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}},
      {"h100-80gb", {"1g.10gb", "1g.20gb", "1g.10gb+me", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}},
      {"h100-94gb", {"1g.12gb", "1g.24gb", "1g.12gb+me", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"}},
      {"h100-96gb", {"1g.12gb", "1g.24gb", "1g.12gb+me", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"}},
      {"h200-141gb", {"1g.18gb", "1g.35gb", "1g.18gb+me", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"}},
      {"gh200-144gb", {"1g.18gb", "1g.36gb", "1g.18gb+me", "2g.36gb", "3g.72gb", "4g.72gb", "7g.144gb"}},
      {"b200-180gb", {"1g.23gb", "1g.45gb", "1g.23gb+me", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"}},
      {"gb200-186gb", {"1g.23gb", "1g.47gb", "1g.23gb+me", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"}},
      {"b300", {"1g.34gb", "1g.67gb", "1g.34gb+me", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb"}},
      {"gb300", {"1g.35gb", "1g.70gb", "1g.35gb+me", "2g.70gb", "3g.139gb", "4g.139gb", "7g.278gb"}},
  };
  for (const auto& [type, names] : expected) EXPECT_EQ(names_of(board(type)), names) << type;
}

TEST(Geometry, OfEightUnitBoardsPlacesProfilesAsTheVendorLists) {
  struct Row {
    int compute_slices, units, count_max, vendor_id;
    std::vector<int> starts;
  };
  const std::vector<Row> expected{{1, 1, 7, 19, {0, 1, 2, 3, 4, 5, 6}},
                                  {1, 2, 4, 15, {0, 2, 4, 6}},
                                  {1, 1, 1, 20, {0, 1, 2, 3, 4, 5, 6}},
                                  {2, 2, 3, 14, {0, 2, 4}},
                                  {3, 4, 2, 9, {0, 4}},
                                  {4, 4, 1, 5, {0}},
                                  {7, 8, 1, 0, {0}}};
  for (const auto& geometry : known_geometries()) {
    if (geometry.units != 8) continue;
    EXPECT_EQ(geometry.compute_slices, 7) << geometry.type;
    ASSERT_EQ(geometry.profiles.size(), expected.size()) << geometry.type;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const MigProfile& p = geometry.profiles[i];
      EXPECT_EQ(p.compute_slices, expected[i].compute_slices) << geometry.type << " " << p.name;
      EXPECT_EQ(p.units, expected[i].units) << geometry.type << " " << p.name;
      EXPECT_EQ(p.count_max, expected[i].count_max) << geometry.type << " " << p.name;
      EXPECT_EQ(p.vendor_id, expected[i].vendor_id) << geometry.type << " " << p.name;
      EXPECT_EQ(p.starts, expected[i].starts) << geometry.type << " " << p.name;
    }
  }
}

// On Hopper a 3g has 60 of 132 multiprocessors, not three sevenths of them; what is not known is marked.
TEST(Geometry, CountsMultiprocessorsAsListedOnRealBoards) {
  const auto sm = [](std::string_view type) {
    std::vector<int> counts;
    for (const auto& p : board(type).profiles) {
      if (p.family != ProfileFamily::media) counts.push_back(p.sm_count.value);
    }
    return counts;
  };
  EXPECT_THAT(sm("a100-40gb"), ElementsAre(14, 14, 28, 42, 56, 98));
  EXPECT_THAT(sm("a100-80gb"), ElementsAre(14, 14, 28, 42, 56, 98));
  for (const char* type : {"h100-80gb", "h100-94gb", "h100-96gb", "h200-141gb", "gh200-144gb"}) {
    EXPECT_THAT(sm(type), ElementsAre(16, 26, 32, 60, 64, 132)) << type;
  }
  EXPECT_THAT(sm("b200-180gb"), ElementsAre(18, 30, 36, 0, 0, 0));
  EXPECT_THAT(sm("gb200-186gb"), ElementsAre(18, 32, 38, 0, 0, 0));
}

TEST(Geometry, MarksWhatNobodyHasListed) {
  EXPECT_EQ(board("a100-40gb").placements, Evidence::verified);
  EXPECT_EQ(board("h100-94gb").placements, Evidence::verified);
  EXPECT_EQ(board("b200-180gb").placements, Evidence::unverified);
  EXPECT_EQ(profile(board("b200-180gb"), "7g").sm_count.evidence, Evidence::unknown);
  EXPECT_EQ(profile(board("gh200-144gb"), "3g").sm_count.evidence, Evidence::unverified);
  EXPECT_EQ(profile(board("b300"), "1g").memory_gib.evidence, Evidence::unverified);
  for (const auto& geometry : known_geometries()) {
    for (const auto& p : geometry.profiles) {
      EXPECT_EQ(p.sm_count.value == 0, p.sm_count.evidence == Evidence::unknown) << geometry.type << " " << p.name;
      EXPECT_GT(p.memory_gib.value, 0) << geometry.type << " " << p.name;
    }
  }
}

TEST(Geometry, KnowsUsableMemoryAsListedOnRealBoards) {
  EXPECT_DOUBLE_EQ(profile(board("a100-40gb"), "1g.5gb").memory_gib.value, 4.75);
  EXPECT_DOUBLE_EQ(profile(board("a100-80gb"), "7g").memory_gib.value, 78.5);
  EXPECT_DOUBLE_EQ(profile(board("h100-80gb"), "3g").memory_gib.value, 39.5);
  EXPECT_DOUBLE_EQ(profile(board("h100-94gb"), "2g").memory_gib.value, 21.62);
  EXPECT_DOUBLE_EQ(profile(board("h100-96gb"), "4g").memory_gib.value, 46.5);
  EXPECT_DOUBLE_EQ(profile(board("h200-141gb"), "7g").memory_gib.value, 139.75);
  EXPECT_DOUBLE_EQ(profile(board("a30"), "4g").memory_gib.value, 23.44);
  EXPECT_DOUBLE_EQ(profile(board("rtx-pro-6000"), "2g").memory_gib.value, 47.38);
}

TEST(Geometry, OfAnA30HasFourUnits) {
  const Geometry& a30 = board("a30");
  EXPECT_EQ(a30.units, 4);
  EXPECT_THAT(names_of(a30), ElementsAre("1g.6gb", "1g.6gb+me", "2g.12gb", "2g.12gb+me", "4g.24gb"));
  std::vector<int> ids;
  for (const auto& p : a30.profiles) ids.push_back(p.vendor_id);
  EXPECT_THAT(ids, ElementsAre(14, 21, 5, 6, 0));
  EXPECT_THAT(profile(a30, "2g.12gb").starts, ElementsAre(0, 2));
}

TEST(Geometry, OfAnRtxPro6000HasTwelveUnits) {
  const Geometry& rtx = board("rtx-pro-6000");
  EXPECT_EQ(rtx.units, 12);
  EXPECT_EQ(rtx.profiles.size(), 11U);
  EXPECT_THAT(profile(rtx, "1g.24gb").starts, ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(profile(rtx, "2g.48gb-me").starts, ElementsAre(0, 6));
  EXPECT_EQ(profile(rtx, "1g.24gb+me.all").media, (MediaEngines{4, 4, 4, 1}));
  EXPECT_EQ(profile(rtx, "1g.24gb-me").media, (MediaEngines{0, 0, 0, 0}));
  EXPECT_EQ(profile(rtx, "4g.96gb").sm_count.value, 188);
}

// What every table must satisfy, whoever adds one.
TEST(Geometry, OfEveryBoardIsSoundInItself) {
  std::set<std::string> types;
  std::set<int> pci_ids;
  for (const auto& geometry : known_geometries()) {
    EXPECT_TRUE(types.insert(geometry.type).second) << geometry.type;
    for (const auto id : geometry.pci_ids) EXPECT_TRUE(pci_ids.insert(id).second) << geometry.type << " " << id;
    std::set<std::string> names;
    std::set<int> vendor_ids;
    for (const auto& p : geometry.profiles) {
      EXPECT_TRUE(names.insert(p.name).second) << geometry.type << " " << p.name;
      EXPECT_TRUE(vendor_ids.insert(p.vendor_id).second) << geometry.type << " " << p.name;
      EXPECT_TRUE(std::is_sorted(p.starts.begin(), p.starts.end())) << geometry.type << " " << p.name;
      EXPECT_GE(p.starts.front(), 0);
      EXPECT_LE(p.starts.back() + p.units, geometry.units) << geometry.type << " " << p.name;
      EXPECT_LE(p.count_max, static_cast<int>(p.starts.size())) << geometry.type << " " << p.name;
    }
    for (std::size_t i = 1; i < geometry.profiles.size(); ++i) {
      EXPECT_LE(geometry.profiles[i - 1].compute_slices, geometry.profiles[i].compute_slices) << geometry.type;
    }
  }
}

TEST(GeometryCatalogue, HasTheTypesOfTheDocumentation) {
  EXPECT_THAT(device_type_names(),
              ElementsAre("a30", "a100-40gb", "a100-80gb", "h100-80gb", "h100-94gb", "h100-96gb", "h200-141gb",
                          "gh200-144gb", "b200-180gb", "gb200-186gb", "b300", "gb300", "rtx-pro-6000", "cpu"));
  EXPECT_EQ(find_geometry("a100"), nullptr);
  EXPECT_EQ(find_geometry("cpu"), nullptr);
}

TEST(GeometryCatalogue, FindsBoardsByTheirPciId) {
  const std::map<int, std::string> expected{{0x20B0, "a100-40gb"},   {0x20F6, "a100-40gb"},  {0x20B2, "a100-80gb"},
                                            {0x20F5, "a100-80gb"},   {0x2330, "h100-80gb"},  {0x2324, "h100-80gb"},
                                            {0x2321, "h100-94gb"},   {0x233A, "h100-94gb"},  {0x2342, "h100-96gb"},
                                            {0x2329, "h100-96gb"},   {0x2335, "h200-141gb"}, {0x233B, "h200-141gb"},
                                            {0x2348, "gh200-144gb"}, {0x2901, "b200-180gb"}, {0x2941, "gb200-186gb"},
                                            {0x3182, "b300"},        {0x31C2, "gb300"},      {0x2BB5, "rtx-pro-6000"}};
  for (const auto& [id, type] : expected) {
    const Geometry* found = find_geometry_by_pci(static_cast<std::uint16_t>(id));
    ASSERT_NE(found, nullptr) << type;
    EXPECT_EQ(found->type, type);
  }
  EXPECT_EQ(find_geometry_by_pci(0x1234), nullptr);
}

// The H100 PCIe has 114 multiprocessors in all and the H20 78, so the 132 of the SXM board say nothing about them.
TEST(GeometryCatalogue, ClaimsNoMultiprocessorsForBoardsThatAreOnlyCutAlike) {
  for (const int id : {0x2331, 0x2322, 0x20B6, 0x2329}) {
    const Geometry* board = find_geometry_by_pci(static_cast<std::uint16_t>(id));
    ASSERT_NE(board, nullptr) << id;
    const Geometry& type = *find_geometry(board->type);
    EXPECT_NE(board->title, type.title);
    EXPECT_THAT(type.pci_ids, testing::Not(testing::Contains(id)));
    EXPECT_THAT(type.pci_ids_alike, testing::Contains(id));
    ASSERT_EQ(board->profiles.size(), type.profiles.size());
    for (std::size_t i = 0; i < type.profiles.size(); ++i) {
      EXPECT_EQ(board->profiles[i].sm_count, (Figure<int>{0, Evidence::unknown})) << board->title;
      EXPECT_EQ(board->profiles[i].memory_gib.evidence, Evidence::unverified) << board->title;
      EXPECT_EQ(board->profiles[i].starts, type.profiles[i].starts) << board->title;
    }
  }
}

TEST(FindProfile, UnderstandsEveryNameItPrints) {
  for (const auto& geometry : known_geometries()) {
    for (std::size_t i = 0; i < geometry.profiles.size(); ++i) {
      const auto found = find_profile(geometry, geometry.profiles[i].name);
      ASSERT_TRUE(found.ok()) << geometry.type << " " << geometry.profiles[i].name;
      EXPECT_EQ(*found, i) << geometry.type << " " << geometry.profiles[i].name;
    }
  }
}

TEST(FindProfile, UnderstandsNamesThatDriversDisagreeOn) {
  EXPECT_EQ(found_name("a100-80gb", "7g.79gb"), "7g.80gb");
  EXPECT_EQ(found_name("a100-80gb", "3g.39gb"), "3g.40gb");
  EXPECT_EQ(found_name("gb200-186gb", "1g.24gb"), "1g.23gb");
  EXPECT_EQ(found_name("gb200-186gb", "1g.24gb+me"), "1g.23gb+me");
  EXPECT_THAT(found_name("a100-80gb", "7g.78gb"), HasSubstr("error"));
}

TEST(FindProfile, PrefersTheExactNameToADriftedOne) {
  EXPECT_EQ(found_name("a100-40gb", "1g.10gb"), "1g.10gb");
  EXPECT_EQ(found_name("h200-141gb", "1g.35gb"), "1g.35gb");
  EXPECT_EQ(found_name("h200-141gb", "1g.18gb"), "1g.18gb");
}

TEST(FindProfile, UnderstandsTheSpellingOfKubernetes) {
  EXPECT_EQ(found_name("a100-40gb", "1g.5gb.me"), "1g.5gb+me");
  EXPECT_EQ(found_name("rtx-pro-6000", "1g.24gb.me.all"), "1g.24gb+me.all");
  EXPECT_EQ(found_name("rtx-pro-6000", "1g.24gb.gfx"), "1g.24gb+gfx");
  EXPECT_EQ(found_name("rtx-pro-6000", "1g.24gb-me"), "1g.24gb-me");
}

TEST(FindProfile, UnderstandsTheShortForm) {
  EXPECT_EQ(found_name("a100-40gb", "1g"), "1g.5gb");
  EXPECT_EQ(found_name("a100-40gb", "3g"), "3g.20gb");
  EXPECT_EQ(found_name("a100-40gb", "1g+me"), "1g.5gb+me");
  EXPECT_EQ(found_name("a100-40gb", "1g.me"), "1g.5gb+me");
  EXPECT_EQ(found_name("rtx-pro-6000", "2g-me"), "2g.48gb-me");
}

TEST(FindProfile, ListsTheKnownNamesAndSuggestsTheNearest) {
  const auto message = find_profile(board("a100-40gb"), "3g.40gb").error().message;
  EXPECT_THAT(message, HasSubstr("a100-40gb has no profile 3g.40gb"));
  EXPECT_THAT(message, HasSubstr("did you mean 3g.20gb?"));
  EXPECT_THAT(message, HasSubstr("known: 1g.5gb, 1g.10gb, 1g.5gb+me, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb"));
  EXPECT_EQ(find_profile(board("a30"), "x").error().code, ErrorCode::invalid);
}

// 1g.10gb is nearer to 7g.100gb by its letters, but nobody who wants seven slices wants one.
TEST(FindProfile, SuggestsOnlyProfilesOfTheSameSlices) {
  EXPECT_THAT(found_name("a100-80gb", "7g.100gb"), HasSubstr("did you mean 7g.80gb?"));
  EXPECT_THAT(found_name("a100-80gb", "5g.20gb"), Not(HasSubstr("did you mean")));
}

TEST(FindProfile, UnderstandsCapitals) {
  EXPECT_EQ(found_name("a100-80gb", "3G.40GB"), "3g.40gb");
  EXPECT_EQ(found_name("a100-80gb", "1G+ME"), "1g.10gb+me");
}

TEST(FindProfile, RefusesWhatIsNoName) {
  for (const char* name : {"", "g", "3", "5g", "3g.", "3g.gb", "3g.20", "3g.20gbx", "-3g", "3g.20gb+", "3g.20gb+you",
                           "99999999999999999999g", "3g.99999999999999gb", "1c", " 3g"}) {
    EXPECT_THAT(found_name("a100-40gb", name), HasSubstr("error")) << name;
  }
}

TEST(ProfileSets, IncludeTheOnesBefore) {
  using enum ProfileSet;
  EXPECT_THAT(names_of(restrict_to(board("a100-40gb"), base)),
              ElementsAre("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"));
  EXPECT_THAT(names_of(restrict_to(board("a100-40gb"), double_memory)),
              ElementsAre("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"));
  EXPECT_EQ(restrict_to(board("a100-40gb"), media), board("a100-40gb"));
  EXPECT_THAT(names_of(restrict_to(board("rtx-pro-6000"), media)),
              ElementsAre("1g.24gb", "1g.24gb+me", "2g.48gb", "4g.96gb"));
  EXPECT_EQ(restrict_to(board("rtx-pro-6000"), all), board("rtx-pro-6000"));
}

TEST(ProfileSets, HaveNamesThatReadBack) {
  using enum ProfileSet;
  for (const auto set : {base, double_memory, media, all}) EXPECT_EQ(parse_profile_set(to_string(set)), set);
  EXPECT_EQ(to_string(double_memory), "double");
  EXPECT_EQ(parse_profile_set("Base"), std::nullopt);
}

// Two cores in quarters: eight units, and a slice of any length starts wherever it ends in time.
TEST(CpuGeometry, CutsQuartersOfCoresWhereQuotasCanBeSet) {
  const Geometry cpu = cpu_geometry({.cores = 2, .memory_gib = 16, .quota = true});
  EXPECT_EQ(cpu.units, 8);
  EXPECT_THAT(names_of(cpu), ElementsAre("0.25c", "0.5c", "0.75c", "1c", "1.25c", "1.5c", "1.75c", "2c"));
  EXPECT_THAT(profile(cpu, "1.5c").starts, ElementsAre(0, 1, 2));
  EXPECT_EQ(profile(cpu, "0.75c").count_max, 2);
  EXPECT_DOUBLE_EQ(profile(cpu, "0.5c").memory_gib.value, 4);
}

TEST(CpuGeometry, CutsWholeCoresOtherwise) {
  const Geometry cpu = cpu_geometry({.cores = 3, .memory_gib = 6, .quota = false});
  EXPECT_EQ(cpu.units, 3);
  EXPECT_THAT(names_of(cpu), ElementsAre("1c", "2c", "3c"));
  EXPECT_EQ(cpu.title, "host, 3 cores");
}

TEST(CpuGeometry, UnderstandsNumbersWrittenAnotherWay) {
  const Geometry cpu = cpu_geometry({.cores = 2, .memory_gib = 16, .quota = true});
  EXPECT_EQ(*find_profile(cpu, "1.50c"), *find_profile(cpu, "1.5c"));
  EXPECT_EQ(*find_profile(cpu, "2.0c"), *find_profile(cpu, "2c"));
  for (const char* name : {"0c", "0.3c", "2.25c", "-1c", "c", "nanc", "1e9c"}) {
    EXPECT_FALSE(find_profile(cpu, name).ok()) << name;
  }
}

TEST(CpuGeometry, ReachesItsLargestHost) {
  const Geometry cpu = cpu_geometry({.cores = kCpuCoresMax, .memory_gib = 1, .quota = false});
  EXPECT_EQ(cpu.profiles.size(), static_cast<std::size_t>(kCpuCoresMax));
  // A list of a thousand names helps nobody.
  EXPECT_LT(find_profile(cpu, "3g").error().message.size(), 300U);
}

TEST(CpuGeometryDeathTest, RefusesAHostWithoutCores) {
  EXPECT_DEATH(cpu_geometry({.cores = 0}), "between one core");
  EXPECT_DEATH(cpu_geometry({.cores = kCpuCoresMax + 1}), "between one core");
}

}  // namespace
}  // namespace tangram
