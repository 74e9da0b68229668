// The training jobs of a server: who they are, which slices they have, and how far they are.
//
// The decisions are those of the simulator: sched::Lending says which slices inference does not need (by tables that
// were certified before), train::share_slices which job gets them. The desk looks four times a second, on the thread of
// the world; what it decides is a lend or a recall of the scheduler, so a recording has it.
//
// A slice goes this way: lent by the scheduler, granted to the run of a job, taken back, gone (nothing of the job runs
// there any more), returned. A recall by inference is answered by Inbox::on_returned as soon as it is gone, or at once
// if no job has it. Submissions and questions come from any thread.
//
// Invariants, with the lock held:
//  - a slice in `held_` is lent, and exactly one run has its grant;
//  - a slice whose recall is not answered is in `pending` of what holds it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host/log.h"
#include "host/mutex.h"
#include "sched/lending.h"
#include "serve/call.h"
#include "serve/inbox.h"
#include "serve/training_run.h"
#include "serve/training_store.h"

namespace tangram::serve {

class LiveWorld;

enum class TrainingState : std::uint8_t { queued, running, parked, done, failed, cancelled };
std::string_view to_string(TrainingState state);

// A job as others see it.
struct TrainingView {
  formats::TrainingJob job;
  TrainingState state = TrainingState::queued;
  TrainingProgress progress;
  std::vector<std::string> slices;
  std::int64_t submitted_s = 0;
  double attained_s = 0;
  std::optional<double> left_s;  // Nothing: not known.
};

struct TrainingTotals {
  std::array<std::size_t, 6> jobs{};  // By state.
  std::uint64_t lends = 0;
  std::uint64_t recalls = 0;            // By inference, of slices that a job had.
  std::size_t slices = 0;               // With a job.
  std::int64_t steps = 0;               // Of all jobs.
  std::vector<double> recalls_ms = {};  // The last thousand: from the request to the slice being free.
};

class TrainingDesk final : public ControlOwner {
 public:
  struct Setup {
    std::unique_ptr<TrainingStore> store;
    std::string python;  // Empty: the first that has PyTorch.
    std::string worker_program;
    int nice = 0;                // Of what jobs run.
    bool whole_devices = false;  // A slice is lent only while inference needs no slice of its device.
    sched::LendingConfig lending;
    // The plan that is served, or is about to be, with the tables of what each service needs. Run on a thread of its
    // own, as it takes seconds.
    std::function<sched::LendingPlan()> needs;
  };
  // Where a trainer on the slice runs. The thread of the world.
  using PlaceOf = std::function<TrainerPlace(const LiveWorld&, SliceId)>;

  // Takes up the jobs that had not ended. `inbox` and `log` outlive it.
  static Result<std::unique_ptr<TrainingDesk>> open(Setup setup, Inbox& inbox, host::LogWriter& log, PlaceOf place_of);
  ~TrainingDesk() override;

  // ---- The thread of the world ----

  void arrived(const Call& call);
  // Posts the look that is due at `now`. Call it before LiveWorld::step().
  void work(TimePoint now);
  TimePoint next_due() const { return look_posted_ ? kTimeNever : next_look_; }
  // LiveWorld::lend and recall.
  void lend(SliceId slice) EXCLUDES(mutex_);
  void recall(SliceId slice) EXCLUDES(mutex_);
  // All jobs give back their slices, with their states saved; nothing is lent from now on.
  void end() EXCLUDES(mutex_);
  void on_controlled(ControlCall* call) override;

  // ---- Any thread ----

  // A job in YAML or JSON. Errors: it cannot be read, or a job of its name has not ended.
  Result<TrainingView> submit(std::string_view text) EXCLUDES(mutex_);
  Result<TrainingView> cancel(const std::string& name) EXCLUDES(mutex_);
  Result<TrainingView> view(const std::string& name) const EXCLUDES(mutex_);
  std::vector<TrainingView> list() const EXCLUDES(mutex_);
  TrainingTotals totals() const EXCLUDES(mutex_);
  const TrainingStore& store() const { return *setup_.store; }
  // Errors: there is no such job.
  Result<TrainingLogPart> log_of(const std::string& name, std::uint64_t offset) const EXCLUDES(mutex_);

 private:
  struct Job {
    TrainingRecord record;
    std::unique_ptr<TrainingRun> run;  // Null: it has ended, or is waiting to be started.
    bool had_slices = false;
    std::vector<double> steps_fitted = {};  // What `speeds` were fitted to.
    std::vector<double> speeds = {};        // With 1, 2, ... slices; empty: not known.
    bool ended() const { return record.cancelled || record.progress.done || !record.progress.problem.empty(); }
  };
  // A run whose job has ended, to be joined without the lock.
  struct Finished {
    std::string job;
    std::unique_ptr<TrainingRun> run;
  };
  // A slice with a job: all of its processes.
  struct Held {
    std::string job;
    std::uint64_t grant = 0;
    std::string name;  // Of the slice.
    std::vector<SliceId> places;
    std::vector<SliceId> pending;  // Recalled by inference.
    std::optional<std::chrono::steady_clock::time_point> recalled_at;
    bool leaving = false;  // It was asked to.
  };

  TrainingDesk(Setup setup, Inbox& inbox, host::LogWriter& log, PlaceOf place_of);
  // One look, inside step().
  void look(LiveWorld& world) EXCLUDES(mutex_);
  // Gives everything back and lends nothing, until there are tables for the plan in force.
  void stop_lending();
  // Makes or forgets the tables as the plan in force asks for it. True: slices may be lent.
  bool tables_ready(LiveWorld& world) EXCLUDES(mutex_);
  void begin_tables() EXCLUDES(mutex_);
  // How fast the job is with 1, 2, ... slices, as far as its steps were timed. Requires a run.
  static const std::vector<double>& speeds_of(Job& job);
  // True for units that training may have now, as far as inference is concerned: those that it has, and those that can
  // be lent. By unit.
  std::vector<bool> free_units() REQUIRES(mutex_);
  // Lends, grants and takes back as share_slices() says.
  void share(LiveWorld& world) EXCLUDES(mutex_);
  void grant(LiveWorld& world, Job& job, std::size_t unit) REQUIRES(mutex_);
  // Notes jobs that have ended, and starts runs of those that wait.
  void tend_jobs() EXCLUDES(mutex_);
  void start_run(Job& job) REQUIRES(mutex_);
  // From a run: nothing of the job is on the slice.
  void gone(std::uint64_t grant) EXCLUDES(mutex_);
  // From a run: the progress of the job of this number.
  void keep(const std::string& job, std::uint64_t order, const TrainingProgress& progress) EXCLUDES(mutex_);
  void attain(TimePoint now) REQUIRES(mutex_);
  TrainingView view_of(const Job& job) const REQUIRES(mutex_);
  TrainingState state_of(const Job& job) const REQUIRES(mutex_);
  Held* holder_of(SliceId slice) REQUIRES(mutex_);
  // Asks its job to leave, once.
  void take_back(Held& held) REQUIRES(mutex_);
  void log_job(const char* event, const Job& job) REQUIRES(mutex_);

  Setup setup_;
  Inbox& inbox_;
  host::LogWriter& log_;
  const PlaceOf place_of_;

  // The thread of the world.
  std::unique_ptr<sched::Lending> lending_;  // Null: no tables yet.
  std::size_t lending_services_ = 0;         // That it knows.
  std::optional<std::uint64_t> tables_for_;  // The plan, by the number of changes, for which tables are made.
  bool tables_used_ = false;                 // They were looked at: lending_ is made, or cannot be.
  ControlCall look_call_;
  bool look_posted_ = false;
  TimePoint next_look_;
  std::optional<TimePoint> looked_at_;

  host::Mutex submit_mutex_;  // One submission at a time. Taken before mutex_.
  mutable host::Mutex mutex_;
  std::map<std::string, Job> jobs_ GUARDED_BY(mutex_);
  std::map<std::uint64_t, Held> held_ GUARDED_BY(mutex_);  // By grant.
  std::optional<sched::LendingPlan> tables_ GUARDED_BY(mutex_);
  bool ending_ GUARDED_BY(mutex_) = false;
  std::uint64_t grants_ GUARDED_BY(mutex_) = 0;
  std::uint64_t orders_ GUARDED_BY(mutex_) = 0;
  TrainingTotals totals_ GUARDED_BY(mutex_);
  std::vector<Finished> finished_ GUARDED_BY(mutex_);
  std::thread tables_thread_;
};

}  // namespace tangram::serve
