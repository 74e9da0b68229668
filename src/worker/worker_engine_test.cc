#include "worker/worker_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/worker_process.h"

namespace tangram::worker {
namespace {

using testing::HasSubstr;

// The host as one core, not divided, so that no control group is needed.
WorkerEngineConfig config() {
  return {.program = find_worker_program(),
          .engine = "emulated",
          .geometry = cpu_geometry({.cores = 1, .memory_gib = 1, .quota = false}),
          .model = {.name = "rank",
                    .network = "encoder",
                    .signature = {{{"ids", Datatype::int64, {kVariableAxis}, 0, false}},
                                  {{"sum", Datatype::fp32, {2}, 0, false}}}}};
}

engines::Placement on_one_core(std::int64_t processes) {
  return {.device = "cpu", .mig_profile = "1c", .model = "encoder", .processes = processes};
}

std::unique_ptr<engines::LoadedReplica> loaded(engines::Engine& engine, std::int64_t processes) {
  auto outcome = engine.load(on_one_core(processes));
  EXPECT_TRUE(outcome) << outcome.error().message;
  return std::get<std::unique_ptr<engines::LoadedReplica>>(std::move(*outcome));
}

TEST(WorkerEngine, RunsBatchesInProcessesAndTellsTheirTimeAndMemory) {
  const auto engine = make_worker_engine(config());
  for (const std::int64_t processes : {1, 2}) {
    const auto replica = loaded(*engine, processes);
    for (const engines::BatchShape shape : {engines::BatchShape{1, 8}, {16, 512}, {2, 3}}) {
      const auto ran = replica->run(shape);
      ASSERT_TRUE(ran) << ran.error().message;
      const auto& completed = std::get<engines::Completed>(*ran);
      EXPECT_GT(completed.duration->count(), 0);
      EXPECT_GT(*completed.memory_mib, 0.5 * static_cast<double>(processes));
    }
  }
}

// A process has more than a MiB by the time it is ready.
TEST(WorkerEngine, IsOutOfMemoryWhereTheProcessAloneIsLargerThanTheSlice) {
  auto little = config();
  little.memory_limit_mib = 1;
  const auto outcome = make_worker_engine(little)->load(on_one_core(1));
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_TRUE(std::holds_alternative<engines::OutOfMemory>(*outcome));
}

TEST(WorkerEngine, SaysWhyAPointCannotBeRun) {
  const auto engine = make_worker_engine(config());
  EXPECT_EQ(engine->why_not({.device = "cpu", .mig_profile = "1c", .model = "encoder"}), std::nullopt);
  EXPECT_THAT(*engine->why_not({.device = "cpu", .mig_profile = "7c", .model = "encoder"}), HasSubstr("7c"));
  EXPECT_THAT(*engine->why_not({.device = "cpu", .mig_profile = "1c", .model = "other"}), HasSubstr("other"));
}

TEST(WorkerEngine, PassesOnWhatAModelLacks) {
  auto without_weights = config();
  without_weights.engine = "torch";
  const auto outcome = make_worker_engine(without_weights)->load(on_one_core(1));
  ASSERT_FALSE(outcome);
  // With libtorch the weights are missed, without it the library.
  EXPECT_THAT(outcome.error().message, testing::AnyOf(HasSubstr("needs the weights"), HasSubstr("libtorch")));
}

}  // namespace
}  // namespace tangram::worker
