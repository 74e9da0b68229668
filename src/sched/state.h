// The scheduler's memory: which requests wait where, what every slice does, what was measured.
//
// The parts of the scheduler share one State and call each other in one direction only (see scheduler.h). Policies read
// it through View; all other code reads it const.
//
// Invariants, which hold between events. State::check looks at them in tests; production code never does.
//   1. Slices: those of SliceTable (sched/slice_table.h). A slice has requests bound to it only while it is busy and
//      serves, and has members exactly while it is busy.
//   2. Own queues: those of BoundQueue (sched/bound_queue.h); the work of a queue is the sum of what its requests cost.
//   3. `waiting_count` is the number of requests in lanes, in the queues of slices and in the background together.
//   4. The store holds these and the members of running batches, and no other request.
//   5. The bit of a lane in `occupied` is set exactly while the lane holds a request. An empty lane has no hold.
//   6. `backlog_ns` of a service is the sum of backlog_of over its lanes except the late one.
//   7. `slices` of a service is the number of slices that serve it now.
//   8. A waiting request has a bucket of its service, and is in a lane of its service and, unless that is the late one,
//      of its bucket and number of samples.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/strong_id.h"
#include "base/time.h"
#include "core/request.h"
#include "sched/corrections.h"
#include "sched/deployment.h"
#include "sched/fair_share.h"
#include "sched/rate_limit.h"
#include "sched/request_queue.h"
#include "sched/sample_class.h"
#include "sched/slice_table.h"

namespace tangram::sched {

class Background;

using LaneId = StrongId<struct LaneTag>;

// The shared queue of one bucket of one service. Requests that hold several samples wait apart by their number in
// steps of a quarter octave, because they cost differently; each service has one more lane for those that are too late
// to be in time anywhere.
struct Lane {
  ServiceId service;
  std::uint32_t bucket = 0;  // Of the late lane: the largest.
  bool late = false;
  RequestQueue queue;
  TimePoint hold = kTimeNever;  // When the policy wants to be asked again.
  SliceId open_slice;  // Where the last batch of this lane was opened; its tail tells whether it is open still.
};

struct ServiceState {
  std::uint32_t lanes_begin = 0;
  std::uint32_t classes = 0;            // Lanes per bucket.
  std::vector<std::uint64_t> occupied;  // One bit a lane that is not empty.
  std::int64_t backlog_ns = 0;          // How long all its slices together need for its queue, late requests aside.
  std::uint32_t slices = 0;             // That serve it now.
  std::vector<double> drain_ns;         // By bucket: backlog of one sample.
  double lost_share = 0;                // Of its requests, lately: those that were not answered in time.
  RateLimit rate;                       // Of its own requests, whatever service they wait with.
  FairShare share;                      // Of the tenants whose requests wait in its lanes.

  void note_resolved(bool lost) { lost_share += ((lost ? 1.0 : 0.0) - lost_share) / kLossMemory; }
  static constexpr double kLossMemory = 512;  // Requests.

  std::int64_t backlog_of(const Waiting& waiting) const {
    return static_cast<std::int64_t>(drain_ns[waiting.bucket] * waiting.request.samples);
  }
};

// A request beyond the share of its tenant goes after all that are within theirs: its priority is lowered by this much,
// which leaves the order among such requests as it is. The priorities of services lie between -1,000 and 1,000, those
// that requests name above, up to 999,999; background requests are below all of them.
inline constexpr std::int32_t kBeyondShare = 1'500'000;
inline bool is_beyond_share(const Request& request) { return request.priority < -kBeyondShare / 3; }

struct State {
  State(Deployment d, std::size_t requests_max, double correction_weight);
  ~State();

  Deployment deployment;
  SliceTable slices;  // By SliceId.
  std::vector<ServiceState> services;
  std::vector<Lane> lanes;
  std::vector<std::size_t> first_row;  // By pool: the number of its first PoolService.
  RequestStore store;
  Corrections corrections;
  TimePoint now;                           // Of the event that is being handled.
  std::size_t waiting_count = 0;           // Requests in any queue.
  std::vector<double> tenant_weights;      // By tenant; 1 for those that are not in it.
  std::unique_ptr<Background> background;  // Null until the first request that runs in the background.

  // The lane of a request that is not late.
  LaneId lane_of(ServiceId service, std::uint32_t bucket, std::int32_t samples) const {
    const ServiceState& s = services[service.index()];
    return LaneId(s.lanes_begin + bucket * s.classes + sample_class(samples));
  }
  LaneId late_lane_of(ServiceId service) const {
    const ServiceState& s = services[service.index()];
    return LaneId(s.lanes_begin +
                  static_cast<std::uint32_t>(deployment.services[service.index()].edges.size()) * s.classes);
  }
  void lane_insert(LaneId id, Waiting* waiting) {
    Lane& lane = lanes[id.index()];
    ServiceState& service = services[lane.service.index()];
    lane.queue.insert(waiting);
    waiting->place = RecordPlace::lane;
    waiting->holder = id.value();
    const std::uint32_t bit = id.value() - service.lanes_begin;
    service.occupied[bit / 64] |= std::uint64_t{1} << (bit % 64);
    if (!lane.late) service.backlog_ns += service.backlog_of(*waiting);
  }
  // `waiting` is in the lane.
  void lane_erase(LaneId id, Waiting* waiting) {
    Lane& lane = lanes[id.index()];
    ServiceState& service = services[lane.service.index()];
    lane.queue.erase(waiting);
    if (lane.queue.empty()) {
      const std::uint32_t bit = id.value() - service.lanes_begin;
      service.occupied[bit / 64] &= ~(std::uint64_t{1} << (bit % 64));
      lane.hold = kTimeNever;
    }
    if (!lane.late) service.backlog_ns -= service.backlog_of(*waiting);
  }

  // Replaces the deployment: slice i has the place `next.places[i]` from now on, further places are planned slices, and
  // the lanes are those of `next`. Requires empty lanes, empty queues of slices and an empty background.
  void adopt(Deployment next);
  // How many slices serve each service, and how fast they drain its lanes. Called after slices came or went.
  void count_capacity();

  // Which of the invariants above does not hold, as a sentence; empty if all do. Costs all slices and all requests.
  std::string check() const;

 private:
  void build_lanes();
  std::string check_lane(LaneId id) const;
  std::string check_service(ServiceId id) const;
  std::string check_counts() const;
};

}  // namespace tangram::sched
