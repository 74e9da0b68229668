#include "serve/saved_following.h"

#include <gtest/gtest.h>

#include "formats/plan_file.h"

namespace tangram::serve {
namespace {

SavedFollowing example() {
  SavedFollowing saved;
  saved.plan = *formats::parse_plan({"plan.json", R"({"version": 1, "devices": [{"name": "rack-0", "type": "a100-80gb",
    "layout": "1g.10gb@0", "slices": [{"profile": "1g.10gb", "start": 0, "replicas": [{"service": "ask", "processes": 1,
    "buckets": [{"size_max": 8, "batch_size": 2}]}]}]}]})"});
  saved.services = {"ask"};
  saved.planned = {{12.5, {{4, 0.75}, {8, 0.25}}}};
  saved.previous = SavedPlan{saved.plan, {{10, {{4, 1}}}}, "the start"};
  saved.moving = true;
  saved.watches = {{{12, 0.5, 12.4, {1, 1.1}}, {30}, 12.5, 0.1, 2, 11}};
  saved.corrections = {{"a100-80gb/1g.10gb", ServiceId(0), 8, 1, 1'250'000'000, 40'000'000}};
  saved.moves_ago_s = {12.5};
  saved.group_hours = {{"rack", 1.5}};
  saved.device_hours = 1.5;
  saved.moves = 3;
  saved.held = true;
  saved.last_reason = "ask: rate 10 -> 12.5";
  return saved;
}

TEST(SavedFollowing, ReadsBackWhatItWrote) {
  const auto again = parse_saved_following(to_text(example()));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_text(*again), to_text(example()));
  EXPECT_EQ(again->planned[0].mix.at(8), 0.25);
  EXPECT_TRUE(again->held);
  EXPECT_TRUE(again->moving);
  ASSERT_TRUE(again->previous);
  EXPECT_EQ(again->previous->plan, example().plan);
  EXPECT_EQ(again->watches, example().watches);
  EXPECT_EQ(again->corrections, example().corrections);
  EXPECT_EQ(again->group_hours, example().group_hours);
}

TEST(SavedFollowing, RejectsWhatItDidNotWrite) {
  EXPECT_FALSE(parse_saved_following(""));
  EXPECT_FALSE(parse_saved_following("{}"));
  std::string other = to_text(example());
  other.replace(other.find("\"version\":2"), 11, "\"version\":9");
  EXPECT_FALSE(parse_saved_following(other));
}

// Values that come while one is being written replace each other; the last one is never lost.
TEST(SavedWriter, WritesTheNewestValue) {
  std::uint64_t written = 0;
  {
    SavedWriter writer([&](const SavedFollowing& saved) {
      written = saved.moves;
      return Result<Nothing>(Nothing{});
    });
    SavedFollowing saved = example();
    for (saved.moves = 1; saved.moves <= 100; ++saved.moves) writer.put(saved);
  }
  EXPECT_EQ(written, 100U);
}

}  // namespace
}  // namespace tangram::serve
