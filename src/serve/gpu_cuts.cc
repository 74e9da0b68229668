#include "serve/gpu_cuts.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/layout.h"
#include "recut/change.h"

namespace tangram::serve {
namespace {

// Nobody watches: what matters is in the result. Stops between two steps once the time is over.
class PatientObserver final : public recut::ChangeObserver {
 public:
  explicit PatientObserver(double seconds)
      : until_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                      std::chrono::duration<double>(seconds))) {}

  void writing_checkpoint(const std::string&) override {}
  void checkpoint_kept(recut::CheckpointKept, const std::string&) override {}
  void compared(const std::vector<recut::GpuGoal>&, const adapters::DriverReport&) override {}
  void planned(const std::vector<recut::RecutStep>&) override {}
  void would_wait(const std::vector<recut::Obstacle>&) override {}
  void waiting(const std::vector<recut::Obstacle>&, bool) override {}
  void replanned(const std::vector<recut::RecutStep>&) override {}
  void starting(bool) override {}
  void step_done(std::size_t, const recut::RecutStep&, const recut::StepResult&) override {}
  void earlier_change_remains() override {}
  bool stop_wanted() override { return std::chrono::steady_clock::now() >= until_; }

 private:
  std::chrono::steady_clock::time_point until_;
};

}  // namespace

Result<Nothing> cut_gpus(const Plan& plan, const GpuCutOptions& options, const std::string& label) {
  recut::ChangeOptions change_options;
  change_options.wait_s = options.wait_s;
  change_options.directory = options.directory;
  // Twice: once for those who use the slices, once for the steps.
  PatientObserver observer(2 * options.wait_s);
  recut::Change change(change_options, observer);
  TANGRAM_RETURN_IF_ERROR(change.open(recut::nvml_library()));
  const adapters::DriverReport driver = change.now();  // A copy, to which `matched` refers.
  TANGRAM_TRY(const auto matched, recut::match_devices(plan, driver, recut::choices_of(plan, options.choices)));
  const recut::ChangeResult result = change.apply(recut::goals_of(matched), label);
  switch (result.status) {
    case recut::ChangeStatus::done:
    case recut::ChangeStatus::nothing_to_do: return Nothing{};
    case recut::ChangeStatus::refused: return Error{ErrorCode::unavailable, "processes still use slices that must go"};
    case recut::ChangeStatus::interrupted: return Error{ErrorCode::unavailable, "it took too long"};
    case recut::ChangeStatus::planned:
    case recut::ChangeStatus::failed: break;
  }
  return result.error.value_or(Error{ErrorCode::unavailable, "a step failed"});
}

PlannedDevice keep_reserved(PlannedDevice goal, const Layout& reserved) {
  for (const Slice& slice : reserved.slices) {
    const auto planned = std::ranges::find(goal.slices, slice, &PlannedSlice::slice);
    if (planned == goal.slices.end()) {
      goal.slices.push_back({slice, {}, true});
    } else {
      planned->reserved = true;
    }
  }
  std::ranges::sort(goal.slices, {}, [](const PlannedSlice& planned) { return planned.slice.start; });
  return goal;
}

void GpuCuts::begin(DeviceId device, PlannedDevice goal) {
  if (const auto others = options_.reserved.find(goal.name); others != options_.reserved.end()) {
    goal = keep_reserved(std::move(goal), others->second);
  }
  {
    const host::MutexLock lock(mutex_);
    tasks_.push_back({device, std::move(goal)});
    if (std::exchange(working_, true)) return;
  }
  if (thread_.joinable()) thread_.join();  // It ends now.
  thread_ = std::thread([this] { work(); });
}

// What is cut is finished; what only waits is left as it is.
void GpuCuts::join() {
  {
    const host::MutexLock lock(mutex_);
    tasks_.clear();
  }
  if (thread_.joinable()) thread_.join();
}

void GpuCuts::work() {
  while (true) {
    Task task;
    {
      const host::MutexLock lock(mutex_);
      working_ = !tasks_.empty();
      if (!working_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    inbox_.on_cut(task.device, cut(task.goal).ok());
  }
}

Result<Nothing> GpuCuts::cut(const PlannedDevice& goal) {
  Plan plan;
  plan.devices.push_back(goal);
  const auto begun = std::chrono::steady_clock::now();
  if (watch_ != nullptr) watch_->suspend();
  Result<Nothing> cut = cut_gpus(plan, options_, "tangram serve --follow");
  if (cut && options_.after) cut = options_.after(plan);
  if (watch_ != nullptr) watch_->resume();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  host::LogLine line(cut ? host::LogLevel::info : host::LogLevel::error, cut ? "device_cut" : "device_not_cut");
  line.text("device", goal.name).text("layout", to_string(goal.geometry, layout_of(goal)));
  line.number("took_s", took.count());
  if (!cut) line.text("reason", cut.error().message);
  log_.write(line);
  return cut;
}

}  // namespace tangram::serve
