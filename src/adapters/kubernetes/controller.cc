// Lists, watches, compares and writes.
#include "adapters/kubernetes/controller.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace tangram::adapters {
namespace {

using Pointer = KubeJson::json_pointer;

constexpr const char* kManaged = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dtangram";
constexpr const char* kCutsName = "tangram-cuts";
// A list that grows beyond this is an attack or a mistake: the controller waits instead of filling its memory.
constexpr std::size_t kObjectsMax = 200'000;
// A watch that ends sooner has failed.
constexpr Duration kShortWatch = std::chrono::seconds(10);
constexpr Duration kQuietAgain = std::chrono::seconds(60);
// Calls that are kept for the Lease, without which nothing may be written.
constexpr int kKeptForLease = 4;

std::string annotation_of(const KubeJson& object, const char* name) {
  const Pointer annotations("/metadata/annotations");
  if (!object.contains(annotations) || !object[annotations].is_object()) return "";
  const auto found = object[annotations].find(name);
  return found != object[annotations].end() && found->is_string() ? found->get<std::string>() : "";
}
bool is_going(const KubeJson& object) { return object.contains(Pointer("/metadata/deletionTimestamp")); }

// Everything that `wanted` says, `there` says as well. The server adds defaults, which do not count.
bool says(const KubeJson& there, const KubeJson& wanted) {
  if (wanted.is_object()) {
    if (!there.is_object()) return false;
    return std::ranges::all_of(wanted.items(), [&](const auto& entry) {
      const auto found = there.find(entry.key());
      return found != there.end() && says(*found, entry.value());
    });
  }
  if (wanted.is_array()) {
    if (!there.is_array() || there.size() != wanted.size()) return false;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!says(there[i], wanted[i])) return false;
    }
    return true;
  }
  return there == wanted;
}

// Pods and claims cannot be changed, and the server fills them with defaults: a digest tells whether they are as wanted.
bool is_fixed(const std::string& kind) { return kind == "Pod" || kind == "ResourceClaim"; }

bool as_wanted(const KubeJson& there, const WantedObject& wanted) {
  if (is_fixed(wanted.kind)) {
    return annotation_of(there, kDigestAnnotation) == annotation_of(wanted.body, kDigestAnnotation) &&
           says(there["metadata"]["labels"], wanted.body["metadata"]["labels"]);
  }
  return says(there, wanted.body);
}

// Big objects that are not ours are kept without what is not asked of them.
KubeJson trimmed(const std::string& kind, const KubeJson& object) {
  if (kind != "Node") return object;
  KubeJson small{{"metadata", {{"name", kube_name(object)}}}};
  const Pointer labels("/metadata/labels");
  if (object.contains(labels)) small["metadata"]["labels"] = object[labels];
  return small;
}

std::string joined(const std::string& path, const std::string& query, const std::string& more) {
  return path + "?" + query + (query.empty() || more.empty() ? "" : "&") + more;
}

// The token of a page goes into a query as it is but for what has a meaning there.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                       c == '.' || c == '~';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

Controller::Controller(ControllerOptions options, KubeApi& api, std::function<std::string()> wall,
                       std::function<void(const std::string&)> say)
    : options_(std::move(options)), api_(api), wall_(std::move(wall)), say_(std::move(say)), saved_(options_.requests_burst) {
  const std::string space = "/namespaces/" + options_.cluster.name_space;
  const auto add = [&](const char* kind, const std::string& path, const char* query, bool optional_kind = false) {
    informers_.emplace_back();
    informers_.back().kind = kind;
    informers_.back().path = path;
    informers_.back().query = query;
    informers_.back().optional_kind = optional_kind;
  };
  add("Plan", "/apis/tangram.dev/v1" + space + "/plans", "");
  add("Pod", "/api/v1" + space + "/pods", kManaged);
  add("ResourceClaim", "/apis/resource.k8s.io/v1" + space + "/resourceclaims", kManaged, true);
  add("ConfigMap", "/api/v1" + space + "/configmaps", kManaged);
  add("PodDisruptionBudget", "/apis/policy/v1" + space + "/poddisruptionbudgets", kManaged);
  add("ResourceSlice", "/apis/resource.k8s.io/v1/resourceslices", "", true);
  add("Node", "/api/v1/nodes", "");
}

Controller::Informer& Controller::informer(const std::string& kind) {
  const auto found = std::ranges::find(informers_, kind, &Informer::kind);
  TANGRAM_CHECK(found != informers_.end(), "every kind that is written is watched");
  return *found;
}

bool Controller::leads(Duration now) const { return renewed_at_ && now - *renewed_at_ < options_.renew_deadline; }

Duration Controller::step(Duration now) {
  next_due_ = now + std::chrono::seconds(1);
  hold_lease(now);
  for (auto& one : informers_) follow(now, one);
  const bool ready = std::ranges::all_of(informers_, &Informer::listed);
  if (ready && leads(now)) {
    if (dirty_) reconcile(now);
  } else {
    settled_ = false;
  }
  return std::max<Duration>(next_due_ - now, std::chrono::milliseconds(10));
}

bool Controller::may_ask(Duration now, int keep) {
  saved_ = std::min<double>(options_.requests_burst, saved_ + to_seconds(now - budget_at_) * options_.requests_per_s);
  budget_at_ = now;
  return now >= hold_until_ && saved_ >= 1.0 + keep;
}

// Requires may_ask(). Nothing: the connection failed.
std::optional<KubeAnswer> Controller::ask(Duration now, KubeQuestion question) {
  saved_ -= 1.0;
  ++counts_.requests;
  auto answer = api_.ask(question);
  if (!answer) {
    ++counts_.failures;
    return std::nullopt;
  }
  if (answer->status == 409) ++counts_.conflicts;
  if (answer->status == 410) ++counts_.expired;
  if (answer->status == 429 || answer->status >= 500) ++counts_.failures;
  if (answer->status == 429) hold_until_ = now + answer->retry_after.value_or(std::chrono::seconds(1));
  return std::move(*answer);
}

// --- The Lease -----------------------------------------------------------------------------------------------------

// Others' clocks are not compared with ours: a Lease has expired when it has not changed for its duration, as we saw it.
void Controller::hold_lease(Duration now) {
  if (renewed_at_ && now - *renewed_at_ >= options_.renew_deadline) {
    renewed_at_.reset();
    say_("the lease could not be renewed: this replica stops writing");
  }
  if (now < lease_due_ || !may_ask(now)) return;
  lease_due_ = now + (leads(now) ? options_.renew_every : options_.renew_every / 2);
  const std::string path = "/apis/coordination.k8s.io/v1/namespaces/" + options_.cluster.name_space + "/leases/" + options_.lease;
  const auto answer = ask(now, {.path = path});
  if (!answer) return;
  if (answer->status == 404) return write_lease(now, nullptr);
  if (answer->status != 200) return;
  const KubeJson current = KubeJson::parse(answer->body, nullptr, false);
  if (current.is_discarded()) return;
  const std::string holder = kube_text(current, "/spec/holderIdentity");
  const std::string seen = holder + " " + kube_text(current, "/metadata/resourceVersion");
  if (seen != lease_seen_) {
    lease_seen_ = seen;
    lease_seen_at_ = now;
  }
  if (holder == options_.identity || holder.empty() || now - lease_seen_at_ >= options_.lease_duration) {
    write_lease(now, &current);
  } else if (renewed_at_) {
    renewed_at_.reset();
    say_(fmt::format("{} leads now", holder));
  }
}

// PUT with the version that was read: of two who try, one gets 409.
void Controller::write_lease(Duration now, const KubeJson* current) {
  if (!may_ask(now)) return;
  const std::string collection = "/apis/coordination.k8s.io/v1/namespaces/" + options_.cluster.name_space + "/leases";
  KubeJson lease = current != nullptr ? *current
                                      : KubeJson{{"apiVersion", "coordination.k8s.io/v1"},
                                                 {"kind", "Lease"},
                                                 {"metadata", {{"name", options_.lease}, {"namespace", options_.cluster.name_space}}}};
  KubeJson& spec = lease["spec"];
  const bool mine = spec.is_object() && spec.value("holderIdentity", "") == options_.identity;
  const std::string time = wall_();
  if (!mine) {
    const int transitions = spec.is_object() && spec.contains("leaseTransitions") && spec["leaseTransitions"].is_number_integer() ? spec["leaseTransitions"].get<int>() : -1;
    spec["leaseTransitions"] = transitions + 1;
    spec["acquireTime"] = time;
  }
  spec["holderIdentity"] = options_.identity;
  spec["leaseDurationSeconds"] = options_.lease_duration / std::chrono::seconds(1);
  spec["renewTime"] = time;
  const auto answer = ask(now, {.method = current == nullptr ? "POST" : "PUT",
                                .path = current == nullptr ? collection : collection + "/" + options_.lease,
                                .body = lease.dump()});
  if (!answer || (answer->status != 200 && answer->status != 201)) return;
  ++counts_.renewals;
  if (!renewed_at_) {
    say_("this replica leads");
    dirty_ = true;
  }
  renewed_at_ = now;
  lease_due_ = now + options_.renew_every;
}

void Controller::resign(Duration now) {
  if (!leads(now)) return;
  renewed_at_.reset();
  const std::string path = "/apis/coordination.k8s.io/v1/namespaces/" + options_.cluster.name_space + "/leases/" + options_.lease;
  const auto answer = ask(now, {.path = path});
  if (!answer || answer->status != 200) return;
  KubeJson lease = KubeJson::parse(answer->body, nullptr, false);
  if (lease.is_discarded() || kube_text(lease, "/spec/holderIdentity") != options_.identity) return;
  lease["spec"]["holderIdentity"] = "";
  ask(now, {.method = "PUT", .path = path, .body = lease.dump()});
}

// --- Lists and watches ---------------------------------------------------------------------------------------------

void Controller::follow(Duration now, Informer& one) {
  if (one.watch) read_events(now, one);
  if (now < one.not_before || one.watch) return;
  if (!one.listed) {
    list(now, one);
  } else {
    open_watch(now, one);
  }
}

void Controller::fail(Duration now, Informer& one) {
  one.failures = std::min(one.failures + 1, 20);
  Duration wait = options_.pause_first;
  for (int i = 1; i < one.failures && wait < options_.pause_max; ++i) wait *= 2;
  one.not_before = now + std::min(wait, options_.pause_max);
}

// From nothing: the version from which we watched is gone. What is known stays until the list is complete.
void Controller::start_again(Informer& one) {
  one.watch.reset();
  one.version.clear();
  one.page.clear();
  one.coming.clear();
  one.listed = false;
}

void Controller::keep(Informer& one, KubeJson object, bool coming) {
  const std::string name = kube_name(object);
  if (name.empty()) return;
  auto& objects = coming ? one.coming : one.objects;
  if (objects.size() >= kObjectsMax && !objects.contains(name)) return;
  objects[name] = trimmed(one.kind, object);
}

void Controller::list(Duration now, Informer& one) {
  if (!may_ask(now, kKeptForLease)) return;
  ++counts_.lists;
  std::string more = fmt::format("limit={}", options_.list_limit);
  if (!one.page.empty()) more += "&continue=" + escaped(one.page);
  const auto answer = ask(now, {.path = joined(one.path, one.query, more)});
  if (answer && answer->status == 404 && one.optional_kind) {
    // The cluster has no such kind. Ask again now and then: it may be installed later.
    dirty_ |= !one.listed || !one.objects.empty();
    one.objects.clear();
    one.listed = true;
    one.version.clear();
    one.not_before = now + options_.pause_max;
    return;
  }
  const KubeJson body = answer && answer->status == 200 ? KubeJson::parse(answer->body, nullptr, false) : KubeJson(KubeJson::value_t::discarded);
  if (!body.is_object() || !body.contains("items") || !body["items"].is_array()) {
    if (answer && answer->status >= 400 && answer->status < 500 && answer->status != 410 && answer->status != 429) {
      ++counts_.refused;
      if (one.failures == 0) say_(fmt::format("{}: {} {}", one.path, answer->status, answer->body.substr(0, 200)));
    }
    start_again(one);
    return fail(now, one);
  }
  for (const auto& item : body["items"]) keep(one, item, true);
  one.page = kube_text(body, "/metadata/continue");
  if (!one.page.empty()) {
    next_due_ = now;
    return;
  }
  one.version = kube_text(body, "/metadata/resourceVersion");
  one.objects = std::move(one.coming);
  one.coming.clear();
  one.listed = true;
  dirty_ = true;
  open_watch(now, one);
}

void Controller::open_watch(Duration now, Informer& one) {
  if (one.version.empty()) return list(now, one);
  if (!may_ask(now, kKeptForLease)) return;
  saved_ -= 1.0;
  ++counts_.requests;
  ++counts_.watches;
  int refused = 0;
  auto watch = api_.watch(joined(one.path, one.query,
                                 fmt::format("watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
                                             options_.watch_for / std::chrono::seconds(1), escaped(one.version))),
                          refused);
  if (watch && *watch) {
    one.watch = std::move(*watch);
    one.watch_since = now;
    return read_events(now, one);
  }
  if (refused == 410) {
    ++counts_.expired;
    start_again(one);
  } else {
    ++counts_.failures;
  }
  fail(now, one);
}

void Controller::read_events(Duration now, Informer& one) {
  std::vector<std::string> lines;
  const bool open = one.watch->poll(lines);
  for (const auto& line : lines) {
    const KubeJson event = KubeJson::parse(line, nullptr, false);
    const std::string type = event.is_object() ? event.value("type", "") : "";
    if (type.empty() || !event.contains("object") || !event["object"].is_object()) {
      // Half a line, as when the connection broke: what follows cannot be trusted.
      start_again(one);
      return fail(now, one);
    }
    const KubeJson& object = event["object"];
    if (type == "ERROR") {
      ++counts_.expired;
      start_again(one);
      return fail(now, one);
    }
    const std::string version = kube_text(object, "/metadata/resourceVersion");
    if (!version.empty()) one.version = version;
    if (type == "BOOKMARK") continue;
    if (type == "DELETED") {
      one.objects.erase(kube_name(object));
    } else {
      keep(one, object, false);
    }
    dirty_ = true;
  }
  if (open) return;
  one.watch.reset();
  // An end is usual after `watch_for`, and must not become a loop if it comes at once.
  if (now - one.watch_since < kShortWatch) return fail(now, one);
  one.failures = 0;
  one.not_before = now;
}

// --- Writing -------------------------------------------------------------------------------------------------------

bool Controller::paused(Duration now, const std::string& key) const {
  const auto found = pauses_.find(key);
  return found != pauses_.end() && now < found->second.not_before;
}

// Each write of the same object within a minute of the last makes the next wait twice as long.
void Controller::wrote(Duration now, const std::string& key, bool worked) {
  Pause& pause = pauses_[key];
  pause.writes = pause.writes > 0 && now - pause.last > kQuietAgain + (pause.not_before - pause.last) ? 0 : pause.writes;
  pause.last = now;
  pause.writes = std::min(pause.writes + 1, 30);
  Duration wait = worked && pause.writes == 1 ? Duration::zero() : options_.pause_first;
  for (int i = 2; i < pause.writes && wait < options_.pause_max; ++i) wait *= 2;
  pause.not_before = now + std::min(wait, options_.pause_max);
}

bool Controller::apply(Duration now, const std::string& kind, const std::string& name, const KubeJson& body,
                       const std::string& below) {
  const std::string key = kind + "/" + name + below;
  if (paused(now, key) || !may_ask(now, kKeptForLease) || !leads(now)) return true;
  Informer& one = informer(kind);
  const auto answer = ask(now, {.method = "PATCH",
                                .path = fmt::format("{}/{}{}?fieldManager=tangram&force=true", one.path, name, below),
                                .body = body.dump(),
                                .content_type = "application/apply-patch+yaml"});
  ++(below.empty() ? counts_.applies : counts_.status_writes);
  const bool worked = answer && (answer->status == 200 || answer->status == 201);
  wrote(now, key, worked);
  if (worked) {
    // The watch will say the same; until then this answer keeps us from writing twice.
    KubeJson there = KubeJson::parse(answer->body, nullptr, false);
    if (there.is_object() && kube_name(there) == name) keep(one, std::move(there), false);
  } else if (answer && answer->status >= 400 && answer->status < 500 && answer->status != 409 && answer->status != 429) {
    ++counts_.refused;
    say_(fmt::format("{}/{}: the API server answers {}: {}", kind, name, answer->status,
                     KubeJson::parse(answer->body, nullptr, false).is_object()
                         ? kube_text(KubeJson::parse(answer->body, nullptr, false), "/message")
                         : answer->body.substr(0, 200)));
  }
  return true;
}

bool Controller::remove(Duration now, const std::string& kind, const KubeJson& object, int grace_s) {
  const std::string name = kube_name(object);
  const std::string key = kind + "/" + name + " delete";
  if (paused(now, key) || !may_ask(now, kKeptForLease) || !leads(now)) return true;
  Informer& one = informer(kind);
  KubeJson body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  const std::string uid = kube_text(object, "/metadata/uid");
  // Not its successor of the same name.
  if (!uid.empty()) body["preconditions"] = {{"uid", uid}};
  if (grace_s > 0) body["gracePeriodSeconds"] = grace_s;
  const auto answer = ask(now, {.method = "DELETE", .path = one.path + "/" + name, .body = body.dump()});
  ++counts_.deletes;
  const bool worked = answer && (answer->status == 200 || answer->status == 202 || answer->status == 404);
  wrote(now, key, worked);
  if (!worked) return true;
  const auto there = one.objects.find(name);
  if (there == one.objects.end()) return true;
  // A pod goes when its processes have ended; the watch tells.
  if (answer->status == 404 || kind != "Pod") {
    one.objects.erase(there);
  } else if (!is_going(there->second)) {
    there->second["metadata"]["deletionTimestamp"] = "requested";
  }
  return true;
}

ClusterView Controller::view() {
  ClusterView seen;
  std::vector<KubeJson> slices;
  for (const auto& [name, object] : informer("ResourceSlice").objects) slices.push_back(object);
  seen.offered = read_resource_slices(slices);
  const Pointer labels("/metadata/labels");
  for (const auto& [name, object] : informer("Node").objects) {
    auto& of = seen.node_labels[name];
    if (!object.contains(labels) || !object[labels].is_object()) continue;
    for (const auto& [key, value] : object[labels].items()) {
      if (value.is_string()) of[key] = value.get<std::string>();
    }
  }
  seen.pods = informer("Pod").objects;
  const auto& maps = informer("ConfigMap").objects;
  if (const auto cuts = maps.find(kCutsName); cuts != maps.end() && cuts->second.contains("data")) {
    for (const auto& [key, value] : cuts->second["data"].items()) {
      if (value.is_string()) seen.cut_orders[key] = value.get<std::string>();
    }
  }
  return seen;
}

void Controller::reconcile(Duration now) {
  std::vector<KubeJson> plans;
  for (const auto& [name, plan] : informer("Plan").objects) {
    if (!is_going(plan)) plans.push_back(plan);
  }
  std::map<std::string, std::string> orders;
  const auto wishes = wishes_of(plans, view(), options_.cluster, orders);
  bool busy = remove_foreign(now, wishes);
  busy |= write_cut_orders(now, orders);
  for (const auto& plan : plans) {
    const PlanWishes& of = wishes.at(kube_name(plan));
    for (const auto& wanted : of.objects) busy |= reconcile_object(now, wanted, of);
    busy |= write_status(now, plan, of);
    std::string& told = told_[kube_name(plan)];
    const std::string state = of.wait_for.empty() ? "in force: " + of.status.value("ready", "") + " run" : of.wait_for;
    if (told != state) say_(fmt::format("plan {}: {}", kube_name(plan), state));
    told = state;
  }
  dirty_ = busy;
  settled_ = !busy;
  // What is paused is looked at again soon, and not in a loop.
  if (busy) next_due_ = std::min(next_due_, now + std::chrono::milliseconds(100));
  // Pauses of objects that have been quiet for long are forgotten.
  std::erase_if(pauses_, [&](const auto& entry) { return now - entry.second.last > 2 * options_.pause_max + kQuietAgain; });
}

bool Controller::reconcile_object(Duration now, const WantedObject& wanted, const PlanWishes&) {
  auto& objects = informer(wanted.kind).objects;
  const auto there = objects.find(wanted.name);
  if (there == objects.end()) {
    // The claim first: a pod without its claim waits, but says so in events.
    return apply(now, wanted.kind, wanted.name, wanted.body);
  }
  if (is_going(there->second)) return false;  // The watch tells when it is gone.
  if (as_wanted(there->second, wanted)) return false;
  if (!is_fixed(wanted.kind)) return apply(now, wanted.kind, wanted.name, wanted.body);
  // Only the labels differ: they can be changed.
  if (annotation_of(there->second, kDigestAnnotation) == annotation_of(wanted.body, kDigestAnnotation)) {
    KubeJson labels{{"apiVersion", wanted.body["apiVersion"]}, {"kind", wanted.kind}, {"metadata", wanted.body["metadata"]}};
    labels["spec"] = wanted.body["spec"];
    return apply(now, wanted.kind, wanted.name, labels);
  }
  const bool same_slice = annotation_of(there->second, kUuidAnnotation) ==
                          wanted.body["metadata"]["annotations"][kUuidAnnotation].get<std::string>();
  if (wanted.kind == "Pod" && same_slice) {
    // Another image or other resources: one after the other, so that the others serve.
    for (const auto& [name, pod] : objects) {
      const bool away = is_going(pod) || kube_text(pod, "/status/phase") != "Running";
      if (away && name != wanted.name) return false;
    }
  }
  // A claim in use is deleted when its pod is gone: Kubernetes holds it until then.
  return remove(now, wanted.kind, there->second, 0);
}

// Objects of ours that nobody wants: their Plan is gone, or has other slices now.
bool Controller::remove_foreign(Duration now, const std::map<std::string, PlanWishes>& wishes) {
  bool busy = false;
  std::set<std::pair<std::string, std::string>> wanted;
  for (const auto& [name, of] : wishes) {
    for (const auto& object : of.objects) wanted.emplace(object.kind, object.name);
  }
  for (const char* kind : {"Pod", "ResourceClaim", "PodDisruptionBudget"}) {
    std::vector<KubeJson> needless;
    for (const auto& [name, object] : informer(kind).objects) {
      const Pointer label("/metadata/labels/tangram.dev~1plan");
      if (object.contains(label) && !is_going(object) && !wanted.contains({kind, name})) needless.push_back(object);
    }
    for (const auto& object : needless) busy |= remove(now, kind, object, 0);
  }
  return busy;
}

bool Controller::write_cut_orders(Duration now, const std::map<std::string, std::string>& orders) {
  const auto& maps = informer("ConfigMap").objects;
  const auto there = maps.find(kCutsName);
  if (there == maps.end() && orders.empty()) return false;
  KubeJson data = KubeJson::object();
  for (const auto& [key, text] : orders) data[key] = text;
  // Keys that are gone count as well.
  if (there != maps.end() && there->second.value("data", KubeJson::object()) == data) return false;
  return apply(now, "ConfigMap", kCutsName,
               {{"apiVersion", "v1"},
                {"kind", "ConfigMap"},
                {"metadata",
                 {{"name", kCutsName},
                  {"namespace", options_.cluster.name_space},
                  {"labels", {{"app.kubernetes.io/managed-by", "tangram"}}}}},
                {"data", data}});
}

// A condition keeps the time of its last change of status.
bool Controller::write_status(Duration now, const KubeJson& plan, const PlanWishes& wishes) {
  KubeJson status = wishes.status;
  const KubeJson before = plan.value("status", KubeJson::object());
  const KubeJson old_conditions = before.value("conditions", KubeJson::array());
  if (says(before, status) && says(status["conditions"].size(), old_conditions.size())) return false;
  const std::string time = wall_();
  for (auto& condition : status["conditions"]) {
    std::string since = time.substr(0, 19) + "Z";
    for (const auto& old : old_conditions) {
      if (!old.is_object() || old.value("type", "") != condition.value("type", "")) continue;
      if (old.value("status", "") == condition.value("status", "")) since = old.value("lastTransitionTime", since);
    }
    condition["lastTransitionTime"] = since;
  }
  return apply(now, "Plan", kube_name(plan),
               {{"apiVersion", "tangram.dev/v1"},
                {"kind", "Plan"},
                {"metadata", {{"name", kube_name(plan)}, {"namespace", options_.cluster.name_space}}},
                {"status", status}},
               "/status");
}

}  // namespace tangram::adapters
