// Writes what passes between a scheduler and its World: events on their way in, actions on their way out.
//
// It is a World itself, placed between the two. The form of the lines is described in recording_text.h.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "sched/deployment.h"
#include "sched/scheduler.h"
#include "sched/watcher.h"
#include "sched/world.h"

namespace tangram::sched {

// Beyond this a recording ends at a whole line, without its "end".
inline constexpr std::uint64_t kRecordingBytesMax = std::uint64_t{1} << 30;

// Takes finished lines, each with its line end.
using RecordingSink = std::function<void(std::string_view)>;

class Recorder final : public World {
 public:
  // `world` and `watcher` outlive it. An empty sink takes nothing, and a null watcher is told nothing.
  Recorder(World& world, RecordingSink sink, std::uint64_t bytes_max, Watcher* watcher = nullptr)
      : world_(world), sink_(std::move(sink)), bytes_left_(bytes_max), watcher_(watcher) {}

  // False without a sink, and from where the recording reached its limit.
  bool on() const { return static_cast<bool>(sink_); }

  // The first lines and the last.
  void write_head(const Deployment& deployment, const SchedulerConfig& config);
  void write_end();

  // Events. Each is written before the scheduler handles it.
  void write_arrival(const Request& request);
  void write_done(const BatchDone& done);
  void write_plan(const Deployment& next);
  void write_event(std::string_view word, std::initializer_list<std::int64_t> numbers);
  // Whether the scheduler handles an event that has been written. A slice that is lent or recalled otherwise was asked
  // for by whoever holds the scheduler, and the request itself is the event.
  void set_handling(bool handling) { handling_ = handling; }

  // World: each action is written and passed on.
  TimePoint now() const override { return world_.now(); }
  void wake_at(TimePoint when) override;
  void launch(const Batch& batch) override;
  void stop(SliceId slice, bool must) override;
  void restart(SliceId slice) override;
  void reshape(DeviceId device, const Layout& target) override;
  void lend(SliceId slice) override;
  void recall(SliceId slice) override;
  void resolve(const Request& request, const Outcome& outcome, const Batch* batch) override;

 private:
  void write_action(std::string_view word, std::initializer_list<std::int64_t> numbers);
  // Requires a whole line with its end. Stops the recording where the line would exceed the limit.
  void write(std::string_view line);

  World& world_;
  RecordingSink sink_;
  std::uint64_t bytes_left_;
  Watcher* const watcher_;  // Null: none.
  bool handling_ = false;
  std::string line_;  // Kept, so that a line allocates nothing.
};

}  // namespace tangram::sched
