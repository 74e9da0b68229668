// Runs a training script here and now while its trainers change, and compares the result with a run by one trainer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/training_host.h"

namespace tangram::serve {

struct RehearsalOptions {
  TrainingHostOptions host;
  std::vector<int> workers{1, 2, 4, 3, 1};  // How many trainers there are, one after another.
  bool repeats = false;                     // Begins again with the first when all were done.
  std::int64_t every = 50;                  // Steps from one change to the next.
  int kills = 0;                            // Trainers that are killed while they train, and replaced.
  int stops = 0;                            // Trainers that are stopped, so that they hang, and replaced.
  Duration recall_max = std::chrono::seconds(30);
  Duration limit = std::chrono::hours(1);
  std::uint64_t seed = 1;
  bool reference = true;
};

struct RehearsalRun {
  std::int64_t steps = 0;
  std::int64_t steps_lost = 0;      // With everybody who had made them.
  std::int64_t steps_repeated = 0;  // Made again because their maker died before it could tell.
  std::string digest;               // Of parameters, buffers and optimizer at the end.
  std::uint64_t generations = 0;
  int changes = 0;
  int kills = 0;
  int stops = 0;
  std::int64_t states_compared = 0;  // Of members that were told to be equal.
  std::int64_t states_different = 0;
  std::vector<double> leave_ms;      // From the request to the end of the process.
  std::vector<double> join_ms;       // From the request to the end of the first step to which the trainer contributed.
  std::vector<double> recover_ms;    // From the kill to the end of the next step of the others.
  std::vector<double> step_ms;       // Of steps between two changes.
  std::vector<double> leave_gap_ms;  // Between the last step with the leaver and the first without it.
  std::vector<double> join_gap_ms;   // Between the last step without the joiner and the first with it.
  double seconds = 0;
};

struct Rehearsal {
  RehearsalRun elastic;
  RehearsalRun reference;
  // The elastic run ended with the bits of the reference, and all members agreed always.
  bool equal() const;
  std::int64_t steps_lost() const;
};

// `progress(text)` is called when something begins. Errors: the script is refused, fails, or does not end in time.
Result<Rehearsal> rehearse(const RehearsalOptions& options, const std::function<void(const std::string&)>& progress);

}  // namespace tangram::serve
