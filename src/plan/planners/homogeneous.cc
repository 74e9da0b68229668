// One kind of slice for everything. All kinds are tried; the plan with the least price wins, and among equals the one
// with the smaller slices.

#include <algorithm>
#include <limits>

#include "plan/compose.h"
#include "plan/detail/tolerance.h"
#include "plan/objective.h"

namespace tangram::plan {
namespace {

class Homogeneous final : public Planner {
 public:
  PlanAnswer plan(const Problem& problem) const override { return plan_for_objective(problem, plan_once); }

 private:
  static PlanAnswer plan_once(const Problem& problem) {
    const Stock all = take_stock(problem);
    PlanAnswer best;
    double bound = std::numeric_limits<double>::infinity();  // Of the plans with any one kind.
    for (const SliceKind& kind : all.kinds) {
      Stock stock = all;
      stock.kinds = {kind};
      PlanAnswer answer = plan_by_cover(problem, stock);
      // The best plan with one kind costs at least the least bound of any kind, so that is the bound of this planner.
      if (answer.status == PlanStatus::planned) bound = std::min(bound, answer.bound);
      const bool better =
          answer.status == PlanStatus::planned && (best.status != PlanStatus::planned || answer.price < best.price);
      // Without any plan, the reason of the first kind is reported.
      const bool first = best.status != PlanStatus::planned && best.reason.empty();
      if (better || first) best = std::move(answer);
    }
    if (all.kinds.empty()) return plan_by_cover(problem, all);
    if (best.status != PlanStatus::planned) return best;
    best.among = "plans with one kind of slice";
    best.bound = bound;
    best.proved = best.price <= bound * (1 + detail::kSumTolerance);
    return best;
  }
};

}  // namespace

std::unique_ptr<Planner> make_homogeneous() { return std::make_unique<Homogeneous>(); }

}  // namespace tangram::plan
