// What the admin port answers for the page: the page itself, the fleet's history as events, the stories of requests,
// and what-if questions about the plan.
//
// A stream of events ends after what is known, and says when to come back (`retry`): a reader costs no connection that
// must be drained, no memory for what it has not read, and one small answer a second.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

#include "control/fleet_history.h"
#include "host/mutex.h"
#include "serve/gateway.h"

namespace tangram::serve {

// What a what-if question changes of one service.
struct WhatIfQuestion {
  std::string service;
  double rate_factor = 1;
  double promise_factor = 1;
};
struct WhatIfAnswer {
  std::string answer;   // "2 devices, as now."
  std::string bound;    // What is proved.
  std::string binding;  // The service that decides.
  std::string price;    // Empty: no price is known.
};
inline constexpr double kWhatIfFactorMin = 0.01;
inline constexpr double kWhatIfFactorMax = 100;
// Bytes of a question; it has three short fields.
inline constexpr std::size_t kWhatIfBodyMax = 4096;

struct PageConfig {
  std::string html;    // Empty: this server has no page. The events are there all the same.
  std::string policy;  // Content-Security-Policy of the page.
  control::FleetHistoryOptions history;
  // Plans anew with the change; may take long, and is called on a thread of its own, one call at a time. Empty: the
  // server cannot plan. Errors: no such service.
  std::function<Result<WhatIfAnswer>(const WhatIfQuestion&)> what_if;
};

class PageDesk {
 public:
  // `start_ms`: the wall clock at time zero, in milliseconds since 1970.
  PageDesk(PageConfig config, std::int64_t start_ms);
  ~PageDesk();
  PageDesk(const PageDesk&) = delete;
  PageDesk& operator=(const PageDesk&) = delete;

  // On the thread of the world.
  control::FleetHistory& history() { return history_; }

  // The address of the page's parts. Nothing: it is none of them.
  static std::optional<Target> route(host::HttpMethod method, std::string_view path);
  // Any thread. Requires a target of route().
  std::variant<Reply, ControlWork> answer(const Target& target, std::string_view body, Gateway& gateway);

 private:
  enum class WhatIfState : std::uint8_t { none, running, done };

  std::string about(const LiveWorld& world, const Gateway& gateway) const;
  std::string events(const LiveWorld& world, const Gateway& gateway, const std::string& known);
  Reply ask_what_if(std::string_view body);
  Reply tell_what_if() const;

  const PageConfig config_;
  const std::int64_t start_ms_;
  control::FleetHistory history_;  // Used on the thread of the world only.

  mutable host::Mutex mutex_;
  WhatIfState state_ GUARDED_BY(mutex_) = WhatIfState::none;
  std::string question_ GUARDED_BY(mutex_);
  std::string result_ GUARDED_BY(mutex_);  // JSON.
  std::thread planner_;                    // Joined before the next question, and at the end.
};

// The media type of an answer that the world gives.
std::string_view answer_type(Endpoint endpoint);

}  // namespace tangram::serve
