#include "serve/page_desk.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_reader.h"
#include "base/text.h"
#include "control/fleet_text.h"
#include "serve/follower.h"
#include "serve/live_world.h"
#include "serve/reports.h"
#include "serve/training_command.h"
#include "serve/training_desk.h"

namespace tangram::serve {
namespace {

constexpr std::string_view kHtmlType = "text/html; charset=utf-8";
constexpr std::string_view kEventsType = "text/event-stream; charset=utf-8";
// Requests that were not served in time, of one answer.
constexpr std::size_t kTroubledShown = 60;

Target page_refusal(Endpoint endpoint, int status, std::string_view message, std::string headers = {}) {
  return {endpoint, nullptr, Reply{status, kJsonType, error_body(message), std::move(headers), std::string(message)}};
}

Target page_get(Endpoint endpoint, host::HttpMethod method, std::string_view what = {}) {
  if (method == host::HttpMethod::get || method == host::HttpMethod::head) {
    return {.endpoint = endpoint, .model = nullptr, .refusal = {}, .command = {}, .device = std::string(what)};
  }
  return page_refusal(endpoint, 405, "this address answers GET only", "Allow: GET, HEAD\r\n");
}

// A name in an address: %41 is A. A name that is no valid text names nothing.
std::optional<std::string> plain_name(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name += text[i];
      continue;
    }
    unsigned value = 0;
    for (std::size_t k = 1; k <= 2; ++k) {
      const char c = i + k < text.size() ? text[i + k] : 'x';
      const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                             : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a' + 10)
                             : c >= 'A' && c <= 'F' ? static_cast<unsigned>(c - 'A' + 10)
                                                    : 16U;
      if (digit > 15) return std::nullopt;
      value = value * 16 + digit;
    }
    name += static_cast<char>(value);
    i += 2;
  }
  if (!is_utf8(name)) return std::nullopt;
  return name;
}

std::optional<std::string> read_question(std::string_view body, WhatIfQuestion& question) {
  if (body.size() > kWhatIfBodyMax) return "the question is too long";
  JsonReader json(body);
  const bool read = json.object([&](std::string_view key) {
    if (key == "service") return json.string(question.service);
    if (key == "rate_factor") return json.number(question.rate_factor);
    if (key == "promise_factor") return json.number(question.promise_factor);
    return json.skip();
  });
  if (!read || !json.end()) return "failed to parse the request JSON: " + json.problem();
  if (question.service.empty()) return "expected the key service";
  for (const double factor : {question.rate_factor, question.promise_factor}) {
    if (factor >= kWhatIfFactorMin && factor <= kWhatIfFactorMax) continue;
    return fmt::format("rate_factor and promise_factor are between {} and {}", kWhatIfFactorMin, kWhatIfFactorMax);
  }
  return std::nullopt;
}

std::string answer_text(const Result<WhatIfAnswer>& answer) {
  std::string out = R"({"state":"done")";
  const auto add = [&](std::string_view key, const std::string& value) {
    if (value.empty()) return;
    out += fmt::format(R"(,"{}":)", key);
    append_json_string(out, value);
  };
  if (!answer) {
    add("problem", answer.error().message);
  } else {
    add("answer", answer->answer);
    add("bound", answer->bound);
    add("binding", answer->binding);
    add("price", answer->price);
  }
  return out + "}";
}

}  // namespace

std::string_view answer_type(Endpoint endpoint) {
  if (endpoint == Endpoint::metrics) return kMetricsType;
  return endpoint == Endpoint::events ? kEventsType : kJsonType;
}

PageDesk::PageDesk(PageConfig config, std::int64_t start_ms)
    : config_(std::move(config)), start_ms_(start_ms), history_(config_.history) {}

PageDesk::~PageDesk() {
  if (planner_.joinable()) planner_.join();
}

std::optional<Target> PageDesk::route(host::HttpMethod method, std::string_view path) {
  if (path == "/" || path == "/index.html") return page_get(Endpoint::page, method);
  if (path == "/events") return page_get(Endpoint::events, method);
  if (path.starts_with("/events/")) {
    const std::string_view known = path.substr(8);
    const auto number = text::parse_integer(known);
    if (!number || *number < 0) return page_refusal(Endpoint::events, 400, "expected /events/N, the number of a frame");
    return page_get(Endpoint::events, method, known);
  }
  if (path == "/requests") return page_get(Endpoint::request_story, method);
  if (path.starts_with("/requests/")) {
    const auto name = plain_name(path.substr(10));
    if (!name || name->empty()) return page_refusal(Endpoint::request_story, 400, "expected /requests/ID");
    return page_get(Endpoint::request_story, method, *name);
  }
  if (path == "/what-if") {
    if (method == host::HttpMethod::post) {
      return Target{.endpoint = Endpoint::what_if, .model = nullptr, .refusal = {}, .command = {}, .device = "ask"};
    }
    return page_get(Endpoint::what_if, method);
  }
  return std::nullopt;
}

std::variant<Reply, ControlWork> PageDesk::answer(const Target& target, std::string_view body, Gateway& gateway) {
  switch (target.endpoint) {
    case Endpoint::page:
      if (config_.html.empty()) return Reply{404, kJsonType, error_body("this program was built without its page")};
      return Reply{200, kHtmlType, config_.html,
                   fmt::format("Content-Security-Policy: {}\r\nX-Content-Type-Options: nosniff\r\n"
                               "Referrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n",
                               config_.policy)};
    case Endpoint::events:
      return ControlWork([this, &gateway, known = target.device](LiveWorld& world, ControlCall& c) {
        c.answer = events(world, gateway, known);
      });
    case Endpoint::request_story:
      return ControlWork([this, name = target.device](LiveWorld&, ControlCall& c) {
        if (name.empty()) {
          c.answer = R"({"requests":[)";
          for (const auto* story : history_.last_troubled(kTroubledShown)) {
            if (!c.answer.ends_with('[')) c.answer += ',';
            c.answer += control::story_json(history_, *story);
          }
          c.answer += "]}";
          return;
        }
        // The id of a client goes first: a number may be one, too.
        const control::RequestStory* story = history_.find_request(name);
        const auto number = text::parse_integer(name);
        if (story == nullptr && number && *number >= 0) {
          story = history_.find_request(RequestId(static_cast<std::uint64_t>(*number)));
        }
        if (story != nullptr) {
          c.answer = control::story_json(history_, *story);
        } else {
          c.status = CallStatus::not_found;
          c.answer = error_body("nothing is kept of this request");
        }
      });
    default: return target.device == "ask" ? ask_what_if(body) : tell_what_if();
  }
}

// What the frames do not have: the server itself, training, nodes.
std::string PageDesk::about(const LiveWorld& world, const Gateway& gateway) const {
  nlohmann::ordered_json about{{"kind", "live"},
                               {"version", gateway.version()},
                               {"start_ms", start_ms_},
                               {"now_s", to_seconds(world.time())},
                               {"wall_ms", start_ms_ + world.time().time_since_epoch() / std::chrono::milliseconds(1)},
                               {"ready", gateway.ready()},
                               {"draining", gateway.draining()},
                               {"can_plan", static_cast<bool>(config_.what_if)},
                               {"training", nullptr}};
  if (gateway.training() != nullptr) {
    nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
    for (const TrainingView& view : gateway.training()->list()) {
      const auto& progress = view.progress;
      jobs.push_back({{"name", view.job.name},
                      {"state", to_string(view.state)},
                      {"step", progress.step},
                      {"steps_per_s", progress.step_s > 0 ? 1 / progress.step_s : 0},
                      {"loss", progress.losses.empty() ? nlohmann::ordered_json(nullptr)
                                                       : nlohmann::ordered_json(progress.losses.back().loss)},
                      {"slices", view.slices}});
    }
    about["training"] = {{"jobs", std::move(jobs)}};
  }
  return about.dump();
}

std::string PageDesk::events(const LiveWorld& world, const Gateway& gateway, const std::string& known) {
  history_.catch_up(world.scheduler(), world.time());
  std::optional<std::uint64_t> number;
  if (!known.empty()) number = static_cast<std::uint64_t>(text::parse_integer(known).value_or(0));
  return control::events_text(history_, number, about(world, gateway));
}

// ---- What if ----

Reply PageDesk::ask_what_if(std::string_view body) {
  if (!config_.what_if) {
    return {400, kJsonType, error_body("this server cannot plan: it was started without --measurements or --model")};
  }
  WhatIfQuestion question;
  if (const auto wrong = read_question(body, question)) return {400, kJsonType, error_body(*wrong)};
  {
    const host::MutexLock lock(mutex_);
    if (state_ == WhatIfState::running) {
      return {429, kJsonType, error_body("another question is being planned: " + question_), "Retry-After: 5\r\n"};
    }
    state_ = WhatIfState::running;
    question_ = fmt::format("{} with {:g} times the rate and {:g} times the promised time", question.service,
                            question.rate_factor, question.promise_factor);
  }
  // The planner before has ended, for `running` is its last word.
  if (planner_.joinable()) planner_.join();
  planner_ = std::thread([this, question] {
    std::string text = answer_text(config_.what_if(question));
    const host::MutexLock lock(mutex_);
    result_ = std::move(text);
    state_ = WhatIfState::done;
  });
  return tell_what_if();
}

Reply PageDesk::tell_what_if() const {
  const host::MutexLock lock(mutex_);
  if (state_ == WhatIfState::done) return {200, kJsonType, result_};
  if (state_ == WhatIfState::none) return {200, kJsonType, R"({"state":"none"})"};
  std::string out = R"({"state":"running","question":)";
  append_json_string(out, question_);
  return {200, kJsonType, out + "}"};
}

}  // namespace tangram::serve
