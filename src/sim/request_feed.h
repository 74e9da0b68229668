// The requests of all services, from their sources to the scheduler.
//
// An open source has one arrival in the event queue at any time: when it comes, the next is drawn. Each client of a
// closed loop has at most one, which follows the answer to its last request. Arrivals are queued as kArrival.
//
// Invariants: made() + pending() never exceeds `requests_max`; ids are given in the order of arrival, from 0.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "core/request.h"
#include "core/workload.h"
#include "sim/arrivals.h"
#include "sim/event_queue.h"

namespace tangram::sim {

struct RequestLimits {
  Duration duration = Duration::max();      // Arrivals after it are not made.
  std::uint64_t requests_max = UINT64_MAX;  // Nor beyond this number.
  std::uint64_t warmup_requests = 0;        // The first ones are not counted.
  double rate_scale = 1;
  std::size_t tenants = 1;         // Requests are dealt to them at random, ...
  double first_tenant_factor = 1;  // ... this many times as many to the first as to each of the others.
};

class RequestFeed {
 public:
  // `workload` and `queue` outlive it.
  RequestFeed(const Workload& workload, const RequestLimits& limits, const Rng& rng, EventQueue& queue);

  // Queues the first arrival of every source and client.
  void start();
  // The request that comes with `event`, a kArrival that was just taken from the queue. Queues the next of an open
  // source.
  Request arrive(const Event& event);
  // A request has been resolved at `now`: a client of a closed loop asks again.
  void resolved(const Request& request, OutcomeKind kind, TimePoint now) {
    if (sources_[request.service.index()].closed_loop()) ask_again(request, kind, now);
  }

  std::uint64_t made() const { return made_; }
  std::uint64_t pending() const { return pending_count_; }  // Queued, not yet made.
  // True until half of the arrivals have come: of their number if that is limited, of the duration otherwise.
  bool in_first_half(TimePoint now) const;
  // The share of the arrivals that has come by `now`, between 0 and 1; 0 where there is no limit to compare with.
  double share_done(TimePoint now) const;
  // The time from the last arrival that is not counted to the end of the arrivals. The end is the duration if it cut
  // them off (and `whole`: the run was not stopped before), otherwise the last arrival. If all arrived in one instant
  // there is no such time, and the time until `last_end` is used instead.
  Duration counted(TimePoint last_end, bool whole) const;

 private:
  // The content of a request.
  struct Content {
    std::int64_t size = 1;
    std::int32_t samples = 1;
  };

  // Queues the next arrival of an open source, unless a limit is reached.
  void push_next(std::uint32_t service);
  // Queues an arrival of a closed loop, unless a limit is reached.
  void push_client(std::uint32_t service, const Arrival& arrival);
  // Requires a request of a closed loop. Queues the client's next one, after a pause if this one had no answer.
  void ask_again(const Request& request, OutcomeKind kind, TimePoint now);
  bool full() const { return made_ + pending_count_ >= limits_.requests_max; }
  // True, and remembered, if the arrival comes after the duration.
  bool cut_off(const Arrival& arrival);

  const Workload& workload_;
  RequestLimits limits_;
  EventQueue& queue_;
  // The tenant of the next request.
  TenantId deal();

  Rng tenant_rng_;
  std::vector<ArrivalSource> sources_;
  std::vector<Content> pending_;  // By service: the arrival of an open source that is on its way.
  std::uint64_t made_ = 0;
  std::uint64_t pending_count_ = 0;
  TimePoint last_arrival_;  // Of a request, ...
  TimePoint counted_from_;  // ... and of the last that is not counted.
  bool cut_off_ = false;    // The duration ended the arrivals of a service.
};

}  // namespace tangram::sim
