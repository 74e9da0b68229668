// Orders the changes between two plans so that no service falls below its floor, where that is possible.
//
// Each slice that goes or changes is a Work; each slice that is new is a Newcomer, which is created as soon as its
// units are free. The Mover alternates three things until all is done: find an order of works that keeps every floor
// (step_order.h), perform it in batches, and, when no order is left, either start temporary copies of replicas
// elsewhere or perform the work that does least harm.
//
// Invariant: agenda_ and the narrator's fleet describe the same state after each of these. Indices agree: details_[i]
// belongs to agenda_.works[i], newcomer_replicas_[i] to agenda_.newcomers[i].
//
// Example: a service has one replica, and its device is to be recut. A copy is started on a free slice, the device is
// drained and recut, the new replica starts, and the copy is stopped.

#include "plan/transition.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plan/detail/narrator.h"
#include "plan/detail/step_order.h"

namespace tangram::plan {
namespace {

// Both limits keep the search for help short: each work and each copy scans all devices for room.
constexpr std::size_t kHelpedWorksMax = 8;    // Works to seek help for before one is forced.
constexpr std::size_t kCopiesPerWorkMax = 8;  // Copies that may be started for one of them.

// Rounding does not make a plan too small.
constexpr double kNeedTolerance = 1e-9;

using Deltas = std::map<std::string, double>;

Step step_of(StepAction action, const std::string& device, const Slice& slice, const Replica& replica = {}) {
  Step step;
  step.action = action;
  step.device = device;
  step.slices = {slice};
  step.replica = replica;
  return step;
}

// The replicas that a work of the agenda stops, retunes and loads.
struct WorkDetail {
  ReplicaChanges changes;
  bool temporary = false;
};

// The slices of one device that are destroyed or created in one step. Cutting several at once is much faster than one
// by one: on an A100 creating seven takes 132 ms, and creating one takes 52 ms.
using ByDevice = std::map<std::size_t, std::vector<Slice>>;

// Computes one transition. Used once: run() gives its result away.
class Mover {
 public:
  // The member order matters: floors_of() fills names_, capacities and floors_, which are declared before narrator_.
  Mover(const Plan& before, Difference difference, const TransitionOptions& options)
      : options_(options),
        capacity_(options.capacity ? options.capacity : compute_slices_shared),
        narrator_(fleet_for(before, difference, options), options, floors_of(before, difference)) {
    result_.difference = std::move(difference);
    result_.capacity_before = capacity_before_;
    result_.capacity_after = capacity_after_;
    result_.floors = floors_;
    for (const auto& [service, wanted] : options.demand) {
      const auto floor = floors_.find(service);
      if (floor != floors_.end() && floor->second < wanted * (1 - kNeedTolerance)) {
        result_.underserved.push_back(service);
      }
    }
    fill_agenda();
  }

  Transition run() {
    make_room_for_newcomers();
    bool first = true;
    // Ends: each turn performs at least one work that is not a copy, or only copies are left, and copies are never
    // helped by copies.
    while (!agenda_.finished()) {
      const WorkOrder order = find_order(agenda_, options_.states_max);
      // Only the first search starts from the old plan. Later ones start after a forced work, so they prove nothing
      // about the whole.
      if (first) result_.exhaustive = order.exhaustive;
      first = false;
      do_in_order(order.works);
      if (!order.complete && !help_out()) do_works({least_harmful()});
    }
    return finish();
  }

 private:
  // The capacity of each service on a whole plan; services that only the other plan has count as 0.
  Deltas capacity_of_plan(const Plan& plan) const {
    Deltas sums = LiveFleet(plan).capacity(capacity_);
    for (const auto& name : names_) sums.try_emplace(name, 0);
    return sums;
  }

  // Fills names_, both capacities and floors_. A floor is never above what either plan provides: the transition has to
  // start and end at or above it.
  const std::map<std::string, double>& floors_of(const Plan& before, const Difference& difference) {
    for (const Plan* plan : {&before, &difference.target}) {
      for (const auto& device : plan->devices) {
        for (const auto& slice : device.slices) {
          for (const auto& replica : slice.replicas) names_.insert(replica.service);
        }
      }
    }
    capacity_before_ = capacity_of_plan(before);
    capacity_after_ = capacity_of_plan(difference.target);
    for (const auto& name : names_) {
      const double both = std::min(capacity_before_.at(name), capacity_after_.at(name));
      const auto wanted = options_.demand.find(name);
      floors_[name] = wanted == options_.demand.end() ? both : std::min(both, wanted->second);
    }
    return floors_;
  }

  // The number of a service in the agenda: its position in names_, which no longer changes.
  std::size_t index_of(const std::string& service) const {
    return static_cast<std::size_t>(std::distance(names_.begin(), names_.find(service)));
  }

  // The same deltas by service number. Zeros are left out, since the search looks at every entry.
  std::vector<ServiceDelta> indexed(const Deltas& deltas) const {
    std::vector<ServiceDelta> list;
    for (const auto& [service, delta] : deltas) {
      if (delta != 0) list.emplace_back(index_of(service), delta);
    }
    return list;
  }

  // The capacity that each service has on one slice while exactly `running` run there. It depends on all of them,
  // because replicas share the slice.
  Deltas capacity_on(const PlannedDevice& device, const Slice& slice, const std::vector<Replica>& running) const {
    Deltas sums;
    const PlannedSlice planned{slice, running};
    for (const auto& replica : running) sums[replica.service] += capacity_(device, planned, replica);
    return sums;
  }

  // Simulates the replicas' changes in the order of the steps, and records the lowest capacity of every service on the
  // way. Stopping comes first, so a service that is both stopped and loaded is missing for a while: `worst` is lower
  // than `now`.
  Work work_of(std::size_t index, const Slice& slice, const ReplicaChanges& changes, bool leaves) const {
    const PlannedDevice& device = devices_[index];
    std::vector<Replica> running = changes.kept;
    running.insert(running.end(), changes.stopped.begin(), changes.stopped.end());
    for (const auto& pair : changes.retuned) running.push_back(pair.before);
    const Deltas start = capacity_on(device, slice, running);
    Deltas worst;
    Deltas now;
    const auto look = [&] {
      now = capacity_on(device, slice, running);
      for (const auto& [service, value] : start) now.try_emplace(service, 0);
      for (auto& [service, value] : now) {
        const auto old = start.find(service);
        value -= old == start.end() ? 0 : old->second;
        worst[service] = std::min(worst[service], value);
      }
    };
    for (const auto& replica : changes.stopped) {
      running.erase(std::ranges::find(running, replica));
      look();
    }
    for (const auto& pair : changes.retuned) {
      *std::ranges::find(running, pair.before) = pair.after;
      look();
    }
    for (const auto& replica : changes.loaded) {
      running.push_back(replica);
      look();
    }
    return {index, leaves, slice, indexed(worst), indexed(now)};
  }

  // Requires the difference in result_. Devices get the indices of the difference, then the spares.
  void fill_agenda() {
    for (const auto& device : result_.difference.devices) devices_.push_back(device.before);
    for (const auto& spare : options_.spares) devices_.push_back({spare.name, spare.type, spare.geometry, {}});
    agenda_.works_of.resize(devices_.size());
    agenda_.newcomers_of.resize(devices_.size());
    for (auto& device : devices_) {
      agenda_.geometries.push_back(&device.geometry);
      agenda_.layouts.push_back(layout_of(device));
    }
    for (const auto& name : names_) {
      agenda_.capacity.push_back(capacity_before_.at(name));
      agenda_.floors.push_back(floors_.at(name));
    }
    for (std::size_t i = 0; i < result_.difference.devices.size(); ++i) {
      for (const auto& slice : result_.difference.devices[i].slices) add(i, slice);
    }
  }

  // Adds one slice of the difference. Slices that are free in the new plan are remembered: a copy can use them without
  // any cut.
  void add(std::size_t device, const SliceDifference& slice) {
    const bool stays = slice.change == SliceChange::kept || slice.change == SliceChange::changed;
    if ((stays || slice.change == SliceChange::created) && slice.after.empty() && !slice.reserved) {
      free_.emplace_back(device, slice.slice);
    }
    if (slice.change == SliceChange::kept) return;
    if (slice.change == SliceChange::created) {
      agenda_.add(Newcomer{device, slice.slice, indexed(capacity_on(devices_[device], slice.slice, slice.after))});
      newcomer_replicas_.push_back(slice.after);
      return;
    }
    const ReplicaChanges changes = compare_replicas(slice.before, slice.after);
    agenda_.add(work_of(device, slice.slice, changes, slice.change == SliceChange::destroyed));
    details_.push_back({changes, false});
  }

  // New slices on units that are free from the beginning take nothing away, so they come before all works.
  void make_room_for_newcomers() {
    std::vector<std::size_t> made;
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      const auto fresh = agenda_.make_newcomers(device);
      made.insert(made.end(), fresh.begin(), fresh.end());
    }
    tell({}, made);
  }

  // Performs the works in order, as many at once as the remaining capacity allows: steps of one phase run in parallel,
  // so a phase takes as long as its longest step.
  void do_in_order(const std::vector<std::size_t>& order) {
    std::vector<std::size_t> batch;
    std::vector<double> missing(agenda_.capacity.size(), 0);
    for (const auto work : order) {
      const bool carried = std::ranges::all_of(agenda_.works[work].worst, [&](const ServiceDelta& delta) {
        const auto& [service, loss] = delta;
        // The gains of works in the same batch do not count: their replicas start only after all drains of the batch.
        const double left = agenda_.capacity[service] + missing[service] + loss;
        return loss >= 0 || left >= agenda_.floors[service] * (1 - kCapacityTolerance);
      });
      if (!carried && !batch.empty()) {
        do_works(batch);
        batch.clear();
        std::ranges::fill(missing, 0);
      }
      batch.push_back(work);
      for (const auto& [service, loss] : agenda_.works[work].worst) missing[service] += loss;
    }
    do_works(batch);
  }

  // Requires works that are not done yet. Ensures their steps and those of the newcomers for which they make room.
  void do_works(const std::vector<std::size_t>& works) {
    std::vector<std::size_t> made;
    for (const auto work : works) {
      const auto fresh = agenda_.do_work(work);
      made.insert(made.end(), fresh.begin(), fresh.end());
    }
    tell(works, made);
    for (const auto work : works) {
      if (details_[work].temporary) temporary_.erase({agenda_.works[work].device, agenda_.works[work].slice.start});
    }
  }

  // Emits the steps of works that are performed at once and of the newcomers that they make possible. The order of the
  // phases makes each step possible: a slice is empty before it is destroyed, and units are free before they are cut.
  void tell(const std::vector<std::size_t>& works, const std::vector<std::size_t>& made) {
    std::vector<Step> drain, unload, load, retune, start;
    ByDevice destroyed, created;
    for (const auto index : works) {
      const Work& work = agenda_.works[index];
      const WorkDetail& detail = details_[index];
      const std::string& name = devices_[work.device].name;
      const auto add_step = [&](std::vector<Step>& list, StepAction action, const Replica& replica) {
        list.push_back(step_of(action, name, work.slice, replica));
        list.back().temporary = detail.temporary;
      };
      for (const auto& replica : detail.changes.stopped) {
        add_step(drain, StepAction::drain, replica);
        add_step(unload, StepAction::unload, replica);
      }
      for (const auto& pair : detail.changes.retuned) {
        add_step(retune, StepAction::retune, pair.before);
        retune.back().retuned = pair.after;
      }
      for (const auto& replica : detail.changes.loaded) {
        add_step(load, StepAction::load, replica);
        add_step(start, StepAction::start, replica);
      }
      if (work.leaves) destroyed[work.device].push_back(work.slice);
    }
    for (const auto index : made) {
      const Newcomer& newcomer = agenda_.newcomers[index];
      created[newcomer.device].push_back(newcomer.slice);
      for (const auto& replica : newcomer_replicas_[index]) {
        load.push_back(step_of(StepAction::load, devices_[newcomer.device].name, newcomer.slice, replica));
        start.push_back(step_of(StepAction::start, devices_[newcomer.device].name, newcomer.slice, replica));
      }
    }
    narrator_.tell(std::move(drain));
    narrator_.tell(std::move(unload));
    narrator_.tell(cuts(StepAction::destroy, destroyed));
    narrator_.tell(cuts(StepAction::create, created));
    narrator_.tell(std::move(load));
    narrator_.tell(std::move(retune));
    narrator_.tell(std::move(start));
  }

  // One step for each device. It is temporary only if all of its slices are.
  std::vector<Step> cuts(StepAction action, const ByDevice& by_device) const {
    std::vector<Step> steps;
    for (const auto& [device, slices] : by_device) {
      Step step;
      step.action = action;
      step.device = devices_[device].name;
      step.slices = slices;
      std::ranges::sort(step.slices, {}, &Slice::start);
      step.temporary =
          std::ranges::all_of(slices, [&](const Slice& slice) { return temporary_.contains({device, slice.start}); });
      steps.push_back(std::move(step));
    }
    return steps;
  }

  // Open works, the one that misses the floors by least first; equal ones in the order of the agenda, so that results
  // are reproducible.
  std::vector<std::size_t> open_works_by_shortfall() const {
    std::vector<std::pair<double, std::size_t>> list;
    for (std::size_t i = 0; i < agenda_.works.size(); ++i) {
      if (!agenda_.done[i]) list.emplace_back(agenda_.shortfall(agenda_.works[i]), i);
    }
    std::ranges::sort(list);
    std::vector<std::size_t> works;
    for (const auto& [shortfall, work] : list) works.push_back(work);
    return works;
  }

  // The open work that breaks the floors least. Copies come last, because as long as they run they may save another
  // service.
  std::size_t least_harmful() const {
    const auto works = open_works_by_shortfall();
    const auto own = std::ranges::find_if(works, [&](std::size_t work) { return !details_[work].temporary; });
    return own == works.end() ? works.front() : *own;
  }

  // A place for a copy of a replica.
  struct Room {
    std::size_t device = 0;
    Slice slice;
    bool cut = false;  // It has to be cut first; otherwise it is a free slice of both plans.
  };
  struct Copy {
    Room room;
    Replica replica;
    Deltas gain;
  };

  // Starts copies of the replicas that one of the works would stop, then performs that work. False if there is no room
  // for enough copies.
  bool help_out() {
    if (!options_.temporaries) return false;
    auto works = open_works_by_shortfall();
    // A copy is never helped by another copy: that might not terminate.
    std::erase_if(works, [&](std::size_t work) { return details_[work].temporary; });
    if (works.size() > kHelpedWorksMax) works.resize(kHelpedWorksMax);
    for (const auto work : works) {
      const auto copies = copies_for(work);
      if (copies.empty()) continue;
      start_copies(copies);
      do_works({work});
      return true;
    }
    return false;
  }

  // Copies that together allow the work; empty if they cannot. Tries them on a copy of the agenda, so a failed attempt
  // leaves no trace.
  std::vector<Copy> copies_for(std::size_t index) const {
    const Work& work = agenda_.works[index];
    Agenda helped = agenda_;
    std::vector<Copy> copies;
    std::set<std::pair<std::size_t, std::uint16_t>> used;
    for (const auto& replica : details_[index].changes.stopped) {
      const std::size_t service = index_of(replica.service);
      while (short_of(helped, work, service) && copies.size() < kCopiesPerWorkMax) {
        const auto room = find_room(helped, work, used);
        if (!room) break;
        Copy copy{*room, replica, capacity_on(devices_[room->device], room->slice, {replica})};
        // A copy without capacity would be added again and again.
        if (copy.gain[replica.service] <= 0) break;
        for (const auto& [name, gain] : copy.gain) helped.capacity[index_of(name)] += gain;
        if (room->cut) {
          helped.layouts[room->device] =
              with_slice(devices_[room->device].geometry, std::move(helped.layouts[room->device]), room->slice);
        }
        used.emplace(room->device, room->slice.start);
        copies.push_back(std::move(copy));
      }
    }
    if (!helped.allows(work)) copies.clear();
    return copies;
  }

  // True if the work takes this one service below its floor. Other services that the work affects are left out here.
  static bool short_of(const Agenda& agenda, const Work& work, std::size_t service) {
    for (const auto& [index, loss] : work.worst) {
      if (index == service) return !agenda.allows({work.device, work.leaves, work.slice, {{index, loss}}, {}});
    }
    return false;
  }

  // A free slice of the same profile if there is one, since it needs no cut; otherwise units on which the same profile
  // can be cut, where it blocks the fewest newcomers. Requiring the same profile means the copy runs like the
  // original.
  std::optional<Room> find_room(const Agenda& agenda, const Work& work,
                                const std::set<std::pair<std::size_t, std::uint16_t>>& used) const {
    const Geometry& geometry = devices_[work.device].geometry;
    for (const auto& [device, slice] : free_) {
      const bool there = std::ranges::find(agenda.layouts[device].slices, slice) != agenda.layouts[device].slices.end();
      const bool fitting = there && slice.profile == work.slice.profile && devices_[device].geometry == geometry;
      if (!fitting || used.contains({device, slice.start})) continue;
      if (narrator_.fleet().loaded(devices_[device].name, slice).empty()) return Room{device, slice, false};
    }
    std::optional<Room> best;
    int best_blocked = 0;
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      if (devices_[device].geometry != geometry) continue;
      for (const int start : geometry.profiles[work.slice.profile].starts) {
        const Slice slice{work.slice.profile, static_cast<std::uint16_t>(start)};
        if (!fits(geometry, agenda.layouts[device], slice)) continue;
        const int blocked = newcomers_blocked(agenda, device, slice);
        if (!best || blocked < best_blocked) {
          best = Room{device, slice, true};
          best_blocked = blocked;
        }
      }
    }
    return best;
  }

  // How many slices that are still to be created on the device cannot exist beside `slice` and would have to wait for
  // it to go.
  static int newcomers_blocked(const Agenda& agenda, std::size_t device, const Slice& slice) {
    int count = 0;
    for (const auto index : agenda.newcomers_of[device]) {
      const bool blocked = !fits(*agenda.geometries[device], Layout{{slice}}, agenda.newcomers[index].slice);
      count += !agenda.made[index] && blocked ? 1 : 0;
    }
    return count;
  }

  // Each copy becomes a work of its own, because it has to be stopped again before the transition is complete.
  void start_copies(const std::vector<Copy>& copies) {
    ByDevice created;
    std::vector<Step> load, start;
    for (const auto& copy : copies) {
      const PlannedDevice& device = devices_[copy.room.device];
      if (copy.room.cut) {
        created[copy.room.device].push_back(copy.room.slice);
        temporary_.emplace(copy.room.device, copy.room.slice.start);
        agenda_.layouts[copy.room.device] =
            with_slice(device.geometry, std::move(agenda_.layouts[copy.room.device]), copy.room.slice);
      }
      for (auto [list, action] : {std::pair{&load, StepAction::load}, std::pair{&start, StepAction::start}}) {
        list->push_back(step_of(action, device.name, copy.room.slice, copy.replica));
        list->back().temporary = true;
      }
      for (const auto& [name, gain] : copy.gain) agenda_.capacity[index_of(name)] += gain;
      ReplicaChanges changes;
      changes.stopped = {copy.replica};
      agenda_.add(work_of(copy.room.device, copy.room.slice, changes, copy.room.cut));
      details_.push_back({std::move(changes), true});
      ++result_.temporaries;
    }
    narrator_.tell(cuts(StepAction::create, created));
    narrator_.tell(std::move(load));
    narrator_.tell(std::move(start));
  }

  // Requires a finished agenda. `exhaustive` is a statement about first_below, so it is false without one.
  Transition finish() {
    result_.phases = narrator_.phases();
    result_.takes = narrator_.takes();
    result_.steps = narrator_.take_steps();
    for (std::size_t i = 0; i < result_.steps.size() && !result_.first_below; ++i) {
      if (!result_.steps[i].below.empty()) result_.first_below = i;
    }
    if (!result_.first_below) result_.exhaustive = false;
    return std::move(result_);
  }

  const TransitionOptions& options_;
  Capacity capacity_;
  std::set<std::string> names_;  // Of services; their order gives them numbers.
  Deltas capacity_before_;
  Deltas capacity_after_;
  Deltas floors_;
  Narrator narrator_;
  Transition result_;
  std::vector<PlannedDevice> devices_;
  Agenda agenda_;
  std::vector<WorkDetail> details_;                            // By work.
  std::vector<std::vector<Replica>> newcomer_replicas_;        // By newcomer.
  std::vector<std::pair<std::size_t, Slice>> free_;            // Slices of the new plan without replicas.
  std::set<std::pair<std::size_t, std::uint16_t>> temporary_;  // Slices that neither plan has: device and start.
};

// Steps name devices, so a spare with the name of another device would make them ambiguous.
Result<Nothing> check_spares(const Difference& difference, const TransitionOptions& options) {
  std::set<std::string> names;
  for (const auto& device : difference.devices) names.insert(device.before.name);
  for (const auto& spare : options.spares) {
    if (names.insert(spare.name).second) continue;
    return Error{ErrorCode::invalid, fmt::format("the spare device {} has the name of another device", spare.name)};
  }
  return Nothing{};
}

}  // namespace

LiveFleet fleet_for(const Plan& before, const Difference& difference, const TransitionOptions& options) {
  LiveFleet fleet(before);
  for (std::size_t i = before.devices.size(); i < difference.devices.size(); ++i) {
    const PlannedDevice& device = difference.devices[i].before;
    fleet.add_empty(device.name, device.type, device.geometry);
    for (const auto& planned : device.slices) fleet.reserve(device.name, planned.slice);
  }
  for (const auto& spare : options.spares) fleet.add_empty(spare.name, spare.type, spare.geometry);
  return fleet;
}

Result<Transition> transition(const Plan& before, const Plan& after, const TransitionOptions& options) {
  TANGRAM_TRY(auto difference, diff(before, after, options.match));
  TANGRAM_RETURN_IF_ERROR(check_spares(difference, options));
  return Mover(before, std::move(difference), options).run();
}

std::vector<Step> rollback(const Plan& before, const Transition& transition, std::size_t done,
                           const TransitionOptions& options) {
  TANGRAM_CHECK(done <= transition.steps.size(), "only steps of the transition can be done");
  LiveFleet fleet = fleet_for(before, transition.difference, options);
  for (std::size_t i = 0; i < done; ++i) {
    const auto applied = fleet.apply(transition.steps[i]);
    TANGRAM_CHECK(applied.ok(), "the steps of a transition are possible");
  }
  Narrator narrator(std::move(fleet), options, transition.floors);
  std::vector<Step> phase;
  // Whole phases are inverted together: what could run in parallel forwards can do so backwards.
  for (std::size_t i = done; i-- > 0;) {
    phase.push_back(inverse_of(transition.steps[i]));
    if (i == 0 || transition.steps[i - 1].phase != transition.steps[i].phase) {
      narrator.tell(std::move(phase));
      phase.clear();
    }
  }
  return narrator.take_steps();
}

}  // namespace tangram::plan
