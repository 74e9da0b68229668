// Work in the background: requests that may wait, and run only where no online request is late for them.
//
// A batch that runs cannot be stopped, so it costs the online requests that come meanwhile up to its own length. The
// slack of a service is how much later its requests could have ended without being late, as lately measured: it falls
// at once halfway to what a request was left with, and is forgiven slowly. A background batch starts on a slice that is idle,
// while nothing online waits for slices of its pool, and is no longer than a share of the least slack of the services
// that share the pool. A batch of online requests that has room is filled up in the same measure, where its members
// stay in time: the last places of a batch cost a fraction of the first. So online requests keep the rest of what they
// had, and where they have nothing to spare, nothing of this runs.
//
// Policies and admission do not see background requests. A request is one by its priority, which is below every
// priority that a service may have; so recordings and replays need no further mark.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/policy.h"
#include "sched/state.h"

namespace tangram::sched {

inline constexpr std::int32_t kPriorityBackground = -2'000'000;
// An urgent background request: it goes before the others, and may use a larger share of the slack.
inline constexpr std::int32_t kPriorityBackgroundPressed = -1'999'999;

inline bool is_background(const Request& request) { return request.priority <= kPriorityBackgroundPressed; }

// Background requests that may wait at one time; further ones are rejected.
inline constexpr std::size_t kBackgroundMax = 16'384;

// Why background requests of a service do not run, for reports.
struct BackgroundOutlook {
  std::size_t waiting = 0;
  // Where the first request of some bucket is nearest to a start. All zero while none waits, or no slice serves them.
  Duration run{};      // How long it would run, alone.
  Duration run_max{};  // How long it may run now; below zero: nothing may.
  // The same without online traffic and by the plan's own run times: corrections of them pass, see is_held_up().
  Duration run_idle{};
  Duration run_max_idle{};
  bool online_waits = false;
};

class Background {
 public:
  // `merge`: requests may share a batch.
  Background(const State& state, bool merge);

  // ---- Slack ----

  // An online request has ended with this much time to its deadline; negative: it was late.
  void on_online_end(ServiceId service, Duration left, TimePoint now);
  // An online request was rejected or failed.
  void on_online_loss(ServiceId service, TimePoint now);
  // How long a background batch on a slice of `pool` may run; below zero: nothing may.
  Duration run_max(const View& view, PoolId pool, bool pressed) const;

  // ---- Waiting requests ----

  std::size_t count() const { return count_; }
  bool full() const { return count_ >= kBackgroundMax; }
  void insert(Waiting* waiting);
  void erase(Waiting* waiting);
  // Takes out the requests for which `leaves` is true, in the order of services, buckets and queues.
  template <typename Leaves>
  std::vector<Waiting*> take_if(Leaves&& leaves);
  // After a change of plan; nothing may be waiting.
  void resize(const State& state);

  // The batch that `slice`, which is idle, should run: its members, all of one service and bucket. Empty: none.
  std::vector<Waiting*> choose(const View& view, SliceId slice) const;
  // The requests that may join a batch of `samples` online samples that is about to start on a slice of `pool`.
  std::vector<Waiting*> fill(const View& view, PoolId pool, std::span<const Request* const> members,
                             std::uint32_t bucket, std::int32_t samples) const;

  BackgroundOutlook outlook(const View& view, ServiceId service) const;

  // True if background requests wait for slices of `pool` although online requests have not used it lately. Then what
  // keeps them waiting may be corrections of run times, which nothing will measure again.
  bool is_held_up(const View& view, PoolId pool) const;

  // When idle slices should be asked again if nothing else happens.
  TimePoint due() const { return due_; }
  void set_due(TimePoint when) { due_ = when; }

 private:
  struct Slack {
    Duration value{};  // At `at`; it rises from then on.
    TimePoint at;
  };

  Duration slack(ServiceId service, TimePoint now) const;
  void lower(ServiceId service, Duration left, TimePoint now);

  std::vector<std::vector<RequestQueue>> queues_;  // By service and bucket.
  std::size_t count_ = 0;
  std::vector<Slack> slacks_;  // By service.
  std::vector<Duration> slos_;
  bool merge_;
  TimePoint due_ = kTimeNever;
};

template <typename Leaves>
std::vector<Waiting*> Background::take_if(Leaves&& leaves) {
  std::vector<Waiting*> taken;
  for (auto& queues : queues_) {
    for (auto& queue : queues) {
      for (Waiting* w = queue.front(); w != nullptr;) {
        Waiting* next = w->next;
        if (leaves(*w)) {
          taken.push_back(w);
          queue.erase(w);
          --count_;
        }
        w = next;
      }
    }
  }
  return taken;
}

}  // namespace tangram::sched
