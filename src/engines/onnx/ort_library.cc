// Finds ONNX Runtime and agrees with it on a version of its interface.
#include "engines/onnx/ort_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace tangram::engines::ort {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"libonnxruntime.so.1", "libonnxruntime.so"};

// Every place to look at, in this order. A name without a folder is looked for by the system's loader.
std::vector<std::string> places() {
  std::vector<fs::path> folders{""};
  std::error_code error;
  if (const auto program = fs::read_symlink("/proc/self/exe", error); !error) {
    folders.push_back(program.parent_path());
    folders.push_back(program.parent_path().parent_path() / "lib" / "tangram");
  }
  folders.emplace_back("/opt/onnxruntime/lib");
  if (const char* conda = std::getenv("CONDA_PREFIX"); conda != nullptr) folders.push_back(fs::path(conda) / "lib");
  std::vector<std::string> list;
  for (const auto& folder : folders) {
    for (const char* name : kNames) list.push_back((folder / name).string());
  }
  return list;
}

// True if the file is there, or may be there because the loader decides.
bool worth_loading(const std::string& place) {
  std::error_code error;
  return place.find('/') == std::string::npos || fs::exists(place, error);
}

Result<Library> find() {
  if (const char* file = std::getenv("TANGRAM_ONNXRUNTIME"); file != nullptr && *file != '\0') {
    return open_library(file);
  }
  const auto list = places();
  for (const auto& place : list) {
    if (!worth_loading(place)) continue;
    auto opened = open_library(place);
    // A name that the loader does not find is no error as long as another place has the library.
    if (opened || place.find('/') != std::string::npos) return opened;
    if (opened.error().code != ErrorCode::not_found) return opened;
  }
  return Error{ErrorCode::not_found,
               fmt::format("ONNX Runtime was not found; looked for {}. A Python wheel has it as "
                           "onnxruntime/capi/libonnxruntime.so.1.*: set TANGRAM_ONNXRUNTIME to that file",
                           fmt::join(list, ", "))};
}

}  // namespace

std::optional<std::uint32_t> interface_version(std::string_view version) {
  if (!version.starts_with("1.")) return std::nullopt;
  const std::string_view rest = version.substr(2);
  std::uint32_t minor = 0;
  const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), minor);
  const bool whole = end == rest.data() + rest.size() || *end == '.';
  return problem == std::errc() && whole ? std::optional(minor) : std::nullopt;
}

Result<Library> open_library(const std::string& path) {
  // RTLD_LOCAL: its symbols, such as those of protobuf, must not meet ours.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string reason = dlerror();
    // The loader has no codes, only this text for a file that is not there.
    const bool absent = reason.find(path + ": cannot open shared object file: No such file") != std::string::npos;
    return Error{absent ? ErrorCode::not_found : ErrorCode::unavailable,
                 fmt::format("cannot load ONNX Runtime: {}", reason)};
  }
  const auto base_of = reinterpret_cast<const ApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  const ApiBase* base = base_of == nullptr ? nullptr : base_of();
  if (base == nullptr || base->table == nullptr || base->version == nullptr) {
    return Error{ErrorCode::invalid, path + ": is not ONNX Runtime: it has no OrtGetApiBase"};
  }
  const char* text = base->version();
  const std::string version = text == nullptr ? "" : text;
  const auto minor = interface_version(version);
  if (!minor || *minor < kVersionMin) {
    return Error{ErrorCode::invalid,
                 fmt::format("{}: is ONNX Runtime {}; expected 1.{} or later", path, version, kVersionMin)};
  }
  // A table for a version that the library does not have is null, and the library writes to standard error.
  const void* const* table = base->table(std::min(*minor, kVersionMax));
  if (table == nullptr) {
    return Error{ErrorCode::invalid, fmt::format("{}: ONNX Runtime {} does not offer version {} of its interface", path,
                                                 version, std::min(*minor, kVersionMax))};
  }
  return Library{path, version, Api(table)};
}

Result<const Library*> load_library() {
  static const Result<Library> loaded = find();
  if (!loaded) return loaded.error();
  return &*loaded;
}

Result<Nothing> check(const Api& api, Status* status, std::string_view prefix) {
  if (status == nullptr) return Nothing{};
  const std::string message = api.call<Place::get_error_message>(status);
  api.call<Place::release_status>(status);
  // Allocators have no code of their own for it.
  for (const std::string_view words :
       {"Failed to allocate memory", "Available memory of", "out of memory", "bad_alloc", "bad allocation"}) {
    if (message.find(words) == std::string::npos) continue;
    return Error{ErrorCode::exhausted, fmt::format("{}out of memory: {}", prefix, message)};
  }
  return Error{ErrorCode::invalid, fmt::format("{}{}", prefix, message)};
}

}  // namespace tangram::engines::ort
