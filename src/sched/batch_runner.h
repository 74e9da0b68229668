// A batch from its start to its end: hands members of one slice to the World, and learns from how long they ran.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/policy.h"
#include "sched/resolver.h"
#include "sched/state.h"
#include "sched/world.h"

namespace tangram::sched {

// True for a busy slice whose batch has run for longer than `factor` times its predicted p99, and longer than `least`:
// its worker hangs. Where the plan in force does not have the bucket, the time that was expected at the start counts.
bool is_stuck(const View& view, const SliceState& slice, double factor, Duration least);

class BatchRunner {
 public:
  // All outlive the runner.
  BatchRunner(World& world, State& state, const View& view, Resolver& resolver)
      : world_(world), state_(state), view_(view), resolver_(resolver) {}

  // Starts `batch`, the draft of the idle slice, on it. Its members are of one service, have left their queues and are
  // still counted as waiting; together they are within the plan's limit. Background requests may fill it up. The slice
  // is busy afterwards, and World::launch was called once.
  void launch(SliceId slice, BatchDraft& batch);

  // The batch of a busy slice ended well: learns its run time and answers the members. The caller changes the status.
  void end(SliceId slice);
  // The batch was lost or failed: takes the members off the slice, for the caller to put back or to reject.
  std::vector<Waiting*> take_members(SliceId slice);

  std::uint64_t batches_started() const { return batches_; }

 private:
  // Takes requests of the background into a batch that has room. Requires a background.
  void fill_up(const SliceState& slice, BatchDraft& batch);
  // What every member is padded to.
  std::int64_t padded_size(const DeployedService& service, const BatchDraft& batch) const;

  World& world_;
  State& state_;
  const View& view_;
  Resolver& resolver_;
  std::uint64_t batches_ = 0;
};

}  // namespace tangram::sched
