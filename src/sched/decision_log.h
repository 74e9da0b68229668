// A recording for people: what was decided, one short line each.
//
//   > 109617000 arrival 0 0 0 0 1 20 309617000        0.109617 arrival r0 rank size 20 samples 1
//   < launch 1 0 0 0 32 1 2000000: 0                  0.109617 launch b1 slice 0 padded 32 samples 1: r0
//   < wake_at 2109617000
//
// It reads the lines of a recording and nothing else, so it says the same of a simulated run and of a real one. Lines
// that decide nothing (wakes, the ends of batches, completed restarts) are left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "sched/deployment.h"

namespace tangram::sched {

class DecisionLog {
 public:
  // The text of the next line of a recording, or nothing if that line decides nothing. Takes the lines in their order,
  // with or without their ends, beginning with the first.
  std::optional<std::string> read(std::string_view recorded);

 private:
  std::optional<std::string> read_event(std::string_view text);
  std::optional<std::string> read_action(std::string_view text) const;
  // Names services and profiles from now on. A deployment that cannot be read leaves the names as they are.
  void learn_names(std::string_view deployment);
  std::string at_time(const std::string& text) const;
  std::string arrival_text(const std::vector<std::int64_t>& numbers) const;
  std::string layout_text(std::size_t device, std::string_view layout) const;

  std::vector<std::string> services_;
  std::vector<Geometry> geometries_;  // By device, with the names of their profiles only.
  TimePoint now_;                     // Of the last event.
  std::uint64_t plans_ = 0;           // That came into force after the first.
};

}  // namespace tangram::sched
