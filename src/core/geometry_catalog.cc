// The tables of device types.
//
// Names, counts and placements follow NVIDIA's MIG user guide and listings read off real boards (`nvidia-smi mig
// -lgip` and `-lgipp`). Where only the vendor's mock tables exist, or nothing, the number says so: `unverified`
// or `unknown`. Streaming multiprocessors are not a seventh per compute slice from Hopper on.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/geometry.h"

namespace tangram {
namespace {

// Estimates of usable memory for boards without a listing; results are marked unverified. On every listed board the
// cuts hold at least these shares of what the 2g holds. Where not even the 2g is known, the lowest ratio of usable GiB
// to the gigabytes in the name is used (1g.18gb of an H200 has 16.0 GiB).
constexpr double kShareOf2g[] = {0.49, 1, 1, 2, 2, 4};
constexpr double kUsableShare = 0.888;

constexpr auto kNo = Evidence::unknown;
constexpr auto kMaybe = Evidence::unverified;

// The cuts of the boards with eight units. All arrays below are in this order.
enum Cut : std::size_t { k1g, k1g_double, k2g, k3g, k4g, k7g, kCuts };

// What differs between the boards with eight units. Starts, units and counts are the same on all of them.
struct EightUnitBoard {
  const char* type;
  const char* title;
  Evidence placements;
  std::array<int, kCuts> name_gb;
  std::array<Figure<int>, kCuts> sm_count;
  std::array<Figure<double>, kCuts> memory_gib;  // Zero and unknown: estimated from the name.
  std::vector<std::uint16_t> pci_ids;
};

// Boards that the vendor's tools cut like one of the types, but whose slices have not been listed: an H100 PCIe has
// 114 multiprocessors where the SXM has 132, an H20 has 78, and the PG506 is an Ampere chip.
struct BoardAlike {
  std::uint16_t pci_id;
  const char* type;
  const char* title;
};
constexpr BoardAlike kBoardsAlike[] = {{0x2331, "h100-80gb", "NVIDIA H100 80GB PCIe"},
                                       {0x2322, "h100-80gb", "NVIDIA H800 80GB PCIe"},
                                       {0x20B6, "h100-96gb", "NVIDIA PG506 96GB"},
                                       {0x2329, "h100-96gb", "NVIDIA H20 96GB"}};

constexpr Figure<int> kSmUnknown{0, kNo};
constexpr Figure<double> kGibUnknown{0, kNo};
// An Ampere slice has 14 multiprocessors for each compute slice. On Hopper the sizes are not proportional: 16 for 1g,
// but 60 for 3g.
constexpr std::array<Figure<int>, kCuts> kAmpereSm{{{14}, {14}, {28}, {42}, {56}, {98}}};
constexpr std::array<Figure<int>, kCuts> kHopperSm{{{16}, {26}, {32}, {60}, {64}, {132}}};
// The GH200's listing was cut off after 2g; it is the same chip as the H100.
constexpr std::array<Figure<int>, kCuts> kGraceHopperSm{{{16}, {26}, {32}, {60, kMaybe}, {64, kMaybe}, {132, kMaybe}}};

// The estimate is on the low side: a plan that counts on too much memory fails when the model is loaded.
double estimated_gib(const EightUnitBoard& board, Cut cut) {
  const auto& known = board.memory_gib[k2g];
  return known.evidence == kNo ? kUsableShare * board.name_gb[cut] : kShareOf2g[cut] * known.value;
}

// One MigProfile of a board with eight units.
MigProfile eight_unit_profile(const EightUnitBoard& board, Cut cut) {
  // Eight memory units and seven compute slices: 1g cannot start at the last unit, and 3g covers four units, so two of
  // them leave one compute slice unused.
  static const std::array<std::vector<int>, kCuts> kStarts{
      {{0, 1, 2, 3, 4, 5, 6}, {0, 2, 4, 6}, {0, 2, 4}, {0, 4}, {0}, {0}}};
  static constexpr std::array<int, kCuts> kComputeSlices{1, 1, 2, 3, 4, 7};
  static constexpr std::array<int, kCuts> kUnits{1, 2, 2, 4, 4, 8};
  static constexpr std::array<int, kCuts> kCountMax{7, 4, 3, 2, 1, 1};
  // The ids that `nvidia-smi mig -lgip` prints for these cuts.
  static constexpr std::array<int, kCuts> kVendorId{19, 15, 14, 9, 5, 0};
  MigProfile profile;
  profile.name = fmt::format("{}g.{}gb", kComputeSlices[cut], board.name_gb[cut]);
  profile.family = cut == k1g_double ? ProfileFamily::double_memory : ProfileFamily::plain;
  profile.compute_slices = kComputeSlices[cut];
  profile.sm_count = board.sm_count[cut];
  profile.memory_gib = board.memory_gib[cut];
  if (profile.memory_gib.evidence == kNo) profile.memory_gib = {estimated_gib(board, cut), kMaybe};
  profile.units = kUnits[cut];
  profile.starts = kStarts[cut];
  profile.count_max = kCountMax[cut];
  profile.vendor_id = kVendorId[cut];
  return profile;
}

// The variant with the media engines. A board has one set of them, modelled as a single optical-flow unit that only
// one slice can take.
MigProfile with_media(MigProfile profile, int vendor_id) {
  profile.name += "+me";
  profile.family = ProfileFamily::media;
  profile.count_max = 1;
  profile.media.optical_flow = 1;
  profile.vendor_id = vendor_id;
  return profile;
}

Geometry eight_units(const EightUnitBoard& board) {
  Geometry geometry;
  geometry.type = board.type;
  geometry.title = board.title;
  geometry.units = 8;
  geometry.compute_slices = 7;
  geometry.placements = board.placements;
  geometry.media.optical_flow = 1;
  geometry.pci_ids = board.pci_ids;
  // An id belongs to the type for its layout only; figures of such boards come from find_geometry_by_pci().
  for (const auto& alike : kBoardsAlike) {
    if (geometry.type == alike.type) geometry.pci_ids_alike.push_back(alike.pci_id);
  }
  auto& profiles = geometry.profiles;
  for (const Cut cut : {k1g, k1g_double, k2g, k3g, k4g, k7g}) {
    profiles.push_back(eight_unit_profile(board, cut));
    // The +me variant of 1g comes after the double-memory one: within a size the order is plain, double_memory, media.
    if (cut == k1g_double) profiles.push_back(with_media(profiles.front(), 20));
  }
  return geometry;
}

// The A30 has four units and as many compute slices, so every cut uses both evenly, and there is no double-memory
// variant.
Geometry a30() {
  Geometry geometry;
  geometry.type = "a30";
  geometry.title = "NVIDIA A30 24GB";
  geometry.units = 4;
  geometry.compute_slices = 4;
  geometry.media.optical_flow = 1;
  geometry.pci_ids = {0x20B7};
  MigProfile one{.name = "1g.6gb",
                 .compute_slices = 1,
                 .sm_count = {14},
                 .memory_gib = {5.81},
                 .units = 1,
                 .starts = {0, 1, 2, 3},
                 .count_max = 4,
                 .media = {},
                 .vendor_id = 14};
  MigProfile two{.name = "2g.12gb",
                 .compute_slices = 2,
                 .sm_count = {28},
                 .memory_gib = {11.69},
                 .units = 2,
                 .starts = {0, 2},
                 .count_max = 2,
                 .media = {},
                 .vendor_id = 5};
  MigProfile four{.name = "4g.24gb",
                  .compute_slices = 4,
                  .sm_count = {56},
                  .memory_gib = {23.44},
                  .units = 4,
                  .starts = {0},
                  .count_max = 1,
                  .media = {},
                  .vendor_id = 0};
  geometry.profiles = {one, with_media(one, 21), two, with_media(two, 6), four};
  return geometry;
}

struct RtxProfile {
  const char* name;
  ProfileFamily family;
  int compute_slices;
  int count_max;
  MediaEngines media;
  int vendor_id;
};

// GB202 has twelve units, three for each compute slice, and media engines that the slices share by number.
Geometry rtx_pro_6000() {
  using enum ProfileFamily;
  static const RtxProfile kProfiles[] = {
      {"1g.24gb", plain, 1, 4, {1, 1, 1, 0}, 14},       {"1g.24gb+me", media, 1, 1, {1, 1, 1, 1}, 21},
      {"1g.24gb+gfx", special, 1, 4, {1, 1, 1, 0}, 47}, {"1g.24gb+me.all", special, 1, 1, {4, 4, 4, 1}, 65},
      {"1g.24gb-me", special, 1, 4, {0, 0, 0, 0}, 67},  {"2g.48gb", plain, 2, 2, {2, 2, 2, 0}, 5},
      {"2g.48gb+gfx", special, 2, 2, {2, 2, 2, 0}, 35}, {"2g.48gb+me.all", special, 2, 1, {4, 4, 4, 1}, 64},
      {"2g.48gb-me", special, 2, 2, {0, 0, 0, 0}, 66},  {"4g.96gb", plain, 4, 1, {4, 4, 4, 1}, 0},
      {"4g.96gb+gfx", special, 4, 1, {4, 4, 4, 1}, 32},
  };
  Geometry geometry;
  geometry.type = "rtx-pro-6000";
  geometry.title = "NVIDIA RTX PRO 6000 Blackwell 96GB";
  geometry.units = 12;
  geometry.compute_slices = 4;
  geometry.media = {4, 4, 4, 1};
  geometry.media_evidence = Evidence::verified;
  geometry.pci_ids = {0x2BB5};
  for (const auto& row : kProfiles) {
    MigProfile profile;
    profile.name = row.name;
    profile.family = row.family;
    profile.compute_slices = row.compute_slices;
    profile.sm_count = {row.compute_slices == 1 ? 46 : row.compute_slices == 2 ? 94 : 188};
    profile.memory_gib = {row.compute_slices == 1 ? 23.62 : row.compute_slices == 2 ? 47.38 : 95.0};
    profile.units = 3 * row.compute_slices;
    // Slices are aligned to their own size.
    for (int start = 0; start < geometry.units; start += profile.units) profile.starts.push_back(start);
    profile.count_max = row.count_max;
    profile.media = row.media;
    profile.vendor_id = row.vendor_id;
    geometry.profiles.push_back(std::move(profile));
  }
  return geometry;
}

// Every number without an explicit evidence counts as verified; kMaybe as placements means that the starts come from
// the vendor's mock tables or are estimated.
std::vector<Geometry> make_catalog() {
  const std::array<Figure<int>, kCuts> sm_unknown{
      {kSmUnknown, kSmUnknown, kSmUnknown, kSmUnknown, kSmUnknown, kSmUnknown}};
  const std::array<Figure<double>, kCuts> gib_unknown{
      {kGibUnknown, kGibUnknown, kGibUnknown, kGibUnknown, kGibUnknown, kGibUnknown}};
  const EightUnitBoard boards[] = {
      {"a100-40gb",
       "NVIDIA A100 40GB",
       Evidence::verified,
       {5, 10, 10, 20, 20, 40},
       kAmpereSm,
       {{{4.75}, {9.62}, {9.62}, {19.5}, {19.5}, {39.25}}},
       {0x20B0, 0x20B1, 0x20F1, 0x20F6}},
      // Drivers report 9.5 to 9.75 and 78.5 to 79 GiB. The smaller number is safe with all of them.
      {"a100-80gb",
       "NVIDIA A100 80GB",
       Evidence::verified,
       {10, 20, 20, 40, 40, 80},
       kAmpereSm,
       {{{9.5}, {19.5}, {19.5}, {39.25}, {39.25}, {78.5}}},
       {0x20B2, 0x20B5, 0x20F3, 0x20F5}},
      {"h100-80gb",
       "NVIDIA H100 80GB SXM",
       kMaybe,
       {10, 20, 20, 40, 40, 80},
       kHopperSm,
       {{{9.75}, {19.62}, {19.62}, {39.5}, {39.5}, {79.25}}},
       {0x2330, 0x2324}},
      {"h100-94gb",
       "NVIDIA H100 94GB NVL",
       Evidence::verified,
       {12, 24, 24, 47, 47, 94},
       kHopperSm,
       {{{10.75}, {21.62}, {21.62}, {46.38}, {46.38}, {93.12}}},
       {0x2321, 0x233A}},
      {"h100-96gb",
       "NVIDIA H100 96GB (GH200)",
       kMaybe,
       {12, 24, 24, 48, 48, 96},
       kHopperSm,
       {{kGibUnknown, {23.0}, {23.0}, {46.5}, {46.5}, {93.0}}},
       {0x2342, 0x233D}},
      {"h200-141gb",
       "NVIDIA H200 141GB",
       kMaybe,
       {18, 35, 35, 71, 71, 141},
       kHopperSm,
       {{{16.0}, {32.25}, {32.25}, {69.5}, {69.5}, {139.75}}},
       {0x2335, 0x233B}},
      {"gh200-144gb",
       "NVIDIA GH200 144GB",
       kMaybe,
       {18, 36, 36, 72, 72, 144},
       kGraceHopperSm,
       {{{17.5}, {35.25}, {35.25}, kGibUnknown, kGibUnknown, kGibUnknown}},
       {0x2348}},
      {"b200-180gb",
       "NVIDIA B200 180GB",
       kMaybe,
       {23, 45, 45, 90, 90, 180},
       {{{18}, {30}, {36}, kSmUnknown, kSmUnknown, kSmUnknown}},
       {{{22.0}, {44.25}, {44.25}, kGibUnknown, kGibUnknown, kGibUnknown}},
       {0x2901}},
      {"gb200-186gb",
       "NVIDIA GB200 186GB",
       kMaybe,
       {23, 47, 47, 93, 93, 186},
       {{{18}, {32}, {38}, kSmUnknown, kSmUnknown, kSmUnknown}},
       {{{22.0}, {45.5}, {45.5}, kGibUnknown, kGibUnknown, kGibUnknown}},
       {0x2941}},
      {"b300", "NVIDIA B300", kMaybe, {34, 67, 67, 135, 135, 269}, sm_unknown, gib_unknown, {0x3182}},
      {"gb300", "NVIDIA GB300", kMaybe, {35, 70, 70, 139, 139, 278}, sm_unknown, gib_unknown, {0x31C2}},
  };
  std::vector<Geometry> catalog{a30()};
  for (const auto& board : boards) catalog.push_back(eight_units(board));
  catalog.push_back(rtx_pro_6000());
  return catalog;
}

// The type under the board's own title. Names, starts and counts hold for it; the figures do not, so they lose their
// evidence.
Geometry geometry_of(const BoardAlike& board) {
  Geometry geometry = *find_geometry(board.type);
  geometry.title = board.title;
  geometry.placements = kMaybe;
  for (auto& profile : geometry.profiles) {
    profile.sm_count = kSmUnknown;
    profile.memory_gib.evidence = kMaybe;
  }
  geometry.pci_ids = {board.pci_id};
  geometry.pci_ids_alike.clear();
  return geometry;
}

// Built on first use, because geometry_of() needs the catalog.
const std::vector<Geometry>& boards_alike() {
  static const std::vector<Geometry> boards = [] {
    std::vector<Geometry> list;
    for (const auto& board : kBoardsAlike) list.push_back(geometry_of(board));
    return list;
  }();
  return boards;
}

}  // namespace

const Geometry* find_geometry_by_pci(std::uint16_t pci_device_id) {
  const auto holds = [&](const Geometry& geometry) {
    return std::ranges::find(geometry.pci_ids, pci_device_id) != geometry.pci_ids.end();
  };
  // Listed types come first, because their figures are known.
  const auto known = known_geometries();
  if (const auto found = std::ranges::find_if(known, holds); found != known.end()) return &*found;
  const auto alike = std::ranges::find_if(boards_alike(), holds);
  return alike == boards_alike().end() ? nullptr : &*alike;
}

std::span<const Geometry> known_geometries() {
  static const std::vector<Geometry> catalog = make_catalog();
  return catalog;
}

}  // namespace tangram
