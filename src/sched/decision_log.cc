// Turns the lines of a recording into lines for people: names instead of indices, seconds instead of nanoseconds.
#include "sched/decision_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "core/layout.h"
#include "sched/background.h"
#include "sched/recording_text.h"

namespace tangram::sched {
namespace {

// "launch b7 slice 2 padded 32 samples 3: r4 r9 r10".
std::optional<std::string> launch_text(std::string_view text) {
  const auto colon = std::min(text.find(':'), text.size());
  const auto n = read_numbers(text.substr(0, colon));
  const auto members = read_numbers(text.substr(std::min(colon + 1, text.size())));
  if (!n || n->size() != 7 || !members) return std::nullopt;
  std::string line = fmt::format("launch b{} slice {} padded {} samples {}:", (*n)[0], (*n)[1], (*n)[4], (*n)[5]);
  for (const auto member : *members) line += fmt::format(" r{}", member);
  return line;
}

// "resolve r3 rejected earliest 0.209000".
std::optional<std::string> resolve_text(const std::vector<std::int64_t>& n) {
  if (n.size() != 5 || n[1] < 0 || n[1] >= std::ssize(kOutcomeKinds)) return std::nullopt;
  const OutcomeKind kind = kOutcomeKinds[static_cast<std::size_t>(n[1])];
  const TimePoint earliest{Duration(n[3])};
  std::string line = fmt::format("resolve r{} {}", n[0], to_string(kind));
  if (kind == OutcomeKind::rejected && earliest != kTimeNever) {
    line += fmt::format(" earliest {:.6f}", to_seconds(earliest));
  }
  return line;
}

}  // namespace

// nullopt for lines without a decision, such as the head of the recording or a wake.
std::optional<std::string> DecisionLog::read(std::string_view recorded) {
  if (recorded.ends_with('\n')) recorded.remove_suffix(1);
  const std::string_view kind = take_word(recorded);
  if (kind == "<") return read_action(recorded);
  if (kind == ">") return read_event(recorded);
  if (kind == "deployment") learn_names(recorded);
  return std::nullopt;
}

// The end of a batch shows in the outcome of its requests, and a loan in the action that grants it, so neither has a
// line.
std::optional<std::string> DecisionLog::read_event(std::string_view text) {
  // Actions carry no instant of their own, so the event's is kept for them.
  if (const auto when = text::parse_integer(take_word(text))) now_ = TimePoint(Duration(*when));
  const std::string_view word = take_word(text);
  if (word == "plan") {
    learn_names(text);
    return at_time(fmt::format("plan change {}", plans_++));
  }
  const auto n = read_numbers(text);
  if (!n) return std::nullopt;
  if (word == "arrival" && n->size() == 7) return at_time(arrival_text(*n));
  if (word == "abandoned" && n->size() == 2) return at_time(fmt::format("abandoned r{}", (*n)[1]));
  if (word == "lost" && n->size() == 1) return at_time(fmt::format("lose slice {}", (*n)[0]));
  if (word == "returned" && n->size() == 1) return at_time(fmt::format("returned slice {}", (*n)[0]));
  if (word == "reshaped" && n->size() == 2) {
    return at_time(fmt::format("reshaped device {} {}", (*n)[0], (*n)[1] != 0 ? "ok" : "failed"));
  }
  return std::nullopt;
}

std::optional<std::string> DecisionLog::read_action(std::string_view text) const {
  const std::string_view word = take_word(text);
  std::optional<std::string> line;
  if (word == "launch") {
    line = launch_text(text);
  } else if (word == "reshape") {
    const auto device = text::parse_integer(take_word(text));
    if (device)
      line = fmt::format("reshape device {} to {}", *device, layout_text(static_cast<std::size_t>(*device), text));
  } else if (const auto n = read_numbers(text)) {
    if (word == "resolve") line = resolve_text(*n);
    if (word == "stop" && n->size() == 2) line = fmt::format("stop slice {}", (*n)[0]);
    if ((word == "restart" || word == "lend" || word == "recall") && n->size() == 1) {
      line = fmt::format("{} slice {}", word, (*n)[0]);
    }
  }
  if (line) line = at_time(*line);
  return line;
}

// Only names are kept: latency tables are most of a deployment.
void DecisionLog::learn_names(std::string_view deployment) {
  auto read = read_deployment(deployment);
  if (!read) return;
  services_.clear();
  geometries_.clear();
  for (auto& service : read->services) services_.push_back(std::move(service.name));
  for (auto& device : read->devices) geometries_.push_back(std::move(device.geometry));
}

std::string DecisionLog::at_time(const std::string& text) const {
  return fmt::format("{:.6f} {}", to_seconds(now_), text);
}

// Rows of offline jobs are requests in the background; their service and number of samples follow from the job.
std::string DecisionLog::arrival_text(const std::vector<std::int64_t>& n) const {
  Request request;
  request.priority = static_cast<std::int32_t>(n[3]);
  if (is_background(request)) return fmt::format("row r{} size {}", n[0], n[5]);
  const auto service = static_cast<std::size_t>(n[1]);
  const std::string name = service < services_.size() ? services_[service] : fmt::to_string(service);
  return fmt::format("arrival r{} {} size {} samples {}", n[0], name, n[5], n[4]);
}

// As `tangram geometry` writes layouts, or as recorded where a profile has no name.
std::string DecisionLog::layout_text(std::size_t device, std::string_view text) const {
  const auto layout = read_layout(text);
  if (!layout || device >= geometries_.size()) return std::string(text);
  const Geometry& geometry = geometries_[device];
  const bool named =
      std::ranges::all_of(layout->slices, [&](const Slice& slice) { return slice.profile < geometry.profiles.size(); });
  return named ? to_string(geometry, *layout) : std::string(text);
}

}  // namespace tangram::sched
