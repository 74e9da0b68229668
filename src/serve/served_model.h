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
struct Deployment;
}

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
  SharedNumber samples_max = 1;  // Of one request, by the plan in force.
  std::int32_t priority = 0;
};

// The one version that every model has.
inline constexpr std::string_view kModelVersion = "1";

// The services of a deployment as clients see them. `engine` is what they are told runs the models.
std::vector<ServedModel> served_models(const sched::Deployment& deployment, const Workload& workload,
                                       const std::string& engine);
// What clients and workers know about services must not change while they are served. Errors: a service of `next` has
// another model, other weights, other tensors, or another default priority or size than the one with the same name and
// position.
Result<Nothing> check_served_alike(const Workload& served, const Workload& next);

}  // namespace tangram::serve
