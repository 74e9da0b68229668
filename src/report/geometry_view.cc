// Device types and layouts as tables and JSON.
//
// Vendors publish placements, SM counts and memory sizes incompletely. Each figure therefore carries its evidence, and
// this file never prints a number without it: "98" is verified, "98?" is not, "-" is unknown (null in JSON).

#include "report/geometry_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace tangram::report {
namespace {

const char* to_text(Evidence evidence) {
  switch (evidence) {
    case Evidence::verified: return "verified";
    case Evidence::unverified: return "unverified";
    case Evidence::unknown: return "unknown";
  }
  return "";
}

const char* to_text(ProfileFamily family) {
  switch (family) {
    case ProfileFamily::plain: return "plain";
    case ProfileFamily::double_memory: return "double";
    case ProfileFamily::media: return "me";
    case ProfileFamily::special: return "special";
  }
  return "";
}

// One column for each of placements, SM counts and memory: "✓ ? -".
const char* mark(Evidence evidence) {
  return evidence == Evidence::verified ? "✓" : evidence == Evidence::unverified ? "?" : "-";
}

// A table is as certain as its least certain entry. Evidence is ordered from verified to unknown, so the maximum is it.
template <typename Of>
Evidence weakest(const Geometry& geometry, Of of) {
  Evidence result = Evidence::verified;
  for (const auto& profile : geometry.profiles) result = std::max(result, of(profile));
  return result;
}

Json figure_json(const Figure<int>& figure) {
  return figure.evidence == Evidence::unknown ? Json(nullptr) : Json(figure.value);
}

// Rounded to two decimals: no published table is finer, and further digits would suggest a precision that does not
// exist.
Json figure_json(const Figure<double>& figure) {
  return figure.evidence == Evidence::unknown ? Json(nullptr) : Json(std::round(figure.value * 100) / 100);
}

Json media_json(const MediaEngines& media, Evidence evidence) {
  if (evidence != Evidence::verified) return nullptr;
  return {{"decoders", media.decoders},
          {"encoders", media.encoders},
          {"jpeg", media.jpeg},
          {"optical_flow", media.optical_flow}};
}

// The vendor id is null for slices of the host, which no vendor numbers.
Json profile_json(const MigProfile& profile, Evidence media_evidence) {
  return {{"name", profile.name},
          {"family", to_text(profile.family)},
          {"compute_slices", profile.compute_slices},
          {"sm_count", figure_json(profile.sm_count)},
          {"sm_count_evidence", to_text(profile.sm_count.evidence)},
          {"memory_gib", figure_json(profile.memory_gib)},
          {"memory_evidence", to_text(profile.memory_gib.evidence)},
          {"units", profile.units},
          {"starts", profile.starts},
          {"count_max", profile.count_max},
          {"media", media_json(profile.media, media_evidence)},
          {"vendor_id", profile.vendor_id < 0 ? Json(nullptr) : Json(profile.vendor_id)}};
}

}  // namespace

std::string figure_text(const Figure<int>& figure) {
  if (figure.evidence == Evidence::unknown) return "-";
  return fmt::format("{}{}", figure.value, figure.evidence == Evidence::unverified ? "?" : "");
}

std::string figure_text(const Figure<double>& figure) {
  if (figure.evidence == Evidence::unknown) return "-";
  return fmt::format("{:.2f}{}", figure.value, figure.evidence == Evidence::unverified ? "?" : "");
}

// Requires starts in ascending order.
std::string starts_text(const std::vector<int>& starts) {
  // A range needs at least three starts: "0-1" is no shorter than "0,1".
  const bool dense = starts.size() > 2 && starts.back() - starts.front() + 1 == static_cast<int>(starts.size());
  if (dense) return fmt::format("{}-{}", starts.front(), starts.back());
  return fmt::format("{}", fmt::join(starts, ","));
}

// One row for each device type. "P S M" are the evidence for placements, SM counts and memory.
Table catalog_table(std::span<const Geometry> geometries) {
  Table table({{"TYPE"}, {"DEVICE", Align::left, true}, {"UNITS", Align::right}, {"MIG PROFILES"}, {"P S M"}});
  for (const auto& geometry : geometries) {
    // Nearly every device is from NVIDIA; the prefix would only widen the column.
    const std::string title = geometry.title.starts_with("NVIDIA ") ? geometry.title.substr(7) : geometry.title;
    const auto sm = weakest(geometry, [](const MigProfile& p) { return p.sm_count.evidence; });
    const auto memory = weakest(geometry, [](const MigProfile& p) { return p.memory_gib.evidence; });
    table.add({{geometry.type, Style::accent},
               title,
               fmt::format("{}", geometry.units),
               fmt::format("{}, {} to {}", geometry.profiles.size(), geometry.profiles.front().name,
                           geometry.profiles.back().name),
               fmt::format("{} {} {}", mark(geometry.placements), mark(sm), mark(memory))});
  }
  return table;
}

// One row for each profile of a device type, in the order of the geometry.
Table profile_table(const Geometry& geometry) {
  // Slices of the host are measured in cores and have no MigProfile, so two columns have other names.
  const bool host = geometry.units_per_core > 0;
  Table table({{host ? "SLICE" : "MIG PROFILE"},
               {host ? "CORES" : "SLICES", Align::right},
               {"SMS", Align::right},
               {"GIB", Align::right},
               {"UNITS", Align::right},
               {"STARTS"},
               {"MAX", Align::right}});
  // Placements are verified or not for the device type as a whole, so every row has the same mark.
  const std::string doubt = geometry.placements == Evidence::verified ? "" : "?";
  for (const auto& profile : geometry.profiles) {
    const std::string size = host ? text::shortest(static_cast<double>(profile.units) / geometry.units_per_core)
                                  : fmt::format("{}", profile.compute_slices);
    table.add({{profile.name, Style::accent},
               size,
               figure_text(profile.sm_count),
               figure_text(profile.memory_gib),
               fmt::format("{}", profile.units),
               starts_text(profile.starts) + doubt,
               fmt::format("{}", profile.count_max)});
  }
  return table;
}

Json geometry_json(const Geometry& geometry) {
  // PCI ids are strings in hexadecimal, as lspci prints them: JSON has no hexadecimal numbers.
  const auto hexadecimal = [](const std::vector<std::uint16_t>& ids) {
    Json list = Json::array();
    for (const auto id : ids) list.push_back(fmt::format("0x{:04X}", id));
    return list;
  };
  Json profiles = Json::array();
  for (const auto& profile : geometry.profiles) profiles.push_back(profile_json(profile, geometry.media_evidence));
  Json json{{"type", geometry.type},
            {"title", geometry.title},
            {"units", geometry.units},
            {"compute_slices", geometry.compute_slices},
            {"placements_evidence", to_text(geometry.placements)},
            {"media", media_json(geometry.media, geometry.media_evidence)},
            {"pci_ids", hexadecimal(geometry.pci_ids)},
            {"pci_ids_alike", hexadecimal(geometry.pci_ids_alike)},
            {"profiles", std::move(profiles)}};
  if (geometry.units_per_core > 0) json["units_per_core"] = geometry.units_per_core;
  return json;
}

Json layout_json(const Geometry& geometry, const Layout& layout) {
  Json slices = Json::array();
  for (const auto& slice : layout.slices) {
    const MigProfile& profile = geometry.profiles[slice.profile];
    slices.push_back({{"mig_profile", profile.name}, {"start", slice.start}, {"units", profile.units}});
  }
  return {{"layout", to_string(geometry, layout)},
          {"slices", std::move(slices)},
          {"units_used", units_used(geometry, layout)},
          {"compute_slices_used", compute_slices_used(geometry, layout)}};
}

// Profiles that the multiset does not contain are left out.
Json multiset_json(const Geometry& geometry, const Multiset& multiset) {
  Json counts = Json::object();
  // From the largest profile to the smallest, the order in which people name a layout.
  for (std::size_t i = multiset.size(); i-- > 0;) {
    if (multiset[i] > 0) counts[geometry.profiles[i].name] = multiset[i];
  }
  return {{"multiset", to_string(geometry, multiset)}, {"counts", std::move(counts)}};
}

Json counts_json(const LayoutCounts& counts) {
  return {
      {"valid", counts.valid}, {"maximal", counts.maximal}, {"multisets", counts.multisets}, {"pareto", counts.pareto}};
}

std::vector<int> places_left(const Geometry& geometry, const Layout& layout, std::size_t profile) {
  std::vector<int> places;
  // Asks fits() for each start: it knows every rule of the geometry, such as limits on the count of a profile.
  for (const int start : geometry.profiles[profile].starts) {
    if (fits(geometry, layout, {static_cast<std::uint16_t>(profile), static_cast<std::uint16_t>(start)})) {
      places.push_back(start);
    }
  }
  return places;
}

// From the largest profile to the smallest, because a reader looks for the largest slice that can be added.
std::string room_left(const Geometry& geometry, const Layout& layout) {
  std::string text;
  for (std::size_t i = geometry.profiles.size(); i-- > 0;) {
    const auto places = places_left(geometry, layout, i);
    if (places.empty()) continue;
    text += fmt::format("{}{} at {}", text.empty() ? "" : ", ", geometry.profiles[i].name, starts_text(places));
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace tangram::report
