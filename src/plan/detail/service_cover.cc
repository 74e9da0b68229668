// The covers of one service: capacity, acceptance, and search for the cheapest.
//
// A cover has the capacity if its slices can divide their time so that every class gets its demand: a small linear
// program. By duality, a cover that lacks it violates one inequality sum(unit * cover) >= 1, a row. Rows are kept and
// tested first, so most covers are rejected by a few multiplications, and the same rows bound the cost of completing a
// part of a cover.
//
// Invariant: every row holds for every cover with the capacity, whatever the prices. So rows other than the first can
// be dropped and added at any time without changing an answer.

#include "plan/detail/service_cover.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>

#include "base/check.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan::detail {
namespace {

// Dense primal simplex for max f subject to sum_i t[o][i] <= y[o] and f * demand[i] <= sum_o rate[o][i] * t[o][i].
// All at zero is feasible, so there is no first phase. A handful of rows: a tableau is faster than any library call.
class LoadSimplex {
 public:
  LoadSimplex(const CoverService& service, const Cover& cover) : classes_(service.demand.size()) {
    for (std::size_t o = 0; o < cover.size(); ++o) {
      if (cover[o] > 0) used_.push_back(o);
    }
    rows_ = used_.size() + classes_;
    // The last column is the right-hand side and the last row the objective.
    columns_ = 1 + used_.size() * classes_ + rows_ + 1;  // f, t, slacks, right-hand side.
    tableau_.assign((rows_ + 1) * columns_, 0);
    for (std::size_t u = 0; u < used_.size(); ++u) {
      for (std::size_t i = 0; i < classes_; ++i) {
        at(u, t_column(u, i)) = 1;
        at(used_.size() + i, t_column(u, i)) = -service.offers[used_[u]].rate[i];
      }
      at(u, columns_ - 1) = cover[used_[u]];
    }
    for (std::size_t i = 0; i < classes_; ++i) at(used_.size() + i, 0) = service.demand[i];
    for (std::size_t r = 0; r < rows_; ++r) at(r, slack(r)) = 1;
    at(rows_, 0) = -1;
    basis_.resize(rows_);
    for (std::size_t r = 0; r < rows_; ++r) basis_[r] = slack(r);
  }

  // The limit on pivots only guards against rounding: Bland's rule cannot cycle.
  LoadFactor solve() {
    for (int pivots = 0; pivots < 2000 && pivot(); ++pivots) {
    }
    LoadFactor answer;
    answer.factor = at(rows_, columns_ - 1);
    // The dual values of the class rows: they weigh the classes such that no division of time does better.
    for (std::size_t i = 0; i < classes_; ++i) {
      answer.class_weight.push_back(std::max(0.0, at(rows_, slack(used_.size() + i))));
    }
    return answer;
  }

 private:
  std::size_t t_column(std::size_t used, std::size_t cls) const { return 1 + used * classes_ + cls; }
  std::size_t slack(std::size_t row) const { return 1 + used_.size() * classes_ + row; }
  double& at(std::size_t row, std::size_t column) { return tableau_[row * columns_ + column]; }

  // Bland's rule, since the class rows begin degenerate. False: optimal.
  bool pivot() {
    std::size_t enter = columns_;
    for (std::size_t c = 0; c + 1 < columns_ && enter == columns_; ++c) {
      if (at(rows_, c) < -kPivotMin) enter = c;
    }
    if (enter == columns_) return false;
    std::size_t leave = rows_;
    double best = 0;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (at(r, enter) <= kPivotMin) continue;
      const double ratio = at(r, columns_ - 1) / at(r, enter);
      if (leave == rows_ || ratio < best - kRatioTie || (ratio <= best + kRatioTie && basis_[r] < basis_[leave])) {
        leave = r;
        best = ratio;
      }
    }
    if (leave == rows_) return false;  // Unbounded: there is no demand.
    const double scale = 1 / at(leave, enter);
    for (std::size_t c = 0; c < columns_; ++c) at(leave, c) *= scale;
    for (std::size_t r = 0; r <= rows_; ++r) {
      const double factor = at(r, enter);
      if (r == leave || factor == 0) continue;
      for (std::size_t c = 0; c < columns_; ++c) at(r, c) -= factor * at(leave, c);
    }
    basis_[leave] = enter;
    return true;
  }

  std::size_t classes_;
  std::vector<std::size_t> used_;
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::vector<double> tableau_;
  std::vector<std::size_t> basis_;
};

// True if `part` has no more slices of any offer than `whole`.
bool within(const Cover& part, const Cover& whole) {
  for (std::size_t o = 0; o < part.size(); ++o) {
    if (part[o] > whole[o]) return false;
  }
  return true;
}

}  // namespace

LoadFactor load_factor(const CoverService& service, const Cover& cover) {
  // With one bucket the answer is a division.
  if (service.demand.size() > 1) return LoadSimplex(service, cover).solve();
  double rate = 0;
  for (std::size_t o = 0; o < cover.size(); ++o) rate += cover[o] * service.offers[o].rate[0];
  return {rate / service.demand[0], {1 / service.demand[0]}};
}

// The first row weighs each class by its fastest offer. It exists from the beginning, so every search has a bound.
ServiceCovers::ServiceCovers(const CoverService& service) : service_(service) {
  coverable_ = true;
  std::vector<double> weight;
  for (std::size_t i = 0; i < service.demand.size(); ++i) {
    double best = 0;
    for (const auto& offer : service.offers) best = std::max(best, offer.rate[i]);
    if (best <= 0) coverable_ = false;
    weight.push_back(best > 0 ? 1 / best : 0);
  }
  if (coverable_) add_row(weight);
}

// Requires weights of which one meets a demand. A slice does most for the weighted sum by spending all its time on the
// class that weighs most, hence the maximum.
void ServiceCovers::add_row(std::span<const double> class_weight) {
  double demand = 0;
  for (std::size_t i = 0; i < class_weight.size(); ++i) demand += class_weight[i] * service_.demand[i];
  TANGRAM_CHECK(demand > 0, "weights of a row meet some demand");
  Row row;
  for (const auto& offer : service_.offers) {
    double unit = 0;
    for (std::size_t i = 0; i < class_weight.size(); ++i) unit = std::max(unit, offer.rate[i] * class_weight[i]);
    // Units below kUnitMin are rounding errors and would ask for millions of slices that do not help. Units above 1
    // can be cut to 1: one whole slice already satisfies the row, and the smaller number gives a stronger bound for
    // fractions.
    row.unit.push_back(unit / demand < kUnitMin ? 0 : std::min(1.0, unit / demand));
  }
  rows_.push_back(std::move(row));
}

double ServiceCovers::cost_of(const Cover& cover, std::span<const double> price) const {
  double cost = 0;
  for (std::size_t o = 0; o < cover.size(); ++o) cost += cover[o] * price[service_.offers[o].kind];
  return cost;
}

double ServiceCovers::load_factor(const Cover& cover) { return detail::load_factor(service_, cover).factor; }

bool ServiceCovers::has_capacity(const Cover& cover) {
  // Every cover with the capacity satisfies all rows. Most others fail one of them, and then no simplex is needed.
  for (const auto& row : rows_) {
    double sum = 0;
    for (std::size_t o = 0; o < cover.size(); ++o) sum += cover[o] * row.unit[o];
    if (sum < 1 - kSumTolerance) return false;
  }
  if (service_.demand.size() == 1) return true;
  const auto answer = detail::load_factor(service_, cover);
  if (answer.factor >= 1 - kSumTolerance) return true;
  // The weights that prove the lack give a row that rejects this cover, and similar ones, from now on.
  add_row(answer.class_weight);
  return false;
}

bool ServiceCovers::accepts(const Cover& cover) {
  if (!has_capacity(cover)) return false;
  if (!service_.accepts) return true;
  const auto known = answers_.find(cover);
  if (known != answers_.end()) return known->second;
  // More slices of each offer never break a promise, and fewer never mend one. Answers are monotone, so a question
  // whose answer follows from an earlier one is not asked: each may take seconds of simulation.
  for (const auto& no : rejected_) {
    if (within(cover, no)) return false;
  }
  for (const auto& yes : accepted_) {
    if (within(yes, cover)) return true;
  }
  ++asked_;
  const bool yes = service_.accepts(cover);
  answers_.emplace(cover, yes);
  (yes ? accepted_ : rejected_).push_back(cover);
  return yes;
}

// Offers by unit of the first row per price, the best first. Compared by cross multiplication to avoid division.
std::vector<std::size_t> ServiceCovers::order_by_worth(std::span<const double> price) const {
  std::vector<std::size_t> order(service_.offers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return rows_[0].unit[a] * price[service_.offers[b].kind] > rows_[0].unit[b] * price[service_.offers[a].kind];
  });
  return order;
}

double ServiceCovers::completion_bound(const Cover& cover, std::span<const double> price,
                                       std::span<const std::size_t> order, std::size_t first) const {
  double bound = 0;
  for (const auto& row : rows_) {
    double missing = 1;
    for (std::size_t o = 0; o < cover.size(); ++o) missing -= cover[o] * row.unit[o];
    if (missing <= kSumTolerance) continue;
    double worth = 0;
    for (std::size_t j = first; j < order.size(); ++j) {
      worth = std::max(worth, row.unit[order[j]] / price[service_.offers[order[j]].kind]);
    }
    // No remaining offer helps this row, so the cover cannot be completed.
    if (worth <= 0) return std::numeric_limits<double>::infinity();
    bound = std::max(bound, missing / worth);
  }
  return bound;
}

// Depth first with the offers in order of worth, each tried from the most that could be needed downwards. The first
// leaf is then the greedy cover, and the bound grows along each loop.
struct ServiceCovers::Search {
  std::span<const double> price;
  std::vector<std::size_t> order;
  std::int64_t nodes_left = 0;
  Cover cover;
  Cover best;
  double best_cost = std::numeric_limits<double>::infinity();
};

// Requires s.cover with offers before `depth` fixed, the rest zero, and its cost. Ensures s.best is the cheapest cover
// seen.
void ServiceCovers::search(Search& s, std::size_t depth, double cost) {
  if (cost >= s.best_cost - kSumTolerance) return;
  if (has_capacity(s.cover)) {
    s.best = s.cover;
    s.best_cost = cost;
    return;
  }
  if (depth == s.order.size() || s.nodes_left <= 0) return;
  --s.nodes_left;
  const std::size_t offer = s.order[depth];
  const double price = s.price[service_.offers[offer].kind];
  // The most slices of this offer that any unsatisfied row could use.
  int most = 0;
  for (const auto& row : rows_) {
    double missing = 1;
    for (std::size_t o = 0; o < s.cover.size(); ++o) missing -= s.cover[o] * row.unit[o];
    if (missing > kSumTolerance && row.unit[offer] > 0) {
      most = std::max({most, 1, static_cast<int>(std::ceil(missing / row.unit[offer] - kSumTolerance))});
    }
  }
  for (int count = most; count >= 0 && s.nodes_left > 0; --count) {
    --s.nodes_left;
    s.cover[offer] = count;
    const double here = cost + count * price;
    if (here + completion_bound(s.cover, s.price, s.order, depth + 1) < s.best_cost - kSumTolerance) {
      search(s, depth + 1, here);
    } else if (rows_.size() == 1 && count < most && here < s.best_cost) {
      break;  // Fewer of this one only moves more to what is worth less.
    }
  }
  s.cover[offer] = 0;
}

std::optional<ServiceCovers::Cheapest> ServiceCovers::cheapest_by_capacity(std::span<const double> price,
                                                                           std::int64_t nodes_max) {
  // The row that prices each class at its cheapest offer gives the strongest bound at these prices.
  if (service_.demand.size() > 1) {
    std::vector<double> weight(service_.demand.size(), std::numeric_limits<double>::infinity());
    for (const auto& offer : service_.offers) {
      for (std::size_t i = 0; i < weight.size(); ++i) {
        if (offer.rate[i] > 0) weight[i] = std::min(weight[i], price[offer.kind] / offer.rate[i]);
      }
    }
    add_row(weight);
  }
  Search s{price, order_by_worth(price), nodes_max, Cover(service_.offers.size(), 0), {}, {}};
  s.best_cost = std::numeric_limits<double>::infinity();
  const double root = completion_bound(s.cover, price, s.order, 0);
  search(s, 0, 0);
  nodes_ += nodes_max - s.nodes_left;
  // Keep the first row and the latest ones, which fit the current prices best: each node of a search evaluates all of
  // them.
  if (rows_.size() > 12) rows_.erase(rows_.begin() + 1, rows_.end() - 8);
  if (s.best.empty()) return std::nullopt;
  return Cheapest{s.best, s.best_cost, s.nodes_left > 0 ? s.best_cost : root};
}

// Best first from the empty cover, so the service is asked about covers in ascending order of cost: the first accepted
// one is the cheapest.
std::optional<ServiceCovers::Cheapest> ServiceCovers::cheapest_accepted(std::span<const double> price,
                                                                        std::int64_t nodes_max) {
  struct Node {
    double bound;
    double cost;
    Cover cover;
    // The cover breaks ties, so that the order of questions is the same in every run.
    bool operator<(const Node& other) const { return bound != other.bound ? bound > other.bound : cover > other.cover; }
  };
  const auto order = order_by_worth(price);
  std::priority_queue<Node> open;
  std::set<Cover> seen;
  const auto push = [&](Cover cover) {
    if (!seen.insert(cover).second) return;
    const double cost = cost_of(cover, price);
    open.push({cost + completion_bound(cover, price, order, 0), cost, std::move(cover)});
  };
  push(Cover(service_.offers.size(), 0));
  for (std::int64_t nodes = 0; !open.empty() && nodes < nodes_max; ++nodes) {
    const Node node = open.top();
    open.pop();
    // The least bound is infinite: no cover that is left can be completed.
    if (std::isinf(node.bound)) break;
    if (accepts(node.cover)) return Cheapest{node.cover, node.cost, node.cost};
    for (std::size_t o = 0; o < node.cover.size(); ++o) {
      Cover next = node.cover;
      ++next[o];
      push(std::move(next));
    }
  }
  return std::nullopt;
}

std::optional<ServiceCovers::Cheapest> ServiceCovers::cheapest(std::span<const double> kind_price,
                                                               std::int64_t nodes_max) {
  TANGRAM_CHECK(coverable_, "a service without a cover is sorted out before");
  return service_.accepts ? cheapest_accepted(kind_price, nodes_max) : cheapest_by_capacity(kind_price, nodes_max);
}

std::optional<std::vector<Cover>> ServiceCovers::all_within(std::span<const double> kind_price, double cost_max,
                                                            std::int64_t nodes_max) {
  const auto order = order_by_worth(kind_price);
  std::vector<Cover> found;
  std::set<Cover> seen;
  std::vector<Cover> open{Cover(service_.offers.size(), 0)};
  std::int64_t nodes = 0;
  while (!open.empty()) {
    if (++nodes > nodes_max) return std::nullopt;
    const Cover cover = std::move(open.back());
    open.pop_back();
    if (cost_of(cover, kind_price) + completion_bound(cover, kind_price, order, 0) > cost_max + kSumTolerance) continue;
    // Covers with more slices than an accepted one are left out: they cost more and add nothing.
    if (accepts(cover)) {
      found.push_back(cover);
      continue;
    }
    for (std::size_t o = 0; o < cover.size(); ++o) {
      Cover next = cover;
      ++next[o];
      if (seen.insert(next).second) open.push_back(std::move(next));
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace tangram::plan::detail
