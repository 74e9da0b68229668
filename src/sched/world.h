// Everything the scheduler may know or do beyond its own memory.
//
// sim::Simulation answers in virtual time, serve::LiveWorld in real time; the scheduler never learns which. Calls
// return at once and answers arrive later as events, one at a time, on one thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/time.h"
#include "core/ids.h"
#include "core/layout.h"
#include "core/request.h"

namespace tangram::sched {

// Requests that run together on one slice, each padded to the same size.
struct Batch {
  BatchId id;
  SliceId slice;
  ServiceId service;
  std::uint32_t bucket = 0;                 // Index into the service's buckets: the largest of any member.
  std::int64_t padded_size = 1;             // What every member is padded to.
  std::int32_t samples = 0;                 // Over all members.
  Duration predicted{};                     // Mean run time as the scheduler expects it.
  Duration took{};                          // In World::resolve: how long it ran.
  std::span<const Request* const> members;  // Valid until the batch is answered.
  // Its model is not loaded: the World loads it first, which is part of the run. Copies that make room are in
  // `evicted`, by name (ModelCopy::copy), valid until launch() returns.
  // If the batch fails, the model counts as not loaded.
  bool cold = false;
  Duration load{};  // How long that takes as the plan knows; zero: not known, or not cold. Part of `predicted`.
  std::span<const ServiceId> evicted = {};
};

class World {
 public:
  virtual ~World() = default;
  // The time of the event being handled. It does not move until the handler returns.
  virtual TimePoint now() const = 0;
  // Delivers on_wake at `when`, or next if `when` has passed. A second call replaces the first; kTimeNever cancels.
  virtual void wake_at(TimePoint when) = 0;
  // Runs `batch` on an idle slice. Answered exactly once, by on_batch_done.
  virtual void launch(const Batch& batch) = 0;
  // Asks a slice to end its batch early: nobody waits for the answer any more, or the slice is needed (`must`). At most
  // once for a batch, and once more with `must`. Answered by on_batch_done: as `stopped`, or as ever where the batch
  // has ended before. Without `must`, a batch that cannot be stopped runs to its end; with it, its process is ended.
  virtual void stop(SliceId slice, bool must) = 0;
  // Stops what runs on a slice that does not answer and makes the slice usable again. Answered exactly once, by
  // on_restarted; the batch that ran there is not answered any more.
  virtual void restart(SliceId slice) = 0;
  // Cuts `device` as `target` says and loads its replicas. Slices that the old and the new layout share keep running;
  // the others have been drained. Answered exactly once, by on_reshaped.
  virtual void reshape(DeviceId device, const Layout& target) = 0;
  // Hands an idle slice to training. It stays away until recalled.
  virtual void lend(SliceId slice) = 0;
  // Asks for a lent slice back. Answered exactly once, by on_returned.
  virtual void recall(SliceId slice) = 0;
  // Ends the life of a request. Every request that arrived is resolved exactly once; `batch` is the one it ran in, if
  // it did.
  virtual void resolve(const Request& request, const Outcome& outcome, const Batch* batch) = 0;
};

}  // namespace tangram::sched
