// Decides which checkpoint the file holds before, during and after a change.
//
// Example: a change from A to B stops half way, at X. Its checkpoint (A) stays open. The next change, from X to C,
// keeps A instead of saving X, because X is no state that anyone asked for. When C is reached, the checkpoint is closed
// as done, and a rollback leads to A.

#include "recut/checkpoint_keeper.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "host/files.h"

namespace tangram::recut {
namespace {

// Adds to a saved GPU what others use by now. Error: it did not have all of that, so the way back would take it away.
Result<Nothing> reserve(GpuGoal& saved, const GpuGoal& goal, const std::string& path) {
  for (const auto& slice : goal.reserved.slices) {
    if (std::ranges::find(saved.layout.slices, slice) == saved.layout.slices.end()) {
      return Error{
          ErrorCode::unavailable,
          fmt::format("{} (GPU {}): others use {}@{} (reserved), but an interrupted change began at {} and can be "
                      "rolled back to it; finish that change with its own plan, or remove {}",
                      goal.device, goal.gpu_index, goal.geometry.profiles[slice.profile].name, slice.start,
                      to_string(saved.geometry, saved.layout), path)};
    }
    if (std::ranges::find(saved.reserved.slices, slice) == saved.reserved.slices.end()) {
      saved.reserved.slices.push_back(slice);
    }
  }
  std::ranges::sort(saved.reserved.slices, {}, &Slice::start);
  return Nothing{};
}

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now())); }

}  // namespace

void CheckpointKeeper::begin_apply(const std::string& plan) { checkpoint_.plan = plan; }

// `state_before_` is kept because prepare() reopens the checkpoint, and reconsider() may have to restore its state.
void CheckpointKeeper::begin_rollback(const Checkpoint& checkpoint) {
  checkpoint_ = checkpoint;
  state_before_ = checkpoint.state;
  rolls_back_ = true;
}

Result<std::optional<Checkpoint>> CheckpointKeeper::stored(const adapters::DriverReport& now) const {
  std::error_code error;
  if (!std::filesystem::exists(path_, error)) return std::optional<Checkpoint>();
  TANGRAM_TRY(const auto text, host::read_file(path_));
  // A file of another machine, or of a GPU that was taken out, must not block a new change: it counts as absent.
  auto stored = read_checkpoint(path_, text, now);
  if (stored) return std::optional<Checkpoint>(std::move(*stored));
  if (stored.error().code == ErrorCode::not_found) return std::optional<Checkpoint>();
  // A damaged file may hold the only way back from a change that stopped half way.
  return Error{
      stored.error().code,
      stored.error().message + "; it may be the way back from an unfinished change: keep a copy and remove it"};
}

Result<Nothing> CheckpointKeeper::prepare(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals) {
  prepared_ = true;
  // A rollback changes no saved state: its target is the checkpoint itself. It is only marked as under way.
  if (rolls_back_) {
    checkpoint_.state = ChangeState::open;
    return store(now);
  }
  TANGRAM_TRY(const auto old, stored(now));
  checkpoint_.made = utc_now();
  if (old && old->state == ChangeState::open) {
    // The open one already carries the closed one before it, so at most one text is ever nested.
    checkpoint_.previous = old->previous;
    // Back in its saved state, the open change left nothing behind, so this change saves the present state like any
    // other.
    if (!is_as_it_was(*old, now)) {
      observer_.checkpoint_kept(CheckpointKept::unfinished, old->made);
      checkpoint_.made = old->made;
      checkpoint_.gpus = old->gpus;
    }
  } else if (old) {
    checkpoint_.previous = write_checkpoint(*old, now);
  }
  TANGRAM_RETURN_IF_ERROR(add(now, goals));
  return store(now);
}

Result<Nothing> CheckpointKeeper::add(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals) {
  for (const auto& goal : goals) {
    // A GPU that an open checkpoint already has keeps its older entry; saving it again would save the half-way state.
    const auto saved = std::ranges::find(checkpoint_.gpus, goal.gpu_uuid, &GpuGoal::gpu_uuid);
    if (saved != checkpoint_.gpus.end()) {
      TANGRAM_RETURN_IF_ERROR(reserve(*saved, goal, path_));
      continue;
    }
    const auto gpu = std::ranges::find(now.gpus, goal.gpu_uuid, &adapters::DriverGpu::uuid);
    TANGRAM_TRY(auto before, goal_of(*gpu, goal.device));
    before.reserved = goal.reserved;  // All there: plan_recut() saw to it.
    checkpoint_.gpus.push_back(std::move(before));
  }
  return Nothing{};
}

Result<Nothing> CheckpointKeeper::store(const adapters::DriverReport& now) {
  observer_.writing_checkpoint(path_);
  return host::write_file_atomically(path_, write_checkpoint(checkpoint_, now));
}

Result<Nothing> CheckpointKeeper::close(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals) {
  // The goals may equal the saved cuts, for example in a rollback. Then there is nothing to go back to.
  if (is_as_it_was(checkpoint_, now)) return take_back(now);
  // Some GPUs of an earlier, stopped change are not among these goals. Closing would lose the way back for them.
  if (!is_settled(checkpoint_, goals, now)) {
    observer_.checkpoint_kept(CheckpointKept::half_way, checkpoint_.made);
    return store(now);
  }
  checkpoint_.state = ChangeState::done;
  // Only an open checkpoint needs `previous`: a finished change has taken its place for good.
  checkpoint_.previous.clear();
  return store(now);
}

Result<bool> CheckpointKeeper::close_finished(const adapters::DriverReport& now, const std::vector<GpuGoal>& goals) {
  TANGRAM_TRY(const auto old, stored(now));
  const bool closes = old && (old->state == ChangeState::open || rolls_back_);
  if (!closes || old->state == ChangeState::undone) return false;
  checkpoint_ = *old;
  // Read before close(), which clears `previous` or writes it back to the file.
  const bool more = rolls_back_ && !checkpoint_.previous.empty();
  TANGRAM_RETURN_IF_ERROR(close(now, goals));
  return more;
}

Result<Nothing> CheckpointKeeper::take_back(const adapters::DriverReport& now) {
  // A rollback that did its steps is recorded as undone. Any other change that left every GPU as it was did not happen,
  // so the file that it replaced, if any, is restored.
  const std::string previous = std::exchange(checkpoint_.previous, {});
  checkpoint_.state = ChangeState::undone;
  const bool happened = rolls_back_ && prepared_;
  if (happened || previous.empty()) return store(now);
  observer_.writing_checkpoint(path_);
  return host::write_file_atomically(path_, previous);
}

Result<Nothing> CheckpointKeeper::reconsider(const adapters::DriverReport& now, bool changed) {
  if (rolls_back_ && !changed) {
    // prepare() opened it. A rollback that did nothing must leave a change that was done as done.
    checkpoint_.state = state_before_;
    return store(now);
  }
  return is_as_it_was(checkpoint_, now) ? take_back(now) : Result<Nothing>(Nothing{});
}

}  // namespace tangram::recut
