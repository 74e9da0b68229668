#include "machine.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace fake_nvml {

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

const Board& Gpu::board() const {
  const Board* found = find_board(type);
  if (found == nullptr) {
    std::fprintf(stderr, "the stand-in driver has no board %s\n", type.c_str());
    std::abort();
  }
  return *found;
}

Slice* Gpu::slice(unsigned id) {
  const auto found = std::ranges::find(slices, id, &Slice::id);
  return found == slices.end() ? nullptr : &*found;
}

// Multiprocessors go with the compute slices, but for the whole of a slice, which has all that the slice has. The plain
// part of one slice leaves those unused that come with twice the memory; the revised one has them.
bool part_profile(const Gpu& gpu, const ProfileRow& profile, unsigned number, PartProfile& found) {
  static constexpr unsigned kSlices[NVML_COMPUTE_INSTANCE_PROFILE_COUNT] = {1, 2, 3, 4, 7, 8, 6, 1, 7};
  const bool doubled = profile.number == NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2;
  const bool revised = number == NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1;
  // No board here has links between GPUs that a part could take.
  if (number >= NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE_NVL || (revised && !doubled)) return false;
  const unsigned slices = kSlices[number];
  if (slices > profile.slices) return false;
  const bool whole = slices == profile.slices && (revised || !doubled);
  const unsigned each = gpu.board().with_number(NVML_GPU_INSTANCE_PROFILE_1_SLICE)->multiprocessors;
  found = {number, slices, whole ? profile.multiprocessors : each * slices, profile.slices / slices};
  return true;
}

void Machine::raise(std::size_t gpu, unsigned code, unsigned slice_id) {
  constexpr std::size_t kKept = 64;
  xids.push_back({xids.empty() ? 1 : xids.back().number + 1, gpu, code, slice_id});
  if (xids.size() > kKept) xids.erase(xids.begin());
}

nvmlReturn_t Machine::set_mode(Gpu& gpu, bool on, nvmlReturn_t& activation) {
  if (gpu.gone) return NVML_ERROR_GPU_IS_LOST;
  activation = NVML_SUCCESS;
  const bool busy = std::ranges::any_of(gpu.processes, [](const Process& process) { return alive(process.pid); }) ||
                    (!on && !gpu.slices.empty());
  gpu.pending = on;
  if (gpu.mode == on) return NVML_SUCCESS;
  if (busy) activation = NVML_ERROR_IN_USE;
  if (gpu.resets) activation = NVML_ERROR_RESET_REQUIRED;
  if (activation == NVML_SUCCESS) gpu.mode = on;
  return NVML_SUCCESS;
}

nvmlReturn_t Machine::create_slice(Gpu& gpu, unsigned profile_id, const nvmlGpuInstancePlacement_t& place,
                                   unsigned& id) {
  if (gpu.gone) return NVML_ERROR_GPU_IS_LOST;
  if (!gpu.mode) return NVML_ERROR_NOT_SUPPORTED;
  const Board& board = gpu.board();
  const ProfileRow* profile = board.with_id(profile_id);
  if (profile == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const bool may_start = std::ranges::find(profile->starts, place.start) != profile->starts.end();
  if (!may_start || place.size != profile->size) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned same = 0;
  Engines used = profile->media;
  for (const auto& other : gpu.slices) {
    const ProfileRow& theirs = *board.with_id(other.profile_id);
    same += other.profile_id == profile_id ? 1 : 0;
    used.decoders += theirs.media.decoders;
    used.encoders += theirs.media.encoders;
    used.jpeg += theirs.media.jpeg;
    used.optical_flow += theirs.media.optical_flow;
    if (overlaps(place.start, place.size, other.start, theirs.size)) return NVML_ERROR_INSUFFICIENT_RESOURCES;
  }
  // The whole board has all of the engines.
  const Engines& all = board.whole().media;
  if (same >= profile->instances || used.decoders > all.decoders || used.encoders > all.encoders ||
      used.jpeg > all.jpeg || used.optical_flow > all.optical_flow) {
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
  }
  id = free_id(gpu.slices, 1);
  ++made;
  gpu.slices.push_back({id, profile_id, place.start, {}});
  return NVML_SUCCESS;
}

nvmlReturn_t Machine::destroy_slice(Gpu& gpu, unsigned id) {
  if (gpu.gone) return NVML_ERROR_GPU_IS_LOST;
  Slice* slice = gpu.slice(id);
  if (slice == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (!slice->parts.empty() || in_use(gpu, id)) return NVML_ERROR_IN_USE;
  std::erase_if(gpu.slices, [&](const Slice& other) { return other.id == id; });
  return NVML_SUCCESS;
}

namespace {

bool is_ampere(const Gpu& gpu) { return gpu.type.rfind("a100", 0) == 0 || gpu.type.rfind("a30", 0) == 0; }

unsigned power_of_two_from(unsigned value) {
  unsigned power = 1;
  while (power < value) power *= 2;
  return power;
}

}  // namespace

unsigned span_of(const Gpu& gpu, const ProfileRow& profile, const PartProfile& part) {
  if (is_ampere(gpu)) return part.slices;
  // All of a slice covers all that the slice does, also where one compute slice has the memory of two.
  if (part.slices == profile.slices) return span_of_all(gpu, profile);
  return power_of_two_from(part.slices);
}

unsigned step_of(const Gpu& gpu, unsigned span) { return is_ampere(gpu) ? 1 : span; }

unsigned span_of_all(const Gpu& gpu, const ProfileRow& profile) {
  if (is_ampere(gpu)) return profile.slices;
  return power_of_two_from(std::max(profile.slices, profile.slices == 1 && profile.size == 2 ? 2U : 1U));
}

nvmlReturn_t Machine::create_part(Gpu& gpu, unsigned slice_id, unsigned number,
                                  const nvmlComputeInstancePlacement_t& place, unsigned& id) {
  if (gpu.gone) return NVML_ERROR_GPU_IS_LOST;
  Slice* slice = gpu.slice(slice_id);
  if (slice == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const ProfileRow& profile = *gpu.board().with_id(slice->profile_id);
  PartProfile wanted;
  if (!part_profile(gpu, profile, number, wanted)) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned span = span_of(gpu, profile, wanted);
  if (place.size != span || place.start + span > span_of_all(gpu, profile)) return NVML_ERROR_INVALID_ARGUMENT;
  if (place.start % step_of(gpu, span) != 0) return NVML_ERROR_INVALID_ARGUMENT;
  for (const auto& other : slice->parts) {
    PartProfile theirs;
    part_profile(gpu, profile, other.number, theirs);
    if (overlaps(place.start, place.size, other.start, span_of(gpu, profile, theirs)))
      return NVML_ERROR_INSUFFICIENT_RESOURCES;
  }
  id = free_id(slice->parts, 0);
  slice->parts.push_back({id, number, place.start, mig_uuid(++made)});
  return NVML_SUCCESS;
}

nvmlReturn_t Machine::destroy_part(Gpu& gpu, unsigned slice_id, unsigned id) {
  if (gpu.gone) return NVML_ERROR_GPU_IS_LOST;
  Slice* slice = gpu.slice(slice_id);
  if (slice == nullptr || std::ranges::find(slice->parts, id, &Part::id) == slice->parts.end())
    return NVML_ERROR_INVALID_ARGUMENT;
  if (in_use(gpu, slice_id)) return NVML_ERROR_IN_USE;
  std::erase_if(slice->parts, [&](const Part& part) { return part.id == id; });
  return NVML_SUCCESS;
}

std::string Machine::text() const {
  std::ostringstream out;
  out << "made " << made << "\n";
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Gpu& gpu = gpus[i];
    out << "gpu " << gpu.type << " " << gpu.uuid << " " << gpu.mode << " " << gpu.pending << " " << gpu.resets << " "
        << gpu.drifts << " " << gpu.pci_id << "\n";
    if (gpu.gone) out << "gone " << i << "\n";
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
  for (const auto& xid : xids) {
    out << "xid " << xid.number << " " << xid.gpu << " " << xid.code << " " << xid.slice_id << "\n";
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
    } else if (word == "gone") {
      in >> index;
      machine.gpus.at(index).gone = true;
    } else if (word == "xid") {
      Xid& xid = machine.xids.emplace_back();
      in >> xid.number >> xid.gpu >> xid.code >> xid.slice_id;
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
