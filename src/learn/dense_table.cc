#include "learn/dense_table.h"

#include <algorithm>

#include "base/check.h"

namespace tangram::learn {

DenseTable::DenseTable(const LatencyModel& model, DenseTableShape shape)
    : shape_(std::move(shape)), batches_(static_cast<std::size_t>(std::max<std::int64_t>(shape_.batch_max, 1))) {
  TANGRAM_CHECK(!shape_.sizes.empty() && shape_.batch_max >= 1, "a table has a size and a batch");
  TANGRAM_CHECK(std::ranges::is_sorted(shape_.sizes), "sizes ascend");
  // One row of batches for each size. Cost: sizes * batch_max predictions, once.
  cells_.reserve(shape_.sizes.size() * batches_);
  for (const std::int64_t size : shape_.sizes) {
    for (std::int64_t batch = 1; batch <= shape_.batch_max; ++batch) {
      const auto prediction =
          model.predict({shape_.device, shape_.mig_profile, shape_.model, batch, size, shape_.processes});
      cells_.push_back(prediction.value_or(Prediction{Duration::max(), Duration::max()}));
    }
  }
  make_monotone();
}

// What does not fit takes for ever (Duration::max()), so one running maximum over batches and sizes makes both latency
// and "does not fit" monotone. Each cell is compared with its two smaller neighbours, which are already final.
void DenseTable::make_monotone() {
  const auto raise = [this](std::size_t cell, std::size_t smaller) {
    cells_[cell].mean = std::max(cells_[cell].mean, cells_[smaller].mean);
    cells_[cell].p99 = std::max(cells_[cell].p99, cells_[smaller].p99);
  };
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    if (cell % batches_ > 0) raise(cell, cell - 1);
    if (cell >= batches_) raise(cell, cell - batches_);
  }
}

std::int64_t DenseTable::batch_limit(std::size_t size_index) const {
  // From above: the cells are monotone, so the first that fits is the limit.
  for (std::int64_t batch = shape_.batch_max; batch > 0; --batch) {
    if (fits(size_index, batch)) return batch;
  }
  return 0;
}

}  // namespace tangram::learn
