// Feeds the events of a recording to a new scheduler and compares its lines with the recorded ones.
//
// The scheduler is deterministic: its actions depend only on the events and their instants. So the first line that
// differs shows a change of behaviour, for example between two builds.
//
// Two positions advance through the text: `at_` reads the events, `compared_` follows what the scheduler writes.
#include "sched/replay.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/text.h"
#include "sched/recorded_scheduler.h"
#include "sched/recording_text.h"

namespace tangram::sched {
namespace {

// No recording has so many tenants; a larger number would only take memory.
constexpr std::int64_t kTenantMax = 1'000'000;

// The World of a replay: it does nothing, because the events that follow from actions are in the recording.
class ReplayWorld final : public World {
 public:
  TimePoint now() const override { return now_; }
  void wake_at(TimePoint) override {}
  void launch(const Batch&) override {}
  void stop(SliceId, bool) override {}
  void restart(SliceId) override {}
  void reshape(DeviceId, const Layout&) override {}
  void lend(SliceId) override {}
  void recall(SliceId) override {}
  void resolve(const Request&, const Outcome&, const Batch*) override {}

  void set_now(TimePoint now) { now_ = now; }

 private:
  TimePoint now_;
};

// Plays one recording.
class Player {
 public:
  Player(std::string_view name, std::string_view text, Watcher* watcher)
      : name_(name), text_(text), watcher_(watcher) {}

  Result<ReplayReport> run() {
    TANGRAM_RETURN_IF_ERROR(read_head());
    while (!report_.difference_line) {
      const auto line = next_line();
      if (!line) break;
      if (line->starts_with("< ")) {
        ++report_.actions;
        continue;
      }
      if (*line == "end") {
        ended_ = true;
        break;
      }
      ++report_.events;
      if (!play(*line)) return wrong("not an event of a recording");
    }
    report_.complete = ended_;
    compare_rest();
    return report_;
  }

 private:
  // A whole line of the recording, or nothing at its end.
  std::optional<std::string_view> next_line() {
    const auto end = text_.find('\n', at_);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    ++line_number_;
    return line;
  }

  Error wrong(std::string_view message) const {
    return {ErrorCode::invalid, fmt::format("{}:{}: {}", name_, line_number_, message)};
  }

  // Compares a line that the scheduler writes with the next line of the recording. A recording may be cut at any byte:
  // a line at its end needs to match only as far as the text goes.
  void compare(std::string_view line) {
    if (report_.difference_line) return;
    const std::string_view recorded = text_.substr(compared_, line.size());
    const bool at_end = compared_ + line.size() >= text_.size();
    if (recorded == line.substr(0, at_end ? recorded.size() : line.size())) {
      compared_ += recorded.size();
      compared_lines_ += at_end && recorded.size() < line.size() ? 0 : 1;
      return;
    }
    report_.same = false;
    report_.difference_line = compared_lines_ + 1;
    report_.replayed = line.substr(0, line.size() - 1);
    const auto end = text_.find('\n', compared_);
    report_.recorded = text_.substr(compared_, end == std::string_view::npos ? end : end - compared_);
  }

  // Reports recorded lines that the scheduler did not write. Requires that the end line was read, which has 4 bytes.
  void compare_rest() {
    if (report_.difference_line || !ended_) return;
    if (compared_ + 4 == at_) return;
    report_.same = false;
    report_.difference_line = compared_lines_ + 1;
    const auto end = text_.find('\n', compared_);
    report_.recorded = text_.substr(compared_, end == std::string_view::npos ? end : end - compared_);
  }

  // Reads the first three lines and makes the scheduler that they describe.
  Result<Nothing> read_head() {
    TANGRAM_RETURN_IF_ERROR(read_title());
    const auto config_line = next_line();
    const auto deployment_line = next_line();
    if (!config_line || !deployment_line || !config_line->starts_with("config ") ||
        !deployment_line->starts_with("deployment ")) {
      return wrong("expected config and deployment");
    }
    const auto config = read_config(config_line->substr(7));
    if (!config) return wrong("not a valid configuration: " + config.error().message);
    const auto deployment = read_deployment(deployment_line->substr(11));
    if (!deployment) return wrong("not a valid deployment: " + deployment.error().message);
    world_.set_now(kTimeZero);
    // Without a limit of bytes: the recording itself ends the comparison.
    recorded_.emplace(
        world_, *deployment, *config, [this](std::string_view line) { compare(line); }, UINT64_MAX, watcher_);
    return Nothing{};
  }

  // Versions are not converted: an older scheduler decided otherwise, which a replay would only find out line by line.
  Result<Nothing> read_title() {
    constexpr std::string_view kTitle = "tangram recording ";
    const auto title = next_line();
    if (!title || !title->starts_with(kTitle)) return wrong("not a recording");
    const auto version = text::parse_integer(title->substr(kTitle.size()));
    if (!version) return wrong("not a recording");
    if (*version == kRecordingVersion) return Nothing{};
    return wrong(fmt::format(
        "the recording has version {}; this build replays version {}. Use the build that made the recording", *version,
        kRecordingVersion));
  }

  // One event. Time must not run backwards, which the scheduler relies on.
  bool play(std::string_view line) {
    if (!line.starts_with("> ")) return false;
    line.remove_prefix(2);
    const auto when = text::parse_integer(take_word(line));
    if (!when || TimePoint(Duration(*when)) < world_.now()) return false;
    world_.set_now(TimePoint(Duration(*when)));
    const std::string_view word = take_word(line);
    if (word == "plan") return play_plan(line);
    const auto n = read_numbers(line);
    return n && play_numbers(word, *n);
  }

  // Each play function returns false for an event that the scheduler does not accept in its state. The scheduler's own
  // checks end the process, which is right for a bug but not for a broken file.
  bool play_plan(std::string_view text) {
    const auto next = read_deployment(text);
    if (!next || recorded_->scheduler().moving()) return false;
    if (next->services.size() < recorded_->scheduler().state().deployment.services.size()) return false;
    recorded_->on_plan_ready(*next);
    return true;
  }

  bool play_numbers(std::string_view word, const std::vector<std::int64_t>& n) {
    const auto& state = recorded_->scheduler().state();
    const auto slice_known = [&] { return !n.empty() && static_cast<std::uint64_t>(n[0]) < state.slices.size(); };
    const auto slice = [&] { return SliceId(static_cast<std::uint32_t>(n[0])); };
    if (word == "arrival" && n.size() == 7) return play_arrival(n);
    if (word == "abandoned" && n.size() == 2) {
      if (n[0] < 0 || n[0] > kNoRecord) return false;
      recorded_->on_abandoned(static_cast<RecordNumber>(n[0]), RequestId(static_cast<std::uint64_t>(n[1])));
      return true;
    }
    if (word == "tenant" && n.size() == 2) {
      if (n[0] < 0 || n[0] > kTenantMax || n[1] <= 0) return false;
      recorded_->on_tenant(TenantId(static_cast<std::uint32_t>(n[0])), n[1]);
      return true;
    }
    if (word == "wake" && n.empty()) {
      recorded_->on_wake();
      return true;
    }
    if (word == "correction" && n.size() == 5) {
      if (std::ranges::any_of(n, [](std::int64_t number) { return number < 0; }) || n[2] > UINT32_MAX) return false;
      return recorded_->on_correction(
          {static_cast<std::size_t>(n[0]), static_cast<std::size_t>(n[1]), static_cast<std::uint32_t>(n[2])}, n[3],
          n[4]);
    }
    if (word == "ending" && n.empty()) {
      recorded_->on_ending();
      return true;
    }
    if (word == "reshaped" && n.size() == 2 && static_cast<std::uint64_t>(n[0]) < state.deployment.devices.size()) {
      recorded_->on_reshaped(DeviceId(static_cast<std::uint32_t>(n[0])), n[1] != 0);
      return true;
    }
    if (!slice_known()) return false;
    const auto status = state.slices[slice().index()].status;
    if (word == "done" && n.size() == 3) {
      recorded_->on_batch_done({slice(), BatchId(static_cast<std::uint64_t>(n[1])), n[2] == 1, n[2] == 2, n[2] == 3});
    } else if (word == "lost" && n.size() == 1) {
      recorded_->on_slice_lost(slice());
    } else if (word == "restarted" && n.size() == 2 && status == SliceStatus::restarting) {
      recorded_->on_restarted(slice(), n[1] != 0);
    } else if (word == "lend" && n.size() == 1) {
      recorded_->lend(slice());
    } else if (word == "recall" && n.size() == 1) {
      recorded_->recall(slice());
    } else if (word == "returned" && n.size() == 1 && status == SliceStatus::recalling) {
      recorded_->on_returned(slice());
    } else {
      return false;
    }
    return true;
  }

  bool play_arrival(const std::vector<std::int64_t>& n) {
    Request request;
    request.id = RequestId(static_cast<std::uint64_t>(n[0]));
    request.service = ServiceId(static_cast<std::uint32_t>(n[1]));
    request.tenant = TenantId(static_cast<std::uint32_t>(n[2]));
    request.priority = static_cast<std::int32_t>(n[3]);
    request.samples = static_cast<std::int32_t>(n[4]);
    request.size = n[5];
    request.arrival = world_.now();
    request.deadline = TimePoint(Duration(n[6]));
    if (request.service.index() >= recorded_->scheduler().state().deployment.services.size()) return false;
    // Buckets and latency tables are looked up by these without a check.
    if (request.samples < 1 || request.size < 1) return false;
    recorded_->on_arrival(request);
    return true;
  }

  std::string_view name_;
  std::string_view text_;
  Watcher* const watcher_;  // Null: none.
  std::size_t at_ = 0;
  std::uint64_t line_number_ = 0;
  std::size_t compared_ = 0;
  std::uint64_t compared_lines_ = 0;
  bool ended_ = false;
  ReplayReport report_;
  ReplayWorld world_;
  std::optional<RecordedScheduler> recorded_;
};

}  // namespace

Result<ReplayReport> replay(std::string_view name, std::string_view recording, Watcher* watcher) {
  return Player(name, recording, watcher).run();
}

// Backwards from the end: after the last event come only its actions, or half a line of a recording that was cut off.
TimePoint last_event_of(std::string_view recording) {
  auto begin = recording.rfind("\n> ");
  while (begin != std::string_view::npos) {
    std::string_view rest = recording.substr(begin + 3);
    if (rest.find('\n') != std::string_view::npos) {
      if (const auto when = text::parse_integer(take_word(rest))) return TimePoint(Duration(*when));
    }
    if (begin == 0) break;
    begin = recording.rfind("\n> ", begin - 1);
  }
  return kTimeZero;
}

}  // namespace tangram::sched
