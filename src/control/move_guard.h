// Watches the promises after a move to another plan, and says if a service does worse than before beyond chance.
//
// Compared are the shares of requests that missed their promise, in the time watched before the move and in that after
// it. A service is worse if three things hold: it breaks its promise, its share of misses rose by so many standard
// deviations of two binomial shares, and it got no more requests than the new plan was made for. More traffic is no
// fault of the plan: the controller meets it with another one.
//
// Example: of 12,000 requests before, 0.4 % missed; of 3,000 after, 2.4 %, with 1 % allowed. Together 0.8 % missed,
// whose standard deviation is sqrt(0.008 * 0.992 * (1/12000 + 1/3000)) = 0.0018. The rise is 11 of these.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "control/demand.h"
#include "control/observation.h"
#include "core/workload.h"

namespace tangram::control {

class MoveGuard {
 public:
  struct Options {
    Duration watch = std::chrono::minutes(10);  // Before and after a move.
    double deviations = 4;                      // Looked at every ten seconds, chance alone shows fewer.
    std::uint64_t requests_min = 50;            // Of fewer that ended since the move, nothing is said.
    double mix_drift = 0.15;                    // Sizes further apart than this (mix_distance) are others: the traffic
                                                // has changed, which is no fault of the plan.
  };
  // For `services`, in the order of all observations.
  MoveGuard(const Options& options, const std::vector<Service>& services);

  // The services are others: nothing is watched, and what was seen of them is forgotten.
  void set_services(const std::vector<Service>& services);

  // What happened since the last call. Not counted while `seen.moving`.
  void observe(const Observation& seen);
  // A move has ended; its plan is made for `planned`.
  void begin(TimePoint now, std::vector<ServiceDemand> planned);
  // The plan that was watched is no longer the one that runs.
  void end() { watching_ = false; }
  bool watching() const { return watching_; }

  // The service that does worse, in a sentence: "ask: 97.6 % in time since the move, 99.6 % before, 99 % promised".
  // Empty if none does, or nothing is watched.
  std::string verdict() const;

 private:
  struct Count {
    std::uint64_t arrived = 0;
    std::uint64_t kept = 0;
    std::uint64_t missed = 0;
    std::uint64_t ended() const { return kept + missed; }
  };
  struct Look {
    TimePoint at;
    std::vector<Count> counts;
  };
  // Whether service `s` does worse, by the numbers.
  bool worse(std::size_t s, const Count& before) const;
  // The sum over the looks before the move.
  Count before(std::size_t s) const;

  Options options_;
  std::vector<std::string> names_;
  std::vector<double> promised_;   // Share in time, 0 to 1.
  std::deque<Look> looks_;         // The newest `watch`, without moves and what came after a watched one.
  std::vector<Count> after_;       // Since the move.
  std::vector<SizeCounts> sizes_;  // That arrived since the move.
  std::vector<ServiceDemand> planned_;
  TimePoint began_;
  TimePoint now_;
  bool watching_ = false;
};

}  // namespace tangram::control
