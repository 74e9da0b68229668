// Exact over all cuts, batches and numbers of processes, by covers of each service and a bound on their price.

#include "plan/compose.h"

namespace tangram::plan {
namespace {

class Elastic final : public Planner {
 public:
  PlanAnswer plan(const Problem& problem) const override { return plan_by_cover(problem, take_stock(problem)); }
};

}  // namespace

std::unique_ptr<Planner> make_elastic() { return std::make_unique<Elastic>(); }

}  // namespace tangram::plan
