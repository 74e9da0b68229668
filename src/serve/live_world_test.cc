#include "serve/live_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "serve/test_calls.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

// Puts something in the place of the executor of a slice that may hold it.
using Wrap = std::function<std::unique_ptr<engines::Executor>(SliceId, std::unique_ptr<engines::Executor>)>;

// Owns a world with emulated slices and the calls of a test.
class Bench {
 public:
  explicit Bench(sched::Deployment deployment = test::deployment(), engines::EmulatedExecutorConfig emulated = {},
                 const Wrap& wrap = {}, const std::function<void(LiveWorldConfig&)>& change = {})
      : models_(served_models(deployment, test::workload(), "emulated")), signature_{&models_[0].signature} {
    LiveWorldConfig config;
    config.make_executor = [this, emulated, wrap](SliceId slice, const sched::Place&, engines::ExecutorEvents&) {
      auto made = engines::make_emulated_executor(signature_, emulated);
      return wrap ? wrap(slice, std::move(made)) : std::move(made);
    };
    if (change) change(config);
    world = std::make_unique<LiveWorld>(std::move(deployment), models_, std::move(config));
  }

  // A request of `samples` x `ids.size() / samples` token ids.
  Call* call(const std::vector<std::int64_t>& ids, std::int32_t samples = 1) {
    calls_.push_back(std::make_unique<Call>());
    test::fill_call(*calls_.back(), owner, models_[0], ids, samples);
    return calls_.back().get();
  }

  void run_until_idle() {
    while (world->in_flight() > 0 && world->next_due() != kTimeNever) world->step(world->next_due());
  }

  test::Collector owner;
  std::unique_ptr<LiveWorld> world;

 private:
  std::vector<ServedModel> models_;
  std::vector<const Signature*> signature_;
  std::vector<std::unique_ptr<Call>> calls_;
};

std::vector<std::int64_t> some_ids(Rng& rng, std::size_t count) {
  std::vector<std::int64_t> ids(count);
  for (auto& id : ids) id = static_cast<std::int64_t>(1 + rng.below(30'000));
  return ids;
}

// A batch of one sample in the small bucket takes 2 ms.
TEST(LiveWorld, AnswersWhenTheModelSaysThatTheBatchIsDone) {
  Bench bench;
  bench.world->inbox().post(bench.call({1, 2, 3}));
  bench.world->step(TimePoint(1ms));
  EXPECT_TRUE(bench.owner.answered.empty());
  EXPECT_EQ(bench.world->next_due(), TimePoint(3ms));
  bench.world->step(TimePoint(3ms));
  ASSERT_EQ(bench.owner.answered.size(), 1u);
  const Call& call = *bench.owner.answered[0];
  EXPECT_EQ(call.status, CallStatus::ok);
  EXPECT_EQ(call.compute, 2ms);
  EXPECT_EQ(call.padded_size, 32);
  // Three numbers of four bytes, then two rows of three numbers of eight bytes.
  EXPECT_EQ(call.answer_ends, (std::vector<std::size_t>{12, 12 + 48}));
}

// Two hundred requests of all lengths at once, so that most share a batch with others and are padded; then each alone
// in a world of its own, where nothing is padded.
TEST(LiveWorld, GivesEachRequestTheBytesThatItWouldGetAlone) {
  Rng rng(3);
  std::vector<std::pair<std::vector<std::int64_t>, std::int32_t>> requests;
  for (int i = 0; i < 200; ++i) {
    const auto samples = static_cast<std::int32_t>(1 + rng.below(3));
    requests.emplace_back(some_ids(rng, static_cast<std::size_t>(samples) * (1 + rng.below(128))), samples);
    requests.back().first.resize(requests.back().first.size() / static_cast<std::size_t>(samples) *
                                 static_cast<std::size_t>(samples));
  }
  Bench together;
  std::vector<Call*> calls;
  for (const auto& [ids, samples] : requests) {
    calls.push_back(together.call(ids, samples));
    calls.back()->deadline = 100s;
    together.world->inbox().post(calls.back());
  }
  together.world->step(TimePoint(0ms));
  together.run_until_idle();
  EXPECT_EQ(together.owner.answered.size(), requests.size());
  std::int32_t largest_batch = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Bench alone(test::deployment(8, Padding::none));
    Call* call = alone.call(requests[i].first, requests[i].second);
    alone.world->inbox().post(call);
    alone.world->step(TimePoint(0ms));
    alone.run_until_idle();
    ASSERT_EQ(call->status, CallStatus::ok) << call->error;
    ASSERT_EQ(calls[i]->status, CallStatus::ok) << calls[i]->error;
    EXPECT_EQ(call->padded_size, call->size);
    EXPECT_EQ(calls[i]->answer, call->answer) << i;
    largest_batch = std::max(largest_batch, calls[i]->batch_samples);
  }
  EXPECT_EQ(largest_batch, 8);
}

// Different inputs, or the same at another place, give different answers: the check above can fail.
TEST(LiveWorld, AnswersDependOnEveryElementAndItsPlace) {
  Bench bench;
  Call* a = bench.call({1, 2, 3});
  Call* b = bench.call({1, 3, 2});
  Call* c = bench.call({1, 2, 4});
  for (Call* call : {a, b, c}) bench.world->inbox().post(call);
  bench.world->step(TimePoint(0ms));
  bench.run_until_idle();
  EXPECT_NE(a->answer, b->answer);
  EXPECT_NE(a->answer, c->answer);
  // The first token is the same at the same place in all three, so its part of `tokens` is, too.
  EXPECT_EQ(a->answer.substr(12, 8), b->answer.substr(12, 8));
}

// Both slices run batches of one that take 4 ms. A small one takes 2 ms behind them, so 5 ms are refused, with the
// time after which it would have been answered: 4 + 2 - 5 = 1 ms.
TEST(LiveWorld, RejectsAtOnceARequestThatCannotBeInTime) {
  Bench bench;
  for (int i = 0; i < 2; ++i) bench.world->inbox().post(bench.call(std::vector<std::int64_t>(100, 1)));
  bench.world->step(TimePoint(0ms));
  Call* call = bench.call({1});
  call->deadline = 5ms;
  bench.world->inbox().post(call);
  bench.world->step(TimePoint(0ms));
  ASSERT_EQ(bench.owner.answered.size(), 1u);
  EXPECT_EQ(call->status, CallStatus::refused);
  EXPECT_EQ(call->retry_after, 1ms);
  EXPECT_EQ(bench.world->ledger().services()[0].rejected[static_cast<std::size_t>(RejectReason::too_late)], 1u);
}

TEST(LiveWorld, SaysWhatIsTooLargeAndWhatIsUnloaded) {
  Bench bench;
  Call* large = bench.call(std::vector<std::int64_t>(129, 1));
  bench.world->inbox().post(large);
  bench.world->step(TimePoint(0ms));
  EXPECT_EQ(large->status, CallStatus::invalid);
  bench.world->set_loaded(ServiceId(0), false);
  Call* unloaded = bench.call({1});
  bench.world->inbox().post(unloaded);
  bench.world->step(TimePoint(0ms));
  EXPECT_EQ(unloaded->status, CallStatus::unavailable);
  EXPECT_EQ(bench.world->why_not_ready(ServiceId(0)), "unloaded");
}

// Another plan comes while 100 requests are here and more come: every one is answered, and none twice.
TEST(LiveWorld, ChangesItsPlanWithoutDroppingARequest) {
  Bench bench;
  Rng rng(5);
  const auto send = [&](int count) {
    for (int i = 0; i < count; ++i) {
      Call* call = bench.call(some_ids(rng, 1 + rng.below(100)));
      call->deadline = 100s;
      bench.world->inbox().post(call);
    }
  };
  send(100);
  bench.world->step(TimePoint(1ms));
  ASSERT_TRUE(bench.world->change_plan(test::deployment(4)));
  send(100);
  bench.world->step(TimePoint(2ms));
  bench.run_until_idle();
  EXPECT_EQ(bench.owner.answered.size(), 200u);
  for (const Call* call : bench.owner.answered) EXPECT_EQ(call->status, CallStatus::ok) << call->error;
  std::ranges::sort(bench.owner.answered);
  EXPECT_EQ(std::ranges::adjacent_find(bench.owner.answered), bench.owner.answered.end());
  EXPECT_FALSE(bench.world->scheduler().moving());
  auto renamed = test::deployment();
  renamed.services[0].name = "other";
  EXPECT_FALSE(bench.world->change_plan(renamed));
}

// An executor that speaks for somebody else: its first batch fails, its second is never answered.
class Unreliable final : public engines::Executor {
 public:
  explicit Unreliable(std::unique_ptr<engines::Executor> inner) : inner_(std::move(inner)) {}
  Result<engines::BatchMemory*> prepare(const engines::BatchJob& job) override { return inner_->prepare(job); }
  std::optional<Duration> start(const engines::BatchJob& job) override {
    started.push_back(job.batch);
    inner_->start(job);
    return std::nullopt;
  }
  bool restart() override {
    ++restarts;
    return true;
  }
  std::vector<BatchId> started;
  int restarts = 0;

 private:
  std::unique_ptr<engines::Executor> inner_;
};

// Promises may change while the services are served; what clients and workers know of them may not.
TEST(LiveWorld, SaysWhatOfAServiceNeedsANewStart) {
  const auto said = [](const auto& change) {
    Workload next = test::workload();
    change(next.services[0]);
    const auto alike = check_served_alike(test::workload(), next);
    return alike ? std::string("alike") : alike.error().message;
  };
  EXPECT_EQ(said([](Service& service) { service.slo.latency = 70ms; }), "alike");
  EXPECT_EQ(said([](Service& service) { service.input_size = ConstantSize{48}; }), "alike");  // The axis tells.
  EXPECT_EQ(said([](Service& service) { service.model = "other"; }),
            "service 'rank' has another model, 'other' instead of 'encoder', which requires a restart");
  EXPECT_EQ(said([](Service& service) { service.tensors->outputs[0].shape = {4}; }),
            "service 'rank' has other tensors, which requires a restart");
  EXPECT_EQ(said([](Service& service) { service.tensors.reset(); }),
            "service 'rank' has other tensors, which requires a restart");
  EXPECT_EQ(said([](Service& service) { service.priority = 3; }), "alike");
  EXPECT_EQ(said([](Service& service) { service.name = "other"; }), "alike");  // Another service.
}

// Without an axis that grows, the file says how large a request is.
TEST(LiveWorld, SaysThatAnotherFixedSizeNeedsANewStart) {
  Workload served = test::workload();
  served.services[0].tensors =
      Signature{{{"image", Datatype::fp32, {3, 8, 8}, 0, false}}, {{"label", Datatype::fp32, {1}, 0, false}}};
  Workload next = served;
  served.services[0].input_size = ConstantSize{224};
  next.services[0].input_size = ConstantSize{256};
  EXPECT_TRUE(check_served_alike(served, served));
  EXPECT_EQ(check_served_alike(served, next).error().message,
            "service 'rank' has another input_size, 256 instead of 224, which requires a restart");
}

// A world whose executors speak for somebody else.
class UnreliableBench : public Bench {
 public:
  UnreliableBench()
      : Bench(test::deployment(), {}, [this](SliceId slice, std::unique_ptr<engines::Executor> inner) {
          auto made = std::make_unique<Unreliable>(std::move(inner));
          executors[slice.index()] = made.get();
          return made;
        }) {}

  // The slice that runs a batch; 2: none does.
  std::uint32_t busy() const {
    for (std::uint32_t s = 0; s < 2; ++s) {
      if (world->scheduler().state().slices[s].status == sched::SliceStatus::busy) return s;
    }
    return 2;
  }

  std::array<Unreliable*, 2> executors{};
};

TEST(LiveWorld, RetriesOnceWhatASliceLost) {
  UnreliableBench bench;
  LiveWorld& world = *bench.world;
  const auto& executors = bench.executors;
  Call& call = *bench.call({9});
  world.inbox().post(&call);
  world.step(TimePoint(0ms));
  const std::uint32_t first = bench.busy();
  ASSERT_LT(first, 2u);
  world.inbox().on_done(SliceId(first), executors[first]->started.back(), "the worker died");
  world.step(TimePoint(1ms));
  EXPECT_TRUE(bench.owner.answered.empty());  // It runs again.
  const std::uint32_t second = bench.busy();
  ASSERT_LT(second, 2u);
  const BatchId lost = executors[second]->started.back();
  world.inbox().on_lost(SliceId(second), "the worker was killed");
  world.step(TimePoint(2ms));
  ASSERT_EQ(bench.owner.answered.size(), 1u);
  EXPECT_EQ(call.status, CallStatus::failed);
  EXPECT_EQ(call.error, "model 'rank': the worker was killed");
  EXPECT_EQ(executors[second]->restarts, 1);
  // An answer that comes too late finds nobody.
  world.inbox().on_done(SliceId(second), lost, "");
  world.step(TimePoint(3ms));
  EXPECT_EQ(bench.owner.answered.size(), 1u);
}

// Both slices were lost while they were idle. Their batches after that are never answered, which is another reason.
TEST(LiveWorld, DoesNotExplainAFailureByAnEarlierLoss) {
  UnreliableBench bench;
  LiveWorld& world = *bench.world;
  world.open_slices();
  for (std::uint32_t slice = 0; slice < 2; ++slice) world.inbox().on_lost(SliceId(slice), "the worker was killed");
  world.step(TimePoint(0ms));
  Call& call = *bench.call({9});
  call.deadline = 100s;
  world.inbox().post(&call);
  world.step(TimePoint(1ms));
  bench.run_until_idle();
  ASSERT_EQ(bench.owner.answered.size(), 1u);
  EXPECT_EQ(call.status, CallStatus::failed);
  EXPECT_EQ(call.error, "model 'rank': the slice did not answer in time");
}

// The server behind the slices has no room for any batch. To run them again would meet the same: of four requests each
// is in one batch at most, and told the time that the server said.
TEST(LiveWorld, PassesOnThatABatchWasRejectedUpstream) {
  UnreliableBench bench;
  std::vector<Call*> calls;
  for (std::int64_t id = 0; id < 4; ++id) {
    calls.push_back(bench.call({id}));
    calls.back()->deadline = 60s;
    bench.world->inbox().post(calls.back());
  }
  bench.world->step(TimePoint(0ms));
  std::size_t rejected_upstream = 0;
  for (std::uint32_t slice = bench.busy(); slice < 2; slice = bench.busy()) {
    ASSERT_LT(++rejected_upstream, 9u) << "they run again";
    bench.world->inbox().on_rejected_upstream(SliceId(slice), 7s);
    bench.world->inbox().on_done(SliceId(slice), bench.executors[slice]->started.back(), "there is no room");
    bench.world->step(TimePoint(1ms));
  }
  ASSERT_EQ(bench.owner.answered.size(), 4u);
  EXPECT_LE(rejected_upstream, 4u);
  for (const Call* call : calls) {
    EXPECT_EQ(call->status, CallStatus::refused);
    EXPECT_EQ(call->error, "model 'rank': there is no room");
    EXPECT_EQ(call->retry_after, 7s);
  }
  const ServiceTally& tally = bench.world->ledger().services()[0];
  EXPECT_EQ(tally.outcomes[static_cast<std::size_t>(OutcomeKind::rejected)], 4u);
  EXPECT_EQ(tally.outcomes[static_cast<std::size_t>(OutcomeKind::failed)], 0u);
  EXPECT_EQ(bench.world->ledger().slices()[0].failures + bench.world->ledger().slices()[1].failures, 0u);
}

// The fastest run takes 2 ms, so 1 ms is too short whatever the load; 129 is beyond the largest bucket. Neither is a
// promise that was broken. Of fifty requests with 3 ms, most are refused for the load, and that is.
TEST(LiveWorld, DoesNotHoldImpossibleRequestsAgainstThePromise) {
  Bench bench;
  Call* hasty = bench.call({1});
  hasty->deadline = 1ms;
  Call* large = bench.call(std::vector<std::int64_t>(129, 1));
  for (Call* call : {hasty, large}) bench.world->inbox().post(call);
  bench.world->step(TimePoint(0ms));
  ASSERT_EQ(bench.owner.answered.size(), 2u);
  EXPECT_EQ(hasty->status, CallStatus::refused);
  EXPECT_EQ(hasty->error, "model 'rank': no slice can answer within 1.000 ms, not even an idle one");
  EXPECT_EQ(hasty->retry_after, Duration::zero());
  EXPECT_EQ(large->status, CallStatus::invalid);
  const ServiceTally& tally = bench.world->ledger().services()[0];
  EXPECT_EQ(tally.impossible(), 2u);
  EXPECT_EQ(tally.attainment.ratio(TimePoint(0ms)), 1);

  std::vector<Call*> many;
  for (int i = 0; i < 50; ++i) {
    many.push_back(bench.call({1}));
    many.back()->deadline = 3ms;
    bench.world->inbox().post(many.back());
  }
  bench.world->step(TimePoint(1ms));
  bench.run_until_idle();
  const auto refused = std::ranges::find(many, CallStatus::refused, &Call::status);
  ASSERT_NE(refused, many.end());
  EXPECT_GT((*refused)->retry_after, Duration::zero());
  EXPECT_EQ(tally.impossible(), 2u);
  EXPECT_LT(tally.attainment.ratio(TimePoint(10ms)), 1);
}

// An executor that never comes back by itself.
class Away final : public engines::Executor {
 public:
  explicit Away(std::unique_ptr<engines::Executor> inner) : inner_(std::move(inner)) {}
  Result<engines::BatchMemory*> prepare(const engines::BatchJob& job) override { return inner_->prepare(job); }
  std::optional<Duration> start(const engines::BatchJob& job) override { return inner_->start(job); }
  bool restart() override { return false; }
  bool ready() const override { return false; }

 private:
  std::unique_ptr<engines::Executor> inner_;
};

// Both slices are being started when two requests come, with 10 ms and 50 ms to go. The first is too late at 10 ms; one
// slice is back at 20 ms and answers the second 2 ms later.
TEST(LiveWorld, KeepsRequestsWhileTheirSlicesStartAndNoLongerThanTheyCanWait) {
  Bench bench(test::deployment(), {}, [](SliceId, std::unique_ptr<engines::Executor> inner) {
    return std::make_unique<Away>(std::move(inner));
  });
  LiveWorld& world = *bench.world;
  world.open_slices();
  EXPECT_EQ(world.slices_starting(), 2u);
  Call& first = *bench.call({9});
  Call& second = *bench.call({9});
  first.deadline = 10ms;
  second.deadline = 50ms;
  world.inbox().post(&first);
  world.inbox().post(&second);
  world.step(TimePoint(0ms));
  EXPECT_TRUE(bench.owner.answered.empty());
  EXPECT_EQ(world.next_due(), TimePoint(10ms));
  world.step(TimePoint(10ms));
  ASSERT_EQ(bench.owner.answered.size(), 1u);
  EXPECT_EQ(first.status, CallStatus::unavailable);
  EXPECT_EQ(first.error, "model 'rank': no slice serves this model now");
  EXPECT_EQ(world.ledger().services()[0].rejected[static_cast<std::size_t>(RejectReason::no_capacity)], 1u);
  world.inbox().on_restarted(SliceId(1), true);
  world.step(TimePoint(20ms));
  EXPECT_EQ(world.slices_starting(), 1u);
  world.step(TimePoint(22ms));
  ASSERT_EQ(bench.owner.answered.size(), 2u);
  EXPECT_EQ(second.status, CallStatus::ok) << second.error;
  EXPECT_EQ(world.in_flight(), 0u);
}

// The next plan has slices 2 and 3 on the device. Slice 2 becomes ready and is lost again before the device is, earlier
// than slice 3 has answered or in the same step: in both cases it is started again, without a request that finds it. In
// the first case the device waits for it; in the second that is too late, and the scheduler waits.
TEST(LiveWorld, RestartsASliceThatIsLostBeforeItsDeviceIsReady) {
  for (const bool same_step : {false, true}) {
    Bench bench(test::deployment(), {}, [](SliceId slice, std::unique_ptr<engines::Executor> inner) {
      return slice.index() < 2 ? std::move(inner) : std::make_unique<Away>(std::move(inner));
    });
    LiveWorld& world = *bench.world;
    world.open_slices();
    ASSERT_TRUE(world.change_plan(test::deployment(4)));
    world.step(TimePoint(0ms));
    ASSERT_TRUE(world.scheduler().moving());
    const auto& slices = world.scheduler().state().slices;
    ASSERT_EQ(slices.size(), 4u);
    world.inbox().on_restarted(SliceId(2), true);
    if (!same_step) world.inbox().on_lost(SliceId(2), "the worker was killed");
    if (!same_step) world.step(TimePoint(1ms));
    world.inbox().on_restarted(SliceId(3), true);
    if (same_step) world.inbox().on_lost(SliceId(2), "the worker was killed");
    world.step(TimePoint(2ms));
    EXPECT_EQ(world.scheduler().moving(), !same_step);
    const auto status = [&](std::size_t slice) { return slices[slice].status; };
    ASSERT_EQ(status(2), same_step ? sched::SliceStatus::restarting : sched::SliceStatus::planned) << same_step;
    EXPECT_EQ(status(3), same_step ? sched::SliceStatus::idle : sched::SliceStatus::planned) << same_step;
    world.inbox().on_restarted(SliceId(2), true);
    world.step(TimePoint(3ms));
    EXPECT_FALSE(world.scheduler().moving());
    EXPECT_EQ(status(2), sched::SliceStatus::idle) << same_step;
    EXPECT_EQ(status(3), sched::SliceStatus::idle) << same_step;
  }
}

// Slice 2 fails to start. It is started again three times; then the device is ready without it.
TEST(LiveWorld, StartsASliceThatFailsAgainBeforeItsDeviceIsReadyWithoutIt) {
  Bench bench(test::deployment(), {}, [](SliceId slice, std::unique_ptr<engines::Executor> inner) {
    return slice.index() < 2 ? std::move(inner) : std::make_unique<Away>(std::move(inner));
  });
  LiveWorld& world = *bench.world;
  world.open_slices();
  ASSERT_TRUE(world.change_plan(test::deployment(4)));
  world.step(TimePoint(0ms));
  world.inbox().on_restarted(SliceId(3), true);
  for (int i = 0; i < DeviceWarmup::kTriesAgain; ++i) {
    world.inbox().on_restarted(SliceId(2), false);
    world.step(TimePoint(std::chrono::milliseconds(i + 1)));
    EXPECT_TRUE(world.scheduler().moving()) << i;
  }
  world.inbox().on_restarted(SliceId(2), false);
  world.step(TimePoint(10ms));
  EXPECT_FALSE(world.scheduler().moving());
  EXPECT_EQ(world.scheduler().state().slices[2].status, sched::SliceStatus::restarting);
}

// Cutting takes 30 ms, whether the time is only emulated or somebody answers when it is done.
TEST(LiveWorld, WaitsUntilADeviceIsCut) {
  for (const bool emulated : {true, false}) {
    std::optional<DeviceId> asked;
    Bench bench(test::deployment(), {}, {}, [&](LiveWorldConfig& config) {
      if (emulated) {
        config.recut_time = [](const sched::DeployedDevice&, const Layout&) { return 30ms; };
      } else {
        config.cut = [&](DeviceId device, const sched::DeployedDevice&, const Layout&) { asked = device; };
      }
    });
    LiveWorld& world = *bench.world;
    world.open_slices();
    ASSERT_TRUE(world.change_plan(test::deployment(4)));
    world.step(TimePoint(29ms));
    EXPECT_TRUE(world.scheduler().moving());
    if (!emulated) {
      ASSERT_TRUE(asked);
      world.inbox().on_cut(*asked, true);
    }
    world.step(TimePoint(30ms));
    EXPECT_FALSE(world.scheduler().moving()) << emulated;
  }
}

// The device dies with a batch on it, which is not answered in time. It comes back when it works again.
TEST(LiveWorld, CannotRestartTheSlicesOfADeadDevice) {
  Bench bench;
  LiveWorld& world = *bench.world;
  world.open_slices();
  world.step(TimePoint(0ms));
  Call* call = bench.call({1, 2, 3});
  call->deadline = 10s;
  world.inbox().post(call);
  world.step(TimePoint(1ms));
  world.set_dead("gpu-0", true);
  EXPECT_TRUE(world.is_dead("gpu-0"));
  world.step(TimePoint(1s));
  EXPECT_EQ(world.why_not_ready(ServiceId(0)), "no slice serves it");
  world.set_dead("gpu-0", false);
  for (auto now = 1100ms; now <= 3s; now += 100ms) world.step(TimePoint(now));
  EXPECT_EQ(world.why_not_ready(ServiceId(0)), "");
  ASSERT_EQ(bench.owner.answered.size(), 1U);
  EXPECT_EQ(call->status, CallStatus::ok) << call->error;
}

// Both slices of the device have had a batch, and one is idle again when the device dies. The batch of the other runs
// once more, which must not be on the idle slice: that is dead, too, and the request would have failed twice.
TEST(LiveWorld, DoesNotRunTheBatchOfADeadDeviceOnAnotherOfItsSlices) {
  Bench bench;
  LiveWorld& world = *bench.world;
  world.open_slices();
  world.step(TimePoint(0ms));
  std::vector<Call*> calls;
  for (const std::size_t length : {3, 40}) {  // 2 ms in the small bucket, 4 ms in the large one.
    Call* call = bench.call(std::vector<std::int64_t>(length, 7));
    call->deadline = 10s;
    world.inbox().post(call);
    calls.push_back(call);
  }
  world.step(TimePoint(0ms));
  world.step(TimePoint(3ms));
  ASSERT_EQ(bench.owner.answered.size(), 1U);
  world.set_dead("gpu-0", true);
  world.step(TimePoint(1s));
  EXPECT_EQ(bench.owner.answered.size(), 1U);
  world.set_dead("gpu-0", false);
  for (auto now = 1100ms; now <= 3s; now += 100ms) world.step(TimePoint(now));
  ASSERT_EQ(bench.owner.answered.size(), 2U);
  for (const Call* call : calls) EXPECT_EQ(call->status, CallStatus::ok) << call->error;
}

// Two slices, each busy for 2 ms with one request; a third request waits. All callers go at 1 ms: emulated batches can
// be stopped, so everything is over at once, and a later message about the same calls finds nothing.
TEST(LiveWorld, DropsCallsWhoseCallersHaveGone) {
  Bench bench(test::deployment(1));
  std::vector<Call*> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(bench.call({1, 2, 3}));
    calls.back()->deadline = 1h;
    bench.world->inbox().post(calls.back());
  }
  bench.world->step(TimePoint(0ms));
  EXPECT_EQ(bench.world->in_flight(), 3u);
  for (Call* call : calls) bench.world->inbox().abandon(call);
  bench.world->step(TimePoint(1ms));
  EXPECT_EQ(bench.world->in_flight(), 0u);
  ASSERT_EQ(bench.owner.answered.size(), 3u);
  for (const Call* call : bench.owner.answered) EXPECT_EQ(call->status, CallStatus::abandoned);
  EXPECT_EQ(calls[2]->launched, TimePoint{});
  const ServiceTally& tally = bench.world->ledger().services()[0];
  EXPECT_EQ(tally.outcomes[index_of(OutcomeKind::abandoned)], 3u);
  EXPECT_EQ(tally.attainment.ratio(TimePoint(1ms)), 1);
  for (const SliceServed& slice : bench.world->ledger().slices()) EXPECT_EQ(slice.failures, 0u);
  for (Call* call : calls) bench.world->inbox().abandon(call);
  bench.world->step(TimePoint(2ms));
  EXPECT_EQ(bench.owner.answered.size(), 3u);
  bench.world->inbox().post(bench.call({4}));
  bench.world->step(TimePoint(2ms));
  bench.run_until_idle();
  EXPECT_EQ(bench.owner.answered.back()->status, CallStatus::ok);
}

}  // namespace
}  // namespace tangram::serve
