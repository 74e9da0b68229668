#include "serve/drift_watch.h"

#include "learn/knowledge.h"

namespace tangram::serve {
namespace {

// A live machine hesitates now and then. Fifty batches in a row that are far off, or more that are less so, are no
// hesitation, and enough to fit by.
constexpr learn::DriftOptions kPatient{.threshold = 100, .deviation_min = 0.05};

}  // namespace

DriftWatch::DriftWatch(std::shared_ptr<const learn::FittedModel> model, std::function<void(const News&)> tell,
                       std::function<void(const learn::FittedModel&)> renewed)
    : tell_(std::move(tell)), renewed_(std::move(renewed)), model_(std::move(model)), thread_([this] { watch(); }) {}

DriftWatch::~DriftWatch() {
  {
    const host::MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DriftWatch::served(const serve::ServedBatch& batch) {
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
    while (!stop_ && changed_.wait_until(mutex_, until)) continue;
    mutex_.unlock();
    look();
    mutex_.lock();
  }
}

// A model drifts by itself: one that others share the server with is not held against them.
void DriftWatch::look() {
  const host::MutexLock looking(looking_);
  std::vector<Batch> fresh;
  std::shared_ptr<const learn::FittedModel> model;
  {
    const host::MutexLock lock(mutex_);
    fresh.swap(fresh_);
    model = model_;
  }
  for (const Batch& batch : fresh) {
    const learn::Target target{batch.device, batch.model};
    auto& detector = detectors_.try_emplace(target, *model, kPatient).first->second;
    const RunPoint point{batch.device, batch.mig_profile, batch.model, batch.samples, batch.size, 1};
    if (!detector.observe(point, batch.took_ms)) continue;
    fit_anew(target);
    return;  // What is left was measured against the model that is gone.
  }
}

// All other models keep their values: only what the detector has seen is moved.
void DriftWatch::fit_anew(const learn::Target& target) {
  const learn::DriftDetector& detector = detectors_.at(target);
  News news{target.device, target.model, detector.ratio(), ""};
  auto fitted = learn::refit(detector, learn::know(detector.refreshed()), {});
  if (!fitted) {
    news.problem = fitted.error().message;
    return tell_(news);
  }
  const auto next = std::make_shared<const learn::FittedModel>(std::move(*fitted));
  detectors_.clear();
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
