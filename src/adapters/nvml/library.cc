// Loads NVML at run time, so that one binary runs on hosts with and without an NVIDIA driver.
#include "adapters/nvml/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace tangram::adapters {

using nvml_abi::kSuccess;
using nvml_abi::Status;

NvmlLibrary::NvmlLibrary(const std::string& path)
    : path_(path.empty() ? kNvmlLibrary : path), handle_(dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* reason = dlerror();
  why_not_loaded_ = reason == nullptr ? "unknown reason" : reason;
}

NvmlLibrary::~NvmlLibrary() {
  // NVML counts initialisations, so shutdown must match exactly one that succeeded.
  if (initialised_) call<Status()>("nvmlShutdown");
  if (handle_ != nullptr) dlclose(handle_);
}

Status NvmlLibrary::initialise() {
  const Status status = call<Status()>("nvmlInit_v2");
  initialised_ = status == kSuccess;
  return status;
}

Status NvmlLibrary::begin_again() {
  if (initialised_) call<Status()>("nvmlShutdown");
  initialised_ = false;
  return initialise();
}

std::string NvmlLibrary::describe(Status status) const {
  auto* function = reinterpret_cast<const char* (*)(Status)>(symbol("nvmlErrorString"));
  const char* text = function == nullptr ? nullptr : function(status);
  return text == nullptr ? fmt::format("error {}", status) : text;
}

void* NvmlLibrary::symbol(const char* name) const { return handle_ == nullptr ? nullptr : dlsym(handle_, name); }

}  // namespace tangram::adapters
