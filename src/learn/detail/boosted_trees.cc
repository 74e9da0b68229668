// Training by XGBoost; the result is a plain array of nodes.
//
// The trained booster is saved as JSON and converted at once. So no handle of the library outlives train_trees, and a
// prediction is a walk over an array. The options fix what the library would otherwise choose by the machine: one
// thread and the exact method, so that the same seed gives the same trees.

#include "learn/detail/boosted_trees.h"

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"

namespace tangram::learn::detail {
namespace {

// The library fails only for wrong arguments or exhausted memory; either is a bug here.
void require(int status) { TANGRAM_CHECK(status == 0, XGBGetLastError()); }

// Owns a data matrix of the library.
class Matrix {
 public:
  Matrix(std::span<const float> rows, std::span<const float> targets) {
    const auto count = static_cast<bst_ulong>(targets.size());
    const auto columns = static_cast<bst_ulong>(rows.size() / targets.size());
    // The value that marks a missing feature; no logarithm of a feature is near it.
    require(XGDMatrixCreateFromMat(rows.data(), count, columns, -1e30F, &handle_));
    require(XGDMatrixSetFloatInfo(handle_, "label", targets.data(), count));
  }
  ~Matrix() { XGDMatrixFree(handle_); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  DMatrixHandle handle() const { return handle_; }

 private:
  DMatrixHandle handle_ = nullptr;
};

// Owns a booster of the library.
class Booster {
 public:
  explicit Booster(const Matrix& matrix) {
    const DMatrixHandle handle = matrix.handle();
    require(XGBoosterCreate(&handle, 1, &handle_));
  }
  ~Booster() { XGBoosterFree(handle_); }
  Booster(const Booster&) = delete;
  Booster& operator=(const Booster&) = delete;

  void set(const char* name, const std::string& value) { require(XGBoosterSetParam(handle_, name, value.c_str())); }
  void train(const Matrix& matrix, int rounds) {
    for (int round = 0; round < rounds; ++round) require(XGBoosterUpdateOneIter(handle_, round, matrix.handle()));
  }
  nlohmann::json model() const {
    bst_ulong length = 0;
    const char* text = nullptr;
    // The library owns the text and may reuse it, so it is parsed at once.
    require(XGBoosterSaveModelToBuffer(handle_, R"({"format": "json"})", &length, &text));
    return nlohmann::json::parse(text, text + length);
  }

 private:
  BoosterHandle handle_ = nullptr;
};

// Appends one tree. Children are numbered within their tree, so they are shifted by its offset.
void append_tree(const nlohmann::json& tree, Trees& trees) {
  const auto offset = static_cast<std::int32_t>(trees.nodes.size());
  trees.roots.push_back(offset);
  const auto& left = tree.at("left_children");
  const auto& right = tree.at("right_children");
  const auto& feature = tree.at("split_indices");
  const auto& value = tree.at("split_conditions");  // Of a leaf, its value.
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto child = left[i].get<std::int32_t>();
    TreeNode node{.feature = feature[i].get<std::int32_t>(), .value = value[i].get<float>()};
    // The library marks a leaf by a negative child; TreeNode has -1 there by default.
    if (child >= 0) {
      node.left = offset + child;
      node.right = offset + right[i].get<std::int32_t>();
    }
    trees.nodes.push_back(node);
  }
}

Trees trees_of(const nlohmann::json& model) {
  Trees trees;
  const auto& learner = model.at("learner");
  trees.base = std::stof(learner.at("learner_model_param").at("base_score").get<std::string>());
  for (const auto& tree : learner.at("gradient_booster").at("model").at("trees")) append_tree(tree, trees);
  return trees;
}

}  // namespace

// Sums the leaf of each tree. A row goes left if its feature is below the threshold, as in the library.
double Trees::predict(std::span<const float> row) const {
  double sum = base;
  for (std::int32_t at : roots) {
    while (nodes[static_cast<std::size_t>(at)].left >= 0) {
      const TreeNode& node = nodes[static_cast<std::size_t>(at)];
      at = row[static_cast<std::size_t>(node.feature)] < node.value ? node.left : node.right;
    }
    sum += nodes[static_cast<std::size_t>(at)].value;
  }
  return sum;
}

Trees train_trees(std::span<const float> rows, std::span<const float> targets, const TreesOptions& options) {
  TANGRAM_CHECK(!targets.empty() && rows.size() == targets.size() * options.monotone.size(), "one row for each target");
  const Matrix matrix(rows, targets);
  Booster booster(matrix);
  booster.set("nthread", "1");
  booster.set("verbosity", "0");
  booster.set("objective", "reg:squarederror");
  booster.set("tree_method", "exact");
  // Residuals have a mean near 0; a fixed base makes a model without trees predict 0.
  booster.set("base_score", "0");
  booster.set("seed", std::to_string(options.seed));
  booster.set("max_depth", std::to_string(options.depth));
  booster.set("eta", fmt::format("{}", options.rate));
  booster.set("lambda", fmt::format("{}", options.regularisation));
  booster.set("monotone_constraints", fmt::format("({})", fmt::join(options.monotone, ",")));
  booster.train(matrix, options.rounds);
  return trees_of(booster.model());
}

}  // namespace tangram::learn::detail
