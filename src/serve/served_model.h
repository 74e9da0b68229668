// A service as clients see it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/ids.h"
#include "core/tensor.h"
#include "core/workload.h"

namespace tangram::sched {
struct DeployedService;
struct Deployment;
}  // namespace tangram::sched

namespace tangram::serve {

// A number that one thread changes while others read it.
class SharedNumber {
 public:
  SharedNumber(std::int32_t value) : value_(value) {}  // NOLINT(google-explicit-constructor): it is one.
  SharedNumber(const SharedNumber& other) : value_(static_cast<std::int32_t>(other)) {}
  SharedNumber& operator=(const SharedNumber& other) { return *this = static_cast<std::int32_t>(other); }
  SharedNumber& operator=(std::int32_t value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  operator std::int32_t() const {
    return value_.load(std::memory_order_relaxed);
  }  // NOLINT(google-explicit-constructor)

 private:
  std::atomic<std::int32_t> value_;
};

// A service as clients see it: they call it a model.
struct ServedModel {
  ServiceId service;
  std::string name;
  std::string network;   // What the measurements call the model.
  std::string weights;   // The file of its weights, without folder and ending: that of the network, or of a fine-tune.
  std::string platform;  // The engine: its own, or the server's default.
  std::string command;   // Of the engine `command`, where the service has one of its own.
  Signature signature;
  std::int64_t size_fixed = 1;   // The input size of requests that say nothing of it, where no axis tells.
  SharedNumber samples_max = 1;  // Of one request, by the plan in force, ...
  SharedNumber size_max = 0;     // ... and the largest size that it takes; 0: not known.
  SharedNumber priority = 0;     // Of requests that say nothing of theirs.
  SharedNumber removed = 0;      // Not 0: the service was removed by a reload; clients are told that it does not exist.
};

// The one version that every model has.
inline constexpr std::string_view kModelVersion = "1";

// A service as clients see it. `engine` is what they are told runs the models.
ServedModel served_model(const Service& service, ServiceId id, const std::string& engine);
// The largest size that the plan takes of this service, as far as a SharedNumber can say it; 0: it takes none.
std::int32_t size_max_of(const sched::DeployedService& service);
// All services of a deployment, by ServiceId. There is room for those that reloads add: models never move.
std::vector<ServedModel> served_models(const sched::Deployment& deployment, const Workload& workload,
                                       const std::string& engine);
// What clients and workers know about services must not change while the server runs. Errors: a service of `next` has
// another model, other weights, another engine, other tensors or another default size than the one of `served` with the
// same name, or is new and names an engine of its own.
Result<Nothing> check_served_alike(const Workload& served, const Workload& next);

}  // namespace tangram::serve
