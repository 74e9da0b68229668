#include "machine.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <sstream>

#include "base/check.h"

namespace fake_nvml {

using namespace tangram::adapters::nvml_abi;
using tangram::MigProfile;
using tangram::ProfileFamily;

namespace {

bool alive(int pid) { return kill(pid, 0) == 0 || errno != ESRCH; }

bool in_use(const Gpu& gpu, unsigned slice_id) {
  return std::ranges::any_of(
      gpu.processes, [&](const Process& process) { return process.slice_id == slice_id && alive(process.pid); });
}

template <typename List>
unsigned free_id(const List& list, unsigned first) {
  unsigned id = first;
  while (std::ranges::any_of(list, [&](const auto& item) { return item.id == id; })) ++id;
  return id;
}

std::string mig_uuid(unsigned made) {
  char text[64];
  std::snprintf(text, sizeof text, "MIG-%08x-0000-5000-8000-%012x", made * 2654435761U, made);
  return text;
}

bool overlaps(unsigned start, unsigned size, unsigned other_start, unsigned other_size) {
  return start < other_start + other_size && other_start < start + size;
}

}  // namespace

const tangram::Geometry& Gpu::geometry() const {
  const auto* found = tangram::find_geometry(type);
  TANGRAM_CHECK(found != nullptr, "the fake knows the types of the tables");
  return *found;
}

const MigProfile* Gpu::profile(unsigned id) const {
  for (const auto& profile : geometry().profiles) {
    if (profile.vendor_id == static_cast<int>(id)) return &profile;
  }
  return nullptr;
}

Slice* Gpu::slice(unsigned id) {
  const auto found = std::ranges::find(slices, id, &Slice::id);
  return found == slices.end() ? nullptr : &*found;
}

unsigned number_of(const MigProfile& profile) {
  static constexpr unsigned kPlain[] = {99, 0, 1, 2, 3, 99, 6, 4, 5};
  const auto slices = static_cast<std::size_t>(profile.compute_slices);
  const bool one = slices == 1;
  if (profile.family == ProfileFamily::plain) return kPlain[slices];
  if (profile.family == ProfileFamily::double_memory) return 9;
  if (profile.family == ProfileFamily::media) return one ? 7 : 8;
  if (profile.name.ends_with("+gfx")) return one ? 10 : slices == 2 ? 11 : 12;
  if (profile.name.ends_with("-me")) return one ? 13 : 14;
  return one ? 15 : 16;
}

bool part_profile(const Gpu& gpu, const MigProfile& profile, unsigned number, PartProfile& found) {
  static constexpr unsigned kSlices[] = {1, 2, 3, 4, 7, 8, 6, 1};
  if (number >= kComputeProfileNumbers) return false;
  const unsigned slices = kSlices[number];
  const auto all = static_cast<unsigned>(profile.compute_slices);
  // The revised part of one slice is there for slices with double memory alone.
  const bool revised = number == 7;
  if (slices > all || (revised && profile.family != ProfileFamily::double_memory)) return false;
  const auto& plain = gpu.geometry().profiles.front();
  const auto multiprocessors =
      static_cast<unsigned>(slices == all && (revised || profile.family == ProfileFamily::plain)
                                ? profile.sm_count.value
                                : plain.sm_count.value * static_cast<int>(slices));
  found = {number, slices, multiprocessors, all / slices};
  return true;
}

Status Machine::set_mode(Gpu& gpu, bool on, Status& activation) {
  activation = kSuccess;
  const bool busy = std::ranges::any_of(gpu.processes, [](const Process& process) { return alive(process.pid); }) ||
                    (!on && !gpu.slices.empty());
  gpu.pending = on;
  if (gpu.mode == on) return kSuccess;
  if (busy) activation = kInUse;
  if (gpu.resets) activation = kResetRequired;
  if (activation == kSuccess) gpu.mode = on;
  return kSuccess;
}

Status Machine::create_slice(Gpu& gpu, unsigned profile_id, const Placement& place, unsigned& id) {
  if (!gpu.mode) return kNotSupported;
  const MigProfile* profile = gpu.profile(profile_id);
  if (profile == nullptr) return kInvalidArgument;
  const bool may_start = std::ranges::find(profile->starts, static_cast<int>(place.start)) != profile->starts.end();
  if (!may_start || place.size != static_cast<unsigned>(profile->units)) return kInvalidArgument;
  int same = 0;
  tangram::MediaEngines media = profile->media;
  for (const auto& other : gpu.slices) {
    const MigProfile& theirs = *gpu.profile(other.profile_id);
    same += other.profile_id == profile_id ? 1 : 0;
    media.decoders += theirs.media.decoders;
    media.encoders += theirs.media.encoders;
    media.jpeg += theirs.media.jpeg;
    media.optical_flow += theirs.media.optical_flow;
    if (overlaps(place.start, place.size, other.start, static_cast<unsigned>(theirs.units)))
      return kInsufficientResources;
  }
  const auto& limits = gpu.geometry().media;
  if (same >= profile->count_max || media.decoders > limits.decoders || media.encoders > limits.encoders ||
      media.jpeg > limits.jpeg || media.optical_flow > limits.optical_flow) {
    return kInsufficientResources;
  }
  id = free_id(gpu.slices, 1);
  ++made;
  gpu.slices.push_back({id, profile_id, place.start, {}});
  return kSuccess;
}

Status Machine::destroy_slice(Gpu& gpu, unsigned id) {
  Slice* slice = gpu.slice(id);
  if (slice == nullptr) return kInvalidArgument;
  if (!slice->parts.empty() || in_use(gpu, id)) return kInUse;
  std::erase_if(gpu.slices, [&](const Slice& other) { return other.id == id; });
  return kSuccess;
}

Status Machine::create_part(Gpu& gpu, unsigned slice_id, unsigned number, const Placement& place, unsigned& id) {
  Slice* slice = gpu.slice(slice_id);
  if (slice == nullptr) return kInvalidArgument;
  const MigProfile& profile = *gpu.profile(slice->profile_id);
  PartProfile wanted;
  if (!part_profile(gpu, profile, number, wanted) || place.size != wanted.slices) return kInvalidArgument;
  if (place.start + place.size > static_cast<unsigned>(profile.compute_slices)) return kInvalidArgument;
  for (const auto& other : slice->parts) {
    PartProfile theirs;
    part_profile(gpu, profile, other.number, theirs);
    if (overlaps(place.start, place.size, other.start, theirs.slices)) return kInsufficientResources;
  }
  id = free_id(slice->parts, 0);
  slice->parts.push_back({id, number, place.start, mig_uuid(++made)});
  return kSuccess;
}

Status Machine::destroy_part(Gpu& gpu, unsigned slice_id, unsigned id) {
  Slice* slice = gpu.slice(slice_id);
  if (slice == nullptr || std::ranges::find(slice->parts, id, &Part::id) == slice->parts.end()) return kInvalidArgument;
  if (in_use(gpu, slice_id)) return kInUse;
  std::erase_if(slice->parts, [&](const Part& part) { return part.id == id; });
  return kSuccess;
}

std::string Machine::text() const {
  std::ostringstream out;
  out << "made " << made << "\n";
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Gpu& gpu = gpus[i];
    out << "gpu " << gpu.type << " " << gpu.uuid << " " << gpu.mode << " " << gpu.pending << " " << gpu.resets << " "
        << gpu.drifts << " " << gpu.pci_id << "\n";
    for (const auto& slice : gpu.slices) {
      out << "slice " << i << " " << slice.id << " " << slice.profile_id << " " << slice.start << "\n";
      for (const auto& part : slice.parts) {
        out << "part " << i << " " << slice.id << " " << part.id << " " << part.number << " " << part.start << " "
            << part.uuid << "\n";
      }
    }
    for (const auto& process : gpu.processes) {
      out << "process " << i << " " << process.slice_id << " " << process.pid << "\n";
    }
  }
  return out.str();
}

Machine Machine::parse(const std::string& text) {
  Machine machine;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    std::size_t index = 0;
    if (word == "made") {
      in >> machine.made;
    } else if (word == "gpu") {
      Gpu& gpu = machine.gpus.emplace_back();
      in >> gpu.type >> gpu.uuid >> gpu.mode >> gpu.pending >> gpu.resets >> gpu.drifts >> gpu.pci_id;
    } else if (word == "slice") {
      Slice slice;
      in >> index >> slice.id >> slice.profile_id >> slice.start;
      machine.gpus.at(index).slices.push_back(slice);
    } else if (word == "part") {
      unsigned slice_id = 0;
      Part part;
      in >> index >> slice_id >> part.id >> part.number >> part.start >> part.uuid;
      machine.gpus.at(index).slice(slice_id)->parts.push_back(part);
    } else if (word == "process") {
      Process process;
      in >> index >> process.slice_id >> process.pid;
      machine.gpus.at(index).processes.push_back(process);
    }
  }
  return machine;
}

}  // namespace fake_nvml
