// The coordinator of one training job whose trainers come and go while it trains.
//
// A trainer is a process that runs the job's script on one slice. All trainers of a generation hold the same parameters
// and make each step together. To change who they are, the coordinator names the next generation; its members build the
// next process group in the background, and switch to it after the same step, as they find out from the step's own
// collective: there is no barrier and no call per step. Example: generation 4 is {2, 5}, trainer 7 is ready:
//
//   prepare 2, 5 and 7 for generation 5 = {2, 5, 7}, fresh {7}, source 2
//   2 and 5 have the group, finish the step and say `entered 5`; 7 is told to enter, and 2 sends it the state
//
// A trainer that dies breaks the group: the others fail in their collective, drop the group, and say which step they
// have. When all have said so, the coordinator names a generation of the survivors, whose source is one with the most
// steps, and the step is made again.
//
// The coordinator is a state machine: events enter by on_..., answers leave through TrainerLinks. It reads no clock and
// may be driven in virtual time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/strong_id.h"
#include "base/time.h"

namespace tangram::train {

struct TrainerTag;
using TrainerId = StrongId<TrainerTag>;  // Never used twice within a job.

// Counts the groups of a job, from 1. Later generations replace earlier ones.
using Generation = std::uint64_t;

// Who trains together, and how they come to the same state.
struct TrainingGroup {
  Generation generation = 0;
  std::vector<TrainerId> members;   // By rank. Empty: everybody leaves, and the source saves the state before.
  std::vector<TrainerId> fresh;     // Members that need the state; they add nothing to their first step.
  std::optional<TrainerId> source;  // Who sends it.
  // The members are in no group: they enter as soon as they have built it. Otherwise they switch together.
  bool recovers = false;
  // Nobody has the state: the source begins with the last checkpoint, or from the start.
  bool restarts = false;
  // If it recovers: the steps of those who have the state. What a trainer says about its state may be on its way when
  // the group is named, so a trainer does not enter a group that is wrong about it: one that would have it continue
  // from other steps than it has made, or begin anew although it has the state. It waits for the next.
  std::int64_t step = 0;

  bool has(TrainerId trainer) const;
  bool is_fresh(TrainerId trainer) const;
  bool operator==(const TrainingGroup&) const = default;
};

// What the coordinator may ask of trainers. Calls return at once.
class TrainerLinks {
 public:
  virtual ~TrainerLinks() = default;
  // Sent to members, and to trainers that shall leave at the switch.
  virtual void prepare(TrainerId to, const TrainingGroup& group) = 0;
  // To a fresh member: the others have switched.
  virtual void enter(TrainerId to, Generation generation) = 0;
  // The value of a rendezvous key that the trainer waits for.
  virtual void answer(TrainerId to, Generation generation, std::string_view key, std::string_view value) = 0;
  // To a trainer that is in no group, or has finished: it ends in good order.
  virtual void stop(TrainerId to) = 0;
  // Kills it, whatever it does. Answered by on_gone.
  virtual void fence(TrainerId trainer) = 0;
};

struct ElasticJobConfig {
  std::size_t ready_min = 1;  // The job begins when so many trainers are ready, members or spares.
  std::size_t members_max = 64;
  Duration silent_max = std::chrono::seconds(10);  // A trainer sends a sign of life four times a second.
  Duration build_max = std::chrono::seconds(20);   // To build a group; then a new generation is named.
  Duration fail_max = std::chrono::seconds(5);     // In a collective of a group that all others have dropped.
  Duration stuck_max = std::chrono::hours(2);      // Without any progress, those who lag are killed.
  std::size_t keys_max = 65'536;                   // Of one generation. A group of n trainers needs about n * n.
};

enum class ElasticJobState : std::uint8_t { starting, training, parked, done, failed };
const char* to_string(ElasticJobState state);

// Invariants, which check() asserts:
//   - at most one generation is named and not yet entered by anybody (`next_`);
//   - a trainer that was asked to leave is in no generation named afterwards, unless nobody else has the state;
//   - each fresh member has a source that is a member and not fresh.
class ElasticJob {
 public:
  ElasticJob(const ElasticJobConfig& config, TrainerLinks& links);

  // A new trainer has built its model and waits. `step` is what it would begin with if nobody had the state.
  void on_hello(TimePoint now, TrainerId trainer, std::int64_t step);
  // The trainer has built the group, or could not.
  void on_built(TimePoint now, TrainerId trainer, Generation generation);
  void on_build_failed(TimePoint now, TrainerId trainer, Generation generation);
  // The trainer is in this generation now, and has made `step` steps; a fresh one has none yet.
  void on_entered(TimePoint now, TrainerId trainer, Generation generation, std::int64_t step);
  // The trainer has made `step` steps; the last one in this generation.
  void on_step(TimePoint now, TrainerId trainer, Generation generation, std::int64_t step);
  // Its collective failed; it is in no group any more. Nothing: it has not received the state.
  void on_failed(TimePoint now, TrainerId trainer, Generation generation, std::optional<std::int64_t> step);
  // A sign of life. `waits`: it is in a collective, or has nothing to do.
  void on_alive(TimePoint now, TrainerId trainer, bool waits);
  // It switched to a generation without itself, and ends.
  void on_left(TimePoint now, TrainerId trainer, Generation generation);
  // The state was saved before its holder left: the job can be continued later.
  void on_saved(TimePoint now, TrainerId trainer, std::int64_t step);
  // The script has ended.
  void on_done(TimePoint now, TrainerId trainer, std::int64_t step);
  // The process is no more.
  void on_gone(TimePoint now, TrainerId trainer);
  // Rendezvous of a generation: a key is set once and may be asked for before.
  void on_set(TrainerId trainer, Generation generation, std::string_view key, std::string_view value);
  void on_get(TrainerId trainer, Generation generation, std::string_view key);

  // Asks a trainer to leave after the step under way. It is killed at the deadline if it is still there.
  void recall(TimePoint now, TrainerId trainer, TimePoint deadline);
  // Trainers become members only up to this number from now on; others are kept as spares. Members stay.
  void set_members_max(TimePoint now, std::size_t members_max);
  // Kills who is silent, late or stuck. To be called at wake_at().
  void on_wake(TimePoint now);
  TimePoint wake_at() const;

  ElasticJobState state() const { return state_; }
  // The steps that some trainer has made. It falls only when every trainer with the state was lost.
  std::int64_t step() const { return step_; }
  // Steps that had been made and were lost with everybody who had the state.
  std::int64_t steps_lost() const { return steps_lost_; }
  // Steps that were made again because a trainer died while they were made.
  std::int64_t steps_repeated() const { return steps_repeated_; }
  // The trainer of rank 0 died after the last step: what the script does at its end may be missing.
  bool ending_lost() const { return ending_lost_; }
  // The last generation that a trainer has entered; generation 0 before.
  const TrainingGroup& current() const { return current_; }
  // Live trainers: those that came while the job had not begun by number, the others in the order of their hello.
  std::vector<TrainerId> trainers() const;
  // Members of the current generation that have entered it, by rank.
  std::vector<TrainerId> training() const;
  // Those that wait to become members.
  std::size_t spares() const;
  bool knows(TrainerId trainer) const { return find(trainer) != nullptr; }
  void check() const;

 private:
  enum class Phase : std::uint8_t {
    ready,     // Never in a group.
    training,  // In the group of `generation`.
    out,       // Its group broke.
    leaving,   // It has left, and its process ends.
    finished,  // Its script has ended.
  };
  struct Trainer {
    TrainerId id;
    Phase phase = Phase::ready;
    Generation generation = 0;         // That it entered last.
    std::optional<std::int64_t> step;  // The steps of the state it holds, if it holds the job's state.
    std::int64_t begins_with = 0;      // on_hello
    TimePoint heard;
    bool waits = false;
    bool fenced = false;
    std::optional<TimePoint> deadline;  // Of its recall.
  };
  struct Key {
    std::optional<std::string> value;
    std::vector<TrainerId> waiting;
  };

  const Trainer* find(TrainerId trainer) const;
  Trainer* find(TrainerId trainer);
  bool over() const { return state_ == ElasticJobState::done || state_ == ElasticJobState::failed; }
  bool any(Phase phase) const;
  // Notes a sign of life. Null for a trainer that has gone, whose late messages count for nothing.
  Trainer* hear(TimePoint now, TrainerId trainer);

  // Names the generation that fits the trainers, unless it has been named. Does nothing while the group is broken.
  void adapt(TimePoint now);
  // Names a generation of those who are in no group. Does nothing until all are out of it.
  void regroup(TimePoint now);
  // The order in which they become members: those of the current generation by rank, then by their hello.
  std::vector<TrainerId> in_order(std::vector<TrainerId> members) const;
  // Who trains next if nobody dies, and with whose state; nothing if nobody can.
  TrainingGroup wanted_group() const;
  // Who goes on after a failure. Without members and source if that must wait for other trainers.
  TrainingGroup surviving_group() const;
  // Sends the group to all whom it concerns; it becomes `next_`.
  void name(TimePoint now, TrainingGroup group);
  // The generation that was named could not be built: names what is wanted now, with a new number.
  void name_again(TimePoint now);
  // Ensures that `generation` is not newer than `current_`: somebody has entered it.
  void entered(TimePoint now, Generation generation);
  void break_group(TimePoint now);
  void fence(Trainer& trainer);
  void fence_late_builders(TimePoint now);
  void fence_stuck(TimePoint now);
  void end(ElasticJobState state);
  void forget_keys();

  ElasticJobConfig config_;
  TrainerLinks& links_;
  ElasticJobState state_ = ElasticJobState::starting;
  std::vector<Trainer> trainers_;  // In the order of their hello.
  TrainingGroup current_;
  std::optional<TrainingGroup> next_;
  TimePoint named_at_;
  // Named after `current_` and replaced by later ones; until one of the later is entered, these may still be.
  std::map<Generation, TrainingGroup> replaced_;
  std::map<Generation, std::map<std::string, Key, std::less<>>> keys_;
  std::vector<TrainerId> built_;  // Of next_.
  int builds_failed_ = 0;         // In a row.
  Generation generations_ = 0;
  bool broken_ = false;
  TimePoint broken_at_;
  TimePoint progress_at_;
  std::int64_t step_ = 0;
  std::int64_t steps_at_risk_ = 0;  // Made before everybody with the state was gone.
  std::int64_t steps_lost_ = 0;
  std::int64_t steps_repeated_ = 0;
  bool ending_lost_ = false;
};

}  // namespace tangram::train
