// What an ONNX file says about itself, read without ONNX Runtime.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/tensor.h"

namespace tangram::engines {

// An input or output of a graph, with the batch axis.
struct OnnxTensor {
  struct Axis {
    std::int64_t length = -1;  // -1: it varies.
    std::string name = {};     // Of one that varies; may be empty.
  };
  std::string name;
  int element_type = 0;  // As ort::ElementType; 0: no tensor.
  bool has_shape = false;
  std::vector<Axis> axes;
};

struct OnnxFile {
  std::vector<OnnxTensor> inputs;  // Without those that have a constant as default.
  std::vector<OnnxTensor> outputs;
  std::vector<std::string> external;  // Files beside this one that hold weights, each once.
};

// Errors: the text is not an ONNX model.
Result<OnnxFile> parse_onnx(std::string_view text);
// Reads the file at `path`. Errors: as above, or it cannot be read.
Result<OnnxFile> read_onnx(const std::string& path);
// Bytes of the file at `path` and of the files that hold its weights; 0 if they cannot be read.
std::uint64_t onnx_bytes(const std::string& path);

// The model as a service declares it: the first axis of every tensor is the batch, other axes that vary are as long as
// the input is large, and an input named attention_mask is the mask. Errors: a first axis of fixed length, text, or a
// tensor without axes, each with what to do.
Result<Signature> signature_of(const OnnxFile& file);
// The names of the axes that vary, without those of the batch, each once: with more than one, a service has to know
// that all of them follow the size of the input.
std::vector<std::string> variable_axes(const OnnxFile& file);

}  // namespace tangram::engines
