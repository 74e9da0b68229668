// What a worker process adds to a batch of ONNX Runtime: batches a second through a worker (message, shared memory,
// message back), over those of a bare loop over the same library in this process. Both run one thread. And how long it
// takes to stop a batch that runs. Skipped where ONNX Runtime is not there.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/sample_tensors.h"
#include "engines/example_models.h"
#include "engines/onnx/onnx_models.h"
#include "engines/onnx/onnx_session.h"
#include "engines/tensor_memory.h"
#include "worker/worker_channel.h"
#include "worker/worker_engine.h"
#include "worker/worker_process.h"
#include "worker/worker_protocol.h"

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
// A batch of some 400 ms is stopped 100 ms after its start: the time until the worker has answered and is free.
// The longest node of the model takes a few milliseconds.
void BM_OnnxStop(benchmark::State& state) {
  constexpr engines::BatchShape kLong{.batch = 16, .size = 512};
  const Signature signature = engines::signature_of(*engines::find_example_model(kModel));
  const auto started = worker::start_worker(worker::find_worker_program());
  if (!started) return state.SkipWithError(started.error().message.c_str());
  const auto next = [&] {
    while (true) {
      const auto received = worker::receive_message(started->socket, false);
      if (received.kind != worker::ReceivedMessage::Kind::nothing) return received.message;
      pollfd watched{started->socket, POLLIN, 0};
      poll(&watched, 1, 1'000);
    }
  };
  worker::WorkerSpec spec{.engine = "onnx", .config = {}, .cores = {}, .models = {}};
  spec.models.push_back(
      {.service = ServiceId(0), .name = kModel, .network = kModel, .path = folder() / kModel, .signature = signature});
  worker::send_spec(started->socket, spec);
  if (next().kind != worker::WorkerMessageKind::ready) state.SkipWithError("the worker is not ready");
  worker::SharedTensors tensors;
  std::uint64_t number = 0;
  double longest = 0;
  for (auto _ : state) {
    const engines::BatchJob job{
        .batch = BatchId(++number), .service = ServiceId(0), .samples = kLong.batch, .size = kLong.size};
    if (!tensors.prepare(signature, job, started->socket)) return state.SkipWithError("no memory");
    worker::send_message(started->socket, worker::run_message(job));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto begin = std::chrono::steady_clock::now();
    worker::send_stop(started->process, job.batch);
    if (next().kind != worker::WorkerMessageKind::failed) state.SkipWithError("the batch was not stopped");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    longest = std::max(longest, took.count());
    state.SetIterationTime(took.count());
  }
  state.counters["longest_ms"] = 1e3 * longest;
  kill(started->process, SIGKILL);
  waitpid(started->process, nullptr, 0);
  close(started->socket);
}

// Only where the library is there.
const bool kRegistered = [] {
  if (!engines::ort::load_library()) return false;
  const auto add = [](const char* name, auto* function) {
    benchmark::RegisterBenchmark(name, function)->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  add("BM_OnnxBatch/tangram", BM_OnnxBatch_worker);
  add("BM_OnnxBatch/bare", BM_OnnxBatch_bare);
  benchmark::RegisterBenchmark("BM_OnnxStop", BM_OnnxStop)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(10);
  return true;
}();

}  // namespace
}  // namespace tangram
