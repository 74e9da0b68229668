// The parts of the scheduler below Scheduler, put together for tests of a single one, and a World that only listens.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "sched/dispatcher.h"
#include "sched/test_fixture.h"
#include "sched/world.h"

namespace tangram::sched::testing {

// Notes what it is asked for and answers nothing: a test does.
class NotedWorld final : public World {
 public:
  std::vector<std::string> notes;

  TimePoint now() const override { return kTimeZero; }
  void wake_at(TimePoint) override {}
  void launch(const Batch& batch) override {
    std::string line = fmt::format("launch on {}:", batch.slice.value());
    for (const Request* member : batch.members) line += fmt::format(" r{}", member->id.value());
    notes.push_back(std::move(line));
  }
  void stop(SliceId, bool) override {}
  void restart(SliceId) override {}
  void reshape(DeviceId, const Layout&) override {}
  void lend(SliceId) override {}
  void recall(SliceId) override {}
  void resolve(const Request& request, const Outcome& outcome, const Batch*) override {
    static constexpr const char* kKinds[] = {"served", "late", "rejected", "failed"};
    notes.push_back(fmt::format("r{} {}", request.id.value(), kKinds[static_cast<std::size_t>(outcome.kind)]));
    outcomes.push_back(outcome);
  }

  std::vector<Outcome> outcomes;
};

// Time stands where the test sets `state.now`.
struct Parts {
  explicit Parts(const FixtureConfig& config)
      : state(deployment_of(config, config.layouts), config.scheduler.requests_max, config.scheduler.correction_weight),
        dispatcher(find_policy(config.policy)->make(config.scheduler.policy_config), state, view, resolver, runner,
                   background, true) {}

  // A request of one sample of service 0, with a record in no queue.
  Waiting* request(Duration deadline, std::int32_t priority = 0) {
    Request made;
    made.id = RequestId(next_id++);
    made.service = ServiceId(0);
    made.priority = priority;
    made.arrival = state.now;
    made.deadline = kTimeZero + deadline;
    return state.store.take(made, 0);
  }
  // Starts a batch of these requests on an idle slice.
  void launch(SliceId slice, const std::vector<Waiting*>& members) {
    BatchDraft batch = state.slices.draft(slice);
    for (const Waiting* member : members) batch.add(member);
    state.waiting_count += members.size();
    runner.launch(slice, batch);
  }

  NotedWorld world;
  State state;
  View view{state};
  Resolver resolver{world, state, view};
  BatchRunner runner{world, state, view, resolver};
  BackgroundRunner background{state, view, resolver, runner, true};
  Dispatcher dispatcher;
  std::uint64_t next_id = 0;
};

using Notes = std::vector<std::string>;

}  // namespace tangram::sched::testing
