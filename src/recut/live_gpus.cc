// Matches the devices of a plan with the GPUs of this machine.
//
// A plan names devices ("rack1-0"), a driver has UUIDs. Unless the user says which is which, the pairs with the least
// work are matched first. For example, of two equal GPUs the one that already has 3g.40gb@4 becomes the device whose
// plan has that slice, and nothing has to be cut.

#include "recut/live_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ranges>
#include <set>
#include <tuple>

#include "base/text.h"

namespace tangram::recut {
namespace {

using adapters::DriverGpu;

bool is_host(const PlannedDevice& device) { return device.geometry.units_per_core > 0; }

// The table knows the type of a board by its PCI id; only the driver knows whether this board can be cut.
bool may_be(const PlannedDevice& device, const DriverGpu& gpu) {
  const Geometry* geometry = geometry_of(gpu);
  return gpu.mig_capable && geometry != nullptr && geometry->type == device.type;
}

// The work that makes `gpu` the device, as a weight for sorting. A change of MIG mode, and slices in use that would
// have to go, outweigh any number of cuts.
int work_between(const PlannedDevice& device, const DriverGpu& gpu) {
  int kept = 0;
  int used = 0;
  int foreign = static_cast<int>(reserved_of(device).slices.size());  // Slices that others have to have here.
  for (const auto& live : gpu.slices) {
    const auto planned = std::ranges::find_if(device.slices, [&](const PlannedSlice& slice) {
      return slice.slice.start == live.start &&
             device.geometry.profiles[slice.slice.profile].vendor_id == live.vendor_id;
    });
    const bool stays = planned != device.slices.end();
    foreign -= stays && planned->reserved ? 1 : 0;
    // A kept slice appears in both lists below, so it is subtracted twice from the number of cuts.
    kept += stays ? 1 : 0;
    used += !stays && std::ranges::any_of(gpu.processes,
                                          [&](const auto& process) { return process.slice_start == live.start; })
                ? 1
                : 0;
  }
  const auto cuts = static_cast<int>(gpu.slices.size() + device.slices.size()) - 2 * kept;
  // A GPU has about eight slices at most, so 100 exceeds all cuts together, and one slice in use exceeds a change of
  // mode.
  constexpr int kPerUsed = 1'000;
  constexpr int kPerMode = 100;
  constexpr int kPerForeign = 100'000;  // Without one of them the GPU cannot be the device at all.
  return cuts + foreign * kPerForeign + used * kPerUsed + (!device.slices.empty() && !gpu.mig_enabled ? kPerMode : 0);
}

const DriverGpu* find_gpu(const adapters::DriverReport& driver, const std::string& choice) {
  for (const auto& gpu : driver.gpus) {
    if (gpu.uuid == choice || std::to_string(gpu.index) == choice) return &gpu;
  }
  return nullptr;
}

Error wrong_choice(const std::string& name, const std::string& choice, std::string_view reason) {
  return {ErrorCode::invalid, fmt::format("--gpu {}={}: {}", name, choice, reason)};
}

// Matches greedily in two passes: explicit choices, then the cheapest pairs. Greedy is not always optimal in total
// work, but it is predictable, and pairs that need no cut at all are matched first.
//
// Invariant: each device of the plan is either in open_ or a key of gpus_; taken_ holds the values of gpus_.
class Matcher {
 public:
  Matcher(const Plan& plan, const adapters::DriverReport& driver) : driver_(driver) {
    for (const auto& device : plan.devices) {
      if (!is_host(device)) open_.push_back(&device);
    }
    devices_ = open_;
  }

  Result<Nothing> take_choices(const GpuChoices& choices) {
    for (const auto& [name, choice] : choices) {
      const auto device = std::ranges::find(open_, name, [](const auto* open) { return open->name; });
      if (device == open_.end()) return wrong_choice(name, choice, "the plan has no GPU of that name");
      const DriverGpu* gpu = find_gpu(driver_, choice);
      if (gpu == nullptr) return wrong_choice(name, choice, "this machine has no such GPU; see tangram doctor");
      if (!may_be(**device, *gpu)) {
        const Geometry* geometry = geometry_of(*gpu);
        return wrong_choice(name, choice,
                            fmt::format("the plan needs {}, but this GPU is {}", (*device)->type,
                                        geometry == nullptr ? gpu->name : geometry->type));
      }
      if (taken_.contains(gpu)) return wrong_choice(name, choice, "another device already uses this GPU");
      take(*device, gpu);
    }
    return Nothing{};
  }

  // Costs devices x GPUs pairs, a few hundred on one machine.
  Result<Nothing> take_rest() {
    using Pair = std::tuple<int, std::size_t, std::size_t>;
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      for (std::size_t k = 0; k < driver_.gpus.size(); ++k) {
        const DriverGpu& gpu = driver_.gpus[k];
        if (!taken_.contains(&gpu) && may_be(*open_[i], gpu)) pairs.emplace_back(work_between(*open_[i], gpu), i, k);
      }
    }
    // Ties are broken by the order of the plan and then of the driver, so the same input always gives the same match.
    std::ranges::sort(pairs);
    // Indices in `pairs` refer to this copy, because take() removes devices from open_.
    const auto wanted = open_;
    for (const auto& [work, device, gpu] : pairs) {
      const bool free = !gpus_.contains(wanted[device]) && !taken_.contains(&driver_.gpus[gpu]);
      if (free) take(wanted[device], &driver_.gpus[gpu]);
    }
    return open_.empty() ? Result<Nothing>(Nothing{}) : too_few();
  }

  std::vector<MatchedDevice> result() const {
    std::vector<MatchedDevice> list;
    for (const auto* device : devices_) list.push_back({device, gpus_.at(device)});
    return list;
  }

 private:
  void take(const PlannedDevice* device, const DriverGpu* gpu) {
    gpus_[device] = gpu;
    taken_.insert(gpu);
    std::erase(open_, device);
  }

  Error too_few() const {
    const std::string& type = open_.front()->type;
    const auto wanted = std::ranges::count(devices_, type, [](const auto* device) { return device->type; });
    const auto there =
        std::ranges::count_if(driver_.gpus, [&](const DriverGpu& gpu) { return may_be(*open_.front(), gpu); });
    return {
        ErrorCode::not_found,
        fmt::format(
            "the plan needs {} GPU{} of type {}, but this machine has {}; --device NAME takes one device of a larger "
            "plan",
            wanted, wanted == 1 ? "" : "s", type, there == 0 ? "none" : std::to_string(there))};
  }

  const adapters::DriverReport& driver_;
  std::vector<const PlannedDevice*> devices_;  // In the order of the plan.
  std::vector<const PlannedDevice*> open_;
  std::map<const PlannedDevice*, const DriverGpu*> gpus_;
  std::set<const DriverGpu*> taken_;
};

}  // namespace

std::string nvml_library() {
  const char* path = std::getenv("TANGRAM_NVML");
  return path == nullptr ? "" : path;
}

Result<GpuChoices> parse_gpu_choices(const std::vector<std::string>& texts) {
  GpuChoices choices;
  for (const auto& text : texts) {
    // From the right: the name of a device may contain "=", a UUID or an index never does.
    const auto sign = text.rfind('=');
    if (sign == std::string::npos || sign == 0 || sign + 1 == text.size()) {
      return Error{ErrorCode::invalid, fmt::format("--gpu: expected NAME=UUID or NAME=INDEX, found \"{}\"", text)};
    }
    const std::string name = text.substr(0, sign);
    if (!choices.emplace(name, text.substr(sign + 1)).second) {
      return Error{ErrorCode::invalid, fmt::format("--gpu: {} is given twice", name)};
    }
  }
  return choices;
}

GpuChoices choices_of(const Plan& plan, const GpuChoices& choices) {
  GpuChoices some;
  for (const auto& [name, choice] : choices) {
    if (std::ranges::find(plan.devices, name, &PlannedDevice::name) != plan.devices.end()) some.emplace(name, choice);
  }
  return some;
}

const Geometry* geometry_of(const adapters::DriverGpu& gpu) { return find_geometry_by_pci(gpu.pci_device_id); }

GpuChoices unreachable_devices(const Plan& plan, const adapters::DriverReport& driver, const GpuChoices& choices) {
  std::vector<const DriverGpu*> silent;  // And not yet known to be a device.
  for (const auto& gpu : driver.gpus) {
    if (!gpu.reachable) silent.push_back(&gpu);
  }
  GpuChoices found;
  const auto add = [&](const std::string& device, std::vector<const DriverGpu*>::iterator gpu,
                       const std::string& name) {
    found.emplace(device, (*gpu)->uuid.empty() ? name : (*gpu)->uuid);
    silent.erase(gpu);
  };
  std::set<const DriverGpu*> chosen;
  for (const auto& [name, choice] : choices_of(plan, choices)) {
    const DriverGpu* gpu = find_gpu(driver, choice);
    chosen.insert(gpu);
    if (gpu != nullptr && gpu->reachable) continue;
    auto its = std::ranges::find(silent, gpu);
    // A UUID that is not listed may be that of a GPU which does not tell its own.
    if (gpu == nullptr) its = std::ranges::find(silent, "", &DriverGpu::uuid);
    if (its != silent.end()) add(name, its, choice);
  }
  // How many more devices of a type there are than GPUs that answer, for those that no choice names.
  std::map<std::string, std::ptrdiff_t> lacking;
  std::vector<const PlannedDevice*> open;
  for (const auto& device : plan.devices) {
    if (is_host(device) || choices.contains(device.name)) continue;
    open.push_back(&device);
    const auto there = std::ranges::count_if(driver.gpus, [&](const DriverGpu& gpu) {
      return gpu.reachable && !chosen.contains(&gpu) && may_be(device, gpu);
    });
    const auto [count, is_first] = lacking.emplace(device.type, 1 - there);
    if (!is_first) ++count->second;
  }
  for (const auto* device : std::views::reverse(open)) {
    if (lacking[device->type] <= 0) continue;
    const auto its = std::ranges::find_if(silent, [&](const DriverGpu* gpu) {
      const Geometry* geometry = geometry_of(*gpu);
      return geometry == nullptr || geometry->type == device->type;
    });
    if (its == silent.end()) continue;
    --lacking[device->type];
    add(device->name, its, "unknown");
  }
  return found;
}

Result<std::vector<MatchedDevice>> match_devices(const Plan& plan, const adapters::DriverReport& driver,
                                                 const GpuChoices& choices) {
  Matcher matcher(plan, driver);
  TANGRAM_RETURN_IF_ERROR(matcher.take_choices(choices));
  TANGRAM_RETURN_IF_ERROR(matcher.take_rest());
  return matcher.result();
}

Plan cuts_of(const Plan& plan) {
  Plan cuts = plan;
  for (auto& device : cuts.devices) {
    for (auto& slice : device.slices) slice.replicas.clear();
  }
  return cuts;
}

Plan live_plan(const std::vector<MatchedDevice>& matched) {
  Plan live;
  for (const auto& [device, gpu] : matched) {
    PlannedDevice& now = live.devices.emplace_back(PlannedDevice{device->name, device->type, device->geometry, {}});
    for (const auto& slice : adapters::recognise_layout(device->geometry, *gpu).layout.slices) {
      now.slices.push_back({slice, {}});
    }
  }
  return live;
}

Result<Nothing> check_slices_known(const PlannedDevice& device, const adapters::DriverGpu& gpu) {
  if (gpu.slices_known) return Nothing{};
  return Error{ErrorCode::denied, fmt::format("{}: GPU {}: {}", device.name, gpu.index, gpu.problem)};
}

Result<LiveCuts> compare_live(Plan plan, const std::vector<std::string>& devices, const adapters::DriverReport& driver,
                              const GpuChoices& choices) {
  std::erase_if(plan.devices, [&](const PlannedDevice& device) {
    const bool asked = devices.empty() || std::ranges::find(devices, device.name) != devices.end();
    return is_host(device) || !asked;
  });
  // Checked after the filter and before the match: "too few GPUs" would be a misleading error where the driver is
  // missing.
  if (!driver.problem.empty()) return Error{ErrorCode::unavailable, driver.problem};
  TANGRAM_TRY(const auto matched, match_devices(plan, driver, choices));
  LiveCuts cuts;
  for (const auto& [device, gpu] : matched) {
    TANGRAM_RETURN_IF_ERROR(check_slices_known(*device, *gpu));
    for (const auto& [slice, replicas, reserved] : device->slices) {
      if (reserved) continue;  // How others share out their slices is their business.
      const MigProfile& profile = device->geometry.profiles[slice.profile];
      // A slice in several parts has its compute divided, so a program that is given one part does not get all of the
      // slice.
      const bool is_apart = std::ranges::any_of(gpu->slices, [&](const adapters::DriverSlice& live) {
        return live.start == slice.start && live.vendor_id == profile.vendor_id && !live.whole;
      });
      if (is_apart) cuts.apart.push_back(fmt::format("{}/{}@{}", device->name, profile.name, slice.start));
    }
  }
  cuts.now = live_plan(matched);
  cuts.planned = cuts_of(plan);
  return cuts;
}

}  // namespace tangram::recut
