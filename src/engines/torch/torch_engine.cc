// Runs TorchScript models with libtorch, on the cores or the GPU of one slice.
//
// Inputs are used in place (from_blob) and outputs copied once. Everything slow that libtorch does on the first run of
// a shape happens in warm_up(), so that batches take the time that was measured.
#include "engines/torch/torch_engine.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

namespace tangram::engines {
namespace {

// Runs of a shape before its time counts: the first allocates, the second finds everything in place.
constexpr int kWarmUpRuns = 3;

std::optional<at::ScalarType> scalar_type(Datatype datatype) {
  switch (datatype) {
    case Datatype::boolean: return at::kBool;
    case Datatype::uint8: return at::kByte;
    case Datatype::int8: return at::kChar;
    case Datatype::int16: return at::kShort;
    case Datatype::int32: return at::kInt;
    case Datatype::int64: return at::kLong;
    case Datatype::fp16: return at::kHalf;
    case Datatype::bf16: return at::kBFloat16;
    case Datatype::fp32: return at::kFloat;
    case Datatype::fp64: return at::kDouble;
    default: return std::nullopt;  // libtorch has no wider unsigned numbers and no text.
  }
}

// The batch axis first, then the sample's axes with the variable one at the batch's padded size.
std::vector<std::int64_t> shape_of(const TensorSpec& spec, const BatchJob& job) {
  std::vector<std::int64_t> shape{job.samples};
  for (const auto axis : spec.shape) shape.push_back(axis == kVariableAxis ? job.size : axis);
  return shape;
}

std::string text_of(Datatype datatype, at::IntArrayRef shape) {
  return fmt::format("{} [{}]", to_string(datatype), fmt::join(shape.begin(), shape.end(), ", "));
}

// A network with its weights. Services that run the same file share one.
struct Copy {
  torch::jit::Module module;
  std::size_t inputs = 0;   // That its forward takes.
  std::uint64_t bytes = 0;  // Of its parameters and buffers.
};

struct Loaded {
  ModelSpec spec;
  std::shared_ptr<Copy> copy;
};

// Requires a module that is not frozen: freezing turns parameters into constants of its program.
std::uint64_t bytes_of_weights(const torch::jit::Module& module) {
  std::uint64_t bytes = 0;
  for (const at::Tensor& tensor : module.parameters()) bytes += tensor.nbytes();
  for (const at::Tensor& tensor : module.buffers()) bytes += tensor.nbytes();
  return bytes;
}

class TorchEngine final : public BatchEngine {
 public:
  explicit TorchEngine(const BatchEngineConfig& config)
      : config_(config), device_(config.device == "cpu" ? at::kCPU : at::kCUDA) {}

  Result<Nothing> load(std::span<const ModelSpec> models) override {
    return guarded("", [&]() -> Result<Nothing> {
      if (device_.is_cuda()) {
        if (const auto reason = why_no_torch_gpu(); !reason.empty()) {
          return Error{ErrorCode::unavailable, "the slice is on a GPU, but " + reason};
        }
      }
      set_threads();
      for (const auto& spec : models) {
        TANGRAM_TRY(auto loaded, open(spec));
        models_.push_back(std::move(loaded));
      }
      return Nothing{};
    });
  }

  Result<Nothing> warm_up() override {
    for (const auto& model : models_) {
      TANGRAM_RETURN_IF_ERROR(warm_up(model));
    }
    return Nothing{};
  }

  Result<Nothing> warm_up(ServiceId service) override {
    for (const auto& model : models_) {
      if (model.spec.service == service) return warm_up(model);
    }
    return Error{ErrorCode::not_found, "the slice has no replica of the service"};
  }

  // The new model is there before the old one of the service goes: they may share their weights.
  Result<std::uint64_t> load_one(const ModelSpec& model) override {
    std::uint64_t bytes = 0;
    TANGRAM_RETURN_IF_ERROR(guarded(model.name, [&]() -> Result<Nothing> {
      TANGRAM_TRY(auto loaded, open(model));
      bytes = loaded.copy->bytes;
      unload(model.service);
      models_.push_back(std::move(loaded));
      return Nothing{};
    }));
    return bytes;
  }

  void unload(ServiceId service) override {
    std::erase_if(models_, [&](const Loaded& model) { return model.spec.service == service; });
  }

  Result<Nothing> run(const BatchJob& job, const BatchMemory& memory) override {
    for (auto& model : models_) {
      if (model.spec.service == job.service) {
        return guarded(model.spec.name, [&] { return run(model, job, memory); });
      }
    }
    return Error{ErrorCode::not_found, "the slice has no replica of the service"};
  }

 private:
  // Turns exceptions of libtorch into errors; none may leave this library. Not every allocator has a type for "out of
  // memory", so error_of() recognises it by its text.
  template <typename F>
  static Result<Nothing> guarded(const std::string& name, F&& body) {
    const std::string prefix = name.empty() ? "" : name + ": ";
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return Error{ErrorCode::exhausted, prefix + "out of memory"};
    } catch (const c10::Error& problem) {
      return error_of(prefix, problem.what_without_backtrace());
    } catch (const std::exception& problem) {
      return error_of(prefix, problem.what());
    }
  }
  // The useful line of an error text. An error inside a TorchScript program is a trace with the error at the end; other
  // errors have it in the first line, followed by libtorch's own call stack.
  static std::string essence_of(const std::string& text) {
    constexpr std::string_view kRaised = "\nRuntimeError: ";
    const std::size_t raised = text.rfind(kRaised);
    const std::size_t begin = raised == std::string::npos ? 0 : raised + kRaised.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  static Error error_of(const std::string& prefix, const std::string& whole) {
    const std::string text = essence_of(whole);
    for (const char* words : {"out of memory", "can't allocate memory", "not enough memory"}) {
      if (whole.find(words) != std::string::npos) return {ErrorCode::exhausted, prefix + "out of memory: " + text};
    }
    return {ErrorCode::invalid, prefix + text};
  }

  // As many threads as the slice has cores: more would take turns on them. The profiling executor is off, because it
  // would compile in the middle of serving whenever a shape is new.
  void set_threads() const {
    at::set_num_threads(config_.threads);
    // Once per process: libtorch rejects a second call of set_num_interop_threads.
    static const bool once = [] {
      at::set_num_interop_threads(1);
      torch::jit::getExecutorMode() = false;
      return true;
    }();
    (void)once;
  }

  // The model with the copy of its weights that another model has, or a new one. Exceptions of libtorch leave it.
  Result<Loaded> open(const ModelSpec& spec) const {
    if (spec.path.empty()) {
      return Error{ErrorCode::invalid,
                   fmt::format("{}: the engine torch needs the weights of {}: name their folder with --models DIR",
                               spec.name, spec.network)};
    }
    // Check at load: run() relies on every datatype having a scalar type.
    for (const auto& tensors : {spec.signature.inputs, spec.signature.outputs}) {
      for (const auto& tensor : tensors) {
        if (!scalar_type(tensor.datatype)) {
          return Error{ErrorCode::invalid, fmt::format("{}: {}: libtorch has no datatype {}", spec.name, tensor.name,
                                                       to_string(tensor.datatype))};
        }
      }
    }
    const auto same = std::ranges::find_if(models_, [&](const Loaded& m) { return m.spec.path == spec.path; });
    Loaded loaded{spec, same == models_.end() ? read(spec.path) : same->copy};
    if (loaded.copy->inputs != spec.signature.inputs.size()) {
      return Error{ErrorCode::invalid,
                   fmt::format("{}: {}.pt takes {} inputs, but the services file declares {}", spec.name, spec.path,
                               loaded.copy->inputs, spec.signature.inputs.size())};
    }
    return loaded;
  }

  std::shared_ptr<Copy> read(const std::string& path) const {
    auto module = torch::jit::load(path + ".pt", device_);
    module.eval();
    // Minus one for `self`.
    const std::size_t inputs = module.get_method("forward").function().getSchema().arguments().size() - 1;
    const std::uint64_t bytes = bytes_of_weights(module);
    // Freezing turns weights into constants, which lets libtorch fold and fuse them.
    return std::make_shared<Copy>(Copy{torch::jit::freeze(module), inputs, bytes});
  }

  Result<Nothing> warm_up(const Loaded& model) {
    for (const auto& shape : model.spec.shapes) {
      // Smaller batches occur as well, and libtorch prepares for each number of samples. Powers of two are a sample
      // of them that takes log2(batch) steps.
      for (std::int64_t batch = 1; batch < shape.batch; batch *= 2) {
        TANGRAM_RETURN_IF_ERROR(warm_up(model, {batch, shape.size}));
      }
      TANGRAM_RETURN_IF_ERROR(warm_up(model, shape));
    }
    return Nothing{};
  }

  Result<Nothing> warm_up(const Loaded& model, const BatchShape& shape) {
    const BatchJob job{
        .service = model.spec.service, .samples = static_cast<std::int32_t>(shape.batch), .size = shape.size};
    std::vector<std::vector<std::byte>> room;
    BatchMemory memory;
    const auto add = [&](const TensorSpec& spec, std::vector<std::span<std::byte>>& to) {
      const auto bytes = bytes_of(spec, job.size);
      room.emplace_back(static_cast<std::size_t>(bytes.value_or(0) * job.samples));
      to.emplace_back(room.back());
    };
    for (const auto& spec : model.spec.signature.inputs) add(spec, memory.inputs);
    for (const auto& spec : model.spec.signature.outputs) add(spec, memory.outputs);
    for (int i = 0; i < kWarmUpRuns; ++i) {
      TANGRAM_RETURN_IF_ERROR(run(job, memory));
    }
    return Nothing{};
  }

  Result<Nothing> run(Loaded& model, const BatchJob& job, const BatchMemory& memory) {
    // Saves the bookkeeping for gradients, which serving never needs.
    const c10::InferenceMode no_gradients;
    std::vector<c10::IValue> inputs;
    for (std::size_t i = 0; i < model.spec.signature.inputs.size(); ++i) {
      const auto& spec = model.spec.signature.inputs[i];
      const auto tensor = at::from_blob(memory.inputs[i].data(), shape_of(spec, job), *scalar_type(spec.datatype));
      // On the CPU the tensor is a view of the batch's memory, which outlives this call.
      inputs.emplace_back(device_.is_cuda() ? tensor.to(device_) : tensor);
    }
    const c10::IValue answer = model.copy->module.forward(std::move(inputs));
    const auto& outputs = model.spec.signature.outputs;
    // A model with one output may return it bare or as a tuple of one.
    if (answer.isTensor() && outputs.size() == 1) return write(outputs[0], job, answer.toTensor(), memory.outputs[0]);
    if (answer.isGenericDict()) {
      return Error{ErrorCode::invalid,
                   // Short enough to pass whole through a worker's message.
                   fmt::format("{}: the model returns a dict, whose outputs have no order; trace it with "
                               "return_dict=False, or wrap it to return out[\"logits\"] or a tuple "
                               "(docs/how-to/hugging-face.md)",
                               model.spec.name)};
    }
    if (!answer.isTuple() || answer.toTupleRef().elements().size() != outputs.size()) {
      return Error{ErrorCode::invalid,
                   fmt::format("{}: expected {} output tensors, the model returned {}", model.spec.name, outputs.size(),
                               answer.isTuple() ? "a different number" : answer.tagKind())};
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto& element = answer.toTupleRef().elements()[i];
      if (!element.isTensor())
        return Error{ErrorCode::invalid, outputs[i].name + ": an output of the model is not a tensor"};
      TANGRAM_RETURN_IF_ERROR(write(outputs[i], job, element.toTensor(), memory.outputs[i]));
    }
    return Nothing{};
  }

  static Result<Nothing> write(const TensorSpec& spec, const BatchJob& job, const at::Tensor& answer,
                               std::span<std::byte> to) {
    const auto shape = shape_of(spec, job);
    if (answer.sizes() != at::IntArrayRef(shape) || answer.scalar_type() != *scalar_type(spec.datatype)) {
      return Error{ErrorCode::invalid, fmt::format("output {}: expected {}, the model returned {} [{}]", spec.name,
                                                   text_of(spec.datatype, shape), c10::toString(answer.scalar_type()),
                                                   fmt::join(answer.sizes().begin(), answer.sizes().end(), ", "))};
    }
    // Both calls return the tensor itself where there is nothing to do. The shape check above makes the sizes equal.
    const at::Tensor plain = answer.cpu().contiguous();
    std::memcpy(to.data(), plain.data_ptr(), to.size());
    return Nothing{};
  }

  BatchEngineConfig config_;
  at::Device device_;
  std::vector<Loaded> models_;
};

}  // namespace

std::string why_no_torch_gpu() {
  if (!at::hasCUDA()) {
    return "this libtorch was built without CUDA; build Tangram with -DTANGRAM_TORCH_DIR=DIR of a libtorch that has it";
  }
  try {
    // Also fails where the driver is missing, or shows no device.
    at::empty({1}, at::TensorOptions().device(at::kCUDA));
  } catch (const std::exception& problem) {
    const std::string_view what = problem.what();
    return std::string(what.substr(0, what.find('\n')));
  }
  return {};
}

std::unique_ptr<BatchEngine> make_torch_engine(const BatchEngineConfig& config) {
  return std::make_unique<TorchEngine>(config);
}

}  // namespace tangram::engines
