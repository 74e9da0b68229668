// The state machine of one elastic training job.
//
// Why a replaced generation is remembered: the trainers switch by a vote in their own collective, so a generation that
// the coordinator has replaced may still have been entered while its replacement was on the way. A trainer votes for
// the newest generation that it knows, and all votes must be equal, so of two generations under way only one is
// entered.

#include "train/elastic_job.h"

#include <algorithm>

#include "base/check.h"

namespace tangram::train {
namespace {

// After so many failed attempts to build a group, the trainers that want to join it are blamed.
constexpr int kBuildsFailedMax = 3;
constexpr std::size_t kKeyLengthMax = 256;
constexpr std::size_t kValueLengthMax = 65'536;

bool contains(std::span<const TrainerId> list, TrainerId trainer) {
  return std::ranges::find(list, trainer) != list.end();
}

}  // namespace

const char* to_string(ElasticJobState state) {
  switch (state) {
    case ElasticJobState::starting: return "starting";
    case ElasticJobState::training: return "training";
    case ElasticJobState::parked: return "parked";
    case ElasticJobState::done: return "done";
    case ElasticJobState::failed: return "failed";
  }
  return "";
}

namespace {

// Whether the group was named with the right idea of what the trainer holds.
bool knows_state(const TrainingGroup& group, TrainerId trainer, std::optional<std::int64_t> step) {
  if (group.restarts) return !step;
  return group.is_fresh(trainer) || step == group.step;
}

}  // namespace

bool TrainingGroup::has(TrainerId trainer) const { return contains(members, trainer); }
bool TrainingGroup::is_fresh(TrainerId trainer) const { return contains(fresh, trainer); }

ElasticJob::ElasticJob(const ElasticJobConfig& config, TrainerLinks& links) : config_(config), links_(links) {}

const ElasticJob::Trainer* ElasticJob::find(TrainerId trainer) const {
  const auto found = std::ranges::find(trainers_, trainer, &Trainer::id);
  return found == trainers_.end() ? nullptr : &*found;
}

ElasticJob::Trainer* ElasticJob::find(TrainerId trainer) {
  const auto found = std::ranges::find(trainers_, trainer, &Trainer::id);
  return found == trainers_.end() ? nullptr : &*found;
}

bool ElasticJob::any(Phase phase) const { return std::ranges::count(trainers_, phase, &Trainer::phase) > 0; }

ElasticJob::Trainer* ElasticJob::hear(TimePoint now, TrainerId trainer) {
  Trainer* const found = find(trainer);
  if (found != nullptr) found->heard = now;
  return found;
}

std::vector<TrainerId> ElasticJob::trainers() const {
  std::vector<TrainerId> all;
  for (const auto& trainer : trainers_) all.push_back(trainer.id);
  return all;
}

std::vector<TrainerId> ElasticJob::training() const {
  std::vector<TrainerId> all;
  for (const TrainerId id : current_.members) {
    const Trainer* const trainer = find(id);
    if (trainer != nullptr && trainer->phase == Phase::training && trainer->generation == current_.generation) {
      all.push_back(id);
    }
  }
  return all;
}

std::size_t ElasticJob::spares() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      trainers_, [](const Trainer& t) { return t.phase == Phase::ready && !t.deadline && !t.fenced; }));
}

void ElasticJob::on_hello(TimePoint now, TrainerId id, std::int64_t step) {
  TANGRAM_CHECK(find(id) == nullptr, "the name of a trainer is never used twice");
  Trainer trainer;
  trainer.id = id;
  trainer.begins_with = step;
  trainer.heard = now;
  // The job begins with the state of the first trainer, which is not to depend on who was quickest.
  const bool starting = state_ == ElasticJobState::starting;
  trainers_.insert(starting ? std::ranges::lower_bound(trainers_, id, {}, &Trainer::id) : trainers_.end(), trainer);
  progress_at_ = now;
  if (over() || any(Phase::finished)) return links_.stop(id);
  if (state_ == ElasticJobState::training) {
    broken_ ? regroup(now) : adapt(now);
  } else {
    regroup(now);
  }
}

void ElasticJob::on_built(TimePoint now, TrainerId id, Generation generation) {
  if (hear(now, id) == nullptr) return;
  if (next_ && next_->generation == generation && !contains(built_, id)) built_.push_back(id);
  if (next_ && built_.size() == next_->members.size()) builds_failed_ = 0;
}

// That a group could not be built is news only if it is wanted: those that were replaced fail when their members turn
// to the replacement.
void ElasticJob::on_build_failed(TimePoint now, TrainerId id, Generation generation) {
  if (hear(now, id) == nullptr || over()) return;
  if (next_ && next_->generation == generation && !broken_) {
    ++builds_failed_;
    if (builds_failed_ >= kBuildsFailedMax) fence_late_builders(now);
    if (next_->recovers) {
      break_group(now);
    } else {
      name_again(now);
    }
  } else if (current_.generation == generation && current_.has(id)) {
    break_group(now);
  }
}

void ElasticJob::on_entered(TimePoint now, TrainerId id, Generation generation, std::int64_t step) {
  Trainer* const trainer = hear(now, id);
  if (trainer == nullptr) return;
  progress_at_ = now;
  trainer->phase = Phase::training;
  trainer->generation = generation;
  trainer->waits = false;
  entered(now, generation);
  if (current_.generation == generation) {
    if (current_.is_fresh(id)) {
      trainer->step.reset();
    } else {
      if (current_.restarts) {
        steps_lost_ += std::max<std::int64_t>(0, steps_at_risk_ - step);
        steps_at_risk_ = 0;
      }
      trainer->step = step;
      step_ = std::max(step_, step);
    }
  }
  if (over()) return;
  adapt(now);
}

void ElasticJob::entered(TimePoint now, Generation generation) {
  if (generation <= current_.generation) return;
  // News of a group that has broken since and is being recovered: who says so has failed in it, or will.
  if (next_ && next_->recovers && generation < next_->generation) return;
  if (next_ && next_->generation == generation) {
    current_ = *std::move(next_);
    next_.reset();
    built_.clear();
  } else if (const auto found = replaced_.find(generation); found != replaced_.end()) {
    current_ = found->second;
  } else {
    return;
  }
  state_ = ElasticJobState::training;
  std::erase_if(replaced_, [&](const auto& entry) { return entry.first <= current_.generation; });
  forget_keys();
  // A member may have died, or failed in the group before, while the others switched.
  const bool whole = std::ranges::all_of(current_.members, [&](TrainerId id) {
    const Trainer* const member = find(id);
    return member != nullptr && (member->phase != Phase::out || current_.recovers);
  });
  if (!whole) break_group(now);
  if (broken_ || current_.recovers) return;
  for (const TrainerId id : current_.fresh) {
    if (find(id) != nullptr) links_.enter(id, current_.generation);
  }
  // They were to join in a generation that was never entered, and shall leave now.
  for (const auto& trainer : trainers_) {
    if (trainer.phase == Phase::ready && trainer.deadline && !current_.has(trainer.id)) links_.stop(trainer.id);
  }
}

void ElasticJob::on_step(TimePoint now, TrainerId id, Generation generation, std::int64_t step) {
  Trainer* const trainer = hear(now, id);
  if (trainer == nullptr || trainer->generation != generation || trainer->phase != Phase::training) return;
  const bool first = !trainer->step.has_value();
  trainer->step = step;
  trainer->waits = false;
  step_ = std::max(step_, step);
  progress_at_ = now;
  // A trainer that just received the state may relieve one that had to stay for it.
  if (first && !over()) adapt(now);
}

void ElasticJob::on_failed(TimePoint now, TrainerId id, Generation generation, std::optional<std::int64_t> step) {
  Trainer* const trainer = hear(now, id);
  if (trainer == nullptr) return;
  progress_at_ = now;
  trainer->phase = Phase::out;
  trainer->step = step;
  if (over()) return links_.stop(id);
  // It failed late in a group that has been recovered: it enters the recovered one by itself.
  const auto recovered = [&](const TrainingGroup& group) {
    return group.recovers && generation < group.generation && group.has(id) && knows_state(group, id, step);
  };
  const bool recovering = !broken_ && next_ && next_->recovers;
  if (!broken_ && recovered(recovering ? *next_ : current_)) return;
  if (recovering && !next_->has(id)) {
    // The others go on without it, and may have entered the group already.
    if (trainer->deadline) links_.stop(id);
    return;
  }
  // Without members, the state was to be saved: unless that is done, it is to be saved by somebody else.
  const bool unsaved = state_ == ElasticJobState::training && current_.members.empty();
  if (broken_ || current_.has(id) || unsaved) {
    break_group(now);
  } else if (trainer->deadline || state_ == ElasticJobState::parked) {
    links_.stop(id);  // The others have switched to a group without it.
  } else {
    adapt(now);
  }
}

void ElasticJob::on_alive(TimePoint now, TrainerId id, bool waits) {
  if (Trainer* const trainer = hear(now, id); trainer != nullptr) trainer->waits = waits;
}

void ElasticJob::on_left(TimePoint now, TrainerId id, Generation generation) {
  Trainer* const trainer = hear(now, id);
  if (trainer == nullptr) return;
  progress_at_ = now;
  trainer->phase = Phase::leaving;
  trainer->step.reset();
  entered(now, generation);
  if (broken_ || state_ == ElasticJobState::parked) regroup(now);
}

void ElasticJob::on_saved(TimePoint now, TrainerId id, std::int64_t step) {
  if (hear(now, id) == nullptr || over()) return;
  step_ = std::max(step_, step);
  state_ = ElasticJobState::parked;
  next_.reset();
  replaced_.clear();
  broken_ = false;
  current_.members.clear();
  current_.fresh.clear();
  current_.source.reset();
}

// Rank 0 writes what the script writes, so the job is done when rank 0 is. Others that are done wait for it.
void ElasticJob::on_done(TimePoint now, TrainerId id, std::int64_t step) {
  Trainer* const trainer = hear(now, id);
  if (trainer == nullptr) return;
  progress_at_ = now;
  trainer->phase = Phase::finished;
  trainer->step = step;
  step_ = std::max(step_, step);
  if (over()) return links_.stop(id);
  const bool leads = !current_.members.empty() && current_.members.front() == id;
  if (leads) return end(ElasticJobState::done);
  if (broken_) regroup(now);
}

void ElasticJob::on_gone(TimePoint now, TrainerId id) {
  const Trainer* const trainer = find(id);
  if (trainer == nullptr) return;
  const Phase phase = trainer->phase;
  std::erase_if(trainers_, [&](const Trainer& t) { return t.id == id; });
  progress_at_ = now;
  if (over()) return;
  if (state_ != ElasticJobState::training) {
    // A generation that is to begin, or to save the state, needs all whom it names.
    const bool named = next_ && (next_->has(id) || next_->source == id);
    return named ? break_group(now) : regroup(now);
  }
  if (next_ && next_->recovers && !broken_) {
    // The current group is history; the next needs all whom it names.
    if (next_->has(id) || next_->source == id) break_group(now);
    return;
  }
  const bool unsaved = current_.members.empty();
  if (phase == Phase::leaving && !unsaved) return;
  if (current_.has(id) || unsaved) {
    break_group(now);
  } else if (!broken_) {
    adapt(now);
  } else {
    regroup(now);
  }
}

void ElasticJob::on_set(TrainerId id, Generation generation, std::string_view key, std::string_view value) {
  if (find(id) == nullptr || generation < current_.generation || generation > generations_) return;
  auto& keys = keys_[generation];
  if (keys.size() >= config_.keys_max || key.size() > kKeyLengthMax || value.size() > kValueLengthMax) return;
  Key& entry = keys[std::string(key)];
  entry.value = std::string(value);
  for (const TrainerId waiting : entry.waiting) {
    if (find(waiting) != nullptr) links_.answer(waiting, generation, key, *entry.value);
  }
  entry.waiting.clear();
}

void ElasticJob::on_get(TrainerId id, Generation generation, std::string_view key) {
  if (find(id) == nullptr || generation < current_.generation || generation > generations_) return;
  auto& keys = keys_[generation];
  if (keys.size() >= config_.keys_max || key.size() > kKeyLengthMax) return;
  Key& entry = keys[std::string(key)];
  if (entry.value) {
    links_.answer(id, generation, key, *entry.value);
  } else if (!contains(entry.waiting, id)) {
    entry.waiting.push_back(id);
  }
}

void ElasticJob::forget_keys() {
  std::erase_if(keys_, [&](const auto& entry) { return entry.first < current_.generation; });
}

void ElasticJob::recall(TimePoint now, TrainerId id, TimePoint deadline) {
  Trainer* const trainer = find(id);
  if (trainer == nullptr) return;
  const bool again = trainer->deadline.has_value();
  trainer->deadline = again ? std::min(*trainer->deadline, deadline) : deadline;
  if (again || over()) return;
  // A trainer that waits for nothing that is under way can go at once.
  const bool named = (next_ && next_->has(id)) || current_.has(id) ||
                     std::ranges::any_of(replaced_, [&](const auto& entry) { return entry.second.has(id); });
  if (trainer->phase == Phase::ready && !named) return links_.stop(id);
  broken_ ? regroup(now) : adapt(now);
}

void ElasticJob::set_members_max(TimePoint now, std::size_t members_max) {
  config_.members_max = members_max;
  if (!over() && !broken_) adapt(now);
}

std::vector<TrainerId> ElasticJob::in_order(std::vector<TrainerId> members) const {
  std::vector<TrainerId> ordered;
  for (const TrainerId id : current_.members) {
    if (contains(members, id)) ordered.push_back(id);
  }
  for (const auto& trainer : trainers_) {
    if (contains(members, trainer.id) && !contains(ordered, trainer.id)) ordered.push_back(trainer.id);
  }
  return ordered;
}

TrainingGroup ElasticJob::wanted_group() const {
  TrainingGroup group;
  std::vector<TrainerId> leaving;  // Members that were recalled: they have the state.
  for (const TrainerId id : current_.members) {
    const Trainer* const trainer = find(id);
    if (trainer == nullptr || trainer->phase == Phase::leaving) continue;
    (trainer->deadline ? leaving : group.members).push_back(id);
  }
  // A member that has not made a step here will have made one at the switch, so each can be the source.
  const std::size_t holders = group.members.size();
  for (const auto& trainer : trainers_) {
    if (group.members.size() >= config_.members_max) break;
    const bool waits = trainer.phase == Phase::ready || trainer.phase == Phase::out;
    if (!waits || trainer.deadline || trainer.fenced || current_.has(trainer.id)) continue;
    group.members.push_back(trainer.id);
    group.fresh.push_back(trainer.id);
  }
  if (holders > 0) {
    group.source = group.members.front();
  } else if (!leaving.empty()) {
    // Nobody who stays has the state: the last of those who leave hands it over first, or saves it.
    group.source = leaving.front();
    if (!group.members.empty()) group.members.insert(group.members.begin(), leaving.front());
  }
  return group;
}

void ElasticJob::adapt(TimePoint now) {
  if (broken_ || state_ != ElasticJobState::training || any(Phase::finished)) return;
  if (next_ && next_->recovers) return;  // First somebody has to enter it.
  TrainingGroup group = wanted_group();
  if (!group.source || group.members == (next_ ? next_->members : current_.members)) return;
  name(now, std::move(group));
}

void ElasticJob::name_again(TimePoint now) {
  TrainingGroup group = wanted_group();
  if (group.source) return name(now, std::move(group));
  replaced_[next_->generation] = *next_;
  next_.reset();
}

void ElasticJob::name(TimePoint now, TrainingGroup group) {
  group.generation = ++generations_;
  // All who may have heard of a generation that this one replaces, or who must agree to it.
  std::vector<TrainerId> told = group.members;
  const auto tell = [&](const std::vector<TrainerId>& members) {
    for (const TrainerId id : members) {
      if (!contains(told, id)) told.push_back(id);
    }
  };
  if (group.source) tell({*group.source});
  if (!group.recovers) {
    tell(current_.members);
    if (next_) replaced_[next_->generation] = *next_;
    for (const auto& [generation, replaced] : replaced_) tell(replaced.members);
  }
  next_ = group;
  built_.clear();
  named_at_ = now;
  for (const TrainerId id : told) {
    const Trainer* const trainer = find(id);
    if (trainer != nullptr && trainer->phase != Phase::leaving && trainer->phase != Phase::finished) {
      links_.prepare(id, group);
    }
  }
}

void ElasticJob::break_group(TimePoint now) {
  if (over()) return;
  if (!broken_) broken_at_ = now;
  broken_ = true;
  // It may have been entered all the same, by those for whom the last collective succeeded.
  if (next_) {
    replaced_[next_->generation] = *next_;
    next_.reset();
  }
  regroup(now);
}

TrainingGroup ElasticJob::surviving_group() const {
  TrainingGroup group;
  group.recovers = true;
  std::size_t waiting = 0;
  const Trainer* holder = nullptr;  // Of the most steps; one that stays is preferred, however far the others are.
  for (const auto& trainer : trainers_) {
    if (trainer.phase != Phase::out && trainer.phase != Phase::ready) continue;
    if (trainer.fenced) continue;
    if (!trainer.deadline) ++waiting;
    if (!trainer.deadline && group.members.size() < config_.members_max) group.members.push_back(trainer.id);
    if (trainer.phase != Phase::out || !trainer.step) continue;
    const bool stays = !trainer.deadline;
    const bool better = holder == nullptr || (stays && holder->deadline) ||
                        (stays == !holder->deadline && *trainer.step > *holder->step);
    if (better) holder = &trainer;
  }
  if (holder != nullptr) {
    if (!group.members.empty() && !group.has(holder->id)) group.members.insert(group.members.begin(), holder->id);
    group.source = holder->id;
    group.step = *holder->step;
  } else if (waiting >= config_.ready_min && !group.members.empty()) {
    group.restarts = true;
    const auto* const first =
        find(*std::ranges::max_element(group.members, {}, [&](TrainerId id) { return find(id)->begins_with; }));
    group.source = first->id;
  } else {
    group.members.clear();
  }
  group.members = in_order(group.members);
  for (const TrainerId id : group.members) {
    const Trainer* const trainer = find(id);
    const bool has_state = holder != nullptr && trainer->phase == Phase::out && trainer->step == holder->step;
    if (id != *group.source && !has_state) group.fresh.push_back(id);
  }
  return group;
}

void ElasticJob::regroup(TimePoint now) {
  if (over() || any(Phase::training)) return;
  if (next_ && next_->recovers && !broken_) {
    // Named already. Those who are ready since then join when it is entered.
    return;
  }
  TrainingGroup group = surviving_group();
  if (!group.source) {
    if (any(Phase::finished)) {
      ending_lost_ = true;
      return end(ElasticJobState::done);
    }
    // Everybody who had the state is gone, and too few wait to begin again.
    broken_ = false;
    current_.members.clear();
    current_.fresh.clear();
    current_.source.reset();
    if (state_ != ElasticJobState::parked) state_ = ElasticJobState::starting;
    return;
  }
  broken_ = false;
  progress_at_ = now;
  if (group.restarts) {
    // How many of them a checkpoint holds, the source says when it has entered.
    steps_at_risk_ = std::max(steps_at_risk_, step_);
    step_ = 0;
  } else if (group.step < step_) {
    steps_repeated_ += step_ - group.step;
    step_ = group.step;
  }
  for (const auto& trainer : trainers_) {
    const bool waits = trainer.phase == Phase::out || trainer.phase == Phase::ready;
    if (waits && trainer.deadline && !group.has(trainer.id) && trainer.id != *group.source) links_.stop(trainer.id);
  }
  name(now, std::move(group));
}

void ElasticJob::fence(Trainer& trainer) {
  if (trainer.fenced) return;
  trainer.fenced = true;
  links_.fence(trainer.id);
}

void ElasticJob::fence_late_builders(TimePoint now) {
  for (auto& trainer : trainers_) {
    const bool late = next_->has(trainer.id) && !contains(built_, trainer.id);
    if (late && (trainer.phase == Phase::ready || next_->recovers)) fence(trainer);
  }
  named_at_ = now;
}

// Nothing has happened for stuck_max: those who are furthest behind are killed, so that the others can go on.
void ElasticJob::fence_stuck(TimePoint now) {
  progress_at_ = now;
  std::vector<Trainer*> members;
  for (auto& trainer : trainers_) {
    const bool concerned = trainer.phase == Phase::training || trainer.phase == Phase::finished ||
                           current_.has(trainer.id) || (next_ && next_->has(trainer.id));
    if (concerned && !trainer.fenced) members.push_back(&trainer);
  }
  const auto fence_if = [&](auto lags) {
    bool found = false;
    for (Trainer* const trainer : members) {
      if (!lags(*trainer)) continue;
      fence(*trainer);
      found = true;
    }
    return found;
  };
  if (broken_ && fence_if([](const Trainer& t) { return t.phase == Phase::training; })) return;
  if (fence_if([&](const Trainer& t) { return current_.has(t.id) && t.generation != current_.generation; })) return;
  if (fence_if([](const Trainer& t) { return t.phase == Phase::training && !t.waits; })) return;
  if (!members.empty()) fence(*members.back());
}

void ElasticJob::on_wake(TimePoint now) {
  for (auto& trainer : trainers_) {
    const bool silent = now - trainer.heard >= config_.silent_max;
    const bool late = trainer.deadline && now >= *trainer.deadline;
    const bool hangs =
        broken_ && trainer.phase == Phase::training && trainer.waits && now - broken_at_ >= config_.fail_max;
    if (silent || late || hangs) fence(trainer);
  }
  if (over()) return;
  if (next_ && built_.size() < next_->members.size() && now - named_at_ >= config_.build_max) {
    ++builds_failed_;
    if (builds_failed_ >= kBuildsFailedMax || next_->recovers) fence_late_builders(now);
    if (next_->recovers) {
      break_group(now);
    } else {
      name_again(now);
    }
  }
  const bool active = state_ == ElasticJobState::training || next_.has_value();
  if (active && now - progress_at_ >= config_.stuck_max) fence_stuck(now);
}

TimePoint ElasticJob::wake_at() const {
  TimePoint when = kTimeNever;
  for (const auto& trainer : trainers_) {
    if (trainer.fenced) continue;
    when = std::min(when, add_saturating(trainer.heard, config_.silent_max));
    if (trainer.deadline) when = std::min(when, *trainer.deadline);
    if (broken_ && trainer.phase == Phase::training && trainer.waits) {
      when = std::min(when, add_saturating(broken_at_, config_.fail_max));
    }
  }
  if (over()) return when;
  if (next_ && built_.size() < next_->members.size())
    when = std::min(when, add_saturating(named_at_, config_.build_max));
  if (state_ == ElasticJobState::training || next_)
    when = std::min(when, add_saturating(progress_at_, config_.stuck_max));
  return when;
}

void ElasticJob::end(ElasticJobState state) {
  state_ = state;
  next_.reset();
  replaced_.clear();
  broken_ = false;
  // Members that are still in the last step say that they are done, or fail; then they are stopped.
  for (const auto& trainer : trainers_) {
    if (trainer.phase != Phase::training) links_.stop(trainer.id);
  }
}

void ElasticJob::check() const {
  TANGRAM_CHECK(!next_ || next_->generation > current_.generation, "the next generation is newer than the current");
  TANGRAM_CHECK(!broken_ || !next_, "while a group is broken, none is named");
  const auto consistent = [&](const TrainingGroup& group) {
    for (const TrainerId id : group.fresh) {
      TANGRAM_CHECK(group.has(id), "only members need the state");
      TANGRAM_CHECK(group.source && !group.is_fresh(*group.source), "and its source has it");
    }
  };
  consistent(current_);
  if (next_) consistent(*next_);
  for (std::size_t i = 0; next_ && i < next_->members.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      TANGRAM_CHECK(next_->members[i] != next_->members[k], "nobody has two ranks");
    }
  }
}

}  // namespace tangram::train
