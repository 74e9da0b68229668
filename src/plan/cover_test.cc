#include "plan/cover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "plan/detail/linear_program.h"

namespace tangram::plan {
namespace {

// Two classes at most: each slice is given to the class at which it is comparatively best, in that order, until the
// first class is served; the rest serves the second. No linear program.
bool carries(const CoverService& service, const Cover& cover) {
  if (service.demand.size() == 1) {
    double rate = 0;
    for (std::size_t o = 0; o < cover.size(); ++o) rate += cover[o] * service.offers[o].rate[0];
    return rate >= service.demand[0] * (1 - 1e-9);
  }
  std::vector<std::size_t> order(cover.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const auto& x = service.offers[a].rate;
    const auto& y = service.offers[b].rate;
    return x[0] * y[1] > y[0] * x[1];
  });
  double missing = service.demand[0];
  double second = 0;
  for (const std::size_t o : order) {
    const auto& rate = service.offers[o].rate;
    double time = cover[o];
    if (missing > 0 && rate[0] > 0) {
      const double used = std::min(time, missing / rate[0]);
      missing -= used * rate[0];
      time -= used;
    }
    second += time * rate[1];
  }
  return missing <= 1e-9 * service.demand[0] && second >= service.demand[1] * (1 - 1e-9);
}

// All covers of a service of which no part is one, with at most `most` slices.
std::vector<Cover> minimal_covers(const CoverService& service, int most) {
  std::vector<Cover> found;
  const auto is_cover = [&](const Cover& c) { return carries(service, c) && (!service.accepts || service.accepts(c)); };
  const auto spare = [&](Cover c) {
    for (int& n : c) {
      if (n == 0) continue;
      --n;
      if (is_cover(c)) return true;
      ++n;
    }
    return false;
  };
  Cover cover(service.offers.size(), 0);
  const std::function<void(std::size_t, int)> visit = [&](std::size_t o, int left) {
    if (o == cover.size()) {
      if (is_cover(cover) && !spare(cover)) found.push_back(cover);
      return;
    }
    for (int n = 0; n <= left; ++n) {
      cover[o] = n;
      visit(o + 1, left - n);
    }
    cover[o] = 0;
  };
  visit(0, most);
  return found;
}

// The fewest devices by trying every number of each cut and every choice of covers.
double brute_force(const CoverProblem& problem, int devices_max, int slices_max) {
  std::vector<std::vector<Cover>> covers;
  for (const auto& service : problem.services) covers.push_back(minimal_covers(service, slices_max));
  std::set<std::vector<int>> needs;
  std::vector<int> need(problem.kinds, 0);
  const std::function<void(std::size_t)> choose = [&](std::size_t s) {
    if (s == covers.size()) {
      needs.insert(need);
      return;
    }
    for (const auto& cover : covers[s]) {
      for (std::size_t o = 0; o < cover.size(); ++o) need[problem.services[s].offers[o].kind] += cover[o];
      choose(s + 1);
      for (std::size_t o = 0; o < cover.size(); ++o) need[problem.services[s].offers[o].kind] -= cover[o];
    }
  };
  choose(0);
  double best = 1e18;
  std::vector<int> supply(problem.kinds, 0);
  const std::function<void(std::size_t, std::size_t, int, int, double)> cut = [&](std::size_t d, std::size_t c,
                                                                                  int used, int all, double price) {
    if (price >= best) return;
    for (const auto& wanted : needs) {
      bool enough = true;
      for (std::size_t k = 0; k < wanted.size(); ++k) enough = enough && wanted[k] <= supply[k];
      if (enough) {
        best = price;
        return;
      }
    }
    if (d == problem.devices.size() || all == devices_max) return;
    const auto& device = problem.devices[d];
    if (c + 1 <= device.cuts.size() && (device.count_max < 0 || used < device.count_max)) {
      for (std::size_t i = 0; i < device.kinds.size(); ++i) supply[device.kinds[i]] += device.cuts[c][i];
      cut(d, c, used + 1, all + 1, price + device.price);
      for (std::size_t i = 0; i < device.kinds.size(); ++i) supply[device.kinds[i]] -= device.cuts[c][i];
    }
    if (c + 1 < device.cuts.size()) {
      cut(d, c + 1, used, all, price);
    } else if (d + 1 < problem.devices.size()) {
      cut(d + 1, 0, 0, all, price);
    }
  };
  cut(0, 0, 0, 0, 0);
  return best;
}

CoverProblem random_problem(Rng& rng) {
  CoverProblem problem;
  const int device_types = rng.chance(0.3) ? 2 : 1;
  for (int d = 0; d < device_types; ++d) {
    CoverDevice device;
    device.price = d == 0 ? 1 : static_cast<double>(rng.integer(1, 3)) * (rng.chance(0.5) ? 1 : 0.7);
    if (rng.chance(0.2)) device.count_max = static_cast<int>(rng.integer(1, 3));
    const std::size_t kinds = 2 + rng.below(2);
    for (std::size_t k = 0; k < kinds; ++k) device.kinds.push_back(problem.kinds++);
    // Units 4, sizes 1, 2 and 4: all full cuts.
    if (kinds == 2) {
      device.cuts = {{2, 0}, {0, 1}};
    } else {
      device.cuts = {{4, 0, 0}, {2, 1, 0}, {0, 2, 0}, {0, 0, 1}};
    }
    problem.devices.push_back(device);
  }
  const std::size_t services = 1 + rng.below(3);
  for (std::size_t s = 0; s < services; ++s) {
    CoverService service;
    const std::size_t classes = 1 + rng.below(2);
    for (std::size_t i = 0; i < classes; ++i) service.demand.push_back(rng.uniform(1, 10));
    for (std::size_t k = 0; k < problem.kinds; ++k) {
      CoverOffer offer{k, {}};
      for (std::size_t i = 0; i < classes; ++i) {
        offer.rate.push_back(rng.chance(0.1) ? 0 : rng.uniform(2, 6) * static_cast<double>(k + 1));
      }
      service.offers.push_back(offer);
    }
    problem.services.push_back(service);
  }
  return problem;
}

void expect_agreement(const CoverProblem& problem, std::uint64_t seed) {
  const double expected = brute_force(problem, 6, 6);
  const CoverAnswer answer = solve_cover(problem);
  if (expected > 1e17) {
    // The brute force may have stopped at six devices or six slices for a service.
    EXPECT_TRUE(answer.status != CoverStatus::solved || answer.price > 0) << seed;
    return;
  }
  ASSERT_EQ(answer.status, CoverStatus::solved) << seed;
  EXPECT_NEAR(answer.price, expected, 1e-6) << seed;
  EXPECT_TRUE(answer.proved) << seed;
  EXPECT_LE(answer.bound, expected + 1e-6) << seed;
  std::vector<int> need(problem.kinds, 0);
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    EXPECT_TRUE(carries(problem.services[s], answer.covers[s])) << seed;
    for (std::size_t o = 0; o < answer.covers[s].size(); ++o) {
      need[problem.services[s].offers[o].kind] += answer.covers[s][o];
    }
  }
  for (std::size_t d = 0; d < problem.devices.size(); ++d) {
    for (std::size_t c = 0; c < answer.cuts[d].size(); ++c) {
      for (std::size_t i = 0; i < problem.devices[d].kinds.size(); ++i) {
        need[problem.devices[d].kinds[i]] -= answer.cuts[d][c] * problem.devices[d].cuts[c][i];
      }
    }
  }
  for (const int left : need) EXPECT_LE(left, 0) << seed;
}

// The solver library likes to talk; what a program prints belongs to its user.
TEST(Cover, AgreesWithBruteForceOnSmallRandomProblemsWithoutAWord) {
  testing::internal::CaptureStdout();
  for (std::uint64_t seed = 0; seed < test_seeds(1500); ++seed) {
    Rng rng = Rng(seed).stream("cover");
    expect_agreement(random_problem(rng), seed);
    if (HasFailure()) break;
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

// A service that also refuses some covers with capacity: here those of fewer than two slices.
TEST(Cover, AgreesWithBruteForceWhereServicesRefuseCovers) {
  for (std::uint64_t seed = 0; seed < test_seeds(1000); ++seed) {
    Rng rng = Rng(seed).stream("asking");
    CoverProblem problem = random_problem(rng);
    const int fewest = static_cast<int>(rng.integer(1, 3));
    problem.services[0].accepts = [fewest](const Cover& cover) {
      return std::accumulate(cover.begin(), cover.end(), 0) >= fewest;
    };
    expect_agreement(problem, seed);
    if (HasFailure()) return;
  }
}

// Classes need 2 and 3 slices' time of the only kind; together 5 whole slices, two to a device: three devices.
TEST(Cover, LetsClassesShareTheTimeOfASlice) {
  CoverProblem problem;
  problem.kinds = 1;
  problem.devices = {{1, -1, {0}, {{2}}}};
  problem.services = {{{5, 9}, {{0, {2, 3.6}}}, {}}};  // 5/2 + 9/3.6 = 2.5 + 2.5 = 5 slices.
  const auto answer = solve_cover(problem);
  EXPECT_EQ(answer.covers, (std::vector<Cover>{{5}}));
  EXPECT_DOUBLE_EQ(answer.price, 3);
  EXPECT_TRUE(answer.proved);
}

TEST(Cover, NamesTheServiceThatNothingServes) {
  CoverProblem problem;
  problem.kinds = 1;
  problem.devices = {{1, -1, {0}, {{2}}}};
  problem.services = {{{5}, {{0, {2}}}, {}}, {{5}, {{0, {0}}}, {}}};
  const auto answer = solve_cover(problem);
  EXPECT_EQ(answer.status, CoverStatus::infeasible);
  EXPECT_EQ(answer.infeasible_service, 1u);
}

TEST(Cover, FindsNoPlanOnAFleetThatIsTooSmall) {
  CoverProblem problem;
  problem.kinds = 1;
  problem.devices = {{1, 2, {0}, {{2}}}};
  problem.services = {{{10}, {{0, {2}}}, {}}};  // Five slices; there are four.
  const auto answer = solve_cover(problem);
  EXPECT_EQ(answer.status, CoverStatus::infeasible);
  EXPECT_EQ(answer.infeasible_service, 1u);
  EXPECT_GT(answer.bound, 2);
}

}  // namespace
}  // namespace tangram::plan
