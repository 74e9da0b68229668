#include "serve/live_world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

// Keeps the calls that come back, in order.
class Collector final : public CallOwner {
 public:
  void on_answered(Call* call) override { answered.push_back(call); }
  std::vector<Call*> answered;
};

// Owns a world with emulated slices and the calls of a test.
class Bench {
 public:
  explicit Bench(sched::Deployment deployment = test::deployment(), engines::EmulatedExecutorConfig emulated = {})
      : models_(served_models(deployment, test::workload(), "emulated")), signature_{&models_[0].signature} {
    LiveWorldConfig config;
    config.make_executor = [this, emulated](SliceId, const sched::Place&, engines::ExecutorEvents&) {
      return engines::make_emulated_executor(signature_, emulated);
    };
    world = std::make_unique<LiveWorld>(std::move(deployment), models_, std::move(config));
  }

  // A request of `samples` x `ids.size() / samples` token ids.
  Call* call(const std::vector<std::int64_t>& ids, std::int32_t samples = 1) {
    calls_.push_back(std::make_unique<Call>());
    Call& c = *calls_.back();
    c.owner = &owner;
    c.model = &models_[0];
    c.body.assign(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int64_t));
    c.inputs = {{c.body, true}, {{}, false}};
    c.samples = samples;
    c.size = c.extent = static_cast<std::int64_t>(ids.size()) / samples;
    return &c;
  }

  void run_until_idle() {
    while (world->in_flight() > 0 && world->next_due() != kTimeNever) world->step(world->next_due());
  }

  Collector owner;
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
  bench.world->post(bench.call({1, 2, 3}));
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
    together.world->post(calls.back());
  }
  together.world->step(TimePoint(0ms));
  together.run_until_idle();
  EXPECT_EQ(together.owner.answered.size(), requests.size());
  std::int32_t largest_batch = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Bench alone(test::deployment(8, Padding::none));
    Call* call = alone.call(requests[i].first, requests[i].second);
    alone.world->post(call);
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
  for (Call* call : {a, b, c}) bench.world->post(call);
  bench.world->step(TimePoint(0ms));
  bench.run_until_idle();
  EXPECT_NE(a->answer, b->answer);
  EXPECT_NE(a->answer, c->answer);
  // The first token is the same at the same place in all three, so its part of `tokens` is, too.
  EXPECT_EQ(a->answer.substr(12, 8), b->answer.substr(12, 8));
}

// One sample takes 2 ms at best, so a millisecond is refused, with the time after which it would have been answered.
TEST(LiveWorld, RefusesAtOnceWhatCannotBeInTime) {
  Bench bench;
  Call* call = bench.call({1});
  call->deadline = 1ms;
  bench.world->post(call);
  bench.world->step(TimePoint(0ms));
  ASSERT_EQ(bench.owner.answered.size(), 1u);
  EXPECT_EQ(call->status, CallStatus::refused);
  EXPECT_EQ(call->retry_after, 1ms);
  EXPECT_EQ(bench.world->service_tallies()[0].rejected[static_cast<std::size_t>(RejectReason::too_late)], 1u);
}

TEST(LiveWorld, SaysWhatIsTooLargeAndWhatIsUnloaded) {
  Bench bench;
  Call* large = bench.call(std::vector<std::int64_t>(129, 1));
  bench.world->post(large);
  bench.world->step(TimePoint(0ms));
  EXPECT_EQ(large->status, CallStatus::invalid);
  bench.world->set_loaded(ServiceId(0), false);
  Call* unloaded = bench.call({1});
  bench.world->post(unloaded);
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
      bench.world->post(call);
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
            "service 'rank' has another model, 'other' in place of 'encoder': that needs a new start");
  EXPECT_EQ(said([](Service& service) { service.tensors->outputs[0].shape = {4}; }),
            "service 'rank' has other tensors: that needs a new start");
  EXPECT_EQ(said([](Service& service) { service.tensors.reset(); }),
            "service 'rank' has other tensors: that needs a new start");
  EXPECT_EQ(said([](Service& service) { service.priority = 3; }),
            "service 'rank' has another priority, 3 in place of 0: that needs a new start");
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
            "service 'rank' has another input_size, 256 in place of 224: that needs a new start");
}

TEST(LiveWorld, RetriesOnceWhatASliceLost) {
  auto deployment = test::deployment();
  const auto models = served_models(deployment, test::workload(), "emulated");
  const std::vector<const Signature*> signatures{&models[0].signature};
  std::vector<Unreliable*> executors(2);
  LiveWorldConfig config;
  config.make_executor = [&](SliceId slice, const sched::Place&, engines::ExecutorEvents&) {
    auto made = std::make_unique<Unreliable>(engines::make_emulated_executor(signatures, {}));
    executors[slice.index()] = made.get();
    return made;
  };
  LiveWorld world(std::move(deployment), models, std::move(config));
  Collector owner;
  Call call;
  const std::int64_t id = 9;
  call.owner = &owner;
  call.model = &models[0];
  call.body.assign(reinterpret_cast<const char*>(&id), sizeof id);
  call.inputs = {{call.body, true}, {{}, false}};
  world.post(&call);
  world.step(TimePoint(0ms));
  const auto busy = [&] {
    for (std::uint32_t s = 0; s < 2; ++s) {
      if (world.scheduler().state().slices[s].status == sched::SliceStatus::busy) return s;
    }
    return 2u;
  };
  const std::uint32_t first = busy();
  ASSERT_LT(first, 2u);
  world.on_done(SliceId(first), executors[first]->started.back(), "the worker died");
  world.step(TimePoint(1ms));
  EXPECT_TRUE(owner.answered.empty());  // It runs again.
  const std::uint32_t second = busy();
  ASSERT_LT(second, 2u);
  const BatchId lost = executors[second]->started.back();
  world.on_lost(SliceId(second), "the worker was killed");
  world.step(TimePoint(2ms));
  ASSERT_EQ(owner.answered.size(), 1u);
  EXPECT_EQ(call.status, CallStatus::failed);
  EXPECT_EQ(call.error, "model 'rank': the worker was killed");
  EXPECT_EQ(executors[second]->restarts, 1);
  // An answer that comes too late finds nobody.
  world.on_done(SliceId(second), lost, "");
  world.step(TimePoint(3ms));
  EXPECT_EQ(owner.answered.size(), 1u);
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
  auto deployment = test::deployment();
  const auto models = served_models(deployment, test::workload(), "emulated");
  const std::vector<const Signature*> signatures{&models[0].signature};
  LiveWorldConfig config;
  config.make_executor = [&](SliceId, const sched::Place&, engines::ExecutorEvents&) {
    return std::make_unique<Away>(engines::make_emulated_executor(signatures, {}));
  };
  LiveWorld world(std::move(deployment), models, std::move(config));
  world.open_slices();
  EXPECT_EQ(world.slices_starting(), 2u);
  Collector owner;
  const std::int64_t id = 9;
  Call first;
  Call second;
  for (Call* call : {&first, &second}) {
    call->owner = &owner;
    call->model = &models[0];
    call->body.assign(reinterpret_cast<const char*>(&id), sizeof id);
    call->inputs = {{call->body, true}, {{}, false}};
    call->deadline = call == &first ? 10ms : 50ms;
    world.post(call);
  }
  world.step(TimePoint(0ms));
  EXPECT_TRUE(owner.answered.empty());
  EXPECT_EQ(world.next_due(), TimePoint(10ms));
  world.step(TimePoint(10ms));
  ASSERT_EQ(owner.answered.size(), 1u);
  EXPECT_EQ(first.status, CallStatus::unavailable);
  EXPECT_EQ(first.error, "model 'rank': no slice serves it now");
  EXPECT_EQ(world.service_tallies()[0].rejected[static_cast<std::size_t>(RejectReason::no_capacity)], 1u);
  world.on_restarted(SliceId(1), true);
  world.step(TimePoint(20ms));
  EXPECT_EQ(world.slices_starting(), 1u);
  world.step(TimePoint(22ms));
  ASSERT_EQ(owner.answered.size(), 2u);
  EXPECT_EQ(second.status, CallStatus::ok) << second.error;
  EXPECT_EQ(world.in_flight(), 0u);
}

}  // namespace
}  // namespace tangram::serve
