// Kubernetes: the layouts for the MIG manager, the label that applies one to a node, one Deployment for each kind of
// slice, and one Service for each service of the plan.
//
// One pod serves one slice with everything that is loaded there, because a process sees one slice only. A pod can ask
// for its slice in two ways: by the device plugin's resource nvidia.com/mig-PROFILE, or by a claim of dynamic resource
// allocation (DRA).

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "formats/exports/exports.h"

namespace tangram::formats::exports {
namespace {

// A pod's name is its Deployment's name with "-", a hash of ten letters, "-" and five more, and has at most 63 letters.
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

// Replicas are compared with their buckets and batch sizes, because all pods of a Deployment get the same annotation.
bool alike(const Workers& workers, const PlannedDevice& device, const PlannedSlice& slice) {
  return workers.device->type == device.type && workers.slice->slice.profile == slice.slice.profile &&
         workers.slice->replicas == slice.replicas;
}

// "bert-resnet-1g-5gb". The services share what the profile leaves of the length.
std::string base_name(const Workers& workers) {
  std::vector<std::string> services;
  for (const auto& replica : workers.slice->replicas) services.push_back(replica.service);
  return dns_label(text::join(services, "-"), kNameLengthMax - 18) + "-" + profile_label(workers.profile().name);
}

struct Collected {
  std::vector<Workers> workers;
  int free_slices = 0;
};

// Groups the slices of all nodes. Deployments appear in the order of the plan, so the same plan gives the same names.
Collected collect(const ExportInput& input, const std::vector<ClusterNode>& nodes) {
  Collected all;
  std::set<std::string> taken;
  for (const auto& node : nodes) {
    for (const auto& seat : node.seats) {
      for (const auto& slice : seat.device->slices) {
        if (slice.replicas.empty()) {
          all.free_slices += slice.reserved ? 0 : 1;
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

// "1g.5gb+me" is nvidia.com/mig-1g.5gb.me: a resource name cannot hold a plus. A dash stays.
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

// "tangram/serves-rank-answers", by which the Service of a service finds its pods.
std::string serves_label(const std::string& service) { return "tangram/serves-" + dns_label(service, 55); }

Fields pod_labels_of(const Workers& workers) {
  Fields labels = labels_of(workers);
  for (const auto& replica : workers.slice->replicas) {
    labels.emplace_back(serves_label(replica.service), text_node("true"));
  }
  return labels;
}

// JSON without line breaks and indentation. Safe, because a line break inside a string is written as an escape.
std::string on_one_line(std::string_view json) {
  std::string line;
  for (const auto part : text::split(json, '\n')) line += text::trim(part);
  return line;
}

// The models of the pod with their buckets and batch sizes, as an annotation for whatever server runs in it.
std::string replicas_json(const ExportInput& input, const PlannedSlice& slice) {
  std::string text;
  for (const auto& replica : slice.replicas) {
    const Service* service = find_service(input, replica.service);
    std::vector<Node> buckets;
    for (const auto& bucket : replica.buckets) {
      buckets.push_back(
          map_node({{"size_max", number_node(bucket.size_max)}, {"batch_size", number_node(bucket.batch_size)}}));
    }
    Fields fields{{"service", text_node(replica.service)},
                  {"model", text_node(service != nullptr ? service->model : replica.service)}};
    if (service != nullptr && !service->weights.empty()) fields.emplace_back("weights", text_node(service->weights));
    fields.emplace_back("processes", number_node(replica.processes));
    if (replica.load == ReplicaLoad::on_demand) fields.emplace_back("load", text_node("on_demand"));
    if (replica.rate_max_per_s) fields.emplace_back("rate_max_per_s", decimal_node(*replica.rate_max_per_s));
    fields.emplace_back("buckets", list_node(std::move(buckets)));
    text += (text.empty() ? "" : ",") + to_json(map_node(std::move(fields)));
  }
  return "[" + on_one_line(text) + "]";
}

// Without a namespace in the options, `kubectl` uses that of the current context.
Node metadata(const ExportInput& input, const std::string& name, Fields labels) {
  Fields fields{{"name", text_node(name)}};
  if (!input.options.name_space.empty()) fields.emplace_back("namespace", text_node(input.options.name_space));
  fields.emplace_back("labels", map_node(std::move(labels)));
  return map_node(std::move(fields));
}

// Pods run only on nodes whose layout contains their slices: profiles of different boards may share a name. The state
// keeps pods away until the MIG manager has finished cutting.
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

// All pods of a Deployment are alike, so they read the repository of its first slice.
Node arguments(const ExportInput& input, const Workers& workers) {
  std::vector<Node> words;
  for (const auto& word : input.options.arguments) words.push_back(text_node(word));
  if (words.empty()) {
    words.push_back(text_node("tritonserver"));
    words.push_back(text_node("--model-repository=/models/" + triton_folder(*workers.device, *workers.slice)));
    // Models of one slice take turns, as the plan counts on.
    if (workers.slice->replicas.size() > 1) words.push_back(text_node("--rate-limit=execution_count"));
  }
  return list_node(std::move(words));
}

// The Open Inference Protocol's own questions. A model may take minutes to load, so liveness waits for the first answer.
Node probe(const char* path, int period_s, int failures) {
  return map_node({{"httpGet", map_node({{"path", text_node(path)}, {"port", text_node("http")}})},
                   {"periodSeconds", number_node(period_s)},
                   {"failureThreshold", number_node(failures)}});
}

Node container(const ExportInput& input, const Workers& workers, Node resources) {
  Fields fields{{"name", text_node("server")},
                {"image", text_node(input.options.image)},
                {"args", arguments(input, workers)},
                {"ports", list_node({port("http", 8000), port("grpc", 8001), port("metrics", 8002)})},
                {"startupProbe", probe("/v2/health/live", 5, 120)},
                {"livenessProbe", probe("/v2/health/live", 10, 3)},
                {"readinessProbe", probe("/v2/health/ready", 5, 2)},
                {"resources", std::move(resources)}};
  if (!input.options.models_claim.empty()) {
    const Node mount = map_node(
        {{"name", text_node("models")}, {"mountPath", text_node("/models")}, {"readOnly", plain_node("true")}});
    fields.emplace_back("volumeMounts", list_node({mount}));
  }
  return map_node(std::move(fields));
}

// Nodes with GPUs are often tainted, so that nothing else runs there.
Fields pod_fields(const ExportInput& input) {
  const Node toleration = map_node({{"key", text_node("nvidia.com/gpu")},
                                    {"operator", text_node("Exists")},
                                    {"effect", text_node("NoSchedule")}});
  Fields fields{{"tolerations", list_node({toleration})}};
  if (!input.options.models_claim.empty()) {
    const Node claim = map_node({{"claimName", text_node(input.options.models_claim)}, {"readOnly", plain_node("true")}});
    fields.emplace_back("volumes",
                        list_node({map_node({{"name", text_node("models")}, {"persistentVolumeClaim", claim}})}));
  }
  return fields;
}

// The longest time that the jobs of the slice have; nothing if it serves anything that is no job.
std::optional<std::int64_t> job_deadline_s(const ExportInput& input, const Workers& workers) {
  std::int64_t longest = 0;
  for (const auto& replica : workers.slice->replicas) {
    const Service* service = find_service(input, replica.service);
    if (service == nullptr || !service->job) return std::nullopt;
    longest = std::max<std::int64_t>(longest, service->slo.latency / std::chrono::seconds(1));
  }
  return longest;
}

// Slices that only work on jobs with a deadline are free behind it: a Job, which ends, and not a Deployment.
Node finite_job(const ExportInput& input, const Workers& workers, Node pod, std::int64_t deadline_s) {
  pod.entries.push_back({"restartPolicy", {}, text_node("OnFailure")});
  const Node pod_metadata =
      map_node({{"labels", map_node(pod_labels_of(workers))},
                {"annotations", map_node({{"tangram/replicas", text_node(replicas_json(input, *workers.slice))}})}});
  return map_node(
      {{"apiVersion", text_node("batch/v1")},
       {"kind", text_node("Job")},
       {"metadata", metadata(input, workers.name, labels_of(workers))},
       {"spec", map_node({{"parallelism", number_node(workers.count)},
                          {"completions", number_node(workers.count)},
                          {"activeDeadlineSeconds", number_node(std::max<std::int64_t>(deadline_s, 1))},
                          {"ttlSecondsAfterFinished", number_node(3600)},
                          {"template", map_node({{"metadata", pod_metadata}, {"spec", std::move(pod)}})}})}});
}

Node deployment(const ExportInput& input, const Workers& workers, Node pod) {
  if (const auto deadline_s = job_deadline_s(input, workers)) return finite_job(input, workers, std::move(pod), *deadline_s);
  const Node selector = map_node({{"matchLabels", map_node({{"app.kubernetes.io/name", text_node(workers.name)}})}});
  const Node pod_metadata =
      map_node({{"labels", map_node(pod_labels_of(workers))},
                {"annotations", map_node({{"tangram/replicas", text_node(replicas_json(input, *workers.slice))}})}});
  // There are exactly as many slices as pods. With a surge, the new pod would wait for ever for a slice that the old
  // one holds, so an update removes one pod before it starts the next.
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
  Fields fields{{"affinity", affinity(workers)}};
  for (auto& field : pod_fields(input)) fields.push_back(std::move(field));
  fields.emplace_back("containers", list_node({container(input, workers, map_node({{"limits", limits}}))}));
  return map_node(std::move(fields));
}

// The container refers to the pod's claim by the name "slice", and the claim to the template of the Deployment's name.
Node claim_pod(const ExportInput& input, const Workers& workers) {
  const Node claim = map_node({{"name", text_node("slice")}, {"resourceClaimTemplateName", text_node(workers.name)}});
  const Node claims = list_node({map_node({{"name", text_node("slice")}})});
  Fields fields{{"resourceClaims", list_node({claim})}};
  for (auto& field : pod_fields(input)) fields.push_back(std::move(field));
  fields.emplace_back("containers", list_node({container(input, workers, map_node({{"claims", claims}}))}));
  return map_node(std::move(fields));
}

// One address for all pods that serve a service, on whatever kinds of slices.
void add_services(const ExportInput& input, const Collected& all, std::vector<std::string>& documents) {
  std::set<std::string> seen;
  std::set<std::string> taken;
  for (const auto& workers : all.workers) {
    for (const auto& replica : workers.slice->replicas) {
      if (!seen.insert(replica.service).second) continue;
      const auto port_of = [](const char* name, int number) {
        return map_node(
            {{"name", text_node(name)}, {"port", number_node(number)}, {"targetPort", text_node(name)}});
      };
      // A Service's name must begin with a letter.
      const std::string name = unique_name(dns_label("tangram-" + replica.service), taken);
      documents.push_back(to_yaml(map_node(
          {{"apiVersion", text_node("v1")},
           {"kind", text_node("Service")},
           {"metadata", metadata(input, name, {{"app.kubernetes.io/managed-by", text_node("tangram")}})},
           {"spec", map_node({{"selector", map_node({{serves_label(replica.service), text_node("true")}})},
                              {"ports", list_node({port_of("http", 8000), port_of("grpc", 8001)})}})}})));
    }
  }
}

// A part of the product's name that only boards of this device type have. The leading blank matters: "H200" is a part
// of "NVIDIA GH200 480GB", but " H200" is not.
std::string product_mark(const std::string& type) {
  if (type == "h100-96gb") return " GH200";
  if (type.starts_with("rtx-pro-")) return " RTX PRO " + type.substr(8);
  std::string mark = type.substr(0, type.find('-'));
  std::ranges::transform(mark, mark.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return " " + mark;
}

// Profile and product both select: the profile alone could match a slice of another board.
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

// The MIG manager reads the layouts as text under the key config.yaml. The block scalar is put together here, because
// to_yaml would write that text as one long quoted line.
std::string layouts_text(const ExportInput& input, const std::vector<ClusterNode>& nodes) {
  std::string text =
      to_yaml(map_node({{"apiVersion", text_node("v1")},
                        {"kind", text_node("ConfigMap")},
                        {"metadata", map_node({{"name", text_node(dns_label(input.options.label) + "-mig-parted")},
                                               {"namespace", text_node("gpu-operator")}})}}));
  text += "data:\n  config.yaml: |\n";
  const std::string file = mig_parted_text(input, nodes, true);
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
  notes.push_back(fmt::format("{} slice{} without a replica {} cut, but nothing is deployed on them", count,
                              count == 1 ? "" : "s", count == 1 ? "is" : "are"));
}

// A pod is one server for all models of its slice.
void note_shared_slices(const Collected& all, std::vector<std::string>& notes) {
  const auto shared = [](const Workers& workers) { return workers.slice->replicas.size() > 1; };
  if (std::ranges::none_of(all.workers, shared)) return;
  notes.emplace_back(
      "services share slices: the server of such a pod keeps all models that its annotation tangram/replicas lists, "
      "and runs one batch at a time");
}

void note_models(const ExportInput& input, std::vector<std::string>& notes) {
  if (input.options.models_claim.empty() || !input.options.arguments.empty()) return;
  notes.push_back(fmt::format(
      "the pods read models from the PersistentVolumeClaim {}: put there what `tangram export triton` writes, with the "
      "files of the models",
      input.options.models_claim));
}

// The device plugin counts slices by profile name. On a node with two types of boards, slices of one name are one
// resource.
void note_mixed(const std::vector<ClusterNode>& nodes, std::vector<std::string>& notes) {
  for (const auto& node : nodes) {
    std::set<std::string> types;
    for (const auto& seat : node.seats) types.insert(seat.device->type);
    if (types.size() < 2) continue;
    notes.push_back(fmt::format("{} has {} types of boards: slices of the same name are one resource there", node.name,
                                types.size()));
  }
}

// "---" separates the documents of one YAML stream, so `kubectl apply -f` takes the whole file.
std::string join_documents(const std::vector<std::string>& documents) {
  std::string text;
  for (const auto& document : documents) text += (text.empty() ? "" : "---\n") + document;
  return text;
}

}  // namespace

// For clusters with the device plugin and the MIG manager. The layouts and labels come first, because pods wait for
// them.
Result<Export> kubernetes(const ExportInput& input) {
  if (input.options.gateway) return kubernetes_gateway(input);
  Export result;
  TANGRAM_TRY(const auto nodes, nodes_of(input, result.notes));
  const Collected all = collect(input, nodes);
  std::vector<std::string> documents{layouts_text(input, nodes)};
  for (const auto& node : nodes) documents.push_back(node_text(input, node));
  for (const auto& workers : all.workers) {
    documents.push_back(to_yaml(deployment(input, workers, plugin_pod(input, workers))));
  }
  add_services(input, all, documents);
  note_models(input, result.notes);
  note_free_slices(all.free_slices, result.notes);
  note_shared_slices(all, result.notes);
  note_mixed(nodes, result.notes);
  result.files.push_back({"manifests.yaml", join_documents(documents)});
  return result;
}

// For clusters with dynamic resource allocation. There are no layouts and labels: claims name the profile.
Result<Export> kubernetes_dra(const ExportInput& input) {
  Export result;
  TANGRAM_TRY(const auto nodes, nodes_of(input, result.notes));
  const Collected all = collect(input, nodes);
  if (all.workers.empty())
    return Error{ErrorCode::invalid, "no slice of the plan has a replica, so no ResourceClaimTemplate uses one"};
  std::vector<std::string> documents;
  for (const auto& workers : all.workers) {
    documents.push_back(to_yaml(claim_template(input, workers)));
    documents.push_back(to_yaml(deployment(input, workers, claim_pod(input, workers))));
  }
  add_services(input, all, documents);
  note_models(input, result.notes);
  note_free_slices(all.free_slices, result.notes);
  note_shared_slices(all, result.notes);
  result.files.push_back({"manifests.yaml", join_documents(documents)});
  return result;
}

}  // namespace tangram::formats::exports
