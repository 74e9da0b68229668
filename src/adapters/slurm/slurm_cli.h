// Slurm's programs, called as an ordinary user, and the loop that keeps a plan's tasks alive with them.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "adapters/slurm/slurm_keeper.h"
#include "base/result.h"

namespace tangram::adapters {

// How long one call may take, and how much it may print. Slurm's own time limit for a message is 10 s.
inline constexpr Duration kSlurmCallMax = std::chrono::seconds(30);
inline constexpr std::size_t kSlurmOutputMax = std::size_t{32} << 20;

// Runs a program of the PATH with `input` as its standard input and returns what it printed. Errors: the program is not
// there (not_found), it did not end in time (exhausted), or it failed (unavailable, with what it said).
Result<std::string> run_slurm(const std::vector<std::string>& words, const std::string& input = "");

Result<std::vector<SlurmTask>> slurm_queue(const SlurmJob& job);
// Returns the number of the job.
Result<std::string> slurm_submit(const SlurmJob& job, const SlurmKind& kind, int count,
                                 const std::set<std::string>& exclude);
Result<Nothing> slurm_cancel(const std::vector<std::string>& tasks);

// What the loop asks and tells, beside Slurm.
struct SlurmSurroundings {
  std::function<bool()> stop;                       // Asked several times a second.
  std::function<void(const std::string&)> say;      // One line for the log.
  // Joined tasks, by their ids. Nothing: the gateway does not answer. Null: there is no gateway to ask.
  std::function<Result<std::set<std::string>>()> joined;
  // The plan's kinds, if they have changed since the last call. Null: they never do.
  std::function<std::optional<std::vector<SlurmKind>>()> changed;
  std::function<void(const SlurmKeeper&)> show;  // After each reading of the queue; may be null.
};

struct SlurmKeepOptions {
  SlurmJob job;
  SlurmKeeperOptions keeper;
  // At most one call of Slurm in this time in the long run, and this many in a row after a quiet time.
  Duration call_every = std::chrono::seconds(10);
  int calls_in_a_row = 6;
};

// Keeps the tasks alive until `stop`. Tasks stay when it returns: the queue is taken over by the next keeper, or
// cancelled by `tangram slurm down`. Errors: Slurm's programs are not installed.
Result<Nothing> keep_slurm(const SlurmKeepOptions& options, const SlurmSurroundings& around);

}  // namespace tangram::adapters
