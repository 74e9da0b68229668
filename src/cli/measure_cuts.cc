// Each cut is a recut::Change with a checkpoint of its own in a folder below the usual one. The file of how the GPU was
// before all of them is ours, and is never replaced while it exists.

#include "cli/measure_cuts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "host/files.h"
#include "recut/change.h"
#include "recut/live_gpus.h"

namespace tangram::cli {
namespace {

// Says each step, and is never stopped half way: a step takes about a second, and the way back is a change, too.
class CutNotes final : public recut::ChangeObserver {
 public:
  explicit CutNotes(Session& session) : session_(session) {}
  void compared(const std::vector<recut::GpuGoal>&, const adapters::DriverReport&) override {}
  void planned(const std::vector<recut::RecutStep>&) override {}
  void would_wait(const std::vector<recut::Obstacle>&) override {}
  void waiting(const std::vector<recut::Obstacle>&, bool) override {}
  void replanned(const std::vector<recut::RecutStep>&) override {}
  void writing_checkpoint(const std::string&) override {}
  void checkpoint_kept(recut::CheckpointKept, const std::string&) override {}
  void starting(bool) override {}
  void step_done(std::size_t, const recut::RecutStep& step, const recut::StepResult& result) override {
    const bool done = result.outcome == recut::StepOutcome::done;
    session_.note(fmt::format("{}{} ({:.1f} s)", recut::to_text(step), done ? "" : ": failed", result.seconds));
  }
  void earlier_change_remains() override {}
  bool stop_wanted() override { return false; }

 private:
  Session& session_;
};

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

const adapters::DriverGpu* find_gpu(const adapters::DriverReport& driver, const std::string& wanted) {
  for (const auto& gpu : driver.gpus) {
    if (gpu.uuid == wanted || fmt::to_string(gpu.index) == wanted) return &gpu;
  }
  return nullptr;
}

}  // namespace

Result<adapters::DriverGpu> idle_gpu(const adapters::DriverReport& driver, const std::string& wanted) {
  if (!driver.problem.empty()) return Error{ErrorCode::unavailable, driver.problem};
  const adapters::DriverGpu* const gpu = find_gpu(driver, wanted);
  if (gpu == nullptr) {
    std::string known;
    for (const auto& each : driver.gpus) known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", each.index, each.uuid);
    return Error{ErrorCode::not_found,
                 fmt::format("--gpu {}: this machine has {}", wanted, known.empty() ? "no GPU" : known)};
  }
  if (recut::geometry_of(*gpu) == nullptr) {
    return Error{ErrorCode::invalid, fmt::format("GPU {} ({}) is of no type that Tangram can cut", gpu->index, gpu->name)};
  }
  if (!gpu->slices_known) return Error{ErrorCode::unavailable, fmt::format("GPU {}: {}", gpu->index, gpu->problem)};
  std::set<int> processes;
  for (const auto& process : gpu->processes) processes.insert(process.pid);
  if (!processes.empty()) {
    std::string list;
    for (const int pid : processes) list += fmt::format("{}{}", list.empty() ? "" : ", ", pid);
    return Error{ErrorCode::unavailable,
                 fmt::format("GPU {} is in use by process {}; it must be idle to be cut", gpu->index, list)};
  }
  return *gpu;
}

Result<std::unique_ptr<BorrowedGpu>> BorrowedGpu::take(Session& session, const Geometry& geometry,
                                                       const std::string& wanted, const std::string& state) {
  std::unique_ptr<BorrowedGpu> made(new BorrowedGpu(session, geometry));
  made->given_back_ = true;  // Until there is something to give back.
  const std::string usual = recut::state_directory(state);
  TANGRAM_TRY(made->lock_, recut::RecutLock::take(usual));
  made->directory_ = usual + "/borrowed";
  const auto driver = adapters::probe_nvml(recut::nvml_library());
  TANGRAM_TRY(const auto gpu, idle_gpu(driver, wanted));
  if (recut::geometry_of(gpu)->type != geometry.type) {
    return invalid_input(fmt::format("GPU {} is of type {}, not {}", gpu.index, recut::geometry_of(gpu)->type, geometry.type));
  }
  made->uuid_ = gpu.uuid;
  TANGRAM_TRY(made->goal_, recut::goal_of(gpu, fmt::format("GPU {}", gpu.index)));
  made->layout_ = made->goal_.layout;
  made->file_ = made->directory_ + "/before-" + gpu.uuid + ".json";
  std::error_code error;
  std::filesystem::create_directories(made->directory_, error);
  if (std::filesystem::exists(made->file_, error)) {
    TANGRAM_TRY(const auto text, host::read_file(made->file_));
    TANGRAM_TRY(made->before_, recut::read_checkpoint(made->file_, text, driver));
    session.note(fmt::format("an earlier run did not give GPU {} back; its cuts of {} will be restored", gpu.index,
                             made->before_.made));
  } else {
    made->before_ = {"tangram measure --cut", utc_now(), recut::ChangeState::open, {made->goal_}};
    TANGRAM_RETURN_IF_ERROR(
        host::write_file_atomically(made->file_, recut::write_checkpoint(made->before_, driver)));
  }
  made->given_back_ = false;
  return made;
}

BorrowedGpu::~BorrowedGpu() {
  if (given_back_) return;
  if (const auto done = give_back(); !done) session_.warn(done.error().message);
}

Result<Nothing> BorrowedGpu::cut(const Layout& layout) {
  recut::GpuGoal goal = goal_;
  goal.mig = true;
  goal.layout = layout;
  goal.parts.clear();
  TANGRAM_RETURN_IF_ERROR(change(goal, "the next slices to measure"));
  goal_ = std::move(goal);
  layout_ = layout;
  ++cuts_;
  return Nothing{};
}

Result<Nothing> BorrowedGpu::give_back() {
  given_back_ = true;
  for (const auto& goal : before_.gpus) {
    if (const auto done = change(goal, file_); !done) {
      return Error{done.error().code, fmt::format("the cuts of before were not restored: {}; run `tangram rollback "
                                                  "--checkpoint {}`",
                                                  done.error().message, file_)};
    }
    layout_ = goal.layout;
  }
  unlink(file_.c_str());
  return Nothing{};
}

Result<Nothing> BorrowedGpu::change(const recut::GpuGoal& goal, const std::string& why) {
  CutNotes notes(session_);
  recut::Change change({.directory = directory_}, notes);
  TANGRAM_RETURN_IF_ERROR(change.open(recut::nvml_library()));
  const auto result = change.apply({goal}, why);
  using enum recut::ChangeStatus;
  if (result.status == done || result.status == nothing_to_do) return Nothing{};
  if (result.error) return *result.error;
  return Error{ErrorCode::unavailable, result.status == refused ? "a process uses a slice that has to go"
                                                                : "the GPU could not be cut"};
}

}  // namespace tangram::cli
