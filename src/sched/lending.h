// What inference keeps of its slices and what it lends to training.
//
// A service needs fewer slices the fewer requests come. How many, is known beforehand: a table for each service, made
// by whoever can judge promises (see plan::Certifier). Lending watches the rates, keeps what the tables say, and
// recalls what is needed again; what is not needed may be lent. It decides at ticks and acts through the scheduler, so
// it serves a simulated cluster and a real one alike.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "sched/scheduler.h"

namespace tangram::sched {

// From the last smaller rate up to this one, so many slices keep the promise.
struct Need {
  double rate_per_s = 0;
  std::size_t slices = 0;
};

// A service on shared slices, and how much of their time one of its requests takes.
struct Sharer {
  ServiceId service;
  double request_s = 0;
};

// Of one service. A slice is named by its places, one for each process on it.
struct ServiceNeeds {
  std::vector<std::vector<SliceId>> slices;  // In the order in which they are kept.
  std::vector<Need> needs;                   // Ascending; at higher rates all slices are kept. None: always all.
  // All services that share these slices, this one among them, in the same order for each; empty: the slices are its
  // own. Their tables have the same number of slices at the same share of their highest rates, and hold while none of
  // them has a larger share.
  std::vector<Sharer> sharers = {};
};

// What may be lent of a plan.
struct LendingPlan {
  std::shared_ptr<const Deployment> deployment;  // The plan by itself; null: nothing may be lent.
  std::vector<ServiceNeeds> needs;               // Slices are places of `deployment`.
};

// The tables of `plan` for a scheduler that runs it. After a change of plans a scheduler numbers its slices and devices
// otherwise than the plan by itself, so they are found by device, cut and process. Nothing: it runs another plan.
std::optional<std::vector<ServiceNeeds>> needs_of_running(const State& state, const LendingPlan& plan);

struct LendingConfig {
  Duration window = std::chrono::seconds(10);       // Over which rates are measured.
  Duration window_burst = std::chrono::seconds(2);  // A burst shows sooner.
  Duration guard = std::chrono::seconds(15);        // What was needed is kept as long after.
  Duration lead = std::chrono::seconds(8);          // A rise is carried forward by this: recalled slices take a while.
  double deviations = 2;                            // Of the number of arrivals, added to it: chance is not calm.
  // A service without a request in the window does not fall short, whatever it has lost before. The share that it has
  // lost changes only with its requests.
  bool forgives_in_silence = false;
  double headroom =
      1.15;  // Needs are looked up for so many times the rate: little above its limit a service collapses.
};

// One slice with all its processes.
enum class LeaseState : std::uint8_t {
  running,    // At least one process runs a batch.
  guarded,    // Idle, and needed or needed a moment ago.
  asleep,     // Idle, and free to be lent.
  lending,    // Some processes are lent, the others run still.
  lent,       // With training.
  recalling,  // On its way back.
  away,       // Being restarted.
};

class Lending {
 public:
  struct Unit {
    DeviceId device;
    Slice slice;
    std::vector<SliceId> places;
    int compute_slices = 0;
    double weight = 0;   // Share of the device.
    bool pinned = true;  // Never lent: it serves a service without a table.
    TimePoint needed_until = kTimeNever;
  };

  // `needs` has an entry for each service of the scheduler's plan.
  Lending(Scheduler& scheduler, const LendingConfig& config, std::vector<ServiceNeeds> needs);

  void on_arrival(ServiceId service) { ++arrived_[service.index()]; }
  // Measures the rates and recalls what is needed. Call it at even steps of time.
  void on_tick(TimePoint now);

  // All slices of the plan, in the order of its places.
  const std::vector<Unit>& units() const { return units_; }
  // True if the unit may be lent now: no service needs it.
  bool may_lend(std::size_t unit) const { return units_[unit].needed_until <= now_; }
  LeaseState state(std::size_t unit) const;
  // Lends those processes that are idle; true when all are. To be asked again otherwise.
  bool lend(std::size_t unit);
  // Asks everything back that is lent of it.
  void recall(std::size_t unit);
  // Requests a second, as measured, with the margin for chance.
  double rate_per_s(ServiceId service) const { return rates_[service.index()]; }

 private:
  struct Tick {
    TimePoint at;
    std::vector<std::uint64_t> arrived;  // Since the start.
  };
  void measure(TimePoint now);
  struct Count {
    double arrived = 0;
    double seconds = 0;
    double spread = arrived;  // The variance of `arrived`: arrivals are taken as Poisson.
    double rate() const { return seconds > 0 ? arrived / seconds : 0; }
    double variance() const { return seconds > 0 ? spread / (seconds * seconds) : 0; }  // Of the rate.
  };
  Count arrivals_since(std::size_t service, TimePoint since) const;
  // The work that arrived for all sharers of the service, in seconds of their slices.
  Count work_since(std::size_t service, TimePoint since) const;
  // The rate to plan for, with the margin for chance: `count_since` counts what arrived since an instant.
  template <typename CountSince>
  double margined_rate(const CountSince& count_since) const;
  // The rate for which the table of the service is looked up.
  double rate_to_look_up(std::size_t service) const;
  double forecast(const Count& window, const Count& newer) const;
  std::size_t needed(std::size_t service) const;
  bool falls_short(std::size_t service);

  Scheduler& scheduler_;
  LendingConfig config_;
  std::vector<ServiceNeeds> needs_;
  std::vector<std::vector<std::size_t>> order_;  // By service: its units in the order in which they are kept.
  std::vector<Unit> units_;
  std::vector<std::uint64_t> arrived_;  // By service, since the start.
  std::vector<double> rates_;
  std::vector<double> rates_certain_;  // By service: what it surely has, by the short window.
  std::vector<double> work_rates_;     // By service with sharers: the work of all of them a second.
  std::vector<double> caution_;        // By service: by how much its rates are multiplied because it lost requests.
  std::deque<Tick> ticks_;
  TimePoint now_;
};

}  // namespace tangram::sched
