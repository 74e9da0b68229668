// Synthetic inference for shared clusters, drawn from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/jobs_file.h"

namespace tangram::experiments {

// Poisson arrivals of applications drawn evenly by chance, durations uniform in whole seconds.
struct InferenceLoad {
  std::string name;
  int requests = 16000;
  double gap_mean_s = 3.5;
  int duration_min_s = 1;
  int duration_max_s = 19;
  int applications = 18;
  double period_s = 0;  // Above 0: the rate swings by `swing` around its mean with this period.
  double swing = 0.9;
};

// The loads of five and ten times the requests of DeepBoot's small workload, and a periodic one.
std::vector<InferenceLoad> heavier_loads();

// Jobs of kind inference. Applications are numbered among `kinds`, the names whose costs they have.
std::vector<formats::ClusterJob> make_inference(const InferenceLoad& load, const std::vector<std::string>& kinds,
                                                std::uint64_t seed);

}  // namespace tangram::experiments
