#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "engines/batch_engine.h"
#include "engines/detail/emulated_answer.h"

namespace tangram::engines {
namespace {

// Requires duration >= 0.
timespec after(timespec from, Duration duration) {
  const std::int64_t nanoseconds = from.tv_nsec + duration.count();
  from.tv_sec += nanoseconds / 1'000'000'000;
  from.tv_nsec = nanoseconds % 1'000'000'000;
  return from;
}

// Writes the same answers as the emulated executor, and waits until the expected time has passed.
class BatchEmulated final : public BatchEngine {
 public:
  explicit BatchEmulated(const BatchEngineConfig& config) : time_scale_(config.time_scale) {}

  Result<Nothing> load(std::span<const ModelSpec> models) override {
    models_.assign(models.begin(), models.end());
    return Nothing{};
  }

  Result<Nothing> warm_up() override {
    prctl(PR_SET_TIMERSLACK, 1);  // A run may end late by a nanosecond, not by the usual 50 microseconds.
    return Nothing{};
  }

  // Takes the time that was measured, unless another model has the same weights.
  Result<std::uint64_t> load_one(const ModelSpec& model) override {
    timespec begin{};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const bool shared = std::ranges::find(models_, model.copy, &ModelSpec::copy) != models_.end();
    unload(model.service);
    models_.push_back(model);
    if (!shared) wait_from(begin, model.load_time);
    return 0;
  }
  Result<Nothing> warm_up(ServiceId) override { return Nothing{}; }
  void unload(ServiceId service) override {
    std::erase_if(models_, [&](const ModelSpec& model) { return model.service == service; });
  }

  Result<Nothing> run(const BatchJob& job, const BatchMemory& memory) override {
    timespec begin{};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const auto model = std::ranges::find(models_, job.service, &ModelSpec::service);
    if (model == models_.end()) return Error{ErrorCode::not_found, "the slice has no replica of the service"};
    answer_.write(model->signature, job, memory);
    wait_from(begin, job.expected);
    return Nothing{};
  }

 private:
  // An absolute end counted from the beginning: the time to write the answer is part of the run, and a signal that
  // interrupts the sleep does not lengthen it.
  void wait_from(const timespec& begin, Duration expected) const {
    const Duration takes(static_cast<std::int64_t>(static_cast<double>(expected.count()) * time_scale_));
    const timespec end = after(begin, takes);
    while (takes.count() > 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) == EINTR) {
    }
  }

  double time_scale_;
  std::vector<ModelSpec> models_;
  EmulatedAnswer answer_;
};

}  // namespace

std::unique_ptr<BatchEngine> make_batch_emulated(const BatchEngineConfig& config) {
  return std::make_unique<BatchEmulated>(config);
}

}  // namespace tangram::engines
