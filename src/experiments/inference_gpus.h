// The GPUs that inference holds in a shared cluster, and the replicas on them.
//
// Invariants: each replica holds one GPU of its node. It starts, runs a request, is guarded (training cannot have its
// GPU until the guard ends), or is asleep (a request of its application may wake it, until training takes its GPU).
// With packing, idle replicas are kept together on slices of a few GPUs, the shelves; the GPUs beside those are in hand
// for any application.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "experiments/shared_run.h"
#include "train/keep_warm.h"
#include "train/warm_pool.h"

namespace tangram::experiments {

class InferenceGpus {
 public:
  struct Options {
    train::KeepWarmOptions keep_warm;
    std::optional<PackedWarm> packed;
  };
  // `cold_start_s` of each application, by number.
  InferenceGpus(const Options& options, std::vector<double> cold_start_s);

  // A request that begins now.
  struct Start {
    int application = 0;
    double now_s = 0;
    double submit_s = 0;
    double duration_s = 0;
  };

  void on_arrival(int application, double now_s) { keep_warm_.on_arrival(application, now_s); }

  // Lets every replica rest whose start, run or guard is over by `now_s`, and says how many requests ended.
  std::size_t settle(double now_s);
  // When the next start, run or guard ends; infinite where there is none.
  double next_change_s() const;

  // Starting a request answers with its wait, from submission until its replica runs.
  //
  // On a warm replica of its application; nothing where there is none.
  std::optional<double> run_warm(const Start& start);
  // On an empty GPU of `node`, where a replica is started cold.
  double run_cold(const Start& start, int node);

  // Starts a replica on an empty GPU of `node`. It serves whichever request of its application finds it ready.
  void start_replica(int application, int node, double now_s) {
    pool_.start(application, node, now_s + keep_warm_.cold_start_s(application));
  }
  std::size_t starting_count() const;
  int starting_count(int application) const { return pool_.starting_count(application); }

  // With packing: the GPU in hand that a request would get, if there is one.
  std::optional<std::uint32_t> in_hand() const { return pool_.find_warm(kAnyApplication); }
  // With packing: on the GPU `in_hand`, or else on an empty one of `node`. An application on a shelf starts from there.
  double run_packed(const Start& start, std::optional<std::uint32_t> in_hand, int node);
  bool on_shelf(int application) const { return shelved_.contains(application); }
  // True if a further application needs one more shelf.
  bool shelves_full() const;
  // An empty GPU of `node` becomes a shelf, for ever.
  void add_shelf(int node);
  // Keeps a replica of `application` on a shelf from now on. Requires that the shelves are not full.
  void put_on_shelf(int application) { shelved_.insert(application); }

  // Gives the GPU of one sleeping replica on `node` back. False where none sleeps there.
  bool close_asleep_on(int node);
  // Gives up the guarded replica whose application is asked for least for each that it has idle, and says on which node
  // it was; nothing where none is guarded.
  std::optional<int> close_guarded(double now_s);
  // Closes sleeping replicas where they and training, which has `training` GPUs on each node, are more than
  // `gpus_per_node`.
  void close_displaced(const std::vector<int>& training, int gpus_per_node);

  std::size_t count() const { return pool_.replicas().size(); }
  bool any_asleep() const;
  bool has_guarded(int application) const;
  // Adds the GPUs of all replicas to those of each node.
  void add_to_nodes(std::vector<int>& gpus) const;
  // On each node, GPUs that training cannot have: starting, running and guarded.
  std::vector<int> held(int nodes) const { return pool_.held(nodes); }

  struct Counts {
    int running = 0;  // Those that start included.
    int guarded = 0;  // Shelves included.
    int asleep = 0;
  };
  Counts counts() const;

 private:
  static constexpr int kAnyApplication = -1;  // Of a GPU in hand for whatever request comes.
  static constexpr int kShelf = -2;           // Of a GPU whose slices hold replicas that wait.

  // Reports to the policy that a request begins `delay_s` from now; returns its wait since submission.
  double note_start(const Start& start, double delay_s, bool slept);
  // Decides what an idle replica does next: it is guarded, sleeps, or is closed. May remove it from the pool.
  void rest(const train::WarmReplica& replica, double now_s);
  // The same with packing: its GPU stays in hand while fewer than in_hand_target() are held, and sleeps otherwise.
  void rest_in_hand(const train::WarmReplica& replica, double now_s);
  // GPUs to keep for requests of all applications together.
  double in_hand_target(double now_s) const;

  Options options_;
  train::WarmPool pool_;
  train::KeepWarm keep_warm_;
  std::set<int> shelved_;  // Applications with a replica on a shelf.
  int shelves_ = 0;
};

}  // namespace tangram::experiments
