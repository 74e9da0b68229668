// From a Plan and what the cluster offers to pods, claims, disruption budgets and orders to cut.
#include "adapters/kubernetes/cluster_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "formats/exports/naming.h"
#include "formats/plan_file.h"

namespace tangram::adapters {
namespace {

using formats::exports::ClusterNode;
using formats::exports::dns_label;
using formats::exports::profile_label;

// A status beyond this would not fit into etcd's 1.5 MiB.
constexpr std::size_t kSlicesListedMax = 2000;
// A ConfigMap ends at 1 MiB, with the names of its keys.
constexpr std::size_t kCutOrdersMax = 1'000'000;
constexpr const char* kGpuAttributes = "device.attributes['gpu.nvidia.com']";

// FNV-1a, 64 bits: a change of any byte changes it, on every machine.
std::string digest_of(const KubeJson& value) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : value.dump()) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("{:016x}", hash);
}

// One slice of a plan with its place in the cluster.
struct PlacedSlice {
  const PlannedDevice* device = nullptr;
  const PlannedSlice* planned = nullptr;
  std::string node;
  int gpu = 0;
  std::string name;  // Of its pod and claim.
  std::string uuid;  // Empty: it is not cut.

  const std::string& profile() const { return device->geometry.profiles[planned->slice.profile].name; }
};

struct ReadPlan {
  const KubeJson* object = nullptr;
  std::string name;
  Plan plan;
  std::vector<ClusterNode> nodes;
  std::vector<std::string> notes;
  std::string refusal;  // Why it is not accepted.
  std::string reason;
};

ReadPlan read_plan(const KubeJson& object) {
  ReadPlan read;
  read.object = &object;
  read.name = kube_name(object);
  const auto spec = object.find("spec");
  const std::string text = spec == object.end() ? "{}" : spec->dump();
  auto plan = formats::parse_plan({"spec", text});
  if (!plan) {
    read.reason = "Invalid";
    read.refusal = plan.error().message;
    return read;
  }
  read.plan = std::move(*plan);
  formats::ExportInput input;
  input.plan = &read.plan;
  auto nodes = formats::exports::nodes_of(input, read.notes);
  if (!nodes) {
    read.reason = "Invalid";
    read.refusal = nodes.error().message;
    return read;
  }
  read.nodes = std::move(*nodes);
  return read;
}

std::vector<PlacedSlice> place(const ReadPlan& read, const ClusterView& view) {
  std::vector<PlacedSlice> placed;
  std::set<std::string> taken;
  for (const auto& node : read.nodes) {
    for (const auto& seat : node.seats) {
      for (const auto& planned : seat.device->slices) {
        if (planned.reserved) continue;
        PlacedSlice slice{seat.device, &planned, node.name, seat.index, "", ""};
        const auto& profile = slice.profile();
        slice.name = formats::exports::unique_name(
            dns_label(fmt::format("{}-{}-{}-{}", read.name, seat.device->name, profile_label(profile), planned.slice.start)),
            taken);
        const auto found = std::ranges::find_if(view.offered, [&](const OfferedSlice& offered) {
          return offered.node == node.name && offered.gpu == seat.index && offered.profile == profile &&
                 offered.start == planned.slice.start;
        });
        if (found != view.offered.end()) slice.uuid = found->uuid;
        placed.push_back(std::move(slice));
      }
    }
  }
  return placed;
}

KubeJson labels_of(const ReadPlan& read) {
  return {{"app.kubernetes.io/managed-by", "tangram"}, {"app.kubernetes.io/name", "tangram-slice"}, {kPlanLabel, read.name}};
}

// Kubernetes deletes what belongs to a Plan when the Plan is deleted.
KubeJson owner_of(const ReadPlan& read) {
  return KubeJson::array({{{"apiVersion", "tangram.dev/v1"},
                           {"kind", "Plan"},
                           {"name", read.name},
                           {"uid", kube_text(*read.object, "/metadata/uid")},
                           {"controller", true},
                           {"blockOwnerDeletion", false}}});
}

KubeJson metadata(const ReadPlan& read, const ClusterOptions& options, const std::string& name) {
  return {{"name", name}, {"namespace", options.name_space}, {"labels", labels_of(read)}, {"ownerReferences", owner_of(read)}};
}

// "tangram.dev/serves.rank-answers": a label for each service, by which disruption budgets select.
std::string serves_label(const std::string& service) { return "tangram.dev/serves." + dns_label(service, 50); }

WantedObject claim(const ReadPlan& read, const PlacedSlice& slice, const ClusterOptions& options) {
  const std::string expression = fmt::format("{}.uuid == '{}'", kGpuAttributes, slice.uuid);
  const KubeJson request{{"name", "slice"},
                         {"exactly",
                          {{"deviceClassName", "mig.nvidia.com"},
                           {"selectors", KubeJson::array({{{"cel", {{"expression", expression}}}}})}}}};
  KubeJson body{{"apiVersion", "resource.k8s.io/v1"},
                {"kind", "ResourceClaim"},
                {"metadata", metadata(read, options, slice.name)},
                {"spec", {{"devices", {{"requests", KubeJson::array({request})}}}}}};
  body["metadata"]["annotations"] = {{kUuidAnnotation, slice.uuid}, {kDigestAnnotation, digest_of(body["spec"])}};
  return {"ResourceClaim", slice.name, std::move(body)};
}

KubeJson pod_spec(const PlacedSlice& slice, const ClusterOptions& options) {
  KubeJson arguments = KubeJson::array({"node", "--join", options.join, "--name", slice.name, "--token-file",
                                        "/var/run/tangram/token"});
  KubeJson mounts = KubeJson::array({{{"name", "token"}, {"mountPath", "/var/run/tangram"}, {"readOnly", true}},
                                     {{"name", "scratch"}, {"mountPath", "/tmp"}}});
  // The join token: a Secret that the gateway's operator makes.
  KubeJson volumes = KubeJson::array({{{"name", "token"}, {"secret", {{"secretName", options.join_secret}, {"defaultMode", 0440}}}},
                                      {{"name", "scratch"}, {"emptyDir", KubeJson::object()}}});
  if (!options.models_claim.empty()) {
    for (const char* word : {"--models", "/models"}) arguments.push_back(word);
    mounts.push_back({{"name", "models"}, {"mountPath", "/models"}, {"readOnly", true}});
    volumes.push_back(
        {{"name", "models"}, {"persistentVolumeClaim", {{"claimName", options.models_claim}, {"readOnly", true}}}});
  }
  const KubeJson amounts{{"cpu", fmt::format("{}", options.cpus)}, {"memory", fmt::format("{}Mi", options.memory_mb)}};
  const KubeJson container{
      {"name", "node"},
      {"image", options.image},
      {"args", arguments},
      {"resources", {{"claims", KubeJson::array({{{"name", "slice"}}})}, {"requests", amounts}, {"limits", {{"memory", amounts["memory"]}}}}},
      {"securityContext",
       {{"allowPrivilegeEscalation", false}, {"readOnlyRootFilesystem", true}, {"capabilities", {{"drop", KubeJson::array({"ALL"})}}}}},
      {"volumeMounts", mounts}};
  return {{"serviceAccountName", options.service_account},
          {"automountServiceAccountToken", false},
          {"terminationGracePeriodSeconds", 30},
          {"restartPolicy", "Always"},
          {"securityContext",
           {{"runAsNonRoot", true}, {"runAsUser", 65532}, {"fsGroup", 65532}, {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
          {"tolerations", KubeJson::array({{{"key", "nvidia.com/gpu"}, {"operator", "Exists"}, {"effect", "NoSchedule"}}})},
          {"resourceClaims", KubeJson::array({{{"name", "slice"}, {"resourceClaimName", slice.name}}})},
          {"containers", KubeJson::array({container})},
          {"volumes", volumes}};
}

WantedObject pod(const ReadPlan& read, const PlacedSlice& slice, const ClusterOptions& options) {
  KubeJson body{{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", metadata(read, options, slice.name)},
                {"spec", pod_spec(slice, options)}};
  for (const auto& replica : slice.planned->replicas) body["metadata"]["labels"][serves_label(replica.service)] = "true";
  // What the slice serves is not part of the digest: the gateway tells the node, and the pod stays.
  body["metadata"]["annotations"] = {{kUuidAnnotation, slice.uuid},
                                     {kDigestAnnotation, digest_of({slice.uuid, body["spec"]})}};
  return {"Pod", slice.name, std::move(body)};
}

// Of pods that no Deployment owns, Kubernetes counts those that must stay: maxUnavailable is refused for them.
WantedObject disruption_budget(const ReadPlan& read, const std::string& service, int staying,
                               const ClusterOptions& options) {
  const std::string name = dns_label(read.name + "-" + service);
  KubeJson body{{"apiVersion", "policy/v1"},
                {"kind", "PodDisruptionBudget"},
                {"metadata", metadata(read, options, name)},
                {"spec",
                 {{"minAvailable", staying},
                  {"selector", {{"matchLabels", {{kPlanLabel, read.name}, {serves_label(service), "true"}}}}}}}};
  return {"PodDisruptionBudget", name, std::move(body)};
}

// The cuts of one node as a plan without replicas, for `tangram apply` there.
std::string cut_order(const ClusterNode& node) {
  Plan cuts;
  for (const auto& seat : node.seats) {
    PlannedDevice device = *seat.device;
    device.name = fmt::format("gpu-{}", seat.index);
    for (auto& slice : device.slices) slice.replicas.clear();
    cuts.devices.push_back(std::move(device));
  }
  return formats::write_plan(cuts);
}

// The GPUs of the node have exactly the plan's slices, and those that others use.
bool is_cut(const ClusterNode& node, const ClusterView& view) {
  for (const auto& seat : node.seats) {
    std::set<std::pair<std::string, int>> wanted;
    for (const auto& slice : seat.device->slices) {
      wanted.emplace(seat.device->geometry.profiles[slice.slice.profile].name, slice.slice.start);
    }
    std::set<std::pair<std::string, int>> there;
    for (const auto& offered : view.offered) {
      if (offered.node == node.name && offered.gpu == seat.index) there.emplace(offered.profile, offered.start);
    }
    if (wanted != there) return false;
  }
  return true;
}

KubeJson condition(const char* type, bool holds, const std::string& reason, const std::string& message,
                   const KubeJson& plan) {
  KubeJson made{{"type", type}, {"status", holds ? "True" : "False"}, {"reason", reason}, {"message", message.substr(0, 2000)}};
  const auto generation = plan.find("metadata") != plan.end() ? plan["metadata"].value("generation", 0) : 0;
  made["observedGeneration"] = generation;
  return made;
}

bool pod_runs(const ClusterView& view, const std::string& name) {
  const auto found = view.pods.find(name);
  if (found == view.pods.end() || found->second.contains(KubeJson::json_pointer("/metadata/deletionTimestamp"))) return false;
  return kube_text(found->second, "/status/phase") == "Running";
}

// The wishes of an accepted plan.
PlanWishes accepted(const ReadPlan& read, const ClusterView& view, const ClusterOptions& options,
                    std::map<std::string, std::string>& cut_orders) {
  PlanWishes wishes;
  const auto placed = place(read, view);
  std::set<std::string> wanted_pods;
  std::size_t running = 0;
  std::size_t cut = 0;
  KubeJson listed = KubeJson::array();
  for (const auto& slice : placed) {
    const bool runs = pod_runs(view, slice.name);
    running += runs ? 1 : 0;
    if (!slice.uuid.empty()) {
      ++cut;
      wanted_pods.insert(slice.name);
      wishes.objects.push_back(claim(read, slice, options));
      wishes.objects.push_back(pod(read, slice, options));
    }
    if (listed.size() >= kSlicesListedMax) continue;
    listed.push_back({{"device", slice.device->name},
                      {"slice", fmt::format("{}@{}", slice.profile(), slice.planned->slice.start)},
                      {"node", slice.node},
                      {"state", slice.uuid.empty() ? "uncut" : runs ? "running" : "starting"}});
    if (!slice.uuid.empty()) listed.back()["uuid"] = slice.uuid;
    if (!slice.uuid.empty()) listed.back()["pod"] = slice.name;
  }
  for (const auto& [name, object] : view.pods) {
    const bool ours = kube_text(object, "/metadata/labels/tangram.dev~1plan") == read.name;
    if (ours && !wanted_pods.contains(name)) wishes.leaving_pods.insert(name);
  }
  const auto annotation = kube_text(*read.object, "/metadata/annotations/tangram.dev~1spare");
  for (const auto& entry : disruptions_allowed(read.plan, annotation == "one_device")) {
    const std::string& service = entry.first;
    const int allowed = entry.second;
    const auto serves = [&](const PlacedSlice& slice) {
      return std::ranges::find(slice.planned->replicas, service, &Replica::service) != slice.planned->replicas.end();
    };
    const auto pods = static_cast<int>(std::ranges::count_if(placed, serves));
    wishes.objects.push_back(disruption_budget(read, service, std::max(0, pods - allowed), options));
  }
  std::vector<std::string> in_charge;
  std::vector<std::string> uncut;
  for (const auto& node : read.nodes) {
    const std::string key = node.name + ".json";
    const auto before = view.cut_orders.find(key);
    if (is_cut(node, view)) {
      if (options.cuts && before != view.cut_orders.end()) cut_orders[key] = before->second;
      continue;
    }
    const auto labels = view.node_labels.find(node.name);
    if (labels == view.node_labels.end()) {
      uncut.push_back(fmt::format("there is no node {}", node.name));
      continue;
    }
    const auto charge = mig_manager_in_charge(node.name, labels->second);
    if (!charge.empty()) {
      in_charge.push_back(charge);
      continue;
    }
    if (!options.cuts) {
      uncut.push_back(fmt::format("{} is not cut as the plan says, and the controller was told not to cut", node.name));
      continue;
    }
    // A cut in use cannot be destroyed: the pods leave first.
    const bool busy = std::ranges::any_of(wishes.leaving_pods, [&](const std::string& name) {
      return kube_text(view.pods.at(name), "/spec/nodeName") == node.name;
    });
    if (busy && before != view.cut_orders.end()) cut_orders[key] = before->second;
    if (!busy) cut_orders[key] = cut_order(node);
    uncut.push_back(busy ? fmt::format("{} is cut when the pods of its old slices have left", node.name)
                         : fmt::format("{} is being cut; the DRA driver has not published the slices", node.name));
  }
  const KubeJson& plan = *read.object;
  KubeJson conditions = KubeJson::array({condition("Accepted", true, "Valid", text::join(read.notes, "; "), plan)});
  if (!in_charge.empty()) {
    conditions.push_back(condition("Cut", false, "MigManagerInCharge", text::join(in_charge, "; "), plan));
  } else if (!uncut.empty()) {
    conditions.push_back(condition("Cut", false, "Waiting", text::join(uncut, "; "), plan));
  } else {
    conditions.push_back(condition("Cut", true, "AsPlanned", "", plan));
  }
  const bool ready = running == placed.size();
  conditions.push_back(condition("Ready", ready, ready ? "AllRun" : "Waiting",
                                 fmt::format("{} of {} slices are cut, {} run", cut, placed.size(), running), plan));
  wishes.wait_for = !in_charge.empty() ? in_charge.front() : !uncut.empty() ? uncut.front() : "";
  wishes.status = {{"slices", listed},
                   {"ready", fmt::format("{}/{}", running, placed.size())},
                   {"observedGeneration", plan["metadata"].value("generation", 0)},
                   {"conditions", conditions}};
  return wishes;
}

PlanWishes refused(const ReadPlan& read) {
  PlanWishes wishes;
  wishes.wait_for = read.refusal;
  const KubeJson& plan = *read.object;
  wishes.status = {{"slices", KubeJson::array()},
                   {"ready", "0/0"},
                   {"observedGeneration", plan["metadata"].value("generation", 0)},
                   {"conditions", KubeJson::array({condition("Accepted", false, read.reason, read.refusal, plan),
                                                   condition("Ready", false, "NotAccepted", "", plan)})}};
  return wishes;
}

std::optional<std::int64_t> whole(const KubeJson& attribute) {
  if (attribute.contains("int") && attribute["int"].is_number_integer()) return attribute["int"].get<std::int64_t>();
  return std::nullopt;
}

// "gpu-0-mig-1g10gb-19-3" is a slice of GPU 0.
std::optional<std::int64_t> gpu_in_name(std::string_view name) {
  if (!name.starts_with("gpu-")) return std::nullopt;
  name.remove_prefix(4);
  return text::parse_integer(name.substr(0, name.find('-')));
}

std::optional<OfferedSlice> read_device(const KubeJson& device, const std::string& node) {
  if (!device.is_object()) return std::nullopt;
  // Before v1 the attributes were one level deeper.
  const KubeJson& basic = device.contains("basic") ? device["basic"] : device;
  const auto attributes = basic.find("attributes");
  const auto capacity = basic.find("capacity");
  if (attributes == basic.end() || capacity == basic.end() || !attributes->is_object() || !capacity->is_object()) return std::nullopt;
  const auto word = [&](const char* name) {
    const auto found = attributes->find(name);
    return found == attributes->end() ? std::string() : found->value("string", "");
  };
  if (word("type") != "mig") return std::nullopt;
  OfferedSlice slice{node, 0, word("profile"), -1, word("uuid")};
  const auto index = attributes->find("parentIndex");
  const auto gpu = index != attributes->end() ? whole(*index) : gpu_in_name(device.value("name", ""));
  for (const auto& [name, value] : capacity->items()) {
    if (!name.starts_with("memorySlice")) continue;
    const auto unit = text::parse_integer(std::string_view(name).substr(11));
    if (unit && *unit >= 0 && *unit < 1000 && (slice.start < 0 || *unit < slice.start)) slice.start = static_cast<int>(*unit);
  }
  if (!gpu || *gpu < 0 || *gpu > 1000 || slice.profile.empty() || slice.uuid.empty() || slice.start < 0) return std::nullopt;
  // A UUID becomes part of an expression; nothing but a UUID may.
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-'; };
  if (!std::ranges::all_of(slice.uuid, letter)) return std::nullopt;
  slice.gpu = static_cast<int>(*gpu);
  return slice;
}

}  // namespace

std::vector<OfferedSlice> read_resource_slices(const std::vector<KubeJson>& slices) {
  std::map<std::string, std::int64_t> newest;
  const auto pool_of = [](const KubeJson& slice) {
    return kube_text(slice, "/spec/driver") + "/" + kube_text(slice, "/spec/pool/name");
  };
  const auto generation_of = [](const KubeJson& slice) {
    const KubeJson::json_pointer where("/spec/pool/generation");
    return slice.contains(where) && slice[where].is_number_integer() ? slice[where].get<std::int64_t>() : std::int64_t{0};
  };
  for (const auto& slice : slices) newest[pool_of(slice)] = std::max(newest[pool_of(slice)], generation_of(slice));
  std::vector<OfferedSlice> offered;
  const KubeJson::json_pointer devices("/spec/devices");
  for (const auto& slice : slices) {
    if (kube_text(slice, "/spec/driver") != "gpu.nvidia.com") continue;
    if (generation_of(slice) != newest[pool_of(slice)] || !slice.contains(devices) || !slice[devices].is_array()) continue;
    const std::string node = kube_text(slice, "/spec/nodeName");
    for (const auto& device : slice[devices]) {
      if (auto read = read_device(device, node)) offered.push_back(std::move(*read));
    }
  }
  return offered;
}

std::string mig_manager_in_charge(const std::string& node, const std::map<std::string, std::string>& labels) {
  const auto config = labels.find("nvidia.com/mig.config");
  const auto manager = labels.find("nvidia.com/gpu.deploy.mig-manager");
  const bool by_label = config != labels.end() && !config->second.empty();
  if (!by_label && (manager == labels.end() || manager->second != "true")) return "";
  return fmt::format(
      "{}: the GPU operator's MIG manager is in charge ({}), and two that cut destroy each other's slices. Either "
      "take it away (helm: migManager.enabled=false; kubectl label node {} nvidia.com/mig.config- "
      "nvidia.com/gpu.deploy.mig-manager=false --overwrite), or have it cut: tangram export kubernetes",
      node, by_label ? "nvidia.com/mig.config=" + config->second : "nvidia.com/gpu.deploy.mig-manager=true", node);
}

std::map<std::string, int> disruptions_allowed(const Plan& plan, bool spare_device) {
  struct Use {
    std::set<std::pair<std::string, std::size_t>> kinds;
    bool shared = false;
    std::map<std::string, int> by_device;
  };
  std::map<std::string, Use> uses;
  for (const auto& device : plan.devices) {
    if (device.geometry.units_per_core > 0) continue;
    for (const auto& slice : device.slices) {
      for (const auto& replica : slice.replicas) {
        Use& use = uses[replica.service];
        use.kinds.emplace(device.type, slice.slice.profile);
        use.shared |= slice.replicas.size() > 1;
        ++use.by_device[device.name];
      }
    }
  }
  std::map<std::string, int> allowed;
  for (const auto& [service, use] : uses) {
    int most = 0;
    for (const auto& [device, count] : use.by_device) most = std::max(most, count);
    allowed[service] = !spare_device ? 0 : use.kinds.size() == 1 && !use.shared ? most : 1;
  }
  return allowed;
}

std::map<std::string, PlanWishes> wishes_of(const std::vector<KubeJson>& plans, const ClusterView& view,
                                            const ClusterOptions& options,
                                            std::map<std::string, std::string>& cut_orders) {
  std::vector<ReadPlan> read;
  for (const auto& plan : plans) read.push_back(read_plan(plan));
  std::ranges::stable_sort(read, {}, [](const ReadPlan& plan) {
    return std::pair(kube_text(*plan.object, "/metadata/creationTimestamp"), plan.name);
  });
  std::map<std::pair<std::string, int>, std::string> owners;
  std::map<std::string, PlanWishes> wishes;
  for (auto& plan : read) {
    for (const auto& node : plan.nodes) {
      for (const auto& seat : node.seats) {
        const auto [owner, fresh] = owners.emplace(std::pair(node.name, seat.index), plan.name);
        if (fresh || owner->second == plan.name || !plan.refusal.empty()) continue;
        plan.reason = "Conflict";
        plan.refusal = fmt::format("GPU {} of {} belongs to the older plan {}", seat.index, node.name, owner->second);
      }
    }
    if (!plan.refusal.empty()) {
      // It owns nothing.
      std::erase_if(owners, [&](const auto& entry) { return entry.second == plan.name; });
      wishes[plan.name] = refused(plan);
    } else {
      wishes[plan.name] = accepted(plan, view, options, cut_orders);
    }
  }
  std::size_t bytes = 0;
  for (const auto& [key, text] : cut_orders) bytes += key.size() + text.size();
  // Better no order than half of one: the cuts stay as they are.
  if (bytes > kCutOrdersMax) cut_orders = view.cut_orders;
  return wishes;
}

}  // namespace tangram::adapters
