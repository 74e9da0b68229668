// A stand-in for ONNX Runtime that is strict where the library is not: every handle must be of the right kind and
// alive, a slice's process must see exactly one MIG device before the library is loaded, and providers need their
// limits.
//
// Written from the public documentation of the C interface. What it answers is set by variables that are read when it
// is loaded:
//   TANGRAM_FAKE_ORT_VERSION    what it says that it is; default 1.17.1
//   TANGRAM_FAKE_ORT_PROVIDERS  cuda, tensorrt: those that work, with a comma between; default none
//   TANGRAM_FAKE_ORT_LOG        a file to which it writes the calls that matter, one a line
//
// A model is a text: "input NAME TYPE AXIS..." and "output NAME TYPE AXIS...", where an axis of -1 varies, and
// "steps N MS" for a run of N steps of MS milliseconds each, between which it looks whether it is to stop. An output is
// filled with the sum of the bytes of all inputs, modulo 256. A breach of the rules ends the process with a line on
// standard error that begins with "strict:".
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

// Read when the library is loaded, as CUDA does with its own.
const std::string the_version = variable("TANGRAM_FAKE_ORT_VERSION", "1.17.1");
const std::string the_providers = variable("TANGRAM_FAKE_ORT_PROVIDERS", "");
const std::string the_log = variable("TANGRAM_FAKE_ORT_LOG", "");
const std::string the_visible_devices = variable("CUDA_VISIBLE_DEVICES", "");

[[noreturn]] void breach(const std::string& what) {
  std::fprintf(stderr, "strict: %s\n", what.c_str());
  std::abort();
}

void log(const std::string& line) {
  if (the_log.empty()) return;
  std::ofstream(the_log, std::ios::app) << line << '\n';
}

bool has_provider(const std::string& name) {
  return ("," + the_providers + ",").find("," + name + ",") != std::string::npos;
}

enum class Kind : std::uint32_t {
  status = 0x51A70001,
  env,
  session,
  options,
  run_options,
  memory_info,
  value,
  type_info,
  arena,
  cuda,
  tensorrt,
  allocator,
};

struct Handle {
  explicit Handle(Kind k) : kind(k) { add(this); }
  virtual ~Handle() { remove(this); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  static std::mutex& mutex() {
    static std::mutex the;
    return the;
  }
  static std::set<const Handle*>& alive() {
    static std::set<const Handle*> the;
    return the;
  }
  static void add(const Handle* handle) {
    const std::lock_guard lock(mutex());
    alive().insert(handle);
  }
  static void remove(const Handle* handle) {
    const std::lock_guard lock(mutex());
    alive().erase(handle);
  }
  Kind kind;
};

// The handle behind a pointer, if it is alive and of this kind.
template <typename T>
T* the(const void* pointer, Kind kind, const char* where) {
  const auto* handle = static_cast<const Handle*>(pointer);
  {
    const std::lock_guard lock(Handle::mutex());
    if (!Handle::alive().contains(handle)) breach(std::string(where) + ": a handle that is not alive");
  }
  if (handle->kind != kind) breach(std::string(where) + ": a handle of another kind");
  return static_cast<T*>(const_cast<Handle*>(handle));
}

struct Status : Handle {
  Status(int c, std::string m) : Handle(Kind::status), code(c), message(std::move(m)) {}
  int code;
  std::string message;
};
Status* fail(int code, const std::string& message) { return new Status(code, message); }

struct Plain : Handle {
  using Handle::Handle;
};
struct Options : Handle {
  Options() : Handle(Kind::options) {}
  int threads = 0;
  bool spinning = true;
  bool env_allocators = false;
  std::vector<std::string> providers;
  std::uint64_t memory_limit = 0;
};
struct Provider : Handle {
  using Handle::Handle;
  std::map<std::string, std::string> entries;
};
struct Arena : Handle {
  Arena() : Handle(Kind::arena) {}
  std::map<std::string, std::size_t> entries;
};
struct Env : Handle {
  Env() : Handle(Kind::env) {}
  bool arena = false;
};
struct RunOptions : Handle {
  RunOptions() : Handle(Kind::run_options) {}
  std::atomic<bool> terminate{false};
};
struct Tensor {
  std::string name;
  int type = 0;
  std::vector<std::int64_t> axes;
};
struct TypeInfo : Handle {
  explicit TypeInfo(const Tensor& t) : Handle(Kind::type_info), tensor(t) {}
  Tensor tensor;
};
struct Session : Handle {
  Session() : Handle(Kind::session) {}
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  int steps = 0;
  int step_ms = 0;
  std::uint64_t memory_limit = 0;
};
struct Value : Handle {
  Value() : Handle(Kind::value) {}
  unsigned char* data = nullptr;
  std::size_t bytes = 0;
  std::vector<std::int64_t> shape;
  int type = 0;
};

std::size_t size_of(int type) {
  switch (type) {
    case 2:
    case 3:
    case 9: return 1;
    case 4:
    case 5:
    case 10:
    case 16: return 2;
    case 1:
    case 6:
    case 12: return 4;
    default: return 8;
  }
}

// ---- What the table holds ----

int get_error_code(const void* status) { return the<Status>(status, Kind::status, "GetErrorCode")->code; }
const char* get_error_message(const void* status) {
  return the<Status>(status, Kind::status, "GetErrorMessage")->message.c_str();
}
Status* create_env(int, const char* name, void** out) {
  if (name == nullptr) breach("CreateEnv without a name");
  *out = new Env;
  return nullptr;
}
Status* create_options(void** out) {
  *out = new Options;
  return nullptr;
}
Options* options_of(void* options, const char* where) { return the<Options>(options, Kind::options, where); }
Status* set_number(void* options, int) {
  options_of(options, "SetSession...");
  return nullptr;
}
Status* set_nothing(void* options) {
  options_of(options, "SetSession...");
  return nullptr;
}
Status* set_threads(void* options, int threads) {
  if (threads < 1) breach("SetIntraOpNumThreads: 0 takes every core of the machine");
  options_of(options, "SetIntraOpNumThreads")->threads = threads;
  return nullptr;
}
Status* add_entry(void* options, const char* key, const char* value) {
  Options* to = options_of(options, "AddSessionConfigEntry");
  if (std::strcmp(key, "session.intra_op.allow_spinning") == 0) to->spinning = std::strcmp(value, "0") != 0;
  if (std::strcmp(key, "session.use_env_allocators") == 0) to->env_allocators = true;
  return nullptr;
}

Status* append(void* options, const void* given, Kind kind, const char* name) {
  Options* to = options_of(options, "AppendExecutionProvider");
  const auto* provider = the<Provider>(given, kind, "AppendExecutionProvider");
  if (!has_provider(name)) {
    return fail(1, std::string("Failed to load library libonnxruntime_providers_shared.so with error: "
                               "cannot open shared object file (") +
                       name + ")");
  }
  // A process on a slice sees the MIG device of the slice and nothing else, and says so before CUDA is loaded.
  if (!the_visible_devices.starts_with("MIG-") || the_visible_devices.find(',') != std::string::npos) {
    breach("CUDA_VISIBLE_DEVICES was \"" + the_visible_devices + "\" when the library was loaded, not one MIG device");
  }
  if (provider->entries.count("device_id") == 0 || provider->entries.at("device_id") != "0") {
    breach("a process that sees one device must name device 0");
  }
  if (kind == Kind::cuda) {
    if (provider->entries.count("gpu_mem_limit") == 0) breach("CUDA without gpu_mem_limit takes the whole device");
    to->memory_limit = std::strtoull(provider->entries.at("gpu_mem_limit").c_str(), nullptr, 10);
    log("cuda " + the_visible_devices + " limit " + provider->entries.at("gpu_mem_limit"));
  } else {
    if (std::find(to->providers.begin(), to->providers.end(), "cuda") != to->providers.end()) {
      breach("TensorRT must come before CUDA");
    }
    // Without a folder, TensorRT keeps its engines in the working directory.
    const bool keeps = provider->entries.count("trt_engine_cache_enable") == 0 ||
                       provider->entries.at("trt_engine_cache_enable") != "0";
    const bool named = provider->entries.count("trt_engine_cache_path") != 0;
    if (keeps != named) breach("TensorRT keeps engines without a folder, or has a folder and keeps none");
    log("tensorrt cache " + (named ? provider->entries.at("trt_engine_cache_path") : std::string("none")));
  }
  to->providers.emplace_back(name);
  return nullptr;
}
template <Kind kind>
Status* create_provider(void** out) {
  *out = new Provider(kind);
  return nullptr;
}
template <Kind kind>
Status* update_provider(void* given, const char* const* keys, const char* const* values, std::size_t count) {
  static const std::set<std::string> known{"device_id",
                                           "gpu_mem_limit",
                                           "arena_extend_strategy",
                                           "cudnn_conv_algo_search",
                                           "trt_engine_cache_enable",
                                           "trt_engine_cache_path"};
  auto* provider = the<Provider>(given, kind, "UpdateProviderOptions");
  for (std::size_t i = 0; i < count; ++i) {
    if (!known.contains(keys[i])) return fail(2, std::string("Unknown provider option: \"") + keys[i] + "\"");
    provider->entries[keys[i]] = values[i];
  }
  return nullptr;
}
Status* append_cuda(void* options, const void* given) { return append(options, given, Kind::cuda, "cuda"); }
Status* append_tensorrt(void* options, const void* given) { return append(options, given, Kind::tensorrt, "tensorrt"); }

Status* create_arena(const char* const* keys, const std::size_t* values, std::size_t count, void** out) {
  auto* arena = new Arena;
  for (std::size_t i = 0; i < count; ++i) arena->entries[keys[i]] = values[i];
  *out = arena;
  return nullptr;
}
Status* register_allocator(void* env, const void* info, const void* arena) {
  the<Plain>(info, Kind::memory_info, "CreateAndRegisterAllocator");
  the<Env>(env, Kind::env, "CreateAndRegisterAllocator")->arena = true;
  const auto& entries = the<Arena>(arena, Kind::arena, "CreateAndRegisterAllocator")->entries;
  log("arena limit " + std::to_string(entries.at("max_mem")));
  return nullptr;
}

int type_of(const std::string& name) {
  static const std::map<std::string, int> types{{"float", 1}, {"uint8", 2}, {"int32", 6}, {"int64", 7}, {"string", 8}};
  const auto found = types.find(name);
  return found == types.end() ? 0 : found->second;
}
Tensor read_tensor(std::istringstream& words) {
  Tensor tensor;
  std::string type;
  words >> tensor.name >> type;
  tensor.type = type_of(type);
  for (std::int64_t axis = 0; words >> axis;) tensor.axes.push_back(axis);
  return tensor;
}
Status* create_session(const void* env, const char* path, const void* given, void** out) {
  const auto* with = the<Env>(env, Kind::env, "CreateSession");
  const auto* options = the<Options>(given, Kind::options, "CreateSession");
  if (options->threads == 0) breach("CreateSession: the number of threads was not set");
  if (options->spinning) breach("CreateSession: threads spin");
  if (options->env_allocators && !with->arena) breach("CreateSession: asks for an arena that was not registered");
  std::ifstream file(path);
  if (!file) return fail(3, std::string("Load model from ") + path + " failed. File doesn't exist");
  auto* session = new Session;
  session->memory_limit = options->memory_limit;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "input") session->inputs.push_back(read_tensor(words));
    if (kind == "output") session->outputs.push_back(read_tensor(words));
    if (kind == "steps") words >> session->steps >> session->step_ms;
  }
  if (session->outputs.empty()) {
    delete session;
    return fail(7, std::string("Load model from ") + path + " failed:Protobuf parsing failed.");
  }
  *out = session;
  std::string providers;
  for (const auto& provider : options->providers) providers += " " + provider;
  log("session" + (providers.empty() ? std::string(" cpu") : providers));
  return nullptr;
}

const Session* session_of(const void* session) { return the<Session>(session, Kind::session, "Session..."); }
Status* input_count(const void* session, std::size_t* out) {
  *out = session_of(session)->inputs.size();
  return nullptr;
}
Status* output_count(const void* session, std::size_t* out) {
  *out = session_of(session)->outputs.size();
  return nullptr;
}
Status* name_of(const std::vector<Tensor>& tensors, std::size_t index, const void* allocator, char** out) {
  the<Plain>(allocator, Kind::allocator, "SessionGet...Name");
  if (index >= tensors.size()) return fail(2, "index out of range");
  *out = strdup(tensors[index].name.c_str());
  return nullptr;
}
Status* input_name(const void* session, std::size_t index, void* allocator, char** out) {
  return name_of(session_of(session)->inputs, index, allocator, out);
}
Status* output_name(const void* session, std::size_t index, void* allocator, char** out) {
  return name_of(session_of(session)->outputs, index, allocator, out);
}
Status* input_type(const void* session, std::size_t index, void** out) {
  *out = new TypeInfo(session_of(session)->inputs.at(index));
  return nullptr;
}
Status* output_type(const void* session, std::size_t index, void** out) {
  *out = new TypeInfo(session_of(session)->outputs.at(index));
  return nullptr;
}
Status* tensor_info(const void* type, const void** out) {
  *out = the<TypeInfo>(type, Kind::type_info, "CastTypeInfoToTensorInfo");
  return nullptr;
}
const Tensor& tensor_of(const void* info) { return the<TypeInfo>(info, Kind::type_info, "GetTensor...")->tensor; }
Status* element_type(const void* info, int* out) {
  *out = tensor_of(info).type;
  return nullptr;
}
Status* dimensions_count(const void* info, std::size_t* out) {
  *out = tensor_of(info).axes.size();
  return nullptr;
}
Status* dimensions(const void* info, std::int64_t* out, std::size_t count) {
  const auto& axes = tensor_of(info).axes;
  if (count != axes.size()) breach("GetDimensions: another number of axes");
  std::copy(axes.begin(), axes.end(), out);
  return nullptr;
}

Plain& the_allocator() {
  static Plain allocator(Kind::allocator);
  return allocator;
}
Status* default_allocator(void** out) {
  *out = &the_allocator();
  return nullptr;
}
Status* allocator_free(void* allocator, void* pointer) {
  the<Plain>(allocator, Kind::allocator, "AllocatorFree");
  std::free(pointer);
  return nullptr;
}
Status* create_memory_info(int, int, void** out) {
  *out = new Plain(Kind::memory_info);
  return nullptr;
}
Status* create_tensor(const void* info, void* data, std::size_t bytes, const std::int64_t* shape, std::size_t axes,
                      int type, void** out) {
  the<Plain>(info, Kind::memory_info, "CreateTensorWithData");
  std::size_t needed = size_of(type);
  for (std::size_t i = 0; i < axes; ++i) needed *= static_cast<std::size_t>(shape[i]);
  if (needed != bytes)
    return fail(2, "not enough space: expected " + std::to_string(needed) + ", got " + std::to_string(bytes));
  auto* value = new Value;
  value->data = static_cast<unsigned char*>(data);
  value->bytes = bytes;
  value->shape.assign(shape, shape + axes);
  value->type = type;
  *out = value;
  return nullptr;
}
Status* create_run_options(void** out) {
  *out = new RunOptions;
  return nullptr;
}
Status* set_terminate(void* options) {
  the<RunOptions>(options, Kind::run_options, "RunOptionsSetTerminate")->terminate = true;
  return nullptr;
}
Status* unset_terminate(void* options) {
  the<RunOptions>(options, Kind::run_options, "RunOptionsUnsetTerminate")->terminate = false;
  return nullptr;
}

// The tensor with this name, or a status that says what does not fit.
Status* match(const std::vector<Tensor>& tensors, const char* name, const Value& value) {
  for (const auto& tensor : tensors) {
    if (tensor.name != name) continue;
    if (tensor.type != value.type) return fail(2, std::string("Unexpected input data type for ") + name);
    if (tensor.axes.size() != value.shape.size()) return fail(2, std::string("Invalid rank for ") + name);
    for (std::size_t i = 0; i < tensor.axes.size(); ++i) {
      if (tensor.axes[i] != -1 && tensor.axes[i] != value.shape[i]) {
        return fail(2, std::string("Got invalid dimensions for ") + name + " index: " + std::to_string(i));
      }
    }
    return nullptr;
  }
  return fail(2, std::string("Invalid Feed Input Name:") + name);
}
Status* run(void* given, const void* run_options, const char* const* input_names, const void* const* inputs,
            std::size_t inputs_count, const char* const* output_names, std::size_t outputs_count, void** outputs) {
  const auto* session = session_of(given);
  auto* control = the<RunOptions>(run_options, Kind::run_options, "Run");
  if (inputs_count != session->inputs.size()) return fail(2, "Missing Input");
  unsigned sum = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < inputs_count; ++i) {
    const auto* value = the<Value>(inputs[i], Kind::value, "Run");
    if (Status* status = match(session->inputs, input_names[i], *value)) return status;
    for (std::size_t k = 0; k < value->bytes; ++k) sum += value->data[k];
    bytes += value->bytes;
  }
  if (session->memory_limit > 0 && bytes > session->memory_limit) {
    return fail(6, "BFCArena: Failed to allocate memory for requested buffer of size " + std::to_string(bytes));
  }
  for (int step = 0; step < session->steps; ++step) {
    if (control->terminate) return fail(1, "Exiting due to terminate flag being set to true.");
    const timespec pause{0, session->step_ms * 1'000'000L};
    nanosleep(&pause, nullptr);
  }
  for (std::size_t i = 0; i < outputs_count; ++i) {
    if (outputs[i] == nullptr) breach("Run: an output without memory would be allocated by the library");
    const auto* value = the<Value>(outputs[i], Kind::value, "Run");
    if (Status* status = match(session->outputs, output_names[i], *value)) return status;
    std::memset(value->data, static_cast<int>(sum & 0xFF), value->bytes);
  }
  return nullptr;
}

template <typename T, Kind kind>
void release(void* handle) {
  if (handle != nullptr) delete the<T>(handle, kind, "Release");
}

// ---- The table ----

[[noreturn]] void not_there() { breach("a place of the table was called that this stand-in does not know"); }

template <typename F>
const void* pointer(F* function) {
  return reinterpret_cast<const void*>(function);
}

const void* const* the_table() {
  static const std::vector<const void*> table = [] {
    std::vector<const void*> all(320, pointer(not_there));
    all[1] = pointer(get_error_code);
    all[2] = pointer(get_error_message);
    all[3] = pointer(create_env);
    all[7] = pointer(create_session);
    all[9] = pointer(run);
    all[10] = pointer(create_options);
    all[17] = pointer(set_nothing);
    all[22] = pointer(set_number);
    all[23] = pointer(set_number);
    all[24] = pointer(set_threads);
    all[25] = pointer(set_number);
    all[30] = pointer(input_count);
    all[31] = pointer(output_count);
    all[33] = pointer(input_type);
    all[34] = pointer(output_type);
    all[36] = pointer(input_name);
    all[37] = pointer(output_name);
    all[39] = pointer(create_run_options);
    all[46] = pointer(set_terminate);
    all[47] = pointer(unset_terminate);
    all[49] = pointer(create_tensor);
    all[55] = pointer(tensor_info);
    all[60] = pointer(element_type);
    all[61] = pointer(dimensions_count);
    all[62] = pointer(dimensions);
    all[69] = pointer(create_memory_info);
    all[76] = pointer(allocator_free);
    all[78] = pointer(default_allocator);
    all[92] = pointer(release<Env, Kind::env>);
    all[93] = pointer(release<Status, Kind::status>);
    all[94] = pointer(release<Plain, Kind::memory_info>);
    all[95] = pointer(release<Session, Kind::session>);
    all[96] = pointer(release<Value, Kind::value>);
    all[97] = pointer(release<RunOptions, Kind::run_options>);
    all[98] = pointer(release<TypeInfo, Kind::type_info>);
    all[100] = pointer(release<Options, Kind::options>);
    all[130] = pointer(add_entry);
    all[144] = pointer(register_allocator);
    all[157] = pointer(release<Arena, Kind::arena>);
    all[164] = pointer(create_arena);
    all[170] = pointer(append_tensorrt);
    all[171] = pointer(create_provider<Kind::tensorrt>);
    all[172] = pointer(update_provider<Kind::tensorrt>);
    all[174] = pointer(release<Provider, Kind::tensorrt>);
    all[204] = pointer(append_cuda);
    all[205] = pointer(create_provider<Kind::cuda>);
    all[206] = pointer(update_provider<Kind::cuda>);
    all[208] = pointer(release<Provider, Kind::cuda>);
    return all;
  }();
  return table.data();
}

const void* const* table_of(std::uint32_t version) {
  const auto minor = static_cast<std::uint32_t>(std::atoi(the_version.c_str() + the_version.find('.') + 1));
  if (version >= 1 && version <= minor) return the_table();
  std::fprintf(stderr, "The requested API version [%u] is not available, only API versions [1, %u]\n", version, minor);
  return nullptr;
}
const char* version() { return the_version.c_str(); }

struct Base {
  const void* const* (*table)(std::uint32_t);
  const char* (*version)();
};
constexpr Base kBase{table_of, version};

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* OrtGetApiBase();
extern "C" __attribute__((visibility("default"))) const void* OrtGetApiBase() { return &kBase; }
