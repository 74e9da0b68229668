// Reads and writes the checkpoint file, and takes the lock of a change.
//
// The file has the keys of nvidia-mig-parted ("Version", "MigState", "GpuInstances", "ComputeInstances") plus our own
// object "Tangram", which that tool ignores. So an operator can restore a machine with either tool, and we can restore
// what the other tool saved. Profiles are stored by the driver's numbers, because those are what mig-parted expects;
// our "Name" is stored beside them for the case that the driver lists no profiles while MIG mode is off.

#include "recut/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

namespace tangram::recut {
namespace {

using CheckpointJson = nlohmann::ordered_json;
using adapters::DriverGpu;
using adapters::SlicePart;

constexpr const char* kCheckpointVersion = "v1";
// The number of compute slices of a part, by NVML's compute instance profile (1, 2, 3, 4, 7, 8 and 6 slices, and 1
// slice "rev1"). It is needed only for files that do not state where parts start.
constexpr int kPartSlices[] = {1, 2, 3, 4, 7, 8, 6, 1};

const DriverGpu* gpu_with(const adapters::DriverReport& driver, const std::string& uuid) {
  const auto found = std::ranges::find(driver.gpus, uuid, &DriverGpu::uuid);
  return found == driver.gpus.end() ? nullptr : &*found;
}

// -1 if the driver does not list the profile, which happens while MIG mode is off; the reader then uses the name.
int number_of_profile(const DriverGpu& gpu, int vendor_id) {
  const auto found = std::ranges::find(gpu.profiles, vendor_id, &adapters::DriverProfile::vendor_id);
  return found == gpu.profiles.end() ? -1 : found->number;
}

std::string text_of(const CheckpointJson& checkpoint) { return checkpoint.dump(2) + "\n"; }

CheckpointJson checkpoint_slice(const GpuGoal& goal, const DriverGpu& gpu, const Slice& slice) {
  const MigProfile& profile = goal.geometry.profiles[slice.profile];
  CheckpointJson parts = CheckpointJson::array();
  // at() is safe: goal_of() names the parts of every slice, and so does the reader.
  for (const auto& part : goal.parts.at(slice.start)) {
    parts.push_back({{"ProfileID", part.number}, {"EngProfileID", 0}, {"Start", part.start}});
  }
  return {{"ProfileID", number_of_profile(gpu, profile.vendor_id)},
          {"Placement", {{"Start", slice.start}, {"Size", profile.units}}},
          {"ComputeInstances", std::move(parts)},
          {"Name", profile.name}};
}

// Reads one checkpoint. The first problem becomes the error; JSON access may throw inside, but no exception leaves
// run().
class CheckpointReader {
 public:
  CheckpointReader(const std::string& path, const adapters::DriverReport& driver) : path_(path), driver_(driver) {}

  Result<Checkpoint> run(const std::string& text) {
    const auto json = CheckpointJson::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_object()) return wrong("not valid JSON");
    if (json.value("Version", "") != kCheckpointVersion) return wrong("expected Version \"v1\"");
    // nlohmann throws for a missing key or another type. One handler here replaces a check at every access.
    try {
      return read(json);
    } catch (const nlohmann::json::exception& exception) {
      return wrong(fmt::format("expected a checkpoint of GPUs: {}", exception.what()));
    }
  }

 private:
  Error wrong(std::string_view reason) const { return {ErrorCode::invalid, fmt::format("{}: {}", path_, reason)}; }

  Result<Checkpoint> read(const CheckpointJson& json) const {
    Checkpoint checkpoint;
    // A file of nvidia-mig-parted has no such object. It counts as an open change without a plan, so it can be rolled
    // back to.
    if (json.contains("Tangram")) {
      const auto& ours = json.at("Tangram");
      checkpoint.plan = ours.value("plan", "");
      checkpoint.made = ours.value("made", "");
      // Two booleans hold the three states. A file without them reads as open, which is the safe default: an open
      // checkpoint is never silently replaced.
      const bool undone = ours.value("undone", false);
      if (ours.value("finished", false)) checkpoint.state = undone ? ChangeState::undone : ChangeState::done;
      if (ours.contains("previous")) checkpoint.previous = text_of(ours.at("previous"));
    }
    for (const auto& device : json.at("MigState").at("Devices")) {
      TANGRAM_TRY(auto goal, read_gpu_goal(device));
      checkpoint.gpus.push_back(std::move(goal));
    }
    return checkpoint;
  }

  Result<GpuGoal> read_gpu_goal(const CheckpointJson& json) const {
    GpuGoal goal;
    goal.gpu_uuid = json.at("UUID").get<std::string>();
    // GPUs are found by UUID: the driver's indices may change with every boot.
    const DriverGpu* gpu = gpu_with(driver_, goal.gpu_uuid);
    const Geometry* geometry = gpu == nullptr ? nullptr : geometry_of(*gpu);
    if (geometry == nullptr) {
      return Error{ErrorCode::not_found, fmt::format("{}: no known GPU has the UUID {}", path_, goal.gpu_uuid)};
    }
    goal.gpu_index = gpu->index;
    goal.geometry = *geometry;
    goal.device = json.value("Name", fmt::format("GPU {}", gpu->index));
    goal.mig = json.at("MigMode").get<int>() == 1;
    // nvidia-mig-parted is written in Go, whose encoder writes null for a list that was never filled.
    if (!json.contains("GpuInstances") || json.at("GpuInstances").is_null()) return goal;
    for (const auto& slice : json.at("GpuInstances")) {
      TANGRAM_RETURN_IF_ERROR(add_slice(*gpu, slice, goal));
    }
    // Layouts are sorted by start everywhere else, and the file may have been edited by hand.
    std::ranges::sort(goal.layout.slices, {}, &Slice::start);
    if (const auto reason = why_invalid(goal.geometry, goal.layout); !reason.empty()) return wrong(reason);
    if (!json.contains("ReservedStarts")) return goal;
    for (const int start : json.at("ReservedStarts").get<std::vector<int>>()) {
      const auto slice = std::ranges::find(goal.layout.slices, start, &Slice::start);
      if (slice == goal.layout.slices.end()) {
        return wrong(fmt::format("{} has no slice that starts at {}, which ReservedStarts names", goal.device, start));
      }
      goal.reserved.slices.push_back(*slice);
    }
    return goal;
  }

  Result<Nothing> add_slice(const DriverGpu& gpu, const CheckpointJson& json, GpuGoal& goal) const {
    const int number = json.at("ProfileID").get<int>();
    const int start = json.at("Placement").at("Start").get<int>();
    const auto profile = find_profile_of(gpu, goal.geometry, number, json.value("Name", ""));
    if (!profile) return wrong(fmt::format("{} has no profile with the id {}", goal.device, number));
    // The range is checked before the narrowing cast below, or a large number would wrap to a valid start.
    if (start < 0 || start > UINT16_MAX) return wrong(fmt::format("a slice cannot start at {}", start));
    goal.layout.slices.push_back({static_cast<std::uint16_t>(*profile), static_cast<std::uint16_t>(start)});
    goal.parts[start] = read_part_list(json);
    return Nothing{};
  }

  // A number means what the driver says it means. While MIG mode is off the driver may list nothing; then our name
  // counts.
  static std::optional<std::size_t> find_profile_of(const DriverGpu& gpu, const Geometry& geometry, int number,
                                                    const std::string& name) {
    const auto listed = std::ranges::find(gpu.profiles, number, &adapters::DriverProfile::number);
    if (listed == gpu.profiles.end()) {
      const auto named = find_profile(geometry, name);
      return named && !gpu.mig_enabled ? std::optional(*named) : std::nullopt;
    }
    const auto profile = std::ranges::find(geometry.profiles, listed->vendor_id, &MigProfile::vendor_id);
    if (profile == geometry.profiles.end()) return std::nullopt;
    return static_cast<std::size_t>(profile - geometry.profiles.begin());
  }

  // nvidia-mig-parted does not store where parts start. Its parts follow one another without gaps.
  static std::vector<SlicePart> read_part_list(const CheckpointJson& json) {
    std::vector<SlicePart> parts;
    if (!json.contains("ComputeInstances") || json.at("ComputeInstances").is_null()) return parts;
    int next = 0;
    for (const auto& part : json.at("ComputeInstances")) {
      const int number = part.at("ProfileID").get<int>();
      parts.push_back({number, part.value("Start", next)});
      // A number outside the table counts as one slice; the driver rejects the part later if that is wrong.
      next = parts.back().start + (number >= 0 && number < 8 ? kPartSlices[number] : 1);
    }
    return parts;
  }

  const std::string& path_;
  const adapters::DriverReport& driver_;
};

// Missing rights are `denied` and not `unavailable`: trying again later does not help.
Error lock_error(const std::string& what, int code) {
  return {code == EACCES || code == EPERM || code == EROFS ? ErrorCode::denied : ErrorCode::unavailable,
          fmt::format("cannot write {}: {}", what, std::strerror(code))};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string write_checkpoint(const Checkpoint& checkpoint, const adapters::DriverReport& driver) {
  CheckpointJson devices = CheckpointJson::array();
  for (const auto& goal : checkpoint.gpus) {
    const DriverGpu* gpu = gpu_with(driver, goal.gpu_uuid);
    TANGRAM_CHECK(gpu != nullptr, "a checkpoint is of GPUs that the driver has");
    CheckpointJson slices = CheckpointJson::array();
    for (const auto& slice : goal.layout.slices) slices.push_back(checkpoint_slice(goal, *gpu, slice));
    devices.push_back({{"UUID", goal.gpu_uuid},
                       {"MigMode", goal.mig ? 1 : 0},
                       {"GpuInstances", std::move(slices)},
                       {"Name", goal.device}});
    for (const auto& slice : goal.reserved.slices) devices.back()["ReservedStarts"].push_back(slice.start);
  }
  CheckpointJson ours{{"plan", checkpoint.plan},
                      {"made", checkpoint.made},
                      {"finished", checkpoint.state != ChangeState::open},
                      {"undone", checkpoint.state == ChangeState::undone}};
  // A `previous` text that is not a JSON object cannot be restored later, so it is dropped.
  auto previous = CheckpointJson::parse(checkpoint.previous, nullptr, false);
  if (previous.is_object()) ours["previous"] = std::move(previous);
  return text_of(
      {{"Version", kCheckpointVersion}, {"MigState", {{"Devices", std::move(devices)}}}, {"Tangram", std::move(ours)}});
}

Result<Checkpoint> read_checkpoint(const std::string& path, const std::string& text,
                                   const adapters::DriverReport& driver) {
  return CheckpointReader(path, driver).run(text);
}

// Both functions below ask the planner instead of comparing layouts: "nothing left to do" then has one definition,
// including MIG mode and parts. A GPU that cannot be planned for counts as changed.
bool is_as_it_was(const Checkpoint& checkpoint, const adapters::DriverReport& now) {
  const auto back = plan_recut(now, checkpoint.gpus);
  return back && back->empty();
}

bool is_settled(const Checkpoint& checkpoint, const std::vector<GpuGoal>& goals, const adapters::DriverReport& now) {
  return std::ranges::all_of(checkpoint.gpus, [&](const GpuGoal& gpu) {
    if (std::ranges::find(goals, gpu.gpu_uuid, &GpuGoal::gpu_uuid) != goals.end()) return true;
    const auto back = plan_recut(now, {gpu});
    return back && back->empty();
  });
}

std::string state_directory(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  if (auto given = variable("TANGRAM_STATE"); !given.empty()) return given;
  if (geteuid() == 0) return "/var/lib/tangram";
  if (const auto home = variable("XDG_STATE_HOME"); !home.empty()) return home + "/tangram";
  return variable("HOME") + "/.local/state/tangram";
}

std::string checkpoint_path(const std::string& directory) { return directory + "/checkpoint.json"; }

Result<std::unique_ptr<RecutLock>> RecutLock::take(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return lock_error(directory, error.value());
  // The lock is a file of its own. The checkpoint is replaced by rename, so a lock on it would be on an unlinked file.
  const std::string path = directory + "/apply.lock";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return lock_error(path, errno);
  auto lock = std::make_unique<RecutLock>(file);
  // flock() belongs to the open file: the kernel releases it when the process ends, even by SIGKILL, so no stale lock
  // remains.
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return lock;
  return Error{ErrorCode::unavailable, fmt::format("another tangram apply or rollback is running; it holds {}", path)};
}

RecutLock::~RecutLock() { close(file_); }

}  // namespace tangram::recut
