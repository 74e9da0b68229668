// What a server that follows its traffic remembers across a restart.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "control/demand.h"
#include "control/fleet_use.h"
#include "control/service_watch.h"
#include "core/plan.h"
#include "host/mutex.h"
#include "sched/corrections.h"

namespace tangram::serve {

// A plan and what it was made for, by service.
struct SavedPlan {
  Plan plan;
  std::vector<control::ServiceDemand> planned;
  std::string reason;
};

// The plan is the one that was being put in force when the server ended, if a move was under way: after a restart
// nothing runs yet, so the end of the move is as near as its beginning.
struct SavedFollowing {
  Plan plan;
  std::vector<std::string> services;  // Names of those that are served.
  std::vector<control::ServiceDemand> planned;
  std::optional<SavedPlan> previous;                   // What the last move can be taken back to.
  bool moving = false;                                 // The plan was being put in force.
  std::vector<control::ServiceWatch::Memory> watches;  // By service: forecasts.
  std::vector<sched::CorrectionMemory> corrections;    // Of run times; ids are places in `services`.
  std::vector<double> moves_ago_s;                     // The moves of the last hour, for the pace.
  double device_hours = 0;
  double slice_hours = 0;
  control::FleetHours::ByGroup group_hours;
  std::uint64_t moves = 0;
  std::uint64_t moves_undone = 0;
  bool paused = false;
  bool held = false;
  std::string last_reason;
};

std::string to_text(const SavedFollowing& saved);
// Errors: not what to_text() makes, or of another version.
Result<SavedFollowing> parse_saved_following(const std::string& text);

// Writes values on a thread of its own, so that no disk delays a request. Only the newest one that is waiting is
// written.
class SavedWriter {
 public:
  using Write = std::function<Result<Nothing>(const SavedFollowing&)>;

  explicit SavedWriter(Write write);
  // Writes what is waiting.
  ~SavedWriter();
  SavedWriter(const SavedWriter&) = delete;
  SavedWriter& operator=(const SavedWriter&) = delete;

  void put(SavedFollowing saved) EXCLUDES(mutex_);
  // Why the last value could not be written; empty if it was, or none was yet.
  std::string problem() const EXCLUDES(mutex_);

 private:
  void run() EXCLUDES(mutex_);

  Write write_;
  mutable host::Mutex mutex_;
  host::CondVar changed_;
  std::optional<SavedFollowing> waiting_ GUARDED_BY(mutex_);
  std::string problem_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tangram::serve
