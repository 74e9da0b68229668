// Replays a recording: its events go to a new scheduler, whose actions are compared with the recorded ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sched/watcher.h"

namespace tangram::sched {

struct ReplayReport {
  std::uint64_t events = 0;
  std::uint64_t actions = 0;
  bool complete = true;               // False: the recording stops in the middle, as when the process was killed.
  bool same = true;                   // Byte for byte, as far as the recording goes.
  std::uint64_t difference_line = 0;  // The first line that differs, from 1.
  std::string recorded;               // That line as it was ...
  std::string replayed;               // ... and as it is now.
};

// Errors: the text is no recording, or one of another version. `name` is what messages call it. A watcher is told what
// the new scheduler is told and does; it ends with the last event before the first difference.
Result<ReplayReport> replay(std::string_view name, std::string_view recording, Watcher* watcher = nullptr);

// The instant of the last event of a recording, without replaying it. Zero: there is none.
TimePoint last_event_of(std::string_view recording);

}  // namespace tangram::sched
