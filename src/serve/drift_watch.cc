// Detects that batches take longer or shorter than the latency model predicts, and refits the model.
//
// The serving thread only appends to fresh_; a thread of its own compares once a second, since a refit takes too long
// for the thread that serves. Two locks keep this apart: mutex_ protects the data that is exchanged and is held for
// moments, looking_ protects the detectors and is held during a whole look. Where both are needed, looking_ is taken
// first.

#include "serve/drift_watch.h"

#include "learn/knowledge.h"

namespace tangram::serve {
namespace {

// Less sensitive than the defaults, because a live machine stalls now and then. With this threshold, about fifty
// batches in a row that are far off, or more that are less so, count as drift. That is no stall, and enough to fit by.
constexpr learn::DriftOptions kPatient{.threshold = 100, .deviation_min = 0.05};

}  // namespace

DriftWatch::DriftWatch(std::shared_ptr<const learn::FittedModel> model, std::function<void(const News&)> tell,
                       std::function<void(const learn::FittedModel&)> renewed)
    : tell_(std::move(tell)), renewed_(std::move(renewed)), model_(std::move(model)), thread_([this] { watch(); }) {}

// `stop_` is set under the lock, so the thread cannot miss the notification between its check and its wait.
DriftWatch::~DriftWatch() {
  {
    const host::MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DriftWatch::served(const serve::ServedBatch& batch) {
  // Never waits: a batch that arrives while the lock is taken is dropped, and so is one beyond kKept. The detector
  // needs a sample of the batches, not all of them.
  if (!mutex_.try_lock()) return;
  if (fresh_.size() < kKept) {
    fresh_.push_back({std::string(batch.device), std::string(batch.mig_profile), std::string(batch.model),
                      batch.samples, batch.size, to_milliseconds(batch.took)});
  }
  mutex_.unlock();
}

std::shared_ptr<const learn::FittedModel> DriftWatch::model() const {
  const host::MutexLock lock(mutex_);
  return model_;
}

// Waits for a look that is under way, whose detectors refer to the model being replaced.
void DriftWatch::restart(std::shared_ptr<const learn::FittedModel> model) {
  const host::MutexLock looking(looking_);
  detectors_.clear();
  const host::MutexLock lock(mutex_);
  model_ = std::move(model);
  fresh_.clear();
}

void DriftWatch::watch() {
  const host::MutexLock lock(mutex_);
  while (!stop_) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    // Spurious wake-ups go back to waiting for the same instant.
    while (!stop_ && changed_.wait_until(mutex_, until)) continue;
    mutex_.unlock();
    look();
    mutex_.lock();
  }
}

// Each model on each device type has a detector of its own: the drift of one model must not be blamed on others.
void DriftWatch::look() {
  const host::MutexLock looking(looking_);
  std::vector<Batch> fresh;
  std::shared_ptr<const learn::FittedModel> model;
  {
    const host::MutexLock lock(mutex_);
    fresh.swap(fresh_);
    model = model_;
  }
  // The local `model` keeps the predictions alive that the detectors refer to, for the time of this look.
  for (const Batch& batch : fresh) {
    const learn::Target target{batch.device, batch.model};
    auto& detector = detectors_.try_emplace(target, *model, kPatient).first->second;
    const RunPoint point{batch.device, batch.mig_profile, batch.model, batch.samples, batch.size, 1};
    if (!detector.observe(point, batch.took_ms)) continue;
    fit_anew(target);
    return;  // What is left was measured against the model that is gone.
  }
}

// Refits one target. All other models keep their values: only the measurements that the detector has seen are moved.
// The detectors are dropped before the old model is, since they refer to it.
void DriftWatch::fit_anew(const learn::Target& target) {
  const learn::DriftDetector& detector = detectors_.at(target);
  News news{target.device, target.model, detector.ratio(), ""};
  auto fitted = learn::refit(detector, learn::know(detector.refreshed()), {});
  // A failed fit is reported once. The detector has spoken already and stays silent afterwards.
  if (!fitted) {
    news.problem = fitted.error().message;
    return tell_(news);
  }
  const auto next = std::make_shared<const learn::FittedModel>(std::move(*fitted));
  detectors_.clear();
  // Keeps the old model until the lock is released, so that it is not destroyed under the lock.
  std::shared_ptr<const learn::FittedModel> last = next;
  {
    const host::MutexLock lock(mutex_);
    last.swap(model_);
    fresh_.clear();
  }
  tell_(news);
  renewed_(*next);
}

}  // namespace tangram::serve
