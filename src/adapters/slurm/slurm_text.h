// Slurm's command line as text: what to ask sbatch, squeue, sinfo and scancel for, and what their answers say.
//
// Only commands and format letters are used that have been the same since Slurm 20.02. Nothing here starts a process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/plan.h"

namespace tangram::adapters {

// Tasks of one job at most. Slurm's default for MaxArraySize is 1001.
inline constexpr int kSlurmTasksPerJobMax = 1000;

// Slices that Slurm cannot tell apart: one generic resource, or a number of cores.
struct SlurmKind {
  std::string name;   // "1g.10gb", "nvidia_a100-sxm4-80gb_3g.40gb", "2c".
  std::string gres;   // "gpu:1g.10gb:1"; empty for slices of a host.
  int cores = 0;      // Of a slice of a host; 0: as the job's options say.
  int wanted = 0;     // How many tasks the plan needs.

  bool operator==(const SlurmKind&) const = default;
};

// The kinds of the plan's slices, in the order in which the plan names them. Reserved slices belong to others and are
// left out. `boards`: what slurmd prints before the MIG profile, by device type; the profile alone where it has none.
// Errors: no slice at all.
Result<std::vector<SlurmKind>> slurm_kinds(const Plan& plan, const std::map<std::string, std::string>& boards);

// What every task of a deployment has in common.
struct SlurmJob {
  std::string name = "tangram";  // Of the deployment: letters, digits, dots and dashes.
  std::string partition;
  std::string account;
  std::string qos;
  std::string time_limit;              // As sbatch takes it: "8:00:00". Empty: the partition's default.
  int cpus = 1;                        // A task. Slices of a host have as many as their cores.
  int memory_mb = 0;                   // A task; 0: the partition's default.
  Duration warning = std::chrono::seconds(120);  // How long before its time limit a task gets SIGTERM.
  std::string log_folder;              // One file a task; empty: /dev/null.
  std::vector<std::string> sbatch;     // Further options, as they are.
  std::vector<std::string> command;    // What a task runs, word by word.
};

// "tangram-NAME", by which the tasks of a deployment are found in the queue.
std::string slurm_job_name(const SlurmJob& job);
// True for a name that can be part of a job's name, a comment and a file name.
bool is_slurm_name(std::string_view name);

// The arguments of sbatch for `count` tasks of one kind that run on none of the nodes `exclude`, and the script that it
// reads from standard input. The script replaces itself with the command, so that the command gets the signals.
std::vector<std::string> sbatch_arguments(const SlurmJob& job, const SlurmKind& kind, int count,
                                          const std::set<std::string>& exclude);
std::string sbatch_script(const SlurmJob& job, const SlurmKind& kind);
// The job's number in what `sbatch --parsable` prints: "12" or "12;cluster".
Result<std::string> read_sbatch(std::string_view output);

enum class SlurmState : std::uint8_t { pending, running, ending };

struct SlurmTask {
  std::string id;    // "12_3": array task 3 of job 12.
  std::string kind;  // SlurmKind::name.
  SlurmState state = SlurmState::pending;
  std::string reason;                 // Why it is pending: "Resources".
  std::string node;                   // Where it runs; empty while it is pending.
  std::optional<Duration> time_left;  // Nothing: no limit.
  Duration ran = {};
  std::set<std::string> excluded;  // Nodes that it must not run on. Ranges of names are kept as Slurm prints them.

  bool operator==(const SlurmTask&) const = default;
};

std::vector<std::string> squeue_arguments(const SlurmJob& job);
// The tasks of this deployment. Jobs of the same name that are not ours are left out. Errors: a line that is none of
// squeue's.
Result<std::vector<SlurmTask>> read_squeue(std::string_view output, const SlurmJob& job);
// "1-02:03:04", "30:00" or "5" (minutes); nothing for "UNLIMITED" and what is no time.
std::optional<Duration> read_slurm_time(std::string_view text);

// What a node can be relied on for.
enum class SlurmNodeHealth : std::uint8_t { good, leaving /* it is being drained */, bad /* down or silent */ };
std::vector<std::string> sinfo_arguments(const std::set<std::string>& nodes);
Result<std::map<std::string, SlurmNodeHealth>> read_sinfo(std::string_view output);

// What a reason of a pending task means and what to do; empty for one that needs no words.
std::string_view slurm_reason_meaning(std::string_view reason);
// True where waiting cannot help: the request has to be changed.
bool slurm_reason_is_final(std::string_view reason);

}  // namespace tangram::adapters
