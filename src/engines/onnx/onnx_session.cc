// Opens ONNX models with the options of a slice, and runs them on memory of the caller.
//
// Inputs are used where they lie, and outputs are written where they are wanted: both are given to the library as
// tensors over memory of ours, so no byte is copied on the CPU.
#include "engines/onnx/onnx_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tangram::engines::ort {
namespace {

namespace fs = std::filesystem;

constexpr double kMib = 1024.0 * 1024.0;
// What a CUDA context and the workspaces of its libraries take before the first tensor.
constexpr double kCudaMib = 512;

constexpr std::array<std::string_view, 3> kProviders{"cpu", "cuda", "tensorrt"};

struct TypeName {
  ElementType type;
  Datatype datatype;
};
constexpr TypeName kTypes[] = {
    {kBool, Datatype::boolean},  {kUint8, Datatype::uint8},  {kUint16, Datatype::uint16}, {kUint32, Datatype::uint32},
    {kUint64, Datatype::uint64}, {kInt8, Datatype::int8},    {kInt16, Datatype::int16},   {kInt32, Datatype::int32},
    {kInt64, Datatype::int64},   {kFloat16, Datatype::fp16}, {kBfloat16, Datatype::bf16}, {kFloat, Datatype::fp32},
    {kDouble, Datatype::fp64},
};

std::string type_text(int type) {
  const auto* const found = std::ranges::find(kTypes, type, [](const TypeName& t) { return static_cast<int>(t.type); });
  if (found != std::end(kTypes)) return std::string(to_string(found->datatype));
  return type == kString ? "text" : fmt::format("element type {}", type);
}

// Bytes that this process has in memory; 0 if the kernel does not say.
double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double total = 0;
  double resident = 0;
  if (!(statm >> total >> resident)) return 0;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / kMib;
}

// The batch axis first, then the sample's axes with the variable one at the batch's padded size.
void shape_of(const TensorSpec& spec, const BatchJob& job, std::vector<std::int64_t>& shape) {
  shape.assign(1, job.samples);
  for (const auto axis : spec.shape) shape.push_back(axis == kVariableAxis ? job.size : axis);
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string names_of(const std::vector<ModelTensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Compares one declared tensor with the model's. `kind` is "input" or "output".
Result<Nothing> check_tensor(const TensorSpec& spec, const std::vector<ModelTensor>& tensors, const char* kind) {
  const auto found = std::ranges::find(tensors, spec.name, &ModelTensor::name);
  if (found == tensors.end()) {
    return invalid_input(
        fmt::format("the model has no {} {}; its {}s are {}", kind, spec.name, kind, names_of(tensors)));
  }
  const auto type = element_type_of(spec.datatype);
  if (!type || *type != found->element_type) {
    return invalid_input(fmt::format("{} {}: the services file declares {}, the model has {}", kind, spec.name,
                                     to_string(spec.datatype), type_text(found->element_type)));
  }
  // An output may come without a shape; the library then compares it with what it is given for each batch.
  if (found->shape.empty() && std::string_view(kind) == "output") return Nothing{};
  if (found->shape.size() != spec.shape.size() + 1) {
    return invalid_input(fmt::format(
        "{} {}: the services file declares {} axes for one sample, the model has {} with the batch axis in front: {}",
        kind, spec.name, spec.shape.size(), found->shape.size(), shape_text(found->shape)));
  }
  if (found->shape[0] > 0) {
    return invalid_input(fmt::format(
        "{} {}: the model's first axis is fixed at {}, so it cannot take batches; export it with a dynamic first axis",
        kind, spec.name, found->shape[0]));
  }
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    const std::int64_t here = found->shape[i + 1];
    if (here <= 0 || here == spec.shape[i]) continue;
    return invalid_input(
        fmt::format("{} {}: axis {} of a sample is {} in the model, the services file declares {}", kind, spec.name, i,
                    here, spec.shape[i] == kVariableAxis ? "one that varies (-1)" : fmt::to_string(spec.shape[i])));
  }
  return Nothing{};
}

// A folder of one's own for engines that were built for this kind of slice: an engine of TensorRT fits one number of
// multiprocessors. Empty, for no cache, where the kind of slice is not known, and where no folder is the user's own:
// engines are programs, and in a folder for all somebody else's could lie.
std::string tensorrt_cache(const BatchEngineConfig& config) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (cache != nullptr && *cache != '\0') {
    folder = cache;
  } else if (home != nullptr && *home != '\0') {
    folder = fs::path(home) / ".cache";
  }
  if (folder.empty() || config.mig_profile.empty()) return {};
  folder /= fs::path("tangram") / "tensorrt" / config.device / config.mig_profile;
  std::error_code error;
  fs::create_directories(folder, error);
  return folder.string();
}

}  // namespace

std::span<const std::string_view> provider_names() { return kProviders; }

std::string default_provider(std::string_view device) { return device == "cpu" ? "cpu" : "cuda"; }

std::optional<ElementType> element_type_of(Datatype datatype) {
  const auto* const found = std::ranges::find(kTypes, datatype, &TypeName::datatype);
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->type);
}

// ---- The runtime ----

Runtime::Runtime(const Library& library, const BatchEngineConfig& config)
    : library_(library),
      config_(config),
      provider_(config.provider.empty() ? default_provider(config.device) : config.provider),
      env_(library.api),
      cpu_memory_(library.api) {}

Result<std::unique_ptr<Runtime>> Runtime::make(const Library& library, const BatchEngineConfig& config) {
  std::unique_ptr<Runtime> runtime(new Runtime(library, config));
  const Api& api = library.api;
  if (std::ranges::find(kProviders, runtime->provider_) == kProviders.end()) {
    return invalid_input(
        fmt::format("unknown provider {}; expected {}", runtime->provider_, fmt::join(kProviders, ", ")));
  }
  if (config.device == "cpu" && runtime->provider_ != "cpu") {
    return invalid_input(
        fmt::format("the provider {} needs a GPU, but the slice is of the host's cores", runtime->provider_));
  }
  TANGRAM_RETURN_IF_ERROR(
      ort::check(api, api.call<Place::create_env>(kLogNothing, "tangram", runtime->env_.out()), "ONNX Runtime: "));
  TANGRAM_RETURN_IF_ERROR(ort::check(
      api, api.call<Place::create_cpu_memory_info>(kArenaAllocator, kDefaultMemory, runtime->cpu_memory_.out()),
      "ONNX Runtime: "));
  TANGRAM_RETURN_IF_ERROR(runtime->limit_arena());
  // Tried once here, so that a provider that is not there is said before a model is read.
  TANGRAM_TRY(const auto tried, runtime->session_options());
  (void)tried;
  return runtime;
}

Result<Nothing> Runtime::check_memory() const {
  if (!shared_arena_) return Nothing{};
  const double resident = resident_mib();
  if (resident <= config_.memory_mib) return Nothing{};
  return Error{ErrorCode::exhausted, fmt::format("out of memory: loaded, it takes {:.0f} MiB of the slice's {:.0f} MiB",
                                                 resident, config_.memory_mib)};
}

// The library counts weights into the limit, too.
//
// Blocks of exactly the size that is asked for: the largest shape runs first, and what follows fits into its blocks.
// Growing by powers of two would take up to twice the memory.
Result<Nothing> Runtime::limit_arena() {
  if (provider_ != "cpu" || config_.memory_mib <= 0) return Nothing{};
  const double left = std::max(1.0, config_.memory_mib - resident_mib());
  constexpr std::array<const char*, 2> kKeys{"max_mem", "arena_extend_strategy"};
  const std::array<std::size_t, 2> values{static_cast<std::size_t>(left * kMib), 1};
  OwnedArenaConfig arena(api());
  TANGRAM_RETURN_IF_ERROR(
      ort::check(api(), api().call<Place::create_arena_config>(kKeys.data(), values.data(), kKeys.size(), arena.out()),
                 "ONNX Runtime: "));
  TANGRAM_RETURN_IF_ERROR(
      ort::check(api(),
                 api().call<Place::register_allocator>(env_.get(), static_cast<const MemoryInfo*>(cpu_memory_.get()),
                                                       static_cast<const ArenaConfig*>(arena.get())),
                 "ONNX Runtime: "));
  shared_arena_ = true;
  return Nothing{};
}

Result<OwnedSessionOptions> Runtime::session_options() const {
  OwnedSessionOptions options(api());
  const auto done = [&](Status* status) { return ort::check(api(), status, "ONNX Runtime: "); };
  TANGRAM_RETURN_IF_ERROR(done(api().call<Place::create_session_options>(options.out())));
  TANGRAM_RETURN_IF_ERROR(done(api().call<Place::set_log_severity>(options.get(), kLogNothing)));
  TANGRAM_RETURN_IF_ERROR(done(api().call<Place::set_optimisation>(options.get(), kOptimiseAll)));
  // Of the slice alone. The thread that calls computes, too, so one thread starts none.
  TANGRAM_RETURN_IF_ERROR(done(api().call<Place::set_intra_op_threads>(options.get(), config_.threads)));
  TANGRAM_RETURN_IF_ERROR(done(api().call<Place::set_inter_op_threads>(options.get(), 1)));
  // A pattern of the memory is kept for each shape that ran, and there are as many as batch sizes times buckets.
  TANGRAM_RETURN_IF_ERROR(done(api().call<Place::disable_mem_pattern>(options.get())));
  const auto entry = [&](const char* key, const char* value) {
    return done(api().call<Place::add_session_entry>(options.get(), key, value));
  };
  // Threads that wait would burn the time of the slice, which may have a quota.
  TANGRAM_RETURN_IF_ERROR(entry("session.intra_op.allow_spinning", "0"));
  TANGRAM_RETURN_IF_ERROR(entry("session.inter_op.allow_spinning", "0"));
  if (shared_arena_) TANGRAM_RETURN_IF_ERROR(entry("session.use_env_allocators", "1"));
  if (provider_ == "tensorrt") TANGRAM_RETURN_IF_ERROR(append_tensorrt(options.get()));
  // Behind TensorRT, which does not know every operator.
  if (provider_ != "cpu") TANGRAM_RETURN_IF_ERROR(append_cuda(options.get()));
  return options;
}

std::uint64_t Runtime::gpu_memory_limit() const {
  if (config_.memory_mib <= 2 * kCudaMib) return static_cast<std::uint64_t>(config_.memory_mib / 2 * kMib);
  return static_cast<std::uint64_t>((config_.memory_mib - kCudaMib) * kMib);
}

Result<Nothing> Runtime::append_cuda(SessionOptions* options) const {
  const auto done = [&](Status* status) {
    return ort::check(api(), status, "the provider cuda of ONNX Runtime cannot be used: ");
  };
  OwnedCudaOptions cuda(api());
  TANGRAM_RETURN_IF_ERROR(done(api().call<Place::create_cuda_options>(cuda.out())));
  const std::string limit = fmt::to_string(gpu_memory_limit());
  // The worker sees one device, that of its slice, so its number is 0.
  std::vector<const char*> keys{"device_id", "arena_extend_strategy", "cudnn_conv_algo_search"};
  std::vector<const char*> values{"0", "kSameAsRequested", "HEURISTIC"};
  if (gpu_memory_limit() > 0) {
    keys.push_back("gpu_mem_limit");
    values.push_back(limit.c_str());
  }
  TANGRAM_RETURN_IF_ERROR(
      done(api().call<Place::update_cuda_options>(cuda.get(), keys.data(), values.data(), keys.size())));
  return done(api().call<Place::append_cuda>(options, static_cast<const CudaOptions*>(cuda.get())));
}

Result<Nothing> Runtime::append_tensorrt(SessionOptions* options) const {
  const auto done = [&](Status* status) {
    return ort::check(api(), status, "the provider tensorrt of ONNX Runtime cannot be used: ");
  };
  OwnedTensorrtOptions tensorrt(api());
  TANGRAM_RETURN_IF_ERROR(done(api().call<Place::create_tensorrt_options>(tensorrt.out())));
  const std::string cache = tensorrt_cache(config_);
  std::vector<const char*> keys{"device_id", "trt_engine_cache_enable"};
  std::vector<const char*> values{"0", cache.empty() ? "0" : "1"};
  if (!cache.empty()) {
    keys.push_back("trt_engine_cache_path");
    values.push_back(cache.c_str());
  }
  TANGRAM_RETURN_IF_ERROR(
      done(api().call<Place::update_tensorrt_options>(tensorrt.get(), keys.data(), values.data(), keys.size())));
  return done(api().call<Place::append_tensorrt>(options, static_cast<const TensorrtOptions*>(tensorrt.get())));
}

std::string why_not_usable(const std::string& device, const std::string& provider) {
  const auto library = load_library();
  if (!library) return library.error().message;
  const auto runtime = Runtime::make(**library, {.device = device, .provider = provider});
  return runtime ? "" : runtime.error().message;
}

// ---- A model ----

Result<std::shared_ptr<OnnxSession>> OnnxSession::open(const Runtime& runtime, const std::string& path) {
  std::shared_ptr<OnnxSession> session(new OnnxSession(runtime));
  TANGRAM_TRY(const auto options, runtime.session_options());
  const Api& api = runtime.api();
  TANGRAM_RETURN_IF_ERROR(ort::check(
      api,
      api.call<Place::create_session>(runtime.env(), path.c_str(), static_cast<const SessionOptions*>(options.get()),
                                      session->session_.out()),
      path + ": "));
  TANGRAM_RETURN_IF_ERROR(session->read_tensors());
  return session;
}

Result<Nothing> OnnxSession::read_tensors() {
  const Api& api = runtime_.api();
  const auto done = [&](Status* status) { return ort::check(api, status, ""); };
  Allocator* allocator = nullptr;
  TANGRAM_RETURN_IF_ERROR(done(api.call<Place::default_allocator>(&allocator)));
  const Session* session = session_.get();
  const auto read = [&](std::size_t index, auto name_of, auto type_of, ModelTensor& tensor) -> Result<Nothing> {
    char* name = nullptr;
    TANGRAM_RETURN_IF_ERROR(done(name_of(index, &name)));
    tensor.name = name;
    (void)done(api.call<Place::allocator_free>(allocator, static_cast<void*>(name)));
    OwnedTypeInfo type(api);
    TANGRAM_RETURN_IF_ERROR(done(type_of(index, type.out())));
    const TensorInfo* info = nullptr;
    TANGRAM_RETURN_IF_ERROR(done(api.call<Place::tensor_info>(static_cast<const TypeInfo*>(type.get()), &info)));
    if (info == nullptr) return Nothing{};  // A sequence or a map, which no service can declare.
    ElementType element{};
    TANGRAM_RETURN_IF_ERROR(done(api.call<Place::element_type>(info, &element)));
    tensor.element_type = element;
    std::size_t axes = 0;
    TANGRAM_RETURN_IF_ERROR(done(api.call<Place::dimensions_count>(info, &axes)));
    tensor.shape.resize(axes);
    return done(api.call<Place::dimensions>(info, tensor.shape.data(), axes));
  };
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  TANGRAM_RETURN_IF_ERROR(done(api.call<Place::input_count>(session, &inputs)));
  TANGRAM_RETURN_IF_ERROR(done(api.call<Place::output_count>(session, &outputs)));
  inputs_.resize(inputs);
  outputs_.resize(outputs);
  for (std::size_t i = 0; i < inputs; ++i) {
    TANGRAM_RETURN_IF_ERROR(read(
        i, [&](std::size_t k, char** name) { return api.call<Place::input_name>(session, k, allocator, name); },
        [&](std::size_t k, TypeInfo** type) { return api.call<Place::input_type>(session, k, type); }, inputs_[i]));
  }
  for (std::size_t i = 0; i < outputs; ++i) {
    TANGRAM_RETURN_IF_ERROR(read(
        i, [&](std::size_t k, char** name) { return api.call<Place::output_name>(session, k, allocator, name); },
        [&](std::size_t k, TypeInfo** type) { return api.call<Place::output_type>(session, k, type); }, outputs_[i]));
  }
  return Nothing{};
}

Result<Nothing> OnnxSession::check(const Signature& signature) const {
  for (const auto& spec : signature.inputs) TANGRAM_RETURN_IF_ERROR(check_tensor(spec, inputs_, "input"));
  for (const auto& spec : signature.outputs) TANGRAM_RETURN_IF_ERROR(check_tensor(spec, outputs_, "output"));
  for (const auto& tensor : inputs_) {
    if (std::ranges::find(signature.inputs, tensor.name, &TensorSpec::name) != signature.inputs.end()) continue;
    return invalid_input(
        fmt::format("the model needs the input {}, which the services file does not declare", tensor.name));
  }
  return Nothing{};
}

Result<Nothing> OnnxSession::run(const Signature& signature, const BatchJob& job, const BatchMemory& memory,
                                 const RunOptions* control) const {
  const Api& api = runtime_.api();
  std::vector<OwnedValue> tensors;
  std::vector<const char*> names;
  std::vector<Value*> values;
  std::vector<std::int64_t> shape;
  const auto add = [&](const TensorSpec& spec, std::span<std::byte> room) -> Result<Nothing> {
    shape_of(spec, job, shape);
    tensors.emplace_back(api);
    TANGRAM_RETURN_IF_ERROR(
        ort::check(api,
                   api.call<Place::create_tensor>(runtime_.cpu_memory(), static_cast<void*>(room.data()), room.size(),
                                                  static_cast<const std::int64_t*>(shape.data()), shape.size(),
                                                  *element_type_of(spec.datatype), tensors.back().out()),
                   spec.name + ": "));
    names.push_back(spec.name.c_str());
    values.push_back(tensors.back().get());
    return Nothing{};
  };
  const std::size_t inputs = signature.inputs.size();
  for (std::size_t i = 0; i < inputs; ++i) TANGRAM_RETURN_IF_ERROR(add(signature.inputs[i], memory.inputs[i]));
  for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
    TANGRAM_RETURN_IF_ERROR(add(signature.outputs[i], memory.outputs[i]));
  }
  return ort::check(api,
                    api.call<Place::run>(session_.get(), control, static_cast<const char* const*>(names.data()),
                                         static_cast<const Value* const*>(values.data()), inputs,
                                         static_cast<const char* const*>(names.data() + inputs),
                                         signature.outputs.size(), values.data() + inputs),
                    "");
}

}  // namespace tangram::engines::ort
