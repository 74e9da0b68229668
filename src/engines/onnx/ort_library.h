// ONNX Runtime, found and loaded at run time.
//
// Nothing links it and nothing of it is needed to build. Versions 1.11 and later work. The library stays loaded until
// the process ends, because it keeps global state and threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engines/onnx/ort_api.h"

namespace tangram::engines::ort {

struct Library {
  std::string path;     // As it was given to the loader.
  std::string version;  // "1.30.0"
  Api api;
};

// Loads it, once in a process: the file that $TANGRAM_ONNXRUNTIME names and no other, or else the first that is found
// as libonnxruntime.so.1 or libonnxruntime.so by the system's loader, beside this program, in ../lib/tangram from
// there, in /opt/onnxruntime/lib or in $CONDA_PREFIX/lib. Errors: none was found (with every place that was looked at),
// one does not load (with the loader's reason), or it is older than 1.11.
Result<const Library*> load_library();
// The same without remembering, for a file by name. For tests.
Result<Library> open_library(const std::string& path);

// Why the engine onnx cannot run on this kind of device with this provider; empty: it can. Loads the library.
std::string why_not_usable(const std::string& device, const std::string& provider);

// The minor number of "1.30.0", which is the version of the interface. Nothing for a text of another form or another
// major number.
std::optional<std::uint32_t> interface_version(std::string_view version);

// Turns a status into a result, and frees it. The message begins with `prefix`; `out of memory` is
// ErrorCode::exhausted.
Result<Nothing> check(const Api& api, Status* status, std::string_view prefix);

}  // namespace tangram::engines::ort
