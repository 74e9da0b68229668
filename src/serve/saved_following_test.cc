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
}

TEST(SavedFollowing, RejectsWhatItDidNotWrite) {
  EXPECT_FALSE(parse_saved_following(""));
  EXPECT_FALSE(parse_saved_following("{}"));
  std::string other = to_text(example());
  other.replace(other.find("\"version\":1"), 11, "\"version\":9");
  EXPECT_FALSE(parse_saved_following(other));
}

// Values that come while one is being written replace each other; the last one is never lost.
TEST(SavedWriter, WritesTheNewestValue) {
  std::uint64_t written = 0;
  {
    SavedWriter writer([&](const SavedFollowing& saved) { written = saved.moves; });
    SavedFollowing saved = example();
    for (saved.moves = 1; saved.moves <= 100; ++saved.moves) writer.put(saved);
  }
  EXPECT_EQ(written, 100U);
}

}  // namespace
}  // namespace tangram::serve
