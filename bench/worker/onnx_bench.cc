// What a worker process adds to a batch of ONNX Runtime: batches a second through a worker (message, shared memory,
// message back), over those of a bare loop over the same library in this process. Both run one thread. Skipped where
// ONNX Runtime is not there.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/sample_tensors.h"
#include "engines/example_models.h"
#include "engines/onnx/onnx_models.h"
#include "engines/onnx/onnx_session.h"
#include "engines/tensor_memory.h"
#include "worker/worker_engine.h"
#include "worker/worker_process.h"

namespace tangram {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = "text-encoder";
// 20 ms or more on a core of today.
constexpr engines::BatchShape kShape{.batch = 16, .size = 128};

fs::path folder() {
  static const fs::path made = [] {
    const fs::path path = fs::temp_directory_path() / ("tangram-onnx-bench-" + std::to_string(getpid()));
    fs::create_directories(path);
    std::ofstream(path / (std::string(kModel) + ".onnx"), std::ios::binary)
        << engines::write_onnx_model(*engines::find_example_model(kModel), 1);
    std::atexit([] { fs::remove_all(folder()); });
    return path;
  }();
  return made;
}

void BM_OnnxBatch_bare(benchmark::State& state) {
  const auto* const found = *engines::ort::load_library();
  const Signature signature = engines::signature_of(*engines::find_example_model(kModel));
  const auto runtime = engines::ort::Runtime::make(*found, {});
  const auto session = engines::ort::OnnxSession::open(**runtime, folder() / (std::string(kModel) + ".onnx"));
  engines::ort::OwnedRunOptions control(found->api);
  (void)engines::ort::check(found->api, found->api.call<engines::ort::Place::create_run_options>(control.out()), "");
  const engines::BatchJob job{.samples = kShape.batch, .size = kShape.size};
  std::vector<std::byte> room(*engines::memory_needed(signature, job));
  engines::BatchMemory memory;
  engines::cut_memory(signature, job, room.data(), memory);
  Rng rng(1);
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) fill_sample(signature.inputs[i], memory.inputs[i], rng);
  (void)(*session)->run(signature, job, memory, control.get());
  for (auto _ : state) {
    if (!(*session)->run(signature, job, memory, control.get())) return state.SkipWithError("the batch failed");
  }
  state.counters["batches/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void BM_OnnxBatch_worker(benchmark::State& state) {
  const auto engine =
      worker::make_worker_engine({.program = worker::find_worker_program(),
                                  .engine = "onnx",
                                  .geometry = cpu_geometry({.cores = 1, .memory_gib = 4, .quota = false}),
                                  .model = {.name = kModel,
                                            .network = kModel,
                                            .path = folder() / kModel,
                                            .signature = engines::signature_of(*engines::find_example_model(kModel))}});
  auto loaded = engine->load({.device = "cpu", .mig_profile = "1c", .model = kModel});
  if (!loaded || !std::holds_alternative<std::unique_ptr<engines::LoadedReplica>>(*loaded)) {
    return state.SkipWithError(loaded ? "the slice has no memory" : loaded.error().message.c_str());
  }
  auto& replica = std::get<std::unique_ptr<engines::LoadedReplica>>(*loaded);
  (void)replica->run(kShape);
  for (auto _ : state) {
    const auto ran = replica->run(kShape);
    if (!ran || !std::holds_alternative<engines::Completed>(*ran)) return state.SkipWithError("the batch failed");
  }
  state.counters["batches/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
// Only where the library is there.
const bool kRegistered = [] {
  if (!engines::ort::load_library()) return false;
  const auto add = [](const char* name, auto* function) {
    benchmark::RegisterBenchmark(name, function)->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  add("BM_OnnxBatch/tangram", BM_OnnxBatch_worker);
  add("BM_OnnxBatch/bare", BM_OnnxBatch_bare);
  return true;
}();

}  // namespace
}  // namespace tangram
