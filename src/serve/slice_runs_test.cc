#include "serve/slice_runs.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "serve/test_calls.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

// A model with one row of numbers in, and the same out.
ServedModel echo() {
  ServedModel model;
  model.service = ServiceId(0);
  model.name = "echo";
  model.signature = {{{"in", Datatype::int64, {kVariableAxis}, 0, false}},
                     {{"out", Datatype::int64, {kVariableAxis}, 0, false}}};
  return model;
}

sched::Batch batch_of(std::uint64_t id, std::int64_t padded_size = 1) {
  sched::Batch batch;
  batch.id = BatchId(id);
  batch.padded_size = padded_size;
  return batch;
}

Call call_of(const ServedModel& model, std::string_view bytes) {
  Call call;
  call.model = &model;
  call.inputs = {{bytes, true}};
  call.extent = call.size = static_cast<std::int64_t>(bytes.size() / sizeof(std::int64_t));
  return call;
}

// Requests of 1 and 3 numbers, padded to 4: two rows of four. Each gets back as much of its row as it brought.
TEST(SliceRun, PadsInputsSideBySideAndCutsOutputsToSize) {
  const ServedModel model = echo();
  const std::array<std::int64_t, 3> numbers{7, 8, 9};
  const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
  Call shorter = call_of(model, bytes.substr(0, 8));
  Call longer = call_of(model, bytes);
  std::array<std::int64_t, 8> row;
  row.fill(-1);
  engines::BatchMemory memory;
  memory.inputs = {std::as_writable_bytes(std::span(row))};
  memory.outputs = {std::as_writable_bytes(std::span(row))};
  SliceRun run;
  run.begin(batch_of(1, 4), TimePoint(5ms));
  run.add(&shorter);
  run.add(&longer);
  run.memory = &memory;
  run.gather_inputs(model, 2);
  EXPECT_EQ(row, (std::array<std::int64_t, 8>{7, 0, 0, 0, 7, 8, 9, 0}));
  EXPECT_EQ(shorter.launched, TimePoint(5ms));
  EXPECT_EQ(longer.padded_size, 4);
  run.scatter_outputs();
  EXPECT_EQ(shorter.answer, bytes.substr(0, 8));
  EXPECT_EQ(longer.answer, bytes);
  EXPECT_EQ(longer.answer_ends, std::vector<std::size_t>{24});
}

struct SilentEvents final : engines::ExecutorEvents {
  void on_done(SliceId, BatchId, std::string) override {}
  void on_lost(SliceId, std::string) override {}
  void on_restarted(SliceId, bool) override {}
  void on_rejected_upstream(SliceId, Duration) override {}
};

// The batch was given up and the slice runs another one: the late answer to the first ends nothing.
TEST(SliceRuns, EndOnlyTheBatchThatTheSliceHolds) {
  SilentEvents events;
  int made = 0;
  const ServedModel model = echo();
  const std::vector<const Signature*> signatures{&model.signature};
  SliceRuns runs(
      0,
      [&](SliceId, const sched::Place&, engines::ExecutorEvents&) {
        ++made;
        return engines::make_emulated_executor(signatures, {});
      },
      events);
  SliceRun& run = runs.open(SliceId(0), {});
  runs.open(SliceId(0), {});
  EXPECT_EQ(made, 1);
  run.begin(batch_of(2), kTimeZero);
  EXPECT_EQ(runs.end(SliceId(0), BatchId(1)), nullptr);
  EXPECT_TRUE(run.busy);
  EXPECT_EQ(runs.end(SliceId(0), BatchId(2)), &run);
  EXPECT_EQ(runs.end(SliceId(0), BatchId(2)), nullptr);
  runs.close(SliceId(0));
  EXPECT_EQ(runs.process_of(SliceId(0)), 0);
}

TEST(SliceRun, LeavesTheReasonOfAFailureWithItsMembers) {
  const ServedModel model = echo();
  Call call = call_of(model, {});
  SliceRun run;
  run.begin(batch_of(1), kTimeZero);
  run.add(&call);
  run.failure = "there is no room";
  run.upstream_retry_after = 2s;
  run.fail_members(run.failure);
  EXPECT_EQ(call.failure, "there is no room");
  EXPECT_EQ(call.upstream_retry_after, 2s);
  EXPECT_EQ(run.failure, "");
  EXPECT_EQ(run.upstream_retry_after, 0s);
}

}  // namespace
}  // namespace tangram::serve
