// Hears from the NVIDIA driver which GPUs break while a server runs: critical errors (XIDs), and GPUs that the driver
// cannot reach any more.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tangram::adapters {

class NvmlLibrary;

// One thing that has happened to a GPU.
struct GpuEvent {
  enum class Kind : std::uint8_t {
    xid,          // The driver reports an error, and its number.
    unreachable,  // The driver cannot reach the GPU: it has fallen off the bus, for example.
    reachable,    // It can again.
  };
  std::string gpu_uuid;
  Kind kind = Kind::xid;
  int xid = 0;
};

// True for an XID that a program causes, or that concerns one program only: NVIDIA's list of XID errors says so. Such a
// program ends with an error of its own; the GPU goes on to work for the others.
bool concerns_program_only(int xid);

// Keeps the library open, so that a GPU whose MIG mode is to be switched counts as used: close it for that time.
class GpuEvents {
 public:
  // Listens to these GPUs, by UUID: whether they could be reached when the caller last knew. If that has changed, the
  // first wait() tells. Errors: there is no library at `path` (empty: the usual one), or it does not answer.
  static Result<std::unique_ptr<GpuEvents>> open(const std::string& path, std::map<std::string, bool> gpus);
  ~GpuEvents();
  GpuEvents(const GpuEvents&) = delete;
  GpuEvents& operator=(const GpuEvents&) = delete;

  // What has happened since the last call; waits for it, about as long as `patience` at most. Also asks each GPU
  // whether it can be reached, for the errors that no driver reports. Where the driver has no events, only this is
  // done.
  std::vector<GpuEvent> wait(Duration patience);
  // Why there are no events for some of the GPUs; empty: there are for all.
  const std::string& problem() const { return problem_; }

 private:
  explicit GpuEvents(std::unique_ptr<NvmlLibrary> library);
  // Begins to listen to all GPUs that can be reached.
  void listen();
  // Asks every GPU whether it answers.
  void ask_all(std::vector<GpuEvent>& events);
  bool answers(const std::string& uuid) const;

  std::unique_ptr<NvmlLibrary> library_;
  void* set_ = nullptr;               // Of events; null: the driver has none.
  std::map<std::string, bool> gpus_;  // By UUID: whether it could be reached the last time.
  std::string problem_;
};

}  // namespace tangram::adapters
