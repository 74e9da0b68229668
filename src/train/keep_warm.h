// How long an idle replica of an application stays guarded against everybody else.
#pragma once

#include <cstdint>
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
  // `demand`: the mean wait that is aimed at. What a GPU-second of guarding must spare is raised while requests wait
  // less and lowered while they wait more, so that no GPU guards more than the aim needs, whatever the load.
  double wait_target_s = 1.9;
  double memory_s = 1800;  // `demand`: how far back arrivals count; after it they weigh 1/e.
};

// One for a cluster. Learns from every arrival.
class KeepWarm {
 public:
  KeepWarm(const KeepWarmOptions& options, std::vector<double> cold_start_s);

  void on_arrival(int application, double now_s);
  // A request began `wait_s` after it came and runs for `duration_s`.
  void on_start(double wait_s, double duration_s);

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
  struct Demand {
    double weight = 0;  // Arrivals, each faded by its age.
    double at_s = 0;
  };

  KeepWarmOptions options_;
  std::vector<double> cold_start_s_;  // Of each application.
  std::vector<Demand> demand_;
  double begin_s_ = -1;
  double price_ = 0.03;  // Seconds of waiting that a GPU-second must spare.
  double duration_sum_s_ = 0;
  double served_ = 0;
};

}  // namespace tangram::train
