// What a server remembers of its training jobs, in one folder: descriptions and progress in SQLite, and in jobs/NAME
// the log and the state of each. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/training_job.h"
#include "host/mutex.h"
#include "host/state_store.h"
#include "serve/training_run.h"

namespace tangram::serve {

struct TrainingRecord {
  formats::TrainingJob job;
  TrainingProgress progress;
  std::uint64_t order = 0;       // Of submission.
  std::int64_t submitted_s = 0;  // Since 1970.
  double attained_s = 0;         // Slice-seconds.
  bool cancelled = false;
};

struct TrainingLogPart {
  std::string text;
  std::uint64_t next = 0;  // Where to read on.
};

class TrainingStore {
 public:
  // Takes the lock of the folder, which is made if need be. Errors: another server uses it, or it cannot be used.
  static Result<std::unique_ptr<TrainingStore>> open(const std::string& folder);

  // All jobs, in the order of submission. Errors: what is there was written by something else.
  Result<std::vector<TrainingRecord>> load() EXCLUDES(mutex_);
  // Returns when it is on disk. A new record makes the folder of its job, or empties the one of a job that it replaces.
  Result<Nothing> add(const TrainingRecord& record) EXCLUDES(mutex_);
  Result<Nothing> update(const TrainingRecord& record) EXCLUDES(mutex_);
  std::string folder_of(const std::string& job) const { return folder_ + "/jobs/" + job; }
  const std::string& folder() const { return folder_; }
  // A secret in the file `submit.key` of the folder, which only the server's user can read: where there is no access
  // control, who knows it may submit. Made anew by each server.
  const std::string& key() const { return key_; }
  // At most 64 KiB of what a job has printed, from this byte on; from the beginning where the log was cut since.
  TrainingLogPart log_of(const std::string& job, std::uint64_t offset) const;

 private:
  TrainingStore(std::string folder, host::StateStore store) : folder_(std::move(folder)), store_(std::move(store)) {}
  Result<Nothing> make_key();
  Result<Nothing> write(const TrainingRecord& record, bool added) EXCLUDES(mutex_);

  const std::string folder_;
  std::string key_;
  host::Mutex mutex_;
  host::StateStore store_ GUARDED_BY(mutex_);
  std::vector<std::string> names_ GUARDED_BY(mutex_);  // In the order of submission.
};

}  // namespace tangram::serve
