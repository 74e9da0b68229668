// The addresses of the gateway and what they answer.
//
// The Open Inference Protocol v2 with the extensions that clients use, and on a port of its own what only operators
// need. Knows nothing about sockets: a request is a method, a path and a body.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/http_parser.h"
#include "host/log.h"
#include "host/mutex.h"
#include "serve/access.h"
#include "serve/call.h"
#include "serve/follow_command.h"
#include "serve/infer_json.h"
#include "serve/memory_budget.h"
#include "serve/tally.h"

namespace tangram::serve {

class NodeHub;
class PageDesk;
class TrainingDesk;

inline constexpr std::string_view kJsonType = "application/json";
inline constexpr std::string_view kTextType = "text/plain; charset=utf-8";
inline constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
inline constexpr std::string_view kOpenMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";

// The extensions of the protocol that are served.
inline constexpr std::array<std::string_view, 7> kExtensionNames{
    "binary_tensor_data", "model_repository", "schedule_policy", "model_configuration",
    "parameters",         "statistics",       "logging"};

// Ports that answer different things.
enum class Port : std::uint8_t { data, admin };

enum class Endpoint : std::uint8_t {
  live,
  ready,
  metadata,
  model_metadata,
  model_ready,
  model_config,
  model_stats,
  all_stats,
  infer,
  model_names,
  repository_index,
  load,
  unload,
  logging,
  metrics,
  status,
  reload,
  drain,
  follow,
  follow_command,
  training,
  training_command,
  page,
  events,
  request_story,
  what_if,
  nodes,
  none,
};

// The rights that an address requires, where access control is on. Each level includes those before it.
enum class AccessNeed : std::uint8_t {
  nothing,      // Liveness and readiness are public.
  client,       // A tenant that may use the model, where the address names one.
  every_model,  // A tenant that may use all models.
  viewer,
  admin,
};
AccessNeed access_need(Port port, Endpoint endpoint);
// Why an inference request ended before the scheduler saw it.
enum class RequestRefusal : std::uint8_t {
  malformed,        // Not valid HTTP; whether it was inference is unknown.
  too_large,        // Its body or its head.
  too_slow,         // It was not complete in time.
  invalid,          // It makes no sense, or does not fit its model.
  not_found,        // No such model.
  unauthenticated,  // The caller is unknown.
  model,            // The tenant may not use the model, ...
  rate,             // ... exceeds its rate, ...
  quota,            // ... has used up its quota of today, ...
  in_flight,        // ... or has too many requests in flight.
  unloaded,         // The model is unloaded.
  overloaded,       // The gateway is at one of its limits.
};
inline constexpr std::array<std::string_view, 12> kRequestRefusals{
    "malformed", "too_large", "too_slow", "invalid",   "not_found", "unauthenticated",
    "model",     "rate",      "quota",    "in_flight", "unloaded",  "overloaded"};
RequestRefusal refusal_of(const AccessDenial& denial);
// The reason for a request that was read and found invalid, or that the world rejected on arrival.
RequestRefusal refusal_of(CallStatus status);

// A refused request, for its counter and log line. The views need to live only during tell_of_refused(); unknown values
// are empty.
struct RefusedRequest {
  RequestRefusal why = RequestRefusal::invalid;
  int status = 400;  // As HTTP has it, whatever the protocol.
  std::string_view reason;
  const ServedModel* model = nullptr;
  std::string_view id = {};
  std::string_view tenant = {};
  std::string_view traceparent = {};
};

// The reason to deny the tenant, or nullopt. Counts the refusal.
std::optional<AccessDenial> why_forbidden(const TenantRule& tenant, AccessNeed need, const ServedModel* model);

struct Reply {
  int status = 200;
  std::string_view type = kJsonType;
  std::string body;
  std::string headers = {};  // More of them, each with its line end.
  std::string reason = {};   // Of a refusal, for the log.
};
Reply reply_to(const AccessDenial& denial);

// The address of a request, known before its body has arrived.
struct Target {
  Endpoint endpoint = Endpoint::none;
  const ServedModel* model = nullptr;
  std::optional<Reply> refusal;  // Wrong address or method. The endpoint may be known all the same.
  FollowCommand command = {};    // Of follow_command, ...
  std::string device = {};       // ... and the device that it names. Of training and training_command: NAME/WHAT; of
                                 // the page's addresses, what follows their first word.
};

struct GatewayConfig {
  std::string version;
  bool triton_metrics = false;  // Also the nv_inference_* names.
  // Requests a reload of the files, which runs later and reports to Gateway::reloads. Empty: there is nothing to reload
  // from.
  std::function<void()> request_reload;
  // Asks the server to stop once everything is answered.
  std::function<void()> request_drain = {};
  host::LogWriter* log = nullptr;                        // Whose level may be changed.
  std::uint64_t memory_max = MemoryBudget::kDefaultMax;  // Of everything that is held for callers.
};

// How many reloads were requested, and how the last one ended.
class Reloads {
 public:
  struct Report {
    std::uint64_t asked = 0;
    std::uint64_t ended = 0;  // All requests up to this number have ended.
    std::string problem;      // Of the last that ended; empty: it succeeded.
  };

  // Registers a request for a reload and returns its number.
  std::uint64_t ask() {
    const host::MutexLock lock(mutex_);
    return ++report_.asked;
  }
  // A reload has ended that began after `asked` requests.
  void end(std::uint64_t asked, std::string problem) {
    const host::MutexLock lock(mutex_);
    report_.ended = asked;
    report_.problem = std::move(problem);
  }
  Report report() const {
    const host::MutexLock lock(mutex_);
    return report_;
  }

 private:
  mutable host::Mutex mutex_;
  Report report_ GUARDED_BY(mutex_);
};

// Shared by all threads: state that changes is atomic or locked, everything else is fixed at construction.
class Gateway {
 public:
  Gateway(const std::vector<ServedModel>& models, GatewayConfig config);

  // Null: there is none, or it was removed. Any thread.
  const ServedModel* find_model(std::string_view name) const;
  // Reads the models again: a reload has added some. The thread of the world.
  void take_models();
  const std::vector<ServedModel>& models() const { return models_; }
  const std::string& version() const { return config_.version; }
  // Null: there is none.
  host::LogWriter* log() const { return config_.log; }

  Target route(Port port, host::HttpMethod method, std::string_view path) const;
  // The reply, if it does not depend on the world; otherwise the work that fills in a ControlCall. `open_metrics`: the
  // form of metrics.
  std::variant<Reply, ControlWork> handle(const Target& target, std::string_view body, bool open_metrics = false);

  bool ready() const { return ready_.load(std::memory_order_relaxed) && !draining_.load(std::memory_order_relaxed); }
  void set_ready(bool ready) { ready_ = ready; }
  void set_draining() { draining_ = true; }
  bool draining() const { return draining_.load(std::memory_order_relaxed); }
  host::LogLevel log_level() const { return log_level_.load(std::memory_order_relaxed); }
  bool log_requests() const { return log_level() == host::LogLevel::requests; }
  void set_log_level(host::LogLevel level);

  // Counts the request, and logs it if requests are logged. Any thread.
  void tell_of_refused(const RefusedRequest& refused);
  // The number of refused requests. Null: requests whose model is unknown.
  std::uint64_t refused_count(const ServedModel* model, RequestRefusal why) const;

  // What follows the traffic; null: nothing does. Set before the first request, and used on the thread of the world.
  void set_follower(Follower* follower) { follower_ = follower; }
  const Follower* follower() const { return follower_; }
  // The training jobs; null: this server has none. Set before the first request; any thread uses it.
  void set_training(TrainingDesk* training) { training_ = training; }
  const TrainingDesk* training() const { return training_; }
  // Null: the slices are on this machine.
  void set_nodes(const NodeHub* nodes) { nodes_ = nodes; }
  const NodeHub* nodes() const { return nodes_; }

  // What answers the page. Set before the first request; any thread uses it.
  void set_page(PageDesk* page) { page_ = page; }

  // What is held for callers, of all threads and protocols.
  MemoryBudget memory;
  // Access control. Off until it is set.
  Access access;
  Reloads reloads;

  // Counters of the sockets, incremented by their threads.
  struct Traffic {
    std::atomic<std::uint64_t> connections_opened{0};
    std::atomic<std::uint64_t> connections_open{0};
    std::atomic<std::uint64_t> connections_refused{0};
    std::atomic<std::uint64_t> connections_gave_way{0};  // Quiet ones, to new ones.
    std::atomic<std::uint64_t> requests_malformed{0};
    std::atomic<std::uint64_t> timeouts{0};
    std::atomic<std::uint64_t> handshakes_failed{0};
    std::atomic<std::uint64_t> bytes_received{0};
    std::atomic<std::uint64_t> bytes_sent{0};
    std::atomic<std::uint64_t> calls_abandoned{0};  // The client had gone.
    // From the last byte of a request read to the first byte of its answer written, without the run time of its batch:
    // for inference requests over HTTP, and for all others, which are answered at once. Background requests wait on
    // purpose, and requests that were refused before they were complete have no last byte: neither is counted.
    SharedDurations added_infer;
    SharedDurations added_other;
  };
  Traffic traffic;

 private:
  using ModelIndex = std::map<std::string, const ServedModel*, std::less<>>;
  using RefusalCounts = std::array<std::atomic<std::uint64_t>, kRequestRefusals.size()>;

  // The index into refused_. Null: an unknown model, which has the last place.
  std::size_t refusal_place(const ServedModel* model) const;
  // Routes what follows /v2/models/.
  Target route_model(host::HttpMethod method, std::string_view rest) const;
  // Routes what follows /v2/repository/.
  Target route_repository(host::HttpMethod method, std::string_view rest) const;
  // Routes the whole path of a request at the admin port.
  Target route_admin(host::HttpMethod method, std::string_view path) const;
  // The texts of these answers, as JSON.
  std::string metadata() const;
  std::string model_names() const;
  std::string model_metadata(const ServedModel& model) const;
  std::string model_config(const ServedModel& model) const;
  // Changes the log level if the body says so. Returns the level in force.
  Reply handle_logging(std::string_view body);
  // Routes what follows /follow at the admin port.
  Target route_follow(host::HttpMethod method, std::string_view rest) const;
  // Requests a reload of the files and returns its number. Requires config_.request_reload.
  std::uint64_t ask_for_reload();

  const std::vector<ServedModel>& models_;
  GatewayConfig config_;
  // Never changed: take_models() makes another one, and readers may still hold the one before. A server takes at most
  // kServicesAddedMax further models, which limits how many of these there are.
  std::vector<std::unique_ptr<const ModelIndex>> indices_;
  std::atomic<const ModelIndex*> by_name_{nullptr};  // The newest.
  std::vector<RefusalCounts> refused_;               // By model; the last place is for unknown models.
  Follower* follower_ = nullptr;
  TrainingDesk* training_ = nullptr;
  PageDesk* page_ = nullptr;
  const NodeHub* nodes_ = nullptr;
  std::atomic<bool> ready_{false};
  std::atomic<bool> draining_{false};
  std::atomic<host::LogLevel> log_level_{host::LogLevel::info};
};

// The HTTP status of a call.
int http_status(CallStatus status);

}  // namespace tangram::serve
