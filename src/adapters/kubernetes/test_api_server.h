// A stand-in for Kubernetes' API server, for tests: objects, versions, watches, 409, 410, server-side apply, deletion
// with a grace, owners, and what kubelet, DRA driver and `tangram apply` would do. No clock, no socket.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/kubernetes/kube_api.h"
#include "base/text.h"

namespace tangram::adapters::test {

using Json = nlohmann::json;

// A path with its query taken apart.
struct KubePath {
  std::string collection;  // "/api/v1/namespaces/default/pods"
  std::string name;        // Empty: the collection.
  std::string below;       // "status"
  std::map<std::string, std::string> query;
};

inline std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

inline KubePath parse_kube_path(std::string_view path) {
  KubePath parsed;
  const auto mark = path.find('?');
  if (mark != std::string_view::npos) {
    for (const auto pair : text::split(path.substr(mark + 1), '&')) {
      const auto equals = pair.find('=');
      if (equals != std::string_view::npos) parsed.query[std::string(pair.substr(0, equals))] = unescaped(pair.substr(equals + 1));
    }
    path = path.substr(0, mark);
  }
  const auto parts = text::split(path, '/');
  // "", "api", "v1", ... or "", "apis", GROUP, VERSION, ...
  std::size_t at = parts.size() > 1 && parts[1] == "api" ? 3 : 4;
  if (parts.size() > at + 1 && parts[at] == "namespaces") at += 2;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (i <= at) {
      parsed.collection += "/" + std::string(parts[i]);
    } else if (i == at + 1) {
      parsed.name = parts[i];
    } else {
      parsed.below = parts[i];
    }
  }
  return parsed;
}

class TestApiServer {
 public:
  struct Event {
    std::uint64_t version;
    std::string collection;
    std::string type;
    Json object;
    Json before;  // For selectors: an object that stops matching is deleted for the watcher.
  };

  KubeAnswer handle(const KubeQuestion& question) {
    const KubePath path = parse_kube_path(question.path);
    if (!known(path.collection)) return error(404, "NotFound", "the server could not find the requested resource");
    if (path.name.empty()) {
      if (question.method == "GET") return list(path);
      if (question.method == "POST") return create(path, question.body);
      return error(405, "MethodNotAllowed", "");
    }
    auto& objects = objects_[path.collection];
    const auto there = objects.find(path.name);
    if (question.method == "PATCH") return apply(path, question);
    if (there == objects.end()) return error(404, "NotFound", path.name + " not found");
    if (question.method == "GET") return answer(200, there->second);
    if (question.method == "PUT") return update(path, there->second, question.body);
    if (question.method == "DELETE") return remove(path, there->second, question.body);
    return error(405, "MethodNotAllowed", "");
  }

  // The events behind `version`, or nothing where the history no longer goes back so far.
  bool events_after(std::uint64_t version, const std::string& collection, const std::string& selector,
                    std::vector<std::string>& lines, std::uint64_t& seen) const {
    if (version < forgotten_) return false;
    // Versions ascend.
    const auto first = std::ranges::upper_bound(history_, version, {}, &Event::version);
    for (const auto& event : std::ranges::subrange(first, history_.end())) {
      seen = event.version;
      if (event.collection != collection) continue;
      const bool now = selected(event.object, selector);
      const bool before = !event.before.is_null() && selected(event.before, selector);
      if (!now && !before) continue;
      const std::string type = event.type == "DELETED" || !now ? "DELETED" : before ? "MODIFIED" : "ADDED";
      lines.push_back(Json{{"type", type}, {"object", event.object}}.dump());
    }
    return true;
  }

  // As etcd's compaction does every five minutes.
  void forget_history() {
    forgotten_ = version_;
    history_.clear();
  }
  std::uint64_t version() const { return version_; }
  std::map<std::string, Json>& of(const std::string& collection) { return objects_[collection]; }
  bool known(const std::string& collection) const {
    return std::ranges::any_of(kKinds, [&](const char* kind) { return collection.ends_with(std::string("/") + kind); }) &&
           !without_.contains(collection);
  }
  // From now on the cluster lacks this kind.
  void lose_kind(const std::string& collection) { without_.insert(collection); }

  // As a user does: replaces or creates.
  void put(const std::string& collection, const std::string& name, Json object) {
    auto& objects = objects_[collection];
    const auto there = objects.find(name);
    const Json before = there == objects.end() ? Json() : there->second;
    object["metadata"]["name"] = name;
    if (!before.is_null()) {
      object["metadata"]["uid"] = before["metadata"]["uid"];
      object["metadata"]["creationTimestamp"] = before["metadata"]["creationTimestamp"];
      if (before.contains("status") && !object.contains("status")) object["status"] = before["status"];
    } else {
      object["metadata"]["uid"] = fmt::format("uid-{}", ++uids_);
      object["metadata"]["creationTimestamp"] = fmt::format("2026-01-01T{:02}:{:02}:{:02}Z", uids_ / 3600 % 24, uids_ / 60 % 60, uids_ % 60);
    }
    const bool other_spec = before.is_null() || before.value("spec", Json()) != object.value("spec", Json());
    const int generation = before.is_null() ? 0 : before["metadata"].value("generation", 0);
    object["metadata"]["generation"] = generation + (other_spec ? 1 : 0);
    commit(collection, name, before.is_null() ? "ADDED" : "MODIFIED", std::move(object), before);
  }
  // Without a grace.
  void erase(const std::string& collection, const std::string name) {  // A copy: it may be the key that goes.
    auto& objects = objects_[collection];
    const auto there = objects.find(name);
    if (there == objects.end()) return;
    Json object = there->second;
    objects.erase(there);
    applied_.erase(collection + "/" + name);
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    history_.push_back({version_, collection, "DELETED", object, object});
    collect_garbage(object["metadata"]["uid"].get<std::string>());
  }

 private:
  static constexpr const char* kKinds[] = {"plans", "pods", "resourceclaims", "configmaps", "poddisruptionbudgets",
                                           "resourceslices", "nodes", "leases"};

  static KubeAnswer answer(int status, const Json& body) { return {status, body.dump(), std::nullopt}; }
  static KubeAnswer error(int status, const char* reason, const std::string& message) {
    return answer(status, {{"kind", "Status"}, {"status", "Failure"}, {"code", status}, {"reason", reason}, {"message", message}});
  }
  // "a=b" only.
  static bool selected(const Json& object, const std::string& selector) {
    if (selector.empty()) return true;
    const auto equals = selector.find('=');
    const Json labels = object["metadata"].value("labels", Json::object());
    return labels.value(selector.substr(0, equals), "") == selector.substr(equals + 1);
  }

  void commit(const std::string& collection, const std::string& name, const char* type, Json object, const Json& before) {
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    objects_[collection][name] = object;
    history_.push_back({version_, collection, type, std::move(object), before});
  }

  KubeAnswer list(const KubePath& path) {
    const auto query = [&](const char* name) {
      const auto found = path.query.find(name);
      return found == path.query.end() ? std::string() : found->second;
    };
    const auto limit = static_cast<std::size_t>(text::parse_integer(query("limit")).value_or(1'000'000));
    // The token: the version of the first page, and the name behind which to go on.
    const std::string token = query("continue");
    const auto colon = token.find(':');
    if (!token.empty() && text::parse_integer(token.substr(0, colon)).value_or(0) < static_cast<std::int64_t>(forgotten_)) {
      return error(410, "Expired", "the provided continue parameter is too old");
    }
    const std::string version = token.empty() ? std::to_string(version_) : token.substr(0, colon);
    Json items = Json::array();
    std::string next;
    for (const auto& [name, object] : objects_[path.collection]) {
      if (!token.empty() && name <= token.substr(colon + 1)) continue;
      if (!selected(object, query("labelSelector"))) continue;
      if (items.size() == limit) {
        next = version + ":" + items.back()["metadata"]["name"].get<std::string>();
        break;
      }
      items.push_back(object);
    }
    Json metadata{{"resourceVersion", version}};
    if (!next.empty()) metadata["continue"] = next;
    return answer(200, {{"kind", "List"}, {"metadata", metadata}, {"items", items}});
  }

  KubeAnswer create(const KubePath& path, const std::string& body) {
    Json object = Json::parse(body, nullptr, false);
    if (object.is_discarded()) return error(400, "BadRequest", "not JSON");
    const std::string name = object["metadata"].value("name", "");
    if (name.empty()) return error(422, "Invalid", "metadata.name: Required value");
    if (objects_[path.collection].contains(name)) return error(409, "AlreadyExists", name + " already exists");
    put(path.collection, name, std::move(object));
    return answer(201, objects_[path.collection][name]);
  }

  KubeAnswer update(const KubePath& path, const Json& there, const std::string& body) {
    Json object = Json::parse(body, nullptr, false);
    if (object.is_discarded()) return error(400, "BadRequest", "not JSON");
    const std::string version = object["metadata"].value("resourceVersion", "");
    if (!version.empty() && version != there["metadata"].value("resourceVersion", "")) {
      return error(409, "Conflict", "the object has been modified");
    }
    put(path.collection, path.name, std::move(object));
    return answer(200, objects_[path.collection][path.name]);
  }

  static void merge(Json& into, const Json& from) {
    for (const auto& [key, value] : from.items()) {
      if (value.is_object() && into.contains(key) && into[key].is_object()) {
        merge(into[key], value);
      } else {
        into[key] = value;
      }
    }
  }
  // What this manager applied before and applies no more.
  static void drop_missing(Json& into, const Json& before, const Json& now) {
    for (const auto& [key, value] : before.items()) {
      if (!into.contains(key)) continue;
      if (!now.contains(key)) {
        into.erase(key);
      } else if (value.is_object() && now[key].is_object() && into[key].is_object()) {
        drop_missing(into[key], value, now[key]);
      }
    }
  }

  KubeAnswer apply(const KubePath& path, const KubeQuestion& question) {
    if (question.content_type != "application/apply-patch+yaml") return error(415, "UnsupportedMediaType", "");
    if (!path.query.contains("fieldManager")) return error(422, "Invalid", "fieldManager is required");
    Json wanted = Json::parse(question.body, nullptr, false);
    if (wanted.is_discarded() || wanted["metadata"].value("name", "") != path.name) return error(400, "BadRequest", "name");
    for (const char* field : {"apiVersion", "kind"}) {
      if (!wanted.contains(field)) return error(400, "BadRequest", std::string(field) + " must be set");
    }
    auto& objects = objects_[path.collection];
    const auto there = objects.find(path.name);
    if (path.below == "status") {
      if (there == objects.end()) return error(404, "NotFound", path.name + " not found");
      Json object = there->second;
      const Json before = object;
      object["status"] = wanted.value("status", Json::object());
      if (object != before) commit(path.collection, path.name, "MODIFIED", object, before);
      return answer(200, objects[path.name]);
    }
    const std::string key = path.collection + "/" + path.name;
    if (there == objects.end()) {
      put(path.collection, path.name, wanted);
      applied_[key] = wanted;
      return answer(201, objects[path.name]);
    }
    Json object = there->second;
    const Json before = object;
    if (applied_.contains(key)) drop_missing(object, applied_[key], wanted);
    wanted.erase("status");
    merge(object, wanted);
    applied_[key] = wanted;
    const bool fixed = path.collection.ends_with("/pods") || path.collection.ends_with("/resourceclaims");
    if (fixed && object["spec"] != before["spec"]) return error(422, "Invalid", "spec: Forbidden: is immutable");
    // The second of two equal applies changes nothing, not even the version.
    if (object != before) put(path.collection, path.name, object);
    return answer(200, objects[path.name]);
  }

  KubeAnswer remove(const KubePath& path, const Json& there, const std::string& body) {
    const Json options = Json::parse(body, nullptr, false);
    const Json::json_pointer uid("/preconditions/uid");
    if (options.is_object() && options.contains(uid) && options[uid] != there["metadata"]["uid"]) {
      return error(409, "Conflict", "the UID in the precondition does not match");
    }
    if (path.collection.ends_with("/pods")) {
      Json object = there;
      const Json before = object;
      object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
      if (object != before) commit(path.collection, path.name, "MODIFIED", object, before);
      return answer(200, object);
    }
    erase(path.collection, path.name);
    return answer(200, {{"kind", "Status"}, {"status", "Success"}});
  }

  void collect_garbage(const std::string& owner) {
    std::vector<std::pair<std::string, std::string>> owned;
    for (const auto& [collection, objects] : objects_) {
      for (const auto& [name, object] : objects) {
        for (const auto& reference : object["metadata"].value("ownerReferences", Json::array())) {
          if (reference.value("uid", "") == owner) owned.emplace_back(collection, name);
        }
      }
    }
    for (const auto& [collection, name] : owned) erase(collection, name);
  }

  std::map<std::string, std::map<std::string, Json>> objects_;
  std::map<std::string, Json> applied_;  // By collection and name: what the manager applied last.
  std::set<std::string> without_;
  std::vector<Event> history_;
  std::uint64_t version_ = 100;
  std::uint64_t forgotten_ = 0;
  int uids_ = 0;
};

// The collections that the controller uses, in the namespace "default".
inline const std::string kPlans = "/apis/tangram.dev/v1/namespaces/default/plans";
inline const std::string kPods = "/api/v1/namespaces/default/pods";
inline const std::string kClaims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
inline const std::string kConfigMaps = "/api/v1/namespaces/default/configmaps";
inline const std::string kBudgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
inline const std::string kResourceSlices = "/apis/resource.k8s.io/v1/resourceslices";
inline const std::string kNodes = "/api/v1/nodes";
inline const std::string kLeases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

// What the rest of a cluster does: kubelets start pods whose claims name a device that is there and end those that are
// deleted; `tangram apply` cuts as ordered, where no pod uses what goes; and the DRA driver publishes the slices.
class TestCluster {
 public:
  explicit TestCluster(TestApiServer& api) : api_(api) {}

  void add_node(const std::string& name, Json labels = Json::object()) {
    api_.put(kNodes, name, {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"labels", std::move(labels)}}}});
  }

  // One round of everybody.
  void tick() {
    cut();
    run_pods();
  }

  // By node and GPU: profile and start of each slice, with its UUID.
  using Cuts = std::map<std::pair<std::string, int>, std::map<std::pair<std::string, int>, std::string>>;
  Cuts& cuts() { return cuts_; }
  // Writes the ResourceSlices of all nodes anew where they differ.
  void publish() {
    std::map<std::string, Json> devices;
    for (const auto& [name, object] : api_.of(kNodes)) devices[name] = Json::array();
    for (const auto& [gpu, slices] : cuts_) {
      for (const auto& [slice, uuid] : slices) {
        Json capacity{{"memory", {{"value", "9984Mi"}}}};
        const int units = slice.first.starts_with("7g") ? 8 : slice.first.starts_with("4g") || slice.first.starts_with("3g") ? 4 : slice.first.starts_with("2g") ? 2 : 1;
        for (int i = 0; i < units; ++i) capacity[fmt::format("memorySlice{}", slice.second + i)] = {{"value", "1"}};
        devices[gpu.first].push_back({{"name", fmt::format("gpu-{}-mig-{}-{}", gpu.second, slice.first.substr(0, 2), slice.second)},
                                      {"attributes", {{"type", {{"string", "mig"}}}, {"uuid", {{"string", uuid}}}, {"profile", {{"string", slice.first}}}}},
                                      {"capacity", capacity}});
      }
    }
    for (const auto& [node, list] : devices) {
      const std::string name = node + "-gpu";
      const auto there = api_.of(kResourceSlices).find(name);
      if (there != api_.of(kResourceSlices).end() && there->second["spec"]["devices"] == list) continue;
      api_.put(kResourceSlices, name,
               {{"apiVersion", "resource.k8s.io/v1"}, {"kind", "ResourceSlice"},
                {"metadata", Json::object()},
                {"spec", {{"driver", "gpu.nvidia.com"}, {"nodeName", node}, {"pool", {{"name", node}, {"generation", ++generation_}}}, {"devices", list}}}});
    }
  }

 private:
  std::string uuid_of_claim(const std::string& name) {
    const auto& claims = api_.of(kClaims);
    const auto claim = claims.find(name);
    if (claim == claims.end()) return "";
    const auto expression = claim->second["spec"]["devices"]["requests"][0]["exactly"]["selectors"][0]["cel"]["expression"].get<std::string>();
    const auto begin = expression.find('\'', expression.find("uuid")) + 1;
    return expression.substr(begin, expression.find('\'', begin) - begin);
  }

  void run_pods() {
    std::map<std::string, std::pair<std::string, int>> there;
    for (const auto& [gpu, slices] : cuts_) {
      for (const auto& [slice, uuid] : slices) there[uuid] = gpu;
    }
    std::set<std::string> used;
    for (const auto& [name, pod] : api_.of(kPods)) {
      if (pod.contains("status")) used.insert(pod["status"].value("uuid", ""));
    }
    std::vector<std::string> gone;
    std::vector<std::pair<std::string, Json>> changed;
    for (const auto& [name, pod] : api_.of(kPods)) {
      if (pod["metadata"].contains("deletionTimestamp")) {
        gone.push_back(name);
        continue;
      }
      if (pod.contains("status")) continue;
      const std::string uuid = uuid_of_claim(pod["spec"]["resourceClaims"][0]["resourceClaimName"]);
      if (!there.contains(uuid) || !used.insert(uuid).second) continue;
      Json running = pod;
      running["spec"]["nodeName"] = there[uuid].first;
      // The scheduler binds a pod, and defaults are filled in.
      running["spec"]["schedulerName"] = "default-scheduler";
      running["status"] = {{"phase", "Running"}, {"uuid", uuid}};
      changed.emplace_back(name, running);
    }
    for (const auto& name : gone) api_.erase(kPods, name);
    for (auto& [name, pod] : changed) api_.put(kPods, name, std::move(pod));
  }

  void cut() {
    const auto& maps = api_.of(kConfigMaps);
    const auto orders = maps.find("tangram-cuts");
    if (orders == maps.end() || !orders->second.contains("data")) return;
    std::set<std::string> used;
    for (const auto& [name, pod] : api_.of(kPods)) {
      if (pod.contains("status")) used.insert(pod["status"].value("uuid", ""));
    }
    for (const auto& [key, text] : orders->second["data"].items()) {
      const std::string node = key.substr(0, key.size() - 5);
      const Json order = Json::parse(text.get<std::string>(), nullptr, false);
      if (!order.is_object() || !api_.of(kNodes).contains(node)) continue;
      for (const auto& device : order["devices"]) {
        auto& slices = cuts_[{node, std::stoi(device["name"].get<std::string>().substr(4))}];
        std::set<std::pair<std::string, int>> wanted;
        for (const auto& slice : device["slices"]) wanted.emplace(slice["profile"].get<std::string>(), slice["start"].get<int>());
        const bool busy = std::ranges::any_of(slices, [&](const auto& entry) { return !wanted.contains(entry.first) && used.contains(entry.second); });
        if (busy) continue;
        std::erase_if(slices, [&](const auto& entry) { return !wanted.contains(entry.first); });
        for (const auto& slice : wanted) {
          if (!slices.contains(slice)) slices[slice] = fmt::format("MIG-{:08x}", ++uuids_);
        }
      }
    }
    publish();
  }

  TestApiServer& api_;
  Cuts cuts_;
  int uuids_ = 0;
  int generation_ = 0;
};

}  // namespace tangram::adapters::test
