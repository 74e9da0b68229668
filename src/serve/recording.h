// Everything that crosses the scheduler's door, one line each, and the way back.
//
// Events go in, actions come out; both are written in the order in which they happen. A recording holds what the
// scheduler knew, too, so replaying it needs nothing else: the same events are fed to a new scheduler, and what it does
// is written in the same form. The promise is that the two texts are the same, byte for byte.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sched/scheduler.h"

namespace tangram::serve {

inline constexpr int kRecordingVersion = 1;
// Beyond this a recording ends, and says so.
inline constexpr std::uint64_t kRecordingBytesMax = std::uint64_t{1} << 30;

// Takes finished lines.
using RecordingSink = std::function<void(std::string_view)>;

// A scheduler with a recorder at its door. Events enter by the on_ functions and actions reach `world`, as if nothing
// stood between. Without a sink nothing is written.
class Door final : public sched::World {
 public:
  // `world` outlives the door.
  Door(sched::World& world, sched::Deployment deployment, const sched::SchedulerConfig& config, RecordingSink sink,
       std::uint64_t bytes_max = kRecordingBytesMax);
  ~Door() override;

  void on_arrival(const Request& request);
  void on_batch_done(const sched::BatchDone& done);
  void on_wake();
  void on_slice_lost(SliceId slice);
  void on_restarted(SliceId slice, bool ok);
  void on_reshaped(DeviceId device, bool ok);
  void on_plan_ready(const sched::Deployment& next);
  void on_returned(SliceId slice);
  void on_ending();

  const sched::Scheduler& scheduler() const { return scheduler_; }
  bool recording() const { return static_cast<bool>(sink_); }

  // World.
  TimePoint now() const override { return world_.now(); }
  void wake_at(TimePoint when) override;
  void launch(const sched::Batch& batch) override;
  void restart(SliceId slice) override;
  void reshape(DeviceId device, const Layout& target) override;
  void lend(SliceId slice) override;
  void recall(SliceId slice) override;
  void resolve(const Request& request, const Outcome& outcome, const sched::Batch* batch) override;

 private:
  template <typename... Args>
  void event(const char* format, const Args&... args);
  template <typename... Args>
  void action(const char* format, const Args&... args);
  void write(std::string_view line);

  sched::World& world_;
  RecordingSink sink_;
  std::uint64_t bytes_left_;
  std::string line_;
  sched::Scheduler scheduler_;
};

struct ReplayReport {
  std::uint64_t events = 0;
  std::uint64_t actions = 0;
  bool complete = true;               // False: the recording stops in the middle, as when the process was killed.
  bool same = true;                   // Byte for byte, as far as the recording goes.
  std::uint64_t difference_line = 0;  // The first line that differs, from 1.
  std::string recorded;               // That line as it was ...
  std::string replayed;               // ... and as it is now.
};

// Feeds the events of a recording to a scheduler and compares what it does. Errors: the text is no recording.
Result<ReplayReport> replay(std::string_view name, std::string_view recording);

// What a scheduler is made of, as one line of JSON and back.
std::string write_deployment(const sched::Deployment& deployment);
Result<sched::Deployment> read_deployment(std::string_view text);

}  // namespace tangram::serve
