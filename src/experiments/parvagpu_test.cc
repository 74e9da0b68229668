#include "experiments/parvagpu.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "experiments/test_data.h"
#include "learn/models/table.h"

namespace tangram::experiments {
namespace {

// GPUs by ParvaGPU's own way, for `rates` times the rates of each scenario.
std::map<std::string, int> gpus_by_parva(double rates) {
  const auto profiles = measurements_of("parvagpu", public_file("parvagpu/profiles.csv"));
  auto scenarios = parva_scenarios(public_file("parvagpu/scenarios.csv"));
  EXPECT_TRUE(profiles.ok() && scenarios.ok());
  if (!profiles || !scenarios) return {};
  const learn::TableModel model(*profiles);
  std::map<std::string, int> gpus;
  for (auto& scenario : *scenarios) {
    for (auto& service : scenario.workload.services) {
      service.traffic = PoissonTraffic{rates * mean_rate_per_s(service.traffic)};
    }
    gpus[scenario.name] = plan_by_parva(model, scenario).devices;
  }
  return gpus;
}

using PublicParvaGpu = PublicData;

TEST_F(PublicParvaGpu, HasThePublishedNumbersOfGpus) {
  EXPECT_EQ(gpus_by_parva(1), (std::map<std::string, int>{{"SLO1", 2}, {"SLO2", 3}, {"SLO3", 5}, {"SLO4", 7}}));
}

// The published scenarios do not show where a 3g starts; these do. With a 3g also at 0 both need nine GPUs, because the
// second 3g of a board leaves a compute slice that nothing can use.
TEST_F(PublicParvaGpu, NeedsEightGpusWhereSlicesOfThreeStartAtFourAlone) {
  EXPECT_EQ(gpus_by_parva(2)["SLO3"], 8);
  EXPECT_EQ(gpus_by_parva(4)["SLO2"], 8);
}

}  // namespace
}  // namespace tangram::experiments
