// A training job as its owner describes it, in YAML: what `tangram train submit` reads and a server keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/source.h"

namespace tangram::formats {

struct TrainingJobSlices {
  int min = 1;  // The job waits until it can have so many.
  int max = 1;
  std::vector<std::string> profiles = {};  // MigProfiles on which it may run; empty: any.

  bool operator==(const TrainingJobSlices&) const = default;
};

struct TrainingJob {
  std::string name;
  // Words. A Python interpreter and a script make an elastic job; any other command is a restartable one.
  std::vector<std::string> command;
  std::string directory = {};  // Where the command runs. Empty in a file: the folder of the file.
  int logical_workers = 8;
  int threads = 1;
  TrainingJobSlices slices = {};
  std::string checkpoint = {};  // A file; empty: one that the server keeps.
  double checkpoint_every_s = 60;
  int priority = 0;                           // Jobs of a higher one are given slices first.
  std::optional<std::int64_t> deadline = {};  // Seconds since 1970: of jobs of one priority, the earliest is first.
  bool adaptive = false;
  std::optional<double> recall_max_ms = {};  // Nothing: from the steps as measured.
  std::optional<std::int64_t> steps = {};    // How many it makes, for the time left.

  // True if it trains a script whose trainers come and go; otherwise its command is started again.
  bool elastic() const;
  // Of an elastic job: the arguments of the script.
  std::vector<std::string> script_arguments() const;

  bool operator==(const TrainingJob&) const = default;
};

Result<TrainingJob> parse_training_job(const Source& source);
std::string write_training_job(const TrainingJob& job);

}  // namespace tangram::formats
