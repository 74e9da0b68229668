// Inference requests and answers of the Open Inference Protocol in its binary form: JSON that names the tensors, and
// their bytes behind it in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/tensor.h"

namespace tangram::client {

struct InferInput {
  std::string_view name;
  Datatype datatype = Datatype::fp32;
  std::vector<std::int64_t> shape = {};
  std::string_view bytes = {};  // As they travel: texts with their lengths in front.
};

struct InferRequest {
  std::string_view model;
  std::string_view id;
  std::vector<InferInput> inputs = {};
  std::vector<std::string_view> outputs = {};  // Empty: all that the model has. Binary in either case.
};

// Samples first, then the axes of the spec with `size` for those that vary.
std::vector<std::int64_t> batched_shape(const TensorSpec& spec, std::int64_t samples, std::int64_t size);

// The whole message, from "POST" on. `fields` are further lines of its head ("Host: ..."), each with its line end.
std::string write_infer_request(const InferRequest& request, std::string_view fields);

struct InferOutput {
  std::string name;
  std::string datatype;
  std::string_view bytes;  // Into the body.
};

// The outputs of a body of which the first `json_length` bytes are JSON. Errors say what is wrong with it: it is not
// JSON, names no outputs, or misses bytes. Outputs that are not binary are errors: none was asked for.
Result<std::vector<InferOutput>> read_infer_answer(std::string_view body, std::size_t json_length);

}  // namespace tangram::client
