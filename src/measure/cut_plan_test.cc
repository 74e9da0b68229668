#include "measure/cut_plan.h"

#include <gtest/gtest.h>

#include <set>

namespace tangram::measure {
namespace {

const Geometry& cut_board() { return *find_geometry("a100-80gb"); }

Layout cut_layout(const std::string& text) {
  auto parsed = parse_layout(cut_board(), text);
  EXPECT_TRUE(parsed.problems.empty()) << text;
  return parsed.layout;
}

// 7g takes the whole card, and 4g + 3g fill its eight memory units, so 2g and 1g need another layout: three cuts. The
// slices that are there have 1g and 3g, so 4g + 2g and 7g are left: two.
TEST(CutPlan, TakesTheFewestCutsFromTheLayoutThatIsThere) {
  const std::vector<std::string> profiles{"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"};
  const auto anew = plan_cuts(cut_board(), profiles, Layout{});
  ASSERT_TRUE(anew);
  EXPECT_EQ(anew->size(), 3U);
  const auto from = plan_cuts(cut_board(), profiles, cut_layout("1g.10gb@0 + 1g.10gb@1 + 3g.40gb@4"));
  ASSERT_TRUE(from);
  ASSERT_EQ(from->size(), 3U);
  EXPECT_EQ((*from)[0].layout, cut_layout("1g.10gb@0 + 1g.10gb@1 + 3g.40gb@4"));
  EXPECT_EQ((*from)[0].profiles, (std::vector<std::string>{"1g.10gb", "3g.40gb"}));
  // Every profile is measured once, in a layout that is legal and has it.
  for (const auto& stages : {*anew, *from}) {
    std::multiset<std::string> measured;
    for (const auto& stage : stages) {
      EXPECT_EQ(why_invalid(cut_board(), stage.layout), "");
      for (const auto& name : stage.profiles) {
        measured.insert(name);
        EXPECT_NE(to_string(cut_board(), stage.layout).find(name + "@"), std::string::npos);
      }
    }
    EXPECT_EQ(measured, (std::multiset<std::string>{profiles.begin(), profiles.end()}));
  }
}

// 2g fits beside 1g@0, 1g@1 and 3g@4, at 2: nothing has to go.
TEST(CutPlan, KeepsTheSlicesThatAreThere) {
  const Layout now = cut_layout("1g.10gb@0 + 1g.10gb@1 + 3g.40gb@4");
  const auto stages = plan_cuts(cut_board(), {"2g.20gb"}, now);
  ASSERT_TRUE(stages);
  ASSERT_EQ(stages->size(), 1U);
  EXPECT_EQ(stages->front().layout, cut_layout("1g.10gb@0 + 1g.10gb@1 + 2g.20gb@2 + 3g.40gb@4"));
}

TEST(CutPlan, CutsNothingForWhatIsThere) {
  const Layout now = cut_layout("3g.40gb@4");
  const auto stages = plan_cuts(cut_board(), {"3g.40gb"}, now);
  ASSERT_TRUE(stages);
  ASSERT_EQ(stages->size(), 1U);
  EXPECT_EQ(stages->front().layout, now);
  EXPECT_FALSE(plan_cuts(cut_board(), {"5g.50gb"}, now));
}

// The smallest cover against trying all pairs and triples of layouts, from nothing.
TEST(CutPlan, IsAsSmallAsTrialFinds) {
  const auto layouts = *all_layouts(cut_board());
  std::vector<std::string> names;
  for (const auto& profile : cut_board().profiles) names.push_back(profile.name);
  for (std::size_t a = 0; a < names.size(); ++a) {
    for (std::size_t b = a + 1; b < names.size(); ++b) {
      const auto has = [&](const Layout& l, const std::string& name) {
        return to_string(cut_board(), l).find(name + "@") != std::string::npos;
      };
      bool one = false;
      for (const auto& l : layouts) one = one || (has(l, names[a]) && has(l, names[b]));
      const auto stages = plan_cuts(cut_board(), {names[a], names[b]}, Layout{});
      ASSERT_TRUE(stages);
      EXPECT_EQ(stages->size(), one ? 1U : 2U) << names[a] << " " << names[b];
    }
  }
}

}  // namespace
}  // namespace tangram::measure
