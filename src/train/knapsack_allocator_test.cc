#include "train/knapsack_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace tangram::train {
namespace {

// Values each job by a fixed row, named by the job's id.
class ByTable final : public KnapsackAllocator {
 public:
  explicit ByTable(std::vector<std::vector<double>> rows) : rows_(std::move(rows)) {}

 private:
  std::vector<double> values_of(const JobView& job, const RoundView&, int gpus) const override {
    std::vector<double> row = rows_[job.id];
    row.resize(std::min(row.size(), static_cast<std::size_t>(gpus)));
    return row;
  }

  std::vector<std::vector<double>> rows_;
};

// Two GPUs: 3 + 2 is more than 4 for both to the first job or 2.5 for both to the second. With three, 4 + 2 wins.
TEST(KnapsackAllocator, GivesTheNumbersWithTheGreatestSum) {
  const Allocation none;
  std::vector<JobView> jobs(2);
  jobs[0].id = 0;
  jobs[1].id = 1;
  for (auto& job : jobs) job.current = &none;
  ByTable allocator({{3, 4}, {2, 2.5}});
  const std::vector<int> two{2};
  const auto even = allocator.allocate({.gpus_free = two, .jobs = jobs});
  EXPECT_EQ(gpus_of(even[0]), 1);
  EXPECT_EQ(gpus_of(even[1]), 1);
  const std::vector<int> three{3};
  const auto more = allocator.allocate({.gpus_free = three, .jobs = jobs});
  EXPECT_EQ(gpus_of(more[0]), 2);
  EXPECT_EQ(gpus_of(more[1]), 1);
}

}  // namespace
}  // namespace tangram::train
