// The cuts a device permits.
//
// A MIG-capable GPU is a row of memory units. A MigProfile covers a fixed run of them and starts only where the
// hardware allows: on an A100, 3g.20gb covers four and starts at 0 or 4, so two of them fill the card with six of its
// seven compute slices. The host's cores are a device of the same kind whose slices start anywhere. This is a
// table; nothing asks a driver.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tangram {

// How far a number of the tables can be trusted.
enum class Evidence {
  verified,    // Read off a real board or in the vendor's guide.
  unverified,  // From the vendor's mock tables, or estimated; ask NVML before relying on it.
  unknown,     // Nobody has published it; the value is zero.
};

template <typename T>
struct Figure {
  T value{};
  Evidence evidence = Evidence::verified;

  bool operator==(const Figure&) const = default;
};

// What a MigProfile adds to the plain cut of its size. Sets of profiles are chosen by it.
enum class ProfileFamily {
  plain,          // 3g.20gb
  double_memory,  // 1g.10gb beside 1g.5gb on an A100-40GB
  media,          // 1g.5gb+me: with the media engines
  special,        // +gfx, +me.all and -me of the RTX PRO boards
};

// Fixed-function engines that slices share out between them.
struct MediaEngines {
  int decoders = 0;
  int encoders = 0;
  int jpeg = 0;
  int optical_flow = 0;

  bool operator==(const MediaEngines&) const = default;
};

// One shape that a device can be cut into.
struct MigProfile {
  std::string name;  // As the vendor prints it: "3g.20gb", "1g.5gb+me"; on the host "1.5c".
  ProfileFamily family = ProfileFamily::plain;
  int compute_slices = 0;     // The number before the "g"; on the host, units.
  Figure<int> sm_count;       // Streaming multiprocessors. Not compute_slices / 7 of the board on Hopper and later.
  Figure<double> memory_gib;  // Usable, which is less than the name says.
  int units = 0;              // How many memory units it covers.
  std::vector<int> starts;    // The units at which it may start, ascending.
  int count_max = 0;          // How many of it one device may hold.
  MediaEngines media;         // What it takes of the device's media engines.
  int vendor_id = -1;         // The id in `nvidia-smi mig -lgip`; -1 where there is none.

  bool operator==(const MigProfile&) const = default;
};

// A device type and every MigProfile it offers.
struct Geometry {
  std::string type;   // The id used in files: "a100-80gb", "cpu".
  std::string title;  // For people: "NVIDIA A100 80GB".
  int units = 0;
  int compute_slices = 0;
  Evidence placements = Evidence::verified;  // Of the starts of all profiles together.
  MediaEngines media;
  // Of the media engines of the device and its profiles. Unknown: one optical-flow unit stands for the one set that
  // `+me` takes, and says nothing about the board.
  Evidence media_evidence = Evidence::unknown;
  std::vector<MigProfile> profiles;  // Smallest first; within a size plain, double_memory, media, special.
  std::vector<std::uint16_t> pci_ids;
  // Boards that are cut alike but are other chips, or have more or fewer multiprocessors: names, starts and counts hold
  // for them, figures do not.
  std::vector<std::uint16_t> pci_ids_alike;
  int units_per_core = 0;  // 4 or 1 on the host, 0 on a GPU.

  bool operator==(const Geometry&) const = default;
};

// Sets of profiles that people plan with, each including the one before.
enum class ProfileSet { base, double_memory, media, all };

// "base", "double", "me", "all".
std::optional<ProfileSet> parse_profile_set(std::string_view name);
std::string_view to_string(ProfileSet set);

// The same device with only the profiles of `set`.
Geometry restrict_to(const Geometry& geometry, ProfileSet set);

// Every GPU type that the tables know, in the order of the documentation. The host is not among them: its
// size is not a constant.
std::span<const Geometry> known_geometries();
// The type with this id, or null.
const Geometry* find_geometry(std::string_view type);
// The type that a PCI device id belongs to, or null. For a board that is only cut alike (`pci_ids_alike`) it is the
// type under the board's own title, its multiprocessors unknown and its memory unverified.
const Geometry* find_geometry_by_pci(std::uint16_t pci_device_id);
// All ids of device types, "cpu" included.
std::vector<std::string> device_type_names();

// What is needed to know of a host to cut it.
struct CpuHost {
  int cores = 1;
  double memory_gib = 0;
  bool quota = true;  // CPU quotas can be set, so a unit is a quarter of a core; otherwise a whole one.
};
inline constexpr int kCpuCoresMax = 1024;

// The host's cores as a device: a slice covers any run of units, and its share of memory follows its size.
Geometry cpu_geometry(const CpuHost& host);

// The index of the profile that `name` means. Understands the names that drivers disagree on (7g.79gb for
// 7g.80gb), Kubernetes' spelling of suffixes (1g.5gb.me) and the short form without memory (3g). An unknown name is
// an error that lists the known ones and suggests the nearest.
Result<std::size_t> find_profile(const Geometry& geometry, std::string_view name);

}  // namespace tangram
