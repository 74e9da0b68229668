// Matches the GPUs of this machine with the devices of a plan.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "adapters/nvml/nvml.h"
#include "base/result.h"
#include "core/plan.h"

namespace tangram::recut {

// The path of the driver library: $TANGRAM_NVML, or empty for the default one.
std::string nvml_library();

// "rack1-0=GPU-5f..." and "rack1-0=1": the UUID or the index of the GPU that a device of the plan is.
using GpuChoices = std::map<std::string, std::string>;
Result<GpuChoices> parse_gpu_choices(const std::vector<std::string>& texts);

// Those of `choices` that name devices of `plan`. A server that follows its traffic knows the GPUs of its whole fleet,
// and cuts one device at a time.
GpuChoices choices_of(const Plan& plan, const GpuChoices& choices);

// A device of a plan and the GPU that it was matched with.
struct MatchedDevice {
  const PlannedDevice* device = nullptr;
  const adapters::DriverGpu* gpu = nullptr;
};

// Leaves out devices of type "cpu". A device gets the GPU that `choices` names, or else one of its type: the pairs that
// need the fewest cuts first, then in the order of the plan and of the driver. A GPU serves one device only. The result
// refers to both arguments. Errors: a choice that names nothing or a GPU of another type, or too few GPUs.
Result<std::vector<MatchedDevice>> match_devices(const Plan& plan, const adapters::DriverReport& driver,
                                                 const GpuChoices& choices);

// Devices of the plan whose GPU is listed by the driver and does not answer, with its UUID, or what `choices` says of
// it where it does not even tell that. Of GPUs that no choice names, those that are lacking are the last devices of
// their type. match_devices() would have an error for each of them.
GpuChoices unreachable_devices(const Plan& plan, const adapters::DriverReport& driver, const GpuChoices& choices);

// The GPU's type in the tables, or null if they do not have it.
const Geometry* geometry_of(const adapters::DriverGpu& gpu);

// The plan without its replicas, which is the part that can be compared with a GPU.
Plan cuts_of(const Plan& plan);
// The devices as their GPUs are cut now, under the names of the plan.
Plan live_plan(const std::vector<MatchedDevice>& matched);

// The cuts of this machine's GPUs and those that the plan wants.
struct LiveCuts {
  Plan now;                        // The devices as their GPUs are cut, under the names of the plan.
  Plan planned;                    // Without replicas, which a driver does not know.
  std::vector<std::string> apart;  // Slices that are there, but in several parts: "rack1-0/3g.40gb@4".
};

// Error: the driver did not list the slices of the GPU, for example because this user may not see them. What it reports
// then says nothing about which slices exist.
Result<Nothing> check_slices_known(const PlannedDevice& device, const adapters::DriverGpu& gpu);

// Matches as match_devices() does. `devices`: only these of the plan; empty: all. Errors: those of match_devices(), or
// the driver could not be read.
Result<LiveCuts> compare_live(Plan plan, const std::vector<std::string>& devices, const adapters::DriverReport& driver,
                              const GpuChoices& choices);

}  // namespace tangram::recut
