// A fleet as it is, and as it was: what the page shows.
//
// Built from what the recorder sees (sched/watcher.h), so that live, simulated and recorded time give the same value. A
// frame says for one instant what every slice does and how every service stands; marks (fleet_marks.h) say what
// happened and why. Counters in a frame are totals since the start: the share in time over any span is the difference
// of two frames, and a frame can be dropped without making another one wrong.
//
// Memory is bounded by FleetHistoryOptions: when frames take more, every second one of the older half is dropped, so
// that old time is known more coarsely.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/quantile_sketch.h"
#include "base/time.h"
#include "control/fleet_faces.h"
#include "control/fleet_marks.h"
#include "core/ids.h"
#include "core/request.h"
#include "sched/scheduler.h"
#include "sched/watcher.h"

namespace tangram::control {

struct FleetHistoryOptions {
  Duration interval = std::chrono::seconds(1);  // Between two frames.
  std::size_t bytes_max = std::size_t{16} << 20;
  std::size_t frames_max = SIZE_MAX;
  // True: what is long ago becomes coarser, as suits a server that runs for ever. False: all of the time does, as suits
  // a run that is looked at as a whole.
  bool keep_recent = true;
  PricesPerHour prices = {};
};

// What a slice does, in the words of the page.
enum class SliceUse : std::uint8_t {
  idle,
  busy,
  lent,     // With training, also while it is asked back.
  cutting,  // Being cut, or loading for the first time.
  lost,     // It stopped working, and is being restarted.
};
std::string_view to_string(SliceUse use);

struct SliceSample {
  SliceId slice;
  SliceUse use = SliceUse::idle;
  std::int64_t busy_ns = 0;               // Since the start.
  std::optional<ServiceId> running = {};  // The service of the batch that runs.
};

struct ServiceSample {
  ServiceTotals totals;
  std::uint32_t waiting = 0;
  std::uint32_t slices = 0;  // That serve it now.
  float p50_ms = 0;          // Of the answers of the last minute; zero: there were none.
  float p95_ms = 0;
  float p99_ms = 0;
};

struct FleetFrame {
  std::uint64_t number = 0;  // Ascending, with gaps where frames were dropped.
  TimePoint at;
  std::uint32_t faces = 0;  // FleetFaces::number in force.
  bool moving = false;
  std::vector<SliceSample> slices;
  std::vector<ServiceSample> services;

  std::size_t bytes() const {
    return sizeof(*this) + slices.capacity() * sizeof(SliceSample) + services.capacity() * sizeof(ServiceSample);
  }
};

// One request, from its arrival to its end.
struct RequestStory {
  RequestId id;
  std::uint64_t name_hash = 0;  // Of the id that the client gave it; 0: none.
  ServiceId service;
  ServiceId queue;
  OutcomeKind outcome = OutcomeKind::served;
  RejectReason reason = RejectReason::none;
  std::int32_t samples = 1;
  std::int64_t size = 1;
  std::int64_t padded = 0;  // Zero: it never ran.
  std::int32_t batch_samples = 0;
  SliceId slice;
  BatchId batch;
  TimePoint arrival;
  TimePoint deadline;
  TimePoint launched;
  TimePoint ended;
  TimePoint earliest = kTimeNever;  // Rejected: when an answer could have been ready.
  Duration predicted{};             // Of its batch.
  std::uint32_t waiting = 0;        // Requests that waited when it came.
};

// The share of requests in time over a span that ends with a frame. Nothing: none counted.
struct ShareInTime {
  std::optional<double> share;
  std::uint64_t counted = 0;
};

class FleetHistory final : public sched::Watcher {
 public:
  explicit FleetHistory(FleetHistoryOptions options);

  // ---- Watcher ----
  void on_event(const sched::Scheduler& scheduler, TimePoint now) override;
  void on_arrival(const Request& request) override;
  void on_batch_done(const sched::BatchDone& done) override;
  void on_slice_lost(SliceId slice) override;
  void on_restarted(SliceId slice, bool ok) override;
  void on_reshaped(DeviceId device, bool ok) override;
  void on_plan_ready(const sched::Deployment& next) override;
  void on_returned(SliceId slice) override;
  void launched(const sched::Batch& batch) override;
  void lent(SliceId slice, TimePoint now) override;
  void recalled(SliceId slice, TimePoint now) override;
  void resolved(const Request& request, const Outcome& outcome, const sched::Batch* batch) override;

  // ---- What only some worlds know ----

  // Why the next plan comes, for its mark: "a surge of rank-answers".
  void note_reason(std::string reason) { reason_ = std::move(reason); }
  // The id that its client gave to the request that was resolved last.
  void note_name(std::string_view name);
  // A request that ended before the scheduler saw it, such as one that was held while a plan moved.
  void ended_unseen(const Request& request, const Outcome& outcome, TimePoint now);

  // Makes the frames that are due by `now`, and one of `now` itself if `whole`: the end of a run. Between two events.
  void catch_up(const sched::Scheduler& scheduler, TimePoint now, bool whole = false);

  // ---- Reading ----
  const std::deque<FleetFrame>& frames() const { return frames_; }
  const std::deque<FleetFaces>& faces() const { return faces_; }
  const FleetFaces& faces_at(const FleetFrame& frame) const;
  const FleetMarks& marks() const { return marks_; }
  // Over the `span` before the frame, or since the start of the run.
  ShareInTime in_time(const FleetFrame& frame, ServiceId service, std::optional<Duration> span) const;
  // Requests a second of the service in the last minute before the frame.
  double arrivals_per_s(const FleetFrame& frame, ServiceId service) const;
  // Share of the time since the frame before, or over `span`, in which the slice ran batches. The sample is of `frame`.
  double busy_share(const FleetFrame& frame, const SliceSample& sample, Duration span) const;
  // The last frame at or before `when`. Null: there is none.
  const FleetFrame* frame_at(TimePoint when) const;
  // What all devices cost an hour; nothing: no price is known.
  static std::optional<double> cost_per_hour(const FleetFaces& faces);

  // The story of a request by its number, or by the id that its client gave it. Null: it is not kept (any more).
  const RequestStory* find_request(RequestId id) const;
  const RequestStory* find_request(std::string_view name) const;
  // The last requests that were not served in time, newest first.
  std::vector<const RequestStory*> last_troubled(std::size_t count) const;
  // What the service would have needed for a request, as a sentence.
  std::string needs_of(const RequestStory& story) const;
  std::size_t bytes() const { return bytes_; }

 private:
  // What is known of a service beyond its totals.
  struct ServiceMemory {
    ServiceTotals totals;
    std::vector<std::uint64_t> by_bucket;     // Requests that came.
    std::array<QuantileSketch, 4> latencies;  // Of quarter minutes in turn.
  };
  // Keeps the stories of as many requests as fit, the newest.
  struct Stories {
    std::vector<RequestStory> ring;
    std::size_t next = 0;
    std::size_t max = 0;
    RequestStory& add(RequestStory story);
  };

  ServiceMemory& memory_of(ServiceId service);
  void add_frame(const sched::Scheduler& scheduler, TimePoint at);
  FleetFrame frame_of(const sched::Scheduler& scheduler, TimePoint at);
  SliceSample sample_of(const sched::State& state, std::uint32_t slice, TimePoint at) const;
  void take_faces(const sched::Scheduler& scheduler);
  void thin();
  // A batch ends or is lost: its time counts.
  void end_run(SliceId slice);
  void note_latency(ServiceMemory& memory, Duration took);
  MarkContext context() const;

  FleetHistoryOptions options_;
  const sched::Scheduler* scheduler_ = nullptr;  // Of the event that is being handled.
  TimePoint now_;
  TimePoint next_frame_;
  std::uint64_t next_number_ = 1;
  bool faces_stale_ = true;
  bool moving_ = false;
  std::string reason_;
  std::deque<FleetFaces> faces_;
  std::deque<FleetFrame> frames_;
  std::size_t bytes_ = 0;
  std::vector<std::int64_t> busy_ns_;  // By slice.
  std::vector<bool> starting_;         // By slice: it is away and has never been ready.
  std::vector<ServiceMemory> services_;
  std::int64_t quarter_ = -1;  // The quarter minute that latencies are counted in.
  Stories troubled_;
  Stories served_;
  RequestStory* last_story_ = nullptr;
  FleetMarks marks_;
};

}  // namespace tangram::control
