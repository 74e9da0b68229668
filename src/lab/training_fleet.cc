#include "lab/training_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/statistics.h"
#include "base/text.h"
#include "lab/needs.h"
#include "plan/demand.h"
#include "train/reclaim.h"

namespace tangram::lab {
namespace {

constexpr double kRoundGap_s = 5;  // Least time between two rounds.
// Of the time line: what goes on long after the last request makes steps longer, not more. An even number.
constexpr std::size_t kStepsMax = 960;
const train::Allocation kNoGpus;

std::unique_ptr<train::Allocator> allocator_of(const TrainingSetup& setup) {
  const auto* info = train::find_allocator(setup.allocator);
  TANGRAM_CHECK(info != nullptr, "the allocator is one of the list");
  train::AllocatorOptions options;
  options.seed = setup.seed;
  options.restart_s = setup.restart_cost.full_s;
  return info->make(options);
}

// A table of needs is made for the rates that come.
void scale_rate(Service& service, double factor) {
  const double rate = plan::planning_rate_per_s(service) * factor;
  const bool varies = std::holds_alternative<PoissonTraffic>(service.traffic) ||
                      std::holds_alternative<ConstantTraffic>(service.traffic) ||
                      std::holds_alternative<DiurnalTraffic>(service.traffic) ||
                      std::holds_alternative<CurveTraffic>(service.traffic);
  if (varies) service.traffic = PoissonTraffic{rate};
}

}  // namespace

TrainingFleet::TrainingFleet(const TrainingSetup& setup, const Plan& plan, std::vector<sched::ServiceNeeds> needs,
                             double step_s)
    : setup_(setup),
      plan_(plan),
      needs_(std::move(needs)),
      allocator_(allocator_of(setup)),
      jobs_({.learn_together = true,
             .keeps_batches = allocator_->keeps_batches(),
             .replicas_max = 64,
             .restart = setup.restart}),
      step_s_(step_s) {
  for (const auto& job : setup_.jobs) {
    const auto cost = setup_.restart_costs.find(job.application);
    jobs_.add(setup_.applications.find(job.application)->second, job,
              cost != setup_.restart_costs.end() ? cost->second : setup_.restart_cost);
  }
  slow_.assign(jobs_.count(), 0);
  berth_of_.assign(jobs_.count(), std::nullopt);
  result_.jobs = jobs_.count();
  result_.gpus = static_cast<double>(plan.devices.size());
}

void TrainingFleet::on_start(sched::Scheduler& scheduler) {
  lending_.emplace(scheduler, setup_.lending, needs_);
  devices_.resize(plan_.devices.size());
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    devices_[d].node = static_cast<int>(d) / setup_.gpus_per_node;
    nodes_ = devices_[d].node + 1;
  }
  for (std::size_t u = 0; u < lending_->units().size(); ++u) {
    const auto& unit = lending_->units()[u];
    const std::size_t d = unit.device.index();
    devices_[d].units.push_back(berths_.size());
    const auto& geometry = plan_.devices[d].geometry;
    berths_.push_back({u, d, speed_of_slice(geometry.profiles[unit.slice.profile], geometry), unit.weight, std::nullopt,
                       std::nullopt});
  }
  for (std::size_t d = 0; d < devices_.size(); ++d) add_uncut(d);
}

double TrainingFleet::speed_of_slice(const MigProfile& profile, const Geometry& geometry) const {
  if (setup_.slice_speeds.empty()) {
    int whole = 1;
    for (const auto& other : geometry.profiles) whole = std::max(whole, other.compute_slices);
    return static_cast<double>(profile.compute_slices) / whole;
  }
  const auto found = setup_.slice_speeds.find(profile.compute_slices);
  return found == setup_.slice_speeds.end() ? 0 : found->second;
}

// A device without replicas is training's own. Of another, what is uncut may be cut for training.
void TrainingFleet::add_uncut(std::size_t d) {
  Device& device = devices_[d];
  if (device.units.empty()) {
    device.whole = true;
    return;
  }
  if (setup_.lend != LendMode::slices) return;
  const auto& geometry = plan_.devices[d].geometry;
  std::map<int, double> speeds = setup_.slice_speeds;
  for (const auto& profile : geometry.profiles) {
    speeds.try_emplace(profile.compute_slices, speed_of_slice(profile, geometry));
  }
  for (const auto& slice : leftover_slices(plan_.devices[d], speeds).slices) {
    const MigProfile& profile = geometry.profiles[slice.profile];
    device.uncut.push_back(berths_.size());
    berths_.push_back({std::nullopt, d, speed_of_slice(profile, geometry),
                       static_cast<double>(profile.units) / geometry.units, std::nullopt, std::nullopt});
  }
}

// ---- Time ----

void TrainingFleet::on_tick(TimePoint at, bool traffic) {
  const double now_s = to_seconds(at);
  count(now_s);
  dirty_ = jobs_.advance(now_s_, now_s - now_s_, slow_, [&](std::size_t i) { leave_berth(i); }) || dirty_;
  now_s_ = now_s;
  dirty_ = jobs_.admit(now_s_) || dirty_;
  if (traffic) traffic_end_s_ = now_s_;
  over_ = jobs_.left() == 0 || now_s_ > traffic_end_s_ + setup_.overtime_s;
  lending_->on_tick(at);
  end_leases();
  if (over_ || jobs_.present().empty()) {
    return_everything();
  } else {
    ask_for_leases();
    if (now_s_ - last_round_s_ >= (dirty_ ? kRoundGap_s : setup_.interval_s)) hold_round();
  }
  check();
}

bool TrainingFleet::busy() const {
  if (!over_) return true;
  return std::ranges::any_of(berths_, [&](const Berth& berth) {
    if (!berth.unit) return false;
    const auto state = lending_->state(*berth.unit);
    return state == sched::LeaseState::lent || state == sched::LeaseState::lending ||
           state == sched::LeaseState::recalling;
  });
}

// ---- Leases ----

// Leases that inference ended: whoever trained there leaves at once.
void TrainingFleet::end_leases() {
  for (auto& berth : berths_) {
    if (!berth.lent_s || lending_->state(*berth.unit) == sched::LeaseState::lent) continue;
    close_lease(berth);
    Device& device = devices_[berth.device];
    if (berth.job) {
      ++result_.reclaims;
      leave_berth(*berth.job);
    }
    if (device.whole) {
      device.whole = false;
      shrink(device.node);
    }
    dirty_ = true;
  }
}

// A lease is over, whoever ended it.
void TrainingFleet::close_lease(Berth& berth) {
  lease_seconds_ += now_s_ - *berth.lent_s;
  ++leases_ended_;
  berth.lent_s.reset();
}

void TrainingFleet::give_back(Berth& berth) {
  if (!berth.unit) return;
  if (berth.lent_s) close_lease(berth);
  lending_->recall(*berth.unit);
}

// The job, if it runs on a slice, runs nowhere.
void TrainingFleet::leave_berth(std::size_t job) {
  if (!berth_of_[job]) return;
  berths_[*berth_of_[job]].job.reset();
  berth_of_[job].reset();
  slow_[job] = 0;
  if (!jobs_.job(job).done()) jobs_.reallocate(job, {});
}

// The jobs of a node give up GPUs that it does not have any more, those that lose least first.
void TrainingFleet::shrink(int node) {
  const auto gpus = whole_gpus();
  const auto at = static_cast<std::size_t>(node);
  while (used_gpus()[at] > gpus[at]) {
    const auto active = jobs_.ranked();
    const auto views = views_of(active);
    const auto reclaim =
        train::choose_reclaim_on(node, views, static_cast<int>(result_.gpus), static_cast<int>(active.size()));
    TANGRAM_CHECK(reclaim.has_value(), "who uses the GPU is one of the jobs");
    ++result_.reclaims;
    train::Allocation allocation = jobs_.job(active[reclaim->job]).allocation();
    train::remove_gpu(allocation, node);
    jobs_.reallocate(active[reclaim->job], allocation);
  }
}

void TrainingFleet::return_everything() {
  for (const std::size_t i : jobs_.present()) {
    leave_berth(i);
    jobs_.reallocate(i, {});
  }
  for (auto& berth : berths_) {
    if (berth.unit) give_back(berth);
  }
  for (auto& device : devices_) device.whole = device.units.empty();
}

// As many whole GPUs as the jobs could use, then a slice for each job without one.
void TrainingFleet::ask_for_leases() {
  const int wanted = wanted_gpus();
  int have = 0;
  for (const auto& device : devices_) have += all_lent(device) ? 1 : 0;
  for (auto& device : devices_) {
    if (have >= wanted) break;
    if (all_lent(device) || !may_lend_all(device)) continue;
    ++have;
    for (const std::size_t b : device.units) take(berths_[b]);
  }
  if (setup_.lend != LendMode::slices) return;
  std::ptrdiff_t slices = 0;
  for (const std::size_t i : jobs_.present()) slices += berth_of_[i] || jobs_.job(i).gpus() == 0 ? 1 : 0;
  for (const auto& berth : berths_) slices -= usable(berth) ? 1 : 0;
  for (auto& berth : berths_) {
    if (slices <= 0) return;
    if (!berth.unit || berth.lent_s || berth.speed <= 0 || !lending_->may_lend(*berth.unit)) continue;
    --slices;
    take(berth);
  }
}

void TrainingFleet::take(Berth& berth) {
  if (berth.lent_s || !lending_->lend(*berth.unit)) return;
  berth.lent_s = now_s_;
  ++result_.leases;
  dirty_ = true;
}

bool TrainingFleet::all_lent(const Device& device) const {
  return std::ranges::all_of(device.units, [&](std::size_t b) { return berths_[b].lent_s.has_value(); });
}

bool TrainingFleet::may_lend_all(const Device& device) const {
  return std::ranges::all_of(device.units, [&](std::size_t b) { return lending_->may_lend(*berths_[b].unit); });
}

bool TrainingFleet::usable(const Berth& berth) const {
  return setup_.lend == LendMode::slices && berth.speed > 0 && !devices_[berth.device].whole &&
         (!berth.unit || berth.lent_s);
}

// ---- Rounds ----

std::vector<int> TrainingFleet::whole_gpus() const {
  std::vector<int> gpus(static_cast<std::size_t>(nodes_), 0);
  for (const auto& device : devices_) gpus[static_cast<std::size_t>(device.node)] += device.whole ? 1 : 0;
  return gpus;
}

std::vector<int> TrainingFleet::used_gpus() const {
  std::vector<int> gpus(static_cast<std::size_t>(nodes_), 0);
  for (const std::size_t i : jobs_.present()) {
    if (berth_of_[i]) continue;
    for (const auto& share : jobs_.job(i).allocation()) gpus[static_cast<std::size_t>(share.node)] += share.gpus;
  }
  return gpus;
}

// A job on a slice waits for GPUs as far as allocators are concerned.
std::vector<train::JobView> TrainingFleet::views_of(const std::vector<std::size_t>& jobs) const {
  auto views = jobs_.views_of(jobs, now_s_);
  for (std::size_t k = 0; k < jobs.size(); ++k) {
    if (berth_of_[jobs[k]]) views[k].current = &kNoGpus;
  }
  return views;
}

void TrainingFleet::hold_round() {
  last_round_s_ = now_s_;
  dirty_ = false;
  ++result_.rounds;
  for (auto& device : devices_) {
    if (device.whole || !all_lent(device)) continue;
    device.whole = true;
    for (const std::size_t b : device.units) empty(berths_[b]);
    for (const std::size_t b : device.uncut) empty(berths_[b]);
  }
  const auto active = jobs_.ranked();
  const auto views = views_of(active);
  const auto gpus = whole_gpus();
  const auto allocations = allocator_->allocate({.now_s = now_s_,
                                                 .interval_s = setup_.interval_s,
                                                 .gpus_per_node = setup_.gpus_per_node,
                                                 .gpus_free = gpus,
                                                 .jobs = views});
  train::free_beside(gpus, allocations);
  for (std::size_t k = 0; k < active.size(); ++k) {
    if (berth_of_[active[k]] && allocations[k].empty()) continue;
    leave_berth(active[k]);
    jobs_.reallocate(active[k], allocations[k]);
  }
  return_surplus();
  fill_berths(active);
}

void TrainingFleet::empty(Berth& berth) {
  if (berth.job) leave_berth(*berth.job);
}

// Jobs without GPUs run on slices: who has had least gets the fastest.
void TrainingFleet::fill_berths(const std::vector<std::size_t>& active) {
  std::vector<std::size_t> open;
  for (std::size_t b = 0; b < berths_.size(); ++b) {
    if (usable(berths_[b]) && !berths_[b].job) open.push_back(b);
  }
  std::ranges::stable_sort(open, std::greater{}, [&](std::size_t b) { return berths_[b].speed; });
  std::size_t next = 0;
  for (const std::size_t i : active) {
    if (jobs_.job(i).gpus() > 0) continue;
    if (next == open.size()) break;
    Berth& berth = berths_[open[next]];
    jobs_.reallocate(i, {{devices_[berth.device].node, 1}});
    berth.job = i;
    berth_of_[i] = open[next++];
    slow_[i] = 1 - berth.speed;
  }
  // Nobody is left who could use the others, unless they are the first slices of a GPU that is to come whole.
  for (; next < open.size(); ++next) {
    Berth& berth = berths_[open[next]];
    if (!may_lend_all(devices_[berth.device])) give_back(berth);
  }
}

// GPUs that no job uses go back where there are more than all jobs together could use.
void TrainingFleet::return_surplus() {
  int surplus = -wanted_gpus();
  for (const auto& device : devices_) surplus += device.whole ? 1 : 0;
  auto used = used_gpus();
  for (auto& device : devices_) {
    if (!device.whole || --used[static_cast<std::size_t>(device.node)] >= 0) continue;
    if (device.units.empty() || --surplus < 0) continue;
    device.whole = false;
    for (const std::size_t b : device.units) give_back(berths_[b]);
  }
}

int TrainingFleet::wanted_gpus() const {
  int wanted = 0;
  for (const std::size_t i : jobs_.present()) wanted += jobs_.job(i).replicas_max();
  return wanted;
}

// ---- Books ----

Ownership TrainingFleet::ownership() const {
  Ownership now;
  auto used = used_gpus();
  for (const auto& device : devices_) {
    if (!device.whole) continue;
    int& here = used[static_cast<std::size_t>(device.node)];
    (here > 0 ? now.training : now.free) += 1;
    --here;
  }
  for (const auto& berth : berths_) {
    if (devices_[berth.device].whole) continue;
    if (berth.job) {
      now.training += berth.weight;
    } else if (berth.unit && !berth.lent_s) {
      add_state(lending_->state(*berth.unit), berth.weight, now);
    }
  }
  now.free = result_.gpus - now.training - now.running - now.guarded - now.asleep;
  return now;
}

void TrainingFleet::add_state(sched::LeaseState state, double weight, Ownership& now) {
  switch (state) {
    case sched::LeaseState::running: now.running += weight; break;
    case sched::LeaseState::guarded:
    case sched::LeaseState::recalling: now.guarded += weight; break;
    case sched::LeaseState::asleep:
    case sched::LeaseState::lending: now.asleep += weight; break;
    case sched::LeaseState::lent:
    case sched::LeaseState::away: break;
  }
}

// Adds what has passed to the step of the time line, and closes it when it is full.
void TrainingFleet::count(double until_s) {
  const Ownership now = ownership();
  const double seconds = until_s - now_s_;
  const auto add = [&](Ownership& sum, double weight) {
    sum.training += now.training * weight;
    sum.running += now.running * weight;
    sum.guarded += now.guarded * weight;
    sum.asleep += now.asleep * weight;
    sum.free += now.free * weight;
  };
  add(step_, seconds);
  add(result_.gpu_hours, seconds / 3600);
  if (until_s - step_.at_s < step_s_) return;
  const double passed = until_s - step_.at_s;
  result_.timeline.push_back({step_.at_s, step_.training / passed, step_.running / passed, step_.guarded / passed,
                              step_.asleep / passed, step_.free / passed});
  step_ = {};
  step_.at_s = std::round(until_s * 1e6) / 1e6;  // What a product of nanoseconds adds is no time.
  if (result_.timeline.size() < kStepsMax) return;
  result_.timeline = coarser(result_.timeline, step_.at_s);
  step_s_ *= 2;
}

void TrainingFleet::check() const {
  const auto gpus = whole_gpus();
  const auto used = used_gpus();
  for (std::size_t n = 0; n < gpus.size(); ++n) TANGRAM_CHECK(used[n] <= gpus[n], "no GPU is owned twice");
  std::set<std::size_t> jobs;
  for (const auto& berth : berths_) {
    if (!berth.job) continue;
    TANGRAM_CHECK(usable(berth), "a job runs only on a slice that is lent");
    TANGRAM_CHECK(jobs.insert(*berth.job).second, "a job runs on one slice");
  }
}

TrainingResult TrainingFleet::result() const {
  TrainingResult result = result_;
  for (std::size_t i = 0; i < jobs_.count(); ++i) {
    if (jobs_.job(i).done()) {
      result.jcts_s.push_back(jobs_.completion_times_s()[i]);
    } else {
      result.unfinished.push_back({jobs_.asked(i).name, jobs_.asked(i).replicas});
    }
  }
  for (const double jct : result.jcts_s) result.jct_mean_s += jct / static_cast<double>(result.jcts_s.size());
  result.jct_p50_s = quantile_nearest_rank(result.jcts_s, 0.5);
  result.jct_p99_s = quantile_nearest_rank(result.jcts_s, 0.99);
  result.restarts_per_job = jobs_.restarts_per_job();
  TANGRAM_CHECK(leases_ended_ == result.leases, "every lease ends");
  if (leases_ended_ > 0) result.lease_mean_s = lease_seconds_ / static_cast<double>(leases_ended_);
  return result;
}

std::string completion_text(const TrainingResult& training, double seconds) {
  return training.jcts_s.empty() ? "-" : fmt::format("{:.0f} s", seconds);
}

std::string ended_text(const TrainingResult& training) {
  if (training.unfinished.empty()) return "";
  return fmt::format("of the {} that ended", training.jcts_s.size());
}

std::string unfinished_text(const TrainingResult& training) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(training.unfinished.size(), kShown); ++i) {
    const auto& job = training.unfinished[i];
    const bool too_many = static_cast<double>(job.gpus_asked) > training.gpus;
    names.push_back(too_many ? fmt::format("{} (asks for {} GPUs of {:.0f})", job.name, job.gpus_asked, training.gpus)
                             : job.name);
  }
  std::string list = text::join(names, ", ");
  if (training.unfinished.size() > kShown) list += fmt::format(" and {} more", training.unfinished.size() - kShown);
  return list;
}

sim::SimulationResult simulate_with_training(const TrainingSetup& given, const TrainedFleet& fleet,
                                             sim::SimulationConfig config, TrainingResult* training) {
  constexpr double kSteps = 480;
  TrainingSetup setup = given;
  setup.seed = config.seed;
  if (setup.made_jobs) setup.jobs = jobs_of(*setup.made_jobs, setup.applications, setup.seed);
  NeedsOptions options;
  options.order = setup.lend == LendMode::slices ? KeepOrder::small_first : KeepOrder::few_devices;
  options.certify = {.seed = config.seed, .rate_scale = 1, .scheduler = config.scheduler};
  Workload scaled = fleet.workload;
  for (auto& service : scaled.services) scale_rate(service, config.rate_scale);
  auto needs = certified_needs(fleet.plan, scaled, fleet.deployment, fleet.latency, options);
  const double step_s = config.duration == Duration::max()
                            ? 60
                            : std::max(to_seconds(config.duration) / kSteps, to_seconds(config.lessee_tick));
  TrainingFleet trainer(setup, fleet.plan, std::move(needs), step_s);
  config.lessee = &trainer;
  auto result = sim::simulate(fleet.deployment, fleet.workload, config);
  *training = trainer.result();
  return result;
}

}  // namespace tangram::lab
