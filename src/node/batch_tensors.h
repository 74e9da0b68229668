// The tensors of a batch, between the messages of the Open Inference Protocol and the memory of an executor.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engines/batch_engine.h"
#include "engines/executor.h"

namespace tangram::node {

// Fills memory.inputs from the body of a request, of which the first `json_length` bytes are JSON. Errors: it is not a
// request for this job of this model.
Result<Nothing> read_batch_tensors(const engines::ModelSpec& model, const engines::BatchJob& job, std::string_view body,
                                   std::size_t json_length, const engines::BatchMemory& memory);

// The answer with memory.outputs, whole. `fields` are further lines of its head, each with its end.
std::string write_batch_answer(const engines::ModelSpec& model, const engines::BatchJob& job,
                               const engines::BatchMemory& memory, std::string_view fields);

// The most bytes that a request for a batch of this model can have; nothing: more than can be counted.
std::optional<std::size_t> batch_request_max(const engines::ModelSpec& model);

}  // namespace tangram::node
