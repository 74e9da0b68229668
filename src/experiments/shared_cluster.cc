// A discrete simulation of a shared cluster, in whole seconds.
//
// Each step jumps to the next second in which something can happen: a round, a submission, the end of a run or of a
// guard, or a further attempt to place a pending request. What a step does has a fixed order, because it decides about
// ties: first GPUs are released, then requests use warm replicas, then the remaining requests take GPUs, and training
// gets what is left in its rounds.
//
// Two kinds of schedulers share the code. The published one holds a round every minute and does not place requests in
// that second. A prompt one (SharedRun::prompt) also acts when a job comes or ends, and places requests before every
// round.

#include "experiments/shared_cluster.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/statistics.h"
#include "experiments/elastic_training.h"
#include "experiments/gpu_finder.h"
#include "experiments/inference_gpus.h"
#include "experiments/inference_requests.h"

namespace tangram::experiments {
namespace {

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

std::vector<double> cold_starts_s(const std::vector<std::string>& applications) {
  std::vector<double> cold_s;
  for (const auto& name : applications) cold_s.push_back(sharing_costs(name).cold_start_s);
  return cold_s;
}

// Owns the parts and advances the time. Invariant after every step: no GPU is owned twice.
class SharedCluster {
 public:
  SharedCluster(const train::Applications& applications, const std::vector<formats::ClusterJob>& jobs,
                const SharedRun& run)
      : run_(run),
        training_(applications, jobs, run),
        requests_(jobs),
        gpus_({run.keep_warm, run.packed}, cold_starts_s(requests_.applications())),
        finder_(run) {}

  SharedResult run() {
    while (!finished() && now_s_ < lab::kClusterTimeMax_s) step();
    return result();
  }

 private:
  bool finished() const { return training_.jobs().left() == 0 && requests_.all_ended(); }

  void step() {
    advance_to(next_event_s());
    requests_.end(gpus_.settle(now_s_));
    admit_requests();
    // The published scheduler does not place requests in the second of a round: they are placed a second later.
    const bool round = std::fmod(now_s_, run_.interval_s) == 0;
    if (run_.prompt) place_pending();
    if (round || (run_.prompt && training_.early_round_due(now_s_))) hold_round();
    if (!round && !run_.prompt) place_pending();
    if (round) timeline_.push_back(ownership());
    check_ownership();
  }

  // The next second in which something can happen: the next round, or an event before it. At least a second from now,
  // so that every step makes progress.
  double next_event_s() const {
    const double soon = now_s_ + 1;
    const auto not_before_soon = [&](double at_s) { return std::max(std::ceil(at_s), soon); };
    double next = (std::floor(now_s_ / run_.interval_s) + 1) * run_.interval_s;
    if (run_.prompt) next = std::min(next, next_prompt_s());
    next = std::min(next, not_before_soon(requests_.next_submit_s()));
    next = std::min(next, not_before_soon(gpus_.next_change_s()));
    if (!requests_.pending().empty() && may_place_soon()) next = std::min(next, soon);
    return next;
  }

  // A prompt scheduler acts when a job comes or may have ended, and tries every second to place a pending request.
  double next_prompt_s() const {
    const double soon = now_s_ + 1;
    return requests_.pending().empty() ? std::max(training_.next_look_s(now_s_), soon) : soon;
  }

  // True if a pending request may be placed in the next second: a replica sleeps whose GPU it could take, or a replica
  // of its own application is guarded and can run it. Otherwise nothing changes before the next event.
  bool may_place_soon() const {
    return gpus_.any_asleep() || std::ranges::any_of(requests_.pending(), [&](std::size_t i) {
             return gpus_.has_guarded(requests_.at(i).application);
           });
  }

  void advance_to(double next_s) {
    // Utilisation counts until the last job has ended.
    if (training_.jobs().left() > 0) {
      const lab::Ownership now = ownership();
      used_gpu_s_ += (next_s - now_s_) * (now.training + now.running);
    }
    training_.advance(now_s_, next_s);
    now_s_ = next_s;
  }

  // A request that finds a warm replica of its application starts at once. With packing there are no such replicas: the
  // GPUs in hand are for any application.
  void admit_requests() {
    requests_.admit(now_s_, [&](const auto& request) { gpus_.on_arrival(request.application, now_s_); });
    if (run_.packed) return;
    requests_.place([&](std::size_t i) {
      const auto wait_s = gpus_.run_warm(start_of(i));
      if (wait_s) requests_.record_wait(*wait_s);
      return wait_s.has_value();
    });
  }

  // Requests without a warm replica take GPUs. They all change one draft of the allocations, which is applied at the
  // end: a job that gives up three GPUs restarts once and not three times.
  void place_pending() {
    if (requests_.pending().empty()) return;
    TrainingDraft draft = training_.draft(now_s_);
    requests_.place([&](std::size_t i) {
      if (run_.packed) return place_packed(i, draft);
      return run_.first_ready ? start_replica_for(i, draft) : place_cold(i, draft);
    });
    training_.apply(draft);
  }

  std::optional<int> find_gpu(TrainingDraft& draft) {
    // A request for which a replica starts is counted with that replica.
    const std::size_t starting = run_.first_ready ? gpus_.starting_count() : 0;
    return finder_.find(draft, gpus_, requests_.pending().size() - std::min(starting, requests_.pending().size()),
                        now_s_);
  }

  // True if a GPU was found. Its replica starts cold, which the request has to wait for.
  bool place_cold(std::size_t i, TrainingDraft& draft) {
    const auto node = find_gpu(draft);
    if (node) requests_.record_wait(gpus_.run_cold(start_of(i), *node));
    return node.has_value();
  }

  // Starts a replica unless as many start already as requests of the application are pending. Always false: the request
  // stays pending until a replica is ready, this one or another that becomes idle before.
  bool start_replica_for(std::size_t i, TrainingDraft& draft) {
    const int application = requests_.at(i).application;
    const auto up_to_this = std::ranges::count_if(requests_.pending(), [&](std::size_t other) {
      return other <= i && requests_.at(other).application == application;
    });
    if (gpus_.starting_count(application) >= up_to_this) return false;
    if (const auto node = find_gpu(draft)) gpus_.start_replica(application, *node, now_s_);
    return false;
  }

  // Any GPU in hand serves any application. Only an application that is on no shelf yet starts cold.
  bool place_packed(std::size_t i, TrainingDraft& draft) {
    const auto in_hand = gpus_.in_hand();
    const auto node = in_hand ? std::nullopt : find_gpu(draft);
    if (!in_hand && !node) return false;
    const int application = requests_.at(i).application;
    requests_.record_wait(gpus_.run_packed(start_of(i), in_hand, node.value_or(0)));
    // Its first request put the model into memory, so it can be kept on a slice for the next one.
    if (!gpus_.on_shelf(application)) shelve(application, draft);
    return true;
  }

  // Keeps a replica of the application on a slice from now on. If the shelves are full it takes one more GPU; if there
  // is none, the application stays without a shelf, and its next request tries again.
  void shelve(int application, TrainingDraft& draft) {
    if (gpus_.shelves_full()) {
      const auto node = find_gpu(draft);
      if (!node) return;
      gpus_.add_shelf(*node);
    }
    gpus_.put_on_shelf(application);
  }

  InferenceGpus::Start start_of(std::size_t i) const {
    const auto& request = requests_.at(i);
    return {request.application, now_s_, request.submit_s, request.duration_s};
  }

  // Training can use every GPU that inference does not hold: idle ones and those of sleeping replicas. A sleeping
  // replica is closed if training took its GPU.
  void hold_round() {
    std::vector<int> lendable = gpus_.held(run_.nodes);
    for (int& gpus : lendable) gpus = run_.gpus_per_node - gpus;
    training_.hold_round(now_s_, std::move(lendable));
    gpus_.close_displaced(training_.gpus_on_nodes(), run_.gpus_per_node);
  }

  lab::Ownership ownership() const {
    const auto counts = gpus_.counts();
    lab::Ownership now{.at_s = now_s_,
                       .training = static_cast<double>(training_.gpus()),
                       .running = static_cast<double>(counts.running),
                       .guarded = static_cast<double>(counts.guarded),
                       .asleep = static_cast<double>(counts.asleep)};
    now.free = run_.gpus() - now.training - now.running - now.guarded - now.asleep;
    return now;
  }

  void check_ownership() const {
    std::vector<int> used = training_.gpus_on_nodes();
    gpus_.add_to_nodes(used);
    for (const int gpus : used) TANGRAM_CHECK(gpus <= run_.gpus_per_node, "no GPU is owned twice");
  }

  // Jobs are named before requests.
  std::string unfinished() const {
    if (finished()) return "";
    const auto& jobs = training_.jobs();
    return jobs.left() > 0 ? jobs.asked(jobs.first_left()).name : requests_.unfinished();
  }

  SharedResult result() {
    const auto& jobs = training_.jobs();
    SharedResult result;
    result.jcts_s = jobs.completion_times_s();
    result.overheads_s = requests_.waits_s();
    result.jct_mean_s = mean(result.jcts_s);
    result.jct_p99_s = quantile_nearest_rank(result.jcts_s, 0.99);
    result.restarts_per_job = jobs.restarts_per_job();
    result.reclaims = finder_.reclaims();
    result.overhead_mean_s = mean(result.overheads_s);
    result.overhead_p99_s = quantile_nearest_rank(result.overheads_s, 0.99);
    result.gpu_utilisation = used_gpu_s_ / std::max(jobs.last_end_s() * run_.nodes * run_.gpus_per_node, 1.0);
    result.rounds = training_.rounds();
    result.leases = training_.leases();
    result.leases_ended = training_.leases_ended();
    result.unfinished = unfinished();
    // Every GPU that a job received was returned, when the job shrank or when it ended.
    TANGRAM_CHECK(!finished() || result.leases == result.leases_ended, "every lease ends");
    result.timeline = std::move(timeline_);
    return result;
  }

  SharedRun run_;
  ElasticTraining training_;
  InferenceRequests requests_;
  InferenceGpus gpus_;
  GpuFinder finder_;
  double now_s_ = 0;
  double used_gpu_s_ = 0;  // By training and running requests, while jobs were left.
  std::vector<lab::Ownership> timeline_;
};

}  // namespace

SharedResult run_shared(const train::Applications& applications, const std::vector<formats::ClusterJob>& jobs,
                        const SharedRun& run) {
  return SharedCluster(applications, jobs, run).run();
}

}  // namespace tangram::experiments
