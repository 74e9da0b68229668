// MIG switched off: of every device type only the largest slice, which is the whole device. A baseline that shows what
// cutting saves.

#include <algorithm>

#include "plan/compose.h"
#include "plan/objective.h"

namespace tangram::plan {
namespace {

class WholeGpu final : public Planner {
 public:
  PlanAnswer plan(const Problem& problem) const override { return plan_for_objective(problem, plan_once); }

 private:
  static PlanAnswer plan_once(const Problem& problem) {
    Stock stock = take_stock(problem);
    std::erase_if(stock.kinds, [&](const SliceKind& kind) {
      const Geometry& geometry = stock.geometries[kind.group];
      return geometry.profiles[kind.profile].compute_slices < geometry.compute_slices;
    });
    PlanAnswer answer = plan_by_cover(problem, stock);
    answer.among = "plans without cuts";
    return answer;
  }
};

}  // namespace

std::unique_ptr<Planner> make_whole_gpu() { return std::make_unique<WholeGpu>(); }

}  // namespace tangram::plan
