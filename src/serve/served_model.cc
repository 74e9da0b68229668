// What clients know about a service, and what a reload may not change about it.
//
// Calls in flight, connections and workers hold pointers and copies of these values. So a reload may change the plan,
// the Slos and priorities, but not the model, its weights or the tensors of a service: that needs a restart.

#include "serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "sched/roster.h"
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
  // With a variable axis the constant is never used, so a change of it does not matter.
  const bool axis_tells = std::ranges::any_of(served.signature().inputs, has_variable_axis);
  if (!axis_tells && size_fixed_of(served) != size_fixed_of(next)) {
    return fmt::format("another input_size, {} instead of {}", size_fixed_of(next), size_fixed_of(served));
  }
  return "";
}

}  // namespace

ServedModel served_model(const Service& service, ServiceId id, const std::string& engine) {
  ServedModel model;
  model.service = id;
  model.name = service.name;
  model.network = service.model;
  model.weights = service.weights.empty() ? service.model : service.weights;
  model.platform = service.engine == ServiceEngine::unnamed ? engine : std::string(to_string(service.engine));
  model.command = service.command;
  model.signature = service.signature();
  model.size_fixed = size_fixed_of(service);
  model.priority = service.priority;
  return model;
}

std::int32_t size_max_of(const sched::DeployedService& service) {
  if (service.edges.empty()) return 0;
  return static_cast<std::int32_t>(std::min<std::int64_t>(service.edges.back(), INT32_MAX));
}

std::vector<ServedModel> served_models(const sched::Deployment& deployment, const Workload& workload,
                                       const std::string& engine) {
  std::vector<ServedModel> models;
  // Connections and calls point to models, so those that a reload adds must not move them.
  models.reserve(workload.services.size() + sched::kServicesAddedMax);
  for (std::size_t i = 0; i < workload.services.size(); ++i) {
    models.push_back(served_model(workload.services[i], ServiceId(static_cast<std::uint32_t>(i)), engine));
    models.back().samples_max = deployment.services[i].samples_max;
    models.back().size_max = size_max_of(deployment.services[i]);
  }
  return models;
}

Result<Nothing> check_served_alike(const Workload& served, const Workload& next) {
  for (const auto& service : next.services) {
    const auto before = std::ranges::find(served.services, service.name, &Service::name);
    if (before == served.services.end()) {
      // Its servers and commands were read at the start.
      if (service.engine == ServiceEngine::unnamed) continue;
      return Error{ErrorCode::invalid,
                   fmt::format("service '{}' is new and names an engine, which requires a restart", service.name)};
    }
    const std::string change = change_of_service(*before, service);
    if (change.empty()) continue;
    return Error{ErrorCode::invalid,
                 fmt::format("service '{}' has {}, which requires a restart", service.name, change)};
  }
  return Nothing{};
}

}  // namespace tangram::serve
