// ElasticBatch's claim, fewer GPUs by slices and buckets, on measured text models.
//
// All models of a folder are served at the same rate and under the same Slo, with inputs of one distribution of
// lengths. Each variant is a way of planning; its devices are the fewest with which every promise holds when simulated.
// highest_rate.h asks the other way round: how much a number of devices carries.
#pragma once

#include <string>
#include <vector>

#include "core/latency_model.h"
#include "core/measurement.h"
#include "core/plan.h"
#include "core/workload.h"

namespace tangram::experiments {

struct LengthDistribution {
  std::string name;
  SizeDistribution sizes;
};

struct ElasticBatchSetting {
  double slo_ms = 100;
  double rate_per_s = 1000;  // Of each model.
  LengthDistribution lengths;
};

// The twelve settings of the reference with these lengths.
std::vector<ElasticBatchSetting> elastic_batch_settings(const LengthDistribution& lengths);
// Log-normal with median 48 and sigma 0.8, from 1 to 512.
LengthDistribution reference_lengths();

// What the measurements of one folder allow: for each device, its models that were timed at several input sizes.
struct ElasticBatchModels {
  std::string device;
  std::vector<std::string> models;
  std::vector<std::string> mig_profiles;
  std::int64_t size_max = 1;
  Measurements measurements;  // Of these models on this device.
};
std::vector<ElasticBatchModels> elastic_batch_models(const Measurements& measurements);

struct ElasticBatchInput {
  std::string device;
  std::vector<std::string> models;        // With measurements of several lengths.
  std::vector<std::string> mig_profiles;  // Those that were measured.
  std::int64_t size_max = 512;            // The longest input measured.
  const LatencyModel* latency = nullptr;
};

struct ElasticBatchResult {
  ElasticBatchSetting setting;
  std::string variant;
  int gpus = 0;  // 0: impossible.
  int bound = 0;
  bool proved = false;
  double slo_attainment = 0;      // Of the service that has least.
  double utilisation_busy = 0;    // Busy compute-slice time over all of the devices.
  double utilisation_useful = 0;  // The same without padding and what a fuller batch would save.
  double rate_highest_per_s = 0;  // Of each model, from highest_rate.h; 0 elsewhere.
  std::string layouts;            // For people: how the devices are cut.
  std::string reason;             // Where impossible.
};

// "2 x (7g.40gb), 3 x (4g.20gb + 3g.20gb)"
std::string layouts_text(const Plan& plan);

struct ElasticBatchVariant {
  std::string name;
  std::string summary;
};
// off_longest, off_fixed, off_fixed_sharing, off_chosen, off_shared, mig_longest, elastic, elastic_shared.
const std::vector<ElasticBatchVariant>& elastic_batch_variants();

// Every variant of one setting, in their order.
std::vector<ElasticBatchResult> run_elastic_batch(const ElasticBatchInput& input, const ElasticBatchSetting& setting);

}  // namespace tangram::experiments
