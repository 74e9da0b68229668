// The executor of each slice and the batch that it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/executor.h"
#include "sched/scheduler.h"
#include "serve/call.h"

namespace tangram::serve {

// One slice. It runs one batch at a time: begin(), the work of the executor, end().
struct SliceRun {
  BatchId batch;
  bool busy = false;
  bool cold = false;      // The batch had to load its model.
  std::int64_t size = 1;  // That the members are padded to.
  TimePoint started;
  Duration planned{};  // How long the batch takes by the plan.
  std::vector<Call*> members;
  std::unique_ptr<engines::Executor> executor;
  engines::BatchMemory* memory = nullptr;  // Of the batch, while it is busy.
  std::string failure;                     // Why the last batch was not answered.
  Duration upstream_retry_after{};         // As Call::upstream_retry_after.
  std::optional<Duration> ran;             // How long the batch took where it ran, if that is known.

  // Takes over an idle slice; the members are added by the caller.
  void begin(const sched::Batch& next, TimePoint now);
  // Adds a member. Requires begin().
  void add(Call* call);
  // Puts the inputs of all members side by side into `memory`, each padded to the batch's size.
  void gather_inputs(const ServedModel& model, std::int32_t samples) const;
  // Gives each member its part of the outputs, cut to what it brought.
  void scatter_outputs() const;
  std::int32_t samples() const;
  // Stores with each member why its run failed, in case there is no time for another run.
  void fail_members(const std::string& reason);
};

class SliceRuns {
 public:
  using MakeExecutor =
      std::function<std::unique_ptr<engines::Executor>(SliceId, const sched::Place&, engines::ExecutorEvents&)>;

  // `events` is told by the executors, and outlives them.
  SliceRuns(std::size_t slices, MakeExecutor make, engines::ExecutorEvents& events)
      : make_(std::move(make)), events_(events), runs_(slices) {}

  std::size_t count() const { return runs_.size(); }
  // The slice with its executor, which is made at the first use.
  SliceRun& open(SliceId slice, const sched::Place& place);
  // A slice that was opened before.
  SliceRun& at(SliceId slice) { return runs_[slice.index()]; }
  // Ends the batch of a slice. Null: the slice has abandoned it, and is idle or runs another one.
  SliceRun* end(SliceId slice, BatchId batch);
  // Destroys the executor, if there is one.
  void close(SliceId slice);
  // True if the slice has an executor.
  bool is_open(SliceId slice) const { return slice.index() < runs_.size() && runs_[slice.index()].executor != nullptr; }
  // Gives the executor of an open slice that runs nothing to one that has none.
  void hand_over(SliceId from, SliceId to);
  // The process of the executor's worker; 0: there is none.
  std::int64_t process_of(SliceId slice) const;

 private:
  MakeExecutor make_;
  engines::ExecutorEvents& events_;
  std::vector<SliceRun> runs_;
};

}  // namespace tangram::serve
