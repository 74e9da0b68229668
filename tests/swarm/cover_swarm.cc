// cover_swarm FIRST COUNT: made-up problems of covering, one a seed.
//
// Every fourth is small enough for a brute force that shares no code with plan: the prices must be the same. The rest
// are larger, with several types of devices, odd prices, limits, empty rates and demands from tiny to large, and are
// judged by what must hold: covers carry their demand, cuts hold the covers, devices keep to their limits, bounds do
// not cross, a smaller demand costs no more than the bound of a larger one allows, and a second run gives the same.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <set>
#include <string>

#include "base/rng.h"
#include "base/text.h"
#include "plan/cover.h"

namespace tangram::plan {
namespace {

CoverDevice random_device(Rng& rng, CoverProblem& problem) {
  CoverDevice device;
  device.price = rng.chance(0.5) ? 1 : rng.uniform(0.3, 4);
  if (rng.chance(0.25)) device.count_max = static_cast<int>(rng.integer(0, 4));
  // Sizes 1, 2 and 4, every full cut: none contains another.
  const std::size_t kinds = 1 + rng.below(3);
  for (std::size_t k = 0; k < kinds; ++k) device.kinds.push_back(problem.kinds++);
  const int units = 1 << (kinds - 1);
  std::vector<int> cut(kinds, 0);
  const std::function<void(std::size_t, int)> fill = [&](std::size_t k, int left) {
    if (k == 0) {
      cut[0] = left;
      device.cuts.push_back(cut);
      return;
    }
    for (int n = 0; n << k <= left; ++n) {
      cut[k] = n;
      fill(k - 1, left - (n << k));
    }
    cut[k] = 0;
  };
  fill(kinds - 1, units);
  return device;
}

CoverService random_service(Rng& rng, std::size_t kinds, std::size_t classes_max, double demand_max) {
  CoverService service;
  const std::size_t classes = 1 + rng.below(classes_max);
  for (std::size_t i = 0; i < classes; ++i) {
    service.demand.push_back(rng.chance(0.05) ? 1e-9 : rng.uniform(0.5, demand_max));
  }
  for (std::size_t k = 0; k < kinds; ++k) {
    CoverOffer offer{k, {}};
    for (std::size_t i = 0; i < classes; ++i) {
      offer.rate.push_back(rng.chance(0.1) ? 0 : rng.uniform(2, 6) * static_cast<double>(1 + k % 3));
    }
    service.offers.push_back(offer);
  }
  return service;
}

CoverProblem random_problem(Rng& rng, bool small) {
  CoverProblem problem;
  const std::size_t types = 1 + rng.below(small ? 2 : 3);
  for (std::size_t d = 0; d < types; ++d) problem.devices.push_back(random_device(rng, problem));
  const std::size_t services = 1 + rng.below(small ? 3 : 25);
  for (std::size_t s = 0; s < services; ++s) {
    problem.services.push_back(random_service(rng, problem.kinds, small ? 1 : 4, small ? 8 : 30));
  }
  return problem;
}

// One class: every cover with at most `most` slices of which no part is one.
void minimal_covers(const CoverService& service, int most, std::vector<Cover>& found) {
  const auto rate_of = [&](const Cover& cover) {
    double rate = 0;
    for (std::size_t o = 0; o < cover.size(); ++o) rate += cover[o] * service.offers[o].rate[0];
    return rate;
  };
  Cover cover(service.offers.size(), 0);
  const std::function<void(std::size_t, int)> visit = [&](std::size_t o, int left) {
    if (o < cover.size()) {
      for (cover[o] = 0; cover[o] <= left; ++cover[o]) visit(o + 1, left - cover[o]);
      cover[o] = 0;
      return;
    }
    const double rate = rate_of(cover);
    if (rate < service.demand[0] * (1 - 1e-9)) return;
    for (std::size_t p = 0; p < cover.size(); ++p) {
      if (cover[p] > 0 && rate - service.offers[p].rate[0] >= service.demand[0] * (1 - 1e-9)) return;
    }
    found.push_back(cover);
  };
  visit(0, most);
}

// Every choice of covers, then every number of every cut, with at most `devices_max` devices.
double brute_force(const CoverProblem& problem, int devices_max, int slices_max) {
  std::set<std::vector<int>> needs{std::vector<int>(problem.kinds, 0)};
  for (const auto& service : problem.services) {
    std::vector<Cover> covers;
    minimal_covers(service, slices_max, covers);
    std::set<std::vector<int>> next;
    for (const auto& need : needs) {
      for (const auto& cover : covers) {
        auto sum = need;
        for (std::size_t o = 0; o < cover.size(); ++o) sum[service.offers[o].kind] += cover[o];
        next.insert(sum);
      }
    }
    needs = std::move(next);
  }
  double best = 1e18;
  std::vector<int> supply(problem.kinds, 0);
  const std::function<void(std::size_t, std::size_t, int, int, double)> cut = [&](std::size_t d, std::size_t c,
                                                                                  int used, int all, double price) {
    if (price >= best) return;
    const bool enough = std::ranges::any_of(
        needs, [&](const auto& need) { return std::ranges::equal(need, supply, [](int n, int s) { return n <= s; }); });
    if (enough) {
      best = price;
      return;
    }
    if (d == problem.devices.size() || all == devices_max) return;
    const auto& device = problem.devices[d];
    if (device.count_max < 0 || used < device.count_max) {
      for (std::size_t i = 0; i < device.kinds.size(); ++i) supply[device.kinds[i]] += device.cuts[c][i];
      cut(d, c, used + 1, all + 1, price + device.price);
      for (std::size_t i = 0; i < device.kinds.size(); ++i) supply[device.kinds[i]] -= device.cuts[c][i];
    }
    if (c + 1 < device.cuts.size()) return cut(d, c + 1, used, all, price);
    cut(d + 1, 0, 0, all, price);
  };
  cut(0, 0, 0, 0, 0);
  return best;
}

// What is wrong with the answer by itself; empty: nothing.
std::string judge(const CoverProblem& problem, const CoverAnswer& answer) {
  if (answer.status != CoverStatus::solved) return "";
  if (answer.bound > answer.price + 1e-6) return "the bound is above the price";
  std::vector<int> left(problem.kinds, 0);
  double price = 0;
  for (std::size_t d = 0; d < problem.devices.size(); ++d) {
    const auto& device = problem.devices[d];
    const int count = std::accumulate(answer.cuts[d].begin(), answer.cuts[d].end(), 0);
    if (device.count_max >= 0 && count > device.count_max) return "more devices than there are";
    price += count * device.price;
    for (std::size_t c = 0; c < device.cuts.size(); ++c) {
      for (std::size_t i = 0; i < device.kinds.size(); ++i) {
        left[device.kinds[i]] += answer.cuts[d][c] * device.cuts[c][i];
      }
    }
  }
  if (std::abs(price - answer.price) > 1e-6) return "the price is not that of the devices";
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    if (cover_load_factor(problem.services[s], answer.covers[s]) < 1 - 1e-6) return "a service is not carried";
    for (std::size_t o = 0; o < answer.covers[s].size(); ++o) {
      left[problem.services[s].offers[o].kind] -= answer.covers[s][o];
    }
  }
  return std::ranges::any_of(left, [](int n) { return n < 0; }) ? "slices that no device has" : "";
}

bool same(const CoverAnswer& a, const CoverAnswer& b) {
  return a.status == b.status && a.cuts == b.cuts && a.covers == b.covers && a.price == b.price && a.bound == b.bound &&
         a.kind_price == b.kind_price && a.proved == b.proved;
}

std::string judge_small(const CoverProblem& problem, const CoverAnswer& answer) {
  const double expected = brute_force(problem, 6, 7);
  if (expected > 1e17) return "";  // More than the brute force looks at, or nothing at all.
  if (answer.status != CoverStatus::solved) return fmt::format("no plan, and there is one of {}", expected);
  if (answer.bound > expected + 1e-6) return fmt::format("the bound {} is above {}", answer.bound, expected);
  if (answer.price > expected + 1e-6) return fmt::format("{} is worse than {}", answer.price, expected);
  if (answer.price < expected - 1e-6) return fmt::format("{} is below {}", answer.price, expected);
  return answer.proved ? "" : "not proved";
}

// All demands by a tenth less: what was a plan still is one.
std::string judge_less(CoverProblem problem, const CoverAnswer& answer) {
  for (auto& service : problem.services) {
    for (double& demand : service.demand) demand *= 0.9;
  }
  const auto less = solve_cover(problem);
  if (answer.status == CoverStatus::solved && less.status == CoverStatus::solved && less.bound > answer.price + 1e-6) {
    return "less demand is said to cost more than a plan for all of it";
  }
  return "";
}

std::string run_seed(std::uint64_t seed) {
  Rng rng = Rng(seed).stream("cover swarm");
  const bool small = seed % 4 == 0;
  const CoverProblem problem = random_problem(rng, small);
  const auto answer = solve_cover(problem);
  if (auto wrong = judge(problem, answer); !wrong.empty()) return wrong;
  if (!same(answer, solve_cover(problem))) return "two runs differ";
  return small ? judge_small(problem, answer) : judge_less(problem, answer);
}

int run_swarm(std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const auto wrong = run_seed(seed);
    if (wrong.empty()) continue;
    fmt::print(stderr, "{}\nrepeat: cover_swarm {} 1\n", wrong, seed);
    return 1;
  }
  fmt::print("{} problems\n", count);
  return 0;
}

}  // namespace
}  // namespace tangram::plan

int main(int argc, char** argv) {
  if (argc == 3) {
    const auto first = tangram::text::parse_integer(argv[1]);
    const auto count = tangram::text::parse_integer(argv[2]);
    if (first >= 0 && count > 0) {
      return tangram::plan::run_swarm(static_cast<std::uint64_t>(*first), static_cast<std::uint64_t>(*count));
    }
  }
  fmt::print(stderr, "usage: cover_swarm FIRST_SEED COUNT\n");
  return 2;
}
