// Watches whether served batches take as long as the latency model says, and fits it anew when they do not.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "learn/drift.h"
#include "serve/server.h"

namespace tangram::serve {

class DriftWatch {
 public:
  // What became of a drift, for the log.
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
  // Goes on with another one.
  void restart(std::shared_ptr<const learn::FittedModel> model);
  // Looks at what was served so far; the watching thread does this every second.
  void look();

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

  void watch();
  void fit_anew(const learn::Target& target);

  std::function<void(const News&)> tell_;
  std::function<void(const learn::FittedModel&)> renewed_;

  mutable std::mutex mutex_;  // Guards what follows, up to the thread.
  std::condition_variable changed_;
  bool stop_ = false;
  std::vector<Batch> fresh_;
  std::shared_ptr<const learn::FittedModel> model_;

  std::mutex looking_;  // One look at a time; guards the detectors.
  std::map<learn::Target, learn::DriftDetector> detectors_;
  std::thread thread_;
};

}  // namespace tangram::serve
