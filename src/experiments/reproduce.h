// The published results, one function each: the public data in, tables out.
//
// An error means that the data cannot be used; its message names the file and line. Options that make an experiment
// longer or shorter are part of its input.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "experiments/answer.h"
#include "experiments/data.h"
#include "experiments/runner.h"

namespace tangram::experiments {

// PARIS and ELSA: the highest rate of each cut of a budget under each policy.
struct ParisElsaInput {
  File profiles;       // parvagpu/profiles.csv
  bool full = false;   // Thirty times as many queries; adds merged queries, and queries of one sample.
  int seeds = 3;       // Tables show the mean and the worst, JSON lists all.
  std::string commit;  // Of this program, for the JSON.
};
Result<Answer> reproduce_paris_elsa(const ParisElsaInput& input, Runner& runner);

// ParvaGPU: GPUs for its scenarios by its own planner, by exact planning, and with every promise simulated.
struct ParvaInput {
  File profiles;   // parvagpu/profiles.csv
  File scenarios;  // parvagpu/scenarios.csv
};
Result<Answer> reproduce_parvagpu(const ParvaInput& input, Runner& runner);

// ElasticBatch: what slices and buckets save for text models.
struct ElasticBatchFiles {
  File profiles;       // migprofiler/profiles.csv
  File lengths;        // text_lengths/length_histograms.csv; without it only log-normal lengths are used.
  bool quick = false;  // Only one rate.
};
Result<Answer> reproduce_elastic_batch(const ElasticBatchFiles& input, Runner& runner);

// How well a few measurements of a model tell the rest.
struct FewShotInput {
  struct Dataset {
    std::string format;  // "parvagpu" or "migprofiler".
    std::string path;
    File profiles;
  };
  std::string folder;             // That holds the data sets, for messages.
  std::string hint;               // Ends the message where no data set is there.
  std::vector<Dataset> datasets;  // Those that are missing are left out; one is enough.
  bool full = false;              // Twenty seeds instead of three.
  int seeds = 0;                  // Above 0: so many.
};
Result<Answer> reproduce_few_shot(const FewShotInput& input, Runner& runner);

// Pollux: completion times of training jobs on 16 nodes of 4 GPUs.
struct PolluxInput {
  Folder traces;       // pollux/traces
  Folder workloads;    // pollux/workloads
  bool full = false;   // Adds other intervals, and jobs that slow each other down.
  bool quick = false;  // Only the smallest workload, with a short search.
};
Result<Answer> reproduce_pollux(const PolluxInput& input, Runner& runner);

// DeepBoot: training on GPUs that inference lends and takes back.
struct DeepbootInput {
  Folder traces;       // pollux/traces
  Folder workloads;    // deepboot
  bool full = false;   // Adds each policy over its own parameter, and ours and DeepBoot with single parts exchanged.
  bool quick = false;  // Only the smallest workload that has requests, with a short search.
  int seeds = 0;       // 0: five, or one where it has to be quick.
  bool page = false;   // With Answer::page.
};
Result<Answer> reproduce_deepboot(const DeepbootInput& input, Runner& runner);

// Training on slices that services do not need for now, against lending whole GPUs.
struct SlicesInput {
  File profiles;       // parvagpu/profiles.csv
  File iterations;     // miso/train_iteration_time.csv
  File scenarios;      // parvagpu/scenarios.csv
  bool full = false;   // Adds a plan for every hour, as a bound.
  bool quick = false;  // Only the first scenario, and a shorter day.
};
Result<Answer> reproduce_slices(const SlicesInput& input, Runner& runner);

}  // namespace tangram::experiments
