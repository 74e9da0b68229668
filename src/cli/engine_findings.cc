// Tries each engine on each kind of device. "Available" in a library's own list is no proof: it may lack what it needs.
#include "cli/engine_findings.h"

#include "engines/onnx/ort_library.h"
#include "engines/torch_library.h"
#include "worker/worker_process.h"

namespace tangram::cli {
namespace {

// Why no engine can use a GPU; empty: one may.
std::string why_no_gpu(const adapters::DriverReport& driver) {
  if (!driver.gpus.empty()) return {};
  return driver.problem.empty() ? "this machine has no NVIDIA GPU" : driver.problem;
}

std::string why_no_torch(bool gpu) {
  const auto library = engines::load_torch_library();
  if (!library) return library.error().message;
  return gpu ? (*library)->why_no_gpu() : std::string();
}

}  // namespace

std::vector<EngineFinding> find_engines(const adapters::DriverReport& driver) {
  std::vector<EngineFinding> found{{"emulated", "cpu", "", ""}, {"emulated", "gpu", "", ""}};
  // Engines that load models run in workers.
  const std::string no_worker =
      worker::find_worker_program().empty() ? "tangram-worker is not in the folder of this program" : "";
  const std::string no_gpu = why_no_gpu(driver);
  const auto add = [&](const char* engine, const char* device, const char* provider, auto&& why) {
    const bool gpu = std::string_view(device) == "gpu";
    std::string missing = !no_worker.empty() ? no_worker : gpu ? no_gpu : std::string();
    if (missing.empty()) missing = why();
    found.push_back({engine, device, provider, std::move(missing)});
  };
  add("onnx", "cpu", "cpu", [] { return engines::ort::why_not_usable("cpu", "cpu"); });
  add("onnx", "gpu", "cuda", [] { return engines::ort::why_not_usable("gpu", "cuda"); });
  add("onnx", "gpu", "tensorrt", [] { return engines::ort::why_not_usable("gpu", "tensorrt"); });
  add("torch", "cpu", "", [] { return why_no_torch(false); });
  add("torch", "gpu", "", [] { return why_no_torch(true); });
  add("command", "cpu", "", [] { return std::string(); });
  add("command", "gpu", "", [] { return std::string(); });
  found.push_back({"remote", "cpu", "", ""});
  found.push_back({"remote", "gpu", "", ""});
  return found;
}

}  // namespace tangram::cli
