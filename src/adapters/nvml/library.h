// NVIDIA's management library, found at run time and called by name.
#pragma once

#include <string>

#include "adapters/nvml/abi.h"

namespace tangram::adapters {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";  // Where the dynamic linker looks.

// The library, open for as long as this lives.
class NvmlLibrary {
 public:
  // `path` is one for the dynamic linker; empty: kNvmlLibrary.
  explicit NvmlLibrary(const std::string& path);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  bool found() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }
  // Why the library could not be loaded, in the linker's words; empty if it was.
  const std::string& why_not_loaded() const { return why_not_loaded_; }
  nvml_abi::Status initialise();
  // Ends the session and begins another: a change of MIG mode may reset the GPU under the old one.
  nvml_abi::Status begin_again();

  // A function that this version of the library does not have answers "not supported".
  template <typename Signature, typename... Arguments>
  nvml_abi::Status call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<Signature*>(symbol(name));
    return function == nullptr ? nvml_abi::kNotSupported : function(arguments...);
  }
  bool has(const char* name) const { return symbol(name) != nullptr; }

  // The library's own words for a status.
  std::string describe(nvml_abi::Status status) const;

  // Text that the library writes into a buffer; empty if it does not.
  template <typename... Arguments>
  std::string text(const char* name, Arguments... arguments) const {
    using namespace nvml_abi;
    char buffer[kNameSize] = {};
    const Status status = call<Status(Arguments..., char*, unsigned)>(name, arguments..., buffer, kNameSize);
    buffer[kNameSize - 1] = '\0';
    return status == kSuccess ? buffer : "";
  }

 private:
  void* symbol(const char* name) const;

  std::string path_;
  void* handle_;
  std::string why_not_loaded_;
  bool initialised_ = false;
};

}  // namespace tangram::adapters
