#include "plan/cover.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/check.h"
#include "plan/detail/linear_program.h"
#include "plan/detail/service_cover.h"

namespace tangram::plan {
namespace {

using detail::IntegerLimits;
using detail::kUnbounded;
using detail::LinearProgram;
using detail::ServiceCovers;

constexpr double kEpsilon = 1e-7;

// Prices that are all multiples of one make every total a multiple of it, so bounds may be rounded up to the next.
double price_step(const CoverProblem& problem) {
  double least = kUnbounded;
  for (const auto& device : problem.devices) least = std::min(least, device.price);
  for (const auto& device : problem.devices) {
    const double ratio = device.price / least;
    if (std::abs(ratio - std::round(ratio)) > 1e-9) return 0;
  }
  return least;
}

double round_up(double bound, double step) { return step > 0 ? step * std::ceil(bound / step - 1e-6) : bound; }

// Rows of every program here: supply of each kind, then the limit of each limited device.
struct Frame {
  LinearProgram program;
  std::vector<std::vector<int>> cut_columns;  // By device and cut.

  // `devices_max` bounds the devices of one cut; the solver's search wanders off without it.
  Frame(const CoverProblem& problem, const std::vector<int>& need, bool integer, double devices_max = kUnbounded) {
    for (std::size_t k = 0; k < problem.kinds; ++k) program.add_row(need[k], kUnbounded);
    for (const auto& device : problem.devices) {
      const int limit = device.count_max < 0 ? -1 : program.add_row(-kUnbounded, device.count_max);
      auto& columns = cut_columns.emplace_back();
      for (const auto& cut : device.cuts) {
        LinearProgram::Column column{
            .cost = device.price, .low = 0, .high = devices_max, .integer = integer, .entries = {}};
        for (std::size_t i = 0; i < cut.size(); ++i) {
          if (cut[i] > 0) column.entries.push_back({static_cast<int>(device.kinds[i]), static_cast<double>(cut[i])});
        }
        if (limit >= 0) column.entries.push_back({limit, 1});
        columns.push_back(program.add_column(std::move(column)));
      }
    }
  }

  std::vector<std::vector<int>> cuts_of(const std::vector<double>& values) const {
    std::vector<std::vector<int>> cuts;
    for (const auto& columns : cut_columns) {
      auto& counts = cuts.emplace_back();
      for (const int column : columns) {
        counts.push_back(static_cast<int>(std::lround(values[static_cast<std::size_t>(column)])));
      }
    }
    return cuts;
  }
};

double price_of(const CoverProblem& problem, const std::vector<std::vector<int>>& cuts) {
  double price = 0;
  for (std::size_t d = 0; d < cuts.size(); ++d) {
    price += problem.devices[d].price * std::accumulate(cuts[d].begin(), cuts[d].end(), 0);
  }
  return price;
}

void add_need(const CoverService& service, const Cover& cover, std::vector<int>& need) {
  for (std::size_t o = 0; o < cover.size(); ++o) need[service.offers[o].kind] += cover[o];
}

// Column generation over the covers of each service. The bound is Lagrange's: at any prices of kinds at which no device
// can be cut into more than it costs, the cheapest covers of all services together cost no more than any plan.
class Solver {
 public:
  Solver(const CoverProblem& problem, const CoverBudget& budget)
      : problem_(problem), budget_(budget), step_(price_step(problem)), columns_(problem.services.size()) {
    for (const auto& service : problem.services) covers_.emplace_back(service);
    answer_.price = kUnbounded;
    answer_.bound = 0;
  }

  CoverAnswer solve(const std::vector<Cover>& start) {
    answer_.infeasible_service = problem_.services.size();
    for (std::size_t s = 0; s < covers_.size(); ++s) {
      if (covers_[s].coverable()) continue;
      answer_.infeasible_service = s;
      return answer_;
    }
    for (std::size_t s = 0; s < start.size(); ++s) {
      if (covers_[s].accepts(start[s])) add_column(s, start[s]);
    }
    if (!start_columns()) return answer_;
    generate();
    improve();
    finish();
    return std::move(answer_);
  }

 private:
  bool add_column(std::size_t s, const Cover& cover) {
    if (!known_.insert({s, cover}).second) return false;
    columns_[s].push_back(cover);
    return true;
  }

  // A first cover of each service, at prices by which every kind shares its device evenly.
  bool start_columns() {
    std::vector<double>& price = even_price_;
    price.assign(problem_.kinds, kUnbounded);
    for (const auto& device : problem_.devices) {
      for (std::size_t i = 0; i < device.kinds.size(); ++i) {
        int most = 0;
        for (const auto& cut : device.cuts) most = std::max(most, cut[i]);
        if (most > 0) price[device.kinds[i]] = device.price / most;
      }
    }
    for (double& p : price) p = std::min(p, 1e6);  // A kind that no device offers.
    for (std::size_t s = 0; s < covers_.size(); ++s) {
      const auto cheapest = covers_[s].cheapest(price, budget_.cover_nodes_max);
      if (!cheapest) {
        answer_.infeasible_service = s;
        return false;
      }
      add_column(s, cheapest->cover);
    }
    return true;
  }

  struct Master {
    bool solved = false;
    std::vector<double> kind_price;
    std::vector<std::vector<double>> share;  // By service and column.
  };

  Master solve_master() const {
    Frame frame(problem_, std::vector<int>(problem_.kinds, 0), false);
    const int first_service_row = static_cast<int>(frame.program.rows.size());
    std::vector<std::vector<int>> at(columns_.size());
    for (std::size_t s = 0; s < columns_.size(); ++s) {
      const int row = frame.program.add_row(1, kUnbounded);
      for (const auto& cover : columns_[s]) {
        std::vector<int> need(problem_.kinds, 0);
        add_need(problem_.services[s], cover, need);
        LinearProgram::Column column;
        for (std::size_t k = 0; k < need.size(); ++k) {
          if (need[k] > 0) column.entries.push_back({static_cast<int>(k), -static_cast<double>(need[k])});
        }
        column.entries.push_back({row, 1});
        at[s].push_back(frame.program.add_column(std::move(column)));
      }
      // Keeps the program feasible on a fleet that is too small, at a price that no plan pays.
      frame.program.add_column(
          {.cost = kTooDear, .low = 0, .high = kUnbounded, .integer = false, .entries = {{row, 1}}});
    }
    const auto linear = detail::solve_linear(frame.program);
    Master master;
    master.solved = linear.optimal;
    if (!linear.optimal) return master;
    TANGRAM_CHECK(first_service_row >= static_cast<int>(problem_.kinds), "kinds come first");
    for (std::size_t k = 0; k < problem_.kinds; ++k) master.kind_price.push_back(std::max(0.0, linear.duals[k]));
    for (const auto& row : at) {
      auto& share = master.share.emplace_back();
      for (const int column : row) share.push_back(linear.values[static_cast<std::size_t>(column)]);
    }
    return master;
  }

  // The bound at `price`, with the covers that attain it as new columns. Returns how many were new.
  int price_services(std::vector<double> price) {
    // A kind that is free in the linear program would be taken without end.
    for (std::size_t k = 0; k < price.size(); ++k) price[k] = std::max(price[k], 0.02 * even_price_[k]);
    double total = 0;
    int added = 0;
    std::vector<double> costs;
    for (std::size_t s = 0; s < covers_.size(); ++s) {
      const auto cheapest = covers_[s].cheapest(price, budget_.cover_nodes_max);
      if (!cheapest) {
        costs.push_back(0);
        continue;
      }
      total += cheapest->bound;
      costs.push_back(cheapest->bound);
      added += add_column(s, cheapest->cover);
    }
    // Unlimited devices: prices are scaled until no cut is worth more than its device. Limited ones may be worth
    // more, for which their number times the excess is taken off.
    double scale = 1;
    for (const auto& device : problem_.devices) {
      if (device.count_max >= 0) continue;
      const double worth = best_cut(device, price);
      if (worth > 0) scale = std::min(scale, device.price / worth);
    }
    double bound = scale * total;
    for (const auto& device : problem_.devices) {
      if (device.count_max < 0) continue;
      bound -= device.count_max * std::max(0.0, scale * best_cut(device, price) - device.price);
    }
    if (bound > answer_.bound) {
      answer_.bound = bound;
      answer_.kind_price = price;
      for (double& p : answer_.kind_price) p *= scale;
      for (double& c : costs) c *= scale;
      answer_.service_price = std::move(costs);
    }
    return added;
  }

  static double best_cut(const CoverDevice& device, const std::vector<double>& price) {
    double best = 0;
    for (const auto& cut : device.cuts) {
      double worth = 0;
      for (std::size_t i = 0; i < cut.size(); ++i) worth += cut[i] * price[device.kinds[i]];
      best = std::max(best, worth);
    }
    return best;
  }

  void generate() {
    for (int round = 0; round < budget_.rounds_max; ++round) {
      const Master master = solve_master();
      if (!master.solved) break;
      shares_ = master.share;
      const int added = price_services(master.kind_price);
      if (round % 8 == 0) {
        round_to_plan(false);
        report();
      }
      if (added == 0 || closed()) break;
    }
  }

  bool closed() const { return answer_.price <= round_up(answer_.bound, step_) + kEpsilon; }
  void report() const {
    if (budget_.progress) budget_.progress(answer_.price, round_up(answer_.bound, step_));
  }

  // Fixes services that the linear program gives whole, and searches over the columns of the rest, which are few: no
  // more than there are kinds and limits. With `all`, over every service.
  void round_to_plan(bool all) {
    std::vector<int> fixed(problem_.kinds, 0);
    std::vector<Cover> chosen(columns_.size());
    std::vector<std::size_t> open;
    for (std::size_t s = 0; s < columns_.size(); ++s) {
      const std::size_t best = largest_share(s);
      chosen[s] = columns_[s][best];
      const bool whole = s < shares_.size() && best < shares_[s].size() && shares_[s][best] > 1 - 1e-6;
      if (whole && !all) {
        add_need(problem_.services[s], chosen[s], fixed);
      } else {
        open.push_back(s);
      }
    }
    Frame frame(problem_, fixed, true, slices_max(fixed, open));
    std::vector<std::vector<int>> at(open.size());
    for (std::size_t i = 0; i < open.size(); ++i) {
      const std::size_t s = open[i];
      const int row = frame.program.add_row(1, kUnbounded);
      for (const auto& cover : columns_[s]) {
        std::vector<int> need(problem_.kinds, 0);
        add_need(problem_.services[s], cover, need);
        LinearProgram::Column column{.cost = 0, .low = 0, .high = 1, .integer = true, .entries = {{row, 1}}};
        for (std::size_t k = 0; k < need.size(); ++k) {
          if (need[k] > 0) column.entries.push_back({static_cast<int>(k), -static_cast<double>(need[k])});
        }
        at[i].push_back(frame.program.add_column(std::move(column)));
      }
    }
    IntegerLimits limits{
        .nodes_max = all ? budget_.tree_nodes_max : budget_.tree_nodes_max / 20 + 10,
        .objective_step = step_,
        .cutoff = answer_.price < kUnbounded ? answer_.price - (step_ > 0 ? 0.5 * step_ : kEpsilon) : kUnbounded};
    const auto integer = detail::solve_integer(frame.program, limits);
    last_search_proved_ = integer.proved;
    if (!integer.values) return;
    for (std::size_t i = 0; i < open.size(); ++i) {
      for (std::size_t c = 0; c < at[i].size(); ++c) {
        if ((*integer.values)[static_cast<std::size_t>(at[i][c])] > 0.5) chosen[open[i]] = columns_[open[i]][c];
      }
    }
    take(frame.cuts_of(*integer.values), std::move(chosen));
  }

  // More devices than slices are never of use.
  double slices_max(const std::vector<int>& fixed, const std::vector<std::size_t>& open) const {
    double most = std::accumulate(fixed.begin(), fixed.end(), 1.0);
    for (const std::size_t s : open) {
      int largest = 0;
      for (const auto& cover : columns_[s]) largest = std::max(largest, std::accumulate(cover.begin(), cover.end(), 0));
      most += largest;
    }
    return most;
  }

  std::size_t largest_share(std::size_t s) const {
    if (s >= shares_.size() || shares_[s].empty()) return 0;
    return static_cast<std::size_t>(std::ranges::max_element(shares_[s]) - shares_[s].begin());
  }

  void take(std::vector<std::vector<int>> cuts, std::vector<Cover> covers) {
    const double price = price_of(problem_, cuts);
    if (price >= answer_.price - kEpsilon) return;
    answer_.status = CoverStatus::solved;
    answer_.price = price;
    answer_.cuts = std::move(cuts);
    answer_.covers = std::move(covers);
  }

  // A cover that takes part in a better plan costs no more than its service's cheapest and the gap together. If all
  // of those can be listed, a search over them proves the plan or betters it.
  void improve() {
    round_to_plan(false);
    report();
    if (closed() || static_cast<int>(covers_.size()) > budget_.tree_services_max) return;
    round_to_plan(true);
    report();
    if (closed() || answer_.price >= kTooDear) return;
    if (answer_.kind_price.empty()) return;
    const bool limited = std::ranges::any_of(problem_.devices, [](const auto& d) { return d.count_max >= 0; });
    if (limited && answer_.status != CoverStatus::solved) return search_compact();
    const double target = answer_.price - (step_ > 0 ? step_ : 0);
    const double gap = target - answer_.bound;
    bool complete = true;
    for (std::size_t s = 0; s < covers_.size() && complete; ++s) {
      const auto all =
          covers_[s].all_within(answer_.kind_price, answer_.service_price[s] + gap + kEpsilon, budget_.cover_nodes_max);
      complete = all.has_value() && all->size() < 2000;
      if (!complete) break;
      for (const auto& cover : *all) add_column(s, cover);
    }
    shares_.clear();
    if (complete) {
      round_to_plan(true);
      if (last_search_proved_) answer_.proved = true;
      report();
    }
    if (!answer_.proved && !closed()) search_compact();
  }

  // The whole problem as one mixed-integer program. Only where capacity alone decides: a program cannot ask.
  void search_compact() {
    for (const auto& service : problem_.services) {
      if (service.accepts) return;
    }
    const double devices_max = answer_.price < kUnbounded ? answer_.price / least_price() + 1 : 1e6;
    Frame frame(problem_, std::vector<int>(problem_.kinds, 0), true, devices_max);
    std::vector<std::vector<int>> at(problem_.services.size());
    for (std::size_t s = 0; s < problem_.services.size(); ++s) add_service(frame.program, problem_.services[s], at[s]);
    const IntegerLimits limits{
        .nodes_max = budget_.tree_nodes_max,
        .objective_step = step_,
        .cutoff = answer_.price < kUnbounded ? answer_.price - (step_ > 0 ? 0.5 * step_ : kEpsilon) : kUnbounded};
    const auto integer = detail::solve_integer(frame.program, limits);
    if (integer.values) {
      std::vector<Cover> covers;
      for (const auto& row : at) {
        auto& cover = covers.emplace_back();
        for (const int column : row) {
          cover.push_back(static_cast<int>(std::lround((*integer.values)[static_cast<std::size_t>(column)])));
        }
      }
      take(frame.cuts_of(*integer.values), std::move(covers));
    }
    if (integer.proved) {
      answer_.proved = true;
    } else if (integer.bound < kUnbounded && integer.bound < answer_.price) {
      answer_.bound = std::max(answer_.bound, integer.bound);
    }
  }

  double least_price() const {
    double least = kUnbounded;
    for (const auto& device : problem_.devices) least = std::min(least, device.price);
    return least;
  }

  void add_service(LinearProgram& program, const CoverService& service, std::vector<int>& at) const {
    std::vector<int> class_rows;
    for (const double demand : service.demand) class_rows.push_back(program.add_row(1, kUnbounded)), (void)demand;
    for (const auto& offer : service.offers) {
      LinearProgram::Column slices{.cost = 0, .low = 0, .high = kUnbounded, .integer = true, .entries = {}};
      slices.entries.push_back({static_cast<int>(offer.kind), -1});
      if (service.demand.size() == 1) {
        slices.entries.push_back({class_rows[0], offer.rate[0] / service.demand[0]});
        at.push_back(program.add_column(std::move(slices)));
        continue;
      }
      const int time = program.add_row(0, kUnbounded);
      slices.entries.push_back({time, 1});
      at.push_back(program.add_column(std::move(slices)));
      for (std::size_t i = 0; i < service.demand.size(); ++i) {
        if (offer.rate[i] <= 0) continue;
        program.add_column({.cost = 0,
                            .low = 0,
                            .high = kUnbounded,
                            .integer = false,
                            .entries = {{time, -1}, {class_rows[i], offer.rate[i] / service.demand[i]}}});
      }
    }
  }

  void finish() {
    for (const auto& covers : covers_) answer_.covers_tried += covers.asked();
    if (answer_.status != CoverStatus::solved) return;
    answer_.proved = answer_.proved || closed();
    if (answer_.proved) {
      answer_.bound = answer_.price;
    } else {
      answer_.bound = std::min(answer_.price, round_up(answer_.bound, step_));
    }
  }

  static constexpr double kTooDear = 1e7;

  const CoverProblem& problem_;
  const CoverBudget& budget_;
  double step_ = 0;
  std::vector<double> even_price_;  // By kind: its device's price over the most that fit.
  std::vector<ServiceCovers> covers_;
  std::vector<std::vector<Cover>> columns_;
  std::set<std::pair<std::size_t, Cover>> known_;
  std::vector<std::vector<double>> shares_;
  bool last_search_proved_ = false;
  CoverAnswer answer_;
};

}  // namespace

double cover_load_factor(const CoverService& service, const Cover& cover) {
  return detail::load_factor(service, cover).factor;
}

CoverAnswer solve_cover(const CoverProblem& problem, const CoverBudget& budget, const std::vector<Cover>& start) {
  TANGRAM_CHECK(start.empty() || start.size() == problem.services.size(), "a start covers every service");
  return Solver(problem, budget).solve(start);
}

std::vector<std::vector<int>> pack(const CoverProblem& problem, const std::vector<int>& need, double* price) {
  const Frame frame(problem, need, true, std::accumulate(need.begin(), need.end(), 1.0));
  const auto integer =
      detail::solve_integer(frame.program, {.nodes_max = 20000, .objective_step = price_step(problem)});
  if (!integer.values) return {};
  auto cuts = frame.cuts_of(*integer.values);
  if (price != nullptr) *price = price_of(problem, cuts);
  return cuts;
}

}  // namespace tangram::plan
