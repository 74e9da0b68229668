// Kubernetes: the layouts for the MIG manager, the label that applies one to a node, and a Deployment for all slices
// that are alike.
//
// One pod serves one slice with everything that is loaded there, because a process sees one slice only. Two ways to ask
// for a slice: the device plugin's resource nvidia.com/mig-PROFILE, and a claim of dynamic resource allocation.

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "formats/exports/exports.h"

namespace tangram::formats::exports {
namespace {

// Kubernetes appends to the names of Deployments to name pods, whose names are labels.
constexpr std::size_t kNameLengthMax = 46;

// Slices of one kind with the same replicas on them: one Deployment.
struct Workers {
  const PlannedDevice* device = nullptr;  // Of the first.
  const PlannedSlice* slice = nullptr;
  std::string name;
  int count = 0;
  std::vector<std::string> layouts;  // Labels of the layouts that contain them.

  const MigProfile& profile() const { return device->geometry.profiles[slice->slice.profile]; }
};

bool alike(const Workers& workers, const PlannedDevice& device, const PlannedSlice& slice) {
  return workers.device->type == device.type && workers.slice->slice.profile == slice.slice.profile &&
         workers.slice->replicas == slice.replicas;
}

std::string base_name(const Workers& workers) {
  std::vector<std::string> services;
  for (const auto& replica : workers.slice->replicas) services.push_back(replica.service);
  return dns_label(text::join(services, "-"), kNameLengthMax - 18) + "-" + profile_label(workers.profile().name);
}

struct Collected {
  std::vector<Workers> workers;
  int free_slices = 0;
};

Collected collect(const ExportInput& input, const std::vector<ClusterNode>& nodes) {
  Collected all;
  std::set<std::string> taken;
  for (const auto& node : nodes) {
    for (const auto& seat : node.seats) {
      for (const auto& slice : seat.device->slices) {
        if (slice.replicas.empty()) {
          ++all.free_slices;
          continue;
        }
        auto same = std::ranges::find_if(all.workers, [&](const auto& w) { return alike(w, *seat.device, slice); });
        if (same == all.workers.end()) {
          all.workers.push_back({seat.device, &slice, "", 0, {}});
          same = all.workers.end() - 1;
          same->name = unique_name(base_name(*same), taken);
        }
        ++same->count;
        const std::string label = layout_label(input, node);
        if (std::ranges::find(same->layouts, label) == same->layouts.end()) same->layouts.push_back(label);
      }
    }
  }
  return all;
}

// "1g.5gb+me" is nvidia.com/mig-1g.5gb.me; a dash stays.
std::string resource_name(const MigProfile& profile) {
  std::string name = "nvidia.com/mig-" + profile.name;
  std::ranges::replace(name, '+', '.');
  return name;
}

using Fields = std::vector<std::pair<std::string, Node>>;

Fields labels_of(const Workers& workers) {
  return {{"app.kubernetes.io/name", text_node(workers.name)},
          {"app.kubernetes.io/managed-by", text_node("tangram")},
          {"tangram/device-type", text_node(workers.device->type)}};
}

// JSON without the breaks and margins of its lines; within strings a break is written as an escape.
std::string on_one_line(std::string_view json) {
  std::string line;
  for (const auto part : text::split(json, '\n')) line += text::trim(part);
  return line;
}

// What the pod is to serve, for whatever runs in it.
std::string replicas_json(const ExportInput& input, const PlannedSlice& slice) {
  std::string text;
  for (const auto& replica : slice.replicas) {
    const Service* service = find_service(input, replica.service);
    std::vector<Node> buckets;
    for (const auto& bucket : replica.buckets) {
      buckets.push_back(
          map_node({{"size_max", number_node(bucket.size_max)}, {"batch_size", number_node(bucket.batch_size)}}));
    }
    const Node node = map_node({{"service", text_node(replica.service)},
                                {"model", text_node(service != nullptr ? service->model : replica.service)},
                                {"processes", number_node(replica.processes)},
                                {"buckets", list_node(std::move(buckets))}});
    text += (text.empty() ? "" : ",") + to_json(node);
  }
  return "[" + on_one_line(text) + "]";
}

Node metadata(const ExportInput& input, const std::string& name, Fields labels) {
  Fields fields{{"name", text_node(name)}};
  if (!input.options.name_space.empty()) fields.emplace_back("namespace", text_node(input.options.name_space));
  fields.emplace_back("labels", map_node(std::move(labels)));
  return map_node(std::move(fields));
}

// Pods run only where the plan has cut their slices: profiles of different boards may have one name.
Node affinity(const Workers& workers) {
  std::vector<Node> labels;
  for (const auto& label : workers.layouts) labels.push_back(text_node(label));
  const Node layout = map_node({{"key", text_node("nvidia.com/mig.config")},
                                {"operator", text_node("In")},
                                {"values", list_node(std::move(labels))}});
  const Node state = map_node({{"key", text_node("nvidia.com/mig.config.state")},
                               {"operator", text_node("In")},
                               {"values", list_node({text_node("success")})}});
  const Node term = map_node({{"matchExpressions", list_node({layout, state})}});
  return map_node({{"nodeAffinity", map_node({{"requiredDuringSchedulingIgnoredDuringExecution",
                                               map_node({{"nodeSelectorTerms", list_node({term})}})}})}});
}

Node port(const char* name, int number) {
  return map_node({{"name", text_node(name)}, {"containerPort", number_node(number)}});
}

Node container(const ExportInput& input, Node resources) {
  return map_node({{"name", text_node("server")},
                   {"image", text_node(input.options.image)},
                   {"ports", list_node({port("http", 8000), port("grpc", 8001), port("metrics", 8002)})},
                   {"resources", std::move(resources)}});
}

Node deployment(const ExportInput& input, const Workers& workers, Node pod) {
  const Node selector = map_node({{"matchLabels", map_node({{"app.kubernetes.io/name", text_node(workers.name)}})}});
  const Node pod_metadata =
      map_node({{"labels", map_node(labels_of(workers))},
                {"annotations", map_node({{"tangram/replicas", text_node(replicas_json(input, *workers.slice))}})}});
  // There are exactly as many slices as pods, so an update takes one pod away before it starts the next.
  const Node strategy =
      map_node({{"type", text_node("RollingUpdate")},
                {"rollingUpdate", map_node({{"maxSurge", number_node(0)}, {"maxUnavailable", number_node(1)}})}});
  return map_node(
      {{"apiVersion", text_node("apps/v1")},
       {"kind", text_node("Deployment")},
       {"metadata", metadata(input, workers.name, labels_of(workers))},
       {"spec", map_node({{"replicas", number_node(workers.count)},
                          {"selector", selector},
                          {"strategy", strategy},
                          {"template", map_node({{"metadata", pod_metadata}, {"spec", std::move(pod)}})}})}});
}

Node plugin_pod(const ExportInput& input, const Workers& workers) {
  const Node limits = map_node({{resource_name(workers.profile()), number_node(1)}});
  return map_node(
      {{"affinity", affinity(workers)}, {"containers", list_node({container(input, map_node({{"limits", limits}}))})}});
}

Node claim_pod(const ExportInput& input, const Workers& workers) {
  const Node claim = map_node({{"name", text_node("slice")}, {"resourceClaimTemplateName", text_node(workers.name)}});
  const Node claims = list_node({map_node({{"name", text_node("slice")}})});
  return map_node({{"resourceClaims", list_node({claim})},
                   {"containers", list_node({container(input, map_node({{"claims", claims}}))})}});
}

// What stands in the product's name for a device type and in no other's: " H200" is not in "NVIDIA GH200 480GB".
std::string product_mark(const std::string& type) {
  if (type == "h100-96gb") return " GH200";
  if (type.starts_with("rtx-pro-")) return " RTX PRO " + type.substr(8);
  std::string mark = type.substr(0, type.find('-'));
  std::ranges::transform(mark, mark.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return " " + mark;
}

Node claim_template(const ExportInput& input, const Workers& workers) {
  const auto selector = [](const std::string& expression) {
    return map_node({{"cel", map_node({{"expression", text_node(expression)}})}});
  };
  constexpr const char* kAttributes = "device.attributes['gpu.nvidia.com']";
  const Node selectors = list_node(
      {selector(fmt::format("{}.profile == '{}'", kAttributes, workers.profile().name)),
       selector(fmt::format("{}.productName.contains('{}')", kAttributes, product_mark(workers.device->type)))});
  const Node request =
      map_node({{"name", text_node("slice")},
                {"exactly", map_node({{"deviceClassName", text_node("mig.nvidia.com")}, {"selectors", selectors}})}});
  return map_node(
      {{"apiVersion", text_node("resource.k8s.io/v1")},
       {"kind", text_node("ResourceClaimTemplate")},
       {"metadata", metadata(input, workers.name, labels_of(workers))},
       {"spec", map_node({{"spec", map_node({{"devices", map_node({{"requests", list_node({request})}})}})}})}});
}

// The MIG manager reads the layouts under the key config.yaml.
std::string layouts_text(const ExportInput& input, const std::vector<ClusterNode>& nodes) {
  std::string text =
      to_yaml(map_node({{"apiVersion", text_node("v1")},
                        {"kind", text_node("ConfigMap")},
                        {"metadata", map_node({{"name", text_node(dns_label(input.options.label) + "-mig-parted")},
                                               {"namespace", text_node("gpu-operator")}})}}));
  text += "data:\n  config.yaml: |\n";
  const std::string file = mig_parted_text(input, nodes);
  for (const auto line : text::split(text::trim(file), '\n')) text += fmt::format("    {}\n", line);
  return text;
}

std::string node_text(const ExportInput& input, const ClusterNode& node) {
  const Node labels = map_node({{"nvidia.com/mig.config", text_node(layout_label(input, node))}});
  return to_yaml(map_node({{"apiVersion", text_node("v1")},
                           {"kind", text_node("Node")},
                           {"metadata", map_node({{"name", text_node(node.name)}, {"labels", labels}})}}));
}

void note_free_slices(int count, std::vector<std::string>& notes) {
  if (count == 0) return;
  notes.push_back(fmt::format("{} slice{} without a replica {} cut, and nothing is deployed there", count,
                              count == 1 ? "" : "s", count == 1 ? "is" : "are"));
}

// With the device plugin, a node with two types of boards cannot tell their slices of one name apart.
void note_mixed(const std::vector<ClusterNode>& nodes, std::vector<std::string>& notes) {
  for (const auto& node : nodes) {
    std::set<std::string> types;
    for (const auto& seat : node.seats) types.insert(seat.device->type);
    if (types.size() < 2) continue;
    notes.push_back(fmt::format("{} has boards of {} types: slices of one name are the same resource there", node.name,
                                types.size()));
  }
}

std::string join_documents(const std::vector<std::string>& documents) {
  std::string text;
  for (const auto& document : documents) text += (text.empty() ? "" : "---\n") + document;
  return text;
}

}  // namespace

Result<Export> kubernetes(const ExportInput& input) {
  Export result;
  TANGRAM_TRY(const auto nodes, nodes_of(input, result.notes));
  const Collected all = collect(input, nodes);
  std::vector<std::string> documents{layouts_text(input, nodes)};
  for (const auto& node : nodes) documents.push_back(node_text(input, node));
  for (const auto& workers : all.workers) {
    documents.push_back(to_yaml(deployment(input, workers, plugin_pod(input, workers))));
  }
  note_free_slices(all.free_slices, result.notes);
  note_mixed(nodes, result.notes);
  result.files.push_back({"manifests.yaml", join_documents(documents)});
  return result;
}

Result<Export> kubernetes_dra(const ExportInput& input) {
  Export result;
  TANGRAM_TRY(const auto nodes, nodes_of(input, result.notes));
  const Collected all = collect(input, nodes);
  if (all.workers.empty())
    return Error{ErrorCode::invalid, "no slice of the plan has a replica, so nothing claims one"};
  std::vector<std::string> documents;
  for (const auto& workers : all.workers) {
    documents.push_back(to_yaml(claim_template(input, workers)));
    documents.push_back(to_yaml(deployment(input, workers, claim_pod(input, workers))));
  }
  note_free_slices(all.free_slices, result.notes);
  result.files.push_back({"manifests.yaml", join_documents(documents)});
  return result;
}

}  // namespace tangram::formats::exports
