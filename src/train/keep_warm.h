// How long an idle replica of an application keeps its GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace tangram::train {

enum class KeepWarmKind {
  none,    // A replica ends with its request.
  timer,   // DeepBoot: 30 s and 15 more for each hit in a row, 120 at most, times a factor.
  demand,  // As long as the cold start that it would spare, as often as requests come, is worth the GPU.
};

struct KeepWarmOptions {
  KeepWarmKind kind = KeepWarmKind::timer;
  double timer_factor = 1;
  // `demand`: the target of the mean wait, as a share of the wait under the timer, which is simulated for the same
  // requests. The price, that is, what a GPU-second of guarding must save, rises while requests wait less than the
  // target and falls while they wait more. So no more GPUs are guarded than the target needs, whatever the load.
  double timer_share = 0.82;
  std::optional<double> wait_target_s = std::nullopt;  // `demand`: an aim in seconds instead.
  double memory_s = 1800;  // `demand`: how far back arrivals count; after it they weigh 1/e.
};

// One for a cluster. Learns from every arrival.
class KeepWarm {
 public:
  KeepWarm(const KeepWarmOptions& options, std::vector<double> cold_start_s);

  void on_arrival(int application, double now_s);
  // A request begins.
  struct Start {
    int application = 0;
    double submit_s = 0;  // When it came. The timer is simulated from then on, whenever the request begins here.
    double wait_s = 0;    // From then until its replica runs.
    double duration_s = 0;
    bool slept = false;  // It found a replica that was asleep, and would have under any policy.
  };
  void on_start(const Start& start);

  // Seconds that a replica which is idle now should stay guarded; 0 if not at all. `idle` counts the replicas of its
  // application that are guarded already, itself not included.
  double guard_s(int application, int hits, int idle, double now_s) const;

  // Requests a second, as learnt.
  double rate(int application, double now_s) const;
  double rate_total(double now_s) const;
  // Seconds that a request runs, as learnt.
  double duration_mean_s() const { return served_ > 0 ? duration_sum_s_ / served_ : 0; }
  double cold_start_s(int application) const { return cold_start_s_[static_cast<std::size_t>(application)]; }

 private:
  // The recent arrivals of one application.
  struct Demand {
    double weight = 0;  // Arrivals, each faded by its age.
    double at_s = 0;
  };

  // A replica in the simulation of the timer.
  struct TimedReplica {
    double idle_s = 0;  // From when on it waits for a request.
    int hits = 0;
  };
  // Seconds that DeepBoot's timer guards a replica after so many hits in a row.
  double timer_s(int hits) const { return options_.timer_factor * std::min(30 + 15 * hits, 120); }
  // The wait of the request in that simulation, which it advances. Requests come about in the order of submission: one
  // that waits here may be passed by others, which moves a simulated hit by seconds.
  double timer_wait_s(const Start& start);

  KeepWarmOptions options_;
  std::vector<std::vector<TimedReplica>> timed_;  // By application.
  std::vector<double> cold_start_s_;              // Of each application.
  std::vector<Demand> demand_;
  double begin_s_ = -1;
  double price_ = 0.03;  // Seconds of waiting that a GPU-second must spare.
  double duration_sum_s_ = 0;
  double served_ = 0;
};

}  // namespace tangram::train
