// One ONNX model that is loaded with ONNX Runtime and can run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/tensor.h"
#include "engines/batch_engine.h"
#include "engines/onnx/ort_library.h"

namespace tangram::engines::ort {

// What several sessions of a process share: the environment with the arena for tensors, and the options of a slice.
class Runtime {
 public:
  // Errors: the library refuses, or the provider of the slice is not there. The provider is tried, not looked up: a
  // library may list one whose own libraries are missing.
  static Result<std::unique_ptr<Runtime>> make(const Library& library, const BatchEngineConfig& config);

  const Api& api() const { return library_.api; }
  const Env* env() const { return env_.get(); }
  // How sessions run on this slice: its threads, its provider.
  Result<OwnedSessionOptions> session_options() const;
  const MemoryInfo* cpu_memory() const { return cpu_memory_.get(); }
  // Error: what is loaded takes more memory than the slice has. To be asked after each model: the library's own limit
  // does not hold where weights alone exceed it.
  Result<Nothing> check_memory() const;

 private:
  Runtime(const Library& library, const BatchEngineConfig& config);
  // Limits the memory for tensors between layers, which all sessions share.
  Result<Nothing> limit_arena();
  Result<Nothing> append_cuda(SessionOptions* options) const;
  Result<Nothing> append_tensorrt(SessionOptions* options) const;
  // Of a GPU, in bytes, without what CUDA takes for itself; 0: not known.
  std::uint64_t gpu_memory_limit() const;

  const Library& library_;
  BatchEngineConfig config_;
  std::string provider_;
  OwnedEnv env_;
  OwnedMemoryInfo cpu_memory_;
  bool shared_arena_ = false;
};

// The provider that a slice of this device uses if none is named.
std::string default_provider(std::string_view device);
// "cpu", "cuda", "tensorrt".
std::span<const std::string_view> provider_names();

// An input or output of a model. An axis of -1 has no fixed length.
struct ModelTensor {
  std::string name;
  int element_type = 0;
  std::vector<std::int64_t> shape;
};

// The element type of ONNX; nothing where there is none, and for BYTES.
std::optional<ElementType> element_type_of(Datatype datatype);

class OnnxSession {
 public:
  // Reads the file at `path`. `runtime` outlives the session.
  static Result<std::shared_ptr<OnnxSession>> open(const Runtime& runtime, const std::string& path);

  const std::vector<ModelTensor>& inputs() const { return inputs_; }
  const std::vector<ModelTensor>& outputs() const { return outputs_; }

  // Why a service with this signature cannot run the model: names, types, axes. Nothing: it can.
  Result<Nothing> check(const Signature& signature) const;
  // Reads the inputs and fills the outputs, in the order of the signature. Requires that check() returned no error.
  // `control` ends it early.
  Result<Nothing> run(const Signature& signature, const BatchJob& job, const BatchMemory& memory,
                      const RunOptions* control) const;

 private:
  explicit OnnxSession(const Runtime& runtime) : runtime_(runtime), session_(runtime.api()) {}
  Result<Nothing> read_tensors();

  const Runtime& runtime_;
  OwnedSession session_;
  std::vector<ModelTensor> inputs_;
  std::vector<ModelTensor> outputs_;
};

}  // namespace tangram::engines::ort
