// Triton: a model repository for each slice, with one config.pbtxt for each replica.
//
// Triton does not know MIG. One server runs for each slice, with CUDA_VISIBLE_DEVICES=MIG-<uuid>, and sees the slice as
// GPU 0. So each slice gets a folder, for example rack1-0/4g.40gb-0/rank/config.pbtxt.
//
// Models that share a slice are one folder and one server. Triton would run them at the same time; the plan counts on
// one batch at a time. So each of them asks for the one "slice" of the server's rate limiter.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "formats/exports/exports.h"

namespace tangram::formats::exports {
namespace {

// A string literal of the protobuf text format: control characters as three octal digits.
std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += fmt::format("\\{}", c);
    else if (byte < 0x20 || byte == 0x7F)
      result += fmt::format("\\{:03o}", byte);
    else
      result += c;
  }
  return result + "\"";
}

// A safe folder name. "..", a leading dash or a slash could leave the folder of the export or be read as an option, so
// a name with anything unusual becomes a DNS label.
std::string folder_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  const bool safe =
      !name.empty() && name[0] != '.' && name[0] != '-' && name.size() <= 128 && std::ranges::all_of(name, plain);
  return safe ? name : dns_label(name);
}

// The number of processes in the plan that serve a service; requests are assumed to spread evenly over them.
std::int64_t processes_of(const Plan& plan, const std::string& service) {
  std::int64_t count = 0;
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      for (const auto& replica : slice.replicas) count += replica.service == service ? replica.processes : 0;
    }
  }
  return count;
}

std::int64_t batch_max(const Replica& replica) {
  return std::ranges::max_element(replica.buckets, {}, &PlannedBucket::batch_size)->batch_size;
}

// How long a server may wait for a batch to fill: the time in which its share of the requests fills the largest batch,
// but at most a quarter of the Slo's latency. A batch that runs for half the latency then still meets its deadline.
std::int64_t queue_delay_us(const ExportInput& input, const Service& service, const Replica& replica) {
  constexpr double kShareOfSlo = 0.25;
  const double limit_us = kShareOfSlo * to_seconds(service.slo.latency) * 1e6;
  const double rate = mean_rate_per_s(service.traffic);
  // The rate is unknown, for example of a closed loop.
  if (rate <= 0) return static_cast<std::int64_t>(limit_us);
  const auto processes = static_cast<double>(processes_of(*input.plan, replica.service));
  const double fill_us = static_cast<double>(batch_max(replica) - 1) * processes * 1e6 / rate;
  return static_cast<std::int64_t>(std::min(limit_us, fill_us));
}

std::string batching(const ExportInput& input, const Replica& replica) {
  std::set<std::int64_t> sizes;
  for (const auto& bucket : replica.buckets) sizes.insert(bucket.batch_size);
  std::string text = fmt::format("dynamic_batching {{\n  preferred_batch_size: [ {} ]\n", fmt::join(sizes, ", "));
  if (const Service* service = find_service(input, replica.service)) {
    text += fmt::format("  max_queue_delay_microseconds: {}\n", queue_delay_us(input, *service, replica));
    // A queued request that has waited for the whole latency can no longer meet its deadline, so Triton rejects it.
    text += fmt::format(
        "  default_queue_policy {{\n    timeout_action: REJECT\n    default_timeout_microseconds: {}\n"
        "    allow_timeout_override: true\n  }}\n",
        std::max<std::int64_t>(1, service->slo.latency.count() / 1000));
  }
  return text + "}\n";
}

// Triton has one batch size for a model and no buckets. They go along as a parameter for a backend that reads them.
std::string parameters(const Replica& replica) {
  std::vector<std::string> buckets;
  for (const auto& bucket : replica.buckets)
    buckets.push_back(fmt::format("{}:{}", bucket.size_max, bucket.batch_size));
  return fmt::format("parameters {{\n  key: \"tangram_buckets\"\n  value {{ string_value: {} }}\n}}\n",
                     in_quotes(text::join(buckets, ",")));
}

constexpr const char* kOneAtATime = "    rate_limiter { resources [ { name: \"slice\" count: 1 } ] }\n";

// What a plan with shared slices counts on and Triton does not do by itself.
void note_shared_slices(const ExportInput& input, std::vector<std::string>& notes) {
  bool shared = false;
  bool limited = false;
  bool same_weights_twice = false;
  bool on_demand = false;
  for (const auto& device : input.plan->devices) {
    for (const auto& slice : device.slices) {
      std::set<std::pair<std::string, std::string>> copies;
      for (const auto& replica : slice.replicas) {
        shared = shared || slice.replicas.size() > 1;
        limited = limited || replica.rate_max_per_s;
        on_demand = on_demand || replica.load == ReplicaLoad::on_demand;
        const Service* service = find_service(input, replica.service);
        if (service == nullptr) continue;
        same_weights_twice = !copies.emplace(service->model, service->weights).second || same_weights_twice;
      }
    }
  }
  if (!shared) return;
  notes.emplace_back(
      "services share slices: start those servers with --rate-limit=execution_count, so that one batch runs at a time");
  if (limited) notes.emplace_back("Triton does not limit the rates of services that share slices (rate_max_per_s)");
  if (on_demand) {
    notes.emplace_back(
        "some models are loaded on demand, and not all fit at once: start those servers with "
        "--model-control-mode=explicit, and load and unload these models by requests");
  }
  if (same_weights_twice) {
    notes.emplace_back(
        "services with the same weights share one copy and batches in the plan; Triton loads a copy for each, which may "
        "not fit into memory");
  }
}

std::string model_text(const ExportInput& input, const PlannedDevice& device, const PlannedSlice& slice,
                       const Replica& replica, const std::string& name) {
  const bool host = device.geometry.units_per_core > 0;
  std::string text = fmt::format("# {} on {}@{} of {}.\n", "One replica",
                                 device.geometry.profiles[slice.slice.profile].name, slice.slice.start, device.type);
  text += fmt::format("name: {}\n", in_quotes(name));
  if (!input.options.backend.empty()) text += fmt::format("backend: {}\n", in_quotes(input.options.backend));
  text += fmt::format("max_batch_size: {}\n", batch_max(replica));
  text += batching(input, replica);
  text += fmt::format("instance_group [\n  {{\n    count: {}\n    kind: {}\n{}{}  }}\n]\n", replica.processes,
                      host ? "KIND_CPU" : "KIND_GPU", host ? "" : "    gpus: [ 0 ]\n",
                      slice.replicas.size() < 2 ? "" : kOneAtATime);
  return text + parameters(replica);
}

// The models of one slice. Their names must differ, and a slice may hold a service twice.
void add_slice(const ExportInput& input, const PlannedDevice& device, const PlannedSlice& slice, Export& result) {
  const std::string folder = triton_folder(device, slice);
  std::set<std::string> taken;
  for (const auto& replica : slice.replicas) {
    const std::string name = unique_name(folder_name(replica.service), taken);
    result.files.push_back(
        {fmt::format("{}/{}/config.pbtxt", folder, name), model_text(input, device, slice, replica, name)});
    if (name == replica.service) continue;
    result.notes.push_back(fmt::format("{}: the service {} is named {}", folder, replica.service, name));
  }
}

}  // namespace

std::string triton_folder(const PlannedDevice& device, const PlannedSlice& slice) {
  return fmt::format("{}/{}-{}", folder_name(device.name), device.geometry.profiles[slice.slice.profile].name,
                     slice.slice.start);
}

Result<Export> triton(const ExportInput& input) {
  Export result;
  for (const auto& device : input.plan->devices) {
    for (const auto& slice : device.slices) add_slice(input, device, slice, result);
  }
  if (result.files.empty())
    return Error{ErrorCode::invalid, "the plan has no replica, so there is no model to configure"};
  if (input.workload == nullptr) {
    result.notes.emplace_back("queue delays are left out, because promises and rates are unknown; give --services");
  }
  note_shared_slices(input, result.notes);
  result.notes.emplace_back(
      "run one server for each folder DEVICE/SLICE, with CUDA_VISIBLE_DEVICES=MIG-<uuid> of that slice");
  return result;
}

}  // namespace tangram::formats::exports
