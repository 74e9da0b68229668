// What clients know about a service, and what a reload may not change about it.
//
// Calls in flight, connections and workers hold pointers and copies of these values. So a reload may change the plan
// and the Slos, but not the model, its weights, the tensors or the default priority of a service: that needs a restart.

#include "serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "sched/scheduler.h"

namespace tangram::serve {
namespace {

// The input size of requests that do not state one, for a model without a variable axis.
std::int64_t size_fixed_of(const Service& service) {
  const auto* constant = std::get_if<ConstantSize>(&service.input_size);
  return constant == nullptr ? 1 : constant->size;
}

// The first difference that matters to clients or workers, in words; empty if there is none.
std::string change_of_service(const Service& served, const Service& next) {
  if (served.model != next.model) {
    return fmt::format("another model, '{}' instead of '{}'", next.model, served.model);
  }
  if (served.weights != next.weights) {
    return fmt::format("other weights, '{}' instead of '{}'", next.weights, served.weights);
  }
  if (served.signature() != next.signature()) return "other tensors";
  if (served.engine != next.engine || served.command != next.command || served.remotes != next.remotes) {
    return "another engine";
  }
  if (served.priority != next.priority) {
    return fmt::format("another priority, {} instead of {}", next.priority, served.priority);
  }
  // With a variable axis the constant is never used, so a change of it does not matter.
  const bool axis_tells = std::ranges::any_of(served.signature().inputs, has_variable_axis);
  if (!axis_tells && size_fixed_of(served) != size_fixed_of(next)) {
    return fmt::format("another input_size, {} instead of {}", size_fixed_of(next), size_fixed_of(served));
  }
  return "";
}

}  // namespace

std::vector<ServedModel> served_models(const sched::Deployment& deployment, const Workload& workload,
                                       const std::string& engine) {
  // The index of a service is its id, in the workload, the deployment and everywhere in serve.
  std::vector<ServedModel> models;
  for (std::size_t i = 0; i < workload.services.size(); ++i) {
    const Service& service = workload.services[i];
    models.push_back(
        {.service = ServiceId(static_cast<std::uint32_t>(i)),
         .name = service.name,
         .network = service.model,
         .weights = service.weights.empty() ? service.model : service.weights,
         .platform = service.engine == ServiceEngine::unnamed ? engine : std::string(to_string(service.engine)),
         .command = service.command,
         .signature = service.signature(),
         .size_fixed = size_fixed_of(service),
         .samples_max = deployment.services[i].samples_max,
         .priority = service.priority});
  }
  return models;
}

Result<Nothing> check_served_alike(const Workload& served, const Workload& next) {
  // Different numbers of services are detected with the names, where the plan is applied.
  const std::size_t both = std::min(served.services.size(), next.services.size());
  for (std::size_t i = 0; i < both; ++i) {
    if (served.services[i].name != next.services[i].name) return Nothing{};  // Whoever takes the plan refuses that.
    const std::string change = change_of_service(served.services[i], next.services[i]);
    if (change.empty()) continue;
    return Error{ErrorCode::invalid,
                 fmt::format("service '{}' has {}, which requires a restart", served.services[i].name, change)};
  }
  return Nothing{};
}

}  // namespace tangram::serve
