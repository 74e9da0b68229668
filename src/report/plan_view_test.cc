#include "report/plan_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/geometry.h"

namespace tangram::report {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class OneMillisecond final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint&) const override { return Prediction{1ms, 1ms}; }
};

// `count` services that share the first slice of a device; the last one is nearest to its promise. Without sharing it
// would be three devices.
struct SharedStory {
  explicit SharedStory(int count) {
    PlannedDevice device{"g-0", "a100-80gb", *find_geometry("a100-80gb"), {}};
    device.slices.push_back({{static_cast<std::uint16_t>(*find_profile(device.geometry, "1g.10gb")), 0}, {}});
    answer.status = plan::PlanStatus::planned;
    answer.devices = 1;
    answer.price = answer.bound = 1;
    answer.proved = answer.with_sharing = true;
    answer.price_alone = 3;
    answer.binds = "memory";
    answer.notes = {"x shares no slice: its isolation is own_slices"};
    for (int i = 0; i < count; ++i) {
      Service service;
      service.name = service.model = "s" + std::to_string(i);
      service.slo = {100ms, 99};
      problem.workload.services.push_back(service);
      const Replica replica{service.name, {{1, 4}}};
      device.slices[0].replicas.push_back(replica);
      plan::ServicePlan plan;
      plan.service = service.name;
      plan.rate_per_s = 1;
      plan.load_factor = 4;
      plan.groups = {{"a100-80gb", "1g.10gb", 1, replica, 1}};
      plan.verdict = plan::Verdict{.holds = true, .attainment = 1, .latency = 10ms * (i + 1), .view = "long run"};
      for (int other = 0; other < count; ++other) {
        if (other != i) plan.shares_with.push_back("s" + std::to_string(other));
      }
      answer.services.push_back(std::move(plan));
      neighbours.push_back({service.name, static_cast<std::size_t>(count - 1), 2ms, 10ms * (i + 1)});
    }
    answer.plan.devices = {device};
    problem.latency = &model;
  }

  PlanStory story() const {
    PlanStory story{problem, answer, "elastic"};
    story.costs.assign(answer.services.size(), 0.1);
    story.neighbours = neighbours;
    story.explained = true;
    return story;
  }

  OneMillisecond model;
  plan::Problem problem;
  plan::PlanAnswer answer;
  std::vector<plan::Neighbours> neighbours;
};

TEST(PlanView, ExplainsWhoSharesAndWhatItSaves) {
  const SharedStory shared(3);
  const std::string text = explanation_text(shared.story(), Terminal{.width = 200});
  EXPECT_THAT(text, HasSubstr("each service has slices of its own takes 3 devices; sharing saves 2."));
  EXPECT_THAT(text, HasSubstr("s0, s1, s2  1 x 1g.10gb"));
  EXPECT_THAT(text, HasSubstr("most of it is memory"));
  EXPECT_THAT(text, HasSubstr("x shares no slice: its isolation is own_slices"));
  const auto blocks = plan::shared_blocks(shared.problem, shared.answer);
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].least_room, "s2");
  EXPECT_DOUBLE_EQ(blocks[0].busy, 0.25);
}

// s1 is loaded on demand; s2 must not share, and the memory of s0's model is not known.
TEST(PlanView, TheTableSaysWhoIsLoadedOnDemandAndWhoKeepsToItself) {
  SharedStory shared(3);
  shared.problem.fleet.groups.resize(1);
  shared.problem.fleet.groups[0].type = "a100-80gb";
  shared.answer.services[1].groups[0].replica.load = ReplicaLoad::on_demand;
  shared.problem.workload.services[2].isolation = Isolation::own_slices;
  const std::string text = plan_text(shared.story(), Terminal{.width = 200});
  EXPECT_THAT(text, testing::ContainsRegex("\ns0 .*1 x 1g.10gb \\[1\\] "));
  EXPECT_THAT(text, testing::ContainsRegex("\ns1 .*1 x 1g.10gb \\* \\[1\\] "));
  EXPECT_THAT(text, testing::ContainsRegex("\ns2 .*1 x 1g.10gb \\[2\\] "));
  EXPECT_THAT(text, HasSubstr("\n* loaded on demand: "));
  EXPECT_THAT(text, HasSubstr("\n[1] shares no slice: the memory of its model is not known"));
  EXPECT_THAT(text, HasSubstr("\n[2] shares no slice: its isolation is own_slices\n"));
  // Programs have both under names of their own, without marks.
  EXPECT_EQ(plan_json(shared.story())["sharing"]["blocks"][0]["slices"], "1 x 1g.10gb");
  // Without sharing nobody needs a reason.
  shared.answer.with_sharing = false;
  EXPECT_THAT(plan_text(shared.story(), Terminal{.width = 200}), Not(HasSubstr("shares no slice")));
}

// 93 % of the samples fit, and p90 was promised: the simulation keeps the promise and rejects the rest. The plan still
// does not pass, and neither the table nor the last line says "holds" without saying that.
TEST(PlanView, ACheckedPlanWithoutTheCapacityDoesNotJustHold) {
  const SharedStory one(1);
  plan::CertifiedPlan checked;
  checked.services.push_back({});
  checked.services[0].service = "s0";
  checked.services[0].verdict = one.answer.services[0].verdict;
  const Terminal terminal{.width = 200};
  const std::string right = checked_plan_text(one.problem, checked, {}, terminal);
  EXPECT_THAT(right, HasSubstr("  holds\n"));
  EXPECT_THAT(right, HasSubstr("\nevery promise holds\n"));
  const std::string wrong = checked_plan_text(
      one.problem, checked, {"s0: its slices can run only 93 % of the samples that arrive"}, terminal);
  EXPECT_THAT(wrong, HasSubstr("  holds when simulated, but see below\n"));
  EXPECT_THAT(wrong, HasSubstr("can run only 93 %"));
  EXPECT_THAT(wrong, HasSubstr("\nevery promise holds when simulated, but the plan does not pass its check\n"));
}

TEST(PlanView, JsonHasSharingForPrograms) {
  const SharedStory shared(3);
  const Json json = plan_json(shared.story());
  EXPECT_EQ(json["sharing"]["devices_alone"], 3);
  EXPECT_EQ(json["sharing"]["saved"], 2);
  EXPECT_EQ(json["sharing"]["binds"], "memory");
  EXPECT_EQ(json["sharing"]["blocks"][0]["services"], Json::array({"s0", "s1", "s2"}));
  EXPECT_EQ(json["sharing"]["blocks"][0]["slices"], "1 x 1g.10gb");
  EXPECT_EQ(json["services"][1]["shares_with"], Json::array({"s0", "s2"}));
  EXPECT_EQ(json["explanation"]["neighbours"][2]["latency_alone_ms"], 2);
  EXPECT_EQ(json["explanation"]["neighbours"][2]["latency_shared_ms"], 30);
}

// Beyond twenty services the table of devices counts them and names the first.
TEST(PlanView, ShortensLongListsOfServices) {
  EXPECT_THAT(plan_text(SharedStory(20).story(), Terminal{.width = 400}), HasSubstr("s0+s1+s2+s3"));
  const std::string text = plan_text(SharedStory(21).story(), Terminal{.width = 400});
  EXPECT_THAT(text, HasSubstr("21 services: s0, s1, ..."));
  EXPECT_THAT(text, HasSubstr("--output json has all"));
  EXPECT_THAT(text, Not(HasSubstr("s0+s1")));
}

// A service alone, whose bursts lose what the calm makes good.
TEST(PlanView, SaysWhatIsLostInBurstsAndWhatIsKnownOfSmallerSlices) {
  SharedStory one(1);
  auto& service = one.answer.services[0];
  one.problem.workload.services[0].traffic = BurstTraffic{100, 5, 2, 20};
  one.problem.workload.services[0].slo.window_s = 5;
  service.verdict->busiest = "a burst";
  service.verdict->busiest_attainment = 0.875;
  service.verdict->windows_kept = 0.975;
  const auto text = [&] { return explanation_text(one.story(), Terminal{.width = 200}); };
  EXPECT_THAT(text(), HasSubstr("the promise holds on average but not in a burst: 87.5 % are in time there, for 2 s "
                                "every 22 s on average"));
  EXPECT_THAT(text(), HasSubstr("s0: 97.5 % of the windows of 5 s at its busiest keep the promise."));
  EXPECT_THAT(text(), HasSubstr("not looked for"));
  EXPECT_THAT(text(), Not(HasSubstr("none with the capacity")));
  service.smaller = plan::SmallerCovers::no_capacity;
  EXPECT_THAT(text(), HasSubstr("none with the capacity"));
  service.smaller = plan::SmallerCovers::suffices;
  EXPECT_THAT(text(), HasSubstr("one that would save nothing"));
  plan::Verdict close{.attainment = 1, .view = "every window", .too_close = true};
  close.windows_kept = 0.94;
  service.nearest = plan::NearestCover{service.groups, close};
  EXPECT_THAT(plan_text(one.story(), Terminal{.width = 200}),
              HasSubstr("s0: too close to call on 1 x 1g.10gb: 94 % of the windows at its busiest keep the promise"));
}

}  // namespace
}  // namespace tangram::report
