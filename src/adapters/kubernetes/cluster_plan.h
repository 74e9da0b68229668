// What a Plan resource asks of a cluster: which objects there have to be, and what its status says.
//
// Quiet: objects in, objects out. One pod and one claim for each slice, because each claims another device by its UUID.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/plan.h"

namespace tangram::adapters {

using KubeJson = nlohmann::json;

// The text at a JSON pointer, or an empty one.
inline std::string kube_text(const KubeJson& object, const char* where) {
  const KubeJson::json_pointer pointer(where);
  return object.contains(pointer) && object[pointer].is_string() ? object[pointer].get<std::string>() : "";
}
inline std::string kube_name(const KubeJson& object) { return kube_text(object, "/metadata/name"); }

// Annotations and labels that the controller reads and writes.
inline constexpr const char* kPlanLabel = "tangram.dev/plan";
inline constexpr const char* kDigestAnnotation = "tangram.dev/digest";
inline constexpr const char* kUuidAnnotation = "tangram.dev/uuid";
inline constexpr const char* kSpareAnnotation = "tangram.dev/spare";  // Of a Plan: "one_device" or "none".

struct ClusterOptions {
  std::string name_space = "default";
  std::string image = "tangram:latest";
  std::string join;                         // "tangram-gateway:8003"
  std::string models_claim = "tangram-models";  // The PersistentVolumeClaim with the models; empty: none.
  std::string join_secret = "tangram-join";     // The Secret whose key `token` is the join token.
  std::string service_account = "tangram-node";
  int cpus = 1;
  int memory_mb = 4096;
  bool cuts = true;  // Orders cuts; otherwise somebody else makes them.
};

// A slice that the DRA driver offers.
struct OfferedSlice {
  std::string node;
  int gpu = 0;  // Its index on the node.
  std::string profile;
  int start = 0;
  std::string uuid;

  bool operator==(const OfferedSlice&) const = default;
};

// Reads ResourceSlices of NVIDIA's driver. Of each pool only the newest generation counts. Devices that are no MIG
// slices, or lack an attribute, are left out.
std::vector<OfferedSlice> read_resource_slices(const std::vector<KubeJson>& slices);

// Everything observed that decides about a Plan.
struct ClusterView {
  std::vector<OfferedSlice> offered;
  std::map<std::string, std::map<std::string, std::string>> node_labels;
  std::map<std::string, KubeJson> pods;    // By name, those of all Plans.
  std::map<std::string, std::string> cut_orders;  // What the ConfigMap says now, by key.
};

// An object that has to be, in the form of server-side apply.
struct WantedObject {
  std::string kind;  // "Pod", "ResourceClaim", "PodDisruptionBudget", "ConfigMap".
  std::string name;
  KubeJson body;
};

struct PlanWishes {
  std::vector<WantedObject> objects;
  // Pods that have to go before others may come: their slice is another one now, or not in the plan.
  std::set<std::string> leaving_pods;
  KubeJson status;         // Without times of transitions.
  std::string wait_for;    // What keeps the plan from being in force; empty: nothing.
};

// The wishes of all Plans together. A device that two Plans name belongs to the older one, and the other is refused.
// The result is by the Plan's name. `cut_orders` gets the data of the one ConfigMap with the cuts of every node.
std::map<std::string, PlanWishes> wishes_of(const std::vector<KubeJson>& plans, const ClusterView& view,
                                            const ClusterOptions& options,
                                            std::map<std::string, std::string>& cut_orders);

// Why the GPU operator's MIG manager is in charge of the node with these labels, and what to do; empty if it is not.
std::string mig_manager_in_charge(const std::string& node, const std::map<std::string, std::string>& labels);

// How many pods of each service may be away at once: none without spare capacity. With a device to spare, as many as
// the device with the most of them has, where all its slices are of one kind and its own; else one.
std::map<std::string, int> disruptions_allowed(const Plan& plan, bool spare_device);

}  // namespace tangram::adapters
