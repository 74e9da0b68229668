// Moves tensors between calls and the memory of a batch.
//
// A batch has the samples of its members side by side, in the order of `members`, each padded to the same size.
// gather_inputs() writes them and scatter_outputs() reads them in the same order, so the position of a member follows
// from the samples before it, and no table of offsets is kept.

#include "serve/slice_runs.h"

#include <span>

#include "base/check.h"
#include "serve/padding.h"

namespace tangram::serve {

void SliceRun::begin(const sched::Batch& next, TimePoint now) {
  // The scheduler launches only on idle slices. A second batch would overwrite the memory of the first.
  TANGRAM_CHECK(!busy, "a slice runs one batch at a time");
  busy = true;
  batch = next.id;
  cold = next.cold;
  size = next.padded_size;
  started = now;
  ran.reset();
  members.clear();
}

// Clears what an earlier run of the same call has left: a retry must not be answered with the old failure.
void SliceRun::add(Call* call) {
  call->launched = started;
  call->failure.clear();
  call->upstream_retry_after = {};
  call->padded_size = size;
  members.push_back(call);
}

void SliceRun::gather_inputs(const ServedModel& model, std::int32_t samples) const {
  const auto& specs = model.signature.inputs;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::byte* target = memory->inputs[i].data();
    // The bytes of one padded sample. The memory is exactly as large as the batch, so this divides evenly.
    const std::size_t sample = memory->inputs[i].size() / static_cast<std::size_t>(samples);
    for (const Call* call : members) {
      const Fit fit{call->samples, call->extent, size};
      const CallInput& input = call->inputs[i];
      if (input.given) {
        pad_into(specs[i], std::as_bytes(std::span(input.data)), fit, target);
      } else {
        // A mask that the client did not send: the gateway knows which elements are real.
        write_mask(specs[i], fit, target);
      }
      target += sample * static_cast<std::size_t>(call->samples);
    }
  }
}

// Requires that the members are those of the batch that has just ended and that its memory is still valid. Copies the
// outputs, because the next batch reuses the memory.
void SliceRun::scatter_outputs() const {
  std::int64_t before = 0;
  const std::int64_t total = samples();
  for (Call* call : members) {
    const auto& specs = call->model->signature.outputs;
    call->answer.clear();
    call->answer_ends.clear();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::span<const std::byte> output = memory->outputs[i];
      const std::size_t sample = output.size() / static_cast<std::size_t>(total);
      cut_from(specs[i], output.data() + sample * static_cast<std::size_t>(before), {call->samples, call->extent, size},
               call->answer);
      call->answer_ends.push_back(call->answer.size());
    }
    before += call->samples;
  }
}

std::int32_t SliceRun::samples() const {
  std::int32_t sum = 0;
  for (const Call* call : members) sum += call->samples;
  return sum;
}

// Also clears the reason of the slice, so that the next failure does not repeat it.
void SliceRun::fail_members(const std::string& reason) {
  for (Call* call : members) {
    call->failure = reason;
    call->upstream_retry_after = upstream_retry_after;
  }
  failure.clear();
  upstream_retry_after = {};
}

SliceRun& SliceRuns::open(SliceId slice, const sched::Place& place) {
  // Plans can add slices. Growing moves the runs, so no reference to one may be kept across open().
  if (slice.index() >= runs_.size()) runs_.resize(slice.index() + 1);
  SliceRun& run = runs_[slice.index()];
  if (run.executor == nullptr) run.executor = make_(slice, place, events_);
  return run;
}

// The batch id guards against a late report: after a restart the slice can be idle or run another batch.
SliceRun* SliceRuns::end(SliceId slice, BatchId batch) {
  SliceRun& run = runs_[slice.index()];
  if (!run.busy || run.batch != batch) return nullptr;
  run.busy = false;
  return &run;
}

// The place stays, since slices keep their index; a later open() would make a new executor.
void SliceRuns::close(SliceId slice) {
  if (slice.index() < runs_.size()) runs_[slice.index()].executor.reset();
}

void SliceRuns::hand_over(SliceId from, SliceId to) {
  TANGRAM_CHECK(is_open(from) && !runs_[from.index()].busy && !is_open(to), "an idle executor goes to a slice without");
  if (to.index() >= runs_.size()) runs_.resize(to.index() + 1);
  runs_[to.index()].executor = std::move(runs_[from.index()].executor);
}

std::int64_t SliceRuns::process_of(SliceId slice) const {
  const bool has = slice.index() < runs_.size() && runs_[slice.index()].executor != nullptr;
  return has ? runs_[slice.index()].executor->process() : 0;
}

}  // namespace tangram::serve
