#include "experiments/shared_run.h"

#include <gtest/gtest.h>

namespace tangram::experiments {
namespace {

TEST(SharingCosts, OfANumberedApplicationAreThoseOfItsKind) {
  EXPECT_EQ(sharing_costs("bert").cold_start_s, 8);
  EXPECT_EQ(sharing_costs("infer-bert-2").cold_start_s, 8);
  EXPECT_EQ(sharing_costs("infer-ncf").cold_start_s, 4);
}

TEST(SharingCosts, OfAnyOtherApplicationAreTheMean) { EXPECT_EQ(sharing_costs("gpt-9").cold_start_s, 6); }

}  // namespace
}  // namespace tangram::experiments
