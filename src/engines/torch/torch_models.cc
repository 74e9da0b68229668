// Writes the example models as TorchScript files with random weights.
//
// The same seed gives the same weights on any machine, and a sample gets the same answer in any batch and at any
// padding, so tests can compare batched answers with single ones.
#include "engines/torch/torch_models.h"

#include <fmt/format.h>
#include <torch/script.h>

#include <algorithm>
#include <cmath>

#include "engines/example_weights.h"

namespace tangram::engines {
namespace {

using torch::jit::Module;

constexpr const char* kEncoderHead = R"(
def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    b = input_ids.size(0)
    n = input_ids.size(1)
    mask = attention_mask.to(self.positions.dtype)
    bias = ((1.0 - mask) * -1e9).view([b, 1, 1, n])
    x = torch.embedding(self.tokens, input_ids) + torch.narrow(self.positions, 0, 0, n)
)";

// Padding gets -1e9 before the softmax, whose exponential is exactly zero, so it adds nothing to what real tokens see.
constexpr const char* kEncoderLayer = R"(
    y = torch.layer_norm(x, [{d}], self.w_before_{i}, self.b_before_{i})
    q = torch.linear(y, self.w_query_{i}, self.b_query_{i}).view([b, n, {h}, {w}]).transpose(1, 2)
    k = torch.linear(y, self.w_key_{i}, self.b_key_{i}).view([b, n, {h}, {w}]).transpose(1, 2)
    v = torch.linear(y, self.w_value_{i}, self.b_value_{i}).view([b, n, {h}, {w}]).transpose(1, 2)
    a = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * {scale} + bias, 3)
    c = torch.matmul(a, v).transpose(1, 2).reshape([b, n, {d}])
    x = x + torch.linear(c, self.w_attended_{i}, self.b_attended_{i})
    y = torch.layer_norm(x, [{d}], self.w_between_{i}, self.b_between_{i})
    y = torch.gelu(torch.linear(y, self.w_wide_{i}, self.b_wide_{i}))
    x = x + torch.linear(y, self.w_narrow_{i}, self.b_narrow_{i})
)";

// The mean over real tokens only. The clamp avoids 0/0 for a sample that is all padding.
constexpr const char* kEncoderTail = R"(
    x = torch.layer_norm(x, [{d}], self.w_last, self.b_last)
    w = mask.view([b, n, 1])
    return torch.sum(x * w, [1]) / torch.clamp(torch.sum(w, [1]), 1.0)
)";

std::string source_of(const TextEncoder& network) {
  const std::int64_t head_width = network.width / network.heads;
  std::string source = kEncoderHead;
  for (std::int64_t i = 0; i < network.layers; ++i) {
    source += fmt::format(fmt::runtime(kEncoderLayer), fmt::arg("d", network.width), fmt::arg("i", i),
                          fmt::arg("h", network.heads), fmt::arg("w", head_width),
                          fmt::arg("scale", 1 / std::sqrt(static_cast<double>(head_width))));
  }
  return source + fmt::format(fmt::runtime(kEncoderTail), fmt::arg("d", network.width));
}

// Scores are a sum of products instead of a matrix product, because a BLAS multiplies one row in another order than
// many. Layers are large enough (more than 20,480 numbers of an image) that libtorch convolves one image in the same
// way as many.
constexpr const char* kImageSource = R"(
def forward(self, image: Tensor) -> Tensor:
    x = image.to(self.w_first.dtype) / 255.0 - 0.5
    x = torch.max_pool2d(torch.relu(torch.conv2d(x, self.w_first, self.b_first, [1, 1], [1, 1])), [2, 2])
    x = torch.max_pool2d(torch.relu(torch.conv2d(x, self.w_second, self.b_second, [1, 1], [1, 1])), [2, 2])
    x = torch.max_pool2d(torch.relu(torch.conv2d(x, self.w_third, self.b_third, [1, 1], [1, 1])), [2, 2])
    x = torch.mean(x, [2, 3]).unsqueeze(1)
    return torch.sum(x * self.w_scores, [2]) + self.b_scores
)";

std::string source_of(const ImageNetwork&) { return kImageSource; }

}  // namespace

Result<Nothing> write_torch_model(const ExampleModel& model, std::uint64_t seed, const std::string& path) {
  try {
    Module module(std::holds_alternative<TextEncoder>(model.network) ? "TextEncoder" : "ImageNetwork");
    for (const auto& weight : draw_weights(model, seed)) {
      const at::Tensor tensor = at::empty(weight.shape);
      std::ranges::copy(weight.values, tensor.data_ptr<float>());
      module.register_parameter(weight.name, tensor, false);
    }
    // After the parameters: the compiler resolves `self.name` against those registered.
    module.define(std::visit([](const auto& network) { return source_of(network); }, model.network));
    module.eval();
    module.save(path);
  } catch (const std::exception& problem) {
    // The first line says what happened; below it libtorch lists its own calls.
    const std::string_view what = problem.what();
    return Error{ErrorCode::unavailable, fmt::format("cannot write {}: {}", path, what.substr(0, what.find('\n')))};
  }
  return Nothing{};
}

}  // namespace tangram::engines
