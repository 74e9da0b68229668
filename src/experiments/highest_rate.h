// The highest rate that a number of devices carries, by our own cuts, buckets and dispatch, and by two readings of an
// "ideal scheduler": one that knows every run time but pads to the longest input, and a work-conserving first-in,
// first-out queue on the best cut into equal slices.
#pragma once

#include <vector>

#include "experiments/elastic_batch.h"

namespace tangram::experiments {

// rate_elastic, rate_oracle_longest, rate_fifo_fixed, rate_fifo_chosen, rate_bound.
const std::vector<ElasticBatchVariant>& highest_rate_variants();

// For each variant the highest rate of every model at which all keep their p99 when simulated together on `gpus`
// devices. The rate of the setting is where the search begins; it does not matter otherwise. All models are loaded on
// every slice, so that no slice is idle for want of a model. Since every variant serves the same mixture, useful work
// is in proportion to the rate.
std::vector<ElasticBatchResult> run_highest_rates(const ElasticBatchInput& input, const ElasticBatchSetting& setting,
                                                  int gpus);

// The same for rate_elastic alone: what the search by simulation carries on `gpus` devices.
ElasticBatchResult run_rate_elastic(const ElasticBatchInput& input, const ElasticBatchSetting& setting, int gpus);

}  // namespace tangram::experiments
