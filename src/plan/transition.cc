#include "plan/transition.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plan/detail/narrator.h"
#include "plan/detail/step_order.h"

namespace tangram::plan {
namespace {

constexpr std::size_t kHelpedWorksMax = 8;    // Works for which help is sought before one of them is forced.
constexpr std::size_t kCopiesPerWorkMax = 8;  // Copies that may help out for one of them.

using Deltas = std::map<std::string, double>;

Step step_of(StepAction action, const std::string& device, const Slice& slice, const Replica& replica = {}) {
  Step step;
  step.action = action;
  step.device = device;
  step.slices = {slice};
  step.replica = replica;
  return step;
}

// What is to be done to a slice whose work is in the agenda.
struct WorkDetail {
  ReplicaChanges changes;
  bool temporary = false;
};

// Slices of one device that are cut in one go.
using ByDevice = std::map<std::size_t, std::vector<Slice>>;

class Mover {
 public:
  Mover(const Plan& before, Difference difference, const TransitionOptions& options)
      : options_(options),
        capacity_(options.capacity ? options.capacity : compute_slices_shared),
        narrator_(fleet_for(before, difference, options), options, floors_of(before, difference)) {
    result_.difference = std::move(difference);
    result_.capacity_before = capacity_before_;
    result_.capacity_after = capacity_after_;
    result_.floors = floors_;
    fill_agenda();
  }

  Transition run() {
    make_room_for_newcomers();
    bool first = true;
    while (!agenda_.finished()) {
      const WorkOrder order = find_order(agenda_, options_.states_max);
      if (first) result_.exhaustive = order.exhaustive;
      first = false;
      do_in_order(order.works);
      if (!order.complete && !help_out()) do_works({least_harmful()});
    }
    return finish();
  }

 private:
  // Sums over a whole plan, of all services of both plans.
  Deltas capacity_of_plan(const Plan& plan) const {
    Deltas sums = LiveFleet(plan).capacity(capacity_);
    for (const auto& name : names_) sums.try_emplace(name, 0);
    return sums;
  }

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

  std::size_t index_of(const std::string& service) const {
    return static_cast<std::size_t>(std::distance(names_.begin(), names_.find(service)));
  }

  std::vector<ServiceDelta> indexed(const Deltas& deltas) const {
    std::vector<ServiceDelta> list;
    for (const auto& [service, delta] : deltas) {
      if (delta != 0) list.emplace_back(index_of(service), delta);
    }
    return list;
  }

  Deltas capacity_on(const PlannedDevice& device, const Slice& slice, const std::vector<Replica>& running) const {
    Deltas sums;
    const PlannedSlice planned{slice, running};
    for (const auto& replica : running) sums[replica.service] += capacity_(device, planned, replica);
    return sums;
  }

  // Goes through the replicas' changes as the steps will, and notes the lowest point of every service on the way.
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

  void add(std::size_t device, const SliceDifference& slice) {
    const bool stays = slice.change == SliceChange::kept || slice.change == SliceChange::changed;
    if ((stays || slice.change == SliceChange::created) && slice.after.empty()) free_.emplace_back(device, slice.slice);
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

  void make_room_for_newcomers() {
    std::vector<std::size_t> made;
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      const auto fresh = agenda_.make_newcomers(device);
      made.insert(made.end(), fresh.begin(), fresh.end());
    }
    tell({}, made);
  }

  // As many works at once as the others can carry: a phase of long steps then counts once.
  void do_in_order(const std::vector<std::size_t>& order) {
    std::vector<std::size_t> batch;
    std::vector<double> missing(agenda_.capacity.size(), 0);
    for (const auto work : order) {
      const bool carried = std::ranges::all_of(agenda_.works[work].worst, [&](const ServiceDelta& delta) {
        const auto& [service, loss] = delta;
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

  // The steps of works that are done at once and of the newcomers that they make possible.
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

  std::vector<Step> cuts(StepAction action, const ByDevice& by_device) const {
    std::vector<Step> steps;
    for (const auto& [device, slices] : by_device) {
      Step step;
      step.action = action;
      step.device = devices_[device].name;
      step.slices = slices;
      std::ranges::sort(step.slices, {}, &Slice::start);
      step.temporary = std::ranges::all_of(slices, [&](const Slice& slice) {
        return temporary_.contains({device, slice.start});
      });
      steps.push_back(std::move(step));
    }
    return steps;
  }

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

  // Copies stay as long as they may be needed: they go last.
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

  // Finds room for copies of what one of the works would stop, starts them, and does the work. False if there is none.
  bool help_out() {
    if (!options_.temporaries) return false;
    auto works = open_works_by_shortfall();
    // A copy is never helped by another copy: that would have no end.
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

  // Copies that together make the work possible; none if they cannot.
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

  static bool short_of(const Agenda& agenda, const Work& work, std::size_t service) {
    for (const auto& [index, loss] : work.worst) {
      if (index == service) return !agenda.allows({work.device, work.leaves, work.slice, {{index, loss}}, {}});
    }
    return false;
  }

  // Free slices of the same profile first, then units on which the same profile can be cut, where it stands in the way
  // of the fewest newcomers.
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

  static int newcomers_blocked(const Agenda& agenda, std::size_t device, const Slice& slice) {
    int count = 0;
    for (const auto index : agenda.newcomers_of[device]) {
      const bool blocked = !fits(*agenda.geometries[device], Layout{{slice}}, agenda.newcomers[index].slice);
      count += !agenda.made[index] && blocked ? 1 : 0;
    }
    return count;
  }

  // Each copy becomes a work of its own: it has to go again.
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
  std::vector<WorkDetail> details_;                      // By work.
  std::vector<std::vector<Replica>> newcomer_replicas_;  // By newcomer.
  std::vector<std::pair<std::size_t, Slice>> free_;      // Slices without replicas in the new plan that stay or come.
  std::set<std::pair<std::size_t, std::uint16_t>> temporary_;  // Slices that neither plan has: device and start.
};

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
