#include "plan/transition.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "plan/test_plans.h"

namespace tangram::plan {
namespace {

// The steps in one line each, for comparing: "create g-0 3g.40gb@4", "drain g-0 1g.10gb@0 a".
std::vector<std::string> lines(const std::vector<Step>& steps) {
  std::vector<std::string> result;
  for (const auto& step : steps) {
    std::string line = fmt::format("{} {}", to_string(step.action), step.device);
    for (const auto& slice : step.slices) line += fmt::format(" {}@{}", slice.profile, slice.start);
    if (!step.replica.service.empty()) line += " " + step.replica.service;
    result.push_back(line + (step.temporary ? " for a while" : ""));
  }
  return result;
}

// Compute slices times batch sizes, shared by what runs there: replicas of one service differ, and neighbours matter.
double test_capacity(const PlannedDevice& device, const PlannedSlice& slice, const Replica& replica) {
  double batches = 0;
  for (const auto& bucket : replica.buckets) batches += static_cast<double>(bucket.batch_size);
  return device.geometry.profiles[slice.slice.profile].compute_slices * batches * replica.processes /
         static_cast<double>(slice.replicas.size());
}

// The two slices of an A30 (profile 2 is 2g.12gb) trade places for one (profile 4 is 4g.24gb). While g-0 is cut, only
// g-1 serves: both are needed, so something must give. With a spare device nothing has to.
TEST(Transition, SaysWhichStepFallsBelowWhereThereIsNoRoom) {
  const Plan before = plan_of({{"g-0", "a30", "2g@0 a:1:1, 2g@2 a:1:1"}});
  const Plan after = plan_of({{"g-0", "a30", "4g@0 a:1:1"}});
  const auto moved = transition(before, after);
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ(lines(moved->steps), (std::vector<std::string>{"drain g-0 2@0 a", "unload g-0 2@0 a", "destroy g-0 2@0",
                                                           "drain g-0 2@2 a", "unload g-0 2@2 a", "destroy g-0 2@2",
                                                           "create g-0 4@0", "load g-0 4@0 a", "start g-0 4@0 a"}));
  ASSERT_TRUE(moved->first_below.has_value());
  EXPECT_EQ(*moved->first_below, 0u);
  EXPECT_TRUE(moved->exhaustive);
  EXPECT_EQ(moved->steps[0].below, std::vector<std::string>{"a"});
}

TEST(Transition, HelpsOutOnASpareDevice) {
  const Plan before = plan_of({{"g-0", "a30", "2g@0 a:1:1, 2g@2 a:1:1"}});
  const Plan after = plan_of({{"g-0", "a30", "4g@0 a:1:1"}});
  TransitionOptions options;
  options.spares = {{"spare", "a30", *find_geometry("a30"), {}}};
  const auto moved = transition(before, after, options);
  ASSERT_TRUE(moved.ok());
  EXPECT_FALSE(moved->first_below.has_value());
  EXPECT_EQ(moved->temporaries, 2);
  EXPECT_EQ(lines(moved->steps)[0], "create spare 2@0 for a while");
}

// 1g@2 and 1g@3 of an A30 are free units: the new slices come before the old one goes.
TEST(Transition, MakesBeforeItBreaksWhereUnitsAreFree) {
  const Plan before = plan_of({{"g-0", "a30", "2g@0 a:1:1"}});
  const Plan after = plan_of({{"g-0", "a30", "1g@0 b:1:1, 1g@2 a:1:1, 1g@3 a:1:1"}});
  const auto moved = transition(before, after);
  ASSERT_TRUE(moved.ok());
  const auto text = lines(moved->steps);
  EXPECT_FALSE(moved->first_below.has_value());
  EXPECT_EQ(text.front(), "create g-0 0@2 0@3");
  EXPECT_EQ(text.back(), "start g-0 0@0 b");
}

// Neither the 4g nor the 1g at 6 changes; only the 2g gives way to two 1g.
TEST(Transition, TouchesNothingThatStays) {
  const Plan before = plan_of({{"g-0", "a100-80gb", "4g@0 a:1:1, 2g@4 b:1:1, 1g@6 c:1:1"}});
  const Plan after = plan_of({{"g-0", "a100-80gb", "4g@0 a:1:1, 1g@4 b:1:1, 1g@5 b:1:1, 1g@6 c:1:1"}});
  const auto moved = transition(before, after);
  ASSERT_TRUE(moved.ok());
  for (const auto& step : moved->steps) {
    for (const auto& slice : step.slices) {
      EXPECT_TRUE(slice.start == 4 || slice.start == 5) << slice.start;
    }
  }
}

// A drain of 1 s, one slice taken away in 120 ms, two made in 104 ms, and both models loaded at once in 10 s.
TEST(Transition, AddsUpTheTimesOfItsPhases) {
  const Plan before = plan_of({{"g-0", "a30", "2g@0 a:1:1"}});
  const Plan after = plan_of({{"g-0", "a30", "1g@0 b:1:1, 1g@1 c:1:1"}});
  TransitionOptions options;
  options.match.move = false;
  const auto moved = transition(before, after, options);
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ(moved->takes, from_milliseconds(1000 + 120 + 104 + 10'000));
  EXPECT_EQ(moved->steps.back().begins, kTimeZero + from_milliseconds(11'224));
}

// Another batch size on a slice that stays: no draining, no loading, no time.
TEST(Transition, RetunesARunningReplica) {
  const Plan before = plan_of({{"g-0", "a30", "4g@0 a:64:8"}});
  const Plan after = plan_of({{"g-0", "a30", "4g@0 a:64:4"}});
  const auto moved = transition(before, after);
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ(lines(moved->steps), (std::vector<std::string>{"retune g-0 4@0 a"}));
  EXPECT_EQ(moved->takes, Duration::zero());
}

TEST(Transition, OfEqualPlansHasNoSteps) {
  const Plan plan = plan_of({{"g-0", "a30", "4g@0 a:64:8"}});
  EXPECT_TRUE(transition(plan, plan)->steps.empty());
}

// a may fall to 2 of its 4 compute slices, so one slice goes at a time; with the demand at 4 that is not allowed.
TEST(Transition, GoesDownToTheDemandAndNoFurther) {
  const Plan before = plan_of({{"g-0", "a30", "2g@0 a:1:1, 2g@2 a:1:1"}});
  const Plan after = plan_of({{"g-0", "a30", "1g@0 a:1:1, 1g@1 a:1:1, 1g@2 a:1:1, 1g@3 a:1:1"}});
  TransitionOptions options;
  options.demand = {{"a", 2}};
  const auto moved = transition(before, after, options);
  ASSERT_TRUE(moved.ok());
  EXPECT_FALSE(moved->first_below.has_value());
  double lowest = 4;
  for (const auto& step : moved->steps) {
    if (const auto found = step.capacity.find("a"); found != step.capacity.end())
      lowest = std::min(lowest, found->second);
  }
  EXPECT_EQ(lowest, 2);
  EXPECT_TRUE(transition(before, after)->first_below.has_value());
}

TEST(Transition, RefusesASpareWithATakenName) {
  TransitionOptions options;
  options.spares = {{"g-0", "a30", *find_geometry("a30"), {}}};
  const Plan plan = plan_of({{"g-0", "a30", "4g@0 a:64:8"}});
  EXPECT_EQ(transition(plan, plan, options).error().message, "the spare device g-0 has the name of another device");
}

// Random pairs of plans.

struct Case {
  Plan before;
  Plan after;
  TransitionOptions options;
};

Plan random_plan(Rng& rng, int devices, int first_name) {
  static const char* const kTypes[] = {"a100-80gb", "a30", "rtx-pro-6000"};
  Plan plan;
  for (int i = 0; i < devices; ++i) {
    const int name = first_name + i;
    plan.devices.push_back(random_device(rng, fmt::format("g-{}", name), kTypes[name % 3], 3));
  }
  rng.shuffle(plan.devices);
  return plan;
}

// A plan that shares devices with another, and changes some of its slices.
Plan variation(Rng& rng, const Plan& plan) {
  Plan result = plan;
  for (auto& device : result.devices) {
    if (rng.chance(0.5)) continue;
    if (rng.chance(0.5)) {
      device = random_device(rng, device.name, device.type, 3);
    } else {
      for (auto& slice : device.slices) {
        if (rng.chance(0.3)) slice.replicas = {random_replica(rng, 3)};
      }
    }
  }
  return result;
}

Case random_case(std::uint64_t seed) {
  Rng rng = Rng(seed).stream("transition");
  Case random;
  random.before = random_plan(rng, static_cast<int>(rng.integer(1, 6)), 0);
  random.after = rng.chance(0.7)
                     ? variation(rng, random.before)
                     : random_plan(rng, static_cast<int>(rng.integer(1, 6)), static_cast<int>(rng.integer(0, 2)));
  random.options.capacity = test_capacity;
  random.options.match = {.rename = rng.chance(0.7), .move = rng.chance(0.7)};
  random.options.temporaries = rng.chance(0.7);
  random.options.states_max = 300;
  if (rng.chance(0.5)) random.options.demand = {{"a", rng.uniform(0, 20)}, {"b", rng.uniform(0, 20)}};
  if (rng.chance(0.4)) random.options.spares = {{"spare", "a100-80gb", *find_geometry("a100-80gb"), {}}};
  return random;
}

// Devices by type and content, whatever their names and the places of their slices.
std::map<std::string, int> contents(const Plan& plan) {
  std::map<std::string, int> counts;
  for (const auto& device : plan.devices) {
    std::vector<std::string> parts;
    for (const auto& slice : device.slices) {
      std::vector<std::string> replicas;
      for (const auto& replica : slice.replicas) {
        std::string text = fmt::format("{}x{}", replica.service, replica.processes);
        for (const auto& bucket : replica.buckets) text += fmt::format(":{}/{}", bucket.size_max, bucket.batch_size);
        replicas.push_back(text);
      }
      std::ranges::sort(replicas);
      parts.push_back(fmt::format("{}[{}]", slice.slice.profile, text::join(replicas, " ")));
    }
    std::ranges::sort(parts);
    if (!parts.empty()) ++counts[device.type + " " + text::join(parts, ", ")];
  }
  return counts;
}

void expect_capacity(const LiveFleet& fleet, const Transition& moved, const Step& step) {
  const auto recount = fleet.capacity(test_capacity);
  const auto total = [&](const std::string& service) {
    const auto found = recount.find(service);
    return found == recount.end() ? 0 : found->second;
  };
  for (const auto& [service, value] : step.capacity) EXPECT_NEAR(value, total(service), 1e-6);
  std::vector<std::string> below;
  for (const auto& [service, floor] : moved.floors) {
    if (total(service) < floor * (1 - 1e-9) - 1e-9) below.push_back(service);
  }
  EXPECT_EQ(step.below, below);
}

void expect_legal(const LiveFleet& fleet) {
  for (const auto& device : fleet.running().devices) EXPECT_EQ(why_invalid(device.geometry, layout_of(device)), "");
}

class RandomTransition : public testing::TestWithParam<int> {};

// Executing the steps yields the target; every layout on the way is legal; capacities are what a recount finds; slices
// that stay are not touched, unless free ones help out.
TEST_P(RandomTransition, ArrivesAtTheTargetByLegalSteps) {
  for (int i = 0; i < 40; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * 40 + i);
    SCOPED_TRACE(seed);
    const Case random = random_case(seed);
    const auto moved = transition(random.before, random.after, random.options);
    if (!moved) continue;
    LiveFleet fleet = fleet_for(random.before, moved->difference, random.options);
    for (const auto& step : moved->steps) {
      const auto applied = fleet.apply(step);
      ASSERT_TRUE(applied.ok()) << applied.error().message;
      expect_legal(fleet);
      expect_capacity(fleet, *moved, step);
    }
    EXPECT_TRUE(fleet.settled());
    EXPECT_TRUE(same_content(fleet.running(), moved->difference.target));
    EXPECT_EQ(contents(moved->difference.target), contents(random.after));
    if (!random.options.match.rename && !random.options.match.move) {
      EXPECT_TRUE(same_content(fleet.running(), random.after));
    }
  }
}

TEST_P(RandomTransition, NeverTouchesSlicesThatStay) {
  for (int i = 0; i < 40; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * 40 + i);
    SCOPED_TRACE(seed);
    const Case random = random_case(seed);
    const auto moved = transition(random.before, random.after, random.options);
    if (!moved) continue;
    for (const auto& device : moved->difference.devices) {
      for (const auto& kept : device.slices) {
        if (kept.change != SliceChange::kept) continue;
        for (const auto& step : moved->steps) {
          if (step.device != device.before.name || std::ranges::count(step.slices, kept.slice) == 0) continue;
          EXPECT_TRUE(step.temporary && kept.before.empty());
        }
      }
    }
  }
}

TEST_P(RandomTransition, RollsBackFromEveryStep) {
  for (int i = 0; i < 15; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * 40 + i);
    SCOPED_TRACE(seed);
    const Case random = random_case(seed);
    const auto moved = transition(random.before, random.after, random.options);
    if (!moved) continue;
    LiveFleet fleet = fleet_for(random.before, moved->difference, random.options);
    for (std::size_t done = 0; done <= moved->steps.size(); ++done) {
      LiveFleet back = fleet;
      for (const auto& step : rollback(random.before, *moved, done, random.options)) {
        const auto applied = back.apply(step);
        ASSERT_TRUE(applied.ok()) << applied.error().message;
        expect_capacity(back, *moved, step);
      }
      EXPECT_TRUE(back.settled());
      EXPECT_TRUE(same_content(back.running(), random.before));
      if (done < moved->steps.size()) {
        ASSERT_TRUE(fleet.apply(moved->steps[done]).ok());
      }
    }
  }
}

// Steps of one phase run at once, so any order of them must do, and none may bring a service below its floor.
TEST_P(RandomTransition, MayDoTheStepsOfAPhaseInAnyOrder) {
  for (int i = 0; i < 40; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * 40 + i);
    SCOPED_TRACE(seed);
    const Case random = random_case(seed);
    auto moved = transition(random.before, random.after, random.options);
    if (!moved) continue;
    Rng rng = Rng(seed).stream("shuffle");
    rng.shuffle(moved->steps);
    std::ranges::stable_sort(moved->steps, {}, &Step::phase);
    LiveFleet fleet = fleet_for(random.before, moved->difference, random.options);
    for (const auto& step : moved->steps) {
      ASSERT_TRUE(fleet.apply(step).ok());
      if (moved->first_below) continue;
      const auto recount = fleet.capacity(test_capacity);
      for (const auto& [service, floor] : moved->floors) {
        const auto found = recount.find(service);
        EXPECT_GE(found == recount.end() ? 0 : found->second, floor * (1 - 1e-9) - 1e-9);
      }
    }
    EXPECT_TRUE(same_content(fleet.running(), moved->difference.target));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTransition, testing::Range(0, 10));

// Brute force: all orders of the works, each simulated on the fleet itself.
class Orders {
 public:
  Orders(const Plan& before, const Transition& moved, const TransitionOptions& options)
      : moved_(moved), start_(fleet_for(before, moved.difference, options)) {
    for (const auto& device : moved.difference.devices) {
      for (const auto& slice : device.slices) {
        if (slice.change == SliceChange::created) newcomers_.push_back({device.before.name, &slice});
        if (slice.change == SliceChange::changed || slice.change == SliceChange::destroyed) {
          works_.push_back({device.before.name, &slice});
        }
      }
    }
  }

  std::size_t size() const { return works_.size(); }

  bool one_never_falls_below() {
    std::vector<std::size_t> order(works_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    do {
      if (holds(order)) return true;
    } while (std::ranges::next_permutation(order).found);
    return false;
  }

 private:
  struct Item {
    std::string device;
    const SliceDifference* slice;
  };

  bool enough(const LiveFleet& fleet) const {
    const auto now = fleet.capacity(test_capacity);
    return std::ranges::all_of(moved_.floors, [&](const auto& entry) {
      const auto found = now.find(entry.first);
      return (found == now.end() ? 0 : found->second) >= entry.second * (1 - 1e-9) - 1e-9;
    });
  }

  static bool act(LiveFleet& fleet, StepAction action, const Item& item, const Replica& replica = {},
                  const Replica& to = {}) {
    Step step;
    step.action = action;
    step.device = item.device;
    step.slices = {item.slice->slice};
    step.replica = replica;
    step.retuned = to;
    return fleet.apply(step).ok();
  }

  void make(LiveFleet& fleet, std::vector<char>& made) const {
    for (std::size_t i = 0; i < newcomers_.size(); ++i) {
      if (made[i] || !act(fleet, StepAction::create, newcomers_[i])) continue;
      made[i] = 1;
      for (const auto& replica : newcomers_[i].slice->after) {
        act(fleet, StepAction::load, newcomers_[i], replica);
        act(fleet, StepAction::start, newcomers_[i], replica);
      }
    }
  }

  bool holds(const std::vector<std::size_t>& order) const {
    LiveFleet fleet = start_;
    std::vector<char> made(newcomers_.size(), 0);
    make(fleet, made);
    for (const auto index : order) {
      const Item& item = works_[index];
      const ReplicaChanges changes = compare_replicas(item.slice->before, item.slice->after);
      for (const auto& replica : changes.stopped) {
        act(fleet, StepAction::drain, item, replica);
        act(fleet, StepAction::unload, item, replica);
        if (!enough(fleet)) return false;
      }
      for (const auto& pair : changes.retuned) {
        act(fleet, StepAction::retune, item, pair.before, pair.after);
        if (!enough(fleet)) return false;
      }
      for (const auto& replica : changes.loaded) {
        act(fleet, StepAction::load, item, replica);
        act(fleet, StepAction::start, item, replica);
        if (!enough(fleet)) return false;
      }
      if (item.slice->change == SliceChange::destroyed) act(fleet, StepAction::destroy, item);
      make(fleet, made);
    }
    return true;
  }

  const Transition& moved_;
  LiveFleet start_;
  std::vector<Item> works_;
  std::vector<Item> newcomers_;
};

// Whenever some order of the works keeps every floor, the transition keeps them, and otherwise it says so. Copies on
// spare room may only help.
TEST(Transition, FindsAnOrderThatHoldsWheneverThereIsOne) {
  int possible = 0;
  int impossible = 0;
  int helped = 0;
  for (std::uint64_t seed = 1000; seed < 1600; ++seed) {
    SCOPED_TRACE(seed);
    Case random = random_case(seed);
    random.options.temporaries = false;
    random.options.states_max = 20'000;
    const auto moved = transition(random.before, random.after, random.options);
    if (!moved) continue;
    Orders orders(random.before, *moved, random.options);
    if (orders.size() == 0 || orders.size() > 6) continue;
    const bool holds = orders.one_never_falls_below();
    EXPECT_EQ(!moved->first_below.has_value(), holds);
    EXPECT_EQ(moved->exhaustive, !holds);
    (holds ? possible : impossible) += 1;
    random.options.temporaries = true;
    const auto with_help = transition(random.before, random.after, random.options);
    if (holds) {
      EXPECT_FALSE(with_help->first_below.has_value());
    }
    helped += !holds && !with_help->first_below ? 1 : 0;
  }
  // Both answers occur often, and help sometimes helps: otherwise the test would say nothing.
  EXPECT_GT(possible, 50);
  EXPECT_GT(impossible, 50);
  EXPECT_GT(helped, 5);
}

// s1 and s2 stay on the slice; s3 comes and s4 goes, each in steps of its own, and nothing is cut.
TEST(Transition, LoadsAndDropsOneModelOfASharedSliceBesideTheOthers) {
  const Plan before = plan_of({{"g-0", "a100-80gb", "1g@0 s1:1:1 s2:1:1 s4:1:1"}});
  const Plan after = plan_of({{"g-0", "a100-80gb", "1g@0 s1:1:1 s2:1:1 s3:1:1"}});
  const auto moved = transition(before, after);
  ASSERT_TRUE(moved.ok());
  std::vector<std::string> told;
  for (const auto& step : moved->steps) {
    told.push_back(
        fmt::format("{} {} beside {}", to_string(step.action), step.replica.service, text::join(step.beside, "+")));
  }
  EXPECT_EQ(told, (std::vector<std::string>{"drain s4 beside s1+s2", "unload s4 beside s1+s2", "load s3 beside s1+s2",
                                            "start s3 beside s1+s2"}));
  EXPECT_EQ(moved->difference.counts.replicas_kept, 2);
}

// A limit on rates is not a model: it changes without a reload.
TEST(Transition, ChangesTheLimitOfARateWithoutLoadingAgain) {
  const Plan before = plan_of({{"g-0", "a100-80gb", "1g@0 s1:1:1 s2:1:1"}});
  Plan after = before;
  after.devices[0].slices[0].replicas[1].rate_max_per_s = 5;
  const auto moved = transition(before, after);
  ASSERT_TRUE(moved.ok());
  ASSERT_EQ(moved->steps.size(), 1u);
  EXPECT_EQ(moved->steps[0].action, StepAction::retune);
  EXPECT_EQ(moved->steps[0].retuned.rate_max_per_s, 5);
}

}  // namespace
}  // namespace tangram::plan
