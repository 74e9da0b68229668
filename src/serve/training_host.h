// The processes of one elastic training job on this machine, and their connections to its coordinator.
//
// Trainers are forked from a process that has imported PyTorch (the zygote), because an import takes seconds and a fork
// milliseconds. They connect to a Unix socket and speak JSON lines (docs/reference/training-protocol.md). The state
// machine that decides is train::ElasticJob; this class gives it real time and real processes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/descriptor.h"
#include "host/event_loop.h"
#include "train/elastic_job.h"

namespace tangram::serve {

// Where a trainer runs, and what it may use there.
struct TrainerPlace {
  std::vector<int> cpus = {};  // Empty: all.
  int nice = 0;
  std::int64_t memory_mib = 0;                // The most private memory; 0: no limit.
  std::vector<std::string> environment = {};  // "NAME=value", in addition to ours.
};

struct TrainingHostOptions {
  std::string python;   // The interpreter; empty: the first on this machine that has PyTorch.
  std::string modules;  // The folder that holds the Python package tangram_elastic.
  std::string script;
  std::vector<std::string> arguments;
  std::string directory;  // Where it runs; empty: here.
  int logical_workers = 8;
  int threads = 1;         // Of each trainer. Other numbers may change the last bits of a result.
  std::string folder;      // For the socket and the log; it exists and is ours.
  std::string checkpoint;  // Where the state is saved; a job whose trainers are all gone begins there.
  std::string park;  // In memory: where the last trainer saves the state before it leaves. We copy it to `checkpoint`.
  int nice = 0;      // Of all trainers, added to ours.
  double checkpoint_every_s = 0;  // 0: only when the last trainer leaves.
  bool check_state = false;       // Trainers say a checksum of their state at each generation.
  bool show_output = false;       // What trainers print goes to our output instead of the log.
  train::ElasticJobConfig job;
};

// The first of python3 on PATH and /usr/bin/python3 that has PyTorch. Error: neither has.
Result<std::string> find_python_with_torch(const std::string& wanted);
// The folder with the Python package, beside the program or in the source tree. Error: it is not there.
Result<std::string> find_training_modules();

// What happens in a job, for those who measure or report it.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void on_ready(TimePoint, train::TrainerId) {}
  virtual void on_entered(TimePoint, train::TrainerId, train::Generation) {}
  virtual void on_step(TimePoint, train::TrainerId, train::Generation, std::int64_t /*step*/, double /*loss*/) {}
  virtual void on_state(train::TrainerId, train::Generation, std::int64_t /*step*/, const std::string& /*checksum*/) {}
  virtual void on_gone(TimePoint, train::TrainerId) {}
  virtual void on_done(train::TrainerId, std::int64_t /*step*/, const std::string& /*checksum*/) {}
  virtual void on_saved(std::int64_t /*step*/) {}
};

class TrainingHost final : private train::TrainerLinks {
 public:
  // Starts the zygote. Errors: no Python with PyTorch, a socket or process that cannot be made.
  static Result<std::unique_ptr<TrainingHost>> start(const TrainingHostOptions& options, TrainingObserver& observer);
  // Kills what is left.
  ~TrainingHost() override;

  // Forks a trainer, which becomes a member or a spare by itself.
  train::TrainerId spawn(const TrainerPlace& place = {});
  // Asks it to leave; it is killed after this time. TrainingObserver::on_gone answers, also if it never connects.
  void recall(train::TrainerId trainer, Duration at_most);
  // SIGKILL, or SIGSTOP, as a test does it.
  void kill_trainer(train::TrainerId trainer);
  void stop_trainer(train::TrainerId trainer);
  // Waits for the next events, at most until then, and handles them.
  void work(TimePoint until);
  // Any thread: ends work() early.
  void wake() { loop_.wake(); }

  TimePoint now() const { return clock_.now(); }
  train::ElasticJob& job() { return *job_; }
  // Started and not gone, ready or not.
  std::size_t processes() const { return connections_.size() + orders_.size(); }
  // Why the job cannot go on: the script was refused or failed, or the zygote is gone.
  const std::optional<Error>& problem() const { return problem_; }

 private:
  class Connection;
  class Listener;
  // A trainer that is forked, or about to be, and has not connected.
  struct Order {
    train::TrainerId trainer;
    std::string text;  // What the zygote was told.
    TimePoint since;
  };
  bool forget_order(train::TrainerId trainer);

  TrainingHost(const TrainingHostOptions& options, TrainingObserver& observer);
  Result<Nothing> open();
  Result<Nothing> start_zygote();
  void accept_all();
  void handle(Connection& connection, const std::string& line);
  // The connection has ended: its process has, or will soon.
  void lose(Connection& connection);
  // Starts another zygote for one that was killed; a few times, as it may be killed for the memory that it takes.
  void watch_zygote();
  // Gives up trainers that were ordered and have not connected in time.
  void watch_orders();
  // A trainer has ended before it joined. Several in a row end the job.
  void count_early_death();
  void send_order(const Order& order);
  // Copies what was parked to the checkpoint.
  void keep_parked();
  Connection* find(train::TrainerId trainer);
  // The last lines that trainers printed, for messages.
  std::string log_tail() const;

  void prepare(train::TrainerId to, const train::TrainingGroup& group) override;
  void enter(train::TrainerId to, train::Generation generation) override;
  void answer(train::TrainerId to, train::Generation generation, std::string_view key, std::string_view value) override;
  void stop(train::TrainerId to) override;
  void fence(train::TrainerId trainer) override;

  TrainingHostOptions options_;
  TrainingObserver& observer_;
  host::EventLoop loop_;
  host::LiveClock clock_;
  std::string socket_path_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Order> orders_;
  int zygote_deaths_ = 0;                          // Since a trainer has connected.
  bool zygote_forks_ = false;                      // A trainer of this zygote has connected.
  int early_deaths_ = 0;                           // In a row: trainers that ended before they joined.
  std::vector<std::unique_ptr<Connection>> lost_;  // Until the event that lost them is handled.
  host::Descriptor zygote_input_;
  pid_t zygote_ = -1;
  std::unique_ptr<train::ElasticJob> job_;
  std::uint32_t next_trainer_ = 0;
  std::optional<Error> problem_;
};

}  // namespace tangram::serve
