#include "engines/detail/emulated_answer.h"
#include "engines/executor.h"
#include "engines/tensor_memory.h"

namespace tangram::engines {
namespace {

// Answers at once and returns the time that the batch should take; the caller lets it pass on its own clock. Without a
// process or a thread behind a slice, many of them can be emulated in one process.
class EmulatedExecutor final : public Executor {
 public:
  EmulatedExecutor(std::span<const Signature* const> signatures, const EmulatedExecutorConfig& config)
      : signatures_(signatures), config_(config) {}

  Result<BatchMemory*> prepare(const BatchJob& job) override {
    const Signature& signature = *signatures_[job.service.index()];
    const auto total = memory_needed(signature, job);
    if (!total) return Error{ErrorCode::exhausted, "the batch is larger than the address space"};
    // Grows only, so that a steady load allocates nothing.
    if (memory_.size() < *total) memory_.resize(*total);
    cut_memory(signature, job, memory_.data(), tensors_);
    return &tensors_;
  }

  std::optional<Duration> start(const BatchJob& job) override {
    answer_.write(*signatures_[job.service.index()], job, tensors_);
    return Duration(
        static_cast<std::int64_t>(static_cast<double>((job.load + job.expected).count()) * config_.time_scale));
  }

  // The answer is there and only its time would pass.
  bool stop(BatchId, bool) override { return true; }
  bool restart() override { return true; }

 private:
  std::span<const Signature* const> signatures_;
  EmulatedExecutorConfig config_;
  std::vector<std::byte> memory_;
  BatchMemory tensors_;
  EmulatedAnswer answer_;
};

}  // namespace

std::unique_ptr<Executor> make_emulated_executor(std::span<const Signature* const> signatures,
                                                 const EmulatedExecutorConfig& config) {
  return std::make_unique<EmulatedExecutor>(signatures, config);
}

}  // namespace tangram::engines
