// Elastic training beside inference, in virtual time.
//
// The simulation owns the clock and calls on_tick(). Everything that training has comes from three places: devices on
// which the plan puts no replica (always training's own), slots on slices that inference lends, and slots that the plan
// leaves uncut. A device whose lendable slots are all lent is joined into one whole GPU, because allocators know whole
// GPUs only.
//
// Invariants, checked at the end of every tick: the jobs of a node use no more GPUs than the node has whole, and a slot
// has at most one job, a job at most one slot. Example: a device with the slices 4g and 3g serves one service. At night
// the service needs the 3g only, so a job runs on the 4g slot; later the 3g is lent as well, the device is joined, and
// the allocator can give it to any job.

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

// JobView holds a pointer to the current allocation, so the empty one has to outlive every view.
const train::Allocation kNoGpus;

// The allocator of the setup. The cost of a full restart is what it weighs a change of GPUs against.
std::unique_ptr<train::Allocator> allocator_of(const TrainingSetup& setup) {
  const auto* info = train::find_allocator(setup.allocator);
  TANGRAM_CHECK(info != nullptr, "the allocator is one of the list");
  train::AllocatorOptions options;
  options.seed = setup.seed;
  options.restart_s = setup.restart_cost.full_s;
  return info->make(options);
}

// How fast training runs on a slice, in parts of a whole GPU: as measured, or else the share of its compute slices.
double speed_of_slice(const TrainingSetup& setup, const MigProfile& profile, const Geometry& geometry) {
  if (setup.slice_speeds.empty()) {
    int whole = 1;
    for (const auto& other : geometry.profiles) whole = std::max(whole, other.compute_slices);
    return static_cast<double>(profile.compute_slices) / whole;
  }
  const auto found = setup.slice_speeds.find(profile.compute_slices);
  // Speeds were measured, and none on a slice of this size: no training model fits there, so the slot takes no job.
  return found == setup.slice_speeds.end() ? 0 : found->second;
}

// Adds a slot for each slice that can be cut from what the plan leaves uncut of a device. Such a slot has no unit of
// sched::Lending: inference cannot take it back.
void add_uncut(const TrainingSetup& setup, const Plan& plan, std::size_t device,
               std::vector<control::TrainingSlots::Slot>& slots) {
  const auto& geometry = plan.devices[device].geometry;
  std::map<int, double> speeds = setup.slice_speeds;
  for (const auto& profile : geometry.profiles) {
    // A measured speed wins over the share of compute slices.
    speeds.try_emplace(profile.compute_slices, speed_of_slice(setup, profile, geometry));
  }
  for (const auto& slice : leftover_slices(plan.devices[device], speeds).slices) {
    const MigProfile& profile = geometry.profiles[slice.profile];
    slots.push_back({std::nullopt, device, speed_of_slice(setup, profile, geometry),
                     static_cast<double>(profile.units) / geometry.units});
  }
}

// A slot for each slice that can be lent, then one for each slice that fits into what the plan leaves uncut beside
// them. A device without replicas is training's own and needs no slots: it is a whole GPU from the start.
std::vector<control::TrainingSlots::Slot> slots_of(const TrainingSetup& setup, const Plan& plan,
                                                   const std::vector<sched::Lending::Unit>& units) {
  std::vector<control::TrainingSlots::Slot> slots;
  std::set<std::size_t> serving;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::size_t device = units[u].device.index();
    const auto& geometry = plan.devices[device].geometry;
    serving.insert(device);
    slots.push_back(
        {u, device, speed_of_slice(setup, geometry.profiles[units[u].slice.profile], geometry), units[u].weight});
  }
  // Where only whole GPUs are lent, no job may run on a part of a device, so the uncut rest is of no use.
  if (setup.lend != LendMode::slices) return slots;
  for (const std::size_t device : serving) add_uncut(setup, plan, device, slots);
  return slots;
}

// Books a slice under what inference does with it. `lent` and `away` add nothing here: inference cannot use such a
// slice, and ownership() counts it as free unless a job is on it.
void add_state(sched::LeaseState state, double weight, Ownership& now) {
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

// Tables of needs are certified for the rates that will be simulated, so the scale of the run goes into the service.
// Bursts, traces and closed loops stay as they are: they get an empty table anyway.
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
      // 64 is the largest number of replicas for which step times were measured.
      jobs_({.learn_together = true,
             .keeps_batches = allocator_->keeps_batches(),
             .replicas_max = 64,
             .restart = setup.restart}),
      pace_(setup.interval_s),
      timeline_(step_s) {
  for (const auto& job : setup_.jobs) {
    const auto cost = setup_.restart_costs.find(job.application);
    jobs_.add(setup_.applications.find(job.application)->second, job,
              cost != setup_.restart_costs.end() ? cost->second : setup_.restart_cost);
  }
}

void TrainingFleet::on_start(sched::Scheduler& scheduler) {
  // The slots refer to units of the lending, so the order of these two matters.
  lending_.emplace(scheduler, setup_.lending, needs_);
  slots_.emplace(control::TrainingSlots::Setup{.devices = plan_.devices.size(),
                                               .gpus_per_node = setup_.gpus_per_node,
                                               .jobs = jobs_.count(),
                                               .lends_slices = setup_.lend == LendMode::slices},
                 slots_of(setup_, plan_, lending_->units()));
}

// ---- Time ----

void TrainingFleet::on_tick(TimePoint at, bool traffic) {
  const double now_s = to_seconds(at);
  // The time that has passed is accounted for with the owners of before, so this comes before anything changes.
  timeline_.add(ownership(), now_s_, now_s);
  if (jobs_.advance(now_s_, now_s - now_s_, slots_->slowdowns(), [&](std::size_t i) { leave_slot(i); })) {
    pace_.mark_changed();
  }
  now_s_ = now_s;
  if (jobs_.admit(now_s_)) pace_.mark_changed();
  if (traffic) traffic_end_s_ = now_s_;
  // A job that can never end would keep the simulation running for ever, so training stops a limited time after the
  // last request.
  over_ = jobs_.left() == 0 || now_s_ > traffic_end_s_ + setup_.overtime_s;
  lending_->on_tick(at);
  end_leases();
  // Leases that inference ended are closed by now, so what is asked for below does not count GPUs that are gone.
  if (over_ || jobs_.present().empty()) {
    return_everything();
  } else {
    ask_for_leases();
    if (pace_.due(now_s_)) hold_round();
  }
  check();
}

bool TrainingFleet::busy() const {
  // A lease that is still open has to come back before the run ends: result() checks that every lease has ended.
  if (!over_) return true;
  return std::ranges::any_of(slots_->slots(), [&](const control::TrainingSlots::Slot& slot) {
    if (!slot.unit) return false;
    const auto state = lending_->state(*slot.unit);
    return state == sched::LeaseState::lent || state == sched::LeaseState::lending ||
           state == sched::LeaseState::recalling;
  });
}

// ---- Leases ----

void TrainingFleet::end_leases() {
  for (std::size_t i = 0; i < slots_->slots().size(); ++i) {
    const auto& slot = slots_->slots()[i];
    // A slot that is lent has a unit: uncut slots never begin a lease.
    if (!slot.lent_since_s || lending_->state(*slot.unit) == sched::LeaseState::lent) continue;
    slots_->end_lease(i, now_s_);
    if (slot.job) {
      ++reclaims_;
      leave_slot(*slot.job);
    }
    const auto& device = slots_->devices()[slot.device];
    // One slice of a whole GPU is needed again. The device is a GPU no longer, and the node has one GPU less; its other
    // slices stay lent and can serve as slots.
    if (device.whole) {
      slots_->set_whole(slot.device, false);
      shrink(device.node);
    }
    pace_.mark_changed();
  }
}

void TrainingFleet::give_back(std::size_t i) {
  const auto& slot = slots_->slots()[i];
  // An uncut slot belongs to training; there is nothing to return.
  if (!slot.unit) return;
  if (slot.lent_since_s) slots_->end_lease(i, now_s_);
  lending_->recall(*slot.unit);
}

void TrainingFleet::leave_slot(std::size_t job) {
  if (!slots_->slot_of(job)) return;
  slots_->leave(job);
  // JobTable::end takes the allocation of a job that has ended.
  if (!jobs_.job(job).done()) jobs_.reallocate(job, {});
}

void TrainingFleet::shrink(int node) {
  const auto active = jobs_.ranked();
  const auto views = views_of(active);
  const int left = slots_->whole_gpus()[static_cast<std::size_t>(node)];
  // Each step takes one GPU from one job, so a job that loses several appears several times and its last allocation
  // counts.
  for (const auto& step : control::shrink_node(node, left, views, static_cast<int>(plan_.devices.size()))) {
    ++reclaims_;
    jobs_.reallocate(active[step.job], step.allocation);
  }
}

void TrainingFleet::return_everything() {
  for (const std::size_t i : jobs_.present()) {
    leave_slot(i);
    jobs_.reallocate(i, {});
  }
  for (std::size_t i = 0; i < slots_->slots().size(); ++i) give_back(i);
  for (std::size_t d = 0; d < slots_->devices().size(); ++d) {
    // Training's own devices stay whole GPUs; all others become devices of inference again.
    slots_->set_whole(d, slots_->devices()[d].lendable.empty());
  }
}

void TrainingFleet::ask_for_leases() {
  const auto lendable = may_lend();
  // Whole GPUs come first. A slot taken for one job could be the slice that a whole GPU still lacks.
  for (const std::size_t d : control::gpus_to_ask_for(*slots_, wanted_gpus(), lendable)) {
    for (const std::size_t i : slots_->devices()[d].lendable) take(i);
  }
  int without_gpu = 0;
  for (const std::size_t i : jobs_.present()) without_gpu += slots_->slot_of(i) || jobs_.job(i).gpus() == 0 ? 1 : 0;
  for (const std::size_t i : control::slots_to_ask_for(*slots_, without_gpu, lendable)) take(i);
}

void TrainingFleet::take(std::size_t i) {
  const auto& slot = slots_->slots()[i];
  // lend() answers false while a batch still runs on the slice. The next tick asks again.
  if (slot.lent_since_s || !lending_->lend(*slot.unit)) return;
  slots_->begin_lease(i, now_s_);
  pace_.mark_changed();
}

control::MayLend TrainingFleet::may_lend() const {
  control::MayLend may_lend;
  for (const auto& slot : slots_->slots()) may_lend.push_back(slot.unit && lending_->may_lend(*slot.unit));
  return may_lend;
}

// ---- Rounds ----

std::vector<int> TrainingFleet::used_gpus() const {
  std::vector<int> gpus(static_cast<std::size_t>(slots_->nodes()), 0);
  for (const std::size_t i : jobs_.present()) {
    if (slots_->slot_of(i)) continue;
    for (const auto& share : jobs_.job(i).allocation()) gpus[static_cast<std::size_t>(share.node)] += share.gpus;
  }
  return gpus;
}

std::vector<train::JobView> TrainingFleet::views_of(const std::vector<std::size_t>& jobs) const {
  auto views = jobs_.views_of(jobs, now_s_);
  for (std::size_t k = 0; k < jobs.size(); ++k) {
    // JobTable gives a job on a slot one GPU of its node. Allocators must not count it as a GPU that the job already
    // holds: the slot is none of the GPUs that they share out.
    if (slots_->slot_of(jobs[k])) views[k].current = &kNoGpus;
  }
  return views;
}

int TrainingFleet::wanted_gpus() const {
  int wanted = 0;
  // Not what jobs asked for, but what elastic jobs could use at most.
  for (const std::size_t i : jobs_.present()) wanted += jobs_.job(i).replicas_max();
  return wanted;
}

void TrainingFleet::hold_round() {
  pace_.hold(now_s_);
  join_whole_gpus();
  const auto active = jobs_.ranked();
  const auto views = views_of(active);
  const auto gpus = slots_->whole_gpus();
  const auto allocations = allocator_->allocate({.now_s = now_s_,
                                                 .interval_s = setup_.interval_s,
                                                 .gpus_per_node = setup_.gpus_per_node,
                                                 .gpus_free = gpus,
                                                 .jobs = views});
  // Called for its check: it stops the program if the allocator gave a GPU to two jobs.
  train::free_beside(gpus, allocations);
  for (std::size_t k = 0; k < active.size(); ++k) {
    // A job that gets no GPU stays on its slot: leaving it would cost a restart.
    if (slots_->slot_of(active[k]) && allocations[k].empty()) continue;
    // First off the slot, then onto the GPUs, so that the job is never on both.
    leave_slot(active[k]);
    jobs_.reallocate(active[k], allocations[k]);
  }
  // Only after the allocations are applied is it known which GPUs no job uses.
  return_surplus();
  fill_slots(active);
}

void TrainingFleet::join_whole_gpus() {
  for (std::size_t d = 0; d < slots_->devices().size(); ++d) {
    const auto& device = slots_->devices()[d];
    if (device.whole || !slots_->all_lent(d)) continue;
    slots_->set_whole(d, true);
    // The uncut slots of the device are part of the whole GPU, too, so jobs leave both kinds of slots.
    for (const auto* list : {&device.lendable, &device.uncut}) {
      for (const std::size_t i : *list) {
        if (const auto job = slots_->slots()[i].job) leave_slot(*job);
      }
    }
  }
}

void TrainingFleet::return_surplus() {
  for (const std::size_t d : control::surplus_gpus(*slots_, wanted_gpus(), used_gpus())) {
    slots_->set_whole(d, false);
    for (const std::size_t i : slots_->devices()[d].lendable) give_back(i);
  }
}

void TrainingFleet::fill_slots(const std::vector<std::size_t>& active) {
  std::vector<std::size_t> waiting;
  for (const std::size_t i : active) {
    if (jobs_.job(i).gpus() == 0) waiting.push_back(i);
  }
  const auto filling = control::fill_slots(*slots_, waiting, may_lend());
  for (const auto& [job, slot] : filling.placements) {
    // A slot counts as one GPU of its node for the job; TrainingSlots::slowdowns() makes it as slow as the slice is.
    jobs_.reallocate(job, {{slots_->devices()[slots_->slots()[slot].device].node, 1}});
    slots_->put(job, slot);
  }
  for (const std::size_t i : filling.returned) give_back(i);
}

// ---- Books ----

Ownership TrainingFleet::ownership() const {
  Ownership now;
  auto used = used_gpus();
  for (const auto& device : slots_->devices()) {
    if (!device.whole) continue;
    int& here = used[static_cast<std::size_t>(device.node)];
    // Allocations name nodes, not devices. Which of a node's equal GPUs a job uses does not matter for the sum.
    (here > 0 ? now.training : now.free) += 1;
    --here;
  }
  for (const auto& slot : slots_->slots()) {
    if (slots_->devices()[slot.device].whole) continue;
    if (slot.job) {
      now.training += slot.weight;
    } else if (slot.unit && !slot.lent_since_s) {
      add_state(lending_->state(*slot.unit), slot.weight, now);
    }
  }
  // The rest is free: lent and unused, uncut, or being restarted. As a difference, so that the parts sum to the fleet.
  now.free = static_cast<double>(plan_.devices.size()) - now.training - now.running - now.guarded - now.asleep;
  return now;
}

void TrainingFleet::check() const {
  const auto gpus = slots_->whole_gpus();
  const auto used = used_gpus();
  for (std::size_t n = 0; n < gpus.size(); ++n) TANGRAM_CHECK(used[n] <= gpus[n], "no GPU is owned twice");
  slots_->check();
}

TrainingResult TrainingFleet::result() const {
  TrainingResult result;
  result.jobs = jobs_.count();
  result.gpus = static_cast<double>(plan_.devices.size());
  for (std::size_t i = 0; i < jobs_.count(); ++i) {
    if (jobs_.job(i).done()) {
      result.jcts_s.push_back(jobs_.completion_times_s()[i]);
    } else {
      result.unfinished.push_back({jobs_.asked(i).name, jobs_.asked(i).replicas});
    }
  }
  // Jobs that have not ended have no completion time. They are listed apart and are not part of the mean.
  for (const double jct : result.jcts_s) result.jct_mean_s += jct / static_cast<double>(result.jcts_s.size());
  result.jct_p50_s = quantile_nearest_rank(result.jcts_s, 0.5);
  result.jct_p99_s = quantile_nearest_rank(result.jcts_s, 0.99);
  result.restarts_per_job = jobs_.restarts_per_job();
  result.rounds = pace_.rounds();
  result.reclaims = reclaims_;
  result.timeline = timeline_.steps();
  result.gpu_hours = timeline_.gpu_hours();
  if (!slots_) return result;  // Nothing was run.
  const auto& leases = slots_->leases();
  // busy() keeps the simulation running until the last lease has come back.
  TANGRAM_CHECK(leases.ended == leases.begun, "every lease ends");
  result.leases = leases.begun;
  if (leases.ended > 0) result.lease_mean_s = leases.seconds / static_cast<double>(leases.ended);
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
  // The first few names are enough to find the cause; a thousand of them would hide it.
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
  // Steps of the time line, if the tick is no longer than that.
  constexpr double kSteps = 480;
  TrainingSetup setup = given;
  // One seed decides about the whole run, the synthetic jobs included.
  setup.seed = config.seed;
  if (setup.synthetic_jobs) setup.jobs = jobs_of(*setup.synthetic_jobs, setup.applications, setup.seed);
  NeedsOptions options;
  // Whole GPUs fall idle only if services give up entire devices, slices if they keep as little as possible.
  options.order = setup.lend == LendMode::slices ? KeepOrder::small_first : KeepOrder::few_devices;
  // The rates of `scaled` contain the scale of the run already.
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
