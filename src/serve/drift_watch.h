// Compares the run times of served batches with the latency model, and refits the model when they drift apart.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "host/mutex.h"
#include "learn/drift.h"
#include "serve/server.h"

namespace tangram::serve {

class DriftWatch {
 public:
  // The result of a drift, for the log.
  struct News {
    std::string device;
    std::string model;
    double ratio = 1;     // Of real over predicted run times.
    std::string problem;  // Why no model could be fitted; empty: one was.
  };
  // Both are called on a thread of its own: `tell` first, then `renewed` if there is a new model.
  DriftWatch(std::shared_ptr<const learn::FittedModel> model, std::function<void(const News&)> tell,
             std::function<void(const learn::FittedModel&)> renewed);
  ~DriftWatch();
  DriftWatch(const DriftWatch&) = delete;
  DriftWatch& operator=(const DriftWatch&) = delete;

  // A batch was served. Any thread; never waits for the watching, and drops what it cannot keep up with.
  void served(const serve::ServedBatch& batch);
  // The model as it is now.
  std::shared_ptr<const learn::FittedModel> model() const;
  // Continues with another model.
  void restart(std::shared_ptr<const learn::FittedModel> model);
  // Checks the batches that were served since the last look; the thread does this every second.
  void look() EXCLUDES(mutex_, looking_);

 private:
  struct Batch {
    std::string device;
    std::string mig_profile;
    std::string model;
    std::int64_t samples = 1;
    std::int64_t size = 1;
    double took_ms = 0;
  };
  static constexpr std::size_t kKept = 2048;  // Batches between two looks.

  // The body of the thread: looks once a second until it is told to stop.
  void watch() EXCLUDES(mutex_, looking_);
  // Refits the model of a target that has drifted, and reports it. All detectors start again.
  void fit_anew(const learn::Target& target) REQUIRES(looking_) EXCLUDES(mutex_);

  std::function<void(const News&)> tell_;
  std::function<void(const learn::FittedModel&)> renewed_;

  mutable host::Mutex mutex_;
  host::CondVar changed_;  // With mutex_: stop_ was set.
  bool stop_ GUARDED_BY(mutex_) = false;
  std::vector<Batch> fresh_ GUARDED_BY(mutex_);
  std::shared_ptr<const learn::FittedModel> model_ GUARDED_BY(mutex_);

  host::Mutex looking_;  // One look at a time. Taken before mutex_ where both are.
  std::map<learn::Target, learn::DriftDetector> detectors_ GUARDED_BY(looking_);
  std::thread thread_;
};

}  // namespace tangram::serve
