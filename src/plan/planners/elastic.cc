// The main planner: searches all cuts, batches and numbers of processes at once, with covers of each service and a
// bound on the price.

#include "plan/objective.h"
#include "plan/sharing.h"

namespace tangram::plan {
namespace {

class Elastic final : public Planner {
 public:
  PlanAnswer plan(const Problem& problem) const override {
    return plan_for_objective(problem, [](const Problem& p) { return plan_sharing(p, take_stock(p)); });
  }
};

}  // namespace

std::unique_ptr<Planner> make_elastic() { return std::make_unique<Elastic>(); }

}  // namespace tangram::plan
