// Keeps as many tasks in Slurm's queue as a plan has slices: observations in, commands out.
//
// Slurm's queue is the truth: a keeper that starts anew takes over what it finds there, so it may be killed at any
// time. It knows no clock and starts no process; slurm_cli.h does.
//
// Invariants:
//   - Nothing is decided on a queue that was read before the last command: a task is never submitted twice.
//   - A node that Slurm calls silent is believed to be at the second look, and not while a task on it is joined.
//   - A task is lost only if the queue, read after it was missed, still says that it runs.
//   - A task that the gateway lost is given up only while the gateway answers, and others are joined to it: a gateway
//     that restarts loses all of them and none is to blame.
//   - Tasks that end at once are submitted again after a pause that doubles, up to five minutes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "adapters/slurm/slurm_text.h"
#include "base/time.h"

namespace tangram::adapters {

struct SlurmKeeperOptions {
  std::vector<SlurmKind> kinds;
  Duration lead = std::chrono::minutes(10);       // Before a time limit; at most a quarter of it.
  Duration lost_after = std::chrono::seconds(3);  // How long a joined task is missed at the gateway.
  Duration regain = std::chrono::seconds(20);     // For tasks to join again after the gateway was away.
  Duration exclude_for = std::chrono::minutes(10);
  Duration short_life = std::chrono::seconds(60);  // A task that ends sooner counts as failed.
  Duration pause_first = std::chrono::seconds(10);
  Duration pause_max = std::chrono::minutes(5);
};

struct SlurmCommand {
  enum class What : std::uint8_t { submit, cancel };
  What what = What::submit;
  std::string kind;               // submit: this many tasks of it, on none of these nodes.
  int count = 0;
  std::set<std::string> exclude;
  std::vector<std::string> tasks;  // cancel: these.
  std::string why;                 // For the log.
};

class SlurmKeeper {
 public:
  explicit SlurmKeeper(SlurmKeeperOptions options);

  // From now on the plan has these kinds.
  void want(std::vector<SlurmKind> kinds) { options_.kinds = std::move(kinds); }

  // What was observed. `now` counts from any fixed instant and never goes back.
  void on_queue(Duration now, std::vector<SlurmTask> tasks);
  void on_nodes(Duration now, const std::map<std::string, SlurmNodeHealth>& nodes);
  // The tasks that are joined to the gateway. Tasks are called by their ids.
  void on_gateway(Duration now, const std::set<std::string>& joined);
  void on_gateway_away(Duration now);

  // What came of a command.
  void on_submitted(Duration now, const SlurmCommand& command, const std::string& job);
  void on_submit_failed(Duration now, const SlurmCommand& command);
  void on_cancelled(Duration now, const SlurmCommand& command);
  // Whether a command had an effect is unknown, as after a time limit: the queue will tell.
  void on_unknown(Duration now);

  // The most urgent command, or nothing. At most one a call: what it did must be observed before the next of its kind.
  std::optional<SlurmCommand> decide(Duration now);

  // The queue must be read before anything more is decided.
  // A task is missed at the gateway since the queue was last read: it may just have ended.
  bool wants_queue() const;
  bool queue_is_stale() const { return !queue_at_ || *queue_at_ <= command_at_; }
  // Every kind has its tasks, all of them running, and none has to be replaced.
  bool settled() const;
  // Slurm nodes whose health would help to decide.
  std::set<std::string> nodes_of_interest() const;
  // Nodes that tasks are kept away from now.
  std::set<std::string> excluded(Duration now) const;

  const std::vector<SlurmTask>& tasks() const { return tasks_; }

 private:
  // What is known of a task beyond the queue.
  struct Known {
    std::string kind;
    std::string node;
    Duration ran = {};
    std::optional<Duration> cancelled_at;  // By us.
    bool joined = false;         // At any time.
    std::optional<Duration> missing_since;
    std::string given_up;  // Why it is to be replaced; empty: it is not.
  };
  struct Pause {
    int failures = 0;  // Tasks in a row that ended too soon.
    Duration until = {};
  };

  bool ended_soon(const Known& known) const;
  // The next submission of this kind waits, from the second failure in a row on.
  void note_failure(Duration now, const std::string& kind);
  void judge_missing(Duration now);
  void judge_nodes(Duration now);
  void give_up(const std::string& id, const std::string& why, bool node_too, Duration now);
  // Counts as one of the tasks that its kind wants.
  bool counts(const SlurmTask& task) const;
  bool is_leaving(const SlurmTask& task) const;
  std::optional<SlurmCommand> submit_missing(Duration now);
  std::optional<SlurmCommand> cancel_needless(Duration now);

  SlurmKeeperOptions options_;
  std::vector<SlurmTask> tasks_;
  std::map<std::string, Known> known_;  // Of every task in the queue or just submitted.
  std::map<std::string, Pause> pauses_;
  std::map<std::string, Duration> suspects_;  // Slurm nodes, and until when they are avoided.
  std::map<std::string, SlurmNodeHealth> health_;
  std::map<std::string, int> bad_looks_;  // In a row.
  std::set<std::string> ordered_;  // Kinds with a submission that the queue has not shown yet.
  std::optional<Duration> queue_at_;
  Duration command_at_ = Duration(-1);
  std::optional<Duration> gateway_since_;  // It has answered without a break since then.
  bool gateway_was_away_ = false;
};

// Slurm's controller serves everyone: calls are limited to one in `interval` in the long run, with up to `burst` saved.
class SlurmCallBudget {
 public:
  SlurmCallBudget(Duration interval, int burst) : interval_(interval), burst_(burst), saved_(interval * burst) {}

  // True if a call may be made now, which it then counts. `keep`: how many must be left for more urgent ones.
  bool take(Duration now, int keep = 0);
  // Errors of Slurm's make every later call wait longer, up to two minutes; an answer ends that.
  void on_error(Duration now);
  void on_answer() { wait_ = Duration::zero(); }

 private:
  Duration interval_;
  int burst_;
  Duration saved_;  // Time that was not used for calls.
  Duration at_ = {};
  Duration wait_ = {};
  Duration not_before_ = {};
};

}  // namespace tangram::adapters
