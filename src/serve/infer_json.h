// Inference requests and answers as the REST protocol writes them: JSON, with tensors in it or as bytes behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "serve/infer_request.h"

namespace tangram::serve {

// Reads call.body, which the tensors of the call then point into. `call.model` is set.
std::optional<CallProblem> read_infer_request(const InferHeaders& headers, Call& call);

// The body of an answer: JSON, and the bytes behind it. `json_length` is set if there are any.
struct InferBody {
  std::string text;
  std::optional<std::size_t> json_length;
};
void write_infer_answer(const Call& call, InferBody& body);
// More bytes than that answer has, without writing it.
std::size_t infer_answer_max(const Call& call);

// {"error":"..."}
std::string error_body(std::string_view message);

}  // namespace tangram::serve
