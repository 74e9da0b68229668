#include "experiments/shared_cluster.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/check.h"
#include "lab/job_table.h"
#include "train/warm_pool.h"

namespace tangram::experiments {
namespace {

using train::Allocation;
using train::ReplicaStatus;

constexpr double kPromptGap_s = 5;  // Least time between two rounds of a prompt scheduler.
constexpr const char* kInferencePrefix = "infer-";
constexpr int kAnyApplication = -1;  // Of a GPU in hand for whatever request comes.
constexpr int kShelf = -2;           // Of a GPU whose slices hold replicas that wait.
constexpr double kNever_s = 1e18;
constexpr double kInHandLook_s = 15;  // How often the number of GPUs in hand is looked at again.

// "infer-bert-2" is the second application of the kind bert.
std::string kind_of(const std::string& application) {
  std::string kind = application;
  if (kind.starts_with(kInferencePrefix)) kind = kind.substr(std::string(kInferencePrefix).size());
  const auto dash = kind.rfind('-');
  const bool numbered =
      dash != std::string::npos && kind.find_first_not_of("0123456789", dash + 1) == std::string::npos;
  return numbered ? kind.substr(0, dash) : kind;
}

struct Task {
  std::string name;
  int application = 0;
  double submit_s = 0;
  double duration_s = 0;
};

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

lab::JobTable::Options table_options(const train::Allocator& allocator, const SharedRun& run) {
  return {.learn_together = run.learn_together,
          .keeps_batches = allocator.keeps_batches(),
          .replicas_max = 64,
          .restart = run.restart};
}

std::unique_ptr<train::Allocator> allocator_of(const SharedRun& run) {
  const auto* info = train::find_allocator(run.allocator);
  TANGRAM_CHECK(info != nullptr, "the allocator is one of the list");
  return info->make(run.options);
}

class SharedCluster {
 public:
  SharedCluster(const train::Applications& applications, const std::vector<formats::Job>& jobs, const SharedRun& run)
      : run_(run),
        rng_(Rng(run.options.seed).stream("reclaim")),
        allocator_(allocator_of(run)),
        jobs_(table_options(*allocator_, run)) {
    for (const auto& job : jobs) {
      if (job.kind == formats::JobKind::training) {
        jobs_.add(applications.find(job.application)->second, job, sharing_costs(kind_of(job.application)).restart);
      } else {
        add_task(job);
      }
    }
    std::ranges::stable_sort(tasks_, {}, &Task::submit_s);
    std::vector<double> cold;
    for (const auto& [name, index] : application_index_)
      cold.resize(std::max(cold.size(), static_cast<std::size_t>(index) + 1));
    for (const auto& [name, index] : application_index_) {
      cold[static_cast<std::size_t>(index)] = sharing_costs(kind_of(name)).cold_start_s;
    }
    keep_warm_.emplace(run.keep_warm, std::move(cold));
  }

  SharedResult run() {
    while (!finished() && now_s_ < lab::kClusterTimeMax_s) step();
    return result();
  }

 private:
  // Allocations as they will be when the requests at hand are placed: one change for each job, however many it loses.
  struct Draft {
    std::vector<std::size_t> active;
    std::vector<Allocation> allocations;
    std::vector<train::JobView> views;
  };

  bool finished() const { return jobs_.left() == 0 && tasks_done_ == tasks_.size(); }

  // Nothing if all ended: a job that is left, else a request that waits, else the one that runs longest.
  std::string unfinished() const {
    if (finished()) return "";
    if (jobs_.left() > 0) return jobs_.asked(jobs_.first_left()).name;
    if (!pending_.empty()) return tasks_[pending_.front()].name;
    if (next_task_ < tasks_.size()) return tasks_[next_task_].name;
    return std::ranges::max_element(tasks_, {}, &Task::duration_s)->name;
  }

  // Construction.
  void add_task(const formats::Job& job) {
    const auto [place, is_new] =
        application_index_.try_emplace(job.application, static_cast<int>(application_index_.size()));
    tasks_.push_back({job.name, place->second, job.submit_s, std::max(job.duration_s.value_or(0), 1.0)});
  }

  // Time.
  double next_round_s() const { return (std::floor(now_s_ / run_.interval_s) + 1) * run_.interval_s; }

  double next_event_s() const {
    double next = next_round_s();
    if (run_.prompt) next = std::min(next, next_prompt_s());
    if (next_task_ < tasks_.size()) next = std::min(next, std::max(std::ceil(tasks_[next_task_].submit_s), now_s_ + 1));
    for (const auto& replica : pool_.replicas()) {
      if (replica.status != ReplicaStatus::asleep)
        next = std::min(next, std::max(std::ceil(replica.until_s), now_s_ + 1));
    }
    if (!pending_.empty() && may_place_soon()) next = std::min(next, now_s_ + 1);
    return next;
  }

  // A prompt scheduler acts when a job comes or may have ended, and tries again to place a request every second.
  double next_prompt_s() const {
    const double soon = now_s_ + 1;
    if (!pending_.empty()) return soon;
    double next = std::ceil(jobs_.next_submit_s());
    if (dirty_) next = std::min(next, last_round_s_ + kPromptGap_s);
    for (const std::size_t i : jobs_.present()) next = std::min(next, now_s_ + jobs_.job(i).until_epoch_s());
    return std::max(next, soon);
  }

  // A waiting request is looked at again in a second if a replica sleeps, or one of its own is guarded.
  bool may_place_soon() const {
    for (const auto& replica : pool_.replicas()) {
      if (replica.status == ReplicaStatus::asleep) return true;
      if (replica.status != ReplicaStatus::guarded) continue;
      for (const std::size_t task : pending_) {
        if (tasks_[task].application == replica.application) return true;
      }
    }
    return false;
  }

  void step() {
    const double next = next_event_s();
    advance_to(next);
    settle_replicas();
    admit_tasks();
    const bool round = std::fmod(now_s_, run_.interval_s) == 0;
    const bool early = run_.prompt && dirty_ && now_s_ - last_round_s_ >= kPromptGap_s;
    if (run_.prompt) place_pending();
    if (round || early) hold_round();
    if (!round && !run_.prompt) place_pending();
    if (round) note_ownership();
    check_ownership();
  }

  void advance_to(double next) {
    const double seconds = next - now_s_;
    count_use(seconds);
    const bool ended = jobs_.advance(now_s_, seconds, {}, [&](std::size_t i) { leases_ended_ += jobs_.job(i).gpus(); });
    dirty_ = jobs_.admit(next) || ended || dirty_;
    now_s_ = next;
  }

  // Inference.
  void settle_replicas() {
    std::vector<std::uint32_t> ended;
    for (const auto& replica : pool_.replicas()) {
      if (replica.status != ReplicaStatus::asleep && replica.until_s <= now_s_) ended.push_back(replica.id);
    }
    for (const std::uint32_t id : ended) {
      const train::WarmReplica replica = pool_.at(id);
      if (replica.status == ReplicaStatus::running) ++tasks_done_;
      if (run_.packed) {
        rest_in_hand(replica);
      } else {
        rest(replica);
      }
    }
  }

  // What an idle replica does next. The published timer is counted down once a second and runs out a second late.
  void rest(const train::WarmReplica& replica) {
    const bool timer = run_.keep_warm.kind == train::KeepWarmKind::timer;
    if (timer && replica.status == ReplicaStatus::guarded) return pool_.put_asleep(replica.id);
    int others = 0;
    for (const auto& other : pool_.replicas()) {
      others +=
          other.application == replica.application && other.status == ReplicaStatus::guarded && other.id != replica.id
              ? 1
              : 0;
    }
    const double guard_s = keep_warm_->guard_s(replica.application, replica.hits, others, now_s_);
    if (guard_s > 0) return pool_.guard(replica.id, now_s_ + guard_s + (timer ? 1 : 0));
    pool_.put_asleep(replica.id);
    if (run_.keep_warm.kind == train::KeepWarmKind::none) pool_.close(replica.id);
  }

  // Requests of all applications together need about so many GPUs at a time; what is above is lent.
  double in_hand_target() const {
    const double busy = keep_warm_->rate_total(now_s_) * (keep_warm_->duration_mean_s() + run_.packed->start_s);
    return busy + run_.packed->margin * std::sqrt(busy);
  }

  void rest_in_hand(const train::WarmReplica& replica) {
    double held = 0;
    for (const auto& other : pool_.replicas()) {
      held += other.application != kShelf && other.status != ReplicaStatus::asleep && other.id != replica.id ? 1 : 0;
    }
    pool_.rename(replica.id, kAnyApplication);
    if (held + 1 <= in_hand_target()) {
      pool_.guard(replica.id, now_s_ + kInHandLook_s);
    } else {
      pool_.put_asleep(replica.id);
    }
  }

  // The replica of `application` waits on a slice from now on, of a further GPU if those in use are full.
  void park(int application, Draft& draft) {
    if (static_cast<int>(parked_.size()) == shelves_ * run_.packed->slots) {
      const auto node = find_gpu(draft);
      if (!node) return;
      pool_.open(kShelf, *node, kNever_s);
      ++shelves_;
    }
    parked_.insert(application);
  }

  // A request under packing: any GPU in hand will do, and only an application that is on no slice yet starts cold.
  bool place_packed(std::size_t task, Draft& draft) {
    const int application = tasks_[task].application;
    const auto ready = pool_.find_warm(kAnyApplication);
    const auto node = ready ? std::optional<int>(pool_.at(*ready).node) : find_gpu(draft);
    if (!node) return false;
    const bool waits = parked_.contains(application);
    const double cold_s = keep_warm_->cold_start_s(application);
    const double delay_s = waits ? std::min(run_.packed->start_s, cold_s) : cold_s;
    start(task, delay_s);
    const double until_s = now_s_ + delay_s + tasks_[task].duration_s;
    if (ready) {
      pool_.wake(*ready, until_s);
    } else {
      pool_.open(application, *node, until_s);
    }
    if (!waits) park(application, draft);
    return true;
  }

  void admit_tasks() {
    for (; next_task_ < tasks_.size() && tasks_[next_task_].submit_s <= now_s_; ++next_task_) {
      keep_warm_->on_arrival(tasks_[next_task_].application, now_s_);
      pending_.push_back(next_task_);
    }
    if (!run_.packed) std::erase_if(pending_, [&](std::size_t task) { return start_warm(task); });
  }

  bool start_warm(std::size_t task) {
    const auto warm = pool_.find_warm(tasks_[task].application);
    if (!warm) return false;
    start(task, 0, pool_.at(*warm).status == ReplicaStatus::asleep);
    pool_.wake(*warm, now_s_ + tasks_[task].duration_s);
    return true;
  }

  void start(std::size_t task, double delay_s, bool slept = false) {
    overheads_.push_back(now_s_ + delay_s - tasks_[task].submit_s);
    keep_warm_->on_start({.application = tasks_[task].application,
                          .now_s = now_s_,
                          .wait_s = overheads_.back(),
                          .duration_s = tasks_[task].duration_s,
                          .slept = slept});
  }

  // Requests without a warm replica: on an empty GPU, on one whose replica sleeps, or on one that training gives back.
  void place_pending() {
    if (pending_.empty()) return;
    Draft draft = draft_of();
    std::erase_if(pending_, [&](std::size_t task) {
      if (run_.packed) return place_packed(task, draft);
      const auto node = find_gpu(draft);
      if (!node) return false;
      const double cold_s = keep_warm_->cold_start_s(tasks_[task].application);
      start(task, cold_s);
      pool_.open(tasks_[task].application, *node, now_s_ + cold_s + tasks_[task].duration_s);
      return true;
    });
    apply(draft.active, draft.allocations);
  }

  Draft draft_of() const {
    Draft draft;
    draft.active = jobs_.ranked();
    for (const std::size_t i : draft.active) draft.allocations.push_back(jobs_.job(i).allocation());
    draft.views = jobs_.views_of(draft.active, now_s_);
    for (std::size_t k = 0; k < draft.active.size(); ++k) draft.views[k].current = &draft.allocations[k];
    return draft;
  }

  std::vector<int> training_on_nodes(const std::vector<Allocation>& allocations) const {
    std::vector<int> training(static_cast<std::size_t>(run_.nodes), 0);
    for (const auto& allocation : allocations) {
      for (const auto& share : allocation) training[static_cast<std::size_t>(share.node)] += share.gpus;
    }
    return training;
  }

  std::vector<int> training_now() const {
    std::vector<int> training(static_cast<std::size_t>(run_.nodes), 0);
    for (const std::size_t i : jobs_.present()) {
      for (const auto& share : jobs_.job(i).allocation()) training[static_cast<std::size_t>(share.node)] += share.gpus;
    }
    return training;
  }

  std::optional<int> find_gpu(Draft& draft) {
    const std::vector<int> training = training_on_nodes(draft.allocations);
    std::vector<int> order;
    const int first = run_.reclaim == train::ReclaimKind::server ? run_.nodes / 2 : 0;
    for (int node = first; node < run_.nodes; ++node) order.push_back(node);
    std::ranges::stable_sort(order, {}, [&](int node) { return training[static_cast<std::size_t>(node)]; });
    std::vector<int> used = training;
    for (const auto& replica : pool_.replicas()) ++used[static_cast<std::size_t>(replica.node)];
    for (const int node : order) {
      if (used[static_cast<std::size_t>(node)] < run_.gpus_per_node) return empty_server(draft, node);
    }
    for (const int node : order) {
      for (const auto& replica : pool_.replicas()) {
        if (replica.node != node || replica.status != ReplicaStatus::asleep) continue;
        pool_.close(replica.id);
        return empty_server(draft, node);
      }
    }
    const int tenants = static_cast<int>(draft.active.size() + pool_.replicas().size() + pending_.size());
    const auto reclaim = choose_reclaim(run_.reclaim, draft.views, run_.nodes * run_.gpus_per_node,
                                        std::max(tenants, 1), run_.nodes, rng_);
    if (!reclaim) return run_.prompt ? take_guarded() : std::nullopt;
    ++reclaims_;
    if (run_.reclaim == train::ReclaimKind::server) return empty_server(draft, reclaim->node);
    train::remove_gpu(draft.allocations[reclaim->job], reclaim->node);
    return reclaim->node;
  }

  // Training has nothing left to give: the guarded replica goes whose application is asked for least for each that it
  // has.
  std::optional<int> take_guarded() {
    const train::WarmReplica* least = nullptr;
    double least_rate = 0;
    for (const auto& replica : pool_.replicas()) {
      if (replica.status != ReplicaStatus::guarded || replica.application < 0) continue;
      const double rate =
          keep_warm_->rate(replica.application, now_s_) / std::max(pool_.idle_count(replica.application), 1);
      if (least != nullptr && rate >= least_rate) continue;
      least = &replica;
      least_rate = rate;
    }
    if (least == nullptr) return std::nullopt;
    const int node = least->node;
    pool_.close(least->id);
    return node;
  }

  // Aryl moves whole servers: training leaves a node that inference uses.
  int empty_server(Draft& draft, int node) {
    if (run_.reclaim != train::ReclaimKind::server) return node;
    for (auto& allocation : draft.allocations) {
      std::erase_if(allocation, [&](const train::Share& share) {
        if (share.node != node) return false;
        reclaims_ += share.gpus;
        return true;
      });
    }
    return node;
  }

  // Training.
  void hold_round() {
    dirty_ = false;
    last_round_s_ = now_s_;
    const auto active = jobs_.ranked();
    if (active.empty()) return;
    ++rounds_;
    std::vector<int> lendable = pool_.held(run_.nodes);
    for (int& gpus : lendable) gpus = run_.gpus_per_node - gpus;
    const auto views = jobs_.views_of(active, now_s_);
    const auto allocations = allocator_->allocate({.now_s = now_s_,
                                                   .interval_s = run_.interval_s,
                                                   .gpus_per_node = run_.gpus_per_node,
                                                   .gpus_free = lendable,
                                                   .jobs = views});
    train::free_beside(lendable, allocations);
    apply(active, allocations);
    drop_displaced();
  }

  void apply(const std::vector<std::size_t>& active, const std::vector<Allocation>& allocations) {
    for (std::size_t k = 0; k < active.size(); ++k) {
      const int before = jobs_.job(active[k]).gpus();
      const int after = train::gpus_of(allocations[k]);
      leases_ += std::max(after - before, 0);
      leases_ended_ += std::max(before - after, 0);
      jobs_.reallocate(active[k], allocations[k]);
    }
  }

  // Replicas that sleep leave where training took their GPU.
  void drop_displaced() {
    std::vector<int> used = training_now();
    std::vector<std::uint32_t> displaced;
    for (const auto& replica : pool_.replicas()) {
      if (replica.status != ReplicaStatus::asleep) ++used[static_cast<std::size_t>(replica.node)];
    }
    for (const auto& replica : pool_.replicas()) {
      if (replica.status != ReplicaStatus::asleep) continue;
      if (++used[static_cast<std::size_t>(replica.node)] > run_.gpus_per_node) {
        displaced.push_back(replica.id);
        --used[static_cast<std::size_t>(replica.node)];
      }
    }
    for (const std::uint32_t id : displaced) pool_.close(id);
  }

  // Books.
  lab::Ownership ownership() const {
    lab::Ownership now{.at_s = now_s_};
    for (const std::size_t i : jobs_.present()) now.training += jobs_.job(i).gpus();
    for (const auto& replica : pool_.replicas()) {
      const bool shelf = replica.application == kShelf;
      now.running += replica.status == ReplicaStatus::running && !shelf ? 1 : 0;
      now.guarded += shelf ? 1 : 0;
      now.guarded += replica.status == ReplicaStatus::guarded ? 1 : 0;
      now.asleep += replica.status == ReplicaStatus::asleep ? 1 : 0;
    }
    now.free = run_.nodes * run_.gpus_per_node - now.training - now.running - now.guarded - now.asleep;
    return now;
  }

  void note_ownership() { timeline_.push_back(ownership()); }

  void count_use(double seconds) {
    if (jobs_.left() == 0) return;
    const lab::Ownership now = ownership();
    used_gpu_s_ += seconds * (now.training + now.running);
  }

  void check_ownership() const {
    std::vector<int> used = training_now();
    for (const auto& replica : pool_.replicas()) ++used[static_cast<std::size_t>(replica.node)];
    for (const int gpus : used) TANGRAM_CHECK(gpus <= run_.gpus_per_node, "no GPU is owned twice");
  }

  SharedResult result() {
    SharedResult result;
    result.jcts_s = jobs_.completion_times_s();
    result.overheads_s = overheads_;
    result.jct_mean_s = mean(result.jcts_s);
    result.jct_p99_s = quantile(result.jcts_s, 0.99);
    result.restarts_per_job = jobs_.restarts_per_job();
    result.reclaims = reclaims_;
    result.overhead_mean_s = mean(overheads_);
    result.overhead_p99_s = quantile(overheads_, 0.99);
    result.gpu_utilisation = used_gpu_s_ / std::max(jobs_.last_end_s() * run_.nodes * run_.gpus_per_node, 1.0);
    result.rounds = rounds_;
    result.leases = leases_;
    result.leases_ended = leases_ended_;
    result.unfinished = unfinished();
    TANGRAM_CHECK(!finished() || leases_ == leases_ended_, "every lease ends");
    result.timeline = std::move(timeline_);
    return result;
  }

  SharedRun run_;
  Rng rng_;
  std::unique_ptr<train::Allocator> allocator_;
  lab::JobTable jobs_;

  std::map<std::string, int> application_index_;
  std::vector<Task> tasks_;  // By submission.
  std::size_t next_task_ = 0;
  std::size_t tasks_done_ = 0;
  std::vector<std::size_t> pending_;
  std::set<int> parked_;  // Applications with a replica on a slice.
  int shelves_ = 0;
  train::WarmPool pool_;
  std::optional<train::KeepWarm> keep_warm_;
  std::vector<double> overheads_;

  double now_s_ = 0;
  double last_round_s_ = 0;
  bool dirty_ = false;
  std::int64_t reclaims_ = 0;
  std::int64_t rounds_ = 0;
  std::int64_t leases_ = 0;
  std::int64_t leases_ended_ = 0;
  double used_gpu_s_ = 0;
  std::vector<lab::Ownership> timeline_;
};

struct NamedCosts {
  const char* application;
  SharingCosts costs;
};
constexpr NamedCosts kCosts[] = {
    {"bert", {{103, 5}, 8}},       {"cifar10", {{24, 3}, 6}}, {"ncf", {{25, 2}, 4}},
    {"deepspeech2", {{18, 1}, 4}}, {"yolov3", {{26, 3}, 6}},  {"imagenet", {{35, 3}, 6}},
};

}  // namespace

SharingCosts sharing_costs(const std::string& application) {
  const auto* const found = std::ranges::find(kCosts, application, &NamedCosts::application);
  if (found != std::end(kCosts)) return found->costs;
  return {{38, 3}, 6};
}

SharedRun deepboot_run() {
  SharedRun run;
  run.options.population = run.options.generations = 50;  // Of Pollux, as DeepBoot runs it.
  return run;
}

SharedRun tangram_run() {
  SharedRun run = deepboot_run();
  run.allocator = "tangram";
  run.keep_warm.kind = train::KeepWarmKind::demand;
  run.reclaim = train::ReclaimKind::cheapest;
  run.interval_s = 120;  // Rounds are held when jobs come and go; between them, inference returns few GPUs.
  run.prompt = true;
  run.learn_together = true;
  return run;
}

SharedResult run_shared(const train::Applications& applications, const std::vector<formats::Job>& jobs,
                        const SharedRun& run) {
  return SharedCluster(applications, jobs, run).run();
}

}  // namespace tangram::experiments
