// Drives one job through a list of numbers of trainers.
//
// A change is complete when the group has the wanted members and all of them have made a step in it; the next change
// comes `every` steps later. Trainers that will be needed are started ahead, so that a join is measured from a process
// that is ready: how long a script takes to get there is its own affair.

#include "serve/training_rehearsal.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/rng.h"

namespace tangram::serve {
namespace {

using train::Generation;
using train::TrainerId;

class RehearsalDirector final : public TrainingObserver {
 public:
  RehearsalDirector(const RehearsalOptions& options, std::vector<int> workers)
      : options_(options), workers_(std::move(workers)), rng_(options.seed) {}

  Result<RehearsalRun> run() {
    auto host_options = options_.host;
    host_options.job.members_max = static_cast<std::size_t>(workers_.front());
    host_options.job.ready_min = processes_wanted();  // The first changes must not wait for processes.
    host_options.check_state = true;
    TANGRAM_TRY(host_, TrainingHost::start(host_options, *this));
    const TimePoint begin = host_->now();
    while (host_->job().state() != train::ElasticJobState::done) {
      top_up();
      direct();
      host_->work(add_saturating(host_->now(), std::chrono::milliseconds(20)));
      if (host_->problem()) return *host_->problem();
      if (host_->now() - begin > options_.limit) {
        return Error{ErrorCode::exhausted, fmt::format("the script has not ended after {:.0f} s, at step {}",
                                                       to_seconds(options_.limit), host_->job().step())};
      }
    }
    if (host_->job().ending_lost()) {
      return Error{ErrorCode::unavailable,
                   "rank 0 died after the last step; what the script does after it may not have been done"};
    }
    run_.seconds = to_seconds(host_->now() - begin);
    run_.steps = host_->job().step();
    run_.steps_lost = host_->job().steps_lost();
    run_.steps_repeated = host_->job().steps_repeated();
    run_.generations = host_->job().current().generation;
    // The others end a moment after rank 0; their states count, too.
    const TimePoint patience = add_saturating(host_->now(), std::chrono::seconds(2));
    const std::size_t members = host_->job().current().members.size();
    while (done_.size() < members && host_->now() < patience) host_->work(patience);
    for (const auto& [trainer, digest] : done_) compare(digest, run_.digest);
    return run_;
  }

  void on_entered(TimePoint now, TrainerId trainer, Generation) override {
    Life& life = lives_[trainer];
    life.steps_here = 0;
    life.entered = now;
  }
  void on_step(TimePoint now, TrainerId trainer, Generation generation, std::int64_t step, double) override {
    Life& life = lives_[trainer];
    ++life.steps_here;
    ++life.steps;
    if (life.asked_to_join && life.steps == 2) {
      run_.join_ms.push_back(to_milliseconds(now - *life.asked_to_join));
      life.asked_to_join.reset();
    }
    for (const TimePoint kill : kills_under_way_) run_.recover_ms.push_back(to_milliseconds(now - kill));
    if (generation > killed_in_) kills_under_way_.clear();
    measure_gap(now, trainer, generation);
    (void)step;
  }
  void on_state(TrainerId, Generation generation, std::int64_t step, const std::string& checksum) override {
    const auto [found, first] = states_.try_emplace({generation, step}, checksum);
    if (first) return;
    compare(checksum, found->second);
  }
  void on_gone(TimePoint now, TrainerId trainer) override {
    const Life& life = lives_[trainer];
    if (life.asked_to_leave) run_.leave_ms.push_back(to_milliseconds(now - *life.asked_to_leave));
    lives_.erase(trainer);
  }
  void on_done(TrainerId trainer, std::int64_t, const std::string& checksum) override {
    if (run_.digest.empty()) run_.digest = checksum;
    done_[trainer] = checksum;
  }

 private:
  struct Life {
    int steps_here = 0;  // In its generation.
    int steps = 0;
    TimePoint entered;
    std::optional<TimePoint> asked_to_join;
    std::optional<TimePoint> asked_to_leave;
    std::optional<TimePoint> last_step;
    Generation last_generation = 0;
  };

  void compare(const std::string& one, const std::string& other) {
    ++run_.states_compared;
    if (one != other) ++run_.states_different;
  }

  // The time from the end of one step to the end of the next, of a trainer that stays.
  void measure_gap(TimePoint now, TrainerId trainer, Generation generation) {
    Life& life = lives_[trainer];
    if (life.last_step) {
      const double gap = to_milliseconds(now - *life.last_step);
      if (life.last_generation == generation) {
        if (run_.step_ms.size() < 100'000) run_.step_ms.push_back(gap);
      } else if (!host_->job().current().recovers) {
        const bool grew = !host_->job().current().fresh.empty();
        (grew ? run_.join_gap_ms : run_.leave_gap_ms).push_back(gap);
      }
    }
    life.last_step = now;
    life.last_generation = generation;
  }

  // As many processes as will be members at most, and one in reserve for each fault.
  std::size_t processes_wanted() const {
    const auto most = static_cast<std::size_t>(*std::ranges::max_element(workers_));
    const bool changes = workers_.size() > 1;
    return changes || options_.kills + options_.stops > 0 ? most + 1 : most;
  }

  void top_up() {
    const std::size_t most = processes_wanted();
    while (host_->processes() < most && host_->job().state() != train::ElasticJobState::done) host_->spawn();
  }

  bool settled() {
    const auto members = host_->job().training();
    return std::ssize(members) == workers_[at_] &&
           std::ranges::all_of(members, [&](TrainerId id) { return lives_[id].steps_here >= 1; });
  }

  void direct() {
    if (!settled()) return;
    const std::int64_t step = host_->job().step();
    if (!settled_at_) settled_at_ = step;
    const std::int64_t since = step - *settled_at_;
    if (!harmed_ && since * 2 >= options_.every && harm()) return;
    if (since >= options_.every && (at_ + 1 < workers_.size() || options_.repeats)) change();
  }

  // Kills or stops a member, of which there must be another. A spare takes its place.
  bool harm() {
    harmed_ = true;
    const auto members = host_->job().training();
    const int left = options_.kills - run_.kills + options_.stops - run_.stops;
    if (left <= 0 || members.size() < 2 || host_->job().spares() == 0) return false;
    const TrainerId victim = members[rng_.below(members.size())];
    const bool kill =
        static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(left))) < options_.kills - run_.kills;
    if (kill) {
      ++run_.kills;
      kills_under_way_.assign(1, host_->now());
      killed_in_ = host_->job().current().generation;
      host_->kill_trainer(victim);
    } else {
      ++run_.stops;
      host_->stop_trainer(victim);
    }
    lives_[victim].steps_here = 0;
    settled_at_.reset();
    return true;
  }

  void change() {
    const std::size_t next = (at_ + 1) % workers_.size();
    const auto members = host_->job().training();
    const int more = workers_[next] - workers_[at_];
    if (more > 0 && static_cast<int>(host_->job().spares()) < more) return;  // Soon.
    at_ = next;
    settled_at_.reset();
    harmed_ = false;
    if (more == 0) return;
    ++run_.changes;
    const TimePoint now = host_->now();
    if (more > 0) {
      std::set<TrainerId> spares;
      for (const TrainerId id : host_->job().trainers()) {
        if (std::ranges::find(members, id) == members.end()) lives_[id].asked_to_join = now;
      }
    }
    host_->job().set_members_max(now, static_cast<std::size_t>(workers_[at_]));
    auto leaving = members;
    rng_.shuffle(leaving);
    for (int i = 0; i < -more; ++i) {
      lives_[leaving[static_cast<std::size_t>(i)]].asked_to_leave = now;
      host_->recall(leaving[static_cast<std::size_t>(i)], options_.recall_max);
    }
    if (more > 0) forget_unwanted();
  }

  // Those that stay spares were not asked.
  void forget_unwanted() {
    const auto members = host_->job().training();
    int wanted = workers_[at_] - static_cast<int>(members.size());
    for (const TrainerId id : host_->job().trainers()) {
      if (std::ranges::find(members, id) != members.end()) continue;
      if (wanted-- <= 0) lives_[id].asked_to_join.reset();
    }
  }

  const RehearsalOptions& options_;
  std::vector<int> workers_;
  Rng rng_;
  std::unique_ptr<TrainingHost> host_;
  RehearsalRun run_;
  std::map<TrainerId, Life> lives_;
  std::map<std::pair<Generation, std::int64_t>, std::string> states_;
  std::map<TrainerId, std::string> done_;
  std::size_t at_ = 0;
  std::optional<std::int64_t> settled_at_;
  bool harmed_ = false;
  std::vector<TimePoint> kills_under_way_;
  Generation killed_in_ = 0;
};

}  // namespace

bool Rehearsal::equal() const {
  return elastic.digest == reference.digest && !elastic.digest.empty() && elastic.states_different == 0 &&
         elastic.steps == reference.steps;
}

std::int64_t Rehearsal::steps_lost() const {
  return elastic.steps_lost + std::max<std::int64_t>(0, reference.steps - elastic.steps);
}

Result<Rehearsal> rehearse(const RehearsalOptions& options, const std::function<void(const std::string&)>& progress) {
  Rehearsal rehearsal;
  if (options.reference) {
    progress("reference: one trainer");
    TANGRAM_TRY(rehearsal.reference, RehearsalDirector(options, {1}).run());
  }
  progress(fmt::format("elastic: {} trainers", fmt::join(options.workers, ", ")));
  TANGRAM_TRY(rehearsal.elastic, RehearsalDirector(options, options.workers).run());
  if (!options.reference) {
    rehearsal.reference.digest = rehearsal.elastic.digest;
    rehearsal.reference.steps = rehearsal.elastic.steps;
  }
  return rehearsal;
}

}  // namespace tangram::serve
