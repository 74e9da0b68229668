// How the cluster gets from one plan to the next.
//
// plan_move compares the plan in force with the next one and says what has to happen, device by device; Move walks
// through these steps. Neither touches a slice or calls the World: the scheduler does, so both are tested alone.
//
// Each step drains the slices that leave a device, has it re-cut, and lets its new slices join. Devices that only gain
// slices go first and those that only lose some last, so that new capacity is there before old capacity goes. Several
// of these may be under way at once: the first give nothing up, and what the last give up is needed no more. Devices
// that lose slices and gain others go one after the other, so that the rest keeps serving.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/ids.h"
#include "core/layout.h"
#include "sched/deployment.h"
#include "sched/slice_table.h"

namespace tangram::sched {

// What a step does to capacity, in the order of the steps.
enum class MoveKind : unsigned char { gains, exchanges, loses };

// One device's turn. A device that keeps its layout and all its slices has none.
struct MoveStep {
  DeviceId device;
  Layout target;
  std::vector<SliceId> leaving;  // Must be gone before the device is cut.
  std::vector<SliceId> joining;  // Are there when it has been cut.

  MoveKind kind() const {
    return leaving.empty() ? MoveKind::gains : joining.empty() ? MoveKind::loses : MoveKind::exchanges;
  }
};

struct MovePlan {
  // In force from the start of the move: the services, buckets and pools of the next plan, then the old pools that
  // still have slices, in terms of the new buckets. Devices of the old plan keep their ids and, until their step is
  // over, their layouts; new ones follow with nothing cut. `places` has every slice of the table by its id, then those
  // that join.
  Deployment deployment;
  std::vector<MoveStep> steps;
};

// The way from `old`, whose slices are `slices`, to `next`, which has the same services in the same order, and perhaps
// further ones behind them. A slice stays if the next plan has one at the same place, of the same kind and with the
// same batch limits.
MovePlan plan_move(const Deployment& old, std::span<const SliceState> slices, Deployment next);

// The plan's buckets have changed: an entry in terms of `new_edges`, where each new bucket runs as the old bucket that
// covers it. With old edges 32 and 64, the new bucket up to 48 runs as the old one up to 64; one up to 100 not at all.
PoolService translate(const PoolService& entry, std::span<const std::int64_t> old_edges,
                      std::span<const std::int64_t> new_edges);

// The progress of a move, a small state machine: the scheduler asks next() what to do, does it, and calls on_reshaped.
class Move {
 public:
  enum class Action : unsigned char {
    drain,    // The slices step().leaving must leave; then ask again.
    reshape,  // step().device must be re-cut to step().target; on_reshaped answers.
    wait,     // Ask again when a slice is gone or the device was re-cut.
    done,     // Every step is over.
  };
  enum class Answer : unsigned char {
    retry,    // The device must be re-cut again: ask next().
    over,     // It was re-cut: step().joining join, then call finish_step.
    give_up,  // It failed too often: step().joining never come, then call finish_step.
  };

  // At most `at_once` devices are under way at the same time, and only one that exchanges slices.
  Move(std::vector<MoveStep> steps, int at_once)
      : steps_(std::move(steps)), at_once_(static_cast<std::size_t>(at_once)) {}

  // Each drain and each reshape is returned once.
  Action next(std::span<const SliceState> slices);
  // The step that the last answer was about. Not after wait, done or finish_step.
  const MoveStep& step() const { return steps_[current_]; }
  // The World's answer to the re-cut that was asked for; `attempts_max` tries are made for a device.
  Answer on_reshaped(DeviceId device, bool ok, int attempts_max);
  // The step that on_reshaped was about is over.
  void finish_step();

 private:
  // A step that has been told to drain and is not over.
  struct Turn {
    std::size_t step = 0;
    int attempts = 0;        // Re-cuts of its device.
    bool reshaping = false;  // One has been asked for and not answered.
  };

  // True if the next step may begin beside those that are under way.
  bool may_begin() const;

  std::vector<MoveStep> steps_;
  std::size_t at_once_;
  std::size_t begun_ = 0;    // Steps that have begun: the first ones.
  std::vector<Turn> turns_;  // Of those, the ones that are not over, all of one kind.
  std::size_t current_ = 0;  // See step().
};

}  // namespace tangram::sched
