// Decides which tasks to submit and which to cancel.
#include "adapters/slurm/slurm_keeper.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tangram::adapters {
namespace {

using std::chrono::seconds;

// One call cancels at most this many tasks, so that its arguments stay short.
constexpr std::size_t kCancelMax = 200;
// A gateway that has nobody joined cannot tell a lost node from a lost network. After this long a task is replaced all
// the same.
constexpr Duration kMissingMax = seconds(60);
constexpr Duration kCancelAgain = seconds(60);

std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

SlurmKeeper::SlurmKeeper(SlurmKeeperOptions options) : options_(std::move(options)) {}

void SlurmKeeper::on_queue(Duration now, std::vector<SlurmTask> tasks) {
  tasks_ = std::move(tasks);
  queue_at_ = now;
  ordered_.clear();
  std::set<std::string> present;
  const auto avoided = excluded(now);
  for (const auto& task : tasks_) {
    if (task.state == SlurmState::ending) continue;
    present.insert(task.id);
    Known& known = known_[task.id];
    known.kind = task.kind;
    if (!task.node.empty()) known.node = task.node;
    known.ran = std::max(known.ran, task.ran);
    if (task.state == SlurmState::running && known.ran >= options_.short_life) pauses_[task.kind].failures = 0;
    // Slurm ends what it was told to end; if not, it is told again.
    if (known.cancelled_at && now - *known.cancelled_at > kCancelAgain) known.cancelled_at.reset();
    // It was to keep away from a node that is good again: with the whole cluster to choose from it may start at once.
    if (task.state == SlurmState::pending && !task.excluded.empty() &&
        std::ranges::none_of(task.excluded, [&](const auto& name) { return avoided.contains(name); })) {
      give_up(task.id, "it need not avoid its nodes any more", false, now);
    }
  }
  // Tasks that end together have one reason: a node takes all of its own with it.
  std::set<std::string> failed;
  for (auto it = known_.begin(); it != known_.end();) {
    if (present.contains(it->first)) {
      ++it;
      continue;
    }
    if (ended_soon(it->second)) failed.insert(it->second.kind);
    it = known_.erase(it);
  }
  for (const auto& kind : failed) note_failure(now, kind);
  judge_nodes(now);
  judge_missing(now);
}

// What ends soon after its start, without our doing, will most probably do so again.
bool SlurmKeeper::ended_soon(const Known& known) const {
  return !known.cancelled_at && known.given_up.empty() && known.ran < options_.short_life;
}

void SlurmKeeper::note_failure(Duration now, const std::string& kind) {
  Pause& pause = pauses_[kind];
  ++pause.failures;
  // The first one is free: a lost node takes young tasks with it.
  if (pause.failures < 2) return;
  Duration wait = options_.pause_first;
  for (int i = 2; i < pause.failures && wait < options_.pause_max; ++i) wait *= 2;
  pause.until = now + std::min(wait, options_.pause_max);
}

void SlurmKeeper::on_nodes(Duration now, const std::map<std::string, SlurmNodeHealth>& nodes) {
  for (const auto& [name, health] : nodes) {
    health_[name] = health;
    bad_looks_[name] = health == SlurmNodeHealth::bad ? bad_looks_[name] + 1 : 0;
  }
  judge_nodes(now);
}

void SlurmKeeper::judge_nodes(Duration now) {
  constexpr int kLooks = 2;
  for (const auto& task : tasks_) {
    const auto looks = bad_looks_.find(task.node);
    if (task.state != SlurmState::running || looks == bad_looks_.end() || looks->second < kLooks) continue;
    const Known& known = known_[task.id];
    const bool here = gateway_since_ && known.joined && !known.missing_since;
    if (!here) give_up(task.id, fmt::format("Slurm cannot reach {}", task.node), true, now);
  }
}

void SlurmKeeper::on_gateway(Duration now, const std::set<std::string>& joined) {
  if (!gateway_since_) gateway_since_ = now;
  for (auto& [id, known] : known_) {
    if (joined.contains(id)) {
      known.joined = true;
      known.missing_since.reset();
    } else if (known.joined && !known.missing_since) {
      known.missing_since = now;
    }
  }
  judge_missing(now);
}

void SlurmKeeper::on_gateway_away(Duration) {
  gateway_since_.reset();
  gateway_was_away_ = true;
  for (auto& [id, known] : known_) known.missing_since.reset();
}

// Which of the missing tasks are lost, and whether their node is.
void SlurmKeeper::judge_missing(Duration now) {
  if (!gateway_since_) return;
  if (std::ranges::none_of(known_, [](const auto& entry) { return entry.second.missing_since.has_value(); })) return;
  // After a restart of the gateway everyone is away for a moment.
  const Duration patience = gateway_was_away_ && now - *gateway_since_ < options_.regain
                                ? options_.regain
                                : options_.lost_after;
  std::set<std::string> leaving;
  for (const auto& task : tasks_) {
    if (is_leaving(task)) leaving.insert(task.id);
  }
  // What is about to end is being replaced already, and its end is no loss.
  const auto expected = [&](const std::string& id, const Known& known) {
    return known.joined && !known.cancelled_at && !leaving.contains(id);
  };
  std::map<std::string, std::pair<int, int>> by_node;  // Joined tasks: missing, present.
  for (const auto& [id, known] : known_) {
    if (!expected(id, known)) continue;
    ++(known.missing_since ? by_node[known.node].first : by_node[known.node].second);
  }
  const auto someone_elsewhere = [&](const std::string& node) {
    return std::ranges::any_of(by_node, [&](const auto& entry) { return entry.first != node && entry.second.second > 0; });
  };
  for (auto& [id, known] : known_) {
    if (!known.missing_since || !known.given_up.empty() || now - *known.missing_since < patience) continue;
    if (!expected(id, known) || !queue_at_ || *queue_at_ <= *known.missing_since) continue;
    const auto& [missing, present] = by_node[known.node];
    const bool node_lost = present == 0 && someone_elsewhere(known.node);
    const auto health = health_.find(known.node);
    const bool bad = health != health_.end() && health->second == SlurmNodeHealth::bad;
    if (node_lost || bad) {
      give_up(id,
              fmt::format("the gateway lost all {} on {}", counted(static_cast<std::size_t>(missing), "task"), known.node),
              true, now);
    } else if (present > 0 || now - *known.missing_since >= kMissingMax) {
      give_up(id, "the gateway lost it", false, now);
    }
  }
}

bool SlurmKeeper::wants_queue() const {
  return std::ranges::any_of(known_, [&](const auto& entry) {
    const Known& known = entry.second;
    return known.missing_since && known.given_up.empty() && !known.cancelled_at && queue_at_ &&
           *queue_at_ <= *known.missing_since;
  });
}

void SlurmKeeper::give_up(const std::string& id, const std::string& why, bool node_too, Duration now) {
  Known& known = known_[id];
  if (node_too && !known.node.empty()) suspects_[known.node] = now + options_.exclude_for;
  if (known.given_up.empty()) known.given_up = why;
}

std::set<std::string> SlurmKeeper::excluded(Duration now) const {
  std::set<std::string> names;
  for (const auto& [name, until] : suspects_) {
    if (now < until) names.insert(name);
  }
  return names;
}

std::set<std::string> SlurmKeeper::nodes_of_interest() const {
  std::set<std::string> names;
  for (const auto& task : tasks_) {
    if (task.state == SlurmState::running && !task.node.empty()) names.insert(task.node);
  }
  return names;
}

bool SlurmKeeper::is_leaving(const SlurmTask& task) const {
  if (task.state == SlurmState::ending) return true;
  if (task.state != SlurmState::running) return false;
  const auto health = health_.find(task.node);
  if (health != health_.end() && health->second == SlurmNodeHealth::leaving) return true;
  if (!task.time_left) return false;
  // With a short limit the lead is a quarter of it: a successor must not be about to end when it starts.
  return *task.time_left < std::min(options_.lead, (*task.time_left + task.ran) / 4);
}

bool SlurmKeeper::counts(const SlurmTask& task) const {
  const auto known = known_.find(task.id);
  const bool dropped = known != known_.end() && (known->second.cancelled_at || !known->second.given_up.empty());
  return !dropped && !is_leaving(task);
}

bool SlurmKeeper::settled() const {
  if (queue_is_stale()) return false;
  return std::ranges::all_of(options_.kinds, [&](const SlurmKind& kind) {
    const auto running = std::ranges::count_if(tasks_, [&](const SlurmTask& task) {
      return task.kind == kind.name && task.state == SlurmState::running && counts(task);
    });
    return running == kind.wanted;
  });
}

std::optional<SlurmCommand> SlurmKeeper::decide(Duration now) {
  if (!queue_at_) return std::nullopt;
  if (auto command = submit_missing(now)) return command;
  return cancel_needless(now);
}

std::optional<SlurmCommand> SlurmKeeper::submit_missing(Duration now) {
  for (const auto& kind : options_.kinds) {
    if (ordered_.contains(kind.name) || now < pauses_[kind.name].until) continue;
    // A cancelled or submitted task of this kind must be seen before the next count.
    const auto here = std::ranges::count_if(
        tasks_, [&](const SlurmTask& task) { return task.kind == kind.name && counts(task); });
    const int missing = std::min(kind.wanted - static_cast<int>(here), kSlurmTasksPerJobMax);
    if (missing <= 0) continue;
    std::string why = "the plan needs them";
    for (const auto& task : tasks_) {
      const auto known = known_.find(task.id);
      if (task.kind != kind.name || known == known_.end()) continue;
      if (!known->second.given_up.empty()) why = known->second.given_up;
      if (task.state == SlurmState::running && is_leaving(task)) why = fmt::format("{} is about to end", task.id);
    }
    return SlurmCommand{SlurmCommand::What::submit, kind.name, missing, excluded(now), {}, why};
  }
  return std::nullopt;
}

// First what was given up, then what no kind wants. A task that is about to end goes as soon as its successor runs.
std::optional<SlurmCommand> SlurmKeeper::cancel_needless(Duration) {
  SlurmCommand command{SlurmCommand::What::cancel, "", 0, {}, {}, ""};
  const auto add = [&](const std::string& id, const std::string& why) {
    if (command.tasks.size() >= kCancelMax || known_[id].cancelled_at) return;
    command.tasks.push_back(id);
    if (command.why.empty()) command.why = why;
  };
  for (const auto& task : tasks_) {
    const auto known = known_.find(task.id);
    if (task.state != SlurmState::ending && known != known_.end() && !known->second.given_up.empty()) {
      add(task.id, known->second.given_up);
    }
  }
  std::map<std::string, int> wanted;
  for (const auto& kind : options_.kinds) wanted[kind.name] = kind.wanted;
  std::map<std::string, std::vector<const SlurmTask*>> staying;
  std::map<std::string, int> running;
  for (const auto& task : tasks_) {
    if (!counts(task)) continue;
    staying[task.kind].push_back(&task);
    if (task.state == SlurmState::running) ++running[task.kind];
  }
  for (auto& [kind, list] : staying) {
    // Pending ones go first, then those that have least time left.
    std::ranges::stable_sort(list, [](const SlurmTask* a, const SlurmTask* b) {
      const auto rank = [](const SlurmTask* t) {
        return t->state == SlurmState::pending ? Duration(-1) : t->time_left.value_or(Duration::max());
      };
      return rank(a) < rank(b);
    });
    const int surplus = static_cast<int>(list.size()) - wanted[kind];
    for (int i = 0; i < surplus; ++i) add(list[static_cast<std::size_t>(i)]->id, "the plan does not need it");
  }
  for (const auto& task : tasks_) {
    if (task.state == SlurmState::running && is_leaving(task) && known_[task.id].given_up.empty() &&
        running[task.kind] >= wanted[task.kind]) {
      add(task.id, wanted[task.kind] == 0 ? "the plan does not need it" : "its successor runs");
    }
  }
  if (command.tasks.empty()) return std::nullopt;
  return command;
}

void SlurmKeeper::on_submitted(Duration now, const SlurmCommand& command, const std::string& job) {
  command_at_ = now;
  ordered_.insert(command.kind);
  // Remembered by their ids: a task that is gone before the queue is read again has failed.
  for (int i = 0; i < command.count; ++i) known_[fmt::format("{}_{}", job, i)].kind = command.kind;
}

void SlurmKeeper::on_submit_failed(Duration now, const SlurmCommand& command) {
  pauses_[command.kind].failures = std::max(pauses_[command.kind].failures, 1);
  note_failure(now, command.kind);
}

void SlurmKeeper::on_cancelled(Duration now, const SlurmCommand& command) {
  command_at_ = now;
  for (const auto& id : command.tasks) known_[id].cancelled_at = now;
}

void SlurmKeeper::on_unknown(Duration now) {
  command_at_ = now;
  for (const auto& kind : options_.kinds) ordered_.insert(kind.name);
}

bool SlurmCallBudget::take(Duration now, int keep) {
  saved_ = std::min(interval_ * burst_, saved_ + (now - at_));
  at_ = now;
  if (now < not_before_ || saved_ < interval_ * (1 + keep)) return false;
  saved_ -= interval_;
  return true;
}

void SlurmCallBudget::on_error(Duration now) {
  wait_ = std::min<Duration>(std::max<Duration>(interval_, wait_ * 2), std::chrono::minutes(2));
  not_before_ = now + wait_;
}

}  // namespace tangram::adapters
