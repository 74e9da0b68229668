// The engine `onnx` in the table of engines: it loads ONNX Runtime when the first model is loaded.
//
// Everything slow that the library does on the first run of a shape happens in warm_up(), the largest shape first, so
// that the memory of the process stands still afterwards.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>

#include "engines/batch_engine.h"
#include "engines/onnx/onnx_file.h"
#include "engines/onnx/onnx_session.h"
#include "engines/tensor_memory.h"

namespace tangram::engines {
namespace {

namespace fs = std::filesystem;

// Runs of a shape before its time counts: the first allocates, the second finds everything in place.
constexpr int kWarmUpRuns = 2;

struct Loaded {
  ModelSpec spec;
  std::string file;
  std::shared_ptr<ort::OnnxSession> session;
};

// MODEL.onnx, or MODEL/1/model.onnx as in a model repository of Triton.
Result<std::string> file_of(const ModelSpec& spec) {
  if (spec.path.empty()) {
    return invalid_input(fmt::format("{}: the engine onnx needs the weights of {}: name their folder with --models DIR",
                                     spec.name, spec.network));
  }
  std::error_code error;
  for (const auto& file : {spec.path + ".onnx", spec.path + "/1/model.onnx"}) {
    if (fs::exists(file, error)) return file;
  }
  return Error{ErrorCode::not_found,
               fmt::format("{}: neither {}.onnx nor {}/1/model.onnx is there", spec.name, spec.path, spec.path)};
}

class BatchOnnx final : public BatchEngine {
 public:
  explicit BatchOnnx(const BatchEngineConfig& config) : config_(config) {}

  Result<Nothing> load(std::span<const ModelSpec> models) override {
    TANGRAM_TRY(const auto* const library, ort::load_library());
    TANGRAM_TRY(runtime_, ort::Runtime::make(*library, config_));
    control_.emplace(library->api);
    TANGRAM_RETURN_IF_ERROR(
        ort::check(library->api, library->api.call<ort::Place::create_run_options>(control_->out()), ""));
    for (const auto& spec : models) {
      TANGRAM_TRY(auto loaded, open(spec));
      models_.push_back(std::move(loaded));
    }
    return Nothing{};
  }

  Result<Nothing> warm_up() override { return warm_up(shapes_of(models_)); }

  Result<Nothing> warm_up(ServiceId service) override {
    for (const auto& model : models_) {
      if (model.spec.service == service) return warm_up(shapes_of({&model, 1}));
    }
    return Error{ErrorCode::not_found, "the slice has no replica of the service"};
  }

  // The new model is there before the old one of the service goes: they may share their weights.
  Result<std::uint64_t> load_one(const ModelSpec& model) override {
    TANGRAM_TRY(auto loaded, open(model));
    const std::uint64_t bytes = onnx_bytes(loaded.file);
    unload(model.service);
    models_.push_back(std::move(loaded));
    return bytes;
  }

  void unload(ServiceId service) override {
    std::erase_if(models_, [&](const Loaded& model) { return model.spec.service == service; });
  }

  Result<Nothing> run(const BatchJob& job, const BatchMemory& memory) override {
    const auto model = find(job.service);
    if (model == models_.end()) return Error{ErrorCode::not_found, "the slice has no replica of the service"};
    if (!begin(job.batch)) return stopped();
    const auto ran = model->session->run(model->spec.signature, job, memory, control_->get());
    if (end() && !ran) return stopped();
    if (!ran) return Error{ran.error().code, fmt::format("{}: {}", model->spec.name, ran.error().message)};
    return ran;
  }

  bool can_stop() const override { return true; }

  void stop(BatchId batch) override {
    const std::lock_guard lock(mutex_);
    stopped_ = batch;
    if (running_ == batch && control_) (void)ort::check(runtime_->api(), set_terminate(), "");
  }

 private:
  // A model with one of its shapes.
  struct Task {
    const Loaded* model;
    BatchShape shape;
  };

  std::vector<Loaded>::const_iterator find(ServiceId service) const {
    return std::ranges::find_if(models_, [&](const Loaded& model) { return model.spec.service == service; });
  }

  static Error stopped() { return {ErrorCode::unavailable, "the batch was stopped"}; }

  // False if the batch was stopped before it began.
  bool begin(BatchId batch) {
    const std::lock_guard lock(mutex_);
    if (stopped_ == batch) return false;
    running_ = batch;
    return true;
  }
  // True if the batch was stopped while it ran.
  bool end() {
    const std::lock_guard lock(mutex_);
    const bool was_stopped = running_ && stopped_ == running_;
    running_.reset();
    if (was_stopped) {
      (void)ort::check(runtime_->api(), runtime_->api().call<ort::Place::unset_terminate>(control_->get()), "");
    }
    return was_stopped;
  }
  ort::Status* set_terminate() { return runtime_->api().call<ort::Place::set_terminate>(control_->get()); }

  // The model with the session that another model with the same weights has, or a new one.
  Result<Loaded> open(const ModelSpec& spec) const {
    TANGRAM_TRY(const auto file, file_of(spec));
    const auto same = std::ranges::find_if(models_, [&](const Loaded& m) { return m.spec.path == spec.path; });
    Loaded loaded{spec, file, nullptr};
    if (same != models_.end()) {
      loaded.session = same->session;
    } else {
      TANGRAM_TRY(loaded.session, ort::OnnxSession::open(*runtime_, file));
    }
    for (const auto& good : {loaded.session->check(spec.signature), runtime_->check_memory()}) {
      if (!good) return Error{good.error().code, fmt::format("{}: {}: {}", spec.name, file, good.error().message)};
    }
    return loaded;
  }

  // Every shape that may run, the largest first: each bucket with its largest batch and with powers of two below.
  static std::vector<Task> shapes_of(std::span<const Loaded> models) {
    std::vector<Task> tasks;
    for (const auto& model : models) {
      for (const auto& shape : model.spec.shapes) {
        tasks.push_back({&model, shape});
        for (std::int64_t batch = 1; batch < shape.batch; batch *= 2) tasks.push_back({&model, {batch, shape.size}});
      }
    }
    std::ranges::stable_sort(tasks, [](const Task& a, const Task& b) { return bytes_of(a) > bytes_of(b); });
    return tasks;
  }
  // Of the tensors, as a measure of how much the run takes.
  static std::size_t bytes_of(const Task& task) {
    return memory_needed(task.model->spec.signature, job_of(task)).value_or(0);
  }
  static BatchJob job_of(const Task& task) {
    return {.service = task.model->spec.service,
            .samples = static_cast<std::int32_t>(task.shape.batch),
            .size = task.shape.size};
  }

  Result<Nothing> warm_up(const std::vector<Task>& tasks) {
    std::vector<std::byte> room;
    BatchMemory memory;
    for (const auto& task : tasks) {
      const BatchJob job = job_of(task);
      const Signature& signature = task.model->spec.signature;
      const auto bytes = memory_needed(signature, job);
      if (!bytes) return Error{ErrorCode::exhausted, task.model->spec.name + ": a batch is too large to count"};
      if (room.empty()) room.resize(*bytes);  // The first is the largest.
      cut_memory(signature, job, room.data(), memory);
      for (int i = 0; i < kWarmUpRuns; ++i) {
        const auto ran = task.model->session->run(signature, job, memory, control_->get());
        if (!ran) return Error{ran.error().code, fmt::format("{}: {}", task.model->spec.name, ran.error().message)};
      }
    }
    return Nothing{};
  }

  BatchEngineConfig config_;
  std::unique_ptr<ort::Runtime> runtime_;        // Null before load.
  std::optional<ort::OwnedRunOptions> control_;  // Of every run: they are one at a time.
  std::vector<Loaded> models_;
  std::mutex mutex_;
  std::optional<BatchId> running_;  // Guarded by mutex_, as is ...
  std::optional<BatchId> stopped_;  // ... the last batch that was stopped.
};

}  // namespace

std::unique_ptr<BatchEngine> make_batch_onnx(const BatchEngineConfig& config) {
  return std::make_unique<BatchOnnx>(config);
}

}  // namespace tangram::engines
