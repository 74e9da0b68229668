// Which requests are within the share of their tenant, where several tenants send to one service.
//
// Each tenant has a weight. While several are active, a tenant's share is its weight over the weights of all that are
// active, of the time of the service's slices. A request is within the share if that share alone would have run
// it, and all of the tenant's requests before it, within the promise of the service. Requests beyond the share are not
// rejected for that: they go after all that are within, so they run where there is room. A tenant that sends no more
// than its share is thus served as if the others sent no more than theirs.
//
// This is start-time fair queueing with a bound on the debt: virtual time passes at the rate of 1 over the weights that
// are active, a request costs its share of the slices' time over its tenant's weight, and a tenant may be ahead of
// virtual time by as much as the promise allows. A tenant that was alone, or idle, starts without debt or credit.
#pragma once

#include <cstddef>
#include <map>

#include "base/time.h"
#include "core/ids.h"

namespace tangram::sched {

// The tenants of one service.
class FairShare {
 public:
  // A tenant without a request for this long is not active: its share is divided among the others.
  static constexpr Duration kActive = std::chrono::seconds(2);

  // A request arrives that takes `cost` of the time of all slices of the service together. True: it is within its
  // tenant's share, which is charged. `weight` is positive. Costs a look-up.
  bool take(TenantId tenant, double weight, Duration cost, Duration promise, TimePoint now);
  // A request within its tenant's share was late, or there was no room for it: full batches are an ideal, and the
  // slices carry less. Shares are of what they carry.
  void note_loss();

  std::size_t active() const { return active_.size(); }

 private:
  struct Tenant {
    double weight = 0;    // As it counts in `weights_`.
    double ahead_at = 0;  // The virtual time at which all that it was charged with is paid.
    TimePoint last;       // Its last request.
  };

  // Lets virtual time pass up to `now`, and forgets the tenants that are not active any more.
  void pass(TimePoint now);

  std::map<TenantId, Tenant> active_;
  double weights_ = 0;  // Of the active tenants.
  double virtual_ns_ = 0;
  double carried_ = 1;  // Share of the ideal that the slices carry, as far as it is known.
  TimePoint at_;
  TimePoint look_at_;  // When tenants may have become inactive.
};

}  // namespace tangram::sched
