#include "control/follow.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace tangram::control {
namespace {

constexpr std::array<std::string_view, 3> kModes{"act", "advise", "ask"};

// "rank: rate 12 -> 18; ask: sizes moved by 0.2, ..."
std::string reason_of(const PlanStep& step) { return fmt::format("{}", fmt::join(step.reasons, "; ")); }

}  // namespace

std::string_view to_string(FollowMode mode) { return kModes[static_cast<std::size_t>(mode)]; }

std::string_view to_string(FollowState state) { return kFollowStates[static_cast<std::size_t>(state)]; }

std::optional<FollowMode> parse_follow_mode(std::string_view text) {
  for (std::size_t i = 0; i < kModes.size(); ++i) {
    if (kModes[i] == text) return static_cast<FollowMode>(i);
  }
  return std::nullopt;
}

RunningPlan make_running_plan(sched::Deployment deployment, Standing standing, PlanStep step) {
  return {std::make_shared<const sched::Deployment>(std::move(deployment)),
          std::make_shared<const Standing>(std::move(standing)), std::move(step)};
}

Follow::Follow(const FollowOptions& options, const std::vector<Service>& services, RunningPlan running)
    : options_(options), guard_(options.guard, services), running_(std::move(running)) {}

void Follow::set_past(Past past) {
  moves_ = past.moves;
  moves_undone_ = past.moves_undone;
  paused_ = past.paused;
  held_ = past.held;
  last_reason_ = std::move(past.last_reason);
  previous_ = std::move(past.previous);
  for (const Duration ago : past.moves_ago) recent_.push_back(kTimeZero - ago);
  std::ranges::sort(recent_);
}

std::vector<Duration> Follow::recent_moves(TimePoint now) const {
  std::vector<Duration> ago;
  for (const TimePoint at : recent_) {
    if (at > now - options_.moves_in) ago.push_back(now - at);
  }
  return ago;
}

std::optional<FreezeWindow> parse_freeze(std::string_view text) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto time_of = [](std::string_view clock) -> std::optional<Duration> {
    if (clock.size() != 5 || clock[2] != ':') return std::nullopt;
    const auto hours = text::parse_integer(clock.substr(0, 2));
    const auto minutes = text::parse_integer(clock.substr(3));
    if (!hours || !minutes || *hours < 0 || *hours > 23 || *minutes < 0 || *minutes > 59) return std::nullopt;
    return std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  };
  const auto from = time_of(text.substr(0, dash));
  const auto until = time_of(text.substr(dash + 1));
  if (!from || !until) return std::nullopt;
  return FreezeWindow{*from, *until};
}

FollowState Follow::state() const {
  if (moving_) return FollowState::moving;
  if (held_) return FollowState::held;
  if (paused_) return FollowState::paused;
  if (guard_.watching()) return FollowState::guarding;
  return proposal_ ? FollowState::proposed : FollowState::watching;
}

bool Follow::frozen(TimePoint now) const {
  constexpr Duration kDay = std::chrono::hours(24);
  const Duration today = (now - kTimeZero + options_.day_at_zero) % kDay;
  return std::ranges::any_of(options_.freezes, [&](const FreezeWindow& window) {
    const bool after = today >= window.from;
    const bool before = today < window.until;
    return window.from <= window.until ? after && before : after || before;
  });
}

bool Follow::pace_allows(TimePoint now) const {
  if (frozen(now)) return false;
  if (options_.moves_max == 0) return true;
  std::size_t recent = 0;
  for (const TimePoint at : recent_) recent += at > now - options_.moves_in ? 1 : 0;
  return recent < static_cast<std::size_t>(options_.moves_max);
}

// A guard that watches does not keep the controller from planning: traffic may rise meanwhile, and a plan for more is
// no worse than the one that is watched.
bool Follow::wants_plans(TimePoint now) const { return !moving_ && !held_ && !paused_ && pace_allows(now); }

std::optional<FollowMove> Follow::on_observed(const Observation& seen) {
  guard_.observe(seen);
  if (moving_ || !guard_.watching() || !previous_) return std::nullopt;
  const std::string verdict = guard_.verdict();
  if (verdict.empty()) return std::nullopt;
  guard_.end();
  FollowMove back{*previous_, true};
  back.plan.step.reasons = {"taken back, " + verdict};
  return back;
}

std::optional<FollowMove> Follow::on_planned(RunningPlan planned, TimePoint now, bool urgent) {
  // Asked for before somebody paused, or before the move that goes on.
  const bool vetoed = moving_ || paused_ || (held_ && !urgent);
  if (vetoed || (!urgent && !pace_allows(now))) return std::nullopt;
  if (options_.mode == FollowMode::act) return FollowMove{std::move(planned), false};
  last_reason_ = fmt::format("would move to {} devices: {}", planned.step.devices, reason_of(planned.step));
  proposal_ = std::move(planned);
  return std::nullopt;
}

void Follow::on_begun(const FollowMove& move, TimePoint now) {
  const PlanStep& next = move.plan.step;
  moving_ = true;
  undoing_ = move.undo;
  changes_ = move.undo || next.devices_recut > 0 || next.replicas_loaded > 0 || next.devices != running_.step.devices ||
             next.compute_slices != running_.step.compute_slices;
  last_reason_ = reason_of(next);
  proposal_.reset();
  if (!changes_) {
    running_ = move.plan;
    return;
  }
  if (move.undo) {
    ++moves_undone_;
    previous_.reset();
    held_ = true;
  } else {
    ++moves_;
    previous_ = std::move(running_);
  }
  running_ = move.plan;
  recent_.push_back(now);
  while (recent_.front() <= now - options_.moves_in) recent_.pop_front();
}

void Follow::on_failed(const FollowMove& move, const std::string& reason) {
  last_reason_ = fmt::format("could not move ({}): {}", reason_of(move.plan.step), reason);
}

void Follow::on_way_back_lost() {
  previous_.reset();
  guard_.end();
}

void Follow::on_services_changed(const std::vector<Service>& services) {
  guard_.set_services(services);
  previous_.reset();
  proposal_.reset();
}

void Follow::on_moved(TimePoint now) {
  TANGRAM_CHECK(moving_, "a move has begun");
  moving_ = false;
  if (undoing_ || !changes_ || !previous_) return;  // There is nothing to go back to.
  guard_.begin(now, running_.standing->planned);
}

Result<Nothing> Follow::may_ask() const {
  if (!paused_ && !held_) return Nothing{};
  return Error{ErrorCode::invalid,
               fmt::format("following is {}; `tangram follow resume` lets it plan again", paused_ ? "paused" : "held")};
}

Result<Nothing> Follow::pause() {
  paused_ = true;
  proposal_.reset();
  last_reason_ = "paused";
  return Nothing{};
}

Result<Nothing> Follow::resume() {
  if (!paused_ && !held_) return Error{ErrorCode::invalid, "following is neither paused nor held"};
  paused_ = held_ = false;
  last_reason_ = "resumed";
  return Nothing{};
}

Result<FollowMove> Follow::approve() {
  if (!proposal_) return Error{ErrorCode::invalid, "there is no plan to approve"};
  if (moving_) return Error{ErrorCode::unavailable, "the gateway is still moving to another plan"};
  return FollowMove{*proposal_, false};
}

Result<FollowMove> Follow::undo() {
  if (moving_) return Error{ErrorCode::unavailable, "the gateway is still moving to another plan"};
  if (!previous_) return Error{ErrorCode::invalid, "there is no earlier plan to return to"};
  guard_.end();
  FollowMove back{*previous_, true};
  back.plan.step.reasons = {"taken back, asked for"};
  return back;
}

}  // namespace tangram::control
