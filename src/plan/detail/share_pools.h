// Puts blocks that have slices of their own onto common slices.
//
// A block on one slice leaves half of it idle where promises are short, because nobody else runs what waits there. Of
// several such blocks that share all of their slices, the same promises often hold on fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "plan/cover.h"
#include "plan/detail/share_queues.h"

namespace tangram::plan::detail {

using Partition = std::vector<std::vector<std::size_t>>;  // Queues by block.

// A plan that keeps all promises, and how it came about.
struct SharedPlan {
  std::vector<const Block*> blocks;
  CoverAnswer answer;
  std::vector<std::vector<Verdict>> verdicts;  // By block, then by service of the block.
  // By block: the cheaper slices that came nearest to its promises, with the verdict that failed.
  std::vector<std::optional<std::pair<Cover, Verdict>>> nearest;
};

// What pooling asks of the search that it is a part of, and how often.
struct PoolSearch {
  int pools_max = 0;                    // Sets of blocks that are tried.
  std::int64_t looks_max = 0;           // Simulations after which no further set is begun.
  std::function<std::int64_t()> looks;  // How many there were so far.
  // Makes the block of these queues with slices of this kind only: a large block has very many covers of several kinds.
  // False if it has no such slice.
  std::function<bool(const std::vector<std::size_t>& members, std::size_t kind)> on_one_kind;
  // The cheapest plan with these blocks, if it costs less than `price_max`.
  std::function<std::optional<SharedPlan>(const Partition& partition, double price_max)> solve;
};

// Refers to the problem and the prices, by kind, that it is made with.
class SharePools {
 public:
  SharePools(const QueueProblem& problem, const std::vector<double>& kind_price)
      : problem_(problem), prices_(kind_price) {}

  // Puts blocks of `plan` together while that saves slices, and keeps the result if it saves devices. Stops at
  // `price_least`.
  void pool(SharedPlan& plan, double price_least, const PoolSearch& search) const;

  // Sets of blocks that may share slices, by index: those with the longest promises, many first, so that the strictest
  // are left out one after the other; then those with the shortest; then neighbours in this order.
  std::vector<std::vector<std::size_t>> pools_to_try(const std::vector<const Block*>& blocks) const;

  // The kind of slices that most of the price of some blocks is for.
  std::size_t costliest_kind(const SharedPlan& plan, const std::vector<std::size_t>& blocks) const;

  // The blocks of a plan, those of the set as one, which is the last.
  static Partition put_together(const std::vector<const Block*>& blocks, const std::vector<std::size_t>& together);

 private:
  bool may_pool(const Block& a, const Block& b) const;
  double shortest_slo_s(const Block& block) const;
  // What the slices of all blocks are worth if every device were cut into one kind: it falls before the devices do.
  double slices_price(const SharedPlan& plan) const;

  const QueueProblem& problem_;
  const std::vector<double>& prices_;
};

}  // namespace tangram::plan::detail
