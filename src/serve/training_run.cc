// The thread of one training job.
//
// Time in here is that of the TrainingHost or of the steady clock: nothing that it does is an event of the world,
// except that a slice has come back, which Hooks::gone reports.

#include "serve/training_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>

#include "host/descriptor.h"
#include "worker/command_launcher.h"

namespace tangram::serve {
namespace {

using std::chrono::steady_clock;
using train::Generation;
using train::TrainerId;

constexpr Duration kTurn = std::chrono::milliseconds(100);
// How long a run that is ended waits for its trainers to leave and to save the state.
constexpr Duration kParkMax = std::chrono::seconds(8);
constexpr Duration kLockMax = std::chrono::seconds(15);
constexpr Duration kLookAgain = std::chrono::milliseconds(10);
// A recall may take two steps, since the step under way may end before the next group is built, and this.
constexpr Duration kRecallBase = std::chrono::milliseconds(250);
constexpr Duration kSaveMax = std::chrono::seconds(1);
constexpr Duration kRecallUnknown = std::chrono::seconds(2);
// Of a restartable job: SIGKILL follows SIGTERM after this, unless the job says otherwise.
constexpr Duration kGrace = std::chrono::seconds(10);
constexpr int kFailuresMax = 3;

std::string park_path(const std::string& folder) {
  std::string name = folder;
  std::ranges::replace(name, '/', '-');
  // The end of a path tells more than its beginning, and a file name may have 255 bytes.
  if (name.size() > 180) name = name.substr(name.size() - 180);
  std::error_code ignored;
  if (!std::filesystem::is_directory("/dev/shm", ignored)) return {};
  return fmt::format("/dev/shm/tangram-{}-{}.state", getuid(), name);
}

std::string absolute_in(const std::string& directory, const std::string& path) {
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

// What a job prints is kept up to here, then only the end of it.
constexpr std::uint64_t kLogMax = std::uint64_t{64} << 20;
constexpr std::size_t kLogKept = std::size_t{1} << 20;
constexpr Duration kLogLook = std::chrono::seconds(1);

// Bounds the log of a job. Those who write it append, so it can be cut under them; a line that is written at that instant
// may be lost.
class LogBound {
 public:
  explicit LogBound(std::string path) : path_(std::move(path)) {}

  // Looks once a second, however often it is called.
  void look() {
    if (steady_clock::now() < next_) return;
    next_ = steady_clock::now() + kLogLook;
    const host::Descriptor file(open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
    struct stat facts {};
    if (!file.open() || fstat(file.get(), &facts) != 0 || static_cast<std::uint64_t>(facts.st_size) <= kLogMax) return;
    std::string end(kLogKept, '\0');
    const ssize_t got = pread(file.get(), end.data(), end.size(), facts.st_size - static_cast<off_t>(kLogKept));
    end.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    if (ftruncate(file.get(), 0) != 0) return;
    host::write_all(file.get(), "[the beginning of this log was dropped]\n" + end);
  }

 private:
  const std::string path_;
  steady_clock::time_point next_;
};

// Keeps every second point when there are too many, so that they stay evenly spaced.
void add_loss(std::vector<TrainingLoss>& losses, TrainingLoss point) {
  const std::int64_t spacing = losses.size() < 2 ? 1 : losses[1].step - losses[0].step;
  if (!losses.empty() && point.step < losses.back().step + spacing) return;
  if (losses.size() == kLossesMax) {
    for (std::size_t i = 0; 2 * i < losses.size(); ++i) losses[i] = losses[2 * i];
    losses.resize(kLossesMax / 2);
  }
  losses.push_back(point);
}

}  // namespace

// ---- What both kinds share ----

TrainingRun::TrainingRun(TrainingRunSetup setup, Hooks hooks)
    : setup_(std::move(setup)), hooks_(std::move(hooks)), progress_(setup_.so_far) {
  thread_ = std::thread([this] { run(); });
}

TrainingRun::~TrainingRun() {
  {
    const host::MutexLock lock(mutex_);
    stopping_ = true;
    posted_.notify_all();
    if (wake_) wake_();
  }
  thread_.join();
}

void TrainingRun::post(Order order) {
  const host::MutexLock lock(mutex_);
  orders_.push_back(std::move(order));
  posted_.notify_all();
  if (wake_) wake_();
}
void TrainingRun::grant(TrainingGrant grant) { post(std::move(grant)); }
void TrainingRun::take_back(std::uint64_t grant) { post(TakeBack{grant}); }

void TrainingRun::cancel() {
  const host::MutexLock lock(mutex_);
  cancelled_ = stopping_ = true;
  posted_.notify_all();
  if (wake_) wake_();
}

TrainingProgress TrainingRun::progress() const {
  const host::MutexLock lock(mutex_);
  return progress_;
}

std::vector<TrainingRun::Order> TrainingRun::take_orders() {
  const host::MutexLock lock(mutex_);
  return std::exchange(orders_, {});
}

bool TrainingRun::stopping() const {
  const host::MutexLock lock(mutex_);
  return stopping_;
}

bool TrainingRun::cancelled() const {
  const host::MutexLock lock(mutex_);
  return cancelled_;
}

void TrainingRun::change(const std::function<void(TrainingProgress&)>& edit) {
  TrainingProgress changed;
  {
    const host::MutexLock lock(mutex_);
    edit(progress_);
    changed = progress_;
  }
  hooks_.changed(changed);
}

void TrainingRun::run() {
  if (await_lock()) setup_.job.elastic() ? run_elastic() : run_restartable();
  refuse_orders();
  over_ = true;
}

// The lock is only tried: the zygote takes its own, and nobody else starts trainers in the folder, which belongs to
// this server.
bool TrainingRun::await_lock() {
  const std::string path = setup_.folder + "/trainers.lock";
  const host::Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const auto until = steady_clock::now() + kLockMax;
  while (lock.open() && flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && steady_clock::now() < until) {
    if (stopping()) return false;
    std::this_thread::sleep_for(kLookAgain);
  }
  return !stopping();
}

void TrainingRun::refuse_orders() {
  while (true) {
    std::vector<Order> orders;
    {
      const host::MutexLock lock(mutex_);
      while (orders_.empty() && !stopping_) posted_.wait(mutex_);
      orders = std::exchange(orders_, {});
      if (orders.empty()) return;
    }
    for (const auto& order : orders) {
      if (const auto* granted = std::get_if<TrainingGrant>(&order)) hooks_.gone(granted->id);
    }
  }
}

// ---- Elastic jobs ----

class TrainingRun::Elastic final : public TrainingObserver {
 public:
  explicit Elastic(TrainingRun& run) : run_(run), so_far_(run.setup_.so_far), kept_at_(steady_clock::now()) {}

  Result<Nothing> drive() {
    TANGRAM_TRY(host_, start());
    {
      const host::MutexLock lock(run_.mutex_);
      run_.wake_ = [this] { host_->wake(); };
    }
    auto outcome = train();
    {
      const host::MutexLock lock(run_.mutex_);
      run_.wake_ = {};
    }
    if (outcome && run_.stopping() && !run_.cancelled()) park();
    // Kills what is left, so the slices are free.
    host_.reset();
    for (const auto& [trainer, grant] : grants_) run_.hooks_.gone(grant);
    return outcome;
  }

  void on_step(TimePoint now, TrainerId, Generation generation, std::int64_t step, double loss) override {
    if (step <= step_) return;
    if (!first_seen_) {
      // What was made after the checkpoint that this run began with.
      first_seen_ = true;
      lost_before_ = std::max<std::int64_t>(0, so_far_.step - (step - 1));
    }
    if (step == step_ + 1 && generation == generation_) time_step(now - stepped_);
    step_ = step;
    stepped_ = now;
    generation_ = generation;
    loss_ = {step, loss};
  }
  void on_gone(TimePoint, TrainerId trainer) override {
    const auto found = grants_.find(trainer);
    if (found == grants_.end()) return;
    const std::uint64_t grant = found->second;
    grants_.erase(found);
    keep(true);
    run_.hooks_.gone(grant);
  }
  void on_done(TrainerId, std::int64_t, const std::string& checksum) override {
    if (digest_.empty()) digest_ = checksum;
  }

 private:
  Result<std::unique_ptr<TrainingHost>> start() {
    const auto& job = run_.setup_.job;
    TrainingHostOptions options;
    TANGRAM_TRY(options.python, find_python_with_torch(run_.setup_.python));
    TANGRAM_TRY(options.modules, find_training_modules());
    options.script = absolute_in(job.directory, job.command[1]);
    options.arguments = job.script_arguments();
    options.directory = job.directory;
    options.logical_workers = job.logical_workers;
    options.threads = job.threads;
    options.folder = run_.setup_.folder;
    options.checkpoint =
        job.checkpoint.empty() ? run_.setup_.folder + "/state" : absolute_in(job.directory, job.checkpoint);
    options.checkpoint_every_s = job.checkpoint_every_s;
    options.park = park_path(run_.setup_.folder);
    options.nice = run_.setup_.nice;
    return TrainingHost::start(options, *this);
  }

  Result<Nothing> train() {
    LogBound log(run_.setup_.folder + "/trainers.log");
    while (!run_.stopping()) {
      log.look();
      for (auto& order : run_.take_orders()) obey(order);
      if (host_->job().state() == train::ElasticJobState::done) return finish();
      host_->work(add_saturating(host_->now(), kTurn));
      if (host_->problem()) return *host_->problem();
      if (host_->job().state() == train::ElasticJobState::failed) {
        return Error{ErrorCode::unavailable, "all trainers were lost, and the job could not go on"};
      }
      keep(false);
    }
    return Nothing{};
  }

  void obey(Order& order) {
    if (auto* granted = std::get_if<TrainingGrant>(&order)) {
      grants_[host_->spawn(granted->place)] = granted->id;
      return;
    }
    const std::uint64_t grant = std::get<TakeBack>(order).grant;
    const auto found = std::ranges::find(grants_, grant, &std::pair<const TrainerId, std::uint64_t>::second);
    if (found != grants_.end()) host_->recall(found->first, recall_max());
  }

  Duration recall_max() const {
    if (const auto& said = run_.setup_.job.recall_max_ms) return from_milliseconds(*said);
    if (steps_.empty()) return kRecallUnknown;
    // To kill the last one loses all steps since the checkpoint, so it has time to save the state.
    return 2 * *std::ranges::max_element(steps_) + kRecallBase + (grants_.size() == 1 ? kSaveMax : Duration());
  }

  // Steps of one number of trainers, once there are enough to trust their median.
  void time_step_with(std::size_t members, Duration took) {
    if (members == 0) return;
    if (members != timed_members_) {
      timed_members_ = members;
      timed_.clear();
    }
    timed_.push_back(to_seconds(took));
    if (timed_.size() < kStepsTimed) return;
    if (step_s_with_.size() < members) step_s_with_.resize(members, 0);
    std::ranges::nth_element(timed_, timed_.begin() + kStepsTimed / 2);
    step_s_with_[members - 1] = timed_[kStepsTimed / 2];
    timed_.clear();
  }

  void time_step(Duration took) {
    time_step_with(host_->job().training().size(), took);
    if (steps_.size() < kStepsTimed) {
      steps_.push_back(took);
    } else {
      steps_[next_step_++ % kStepsTimed] = took;
    }
  }

  // The others end a moment after rank 0.
  Result<Nothing> finish() {
    const TimePoint patience = add_saturating(host_->now(), std::chrono::seconds(2));
    while (host_->processes() > 0 && host_->now() < patience) host_->work(add_saturating(host_->now(), kLookAgain));
    if (host_->job().ending_lost()) {
      return Error{ErrorCode::unavailable,
                   "rank 0 died after the last step; what the script does after it may not have been done"};
    }
    run_.change([&](TrainingProgress& progress) {
      fill(progress);
      progress.done = true;
    });
    return Nothing{};
  }

  // Everybody leaves; the last one saves the state.
  void park() {
    for (auto& order : run_.take_orders()) {
      if (const auto* granted = std::get_if<TrainingGrant>(&order)) run_.hooks_.gone(granted->id);
    }
    std::vector<TrainerId> trainers;
    for (const auto& [trainer, grant] : grants_) trainers.push_back(trainer);
    for (const TrainerId trainer : trainers) host_->recall(trainer, std::max<Duration>(recall_max(), kRecallUnknown));
    const TimePoint until = add_saturating(host_->now(), kParkMax);
    while (!grants_.empty() && host_->now() < until && !host_->problem()) {
      host_->work(add_saturating(host_->now(), kLookAgain));
    }
    run_.change([&](TrainingProgress& progress) { fill(progress); });
  }

  void fill(TrainingProgress& progress) {
    const auto& job = host_->job();
    progress.step = first_seen_ ? job.step() : so_far_.step;
    progress.steps_lost = so_far_.steps_lost + lost_before_ + job.steps_lost();
    progress.steps_repeated = so_far_.steps_repeated + job.steps_repeated();
    progress.generation = so_far_.generation + job.current().generation;
    progress.members = job.training().size();
    progress.parameters_crc = digest_;
    Duration sum{};
    for (const Duration step : steps_) sum += step;
    if (!steps_.empty()) progress.step_s = to_seconds(sum) / static_cast<double>(steps_.size());
    progress.step_s_with = step_s_with_;
    if (loss_) add_loss(progress.losses, *loss_);
  }

  // `now`: also if little time has passed since the last time.
  void keep(bool now) {
    TrainingProgress progress;
    {
      const host::MutexLock lock(run_.mutex_);
      fill(run_.progress_);
      progress = run_.progress_;
    }
    if (!now && steady_clock::now() - kept_at_ < std::chrono::seconds(1)) return;
    kept_at_ = steady_clock::now();
    run_.hooks_.changed(progress);
  }

  TrainingRun& run_;
  const TrainingProgress so_far_;
  std::unique_ptr<TrainingHost> host_;
  std::map<TrainerId, std::uint64_t> grants_;
  bool first_seen_ = false;
  std::int64_t lost_before_ = 0;
  std::int64_t step_ = 0;
  Generation generation_ = 0;
  TimePoint stepped_;
  std::vector<Duration> steps_;
  std::size_t timed_members_ = 0;  // Of the steps in timed_.
  std::vector<double> timed_;
  std::vector<double> step_s_with_;
  std::size_t next_step_ = 0;
  std::optional<TrainingLoss> loss_;
  std::string digest_;
  steady_clock::time_point kept_at_;
};

void TrainingRun::run_elastic() {
  Elastic elastic(*this);
  if (const auto outcome = elastic.drive(); !outcome) {
    change([&](TrainingProgress& progress) { progress.problem = outcome.error().message; });
  }
}

// ---- Restartable jobs ----

class TrainingRun::Restartable {
 public:
  explicit Restartable(TrainingRun& run) : run_(run) {}
  ~Restartable() { kill_all(); }

  void drive() {
    LogBound log(run_.setup_.folder + "/trainers.log");
    while (!run_.stopping() && !ended_) {
      log.look();
      for (auto& order : run_.take_orders()) obey(order);
      if (ended_) break;
      watch();
      pause();
    }
    if (process_ > 0 && !run_.cancelled()) {
      ask_to_end();
      while (process_ > 0) {
        watch();
        std::this_thread::sleep_for(kLookAgain);
      }
    }
  }

 private:
  void obey(Order& order) {
    if (auto* granted = std::get_if<TrainingGrant>(&order)) {
      // One process on one slice.
      if (process_ > 0) return run_.hooks_.gone(granted->id);
      grant_ = std::move(*granted);
      start();
      return;
    }
    if (process_ > 0 && std::get<TakeBack>(order).grant == grant_.id) ask_to_end();
  }

  void start() {
    const auto& job = run_.setup_.job;
    // As trainers do: memory that runs out is taken from it before it is taken from anybody else.
    std::string command = "echo 1000 2>/dev/null >/proc/self/oom_score_adj; ";
    if (const auto mib = grant_.place.memory_mib; mib > 0) command += fmt::format("ulimit -d {} && ", mib * 1024);
    command += "cd " + quoted(job.directory) + fmt::format(" && exec nice -n {}", run_.setup_.nice);
    for (const auto& word : job.command) command += ' ' + quoted(word);
    command += " >>" + quoted(run_.setup_.folder + "/trainers.log") + " 2>&1";
    auto environment = grant_.place.environment;
    environment.push_back("TANGRAM_CHECKPOINT=" + (job.checkpoint.empty()
                                                       ? run_.setup_.folder + "/state"
                                                       : absolute_in(job.directory, job.checkpoint)));
    environment.push_back(fmt::format("OMP_NUM_THREADS={}", job.threads));
    const auto started = worker::start_command(run_.setup_.worker_program, command, grant_.place.cpus, environment);
    if (!started) return fail(started.error().message);
    process_ = *started;
    kill_at_.reset();
    run_.change([&](TrainingProgress& progress) {
      progress.members = 1;
      ++progress.generation;
    });
  }

  static std::string quoted(const std::string& word) {
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
  }

  void ask_to_end() {
    if (kill_at_) return;
    worker::ask_command_to_end(process_);
    const auto& said = run_.setup_.job.recall_max_ms;
    kill_at_ = steady_clock::now() + (said ? from_milliseconds(*said) : kGrace);
  }

  void watch() {
    if (process_ <= 0) return;
    if (kill_at_ && steady_clock::now() >= *kill_at_) kill(-process_, SIGKILL);
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) != process_) return;
    kill(-process_, SIGKILL);  // What it has left behind.
    process_ = -1;
    const bool asked = kill_at_.has_value();
    const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (well && !asked) {
      ended_ = true;
      run_.change([](TrainingProgress& progress) {
        progress.members = 0;
        progress.done = true;
      });
    } else if (asked) {
      failures_ = 0;
      run_.change([](TrainingProgress& progress) { progress.members = 0; });
    } else {
      return fail(WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                                      : fmt::format("ended with exit code {}", WEXITSTATUS(status)));
    }
    run_.hooks_.gone(grant_.id);
  }

  // It is started again with the next grant, unless it has failed too often in a row.
  void fail(const std::string& why) {
    if (++failures_ >= kFailuresMax) ended_ = true;
    run_.change([&](TrainingProgress& progress) {
      progress.members = 0;
      if (ended_)
        progress.problem = fmt::format("{}: {}, {} times in a row", run_.setup_.job.command[0], why, failures_);
    });
    run_.hooks_.gone(grant_.id);
  }

  void pause() {
    const host::MutexLock lock(run_.mutex_);
    const auto until = steady_clock::now() + (process_ > 0 ? kLookAgain : kTurn);
    if (run_.orders_.empty() && !run_.stopping_) run_.posted_.wait_until(run_.mutex_, until);
  }

  void kill_all() {
    if (process_ <= 0) return;
    kill(-process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    run_.hooks_.gone(grant_.id);
  }

  TrainingRun& run_;
  TrainingGrant grant_;
  pid_t process_ = -1;
  std::optional<steady_clock::time_point> kill_at_;
  int failures_ = 0;
  bool ended_ = false;
};

void TrainingRun::run_restartable() { Restartable(*this).drive(); }

}  // namespace tangram::serve
