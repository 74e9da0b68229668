// The entry point of the shared object. It includes nothing of libtorch and so compiles fast.

#include "engines/torch_library.h"

#include "engines/torch/torch_engine.h"
#include "engines/torch/torch_models.h"

namespace tangram::engines {
namespace {

class Library final : public TorchLibrary {
 public:
  std::string version() const override { return "libtorch " TANGRAM_TORCH_VERSION; }
  std::string why_no_gpu() const override { return why_no_torch_gpu(); }
  Result<Nothing> write_model(const ExampleModel& model, std::uint64_t seed, const std::string& path) const override {
    return write_torch_model(model, seed, path);
  }
  std::unique_ptr<BatchEngine> make_engine(const BatchEngineConfig& config) const override {
    return make_torch_engine(config);
  }
};

}  // namespace
}  // namespace tangram::engines

// The number in the name is the version of the interface: a library of another version lacks the symbol.
extern "C" __attribute__((visibility("default"))) const tangram::engines::TorchLibrary* tangram_torch_library_3() {
  static const tangram::engines::Library library;
  return &library;
}
