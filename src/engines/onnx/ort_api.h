// Our own declarations of the C interface of ONNX Runtime, so that nothing of it is needed to build.
//
// The interface is one table of function pointers. It only grows: a function keeps its place in every later version, so
// a place and a type are all that a caller needs. Only what Tangram calls is declared.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tangram::engines::ort {

struct Env;
struct Status;
struct Session;
struct SessionOptions;
struct RunOptions;
struct MemoryInfo;
struct Value;
struct TypeInfo;
struct TensorInfo;
struct Allocator;
struct ArenaConfig;
struct CudaOptions;
struct TensorrtOptions;

// The element types of tensors, by the numbers that ONNX files use, too.
enum ElementType : int {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
};

inline constexpr int kLogNothing = 4;      // Logging level: what ends the process. Errors are returned.
inline constexpr int kOptimiseAll = 99;    // Of graphs.
inline constexpr int kArenaAllocator = 1;  // Kind of a MemoryInfo.
inline constexpr int kDefaultMemory = 0;   // Kind of memory.
inline constexpr int kErrorNotImplemented = 9;

// What the library exports by name. Everything else is in the table that `table` returns.
struct ApiBase {
  const void* const* (*table)(std::uint32_t version);
  const char* (*version)();
};

// The places of the functions in the table. Those with a mark came with that version of the interface; the others are
// as old as version 7.
enum class Place : std::uint16_t {
  get_error_code = 1,
  get_error_message = 2,
  create_env = 3,
  create_session = 7,
  run = 9,
  create_session_options = 10,
  disable_mem_pattern = 17,
  set_log_severity = 22,
  set_optimisation = 23,
  set_intra_op_threads = 24,
  set_inter_op_threads = 25,
  input_count = 30,
  output_count = 31,
  input_type = 33,
  output_type = 34,
  input_name = 36,
  output_name = 37,
  create_run_options = 39,
  set_terminate = 46,
  unset_terminate = 47,
  create_tensor = 49,
  tensor_info = 55,
  element_type = 60,
  dimensions_count = 61,
  dimensions = 62,
  create_cpu_memory_info = 69,
  allocator_free = 76,
  default_allocator = 78,
  release_env = 92,
  release_status = 93,
  release_memory_info = 94,
  release_session = 95,
  release_value = 96,
  release_run_options = 97,
  release_type_info = 98,
  release_session_options = 100,
  add_session_entry = 130,
  register_allocator = 144,
  release_arena_config = 157,
  create_arena_config = 164,  // Version 8.
  append_tensorrt = 170,      // Version 9 to here ...
  create_tensorrt_options = 171,
  update_tensorrt_options = 172,
  release_tensorrt_options = 174,
  append_cuda = 204,  // Version 11 to here ...
  create_cuda_options = 205,
  update_cuda_options = 206,
  release_cuda_options = 208,
};

// The oldest version of the interface with all of these places, and the newest that is asked for: a table asked for by
// a number is at least as long as that version's, so asking for more than what is used gains nothing.
inline constexpr std::uint32_t kVersionMin = 11;
inline constexpr std::uint32_t kVersionMax = 14;

// The type of the function at each place. Those that can fail return a status, null if all is well.
template <Place place>
struct Function;

#define TANGRAM_ORT(place, ...)   \
  template <>                     \
  struct Function<Place::place> { \
    using Type = __VA_ARGS__;     \
  }
TANGRAM_ORT(get_error_code, int (*)(const Status*));
TANGRAM_ORT(get_error_message, const char* (*)(const Status*));
TANGRAM_ORT(create_env, Status* (*)(int level, const char* name, Env**));
TANGRAM_ORT(create_session, Status* (*)(const Env*, const char* path, const SessionOptions*, Session**));
TANGRAM_ORT(run, Status* (*)(Session*, const RunOptions*, const char* const* input_names, const Value* const* inputs,
                             std::size_t inputs_count, const char* const* output_names, std::size_t outputs_count,
                             Value** outputs));
TANGRAM_ORT(create_session_options, Status* (*)(SessionOptions**));
TANGRAM_ORT(disable_mem_pattern, Status* (*)(SessionOptions*));
TANGRAM_ORT(set_log_severity, Status* (*)(SessionOptions*, int level));
TANGRAM_ORT(set_optimisation, Status* (*)(SessionOptions*, int level));
TANGRAM_ORT(set_intra_op_threads, Status* (*)(SessionOptions*, int threads));
TANGRAM_ORT(set_inter_op_threads, Status* (*)(SessionOptions*, int threads));
TANGRAM_ORT(input_count, Status* (*)(const Session*, std::size_t*));
TANGRAM_ORT(output_count, Status* (*)(const Session*, std::size_t*));
TANGRAM_ORT(input_type, Status* (*)(const Session*, std::size_t index, TypeInfo**));
TANGRAM_ORT(output_type, Status* (*)(const Session*, std::size_t index, TypeInfo**));
TANGRAM_ORT(input_name, Status* (*)(const Session*, std::size_t index, Allocator*, char**));
TANGRAM_ORT(output_name, Status* (*)(const Session*, std::size_t index, Allocator*, char**));
TANGRAM_ORT(create_run_options, Status* (*)(RunOptions**));
TANGRAM_ORT(set_terminate, Status* (*)(RunOptions*));
TANGRAM_ORT(unset_terminate, Status* (*)(RunOptions*));
TANGRAM_ORT(create_tensor, Status* (*)(const MemoryInfo*, void* data, std::size_t bytes, const std::int64_t* shape,
                                       std::size_t axes, ElementType, Value**));
TANGRAM_ORT(tensor_info, Status* (*)(const TypeInfo*, const TensorInfo**));
TANGRAM_ORT(element_type, Status* (*)(const TensorInfo*, ElementType*));
TANGRAM_ORT(dimensions_count, Status* (*)(const TensorInfo*, std::size_t*));
TANGRAM_ORT(dimensions, Status* (*)(const TensorInfo*, std::int64_t*, std::size_t));
TANGRAM_ORT(create_cpu_memory_info, Status* (*)(int allocator, int memory, MemoryInfo**));
TANGRAM_ORT(allocator_free, Status* (*)(Allocator*, void*));
TANGRAM_ORT(default_allocator, Status* (*)(Allocator**));
TANGRAM_ORT(release_env, void (*)(Env*));
TANGRAM_ORT(release_status, void (*)(Status*));
TANGRAM_ORT(release_memory_info, void (*)(MemoryInfo*));
TANGRAM_ORT(release_session, void (*)(Session*));
TANGRAM_ORT(release_value, void (*)(Value*));
TANGRAM_ORT(release_run_options, void (*)(RunOptions*));
TANGRAM_ORT(release_type_info, void (*)(TypeInfo*));
TANGRAM_ORT(release_session_options, void (*)(SessionOptions*));
TANGRAM_ORT(add_session_entry, Status* (*)(SessionOptions*, const char* key, const char* value));
TANGRAM_ORT(register_allocator, Status* (*)(Env*, const MemoryInfo*, const ArenaConfig*));
TANGRAM_ORT(release_arena_config, void (*)(ArenaConfig*));
TANGRAM_ORT(create_arena_config,
            Status* (*)(const char* const* keys, const std::size_t* values, std::size_t count, ArenaConfig**));
TANGRAM_ORT(append_tensorrt, Status* (*)(SessionOptions*, const TensorrtOptions*));
TANGRAM_ORT(create_tensorrt_options, Status* (*)(TensorrtOptions**));
TANGRAM_ORT(update_tensorrt_options,
            Status* (*)(TensorrtOptions*, const char* const* keys, const char* const* values, std::size_t count));
TANGRAM_ORT(release_tensorrt_options, void (*)(TensorrtOptions*));
TANGRAM_ORT(append_cuda, Status* (*)(SessionOptions*, const CudaOptions*));
TANGRAM_ORT(create_cuda_options, Status* (*)(CudaOptions**));
TANGRAM_ORT(update_cuda_options,
            Status* (*)(CudaOptions*, const char* const* keys, const char* const* values, std::size_t count));
TANGRAM_ORT(release_cuda_options, void (*)(CudaOptions*));
#undef TANGRAM_ORT

// The table of a library that is loaded.
class Api {
 public:
  explicit Api(const void* const* table) : table_(table) {}

  // Calls the function at `place`.
  template <Place place, typename... Arguments>
  auto call(Arguments... arguments) const {
    const auto function =
        reinterpret_cast<typename Function<place>::Type>(const_cast<void*>(table_[static_cast<std::size_t>(place)]));
    return function(arguments...);
  }

 private:
  const void* const* table_;
};

// Owns what the library made; `place` releases it.
template <typename T, Place place>
class Owned {
 public:
  explicit Owned(const Api& api) : api_(&api) {}
  ~Owned() {
    if (value_ != nullptr) api_->call<place>(value_);
  }
  Owned(Owned&& other) noexcept : api_(other.api_), value_(other.value_) { other.value_ = nullptr; }
  Owned& operator=(Owned&&) = delete;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  T* get() const { return value_; }
  // Where the library writes what it makes. Requires that nothing is owned yet.
  T** out() { return &value_; }

 private:
  const Api* api_;
  T* value_ = nullptr;
};

using OwnedEnv = Owned<Env, Place::release_env>;
using OwnedSession = Owned<Session, Place::release_session>;
using OwnedSessionOptions = Owned<SessionOptions, Place::release_session_options>;
using OwnedRunOptions = Owned<RunOptions, Place::release_run_options>;
using OwnedMemoryInfo = Owned<MemoryInfo, Place::release_memory_info>;
using OwnedValue = Owned<Value, Place::release_value>;
using OwnedTypeInfo = Owned<TypeInfo, Place::release_type_info>;
using OwnedArenaConfig = Owned<ArenaConfig, Place::release_arena_config>;
using OwnedCudaOptions = Owned<CudaOptions, Place::release_cuda_options>;
using OwnedTensorrtOptions = Owned<TensorrtOptions, Place::release_tensorrt_options>;

}  // namespace tangram::engines::ort
