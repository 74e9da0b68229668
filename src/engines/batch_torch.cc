// The engine `torch` in the table of engines: it loads libtorch when the first model is loaded.

#include "engines/batch_engine.h"
#include "engines/torch_library.h"

namespace tangram::engines {
namespace {

class BatchTorch final : public BatchEngine {
 public:
  explicit BatchTorch(const BatchEngineConfig& config) : config_(config) {}

  Result<Nothing> load(std::span<const ModelSpec> models) override {
    TANGRAM_TRY(const auto library, load_torch_library());
    engine_ = library->make_engine(config_);
    return engine_->load(models);
  }
  Result<Nothing> warm_up() override { return engine_->warm_up(); }
  Result<std::uint64_t> load_one(const ModelSpec& model) override { return engine_->load_one(model); }
  Result<Nothing> warm_up(ServiceId service) override { return engine_->warm_up(service); }
  void unload(ServiceId service) override { engine_->unload(service); }
  Result<Nothing> run(const BatchJob& job, const BatchMemory& memory) override { return engine_->run(job, memory); }

 private:
  BatchEngineConfig config_;
  std::unique_ptr<BatchEngine> engine_;  // Null before load.
};

}  // namespace

std::unique_ptr<BatchEngine> make_batch_torch(const BatchEngineConfig& config) {
  return std::make_unique<BatchTorch>(config);
}

}  // namespace tangram::engines
