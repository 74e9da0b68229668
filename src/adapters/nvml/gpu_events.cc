// Listens by an event set of NVML, and asks.
//
// A driver that loses a GPU reports XID 79 where it can, and answers "GPU is lost" to every call about it. The wait
// itself then fails at once, for all GPUs of the set, so after a wait that failed the rest of the patience is slept.
#include "adapters/nvml/gpu_events.h"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "adapters/nvml/reading.h"

namespace tangram::adapters {
namespace {

using namespace nvml_abi;

// Graphics engine exception, page fault of a program, stopped processing, removed channel, video exception, time-out of
// a context switch; the record of a repaired row and the contained error, which end at most one program.
constexpr std::array kOfPrograms{13, 31, 43, 45, 63, 68, 94, 109};

// More events than this at once are taken with the next wait.
constexpr int kEventsMax = 64;

}  // namespace

bool concerns_program_only(int xid) { return std::ranges::find(kOfPrograms, xid) != kOfPrograms.end(); }

GpuEvents::GpuEvents(std::unique_ptr<NvmlLibrary> library) : library_(std::move(library)) {}

GpuEvents::~GpuEvents() {
  if (set_ != nullptr) library_->call<Status(EventSetHandle)>("nvmlEventSetFree", static_cast<EventSetHandle>(set_));
}

Result<std::unique_ptr<GpuEvents>> GpuEvents::open(const std::string& path, std::map<std::string, bool> gpus) {
  auto library = std::make_unique<NvmlLibrary>(path);
  if (auto problem = open_problem(*library); !problem.empty()) return Error{ErrorCode::unavailable, std::move(problem)};
  std::unique_ptr<GpuEvents> events(new GpuEvents(std::move(library)));
  events->gpus_ = std::move(gpus);
  events->listen();
  return events;
}

// In a new set, for a set that has a lost GPU tells of no other. Errors between the two sets are missed; what breaks a
// GPU for good is then found by asking.
void GpuEvents::listen() {
  if (set_ != nullptr) library_->call<Status(EventSetHandle)>("nvmlEventSetFree", static_cast<EventSetHandle>(set_));
  EventSetHandle set = nullptr;
  const Status made = library_->call<Status(EventSetHandle*)>("nvmlEventSetCreate", &set);
  set_ = made == kSuccess ? set : nullptr;
  problem_ = made == kSuccess ? "" : "the driver has no events: " + library_->describe(made);
  for (const auto& [uuid, reachable] : gpus_) {
    DeviceHandle device = nullptr;
    const Status found =
        library_->call<Status(const char*, DeviceHandle*)>("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device);
    if (found != kSuccess || set_ == nullptr) continue;
    const Status status = library_->call<Status(DeviceHandle, unsigned long long, EventSetHandle)>(
        "nvmlDeviceRegisterEvents", device, kEventXidCritical, set);
    if (status != kSuccess) problem_ = "no events of " + uuid + ": " + library_->describe(status);
  }
}

// The memory is asked for because that question goes to the GPU, unlike its name or its place on the bus. A GPU that
// refuses for another reason is there.
bool GpuEvents::answers(const std::string& uuid) const {
  DeviceHandle device = nullptr;
  if (library_->call<Status(const char*, DeviceHandle*)>("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device) !=
      kSuccess) {
    return false;
  }
  Memory memory{};
  return library_->call<Status(DeviceHandle, Memory*)>("nvmlDeviceGetMemoryInfo", device, &memory) != kGpuIsLost;
}

void GpuEvents::ask_all(std::vector<GpuEvent>& events) {
  bool changed = false;
  for (auto& [uuid, reachable] : gpus_) {
    const bool now = answers(uuid);
    if (now == reachable) continue;
    reachable = now;
    changed = true;
    events.push_back({uuid, now ? GpuEvent::Kind::reachable : GpuEvent::Kind::unreachable, 0});
  }
  if (changed) listen();
}

std::vector<GpuEvent> GpuEvents::wait(Duration patience) {
  std::vector<GpuEvent> events;
  auto left = static_cast<unsigned>(patience / std::chrono::milliseconds(1));
  for (int i = 0; i < kEventsMax && set_ != nullptr; ++i) {
    EventData data{};
    const Status status = library_->call<Status(EventSetHandle, EventData*, unsigned)>(
        "nvmlEventSetWait_v2", static_cast<EventSetHandle>(set_), &data, left);
    if (status == kTimeout) left = 0;
    if (status != kSuccess) break;
    left = 0;  // What else is there is taken without waiting.
    if ((data.type & kEventXidCritical) == 0) continue;
    events.push_back(
        {library_->text("nvmlDeviceGetUUID", data.device), GpuEvent::Kind::xid, static_cast<int>(data.data)});
  }
  ask_all(events);
  if (left > 0 && events.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(left));
  return events;
}

}  // namespace tangram::adapters
