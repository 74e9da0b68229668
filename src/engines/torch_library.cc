// Loads libtorch as a shared object on first use, so that the program starts without it and runs where it is absent.
#include "engines/torch_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace tangram::engines {
namespace {

constexpr const char* kFileName = "libtangram_torch.so";

// The path of the shared object, beside the program (a build) or in ../lib/tangram (an installation), or "".
std::string find_library() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const auto folder = program.parent_path();
  for (const auto& place : {folder / kFileName, folder.parent_path() / "lib" / "tangram" / kFileName}) {
    if (std::filesystem::exists(place, error)) return place.string();
  }
  return {};
}

// OpenBLAS chooses its kernels by the processor's model number. One that is newer than the library gets those of
// 2004, which are several times slower than what the processor can do. A value set by the user is kept.
void choose_blas_kernels() {
#if defined(__x86_64__)
  const char* kernels = nullptr;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
    kernels = "SkylakeX";
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    kernels = "Haswell";
  }
  if (kernels != nullptr) setenv("OPENBLAS_CORETYPE", kernels, 0);
#endif
}

// OpenMP threads spin at barriers before they sleep. Where a slice's cores are not its own, or a quota stops one of
// them, the others burn the time that it needs: two threads beside other work took ten times as long as one. libgomp
// reads the variable when it is loaded, which only libtorch does in a worker.
void let_threads_sleep() { setenv("OMP_WAIT_POLICY", "passive", 0); }

Result<const TorchLibrary*> load() {
  const std::string path = find_library();
  if (path.empty()) {
    return Error{
        ErrorCode::not_found,
        fmt::format("this Tangram was built without libtorch: {} is not in the folder of the program", kFileName)};
  }
  choose_blas_kernels();
  let_threads_sleep();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{ErrorCode::unavailable, fmt::format("cannot load {}", dlerror())};
  using Open = const TorchLibrary* (*)();
  const auto open = reinterpret_cast<Open>(dlsym(library, kTorchLibrarySymbol));
  if (open == nullptr) return Error{ErrorCode::invalid, path + ": belongs to another version of Tangram"};
  return open();
}

}  // namespace

Result<const TorchLibrary*> load_torch_library() {
  // Once per process; the library is never unloaded.
  static const Result<const TorchLibrary*> loaded = load();
  return loaded;
}

bool has_torch_library() { return !find_library().empty(); }

}  // namespace tangram::engines
