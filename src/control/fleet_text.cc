// JSON is written by hand: a frame goes to every reader once a second, and is small.

#include "control/fleet_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/json_reader.h"

namespace tangram::control {
namespace {

// The share of busy time that a frame shows is over this at least, so that it does not flicker.
constexpr Duration kBusyOver = std::chrono::seconds(5);
// Marks that a reader gets who wants to know how things are now.
constexpr std::size_t kMarksNow = 60;
// Stories in a file.
constexpr std::size_t kStoriesInFile = 1500;

std::string json_text(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string json_number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
}

// Rounded down, so that a broken promise does not read as a kept one.
std::string share_text(std::optional<double> share) {
  return share ? fmt::format("{:g}", std::floor(*share * 1e5 + 1e-6) / 1e5) : "null";
}

template <typename List, typename Write>
std::string list_of(const List& list, const Write& write) {
  std::string out = "[";
  for (const auto& each : list) {
    if (out.size() > 1) out += ',';
    out += write(each);
  }
  return out + "]";
}

double in_seconds(TimePoint when) { return std::round(to_seconds(when) * 1e6) / 1e6; }

// Every frame of `from` that a reader may see: at most `max`, the newest of them whole, the others evenly.
std::vector<const FleetFrame*> evenly(const std::deque<FleetFrame>& frames, std::uint64_t after, std::size_t max) {
  std::vector<const FleetFrame*> all;
  for (const auto& frame : frames) {
    if (frame.number > after) all.push_back(&frame);
  }
  if (all.size() <= max) return all;
  std::vector<const FleetFrame*> some;
  for (std::size_t i = 0; i < max; ++i) some.push_back(all[i * (all.size() - 1) / (max - 1)]);
  return some;
}

void append_event(std::string& out, std::string_view kind, std::uint64_t id, std::string_view data) {
  fmt::format_to(std::back_inserter(out), "event: {}\n", kind);
  if (id > 0) fmt::format_to(std::back_inserter(out), "id: {}\n", id);
  fmt::format_to(std::back_inserter(out), "data: {}\n\n", data);
}

}  // namespace

std::string fleet_json(const FleetFaces& faces) {
  const auto price = FleetHistory::cost_per_hour(faces);
  std::string out = fmt::format(R"({{"number":{},"at_s":{},"cost_per_hour":{},"devices":)", faces.number,
                                json_number(in_seconds(faces.at), 12), price ? json_number(*price, 6) : "null");
  out += list_of(faces.devices, [](const DeviceFace& device) {
    return fmt::format(R"({{"name":{},"type":{},"units":{},"price_per_hour":{}}})", json_text(device.name),
                       json_text(device.type), device.units,
                       device.price_per_hour > 0 ? json_number(device.price_per_hour, 6) : "null");
  });
  out += R"(,"services":)";
  out += list_of(faces.services, [](const ServiceFace& service) {
    return fmt::format(R"({{"name":{},"promise_ms":{},"percentile":{}}})", json_text(service.name),
                       json_number(service.promise_ms, 8), json_number(service.percentile, 8));
  });
  out += R"(,"slices":)";
  out += list_of(faces.slices, [](const SliceFace& slice) {
    return fmt::format(
        R"({{"id":{},"name":{},"device":{},"profile":{},"start":{},"units":{},"process":{},"services":{}}})",
        slice.id.value(), json_text(slice.name), slice.device, json_text(slice.profile), slice.start, slice.units,
        slice.process, list_of(slice.services, [](ServiceId id) { return fmt::format("{}", id.value()); }));
  });
  return out + "}";
}

std::string mark_json(const FleetMark& mark) {
  return fmt::format(
      R"({{"number":{},"kind":"{}","from_s":{},"until_s":{},"title":{},"seen":{},"decided":{},"why":{},"cost":{},)"
      R"("services":{},"related":{}}})",
      mark.number, to_string(mark.kind), json_number(in_seconds(mark.from), 12),
      mark.until ? json_number(in_seconds(*mark.until), 12) : "null", json_text(mark.title), json_text(mark.seen),
      json_text(mark.decided), json_text(mark.why), json_text(mark.cost),
      list_of(mark.services, [](ServiceId id) { return fmt::format("{}", id.value()); }),
      list_of(mark.related, [](std::uint64_t id) { return fmt::format("{}", id); }));
}

std::string story_json(const FleetHistory& history, const RequestStory& story) {
  const FleetFaces& faces = history.faces().back();
  const auto name_of = [&](ServiceId id) {
    return id.index() < faces.services.size() ? faces.services[id.index()].name : fmt::format("{}", id.value());
  };
  const bool ran = story.padded > 0;
  const TimePoint started = ran ? story.launched : story.ended;
  // The name of its slice at that time.
  const FleetFrame* frame = history.frame_at(story.ended);
  const FleetFaces& then = frame == nullptr ? faces : history.faces_at(*frame);
  const std::string slice = then.find(story.slice) != nullptr ? then.name_of(story.slice) : faces.name_of(story.slice);
  return fmt::format(
      R"({{"id":{},"service":{},"queue":{},"outcome":"{}","reason":"{}","size":{},"samples":{},"arrived_s":{},)"
      R"("ended_s":{},"deadline_ms":{},"waited_ms":{},"ran_ms":{},"expected_ms":{},"waiting":{},"slice":{},)"
      R"("batch":{},"batch_samples":{},"bucket":{},"needed":{}}})",
      story.id.value(), json_text(name_of(story.service)), json_text(name_of(story.queue)),
      tangram::to_string(story.outcome), tangram::to_string(story.reason), story.size, story.samples,
      json_number(in_seconds(story.arrival), 12), json_number(in_seconds(story.ended), 12),
      json_number(to_milliseconds(story.deadline - story.arrival), 8),
      json_number(to_milliseconds(started - story.arrival), 6),
      ran ? json_number(to_milliseconds(story.ended - story.launched), 6) : "null",
      ran ? json_number(to_milliseconds(story.predicted), 6) : "null", story.waiting, ran ? json_text(slice) : "null",
      ran ? fmt::format("{}", story.batch.value()) : "null", ran ? fmt::format("{}", story.batch_samples) : "null",
      ran ? fmt::format("{}", story.padded) : "null", json_text(history.needs_of(story)));
}

// ---- Frames ----

std::string FrameWriter::slice_text(const FleetFrame& frame, const SliceSample& sample) const {
  return fmt::format(R"([{},"{}",{:.2g},{}])", sample.slice.value(), to_string(sample.use),
                     history_.busy_share(frame, sample, kBusyOver),
                     sample.running ? fmt::format("{}", sample.running->value()) : "null");
}

std::string FrameWriter::service_text(const FleetFrame& frame, std::size_t service) const {
  const ServiceId id(static_cast<std::uint32_t>(service));
  const ServiceSample& sample = frame.services[service];
  const ServiceTotals& totals = sample.totals;
  std::string rejected;
  for (std::size_t i = 1; i < kRejectReasons.size(); ++i) {
    if (totals.rejected[i] == 0) continue;
    rejected += fmt::format(R"({}"{}":{})", rejected.empty() ? "" : ",", tangram::to_string(kRejectReasons[i]),
                            totals.rejected[i]);
  }
  const auto share = [&](std::optional<Duration> span) { return share_text(history_.in_time(frame, id, span).share); };
  return fmt::format(
      R"({{"id":{},"share_1m":{},"share_1h":{},"share":{},"rate":{:.4g},"p50_ms":{:.4g},"p95_ms":{:.4g},)"
      R"("p99_ms":{:.4g},"served":{},"late":{},"failed":{},"abandoned":{},"rejected":{{{}}},"waiting":{},"slices":{}}})",
      service, share(std::chrono::minutes(1)), share(std::chrono::hours(1)), share(std::nullopt),
      history_.arrivals_per_s(frame, id), sample.p50_ms, sample.p95_ms, sample.p99_ms, totals.of(OutcomeKind::served),
      totals.of(OutcomeKind::late), totals.of(OutcomeKind::failed), totals.of(OutcomeKind::abandoned), rejected,
      sample.waiting, sample.slices);
}

std::map<std::uint32_t, std::string> FrameWriter::slices_of(const FleetFrame& frame) const {
  std::map<std::uint32_t, std::string> texts;
  for (const auto& sample : frame.slices) texts.emplace(sample.slice.value(), slice_text(frame, sample));
  return texts;
}

std::map<std::size_t, std::string> FrameWriter::services_of(const FleetFrame& frame) const {
  std::map<std::size_t, std::string> texts;
  for (std::size_t s = 0; s < frame.services.size(); ++s) texts.emplace(s, service_text(frame, s));
  return texts;
}

template <typename Id>
void FrameWriter::append_changes(std::string& out, std::map<Id, std::string>& known, std::map<Id, std::string> now) {
  out += '[';
  for (const auto& [id, text] : now) {
    const auto before = known.find(id);
    if (before != known.end() && before->second == text) continue;
    if (!out.ends_with('[')) out += ',';
    out += text;
  }
  out += ']';
  known = std::move(now);
}

void FrameWriter::know(const FleetFrame& frame) {
  slices_ = slices_of(frame);
  services_ = services_of(frame);
  before_ = frame.number;
}

void FrameWriter::write(std::string& out, const FleetFrame& frame) {
  auto slices = slices_of(frame);
  // A slice that has gone would stay in the reader's picture: then the frame is whole.
  const bool gone = std::ranges::any_of(slices_, [&](const auto& known) { return !slices.contains(known.first); });
  if (gone) {
    slices_.clear();
    services_.clear();
    before_ = 0;
  }
  fmt::format_to(std::back_inserter(out), R"({{"number":{},"since":{},"at_s":{},"fleet":{},"moving":{},"slices":)",
                 frame.number, before_ == 0 ? "null" : fmt::format("{}", before_),
                 json_number(in_seconds(frame.at), 12), frame.faces, frame.moving);
  append_changes(out, slices_, std::move(slices));
  out += R"(,"services":)";
  append_changes(out, services_, services_of(frame));
  out += '}';
  before_ = frame.number;
}

// ---- Pages and streams ----

std::string history_json(const FleetHistory& history, const RecordedPage& page) {
  std::string out = fmt::format(R"({{"version":1,"kind":{},"title":{},"about":{},"fleets":)", json_text(page.kind),
                                json_text(page.title), json_text(page.about));
  out += list_of(history.faces(), fleet_json);
  out += R"(,"frames":[)";
  FrameWriter writer(history);
  for (const auto& frame : history.frames()) {
    if (!out.ends_with('[')) out += ',';
    writer.write(out, frame);
  }
  out += R"(],"marks":)";
  out += list_of(history.marks().list(), mark_json);
  out += R"(,"requests":)";
  out += list_of(history.last_troubled(kStoriesInFile),
                 [&](const RequestStory* story) { return story_json(history, *story); });
  return out + "}";
}

std::string events_text(const FleetHistory& history, std::optional<std::uint64_t> known, std::string_view about,
                        std::size_t frames_max) {
  std::string out = "retry: 1000\n\n";
  append_event(out, "about", 0, about);
  if (history.frames().empty()) return out;
  std::vector<const FleetFrame*> frames;
  if (known) {
    frames = evenly(history.frames(), *known, std::max<std::size_t>(frames_max, 2));
  } else {
    frames.push_back(&history.frames().back());
  }
  FrameWriter writer(history);
  const FleetFrame* base = nullptr;
  if (known && *known > 0) {
    const auto found = std::ranges::lower_bound(history.frames(), *known, {}, &FleetFrame::number);
    if (found != history.frames().end() && found->number == *known) base = &*found;
  }
  if (base != nullptr) writer.know(*base);
  // The faces that these frames need, and the reader may not have.
  std::set<std::uint32_t> needed;
  for (const auto* frame : frames) needed.insert(frame->faces);
  for (const auto& faces : history.faces()) {
    if (needed.contains(faces.number) && (base == nullptr || faces.number > base->faces)) {
      append_event(out, "fleet", 0, fleet_json(faces));
    }
  }
  const auto& marks = history.marks().list();
  const std::size_t first = !known && marks.size() > kMarksNow ? marks.size() - kMarksNow : 0;
  for (std::size_t i = first; i < marks.size(); ++i) {
    if (!known || marks[i].changed > *known) append_event(out, "mark", 0, mark_json(marks[i]));
  }
  for (const auto* frame : frames) {
    std::string text;
    writer.write(text, *frame);
    append_event(out, "frame", frame->number, text);
  }
  return out;
}

}  // namespace tangram::control
