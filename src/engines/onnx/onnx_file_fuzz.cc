// Any bytes are either an ONNX model or an error, and what is said about a model is consistent.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engines/onnx/onnx_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = tangram::engines::parse_onnx({reinterpret_cast<const char*>(data), size});
  if (!file) return 0;
  TANGRAM_CHECK(!file->outputs.empty(), "a model answers something");
  const auto signature = tangram::engines::signature_of(*file);
  if (signature) {
    TANGRAM_CHECK(signature->outputs.size() == file->outputs.size(), "every output is declared");
  }
  tangram::engines::variable_axes(*file);
  return 0;
}
