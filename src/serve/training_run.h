// One training job of a server, on a thread of its own: trainers come and go as slices are granted and taken back.
//
// An elastic job is a TrainingHost, whose trainers train together. A restartable job is one process on one slice, which
// is told to end by SIGTERM and started again with the next grant. What is granted and taken back is posted from any
// thread; each grant is answered exactly once, by Hooks::gone, when nothing of the job runs on the slice any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "formats/training_job.h"
#include "host/mutex.h"
#include "serve/training_host.h"

namespace tangram::serve {

// A slice for one trainer.
struct TrainingGrant {
  std::uint64_t id = 0;  // Never used twice.
  TrainerPlace place;
  std::string slice;  // Its name.
};

struct TrainingLoss {
  std::int64_t step = 0;
  double loss = 0;
};

// How far a job is. It survives the server.
struct TrainingProgress {
  std::int64_t step = 0;
  std::int64_t steps_lost = 0;      // With everybody who had made them.
  std::int64_t steps_repeated = 0;  // Made again because a trainer died while they were made.
  std::uint64_t generation = 0;     // Over all servers.
  std::size_t members = 0;
  double step_s = 0;                 // Mean of the last steps; 0: not known.
  std::vector<double> step_s_with;   // With 1, 2, ... trainers, the median of kStepsTimed steps; 0: not known.
  std::string parameters_crc;        // Of the final state; empty before.
  std::vector<TrainingLoss> losses;  // At most kLossesMax, evenly spaced over the steps so far.
  bool done = false;
  std::string problem;  // Why it has failed; empty: it has not.
};
inline constexpr std::size_t kLossesMax = 200;
inline constexpr std::size_t kStepsTimed = 16;

struct TrainingRunSetup {
  formats::TrainingJob job;
  std::string folder;  // Of the job: socket, log, checkpoint.
  std::string python;  // As TrainingHostOptions have it, but for an empty one, which is looked up.
  std::string worker_program;
  int nice = 0;  // Of everything that the job runs.
  TrainingProgress so_far;
};

class TrainingRun {
 public:
  // Called on the thread of the run, with no lock held.
  struct Hooks {
    std::function<void(std::uint64_t grant)> gone;
    std::function<void(const TrainingProgress&)> changed;  // Something new that is worth keeping.
  };

  TrainingRun(TrainingRunSetup setup, Hooks hooks);
  // Takes everything back, has the state saved, and ends. At most a few seconds.
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // Any thread.
  void grant(TrainingGrant grant) EXCLUDES(mutex_);
  void take_back(std::uint64_t grant) EXCLUDES(mutex_);
  // Ends the job at once; its state is not kept.
  void cancel() EXCLUDES(mutex_);
  TrainingProgress progress() const EXCLUDES(mutex_);
  // It has ended, or is about to: to destroy it takes no time.
  bool over() const { return over_.load(); }

 private:
  class Elastic;
  class Restartable;
  struct TakeBack {
    std::uint64_t grant = 0;
  };
  using Order = std::variant<TrainingGrant, TakeBack>;

  void run() EXCLUDES(mutex_);
  void run_elastic() EXCLUDES(mutex_);
  void run_restartable() EXCLUDES(mutex_);
  // Waits until the trainers of a server that has died hold the job's lock no longer. False: the run is to end.
  bool await_lock() EXCLUDES(mutex_);
  void post(Order order) EXCLUDES(mutex_);
  std::vector<Order> take_orders() EXCLUDES(mutex_);
  bool stopping() const EXCLUDES(mutex_);
  bool cancelled() const EXCLUDES(mutex_);
  // Changes the progress under the lock, and tells of it.
  void change(const std::function<void(TrainingProgress&)>& edit) EXCLUDES(mutex_);
  // Answers all orders until the run is to end: a job that has ended needs no slices.
  void refuse_orders() EXCLUDES(mutex_);

  const TrainingRunSetup setup_;
  const Hooks hooks_;
  mutable host::Mutex mutex_;
  host::CondVar posted_;
  std::vector<Order> orders_ GUARDED_BY(mutex_);
  std::function<void()> wake_ GUARDED_BY(mutex_);  // Of the loop that waits for sockets; empty: posted_ is waited for.
  TrainingProgress progress_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace tangram::serve
