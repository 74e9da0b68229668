// Words for what happened. Every sentence is made from what the scheduler knew at that instant; nothing is guessed
// later, except where a broken promise is explained by the marks that overlap it.

#include "control/fleet_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "core/layout.h"

namespace tangram::control {
namespace {

// Slices of one device that are lost within this are one loss.
constexpr Duration kSameLoss = std::chrono::seconds(1);
// A service that has rejected nothing for this long has stopped to.
constexpr Duration kRefusalsOver = std::chrono::seconds(10);
// Fewer requests in a minute say little about a share.
constexpr std::uint64_t kRequestsMin = 20;
// How far back a cause may lie of what a minute shows.
constexpr Duration kCauseBefore = std::chrono::seconds(60);

// Rounded down: 98.96 % must not read as 99.
std::string percent(double share) { return fmt::format("{:g} %", std::floor(share * 1e4 + 1e-6) / 100); }

std::string seconds_text(Duration span) {
  const double s = to_seconds(span);
  return s < 10 ? fmt::format("{:.2f} s", s) : s < 600 ? fmt::format("{:.0f} s", s) : fmt::format("{:.0f} min", s / 60);
}

std::string at_text(TimePoint when) {
  const auto s = static_cast<std::int64_t>(to_seconds(when));
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string counted(std::size_t n, std::string_view one) { return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s"); }

// "412 too late, 3 over its rate": why requests were rejected.
std::string reasons_of(const ServiceTotals& totals) {
  static constexpr std::array<std::string_view, kRejectReasons.size()> kWords{
      "",
      "because no slice could answer by the deadline",
      "because the limit of waiting requests was reached",
      "because no bucket of the plan takes their size",
      "because no slice served them",
      "because the service exceeded the rate that its shared slices have room for"};
  std::vector<std::string> parts;
  for (std::size_t i = 1; i < kRejectReasons.size(); ++i) {
    if (totals.rejected[i] > 0) parts.push_back(fmt::format("{} {}", totals.rejected[i], kWords[i]));
  }
  return parts.empty() ? "none" : text::join(parts, ", ");
}

std::string names_of(const FleetFaces& faces, const std::vector<ServiceId>& services) {
  std::vector<std::string> names;
  for (const ServiceId id : services) {
    if (id.index() < faces.services.size()) names.push_back(faces.services[id.index()].name);
  }
  return names.empty() ? "no service" : text::join(names, ", ");
}

std::size_t slices_for(const FleetFaces& faces, ServiceId service) {
  return static_cast<std::size_t>(std::ranges::count_if(faces.slices, [&](const SliceFace& slice) {
    return std::ranges::find(slice.services, service) != slice.services.end();
  }));
}

// The devices that the next plan cuts in another way, as sentences, and the services on them.
struct CutsBetween {
  std::vector<std::string> cuts;
  std::size_t same = 0;
};
CutsBetween cuts_between(const sched::Deployment& now, const sched::Deployment& next) {
  CutsBetween result;
  for (const auto& device : next.devices) {
    const auto before = std::ranges::find(now.devices, device.name, &sched::DeployedDevice::name);
    if (before != now.devices.end() && before->layout == device.layout) {
      ++result.same;
      continue;
    }
    const bool known = !device.geometry.profiles.empty();
    const std::string old =
        before == now.devices.end() || !known ? "not used" : to_string(before->geometry, before->layout);
    result.cuts.push_back(
        fmt::format("{}: {} becomes {}", device.name, old, known ? to_string(device.geometry, device.layout) : "?"));
  }
  return result;
}

}  // namespace

std::string_view to_string(MarkKind kind) {
  switch (kind) {
    case MarkKind::move: return "move";
    case MarkKind::loss: return "loss";
    case MarkKind::lend: return "lend";
    case MarkKind::refusals: return "refusals";
    case MarkKind::broken: return "broken";
  }
  return "";
}

ServiceTotals ServiceTotals::operator-(const ServiceTotals& before) const {
  ServiceTotals result = *this;
  result.arrived -= before.arrived;
  for (std::size_t i = 0; i < outcomes.size(); ++i) result.outcomes[i] -= before.outcomes[i];
  for (std::size_t i = 0; i < rejected.size(); ++i) result.rejected[i] -= before.rejected[i];
  result.impossible -= before.impossible;
  result.took_ns -= before.took_ns;
  result.predicted_ns -= before.predicted_ns;
  return result;
}

// ---- The list ----

FleetMark& FleetMarks::add(const MarkContext& at, MarkKind kind, std::string title) {
  if (marks_.size() >= kMarksMax) {
    const auto over = std::ranges::find_if(marks_, [](const FleetMark& mark) { return mark.until.has_value(); });
    marks_.erase(over == marks_.end() ? marks_.begin() : over);
  }
  FleetMark& mark = marks_.emplace_back();
  mark.number = next_++;
  mark.kind = kind;
  mark.from = at.now;
  mark.title = std::move(title);
  mark.changed = at.frame;
  return mark;
}

FleetMark* FleetMarks::find(std::uint64_t number) {
  const auto found = std::ranges::lower_bound(marks_, number, {}, &FleetMark::number);
  return found != marks_.end() && found->number == number ? &*found : nullptr;
}

FleetMarks::Open FleetMarks::open(const MarkContext& at, const FleetMark& mark) const {
  Open open;
  open.mark = mark.number;
  open.from = at.now;
  for (const auto* totals : at.totals) open.before.push_back(*totals);
  open.last_at = at.now;
  return open;
}

void FleetMarks::close(const MarkContext& at, const Open& open) {
  FleetMark* mark = find(open.mark);
  if (mark == nullptr) return;
  mark->until = at.now;
  mark->changed = at.frame;
}

std::string FleetMarks::toll(const MarkContext& at, const Open& open, const std::vector<ServiceId>& services) const {
  std::vector<std::string> parts;
  for (const ServiceId id : services) {
    if (id.index() >= at.totals.size() || id.index() >= at.faces->services.size()) continue;
    const ServiceTotals before = id.index() < open.before.size() ? open.before[id.index()] : ServiceTotals{};
    const ServiceTotals now = *at.totals[id.index()] - before;
    if (now.counted() == 0) continue;
    const double share = static_cast<double>(now.of(OutcomeKind::served)) / static_cast<double>(now.counted());
    parts.push_back(fmt::format("{}: {} of {} requests in time, {} late, {} rejected, {} failed",
                                at.faces->services[id.index()].name, percent(share), now.counted(),
                                now.of(OutcomeKind::late), now.of(OutcomeKind::rejected), now.of(OutcomeKind::failed)));
  }
  return parts.empty() ? "No request ended meanwhile." : "Meanwhile " + text::join(parts, "; ") + ".";
}

// ---- Moves ----

void FleetMarks::plan_begins(const MarkContext& at, const sched::Deployment& next, std::string reason) {
  const CutsBetween difference = cuts_between(at.state->deployment, next);
  FleetMark& mark = add(at, MarkKind::move,
                        difference.cuts.empty()
                            ? "Another plan, with the same cuts"
                            : fmt::format("Another plan: {} cut anew", counted(difference.cuts.size(), "device")));
  mark.seen = reason.empty() ? "A new plan was put in force; nobody said why." : std::move(reason);
  mark.decided = difference.cuts.empty() ? "No device is cut; what runs on its slices, and in which batches, changes."
                                         : text::join(difference.cuts, ". ") + ".";
  if (!difference.cuts.empty() && difference.same > 0) {
    mark.decided += fmt::format(" {} stay as they are.", counted(difference.same, "device"));
  }
  for (std::uint32_t s = 0; s < at.totals.size(); ++s) mark.services.emplace_back(s);
  move_ = open(at, mark);
}

void FleetMarks::plan_ended(const MarkContext& at) {
  if (!move_) return;
  if (FleetMark* mark = find(move_->mark)) {
    mark->cost = fmt::format("It took {}. {}", seconds_text(at.now - move_->from), toll(at, *move_, mark->services));
  }
  close(at, *move_);
  move_.reset();
}

void FleetMarks::device_failed(const MarkContext& at, DeviceId device) {
  FleetMark* mark = move_ ? find(move_->mark) : nullptr;
  if (mark == nullptr || device.index() >= at.faces->devices.size()) return;
  mark->decided += fmt::format(" {} could not be cut at {}.", at.faces->devices[device.index()].name, at_text(at.now));
  mark->changed = at.frame;
}

// ---- Losses ----

void FleetMarks::lost(const MarkContext& at, SliceId slice) {
  const SliceFace* face = at.faces->find(slice);
  if (face == nullptr) return;
  const sched::SliceState& state = at.state->slices[slice.index()];
  auto found = losses_.find(face->device);
  if (found != losses_.end() && at.now - found->second.from > kSameLoss) {
    // A loss of its own: the one before goes on without it, as far as it is known.
    close(at, found->second);
    losses_.erase(found);
    found = losses_.end();
  }
  const bool new_loss = found == losses_.end();
  if (new_loss) {
    const FleetMark& added = add(at, MarkKind::loss, "");
    found = losses_.emplace(face->device, open(at, added)).first;
  }
  Open& loss = found->second;
  if (std::ranges::find(loss.slices, slice) != loss.slices.end()) return;
  loss.slices.push_back(slice);
  ++loss.slices_all;
  FleetMark* mark = find(loss.mark);
  if (mark == nullptr) return;
  const std::string& device = at.faces->devices[face->device].name;
  mark->title = loss.slices_all == 1 ? fmt::format("{} was lost", face->name)
                                     : fmt::format("{} of {} were lost", counted(loss.slices_all, "slice"), device);
  const bool ran = state.status == sched::SliceStatus::busy;
  mark->seen +=
      fmt::format("{}{} stopped working{}.", mark->seen.empty() ? "" : " ", face->name,
                  ran ? fmt::format(" while it ran a batch of {} for {}", counted(state.members.size(), "request"),
                                    at.faces->services[state.batch_service.index()].name)
                      : std::string(", idle"));
  for (const ServiceId id : face->services) {
    if (std::ranges::find(mark->services, id) == mark->services.end()) mark->services.push_back(id);
  }
  std::string left;
  for (const ServiceId id : mark->services) {
    if (id.index() >= at.state->services.size()) continue;
    // Told before the event is handled: this slice still counts, if it served.
    const std::uint32_t serving = at.state->services[id.index()].slices;
    const bool counts = sched::serves(state) && std::ranges::find(face->services, id) != face->services.end();
    left += fmt::format(" {} has {} of {} left.", at.faces->services[id.index()].name,
                        counts && serving > 0 ? serving - 1 : serving, counted(slices_for(*at.faces, id), "slice"));
  }
  mark->decided =
      "Its requests wait for other slices and run once more where their deadlines allow; it is started again." + left;
  mark->changed = at.frame;
}

void FleetMarks::restarted(const MarkContext& at, SliceId slice, bool ok) {
  for (auto it = losses_.begin(); it != losses_.end(); ++it) {
    Open& loss = it->second;
    const auto away = std::ranges::find(loss.slices, slice);
    if (away == loss.slices.end()) continue;
    FleetMark* mark = find(loss.mark);
    if (!ok) {
      ++loss.attempts;
    } else {
      loss.away_s += to_seconds(at.now - loss.from);
      loss.slices.erase(away);
    }
    if (mark != nullptr) {
      mark->changed = at.frame;
      mark->cost = fmt::format("{} slice-seconds away", loss.away_s < 10 ? fmt::format("{:.2f}", loss.away_s)
                                                                         : fmt::format("{:.0f}", loss.away_s));
      if (loss.attempts > 0)
        mark->cost +=
            fmt::format("; {} to start again failed", counted(static_cast<std::size_t>(loss.attempts), "attempt"));
      if (!loss.slices.empty()) mark->cost += fmt::format("; {} still away", loss.slices.size());
      mark->cost += ". " + toll(at, loss, mark->services);
    }
    if (loss.slices.empty()) {
      close(at, loss);
      losses_.erase(it);
    }
    return;
  }
}

// A plan that came meanwhile may not have the slice any more; then nobody reports its return.
void FleetMarks::forget_gone(const MarkContext& at) {
  for (auto it = losses_.begin(); it != losses_.end();) {
    Open& loss = it->second;
    std::erase_if(loss.slices, [&](SliceId slice) {
      const auto status = at.state->slices[slice.index()].status;
      if (status == sched::SliceStatus::restarting) return false;
      loss.away_s += to_seconds(at.now - loss.from);
      return true;
    });
    if (!loss.slices.empty()) {
      ++it;
      continue;
    }
    if (FleetMark* mark = find(loss.mark)) {
      mark->cost = fmt::format("The plan in force does without it. {}", toll(at, loss, mark->services));
    }
    close(at, loss);
    it = losses_.erase(it);
  }
}

// ---- Lends ----

void FleetMarks::lent(const MarkContext& at, SliceId slice) {
  const SliceFace* face = at.faces->find(slice);
  if (face == nullptr) return;
  FleetMark& mark = add(at, MarkKind::lend, fmt::format("{} is lent to training", face->name));
  mark.seen =
      fmt::format("It was idle, and {} can do without it at this traffic.", names_of(*at.faces, face->services));
  mark.decided = "A training job may use it until a service needs it.";
  mark.services = face->services;
  lends_.insert_or_assign(slice.value(), open(at, mark));
}

void FleetMarks::recalled(const MarkContext& at, SliceId slice) {
  const auto found = lends_.find(slice.value());
  if (found == lends_.end()) return;
  found->second.recalled_at = at.now;
  if (FleetMark* mark = find(found->second.mark)) {
    mark->decided += fmt::format(" Asked back at {}.", at_text(at.now));
    mark->changed = at.frame;
  }
}

void FleetMarks::returned(const MarkContext& at, SliceId slice) {
  const auto found = lends_.find(slice.value());
  if (found == lends_.end()) return;
  const Open lend = found->second;
  lends_.erase(found);
  if (FleetMark* mark = find(lend.mark)) {
    mark->cost = fmt::format("Lent for {}", seconds_text(at.now - lend.from));
    if (lend.recalled_at != kTimeNever) {
      mark->cost += fmt::format("; back {} after it was asked for", seconds_text(at.now - lend.recalled_at));
    }
    mark->cost += ". " + toll(at, lend, mark->services);
  }
  close(at, lend);
}

// ---- Refusals and broken promises ----

void FleetMarks::look_at_refusals(const MarkContext& at, ServiceId service, const ServiceTotals& since, Duration span) {
  const std::uint64_t rejected = since.of(OutcomeKind::rejected);
  auto found = refusals_.find(service.value());
  const std::string& name = at.faces->services[service.index()].name;
  if (found == refusals_.end()) {
    if (rejected == 0) return;
    FleetMark& mark = add(at, MarkKind::refusals, fmt::format("{} rejects requests", name));
    mark.services = {service};
    const double per_s = to_seconds(span) > 0 ? static_cast<double>(since.arrived) / to_seconds(span) : 0;
    mark.seen = fmt::format("{:.4g} requests/s came, and {} served them.", per_s,
                            counted(at.state->services[service.index()].slices, "slice"));
    found = refusals_.emplace(service.value(), open(at, mark)).first;
    // The frame before counts: the rejections of this one are part of the mark.
    if (service.index() < found->second.before.size()) {
      found->second.before[service.index()] = *at.totals[service.index()] - since;
    }
  }
  Open& open = found->second;
  FleetMark* mark = find(open.mark);
  const ServiceTotals all = *at.totals[service.index()] - open.before[service.index()];
  if (rejected > 0) {
    open.last_at = at.now;
    if (mark == nullptr) return;
    mark->decided = fmt::format("Rejected at once: {}.", reasons_of(all));
    mark->cost = fmt::format("{} of {} requests were rejected.", all.of(OutcomeKind::rejected), all.arrived);
    mark->changed = at.frame;
  } else if (at.now - open.last_at >= std::max(kRefusalsOver, 2 * span)) {
    if (mark != nullptr) {
      mark->until = open.last_at;
      mark->changed = at.frame;
    }
    refusals_.erase(found);
  }
}

// Why a service kept its promise no longer: the marks that overlap the minute and concern its slices; else more
// requests than the slices carry; else batches that took longer than expected.
void FleetMarks::explain(const MarkContext& at, ServiceId service, const Open& open, FleetMark& mark) {
  const std::string& name = at.faces->services[service.index()].name;
  const ServiceTotals minute = *at.totals[service.index()] - open.before[service.index()];
  std::vector<std::string> causes;
  mark.related.clear();
  for (const FleetMark& other : marks_) {
    const bool is_cause = other.kind == MarkKind::loss || other.kind == MarkKind::move || other.kind == MarkKind::lend;
    if (!is_cause || other.from > at.now || (other.until && *other.until < open.from - kCauseBefore)) continue;
    if (std::ranges::find(other.services, service) == other.services.end()) continue;
    mark.related.push_back(other.number);
    if (causes.size() >= 3) continue;
    causes.push_back(fmt::format("{} at {}{}", other.title, at_text(other.from),
                                 other.until ? fmt::format(", for {}", seconds_text(*other.until - other.from))
                                             : std::string(", and it is not over")));
  }
  std::string why;
  if (!causes.empty()) why = text::join(causes, "; ") + ". ";
  const bool overload = open.capacity > 0 && open.highest_rate > 0.9 * open.capacity;
  if (open.capacity > 0 || open.highest_rate > 0) {
    const int shares_with = at.faces->services[service.index()].shares_with;
    why += fmt::format("Up to {:.4g} requests/s came; {}{}. ", open.highest_rate,
                       open.capacity > 0
                           ? fmt::format("the slices that served {} could run about {:.4g}/s", name, open.capacity)
                           : fmt::format("for a time no slice served {}", name),
                       shares_with > 0 ? fmt::format(" if the {} that use them too ran nothing",
                                                     counted(static_cast<std::size_t>(shares_with), "service"))
                                       : std::string());
  }
  if (overload) {
    why += causes.empty() ? "More requests came than its slices carry."
                          : "Without what was missing, its slices did not carry the traffic.";
    if (open.rate_before > 0 && open.highest_rate > 1.3 * open.rate_before) {
      why += fmt::format(" Before, {:.4g}/s came on average.", open.rate_before);
    }
  } else if (minute.predicted_ns > 0 &&
             static_cast<double>(minute.took_ns) > 1.2 * static_cast<double>(minute.predicted_ns)) {
    why += fmt::format("Its batches took {:.2g} times as long as expected.",
                       static_cast<double>(minute.took_ns) / static_cast<double>(minute.predicted_ns));
  } else if (minute.of(OutcomeKind::failed) * 2 > minute.lost()) {
    why += "Most of the requests failed on their slices.";
  } else if (causes.empty()) {
    why += "Neither a loss nor a move explains it: requests came in bunches, or with sizes that take long.";
  }
  mark.why = why;
  mark.changed = at.frame;
}

void FleetMarks::look_at_promise(const MarkContext& at, ServiceId service, const ServiceTotals& minute, Duration span) {
  const std::uint64_t counted_now = minute.counted();
  const double promised = at.faces->services[service.index()].percentile / 100;
  const double share =
      counted_now == 0 ? 1 : static_cast<double>(minute.of(OutcomeKind::served)) / static_cast<double>(counted_now);
  const std::string& name = at.faces->services[service.index()].name;
  auto found = broken_.find(service.value());
  const bool broken = share < promised && counted_now >= kRequestsMin;
  if (found == broken_.end()) {
    if (!broken) return;
    FleetMark& mark = add(at, MarkKind::broken, "");
    mark.services = {service};
    Open begun = open(at, mark);
    begun.before[service.index()] = *at.totals[service.index()] - minute;
    begun.capacity = capacity_per_s(*at.state, service, *at.by_bucket[service.index()]);
    const double before_s = to_seconds(at.now) - to_seconds(span);
    const auto came = at.totals[service.index()]->arrived - minute.arrived;
    begun.rate_before = before_s > 1 ? static_cast<double>(came) / before_s : 0;
    found = broken_.emplace(service.value(), std::move(begun)).first;
  }
  Open& open = found->second;
  FleetMark* mark = find(open.mark);
  if (broken) {
    open.lowest = std::min(open.lowest, share);
    const double rate = to_seconds(span) > 0 ? static_cast<double>(minute.arrived) / to_seconds(span) : 0;
    open.highest_rate = std::max(open.highest_rate, rate);
    open.capacity = std::min(open.capacity, capacity_per_s(*at.state, service, *at.by_bucket[service.index()]));
    const ServiceTotals all = *at.totals[service.index()] - open.before[service.index()];
    if (mark == nullptr) return;
    mark->title = fmt::format("{} broke its promise: {} in time, {:g} % promised", name, percent(open.lowest),
                              at.faces->services[service.index()].percentile);
    mark->seen = fmt::format(
        "Over a minute, {} of the requests were answered within {:g} ms at the lowest. Of {} requests, {} were in time, "
        "{} late, {} rejected ({}), {} failed.",
        percent(open.lowest), at.faces->services[service.index()].promise_ms, all.counted(),
        all.of(OutcomeKind::served), all.of(OutcomeKind::late), all.of(OutcomeKind::rejected), reasons_of(all),
        all.of(OutcomeKind::failed));
    mark->decided =
        fmt::format("What cannot be in time is rejected at once, so that the rest can; {} left to serve it.",
                    counted(at.state->services[service.index()].slices, "slice"));
    mark->cost = fmt::format("{} requests were not answered in time.", all.lost());
    explain(at, service, open, *mark);
  } else {
    if (mark != nullptr) explain(at, service, open, *mark);
    close(at, open);
    broken_.erase(found);
  }
}

void FleetMarks::look(const MarkContext& at, const std::vector<ServiceTotals>& minute_ago, Duration minute,
                      const std::vector<ServiceTotals>& last, Duration since_last) {
  forget_gone(at);
  for (std::uint32_t s = 0; s < at.totals.size() && s < at.faces->services.size(); ++s) {
    const auto before = [&](const std::vector<ServiceTotals>& list) {
      return s < list.size() ? list[s] : ServiceTotals{};
    };
    look_at_refusals(at, ServiceId(s), *at.totals[s] - before(last), since_last);
    look_at_promise(at, ServiceId(s), *at.totals[s] - before(minute_ago), minute);
  }
}

}  // namespace tangram::control
