// The books of training jobs, and a look at them four times a second.
//
// Lock order: mutex_ is taken before the locks of a run and of the inbox, and is never held while a run calls back, the
// store writes, or a thread is joined. The scheduler calls lend() and recall() from inside lending_, so share() calls
// lending_ without the lock.

#include "serve/training_desk.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "base/check.h"
#include "serve/live_world.h"
#include "serve/reports.h"
#include "train/slice_shares.h"
#include "train/step_speeds.h"

namespace tangram::serve {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(250);
constexpr std::size_t kJobsMax = 1000;
// Each has a process with PyTorch, about 150 MB.
constexpr std::size_t kRunsMax = 32;
constexpr std::size_t kRecallsKept = 1000;

std::int64_t wall_seconds() { return std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1); }

Error no_such_job(const std::string& name) {
  return Error{ErrorCode::not_found, fmt::format("there is no training job '{}'", name)};
}

}  // namespace

std::string_view to_string(TrainingState state) {
  constexpr std::array<std::string_view, 6> kNames{"queued", "running", "parked", "done", "failed", "cancelled"};
  return kNames[static_cast<std::size_t>(state)];
}

TrainingDesk::TrainingDesk(Setup setup, Inbox& inbox, host::LogWriter& log, PlaceOf place_of)
    : setup_(std::move(setup)), inbox_(inbox), log_(log), place_of_(std::move(place_of)) {
  look_call_.owner = this;
  look_call_.work = [this](LiveWorld& world, ControlCall&) { look(world); };
}

Result<std::unique_ptr<TrainingDesk>> TrainingDesk::open(Setup setup, Inbox& inbox, host::LogWriter& log,
                                                         PlaceOf place_of) {
  std::unique_ptr<TrainingDesk> desk(new TrainingDesk(std::move(setup), inbox, log, std::move(place_of)));
  TANGRAM_TRY(auto records, desk->setup_.store->load());
  const host::MutexLock lock(desk->mutex_);
  for (auto& record : records) {
    desk->orders_ = std::max(desk->orders_, record.order + 1);
    Job& job = desk->jobs_[record.job.name];
    job.record = std::move(record);
    job.had_slices = job.record.progress.step > 0;
  }
  return desk;
}

TrainingDesk::~TrainingDesk() {
  if (tables_thread_.joinable()) tables_thread_.join();
  end();
  std::vector<std::unique_ptr<TrainingRun>> runs;
  {
    const host::MutexLock lock(mutex_);
    for (auto& [name, job] : jobs_) runs.push_back(std::move(job.run));
    for (auto& finished : finished_) runs.push_back(std::move(finished.run));
    finished_.clear();
  }
  runs.clear();  // Joins them; they call gone() and keep() meanwhile.
}

// ---- Jobs ----

Result<TrainingView> TrainingDesk::submit(std::string_view text) {
  TANGRAM_TRY(auto job, formats::parse_training_job({"job", std::string(text)}));
  if (job.directory.empty()) job.directory = "/";
  TrainingRecord record;
  const host::MutexLock one_at_a_time(submit_mutex_);
  // Runs of an earlier job of the name: they use its folder until they have ended.
  std::vector<std::unique_ptr<TrainingRun>> replaced;
  {
    const host::MutexLock lock(mutex_);
    const auto found = jobs_.find(job.name);
    if (found != jobs_.end() && !found->second.ended()) {
      return Error{ErrorCode::invalid,
                   fmt::format("a training job '{}' is already {}", job.name, to_string(state_of(found->second)))};
    }
    if (found == jobs_.end() && jobs_.size() >= kJobsMax) {
      return Error{ErrorCode::exhausted, fmt::format("there are {} training jobs already", kJobsMax)};
    }
    if (found != jobs_.end()) {
      replaced.push_back(std::move(found->second.run));
      jobs_.erase(found);
    }
    for (auto& finished : finished_) {
      if (finished.job == job.name) replaced.push_back(std::move(finished.run));
    }
    std::erase_if(finished_, [](const Finished& finished) { return finished.run == nullptr; });
    record.order = orders_++;
  }
  replaced.clear();
  record.job = std::move(job);
  record.submitted_s = wall_seconds();
  TANGRAM_RETURN_IF_ERROR(setup_.store->add(record));
  const host::MutexLock lock(mutex_);
  Job& added = jobs_[record.job.name];
  added.record = std::move(record);
  log_job("training_submitted", added);
  return view_of(added);
}

Result<TrainingView> TrainingDesk::cancel(const std::string& name) {
  TrainingRecord record;
  {
    const host::MutexLock lock(mutex_);
    const auto found = jobs_.find(name);
    if (found == jobs_.end()) return no_such_job(name);
    Job& job = found->second;
    if (job.ended()) {
      return Error{ErrorCode::invalid, fmt::format("training job '{}' is {} already", name, to_string(state_of(job)))};
    }
    job.record.cancelled = true;
    if (job.run != nullptr) {
      job.record.progress = job.run->progress();
      job.run->cancel();
      finished_.push_back({name, std::move(job.run)});
    }
    record = job.record;
    log_job("training_cancelled", job);
  }
  TANGRAM_RETURN_IF_ERROR(setup_.store->update(record));
  return view(name);
}

Result<TrainingView> TrainingDesk::view(const std::string& name) const {
  const host::MutexLock lock(mutex_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return no_such_job(name);
  return view_of(found->second);
}

std::vector<TrainingView> TrainingDesk::list() const {
  const host::MutexLock lock(mutex_);
  std::vector<const Job*> jobs;
  for (const auto& [name, job] : jobs_) jobs.push_back(&job);
  std::ranges::sort(jobs, {}, [](const Job* job) { return job->record.order; });
  std::vector<TrainingView> views;
  for (const Job* job : jobs) views.push_back(view_of(*job));
  return views;
}

TrainingTotals TrainingDesk::totals() const {
  const host::MutexLock lock(mutex_);
  TrainingTotals totals = totals_;
  for (const auto& [name, job] : jobs_) {
    ++totals.jobs[static_cast<std::size_t>(state_of(job))];
    totals.steps += view_of(job).progress.step;
  }
  totals.slices = held_.size();
  return totals;
}

Result<TrainingLogPart> TrainingDesk::log_of(const std::string& name, std::uint64_t offset) const {
  {
    const host::MutexLock lock(mutex_);
    if (!jobs_.contains(name)) return no_such_job(name);
  }
  return setup_.store->log_of(name, offset);
}

TrainingState TrainingDesk::state_of(const Job& job) const {
  if (job.record.cancelled) return TrainingState::cancelled;
  const TrainingProgress& progress = job.record.progress;
  if (!progress.problem.empty()) return TrainingState::failed;
  if (progress.done) return TrainingState::done;
  const auto holds = [&](const auto& held) { return held.second.job == job.record.job.name; };
  if (std::ranges::any_of(held_, holds)) return TrainingState::running;
  return job.had_slices ? TrainingState::parked : TrainingState::queued;
}

TrainingView TrainingDesk::view_of(const Job& job) const {
  TrainingView view;
  view.job = job.record.job;
  view.state = state_of(job);
  view.progress = job.run != nullptr && !job.ended() ? job.run->progress() : job.record.progress;
  view.submitted_s = job.record.submitted_s;
  view.attained_s = job.record.attained_s;
  for (const auto& [grant, held] : held_) {
    if (held.job == job.record.job.name) view.slices.push_back(held.name);
  }
  const auto& progress = view.progress;
  if (view.state == TrainingState::running && view.job.steps && progress.step_s > 0) {
    view.left_s = static_cast<double>(std::max<std::int64_t>(0, *view.job.steps - progress.step)) * progress.step_s;
  }
  return view;
}

void TrainingDesk::log_job(const char* event, const Job& job) {
  host::LogLine line(host::LogLevel::info, event);
  line.text("job", job.record.job.name).integer("step", job.record.progress.step);
  if (!job.record.progress.problem.empty()) line.text("reason", job.record.progress.problem);
  log_.write(line);
}

void TrainingDesk::start_run(Job& job) {
  const std::string name = job.record.job.name;
  TrainingRunSetup setup{job.record.job, setup_.store->folder_of(name),
                         setup_.python,  setup_.worker_program,
                         setup_.nice,    job.record.progress};
  job.run = std::make_unique<TrainingRun>(
      std::move(setup), TrainingRun::Hooks{[this](std::uint64_t grant) { gone(grant); },
                                           [this, name, order = job.record.order](const TrainingProgress& progress) {
                                             keep(name, order, progress);
                                           }});
}

// On the thread of a run.
void TrainingDesk::keep(const std::string& name, std::uint64_t order, const TrainingProgress& progress) {
  TrainingRecord record;
  {
    const host::MutexLock lock(mutex_);
    const auto found = jobs_.find(name);
    if (found == jobs_.end() || found->second.record.order != order) return;
    record = found->second.record;
    record.progress = progress;
  }
  if (const auto kept = setup_.store->update(record); !kept) {
    log_.write(host::LogLine(host::LogLevel::error, "training_not_kept")
                   .text("job", name)
                   .text("reason", kept.error().message));
  }
}

void TrainingDesk::tend_jobs() {
  const host::MutexLock lock(mutex_);
  std::size_t runs = 0;
  for (auto& [name, job] : jobs_) {
    if (job.run == nullptr) continue;
    if (!job.ended()) job.record.progress = job.run->progress();
    if (job.ended()) {
      log_job(job.record.progress.done ? "training_done" : "training_failed", job);
      // A run that has ended its job only waits for orders; it ends at once.
      job.run->cancel();
      finished_.push_back({name, std::move(job.run)});
    } else {
      ++runs;
    }
  }
  std::vector<Job*> waiting;
  for (auto& [name, job] : jobs_) {
    if (job.run == nullptr && !job.ended() && !ending_) waiting.push_back(&job);
  }
  std::ranges::sort(waiting, {},
                    [](const Job* job) { return std::pair(-job->record.job.priority, job->record.order); });
  for (Job* job : waiting) {
    if (runs++ < kRunsMax) start_run(*job);
  }
}

// ---- Slices ----

TrainingDesk::Held* TrainingDesk::holder_of(SliceId slice) {
  for (auto& [grant, held] : held_) {
    if (std::ranges::find(held.places, slice) != held.places.end()) return &held;
  }
  return nullptr;
}

void TrainingDesk::lend(SliceId) {
  const host::MutexLock lock(mutex_);
  ++totals_.lends;
}

void TrainingDesk::recall(SliceId slice) {
  const host::MutexLock lock(mutex_);
  Held* const held = holder_of(slice);
  if (held == nullptr) return inbox_.on_returned(slice);
  if (held->pending.empty()) {
    ++totals_.recalls;
    held->recalled_at = std::chrono::steady_clock::now();
  }
  held->pending.push_back(slice);
  take_back(*held);
}

// On the thread of a run.
void TrainingDesk::gone(std::uint64_t grant) {
  const host::MutexLock lock(mutex_);
  const auto found = held_.find(grant);
  if (found == held_.end()) return;
  for (const SliceId slice : found->second.pending) inbox_.on_returned(slice);
  if (found->second.recalled_at) {
    const Duration took = std::chrono::steady_clock::now() - *found->second.recalled_at;
    if (totals_.recalls_ms.size() == kRecallsKept) totals_.recalls_ms.erase(totals_.recalls_ms.begin());
    totals_.recalls_ms.push_back(to_milliseconds(took));
  }
  if (const auto job = jobs_.find(found->second.job); job != jobs_.end()) job->second.had_slices = true;
  held_.erase(found);
}

void TrainingDesk::end() {
  const host::MutexLock lock(mutex_);
  ending_ = true;
  for (auto& [grant, held] : held_) take_back(held);
}

// ---- The look ----

void TrainingDesk::arrived(const Call& call) {
  const bool known = call.model->service.index() < lending_services_;
  if (lending_ != nullptr && known && call.background == 0) lending_->on_arrival(call.model->service);
}

void TrainingDesk::work(TimePoint now) {
  if (look_posted_ || now < next_look_) return;
  next_look_ = now + kLookEvery;
  look_posted_ = true;
  inbox_.post(&look_call_, false);
}

void TrainingDesk::on_controlled(ControlCall*) { look_posted_ = false; }

void TrainingDesk::attain(TimePoint now) {
  const double seconds = looked_at_ ? to_seconds(now - *looked_at_) : 0;
  looked_at_ = now;
  for (const auto& [grant, held] : held_) {
    if (const auto job = jobs_.find(held.job); job != jobs_.end()) job->second.record.attained_s += seconds;
  }
}

void TrainingDesk::look(LiveWorld& world) {
  std::vector<std::unique_ptr<TrainingRun>> finished;
  {
    const host::MutexLock lock(mutex_);
    attain(world.time());
    // Those that were cancelled in an earlier look have ended by now, so joining them takes no time.
    for (auto& each : finished_) {
      if (each.run->over()) finished.push_back(std::move(each.run));
    }
    std::erase_if(finished_, [](const Finished& each) { return each.run == nullptr; });
  }
  finished.clear();
  tend_jobs();
  if (!tables_ready(world)) return;
  lending_->on_tick(world.time());
  share(world);
}

bool TrainingDesk::tables_ready(LiveWorld& world) {
  if (world.scheduler().moving() || world.slices_starting() > 0) {
    stop_lending();
    return false;
  }
  if (tables_for_ != world.plans_applied()) {
    stop_lending();
    {
      const host::MutexLock lock(mutex_);
      const bool busy = tables_for_.has_value() && !tables_;
      if (busy) return false;  // Tables are being made for a plan that is gone; they end soon.
      tables_.reset();
    }
    tables_for_ = world.plans_applied();
    tables_used_ = false;
    begin_tables();
    return false;
  }
  if (tables_used_) return lending_ != nullptr;
  sched::LendingPlan tables;
  {
    const host::MutexLock lock(mutex_);
    if (!tables_) return false;
    tables = *tables_;
  }
  tables_used_ = true;
  lending_services_ = tables.needs.size();
  lending_ = world.make_lending(setup_.lending, tables);
  if (lending_ == nullptr) {
    log_.write(host::LogLine(host::LogLevel::warning, "nothing_lent")
                   .text("reason", "the tables of what may be lent are not for the plan in force"));
  }
  return lending_ != nullptr;
}

void TrainingDesk::stop_lending() {
  if (lending_ == nullptr) return;
  for (std::size_t u = 0; u < lending_->units().size(); ++u) lending_->recall(u);
  lending_.reset();
}

void TrainingDesk::begin_tables() {
  if (tables_thread_.joinable()) tables_thread_.join();
  tables_thread_ = std::thread([this] {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 10);
    const auto begin = std::chrono::steady_clock::now();
    auto tables = setup_.needs();
    std::size_t lendable = 0;
    for (const auto& needs : tables.needs) {
      if (!needs.needs.empty()) lendable += needs.slices.size() - needs.needs.front().slices;
    }
    host::LogLine line(host::LogLevel::info, "lending_tables");
    line.integer("slices_lendable_at_most", static_cast<std::int64_t>(lendable))
        .number("took_s", to_seconds(std::chrono::steady_clock::now() - begin));
    log_.write(line);
    const host::MutexLock lock(mutex_);
    tables_ = std::move(tables);
  });
}

const std::vector<double>& TrainingDesk::speeds_of(Job& job) {
  auto steps = job.run->progress().step_s_with;
  if (steps != job.steps_fitted) {
    job.speeds = train::speeds_from_steps(steps, job.record.job.logical_workers);
    job.steps_fitted = std::move(steps);
  }
  return job.speeds;
}

std::vector<bool> TrainingDesk::free_units() {
  const auto& units = lending_->units();
  std::vector<bool> free(units.size(), false);
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Held* const held = holder_of(units[u].places.front());
    using enum sched::LeaseState;
    const sched::LeaseState state = lending_->state(u);
    free[u] = held != nullptr ? !held->leaving && (!setup_.whole_devices || lending_->may_lend(u))
                              : lending_->may_lend(u) && (state == asleep || state == lent || state == lending);
  }
  if (!setup_.whole_devices) return free;
  std::set<DeviceId> needed;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (!free[u]) needed.insert(units[u].device);
  }
  for (std::size_t u = 0; u < units.size(); ++u) free[u] = !needed.contains(units[u].device);
  return free;
}

void TrainingDesk::take_back(Held& held) {
  if (std::exchange(held.leaving, true)) return;
  const auto job = jobs_.find(held.job);
  if (job != jobs_.end() && job->second.run != nullptr) job->second.run->take_back(held.grant);
}

void TrainingDesk::share(LiveWorld& world) {
  const auto& units = lending_->units();
  // Units that training may have: those that it has and keeps, and those that inference does not need.
  std::vector<std::size_t> offered;
  std::vector<std::string> owner(units.size());  // The job that has it.
  std::vector<train::SliceAsker> askers;
  std::vector<std::string> names;
  {
    const host::MutexLock lock(mutex_);
    if (ending_) return;
    const std::vector<bool> free = free_units();
    for (std::size_t u = 0; u < units.size(); ++u) {
      Held* const held = holder_of(units[u].places.front());
      if (held != nullptr && !held->leaving) owner[u] = held->job;
      if (free[u]) {
        offered.push_back(u);
      } else if (!owner[u].empty()) {
        take_back(*held);  // Another slice of its device is needed.
      }
    }
    const auto& deployment = world.scheduler().state().deployment;
    for (auto& [name, job] : jobs_) {
      if (job.run == nullptr || job.ended()) continue;
      const formats::TrainingJob& said = job.record.job;
      train::SliceAsker asker{
          .priority = said.priority,
          .attained_s = job.record.attained_s,
          .order = job.record.order,
          // A restartable job is one process on one slice.
          .min = said.elastic() ? static_cast<std::size_t>(said.slices.min) : 1,
          .max = said.elastic() ? static_cast<std::size_t>(std::min(said.slices.max, said.logical_workers)) : 1};
      if (said.deadline) asker.deadline_s = *said.deadline;
      asker.speeds = speeds_of(job);
      for (std::size_t i = 0; i < offered.size(); ++i) {
        const auto& unit = units[offered[i]];
        const auto& profile = deployment.devices[unit.device.index()].geometry.profiles[unit.slice.profile].name;
        const auto& wanted = said.slices.profiles;
        asker.fits.push_back(wanted.empty() || std::ranges::find(wanted, profile) != wanted.end());
        if (owner[offered[i]] == name) asker.has.push_back(i);
      }
      askers.push_back(std::move(asker));
      names.push_back(name);
    }
  }
  // Lent for a job that has ended, and no longer free because of another slice of its device.
  for (std::size_t u = 0; setup_.whole_devices && u < units.size(); ++u) {
    const bool is_offered = std::ranges::find(offered, u) != offered.end();
    if (!is_offered && owner[u].empty()) lending_->recall(u);
  }
  const auto shares = train::share_slices(askers, offered.size());
  std::vector<std::string> wanted(units.size());
  for (std::size_t j = 0; j < shares.size(); ++j) {
    for (const std::size_t i : shares[j]) wanted[offered[i]] = names[j];
  }
  for (const std::size_t u : offered) {
    if (owner[u] == wanted[u]) {
      // Lent for a job that has ended or wants less.
      if (wanted[u].empty() && lending_->state(u) != sched::LeaseState::asleep) lending_->recall(u);
      continue;
    }
    if (!owner[u].empty()) {
      const host::MutexLock lock(mutex_);
      if (Held* const held = holder_of(units[u].places.front())) take_back(*held);
      continue;
    }
    if (!lending_->may_lend(u) || !lending_->lend(u)) continue;
    const host::MutexLock lock(mutex_);
    const auto job = jobs_.find(wanted[u]);
    if (job != jobs_.end() && job->second.run != nullptr) grant(world, job->second, u);
  }
}

void TrainingDesk::grant(LiveWorld& world, Job& job, std::size_t unit) {
  const auto& places = lending_->units()[unit].places;
  TrainingGrant grant;
  grant.id = grants_++;
  grant.slice = slice_name(world, places.front().index());
  grant.place = place_of_(world, places.front());
  Held held;
  held.job = job.record.job.name;
  held.grant = grant.id;
  held.name = grant.slice;
  held.places = places;
  held_.emplace(grant.id, std::move(held));
  job.run->grant(std::move(grant));
}

}  // namespace tangram::serve
