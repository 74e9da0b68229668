// Names of profiles and sets, and the geometry of a host.
//
// Profile names come from drivers, Kubernetes labels and people, who all spell them differently. find_profile() first
// compares exactly, then by meaning: compute slices, memory with a tolerance, suffix.
//
// Example: on an a100-80gb, `7g.79gb`, `7G.80GB` and `7g` all mean 7g.80gb.

#include "core/geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace tangram {
namespace {

// In the order of ProfileSet.
constexpr std::string_view kSetNames[] = {"base", "double", "me", "all"};

// Each set includes the one before, so one comparison suffices.
bool belongs(ProfileFamily family, ProfileSet set) {
  switch (family) {
    case ProfileFamily::plain: return true;
    case ProfileFamily::double_memory: return set >= ProfileSet::double_memory;
    case ProfileFamily::media: return set >= ProfileSet::media;
    case ProfileFamily::special: return set >= ProfileSet::all;
  }
  return false;
}

// The parts of a name such as "3g.20gb+me". Memory is -1 in the short form "3g".
struct ProfileName {
  std::int64_t compute_slices = 0;
  std::int64_t memory_gb = -1;
  std::string suffix;  // "", "+me", "+me.all", "-me", "+gfx"
};

// Takes leading digits off `text`, at most six, so the number cannot overflow.
std::optional<std::int64_t> take_integer(std::string_view& text) {
  std::size_t digits = 0;
  while (digits < text.size() && digits < 6 && text[digits] >= '0' && text[digits] <= '9') ++digits;
  const auto value = text::parse_integer(text.substr(0, digits));
  if (value) text.remove_prefix(digits);
  return value;
}

std::optional<ProfileName> parse_profile_name(std::string_view text) {
  ProfileName name;
  const auto slices = take_integer(text);
  if (!slices || !text.starts_with('g')) return std::nullopt;
  name.compute_slices = *slices;
  text.remove_prefix(1);
  // A dot followed by a digit begins the memory; otherwise it begins a suffix, as in 1g.me.
  if (text.starts_with('.') && text.size() > 1 && text[1] >= '0' && text[1] <= '9') {
    text.remove_prefix(1);
    const auto memory = take_integer(text);
    if (!memory || !text.starts_with("gb")) return std::nullopt;
    name.memory_gb = *memory;
    text.remove_prefix(2);
  }
  name.suffix = text;
  // Kubernetes resource names cannot hold a plus: nvidia.com/mig-1g.5gb.me.
  if (name.suffix.starts_with('.')) name.suffix[0] = '+';
  if (name.suffix.empty() || name.suffix[0] == '+' || name.suffix[0] == '-') return name;
  return std::nullopt;
}

// How far apart two memory sizes may be and still mean the same cut: drivers differ by one gigabyte (7g.79gb and
// 7g.80gb, 1g.23gb and 1g.24gb).
constexpr std::int64_t kNameDriftGb = 1;

bool same_cut(const ProfileName& asked, const MigProfile& profile) {
  const auto own = parse_profile_name(profile.name);
  if (!own || own->compute_slices != asked.compute_slices || own->suffix != asked.suffix) return false;
  // The short form means the plain cut: on an A100-40GB, 1g is 1g.5gb and never 1g.10gb.
  if (asked.memory_gb < 0) return profile.family != ProfileFamily::double_memory;
  return std::abs(own->memory_gb - asked.memory_gb) <= kNameDriftGb;
}

// The profile that was probably meant. The number of compute slices is rarely mistyped, so only profiles with that
// number are considered. Among them the nearest spelling wins; if none is near and there is just one, it is that one.
std::optional<std::string> nearest_profile(const Geometry& geometry, std::string_view name) {
  const auto asked = parse_profile_name(text::lower(name));
  std::vector<std::string> names;
  for (const auto& profile : geometry.profiles) {
    if (!asked || profile.compute_slices == asked->compute_slices) names.push_back(profile.name);
  }
  auto near = text::nearest(name, names);
  if (!near && asked && names.size() == 1) near = names[0];
  return near;
}

Error unknown_profile(const Geometry& geometry, std::string_view name) {
  std::vector<std::string> names;
  for (const auto& profile : geometry.profiles) names.push_back(profile.name);
  const auto near = nearest_profile(geometry, name);
  constexpr std::size_t kShown = 12;  // The host of 64 cores has 256 profiles: show how they begin.
  const bool cut = names.size() > kShown;
  if (cut) names.resize(kShown);
  return {ErrorCode::invalid, fmt::format("{} has no profile {}{}; known: {}{}", geometry.type, name,
                                          near ? fmt::format(", did you mean {}?", *near) : "", text::join(names, ", "),
                                          cut ? ", ..." : "")};
}

}  // namespace

std::optional<ProfileSet> parse_profile_set(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kSetNames); ++i) {
    if (kSetNames[i] == name) return static_cast<ProfileSet>(i);
  }
  return std::nullopt;
}

std::string_view to_string(ProfileSet set) { return kSetNames[static_cast<std::size_t>(set)]; }

Geometry restrict_to(const Geometry& geometry, ProfileSet set) {
  Geometry result = geometry;
  std::erase_if(result.profiles, [&](const MigProfile& p) { return !belongs(p.family, set); });
  return result;
}

const Geometry* find_geometry(std::string_view type) {
  for (const auto& geometry : known_geometries()) {
    if (geometry.type == type) return &geometry;
  }
  return nullptr;
}

// The host is appended, because it has no entry in the table.
std::vector<std::string> device_type_names() {
  std::vector<std::string> names;
  for (const auto& geometry : known_geometries()) names.push_back(geometry.type);
  names.emplace_back("cpu");
  return names;
}

Geometry cpu_geometry(const CpuHost& host) {
  TANGRAM_CHECK(host.cores >= 1 && host.cores <= kCpuCoresMax, "a host has between one core and kCpuCoresMax");
  Geometry geometry;
  geometry.type = "cpu";
  geometry.title = fmt::format("host, {} core{}", host.cores, host.cores == 1 ? "" : "s");
  geometry.units_per_core = host.quota ? 4 : 1;
  geometry.units = host.cores * geometry.units_per_core;
  geometry.compute_slices = geometry.units;
  for (int units = 1; units <= geometry.units; ++units) {
    MigProfile profile;
    profile.name = text::shortest(static_cast<double>(units) / geometry.units_per_core) + "c";
    profile.compute_slices = units;
    profile.sm_count = {0, Evidence::unknown};
    // Memory of the host is shared in proportion to the units; it is a rule of ours, hence verified.
    profile.memory_gib = {host.memory_gib * units / geometry.units, Evidence::verified};
    profile.units = units;
    // No hardware restricts the starts on a host: any run of units will do.
    for (int start = 0; start + units <= geometry.units; ++start) profile.starts.push_back(start);
    profile.count_max = geometry.units / units;
    geometry.profiles.push_back(std::move(profile));
  }
  return geometry;
}

Result<std::size_t> find_profile(const Geometry& geometry, std::string_view written) {
  const auto& profiles = geometry.profiles;
  const std::string name = text::lower(written);  // Some labels say 3G.40GB.
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    if (profiles[i].name == name) return i;
  }
  // Names that are spelled differently come second, so an exact name always wins.
  if (const auto asked = parse_profile_name(name)) {
    for (std::size_t i = 0; i < profiles.size(); ++i) {
      if (same_cut(*asked, profiles[i])) return i;
    }
  }
  if (geometry.type == "cpu" && name.ends_with('c')) {  // 1.50c and 1.5c are the same cut.
    const auto cores = text::parse_number(std::string_view(name).substr(0, name.size() - 1));
    const double units = cores.value_or(0) * geometry.units_per_core;
    if (units >= 1 && units <= geometry.units && units == std::floor(units)) return static_cast<std::size_t>(units) - 1;
  }
  return unknown_profile(geometry, written);
}

}  // namespace tangram
