// The controller: keeps the objects of every Plan resource as they have to be.
//
// It is a state machine over the API server: step() does what is due now and returns. One of several replicas leads, by
// a Lease; all of them watch, so that the next leader knows everything already.
//
// Invariants:
//   - Only the holder of the Lease writes, and only until `renew_deadline` after its last renewal.
//   - Nothing is written before every kind has been listed: what is not seen is not taken for missing.
//   - All requests together are limited to `requests_per_s` in the long run; an object that is written again and again
//     is written more and more rarely, up to once in `pause_max`.
//   - Of running pods only one at a time is replaced for a new image.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/kubernetes/cluster_plan.h"
#include "adapters/kubernetes/kube_api.h"
#include "base/rng.h"

namespace tangram::adapters {

struct ControllerOptions {
  ClusterOptions cluster;
  std::string identity = "tangram-controller-0";  // The name of the pod: who holds the Lease.
  std::string lease = "tangram-controller";
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_every = std::chrono::seconds(5);
  Duration renew_deadline = std::chrono::seconds(10);
  double requests_per_s = 20;
  int requests_burst = 60;
  Duration pause_first = std::chrono::milliseconds(500);
  Duration pause_max = std::chrono::minutes(2);
  Duration watch_for = std::chrono::seconds(300);  // The server ends a watch then; the next goes on from there.
  int list_limit = 500;                            // Objects of one page.
};

struct ControllerCounts {
  std::uint64_t requests = 0;
  std::uint64_t lists = 0;
  std::uint64_t watches = 0;
  std::uint64_t applies = 0;
  std::uint64_t deletes = 0;
  std::uint64_t status_writes = 0;
  std::uint64_t renewals = 0;
  std::uint64_t conflicts = 0;  // 409
  std::uint64_t expired = 0;    // 410
  std::uint64_t refused = 0;    // Other 4xx.
  std::uint64_t failures = 0;   // 5xx, 429 and lost connections.
};

class Controller {
 public:
  // `wall` says the time of the day as RFC 3339 with microseconds, which a Lease needs.
  Controller(ControllerOptions options, KubeApi& api, std::function<std::string()> wall,
             std::function<void(const std::string&)> say);

  // Does what is due. `now` counts from any fixed instant. Returns how long nothing is due without an event.
  Duration step(Duration now);

  bool leads(Duration now) const;
  // Every kind is listed and watched, this is the leader, and nothing is left to write.
  bool settled() const { return settled_; }
  const ControllerCounts& counts() const { return counts_; }
  // Gives the Lease up, so that another replica leads at once.
  void resign(Duration now);

 private:
  // One kind of objects: listed once, then followed.
  struct Informer {
    std::string kind;
    std::string path;   // Of the collection.
    std::string query;  // "labelSelector=...", or empty.
    bool optional_kind = false;  // 404 means that the cluster does not have it: there are none.
    bool listed = false;
    std::string version;                     // resourceVersion from which the next watch starts.
    std::string page;                        // The token of the next page of a list under way.
    std::map<std::string, KubeJson> coming;  // Of a list under way.
    std::map<std::string, KubeJson> objects;  // By name.
    std::unique_ptr<KubeWatch> watch;
    Duration watch_since = {};
    int failures = 0;
    Duration not_before = {};
  };
  struct Pause {
    int writes = 0;  // In a row, each soon after the one before.
    Duration last = {};
    Duration not_before = {};
  };

  std::optional<KubeAnswer> ask(Duration now, KubeQuestion question);
  bool may_ask(Duration now, int keep = 0);
  void hold_lease(Duration now);
  void write_lease(Duration now, const KubeJson* current);
  void follow(Duration now, Informer& informer);
  void list(Duration now, Informer& informer);
  void open_watch(Duration now, Informer& informer);
  void read_events(Duration now, Informer& informer);
  void start_again(Informer& informer);
  void fail(Duration now, Informer& informer);
  void keep(Informer& informer, KubeJson object, bool coming);

  Informer& informer(const std::string& kind);
  ClusterView view();
  void reconcile(Duration now);
  // Each returns true if it wrote, or would have if the budget or a pause had let it.
  bool reconcile_object(Duration now, const WantedObject& wanted, const PlanWishes& wishes);
  bool remove_foreign(Duration now, const std::map<std::string, PlanWishes>& wishes);
  bool write_cut_orders(Duration now, const std::map<std::string, std::string>& orders);
  bool write_status(Duration now, const KubeJson& plan, const PlanWishes& wishes);
  bool apply(Duration now, const std::string& kind, const std::string& name, const KubeJson& body,
             const std::string& below = "");
  bool remove(Duration now, const std::string& kind, const KubeJson& object, int grace_s);
  bool paused(Duration now, const std::string& key) const;
  void wrote(Duration now, const std::string& key, bool worked);

  ControllerOptions options_;
  KubeApi& api_;
  std::function<std::string()> wall_;
  std::function<void(const std::string&)> say_;
  std::vector<Informer> informers_;
  std::map<std::string, Pause> pauses_;
  ControllerCounts counts_;
  double saved_;
  Duration budget_at_ = {};
  Duration hold_until_ = {};  // The server asked for quiet (429).
  bool dirty_ = true;
  bool settled_ = false;
  Duration next_due_ = {};
  // The Lease.
  std::optional<Duration> renewed_at_;  // By us; nothing: we do not hold it.
  Duration lease_due_ = {};
  std::string lease_seen_;  // Holder and version as last seen, and when that was first seen.
  Duration lease_seen_at_ = {};
  std::map<std::string, std::string> told_;  // What was last said about each Plan.
};

}  // namespace tangram::adapters
