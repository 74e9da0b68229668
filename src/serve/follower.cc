// Two threads meet here. Everything of the world's (follow_, hours_, since_) is touched inside step() or between two
// steps; everything of the planner's (controller_) only by plan(). They exchange values through mail_, and through
// planned_, which belongs to the planner until it posts plan_call_ and to the world from then on, until the world
// answers.

#include "serve/follower.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "host/prompt_thread.h"
#include "serve/infer_json.h"
#include "serve/live_world.h"
#include "serve/reports.h"

namespace tangram::serve {
namespace {

// The planning thread gives way to the threads that serve. At 10, other programs on a busy machine left it a twentieth
// of a core, and a surge was met 20 s late.
constexpr int kPlannerNice = 5;
// Distinct input sizes that are counted in one look. A client may send any size that the plan takes; beyond this many,
// the size counts with the next larger one that is known.
constexpr std::size_t kSizesMax = 4096;
// How often devices are looked at, whatever the length of a look.
constexpr Duration kWatchEvery = std::chrono::seconds(1);
// How often capacity is looked at while a plan moves: all sizes that are planned for are looked up.
constexpr Duration kCapacityEvery = std::chrono::milliseconds(20);

std::string joined(const std::vector<std::string>& reasons) { return fmt::format("{}", fmt::join(reasons, "; ")); }

host::LogLine step_line(std::string_view event, const control::PlanStep& step) {
  host::LogLine line(host::LogLevel::info, event);
  line.integer("devices", step.devices)
      .integer("compute_slices", step.compute_slices)
      .integer("devices_recut", step.devices_recut)
      .integer("replicas_loaded", step.replicas_loaded)
      .text("reason", joined(step.reasons));
  return line;
}

}  // namespace

Follower::Follower(Setup setup, Inbox& inbox, host::LogWriter& log, PutInForce put_in_force)
    : inbox_(inbox),
      log_(log),
      put_in_force_(std::move(put_in_force)),
      follow_(setup.options, setup.services, setup.first),
      lost_after_(setup.lost_after),
      lost_pause_(setup.lost_pause),
      emulated_(setup.emulated),
      look_every_(setup.controller.observe_interval()),
      next_look_(kTimeZero + look_every_),
      kept_{std::move(setup.first)},
      controller_(std::move(setup.controller)) {
  if (setup.previous) kept_.push_back(*setup.previous);
  describe_ = std::move(setup.describe);
  in_force_ = std::move(setup.in_force);
  roster_ = sched::Roster::of({std::move(setup.services)});
  set_services(roster_);
  fleet_ = std::move(setup.fleet);
  // A group without a limit may have any device.
  const bool limited = std::ranges::all_of(fleet_.groups, [](const DeviceGroup& g) { return g.count.has_value(); });
  for (const auto& group : fleet_.groups) {
    const auto names = limited ? device_names(group) : std::vector<std::string>{};
    devices_.insert(devices_.end(), names.begin(), names.end());
  }
  mail_.memory = controller_.memory();
  if (const auto& past = setup.past) {
    control::Follow::Past before{
        past->moves, past->moves_undone, past->paused, past->held, past->last_reason, std::move(setup.previous), {}};
    for (const double ago_s : past->moves_ago_s) before.moves_ago.push_back(from_seconds(ago_s));
    follow_.set_past(std::move(before));
    hours_.add(past->device_hours, past->slice_hours, past->group_hours);
    auto line = step_line("follow_resumed", follow_.running().step);
    line.integer("was_moving", past->moving ? 1 : 0);
    log_.write(line);
  } else {
    auto line = step_line("follow_started", follow_.running().step);
    log_.write(line);
  }
  tell_in_force();
  if (setup.save) writer_ = std::make_unique<SavedWriter>(setup.save);
  look_call_.owner = this;
  look_call_.work = [this](LiveWorld& world, ControlCall&) { look(world); };
  plan_call_.owner = this;
  plan_call_.work = [this](LiveWorld& world, ControlCall&) { take_plan(world); };
  thread_ = std::thread([this] { plan(); });
}

Follower::~Follower() {
  {
    const host::MutexLock lock(mutex_);
    mail_.stopping = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Follower::set_services(const sched::Roster& roster) {
  names_.clear();
  size_max_.clear();
  served_.clear();
  for (const auto& service : roster.workload.services) {
    if (!roster.removed[names_.size()]) served_.push_back(names_.size());
    names_.push_back(service.name);
    size_max_.push_back(largest_size(service));
  }
  since_.services.resize(names_.size());
  if (in_force_) services_ = roster.workload.services;
}

void Follower::tell_in_force() const {
  if (in_force_) in_force_(follow_.running(), services_);
}

// ---- Counting ----

void Follower::arrived(const Call& call) {
  // A request that no plan serves asks for no device, however often it is sent.
  if (call.background > 0 || call.size > size_max_[call.model->service.index()]) return;
  control::ServiceObservation& service = since_.services[call.model->service.index()];
  ++service.arrived;
  if (service.sizes.size() < kSizesMax) {
    ++service.sizes[call.size];
    return;
  }
  const auto known = service.sizes.lower_bound(call.size);
  ++(known == service.sizes.end() ? std::prev(known) : known)->second;
}

void Follower::ended(const Call& call, const Outcome& outcome) {
  if (call.background > 0 || outcome.reason == RejectReason::too_large) return;
  control::count_outcome(since_.services[call.model->service.index()], outcome.kind);
}

// ---- The thread of the world ----

void Follower::work(LiveWorld& world, TimePoint now) {
  // Devices come and go while a plan moves, and once more when it has.
  const bool moves = world.scheduler().moving();
  if ((moves && now >= next_capacity_) || moves != moving_) {
    capacity_.note(world.scheduler().state(), world.time());
    next_capacity_ = now + kCapacityEvery;
  }
  if (moves || moving_) hours_.note(control::fleet_use_of(world.scheduler().state(), world.time()));
  moving_ = moves;
  if (!moves) notice_end_of_move(world);
  if (now >= next_watch_) {
    watch_devices(world);
    next_watch_ = now + kWatchEvery;
  }
  if (look_posted_ || now < next_look_) return;
  look_posted_ = true;
  inbox_.post(&look_call_, false);
}

void Follower::on_controlled(ControlCall* call) {
  if (call == &look_call_) look_posted_ = false;
}

void Follower::look(LiveWorld& world) {
  notice_end_of_move(world);
  if (!devices_down(world).empty()) follow_.on_slices_down();
  control::Observation seen = take_observation(world);
  // Looks stay on their grid, so that windows end where the simulator's do. Those that were missed are left out.
  next_look_ += ((world.time() - next_look_) / look_every_ + 1) * look_every_;
  // Where it cannot begin, the log has the reason, and the old plan stays.
  if (const auto back = follow_.on_observed(seen)) (void)begin(world, *back);
  // The controller makes no plan while something moves; nor does it while a plan could not be put in force.
  seen.moving |= !follow_.wants_plans(world.time());
  send(seen, false);
  save(world);
}

control::Observation Follower::take_observation(const LiveWorld& world) {
  control::Observation seen = std::exchange(since_, {});
  since_.services.resize(seen.services.size());
  seen.at = world.time();
  seen.moving = world.scheduler().moving();
  for (std::uint32_t s = 0; s < seen.services.size(); ++s) seen.services[s].waiting = waiting_of(world, ServiceId(s));
  return seen;
}

void Follower::save(const LiveWorld& world) {
  if (writer_ != nullptr) writer_->put(saved(world));
}

SavedFollowing Follower::saved(const LiveWorld& world) const {
  SavedFollowing saved;
  // Of the services that are served, in their order: a next run knows no others.
  const auto of_served = [&](const auto& by_id) {
    auto result = std::decay_t<decltype(by_id)>();
    for (const std::size_t s : served_) {
      if (s < by_id.size()) result.push_back(by_id[s]);
    }
    return result;
  };
  if (follow_.standing().plan) saved.plan = follow_.standing().plan->plan;
  saved.services = of_served(names_);
  saved.planned = of_served(follow_.standing().planned);
  if (const auto& before = follow_.previous(); before && before->standing->plan) {
    saved.previous = SavedPlan{before->standing->plan->plan, of_served(before->standing->planned),
                               fmt::format("{}", fmt::join(before->step.reasons, "; "))};
  }
  saved.moving = world.scheduler().moving();
  {
    const host::MutexLock lock(mutex_);
    saved.watches = of_served(mail_.memory);
  }
  // The planning thread has not seen services that were added a moment ago.
  saved.watches.resize(saved.services.size());
  for (auto& correction : world.scheduler().state().corrections.memory()) {
    const auto place = std::ranges::find(served_, correction.service.index());
    if (place == served_.end()) continue;
    correction.service = ServiceId(static_cast<std::uint32_t>(place - served_.begin()));
    saved.corrections.push_back(std::move(correction));
  }
  for (const Duration ago : follow_.recent_moves(world.time())) saved.moves_ago_s.push_back(to_seconds(ago));
  saved.device_hours = hours_.device_hours(world.time());
  saved.slice_hours = hours_.slice_hours(world.time());
  saved.group_hours = hours_.group_hours(world.time());
  saved.moves = follow_.moves();
  saved.moves_undone = follow_.moves_undone();
  saved.paused = follow_.paused();
  saved.held = follow_.held();
  saved.last_reason = follow_.last_reason();
  return saved;
}

std::set<std::string> Follower::devices_down(const LiveWorld& world) const {
  const sched::State& state = world.scheduler().state();
  std::set<std::string> down;
  std::set<std::string> there;
  for (const auto& slice : state.slices) {
    if (slice.status == sched::SliceStatus::gone) continue;
    const std::string& name = state.deployment.devices[slice.place.device.index()].name;
    there.insert(name);
    if (slice.status == sched::SliceStatus::restarting && !slice.retiring) down.insert(name);
  }
  // The scheduler gives up a device that cannot be cut: then the plan has slices on it that do not exist.
  if (world.scheduler().moving() || !follow_.standing().plan) return down;
  for (const auto& device : follow_.standing().plan->plan.devices) {
    const bool used = std::ranges::any_of(device.slices, [](const PlannedSlice& s) { return !s.replicas.empty(); });
    if (used && !there.contains(device.name)) down.insert(device.name);
  }
  return down;
}

void Follower::watch_devices(LiveWorld& world) {
  const std::set<std::string> down = devices_down(world);
  std::erase_if(down_since_, [&](const auto& entry) { return !down.contains(entry.first); });
  for (const auto& name : down) down_since_.emplace(name, world.time());
  // A move is not disturbed: what it does about the device is over soon, and two plans do not move at once.
  if (world.scheduler().moving() || follow_.state() == control::FollowState::moving) return;
  const std::size_t before = lost_.size();
  const auto back =
      std::erase_if(lost_, [&](const auto& entry) { return may_return(world, entry.first, entry.second); });
  // What was broken, and may be tried again.
  for (auto entry = broken_.begin(); entry != broken_.end();) {
    if (!lost_.contains(entry->first)) {
      world.set_dead(entry->first, false);
      entry = broken_.erase(entry);
    } else {
      ++entry;
    }
  }
  for (const auto& [name, since] : down_since_) {
    // Where it is said that the device is gone, nobody has to wait whether its slices come back.
    if (world.is_dead(name) || world.time() - since >= lost_after_) lost_.emplace(name, world.time());
  }
  const bool again = std::exchange(retell_lost_, false) && !lost_.empty();
  if (back == 0 && lost_.size() == before && !again) return;
  std::set<std::string> names;
  for (const auto& [name, at] : lost_) names.insert(name);
  forget_lost_way_back();
  if (names.empty()) {
    host::LogLine line(host::LogLevel::info, "devices_back");
    log_.write(line);
  } else {
    log_.write(host::LogLine(host::LogLevel::warning, "devices_lost")
                   .text("devices", fmt::format("{}", fmt::join(names, " "))));
  }
  {
    const host::MutexLock lock(mutex_);
    mail_.lost = std::move(names);
    mail_.lost_at = world.time();
  }
  changed_.notify_all();
}

void Follower::forget_lost_way_back() {
  const auto& back = follow_.previous();
  if (!back || !back->standing->plan) return;
  const auto& devices = back->standing->plan->plan.devices;
  if (std::ranges::any_of(devices, [&](const auto& d) { return lost_.contains(d.name); })) follow_.on_way_back_lost();
}

// Where it can be known, at once. Elsewhere a trial says: a device that is still dead is lost again after lost_after_.
bool Follower::may_return(const LiveWorld& world, const std::string& device, TimePoint lost_at) const {
  if (emulated_) return !world.is_dead(device);
  if (const auto broken = broken_.find(device); broken != broken_.end() && broken->second) return false;
  return world.time() - lost_at >= lost_pause_;
}

// The world takes the device for dead meanwhile: its slices are neither restarted nor cut.
void Follower::on_device_news(LiveWorld& world, const DeviceNews& news) {
  const TimePoint now = world.time();
  if (news.works) {
    const auto broken = broken_.find(news.device);
    if (broken == broken_.end()) return;
    broken->second = false;
    lost_[news.device] = now - lost_pause_;  // At once, not after the pause.
  } else {
    world.set_dead(news.device, true);
    broken_[news.device] |= news.until_works;
    lost_[news.device] = now;
    retell_lost_ = true;
  }
  host::LogLine line(news.works ? host::LogLevel::info : host::LogLevel::warning,
                     news.works ? "device_works" : "device_broken");
  line.text("device", news.device);
  if (!news.works) line.text("reason", news.reason);
  log_.write(line);
  next_watch_ = now;
}

void Follower::notice_end_of_move(const LiveWorld& world) {
  if (follow_.state() != control::FollowState::moving || world.scheduler().moving()) return;
  follow_.on_moved(world.time());
  retell_lost_ = true;
  capacity_.note(world.scheduler().state(), world.time());
  for (const auto& each : capacity_.shorts()) {
    log_.write(host::LogLine(host::LogLevel::warning, "capacity_short")
                   .text("model", names_[each.service.index()])
                   .number("needed_per_s", each.needed_per_s)
                   .number("lowest_per_s", each.lowest_per_s)
                   .number("lasted_s", to_seconds(each.lasted)));
  }
  log_.write(host::LogLine(host::LogLevel::info, "follow_moved")
                 .integer("devices", static_cast<std::int64_t>(
                                         control::fleet_use_of(world.scheduler().state(), world.time()).devices)));
}

void Follower::take_plan(LiveWorld& world) {
  notice_end_of_move(world);
  control::RunningPlan planned = *std::exchange(planned_, std::nullopt);
  // Where nobody acts, the same plan comes again with every look: it is logged once.
  const bool again = follow_.proposal() && follow_.proposal()->step.devices == planned.step.devices &&
                     follow_.proposal()->step.compute_slices == planned.step.compute_slices;
  if (!again) {
    auto line = step_line("follow_planned", planned.step);
    line.text("mode", to_string(follow_.mode())).number("took_s", took_s_);
    log_.write(line);
  }
  if (const auto move = follow_.on_planned(std::move(planned), world.time(), urgent_)) {
    (void)begin(world, *move);
  }
  answer_planner();
}

Result<Nothing> Follower::begin(LiveWorld& world, const control::FollowMove& move) {
  move_reason_ = fmt::format("{}: {}.", move.undo ? "The plan before is put back" : "The traffic is followed",
                             joined(move.plan.step.reasons));
  const auto begun = put_in_force_(world, *move.plan.deployment);
  if (!begun) {
    follow_.on_failed(move, begun.error().message);
    log_.write(host::LogLine(host::LogLevel::error, "follow_not_moved").text("reason", begun.error().message));
    return begun;
  }
  const std::vector<control::ServiceDemand> planned_before = follow_.standing().planned;
  follow_.on_begun(move, world.time());
  forget_lost_way_back();
  tell_in_force();
  auto line = step_line(move.undo ? "follow_taken_back" : "follow_moving", move.plan.step);
  log_.write(line);
  hours_.note(control::fleet_use_of(world.scheduler().state(), world.time()));
  // What both plans are for: a service that is removed, or that gets less from now on, needs no more than that.
  std::vector<control::ServiceDemand> needed = follow_.standing().planned;
  for (std::size_t s = 0; s < needed.size(); ++s) {
    const double before = s < planned_before.size() ? planned_before[s].rate_per_s : 0;
    needed[s].rate_per_s = std::min(needed[s].rate_per_s, before);
  }
  capacity_.begin(std::move(needed), world.time());
  moving_ = true;
  save(world);
  const host::MutexLock lock(mutex_);
  mail_.standing = follow_.running().standing;
  return Nothing{};
}

// ---- Other services ----

Result<Nothing> Follower::prepare(const sched::Roster& roster) {
  const Error ends{ErrorCode::unavailable, "the server ends"};
  Preparation preparation{roster, {}};
  const auto before = describe_(roster_.workload);
  const auto expected = describe_(roster.workload);
  for (std::size_t s = 0; s < expected.size(); ++s) {
    // A service whose traffic is described as before keeps the forecast that was made from what arrived.
    const bool known = s < before.size() && !roster_.removed[s] && before[s] == expected[s];
    preparation.demand.push_back(known ? std::nullopt : std::optional(expected[s]));
  }
  const host::MutexLock lock(mutex_);
  if (mail_.ending) return ends;
  mail_.preparation = std::move(preparation);
  mail_.prepared.reset();
  changed_.notify_all();
  while (!mail_.prepared && !mail_.ending) changed_.wait(mutex_);
  if (!mail_.prepared) return ends;
  if (*mail_.prepared) roster_ = roster;
  return *mail_.prepared;
}

void Follower::stop_preparing() {
  {
    const host::MutexLock lock(mutex_);
    mail_.ending = true;
  }
  changed_.notify_all();
}

void Follower::plan_for(Preparation preparation) {
  before_ = controller_;
  auto made = controller_.set_roster(std::move(preparation.roster), preparation.demand);
  if (made) {
    keep(std::move(*made));
  } else {
    before_.reset();
  }
  {
    const host::MutexLock lock(mutex_);
    mail_.awaits_world = made.ok();
    mail_.prepared = made ? Result<Nothing>(Nothing{}) : Result<Nothing>(made.error());
  }
  changed_.notify_all();
}

// Somebody has asked for this: neither the mode nor a pause, a freeze or the pace stands against it.
Result<Nothing> Follower::put_prepared_in_force(LiveWorld& world, const sched::Roster& roster) {
  notice_end_of_move(world);
  const control::FollowMove move{*std::exchange(planned_, std::nullopt), false};
  const auto begun = begin(world, move);
  if (begun) {
    set_services(roster);
    follow_.on_services_changed(roster.workload.services);
    tell_in_force();
    save(world);
  } else {
    const host::MutexLock lock(mutex_);
    mail_.abandoned = true;
  }
  answer_planner();
  return begun;
}

void Follower::command(LiveWorld& world, FollowCommand command, const std::string& device, ControlCall& call) {
  notice_end_of_move(world);
  Result<Nothing> done = Nothing{};
  const auto move_if = [&](const Result<control::FollowMove>& move) {
    return move ? begin(world, *move) : Result<Nothing>(move.error());
  };
  switch (command) {
    case FollowCommand::pause: done = follow_.pause(); break;
    case FollowCommand::resume:
      done = follow_.resume();
      retell_lost_ = true;
      break;
    case FollowCommand::approve: done = move_if(follow_.approve()); break;
    case FollowCommand::undo: done = move_if(follow_.undo()); break;
    case FollowCommand::lose:
    case FollowCommand::restore:
      if (!devices_.empty() && std::ranges::find(devices_, device) == devices_.end()) {
        done = Error{ErrorCode::invalid,
                     fmt::format("the fleet has no device {}; it has {}", device, fmt::join(devices_, ", "))};
      } else if (emulated_) {
        world.set_dead(device, command == FollowCommand::lose);
        next_watch_ = world.time();
      } else {
        done = Error{ErrorCode::invalid, "only devices of an emulated fleet (--cuts emulated) are lost by command"};
      }
      break;
    case FollowCommand::now:
      done = follow_.may_ask();
      // With what was counted so far: the next look starts here.
      if (done) send(take_observation(world), true);
      break;
  }
  if (!done) {
    call.status = CallStatus::invalid;
    call.answer = error_body(done.error().message);
    return;
  }
  log_.write(host::LogLine(host::LogLevel::info, "follow_command")
                 .text("command", kFollowCommands[static_cast<std::size_t>(command)]));
  save(world);
}

FollowReport Follower::report(const LiveWorld& world) const {
  FollowReport report;
  report.mode = to_string(follow_.mode());
  report.state = to_string(follow_.state());
  report.plan_devices = follow_.running().step.devices;
  report.device_hours = hours_.device_hours(world.time());
  report.slice_hours = hours_.slice_hours(world.time());
  report.moves = follow_.moves();
  report.moves_undone = follow_.moves_undone();
  report.moving = world.scheduler().moving();
  report.last_reason = follow_.last_reason();
  if (const auto& proposal = follow_.proposal()) {
    report.proposal = FollowReport::Proposal{proposal->step.devices, proposal->step.reasons};
  }
  for (const auto& [name, at] : lost_) report.lost.push_back(name);
  for (const auto& each : capacity_.shorts()) {
    report.shorts.push_back(
        {names_[each.service.index()], each.needed_per_s, each.lowest_per_s, to_seconds(each.lasted)});
  }
  report.cost = control::cost_of(fleet_, hours_, world.time());
  if (writer_ != nullptr) report.state_problem = writer_->problem();
  const host::MutexLock lock(mutex_);
  report.plans_refused = mail_.plans_refused;
  report.refusal = mail_.refusal;
  return report;
}

// ---- The planning thread ----

void Follower::send(const control::Observation& seen, bool now) {
  {
    const host::MutexLock lock(mutex_);
    if (!mail_.seen) mail_.seen.emplace();
    control::add_to(*mail_.seen, seen);
    mail_.now |= now;
  }
  changed_.notify_all();
}

void Follower::answer_planner() {
  {
    const host::MutexLock lock(mutex_);
    mail_.standing = follow_.running().standing;
    mail_.awaits_world = false;
  }
  changed_.notify_all();
}

void Follower::keep(control::NewPlan made) {
  kept_.push_back(control::make_running_plan(std::move(made.deployment), controller_.standing(), std::move(made.step)));
  planned_ = kept_.back();
}

void Follower::free_unused() {
  std::erase_if(kept_, [](const control::RunningPlan& plan) {
    return plan.deployment.use_count() == 1 && plan.standing.use_count() == 1;
  });
}

void Follower::plan() {
  host::give_way(kPlannerNice);
  std::string told;
  while (true) {
    Mail task;
    {
      const host::MutexLock lock(mutex_);
      while (!mail_.stopping && (mail_.awaits_world || (!mail_.seen && !mail_.lost && !mail_.preparation))) {
        changed_.wait(mutex_);
      }
      if (mail_.stopping) return;
      if (std::exchange(mail_.abandoned, false)) controller_ = *before_;
      before_.reset();
      task.preparation = std::exchange(mail_.preparation, std::nullopt);
      task.standing = std::exchange(mail_.standing, nullptr);
    }
    if (task.standing) controller_.set_standing(*std::exchange(task.standing, nullptr));
    free_unused();
    if (task.preparation) {
      plan_for(std::move(*task.preparation));
      continue;
    }
    {
      const host::MutexLock lock(mutex_);
      task.seen = std::exchange(mail_.seen, std::nullopt);
      task.lost = std::exchange(mail_.lost, std::nullopt);
      task.lost_at = mail_.lost_at;
      // The loss comes first; a plan that was asked for comes with the next look.
      if (!task.lost) task.now = std::exchange(mail_.now, false);
    }
    // What was seen before services were added has no counts of them.
    if (task.seen) task.seen->services.resize(controller_.service_count());
    const auto begun = std::chrono::steady_clock::now();
    const int refused_before = controller_.plans_refused();
    std::optional<control::NewPlan> made;
    if (task.lost) made = controller_.set_lost(std::move(*task.lost), task.lost_at);
    urgent_ = made.has_value();
    if (made && task.seen) {
      // The look goes on counting, and waits for this plan.
      task.seen->moving = true;
      controller_.observe(*task.seen);
    } else if (task.seen) {
      made = task.now ? controller_.plan_now(*task.seen) : controller_.observe(*task.seen);
    }
    {
      const host::MutexLock lock(mutex_);
      mail_.plans_refused = static_cast<std::uint64_t>(controller_.plans_refused());
      mail_.refusal = controller_.refusal();
      mail_.memory = controller_.memory();
      mail_.awaits_world = made.has_value();
    }
    // Every look asks again while the fleet is too small; the log has each reason once.
    if (controller_.plans_refused() > refused_before &&
        std::exchange(told, controller_.refusal()) != controller_.refusal()) {
      log_.write(host::LogLine(host::LogLevel::warning, "follow_refused").text("reason", controller_.refusal()));
    }
    if (!made) continue;
    took_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    keep(std::move(*made));
    inbox_.post(&plan_call_);
  }
}

}  // namespace tangram::serve
