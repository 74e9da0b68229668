// Routing and the answers that need no look at the world.
//
// A request is handled in two steps, because its head arrives before its body. route() maps method and path to a
// Target, which is enough to check access and to refuse early; handle() gets the body. What depends on the state of the
// world, such as statistics, becomes ControlWork for the thread of the world, so the world needs no lock. Routing works
// on views of the path: an inference request without escapes in it allocates nothing.
//
// Messages and status codes follow Triton's, for example 400 for "not ready".

#include "serve/gateway.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/json_reader.h"
#include "serve/follower.h"
#include "serve/node_report.h"
#include "serve/live_world.h"
#include "serve/page_desk.h"
#include "serve/reports.h"
#include "serve/training_command.h"

namespace tangram::serve {
namespace {

// A target that answers with this error. The reason is kept beside the body for the log.
Target refuse(int status, std::string_view message) {
  return {Endpoint::none, nullptr, Reply{status, kJsonType, error_body(message), {}, std::string(message)}};
}

// Answers 405 with the Allow field that RFC 9110 section 10.2.1 requires: "GET, HEAD".
Target wrong_method(std::string_view allowed) {
  Target refused = refuse(405, fmt::format("this address accepts {}", allowed));
  refused.refusal->headers = fmt::format("Allow: {}\r\n", allowed);
  return refused;
}

// The target if the method is the wanted one, else 405. HEAD is allowed wherever GET is (RFC 9110 section 9.1).
Target only(host::HttpMethod wanted, host::HttpMethod method, Target target) {
  const bool get_like = wanted == host::HttpMethod::get && method == host::HttpMethod::head;
  if (method == wanted || get_like) return target;
  Target refused = wrong_method(wanted == host::HttpMethod::get ? "GET, HEAD" : "POST");
  // Whoever may not use the model must not learn from the refusal that it exists.
  refused.model = target.model;
  return refused;
}

// GET reads the log settings, POST changes them.
Target route_logging(host::HttpMethod method) {
  const bool known =
      method == host::HttpMethod::get || method == host::HttpMethod::head || method == host::HttpMethod::post;
  return known ? Target{Endpoint::logging, nullptr, {}} : wrong_method("GET, HEAD, POST");
}

// Marks the refusal of a request that was meant as inference, so that it is counted and logged as one although no model
// is known for it.
Target refuse_at(std::string_view rest, host::HttpMethod method, Target refused) {
  const bool infer = method == host::HttpMethod::post && (rest == "infer" || rest.ends_with("/infer"));
  if (infer) refused.endpoint = Endpoint::infer;
  return refused;
}

// A refusal under the address of a model, which only those see who may use it.
Target of_model(const ServedModel* model, Target refused) {
  refused.model = model;
  return refused;
}

// Extensions of Triton that this server does not have. A client that asks for one is told which, rather than that the
// address is unknown.
constexpr std::string_view kNoSharedMemory = "shared memory between client and server is not supported";
constexpr std::string_view kNoTracing = "trace settings are not supported";

std::string unknown_model(std::string_view name) {
  return fmt::format("Request for unknown model: '{}' is not found", name);
}

// Splits at the first slash: "a/b/c" gives "a" and leaves "b/c".
std::string_view take_segment(std::string_view& rest) {
  const auto slash = std::min(rest.find('/'), rest.size());
  const std::string_view segment = rest.substr(0, slash);
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  return segment;
}

// Decodes %XX. The names of services need no escapes, but clients may escape them all the same. An incomplete escape
// stays as it is.
std::string unescape(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    out += escaped ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    if (escaped) i += 2;
  }
  return out;
}

// The decoded name for an error message, or the raw segment if the decoded bytes are no UTF-8: the message becomes a
// JSON string.
std::string shown_name(std::string_view segment) {
  std::string name = unescape(segment);
  return is_utf8(name) ? name : std::string(segment);
}

// Tensors in the form of the metadata extension. The leading -1 is the number of samples, which the signature leaves
// out.
void append_tensor_metadata(std::string& out, const std::vector<TensorSpec>& specs) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (i != 0) out += ',';
    out += R"({"name":)";
    append_json_string(out, specs[i].name);
    out += fmt::format(R"(,"datatype":"{}","shape":[-1)", to_string(specs[i].datatype));
    for (const std::int64_t axis : specs[i].shape) out += fmt::format(",{}", axis);
    out += "]}";
  }
}

// Tensors in the form of the model configuration: the type is TYPE_ and the name of the datatype, as in TYPE_FP32.
// Masks are optional, because the gateway can fill them in.
void append_tensor_config(std::string& out, const std::vector<TensorSpec>& specs) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (i != 0) out += ',';
    out += R"({"name":)";
    append_json_string(out, specs[i].name);
    // Triton's configuration has another word for BYTES than its protocol.
    const bool text = specs[i].datatype == Datatype::bytes;
    out += fmt::format(R"(,"data_type":"TYPE_{}","dims":[)", text ? "STRING" : to_string(specs[i].datatype));
    for (std::size_t k = 0; k < specs[i].shape.size(); ++k)
      out += fmt::format("{}{}", k == 0 ? "" : ",", specs[i].shape[k]);
    out += specs[i].mask ? R"(],"optional":true})" : "]}";
  }
}

// Reads one member of the body of a logging request into `level`. "level" names a level. Triton's log_info and
// log_warning are independent switches, while our levels are ordered: switching one on raises the level to at least it,
// switching it off lowers the level below it. An unknown level name goes to `wrong`.
bool read_log_setting(JsonReader& json, std::string_view key, host::LogLevel& level, std::string& wrong) {
  if (key == "level") {
    std::string name;
    if (!json.string(name)) return false;
    const auto parsed = host::parse_log_level(name);
    if (!parsed) wrong = fmt::format("level must be error, warning, info or requests, not '{}'", name);
    level = parsed.value_or(level);
    return true;
  }
  if (key == "log_verbose_level") {
    double verbose = 0;
    if (!json.number(verbose)) return false;
    level = verbose > 0 ? host::LogLevel::requests : std::min(level, host::LogLevel::info);
    return true;
  }
  // Triton has further settings. Those without a meaning here must not fail the request.
  if (key != "log_info" && key != "log_warning") return json.skip();
  bool wanted = true;
  if (!json.boolean(wanted)) return false;
  const host::LogLevel named = key == "log_info" ? host::LogLevel::info : host::LogLevel::warning;
  const auto below = static_cast<host::LogLevel>(static_cast<int>(named) - 1);
  level = wanted ? std::max(level, named) : std::min(level, below);
  return true;
}

// A client may send a configuration of its own, and files, to load instead of what the server has. Neither is honoured,
// so both are refused; {"parameters": {"unload_dependents": true}} is harmless.
std::optional<Reply> read_load_question(std::string_view body) {
  JsonReader json(body);
  std::string override;
  const auto parameter = [&](std::string_view name) {
    if (name == "config" || name.starts_with("file:")) override = name;
    return json.skip();
  };
  const auto read = [&](std::string_view key) {
    return key == "parameters" && json.peek() == '{' ? json.object(parameter) : json.skip();
  };
  if (!body.empty() && !(json.object(read) && json.end())) {
    return Reply{400, kJsonType, error_body("failed to parse the request JSON: " + json.problem())};
  }
  if (override.empty()) return std::nullopt;
  return Reply{
      400, kJsonType,
      error_body(fmt::format("models cannot be loaded with a configuration or files of the client: '{}'", override))};
}

// {"ready": true} asks only for models that are ready; {} and an empty body ask for all.
std::optional<Reply> read_index_question(std::string_view body, bool& only_ready) {
  JsonReader json(body);
  const auto read = [&](std::string_view key) { return key == "ready" ? json.boolean(only_ready) : json.skip(); };
  if (body.empty() || (json.object(read) && json.end())) return std::nullopt;
  return Reply{400, kJsonType, error_body("failed to parse the request JSON: " + json.problem())};
}

}  // namespace

int http_status(CallStatus status) {
  switch (status) {
    case CallStatus::ok: return 200;
    case CallStatus::invalid: return 400;
    case CallStatus::not_found: return 404;
    case CallStatus::refused: return 429;
    case CallStatus::unavailable: return 503;
    case CallStatus::failed: return 500;
    case CallStatus::unsupported: return 501;
    case CallStatus::unauthenticated: return 401;
    case CallStatus::forbidden: return 403;
    // What proxies log for a client that closed its connection; nobody receives it.
    case CallStatus::abandoned: return 499;
  }
  return 500;
}

// ---- Who may ----

AccessNeed access_need(Port port, Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::live:
    case Endpoint::ready:
    // The same for everybody, and without any of the server's data: a browser cannot send a key with it.
    case Endpoint::page: return AccessNeed::nothing;
    case Endpoint::metadata:
    case Endpoint::model_metadata:
    case Endpoint::model_ready:
    case Endpoint::model_config:
    case Endpoint::model_stats:
    case Endpoint::infer: return AccessNeed::client;
    case Endpoint::all_stats:
    case Endpoint::model_names:
    case Endpoint::repository_index: return AccessNeed::every_model;
    case Endpoint::metrics:
    case Endpoint::follow:
    case Endpoint::training:
    case Endpoint::events:
    case Endpoint::request_story:
    case Endpoint::nodes:
    case Endpoint::status: return AccessNeed::viewer;
    case Endpoint::load:
    case Endpoint::unload:
    case Endpoint::logging:
    case Endpoint::reload:
    case Endpoint::follow_command:
    case Endpoint::training_command:
    case Endpoint::what_if:
    case Endpoint::drain: return AccessNeed::admin;
    // An unknown path needs what the port needs at least, so that a stranger cannot find out which addresses exist.
    case Endpoint::none: return port == Port::admin ? AccessNeed::viewer : AccessNeed::client;
  }
  return AccessNeed::admin;
}

std::optional<AccessDenial> why_forbidden(const TenantRule& tenant, AccessNeed need, const ServedModel* model) {
  using formats::AccessRole;
  // Counts the denial for the tenant, in its metrics.
  const auto denied = [&](AccessRefusal why, const std::string& what) {
    tenant.state->count(why);
    return AccessDenial{
        CallStatus::forbidden, fmt::format("tenant '{}' has no permission to {}", tenant.said.name, what), {}, why};
  };
  const AccessRole role = tenant.said.role;
  if (need == AccessNeed::admin && role != AccessRole::admin)
    return denied(AccessRefusal::role, "administer the server");
  if (need == AccessNeed::viewer && role == AccessRole::client) return denied(AccessRefusal::role, "watch the server");
  if (model != nullptr && !tenant.may_use(model->name)) {
    // As for a model that does not exist: the names of others' models are not for everybody.
    tenant.state->count(AccessRefusal::model);
    return AccessDenial{CallStatus::not_found, unknown_model(model->name), {}, AccessRefusal::model};
  }
  // Operators see all models anyway, by the metrics. A client that may use only some must not learn about others.
  if (need == AccessNeed::every_model && role == AccessRole::client && !tenant.may_use_all()) {
    return denied(AccessRefusal::model, "list all models");
  }
  return std::nullopt;
}

// A denial with a reason is a limit or right of a known tenant; otherwise the status says what happened.
RequestRefusal refusal_of(const AccessDenial& denial) {
  if (!denial.why) return refusal_of(denial.status);
  switch (*denial.why) {
    case AccessRefusal::rate: return RequestRefusal::rate;
    case AccessRefusal::quota: return RequestRefusal::quota;
    case AccessRefusal::in_flight: return RequestRefusal::in_flight;
    case AccessRefusal::model:
    case AccessRefusal::role: return RequestRefusal::model;
  }
  return RequestRefusal::model;
}

RequestRefusal refusal_of(CallStatus status) {
  switch (status) {
    case CallStatus::unauthenticated: return RequestRefusal::unauthenticated;
    case CallStatus::forbidden: return RequestRefusal::model;
    case CallStatus::not_found: return RequestRefusal::not_found;
    case CallStatus::unavailable: return RequestRefusal::unloaded;
    case CallStatus::refused: return RequestRefusal::overloaded;
    case CallStatus::ok:
    case CallStatus::invalid:
    case CallStatus::failed:
    case CallStatus::abandoned:
    case CallStatus::unsupported: return RequestRefusal::invalid;
  }
  return RequestRefusal::invalid;
}

Reply reply_to(const AccessDenial& denial) {
  Reply reply{http_status(denial.status), kJsonType, error_body(denial.message)};
  if (denial.status == CallStatus::unauthenticated) reply.headers = "WWW-Authenticate: Bearer realm=\"tangram\"\r\n";
  // The field has whole seconds. Rounding down would invite a retry that is denied again.
  if (denial.retry_after > Duration::zero()) {
    reply.headers += fmt::format("Retry-After: {:.0f}\r\n", std::ceil(to_seconds(denial.retry_after)));
  }
  return reply;
}

Gateway::Gateway(const std::vector<ServedModel>& models, GatewayConfig config)
    : memory(config.memory_max),
      access(memory.tenant_max()),
      models_(models),
      config_(std::move(config)),
      refused_(std::max(models.size(), models.capacity()) + 1) {
  take_models();
}

// Removed models stay in the index, marked: one that returns has the place that it had.
void Gateway::take_models() {
  if (!indices_.empty() && indices_.back()->size() == models_.size()) return;
  auto index = std::make_unique<ModelIndex>();
  for (const auto& model : models_) index->emplace(model.name, &model);
  by_name_.store(index.get(), std::memory_order_release);
  indices_.push_back(std::move(index));
}

// ---- Requests that end before the scheduler ----

// Counters are indexed by service, with one more place at the end for requests whose model is not known.
std::size_t Gateway::refusal_place(const ServedModel* model) const {
  return model == nullptr ? refused_.size() - 1 : static_cast<std::size_t>(model - models_.data());
}

std::uint64_t Gateway::refused_count(const ServedModel* model, RequestRefusal why) const {
  return refused_[refusal_place(model)][static_cast<std::size_t>(why)].load(std::memory_order_relaxed);
}

void Gateway::tell_of_refused(const RefusedRequest& refused) {
  const auto why = static_cast<std::size_t>(refused.why);
  refused_[refusal_place(refused.model)][why].fetch_add(1, std::memory_order_relaxed);
  // Refusals are always counted. A line is built only where requests are logged: a flood of refusals must stay cheap.
  if (config_.log == nullptr || !log_requests()) return;
  host::LogLine line(host::LogLevel::requests, "request");
  if (!refused.id.empty()) line.text("id", refused.id);
  if (refused.model != nullptr) line.text("model", refused.model->name);
  line.text("outcome", "refused").integer("status", refused.status).text("why", kRequestRefusals[why]);
  if (!refused.tenant.empty()) line.text("tenant", refused.tenant);
  line.text("reason", refused.reason);
  if (!refused.traceparent.empty()) line.text("traceparent", refused.traceparent);
  config_.log->write(line);
}

const ServedModel* Gateway::find_model(std::string_view name) const {
  const ModelIndex& index = *by_name_.load(std::memory_order_acquire);
  const auto found = index.find(name);
  return found == index.end() || found->second->removed != 0 ? nullptr : found->second;
}

// ---- Addresses ----

// Exact addresses come before those with a name in them: "models/stats" is not a model called "stats".
Target Gateway::route(Port port, host::HttpMethod method, std::string_view path) const {
  if (port == Port::admin) return route_admin(method, path);
  if (!path.starts_with("/v2")) return refuse(404, "unknown path");
  std::string_view rest = path.substr(3);
  if (rest.empty() || rest == "/") return only(host::HttpMethod::get, method, {Endpoint::metadata, nullptr, {}});
  if (!rest.starts_with('/')) return refuse(404, "unknown path");
  rest.remove_prefix(1);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest == "health/live") return only(host::HttpMethod::get, method, {Endpoint::live, nullptr, {}});
  if (rest == "health/ready") return only(host::HttpMethod::get, method, {Endpoint::ready, nullptr, {}});
  if (rest == "models/stats") return only(host::HttpMethod::get, method, {Endpoint::all_stats, nullptr, {}});
  if (rest == "models") return only(host::HttpMethod::get, method, {Endpoint::model_names, nullptr, {}});
  if (rest == "logging") return route_logging(method);
  if (rest == "trace/setting") return refuse(501, kNoTracing);
  const std::string_view first = take_segment(rest);
  if (first == "models") return route_model(method, rest);
  if (first == "repository") return route_repository(method, rest);
  if (first == "systemsharedmemory" || first == "cudasharedmemory") return refuse(501, kNoSharedMemory);
  return refuse(404, "unknown path");
}

Target Gateway::route_model(host::HttpMethod method, std::string_view rest) const {
  const std::string_view segment = take_segment(rest);
  // Only a name with an escape is copied; all others are looked up as views.
  const bool escaped = segment.find('%') != std::string_view::npos;
  const ServedModel* model = escaped ? find_model(unescape(segment)) : find_model(segment);
  if (model == nullptr) {
    return refuse_at(rest, method, refuse(404, unknown_model(shown_name(segment))));
  }
  std::string_view verb = take_segment(rest);
  // versions/1 can precede every verb. Each model has this one version.
  if (verb == "versions") {
    const std::string_view version = take_segment(rest);
    if (version != kModelVersion) {
      const std::string message =
          fmt::format("Request for unknown model: '{}' version {} is not at ready state", model->name, version);
      return refuse_at(rest, method, of_model(model, refuse(404, message)));
    }
    verb = take_segment(rest);
  }
  if (verb == "trace" && rest == "setting") return refuse(501, kNoTracing);
  // Anything after the verb, for example /v2/models/x/infer/y.
  if (!rest.empty()) return of_model(model, refuse(404, "unknown path"));
  if (verb == "infer") return only(host::HttpMethod::post, method, {Endpoint::infer, model, {}});
  if (verb.empty()) return only(host::HttpMethod::get, method, {Endpoint::model_metadata, model, {}});
  if (verb == "ready") return only(host::HttpMethod::get, method, {Endpoint::model_ready, model, {}});
  if (verb == "config") return only(host::HttpMethod::get, method, {Endpoint::model_config, model, {}});
  if (verb == "stats") return only(host::HttpMethod::get, method, {Endpoint::model_stats, model, {}});
  return of_model(model, refuse(404, "unknown path"));
}

// Routes index and models/NAME/load|unload, with or without the name of a repository in front of them.
Target Gateway::route_repository(host::HttpMethod method, std::string_view rest) const {
  std::string_view word = take_segment(rest);
  if (word != "index" && word != "models") word = take_segment(rest);
  if (word == "index" && rest.empty())
    return only(host::HttpMethod::post, method, {Endpoint::repository_index, nullptr, {}});
  if (word != "models") return refuse(404, "unknown path");
  const std::string name = unescape(take_segment(rest));
  const ServedModel* model = find_model(name);
  if (rest != "load" && rest != "unload") return refuse(404, "unknown path");
  if (model == nullptr) {
    const std::string shown = is_utf8(name) ? name : "?";
    return refuse(400, fmt::format("failed to {} '{}', no such service in the services file", rest, shown));
  }
  return only(host::HttpMethod::post, method, {rest == "load" ? Endpoint::load : Endpoint::unload, model, {}});
}

Target Gateway::route_admin(host::HttpMethod method, std::string_view path) const {
  if (path == "/metrics") return only(host::HttpMethod::get, method, {Endpoint::metrics, nullptr, {}});
  if (path == "/status") return only(host::HttpMethod::get, method, {Endpoint::status, nullptr, {}});
  if (path == "/reload") return only(host::HttpMethod::post, method, {Endpoint::reload, nullptr, {}});
  if (path == "/drain") return only(host::HttpMethod::post, method, {Endpoint::drain, nullptr, {}});
  if (path == "/logging") return route_logging(method);
  if (path == "/nodes") return only(host::HttpMethod::get, method, {Endpoint::nodes, nullptr, {}});
  if (path == "/follow") return only(host::HttpMethod::get, method, {Endpoint::follow, nullptr, {}});
  if (path.starts_with("/follow/")) return route_follow(method, path.substr(8));
  if (path.starts_with("/training")) return route_training(method, path.substr(9));
  if (page_ != nullptr) {
    if (auto target = PageDesk::route(method, path)) return std::move(*target);
  }
  // Health is served here as well, so that a probe need not reach the data port.
  if (path == "/health" || path == "/v2/health/live")
    return only(host::HttpMethod::get, method, {Endpoint::live, nullptr, {}});
  if (path == "/v2/health/ready") return only(host::HttpMethod::get, method, {Endpoint::ready, nullptr, {}});
  return refuse(404, "unknown path");
}

Target Gateway::route_follow(host::HttpMethod method, std::string_view rest) const {
  const auto command = parse_follow_command(take_segment(rest));
  if (!command || names_device(*command) == rest.empty()) {
    return refuse(404, fmt::format("unknown command; known: {}; the last two name a device, as in /follow/lose/rack1-0",
                                   fmt::join(kFollowCommands, ", ")));
  }
  return only(host::HttpMethod::post, method, {Endpoint::follow_command, nullptr, {}, *command, unescape(rest)});
}

// ---- Answers ----

std::string Gateway::metadata() const {
  std::string out = R"({"name":"tangram","version":)";
  append_json_string(out, config_.version);
  out += fmt::format(R"(,"extensions":["{}"]}})", fmt::join(kExtensionNames, R"(",")"));
  return out;
}

// As KServe lists them.
std::string Gateway::model_names() const {
  std::string out = R"({"models":[)";
  for (const auto& [name, model] : *by_name_.load(std::memory_order_acquire)) {
    if (model->removed != 0) continue;
    if (!out.ends_with('[')) out += ',';
    append_json_string(out, name);
  }
  return out + "]}";
}

std::string Gateway::model_metadata(const ServedModel& model) const {
  std::string out = R"({"name":)";
  append_json_string(out, model.name);
  out += R"(,"versions":["1"],"platform":)";
  append_json_string(out, model.platform);
  out += R"(,"inputs":[)";
  append_tensor_metadata(out, model.signature.inputs);
  out += R"(],"outputs":[)";
  append_tensor_metadata(out, model.signature.outputs);
  out += "]}";
  return out;
}

// The model configuration in Triton's terms. Batching is described as dynamic without preferred sizes, since the
// scheduler chooses the size of each batch.
std::string Gateway::model_config(const ServedModel& model) const {
  std::string out = R"({"name":)";
  append_json_string(out, model.name);
  out += R"(,"platform":)";
  append_json_string(out, model.platform);
  out += R"(,"backend":"tangram","version_policy":{"latest":{"num_versions":1}},"max_batch_size":)";
  out += fmt::format("{}", std::int32_t{model.samples_max});
  out += R"(,"input":[)";
  append_tensor_config(out, model.signature.inputs);
  out += R"(],"output":[)";
  append_tensor_config(out, model.signature.outputs);
  out += R"(],"dynamic_batching":{"preferred_batch_size":[],"max_queue_delay_microseconds":0}})";
  return out;
}

void Gateway::set_log_level(host::LogLevel level) {
  log_level_ = level;
  if (config_.log != nullptr) config_.log->set_level(level);
}

// Accepts {"level": "requests"}, or Triton's {"log_verbose_level": 1} for the same and {"log_info": false} for less.
// Other settings are ignored. An empty body only reads; the answer is always the level in force. Nothing changes if any
// part of the body is wrong.
Reply Gateway::handle_logging(std::string_view body) {
  if (!body.empty()) {
    host::LogLevel level = log_level();
    std::string wrong;
    JsonReader json(body);
    const bool read =
        json.object([&](std::string_view key) { return read_log_setting(json, key, level, wrong); }) && json.end();
    if (!read) return Reply{400, kJsonType, error_body("failed to parse the request JSON: " + json.problem())};
    if (!wrong.empty()) return Reply{400, kJsonType, error_body(wrong)};
    set_log_level(level);
  }
  const host::LogLevel level = log_level();
  return Reply{200, kJsonType,
               fmt::format(R"({{"level":"{}","log_error":true,"log_warning":{},"log_info":{},"log_verbose_level":{},)"
                           R"("log_format":"json"}})",
                           to_string(level), level >= host::LogLevel::warning, level >= host::LogLevel::info,
                           level == host::LogLevel::requests ? 1 : 0)};
}

// Takes the number first: the reload that this request causes then reports a number at least as high.
std::uint64_t Gateway::ask_for_reload() {
  const std::uint64_t number = reloads.ask();
  config_.request_reload();
  return number;
}

std::variant<Reply, ControlWork> Gateway::handle(const Target& target, std::string_view body, bool open_metrics) {
  const ServedModel* model = target.model;
  const auto later = [](ControlWork work) -> std::variant<Reply, ControlWork> { return work; };
  switch (target.endpoint) {
    case Endpoint::live: return Reply{200, kJsonType, R"({"live":true})"};
    case Endpoint::ready: {
      const bool is = ready();
      // 400 is Triton's status for "not ready". A probe only sees that it is no success.
      return Reply{is ? 200 : 400, kJsonType, fmt::format(R"({{"live":true,"ready":{}}})", is)};
    }
    case Endpoint::metadata: return Reply{200, kJsonType, metadata()};
    case Endpoint::model_metadata: return Reply{200, kJsonType, model_metadata(*model)};
    case Endpoint::model_config: return Reply{200, kJsonType, model_config(*model)};
    case Endpoint::model_names: return Reply{200, kJsonType, model_names()};
    case Endpoint::logging: return handle_logging(body);
    case Endpoint::model_ready:
      return later([model, this](LiveWorld& world, ControlCall& c) {
        // A server that drains refuses new work, whatever the slices could do.
        const bool is = world.why_not_ready(model->service).empty() && !draining();
        c.status = is ? CallStatus::ok : CallStatus::invalid;
        c.answer = R"({"name":)";
        append_json_string(c.answer, model->name);
        c.answer += is ? R"(,"ready":true})" : R"(,"ready":false})";
      });
    case Endpoint::model_stats:
    case Endpoint::all_stats:
      return later([model](LiveWorld& world, ControlCall& c) { c.answer = model_statistics(world, model); });
    case Endpoint::repository_index: {
      bool only_ready = false;
      if (auto wrong = read_index_question(body, only_ready)) return std::move(*wrong);
      return later([only_ready](LiveWorld& world, ControlCall& c) { c.answer = repository_index(world, only_ready); });
    }
    // Loading here opens or closes a service of the plan to clients; it moves no weights.
    case Endpoint::load:
    case Endpoint::unload: {
      const bool load = target.endpoint == Endpoint::load;
      if (auto wrong = read_load_question(body)) return std::move(*wrong);
      return later([model, load](LiveWorld& world, ControlCall&) { world.set_loaded(model->service, load); });
    }
    case Endpoint::metrics:
      return later([this, open_metrics](LiveWorld& world, ControlCall& c) {
        c.answer = prometheus_metrics(world, *this, config_.triton_metrics);
        if (open_metrics) c.answer = to_open_metrics(c.answer);
      });
    case Endpoint::status:
      return later([this](LiveWorld& world, ControlCall& c) { c.answer = status_report(world, *this); });
    case Endpoint::reload:
      if (!config_.request_reload) return Reply{400, kJsonType, error_body("this server has no files to reload")};
      return Reply{200, kJsonType, fmt::format(R"({{"reload":"requested","number":{}}})", ask_for_reload())};
    case Endpoint::follow:
    case Endpoint::follow_command: {
      if (follower_ == nullptr) return Reply{400, kJsonType, error_body("this server does not follow its traffic")};
      const bool asks = target.endpoint == Endpoint::follow;
      return later([this, asks, command = target.command, device = target.device](LiveWorld& world, ControlCall& c) {
        if (!asks) follower_->command(world, command, device, c);
        if (c.status == CallStatus::ok) c.answer = follow_report(world, *follower_);
      });
    }
    case Endpoint::nodes:
      if (nodes_ == nullptr) {
        return Reply{400, kJsonType, error_body("this server has no nodes: it was started without --node-port")};
      }
      return later([this](LiveWorld&, ControlCall& c) { c.answer = nodes_report(*nodes_); });
    case Endpoint::training:
    case Endpoint::training_command: return answer_training(training_, access.on(), target, body);
    case Endpoint::page:
    case Endpoint::events:
    case Endpoint::request_story:
    case Endpoint::what_if: return page_->answer(target, body, *this);
    // Answered before the drain begins. The answer leaves like any other that is in flight then.
    case Endpoint::drain:
      if (!config_.request_drain)
        return Reply{400, kJsonType, error_body("this server cannot be stopped by a request")};
      config_.request_drain();
      return Reply{200, kJsonType, R"({"drain":"requested"})"};
    // Inference never gets here: it becomes a Call and not a ControlCall.
    case Endpoint::infer:
    case Endpoint::none: break;
  }
  return Reply{404, kJsonType, error_body("unknown path")};
}

}  // namespace tangram::serve
