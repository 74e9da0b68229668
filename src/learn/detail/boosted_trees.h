// The one wrapper of the library of gradient-boosted trees.
//
// Training runs in the library, single-threaded and seeded; the trees come back as plain values, so prediction needs no
// library and a saved model reads back exactly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tangram::learn::detail {

// One node of a tree. A leaf has no children and holds its value; another sends rows with row[feature] < threshold
// left.
struct TreeNode {
  std::int32_t left = -1;
  std::int32_t right = -1;
  std::int32_t feature = 0;
  float value = 0;  // The threshold, or the value of a leaf.

  bool operator==(const TreeNode&) const = default;
};

struct Trees {
  float base = 0;
  std::vector<std::int32_t> roots;  // Indices into nodes.
  std::vector<TreeNode> nodes;

  bool empty() const { return roots.empty(); }
  double predict(std::span<const float> row) const;

  bool operator==(const Trees&) const = default;
};

struct TreesOptions {
  int rounds = 60;
  int depth = 3;
  double rate = 0.15;
  double regularisation = 1;
  std::vector<int> monotone;  // One for each feature: 1 never falls, -1 never rises, 0 free.
  std::uint64_t seed = 1;
};

// `rows` is row-major with monotone.size() columns, `targets` one for each row, at least one.
Trees train_trees(std::span<const float> rows, std::span<const float> targets, const TreesOptions& options);

}  // namespace tangram::learn::detail
