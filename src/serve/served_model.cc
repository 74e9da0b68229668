#include "serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "sched/scheduler.h"

namespace tangram::serve {
namespace {

// The size of requests that say nothing of it, where no axis tells.
std::int64_t size_fixed_of(const Service& service) {
  const auto* constant = std::get_if<ConstantSize>(&service.input_size);
  return constant == nullptr ? 1 : constant->size;
}

std::string change_of_service(const Service& served, const Service& next) {
  if (served.model != next.model) {
    return fmt::format("another model, '{}' in place of '{}'", next.model, served.model);
  }
  if (served.signature() != next.signature()) return "other tensors";
  if (served.priority != next.priority) {
    return fmt::format("another priority, {} in place of {}", next.priority, served.priority);
  }
  const bool axis_tells = std::ranges::any_of(served.signature().inputs, has_variable_axis);
  if (!axis_tells && size_fixed_of(served) != size_fixed_of(next)) {
    return fmt::format("another input_size, {} in place of {}", size_fixed_of(next), size_fixed_of(served));
  }
  return "";
}

}  // namespace

std::vector<ServedModel> served_models(const sched::Deployment& deployment, const Workload& workload,
                                       const std::string& engine) {
  std::vector<ServedModel> models;
  for (std::size_t i = 0; i < workload.services.size(); ++i) {
    const Service& service = workload.services[i];
    models.push_back({.service = ServiceId(static_cast<std::uint32_t>(i)),
                      .name = service.name,
                      .network = service.model,
                      .platform = engine,
                      .signature = service.signature(),
                      .size_fixed = size_fixed_of(service),
                      .samples_max = deployment.services[i].samples_max,
                      .priority = service.priority});
  }
  return models;
}

Result<Nothing> check_served_alike(const Workload& served, const Workload& next) {
  const std::size_t both = std::min(served.services.size(), next.services.size());
  for (std::size_t i = 0; i < both; ++i) {
    if (served.services[i].name != next.services[i].name) return Nothing{};  // Whoever takes the plan refuses that.
    const std::string change = change_of_service(served.services[i], next.services[i]);
    if (change.empty()) continue;
    return Error{ErrorCode::invalid,
                 fmt::format("service '{}' has {}: that needs a new start", served.services[i].name, change)};
  }
  return Nothing{};
}

}  // namespace tangram::serve
