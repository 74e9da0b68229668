// What happened to a fleet, in words: moves of plans, losses, lends, refusals, broken promises. Each mark says what was
// seen, what was decided, and what it cost; one that is not over yet is completed later.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "control/fleet_faces.h"
#include "core/ids.h"
#include "core/request.h"
#include "sched/scheduler.h"

namespace tangram::control {

// How the requests of a service ended since the start, without those in the background.
struct ServiceTotals {
  std::uint64_t arrived = 0;
  std::array<std::uint64_t, kOutcomeKinds.size()> outcomes{};   // By OutcomeKind.
  std::array<std::uint64_t, kRejectReasons.size()> rejected{};  // By RejectReason.
  std::uint64_t impossible = 0;   // Of the rejected: no slice could ever have served them, so no promise was broken.
  std::int64_t took_ns = 0;       // Batches that were answered: how long they ran ...
  std::int64_t predicted_ns = 0;  // ... and how long was expected.

  std::uint64_t of(OutcomeKind kind) const { return outcomes[index_of(kind)]; }
  // What a promise is counted over.
  std::uint64_t counted() const {
    return of(OutcomeKind::served) + of(OutcomeKind::late) + of(OutcomeKind::rejected) + of(OutcomeKind::failed) -
           impossible;
  }
  std::uint64_t lost() const { return counted() - of(OutcomeKind::served); }
  ServiceTotals operator-(const ServiceTotals& before) const;
};

enum class MarkKind : std::uint8_t {
  move,      // The plan changes.
  loss,      // Slices of a device stopped working.
  lend,      // A slice is with training.
  refusals,  // A service rejects requests.
  broken,    // The share in time over a minute is below the promise.
};
std::string_view to_string(MarkKind kind);

struct FleetMark {
  std::uint64_t number = 0;
  MarkKind kind = MarkKind::move;
  TimePoint from;
  std::optional<TimePoint> until;  // Nothing: it is not over.
  std::string title;
  std::string seen;
  std::string decided;
  std::string why;  // Of a broken promise: the cause, as far as it is known.
  std::string cost;
  std::vector<ServiceId> services;     // That it concerns.
  std::vector<std::uint64_t> related;  // Marks that explain it.
  std::uint64_t changed = 0;           // The number of the next frame when it last changed.
};

// What marks are written from: the fleet at an instant.
struct MarkContext {
  TimePoint now;
  std::uint64_t frame = 0;              // The number of the next frame.
  const sched::State* state = nullptr;  // As the event before has left it.
  const FleetFaces* faces = nullptr;
  std::vector<const ServiceTotals*> totals;                  // By service.
  std::vector<const std::vector<std::uint64_t>*> by_bucket;  // By service: requests that came.
};

// Marks are limited in number; the oldest that is over goes first.
inline constexpr std::size_t kMarksMax = 500;

class FleetMarks {
 public:
  const std::deque<FleetMark>& list() const { return marks_; }

  void plan_begins(const MarkContext& at, const sched::Deployment& next, std::string reason);
  void plan_ended(const MarkContext& at);
  void device_failed(const MarkContext& at, DeviceId device);
  void lost(const MarkContext& at, SliceId slice);
  void restarted(const MarkContext& at, SliceId slice, bool ok);
  void lent(const MarkContext& at, SliceId slice);
  void recalled(const MarkContext& at, SliceId slice);
  void returned(const MarkContext& at, SliceId slice);
  // One look a frame: how services stood in the last minute. `minute_ago`: the totals a minute before, or earlier.
  // `last`: those of the frame before.
  void look(const MarkContext& at, const std::vector<ServiceTotals>& minute_ago, Duration minute,
            const std::vector<ServiceTotals>& last, Duration since_last);

 private:
  // A mark that is not over, with what its end needs.
  struct Open {
    std::uint64_t mark = 0;
    TimePoint from;
    std::vector<ServiceTotals> before;  // By service.
    std::vector<SliceId> slices;        // Of a loss: those that are still away. Of a lend: the slice.
    std::size_t slices_all = 0;
    double away_s = 0;  // Slice-seconds of those that are back.
    int attempts = 0;   // Restarts that failed.
    TimePoint recalled_at = kTimeNever;
    double lowest = 1;        // Of a broken promise.
    double highest_rate = 0;  // Requests a second over a minute.
    double capacity = 0;      // The least in the meantime.
    TimePoint last_at;        // Refusals: when the last came.
    double rate_before = 0;
  };

  FleetMark& add(const MarkContext& at, MarkKind kind, std::string title);
  FleetMark* find(std::uint64_t number);
  Open open(const MarkContext& at, const FleetMark& mark) const;
  void close(const MarkContext& at, const Open& open);
  // "Meanwhile rank-answers: 97.0 % of 311 requests in time, 5 late, 4 rejected."
  std::string toll(const MarkContext& at, const Open& open, const std::vector<ServiceId>& services) const;
  void look_at_refusals(const MarkContext& at, ServiceId service, const ServiceTotals& since, Duration span);
  void look_at_promise(const MarkContext& at, ServiceId service, const ServiceTotals& minute, Duration span);
  void explain(const MarkContext& at, ServiceId service, const Open& open, FleetMark& mark);
  void forget_gone(const MarkContext& at);

  std::deque<FleetMark> marks_;
  std::uint64_t next_ = 1;
  std::optional<Open> move_;
  std::map<std::uint32_t, Open> losses_;    // By device.
  std::map<std::uint32_t, Open> lends_;     // By slice.
  std::map<std::uint32_t, Open> refusals_;  // By service.
  std::map<std::uint32_t, Open> broken_;    // By service.
};

}  // namespace tangram::control
