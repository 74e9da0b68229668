// The covering problem: buy devices, cut them, and give every service slices that carry its demand, at the least
// price.
//
// The idea is Gilmore and Gomory's for cutting stock. A linear program (the master) chooses among covers found so far;
// its duals are prices of kinds of slices; at those prices each service looks for a cheaper cover of its own, which
// becomes a new column. The same prices give a lower bound (Lagrange), so the search knows how far it is from the best
// plan.
//
// Invariants: answer_.bound never exceeds the price of any plan that meets the problem; columns_ holds only covers
// that their service accepts; answer_.price only falls and answer_.bound only rises.
//
// Example: two services that need one 3g slice each, on devices that can be cut into two 3g, give price 1 and bound 1:
// proved.

#include "plan/cover.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "base/check.h"
#include "plan/detail/linear_program.h"
#include "plan/detail/service_cover.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan {
namespace {

using detail::IntegerLimits;
using detail::kBoundTolerance;
using detail::kFractionMin;
using detail::kSumTolerance;
using detail::kUnbounded;
using detail::kWholeTolerance;
using detail::LinearProgram;
using detail::ServiceCovers;

// If every price is a multiple of the cheapest, every total is one too, so a bound can be rounded up to the next
// multiple. Returns that step, or 0 if there is none. Rounding closes gaps: with equal prices, a bound of 4.01 devices
// proves a plan of 5.
double price_step(const CoverProblem& problem) {
  double least = kUnbounded;
  for (const auto& device : problem.devices) least = std::min(least, device.price);
  for (const auto& device : problem.devices) {
    const double ratio = device.price / least;
    if (std::abs(ratio - std::round(ratio)) > kSumTolerance) return 0;
  }
  return least;
}

// The set of totals that a number of devices of each type can add up to. A bound between two totals can be raised to
// the upper one.
class Totals {
 public:
  explicit Totals(const CoverProblem& problem) : step_(price_step(problem)) {
    for (const auto& device : problem.devices) devices_.push_back({device.price, device.count_max});
    std::ranges::sort(devices_, std::greater<>{});
  }

  double step() const { return step_; }
  // The least total that is not below `bound`; `bound` itself if there are too many totals to list, which is a valid
  // but weaker bound.
  double at_least(double bound) const {
    if (step_ > 0) return step_ * std::ceil(bound / step_ - kWholeTolerance);
    if (!few(bound)) return bound;
    double best = kUnbounded;
    visit(bound, 0, 0, best, true);
    return best < kUnbounded ? best : bound;
  }
  // The largest total below `price`; where totals cannot be listed, a value just below `price`.
  double below(double price) const {
    if (step_ > 0) return price - step_;
    if (!few(price)) return price - kBoundTolerance;
    double best = 0;
    visit(price, 0, 0, best, false);
    return best;
  }

 private:
  // The enumeration runs for each comparison with a bound, so it has to stay cheap.
  static constexpr double kCombinationsMax = 2e5;
  // True if the totals up to `price` can be listed. The cheapest device is left out of the product: visit() computes
  // its number by division instead of a loop.
  bool few(double price) const {
    double combinations = 1;
    for (std::size_t d = 0; d + 1 < devices_.size(); ++d) combinations *= price / devices_[d].first + 1;
    return price < 1e6 && combinations < kCombinationsMax;
  }

  // Enumerates the numbers of all devices but the cheapest, and computes the number of the cheapest that just reaches
  // `limit` (`up`) or just stays below it.
  void visit(double limit, std::size_t d, double sum, double& best, bool up) const {
    const auto [price, most] = devices_[d];
    const double missing = (limit - sum) / price;
    if (d + 1 == devices_.size()) {
      const double count =
          up ? std::max(0.0, std::ceil(missing - kWholeTolerance)) : std::ceil(missing - kWholeTolerance) - 1;
      // A limited number of the cheapest device cannot make up for what is missing; with `up` such a combination has
      // no total and is skipped, otherwise the limit itself is the best.
      const double capped = most >= 0 && !up ? std::min<double>(count, most) : count;
      if (capped < 0 || (most >= 0 && capped > most)) return;
      best = up ? std::min(best, sum + capped * price) : std::max(best, sum + capped * price);
      return;
    }
    for (int count = 0; (most < 0 || count <= most) && (up ? count - 1 < missing : count < missing - kWholeTolerance);
         ++count) {
      visit(limit, d + 1, sum + count * price, best, up);
    }
  }

  double step_ = 0;
  std::vector<std::pair<double, int>> devices_;  // Price and number, the most expensive first.
};

// How many devices are allowed. Branching narrows these ranges.
struct Range {
  int low = 0;
  int high = -1;  // Below zero: unlimited.
};

// Ranges for every cut and every type of device. They describe one part of the search space.
struct Ranges {
  std::vector<std::vector<Range>> cut;
  std::vector<Range> total;

  explicit Ranges(const CoverProblem& problem) {
    for (const auto& device : problem.devices) {
      cut.emplace_back(device.cuts.size());
      total.push_back({0, device.count_max});
    }
  }
};

// The rows and columns that all programs share: one row per kind (supply minus need), then one row for each type of
// device whose number is limited. Row k is the row of kind k; solve_master() reads the duals by that index.
struct Frame {
  LinearProgram program;
  std::vector<std::vector<int>> cut_columns;  // By device and cut.

  // `devices_max` bounds the number of devices of one cut. Without a bound on integer columns, branch and bound can
  // follow ever larger numbers.
  Frame(const CoverProblem& problem, const Ranges& ranges, const std::vector<int>& need, bool integer,
        double devices_max = kUnbounded) {
    for (std::size_t k = 0; k < problem.kinds; ++k) program.add_row(need[k], kUnbounded);
    for (std::size_t d = 0; d < problem.devices.size(); ++d) {
      const auto& device = problem.devices[d];
      const Range total = ranges.total[d];
      const bool limited = total.low > 0 || total.high >= 0;
      const int limit = limited ? program.add_row(total.low, total.high < 0 ? kUnbounded : total.high) : -1;
      auto& columns = cut_columns.emplace_back();
      for (std::size_t c = 0; c < device.cuts.size(); ++c) {
        const auto& cut = device.cuts[c];
        const Range range = ranges.cut[d][c];
        LinearProgram::Column column{.cost = device.price,
                                     .low = static_cast<double>(range.low),
                                     .high = range.high < 0 ? std::max<double>(devices_max, range.low) : range.high,
                                     .integer = integer,
                                     .entries = {}};
        for (std::size_t i = 0; i < cut.size(); ++i) {
          if (cut[i] > 0) column.entries.push_back({static_cast<int>(device.kinds[i]), static_cast<double>(cut[i])});
        }
        if (limit >= 0) column.entries.push_back({limit, 1});
        columns.push_back(program.add_column(std::move(column)));
      }
    }
  }

  // Rounds a solution to whole devices. Requires an integer solution, within the tolerance of the solver.
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

// Column generation over the covers of each service. The bound is Lagrange's: take any prices of kinds at which no
// device can be cut into slices worth more than the device costs. Then the cheapest covers of all services together
// cost no more than any plan.
//
// The class is large because generation, rounding, branching and the compact program share the columns, the prices and
// the best answer.
class Solver {
 public:
  Solver(const CoverProblem& problem, const CoverBudget& budget)
      : problem_(problem), budget_(budget), totals_(problem), whole_(problem), columns_(problem.services.size()) {
    for (const auto& service : problem.services) covers_.emplace_back(service);
    answer_.price = kUnbounded;
    answer_.bound = 0;
  }

  // Called once. Ensures bound <= price, and for a solved answer covers and cuts that hold them.
  CoverAnswer solve(const std::vector<Cover>& start) {
    answer_.infeasible_service = problem_.services.size();
    for (std::size_t s = 0; s < covers_.size(); ++s) {
      if (covers_[s].coverable()) continue;
      answer_.infeasible_service = s;
      return answer_;
    }
    // A warm start may come from another demand, so its covers are checked like any other.
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
  // Ensures that the cover is a column of service s. True if it is new: column generation ends when none is.
  bool add_column(std::size_t s, const Cover& cover) {
    if (!known_.insert({s, cover}).second) return false;
    columns_[s].push_back(cover);
    return true;
  }

  // Ensures one column for each service, cheapest at prices that divide a device's price evenly among the slices of
  // one kind. False if some service accepts no cover within the budget.
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
    std::vector<std::vector<double>> cut;    // By device and cut: how many devices.
  };

  // Solves the linear relaxation over all columns: fractions of devices and of covers are allowed. Requires a column
  // for each service. Its duals are the prices of kinds.
  Master solve_master(const Ranges& ranges) const {
    Frame frame(problem_, ranges, std::vector<int>(problem_.kinds, 0), false);
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
      // An artificial column keeps the program feasible on a fleet that is too small. No plan costs as much, so it is
      // used only where nothing else fits.
      frame.program.add_column(
          {.cost = kTooDear, .low = 0, .high = kUnbounded, .integer = false, .entries = {{row, 1}}});
    }
    const auto linear = detail::solve_linear(frame.program);
    Master master;
    master.solved = linear.optimal;
    if (!linear.optimal) return master;
    TANGRAM_CHECK(first_service_row >= static_cast<int>(problem_.kinds), "kinds come first");
    // Duals can come out slightly negative by rounding; a negative price would make the service's search unbounded.
    for (std::size_t k = 0; k < problem_.kinds; ++k) master.kind_price.push_back(std::max(0.0, linear.duals[k]));
    for (const auto& row : at) {
      auto& share = master.share.emplace_back();
      for (const int column : row) share.push_back(linear.values[static_cast<std::size_t>(column)]);
    }
    for (const auto& row : frame.cut_columns) {
      auto& counts = master.cut.emplace_back();
      for (const int column : row) counts.push_back(linear.values[static_cast<std::size_t>(column)]);
    }
    return master;
  }

  struct Priced {
    double bound = 0;  // No plan within the ranges is cheaper.
    int added = 0;     // New columns.
    std::vector<double> price;
    std::vector<double> costs;  // By service.
  };

  // Computes the bound at `price` and adds the covers that attain it as columns. The bound holds for any prices, so
  // they may be adjusted here first.
  Priced price_services(std::vector<double> price, const Ranges& ranges) {
    // A kind with price zero would be taken without limit, and the search for covers requires positive prices. The
    // floor is only two per cent of the even price, because raising prices can weaken the bound.
    for (std::size_t k = 0; k < price.size(); ++k) price[k] = std::max(price[k], 0.02 * even_price_[k]);
    make_payable(price, ranges);
    Priced priced;
    for (std::size_t s = 0; s < covers_.size(); ++s) {
      const auto cheapest = covers_[s].cheapest(price, budget_.cover_nodes_max);
      priced.costs.push_back(cheapest ? cheapest->bound : 0);
      priced.bound += priced.costs.back();
      if (cheapest) priced.added += add_column(s, cheapest->cover);
    }
    for (std::size_t d = 0; d < problem_.devices.size(); ++d) priced.bound += least_surplus(d, price, ranges);
    priced.price = std::move(price);
    return priced;
  }

  // The value of the slices of cut c at the prices of kinds.
  double worth_of(const CoverDevice& device, std::size_t c, const std::vector<double>& price) const {
    double worth = 0;
    for (std::size_t i = 0; i < device.kinds.size(); ++i) worth += device.cuts[c][i] * price[device.kinds[i]];
    return worth;
  }

  // Lowers prices until no cut that may be used without limit is worth more than its device.
  // Without a limit on their number, devices whose slices are worth more than they cost would make the Lagrange bound
  // minus infinity.
  void make_payable(std::vector<double>& price, const Ranges& ranges) const {
    for (std::size_t d = 0; d < problem_.devices.size(); ++d) {
      const auto& device = problem_.devices[d];
      if (ranges.total[d].high >= 0) continue;
      double worth = 0;
      for (std::size_t c = 0; c < device.cuts.size(); ++c) {
        if (ranges.cut[d][c].high < 0) worth = std::max(worth, worth_of(device, c, price));
      }
      if (worth <= device.price) continue;
      for (const std::size_t kind : device.kinds) price[kind] *= device.price / worth;
    }
  }

  // The least that devices of one type cost beyond the value of their slices, within the ranges. Cuts worth more than
  // they cost are used as often as allowed; if there are then too few devices, the cheapest are added.
  double least_surplus(std::size_t d, const std::vector<double>& price, const Ranges& ranges) const {
    const auto& device = problem_.devices[d];
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t c = 0; c < device.cuts.size(); ++c) {
      order.emplace_back(device.price - worth_of(device, c, price), c);
    }
    std::ranges::sort(order);
    double sum = 0;
    double used = 0;
    for (const auto& [surplus, c] : order) {
      sum += surplus * ranges.cut[d][c].low;
      used += ranges.cut[d][c].low;
    }
    const double most = ranges.total[d].high < 0 ? kUnbounded : ranges.total[d].high;
    for (const auto& [surplus, c] : order) {
      const Range range = ranges.cut[d][c];
      const double room = std::min(most - used, range.high < 0 ? kUnbounded : double{0} + range.high - range.low);
      const double missing = std::max(0.0, ranges.total[d].low - used);
      // A cut that pays is used as often as allowed. Any other is used only to reach the least number of devices.
      const bool pays = surplus < -kSumTolerance * device.price;
      const double taken = std::max(0.0, pays ? room : std::min(room, missing));
      if (taken == 0) continue;
      sum += surplus * taken;
      used += taken;
    }
    return sum;
  }

  // Adds columns until no cover is cheaper at the prices of the linear program, or the rounds are used up. Ensures the
  // root bound and its prices; a plan is rounded every eighth round, because a good price lets later parts be dropped.
  void generate() {
    for (int round = 0; round < budget_.rounds_max; ++round) {
      const Master master = solve_master(whole_);
      if (!master.solved) break;
      shares_ = master.share;
      Priced priced = price_services(master.kind_price, whole_);
      if (priced.bound > answer_.bound) {
        answer_.bound = root_bound_ = priced.bound;
        answer_.kind_price = std::move(priced.price);
        answer_.service_price = std::move(priced.costs);
      }
      if (round % 8 == 0) {
        round_to_plan(whole_, false);
        report();
      }
      if (priced.added == 0 || closed()) break;
    }
  }

  // A part of the problem that may hold a better plan.
  struct Part {
    Ranges ranges;
    double bound = 0;
  };

  // Branches on how many devices of a type there are, then on how often a cut is made. Prices of kinds stay the only
  // link between services and devices, so every part has its own exact Lagrange bound. A dive towards more devices
  // finds plans; then the part with the least bound is next.
  void search_parts() {
    std::vector<Part> open{{whole_, answer_.bound}};
    // The bound of the whole problem is the least bound of all parts that are still open.
    double unresolved = kUnbounded;  // The least bound of parts that could not be divided.
    bool diving = true;
    const std::int64_t nodes_before = cover_nodes();
    for (int parts = 0; parts < parts_max() && !open.empty() && !closed(); ++parts) {
      if (cover_nodes() - nodes_before > budget_.parts_nodes_max) break;
      // The last part is the half with more devices, where a plan is most easily found. Best bound first is what
      // raises the overall bound.
      auto next = diving ? open.end() - 1 : std::ranges::min_element(open, {}, &Part::bound);
      const Part part = std::move(*next);
      open.erase(next);
      std::optional<std::pair<Part, Part>> halves;
      diving = examine(part, halves, unresolved) && halves.has_value();
      if (halves) {
        open.push_back(std::move(halves->first));
        open.push_back(std::move(halves->second));
      }
      double least = std::min(unresolved, answer_.price);
      for (const auto& left : open) least = std::min(least, left.bound);
      answer_.bound = std::max(answer_.bound, least);
      if (parts % 8 == 0) report();
    }
  }

  // The work so far, in nodes of the searches for covers: what the budget of search_parts() counts.
  std::int64_t cover_nodes() const {
    std::int64_t sum = 0;
    for (const auto& covers : covers_) sum += covers.nodes();
    return sum;
  }

  // Each part solves a linear program with a row for each service, so large problems get fewer parts.
  int parts_max() const {
    return static_cast<int>(covers_.size()) <= budget_.tree_services_max ? budget_.parts_max : budget_.parts_max / 8;
  }

  // Bounds the part and looks for a plan in it. True: it may hold a better one; `halves` are empty if it cannot be
  // divided.
  bool examine(Part part, std::optional<std::pair<Part, Part>>& halves, double& unresolved) {
    Master master;
    for (int round = 0; round < kPartRoundsMax; ++round) {
      master = solve_master(part.ranges);
      if (!master.solved) break;
      const Priced priced = price_services(master.kind_price, part.ranges);
      part.bound = std::max(part.bound, priced.bound);
      if (beaten(part.bound)) return false;
      if (priced.added == 0) break;
    }
    // A numerical failure of the solver proves nothing: the part keeps its bound and counts as unresolved.
    if (!master.solved) {
      unresolved = std::min(unresolved, part.bound);
      return true;
    }
    shares_ = master.share;
    round_to_plan(part.ranges, false);
    if (beaten(part.bound)) return false;
    halves = divide(part, master);
    if (!halves) unresolved = std::min(unresolved, part.bound);
    return true;
  }

  // True if no plan with this bound can be cheaper than the answer, since totals are multiples of prices.
  bool beaten(double bound) const { return answer_.price <= totals_.at_least(bound) + kBoundTolerance; }

  // Divides a part at the most fractional number of devices in the linear program, or else of one cut: at most its
  // floor, or at least one more. nullopt if all numbers are whole.
  static std::optional<std::pair<Part, Part>> divide(const Part& part, const Master& master) {
    const auto fraction = [](double x) { return std::abs(x - std::round(x)); };
    double best = kFractionMin;
    std::size_t at_device = 0;
    std::optional<std::size_t> at_cut;
    double value = 0;
    for (std::size_t d = 0; d < master.cut.size(); ++d) {
      const double total = std::accumulate(master.cut[d].begin(), master.cut[d].end(), 0.0);
      if (fraction(total) <= best) continue;
      best = fraction(total);
      at_device = d;
      value = total;
    }
    // Numbers of devices come first: they change the price, whereas another cut of the same device often costs the
    // same.
    for (std::size_t d = 0; d < master.cut.size() && value == 0; ++d) {
      for (std::size_t c = 0; c < master.cut[d].size(); ++c) {
        if (fraction(master.cut[d][c]) <= best) continue;
        best = fraction(master.cut[d][c]);
        at_device = d;
        at_cut = c;
      }
    }
    if (best <= kFractionMin) return std::nullopt;
    if (at_cut) value = master.cut[at_device][*at_cut];
    std::pair<Part, Part> halves{part, part};
    const auto range = [&](Part& half) -> Range& {
      return at_cut ? half.ranges.cut[at_device][*at_cut] : half.ranges.total[at_device];
    };
    range(halves.first).high = static_cast<int>(std::floor(value));
    range(halves.second).low = static_cast<int>(std::floor(value)) + 1;
    return halves;
  }

  // True if the answer is proved by the bound alone.
  bool closed() const { return beaten(answer_.bound); }
  void report() const {
    if (budget_.progress) budget_.progress(answer_.price, totals_.at_least(answer_.bound));
  }

  // Rounds the last linear program to a plan. Services that have one whole cover there are fixed, and an integer
  // search runs over the columns of the others. These are few: at most as many as there are kinds and limits, because
  // that is the number of rows that can make a basic solution fractional. With `all`, it searches over every service.
  void round_to_plan(const Ranges& ranges, bool all) {
    std::vector<int> fixed(problem_.kinds, 0);
    std::vector<Cover> chosen(columns_.size());
    std::vector<std::size_t> open;
    for (std::size_t s = 0; s < columns_.size(); ++s) {
      const std::size_t best = largest_share(s);
      chosen[s] = columns_[s][best];
      const bool whole = s < shares_.size() && best < shares_[s].size() && shares_[s][best] > 1 - kWholeTolerance;
      if (whole && !all) {
        add_need(problem_.services[s], chosen[s], fixed);
      } else {
        open.push_back(s);
      }
    }
    Frame frame(problem_, ranges, fixed, true, slices_max(fixed, open));
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
    // The search over open services only runs often, so it gets a twentieth of the nodes.
    IntegerLimits limits{.nodes_max = all ? budget_.tree_nodes_max : budget_.tree_nodes_max / 20 + 10,
                         .objective_step = totals_.step(),
                         .cutoff = cutoff()};
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

  // Half way between the price and the next lower total: no plan lies in between, so the solver may discard everything
  // above it.
  double cutoff() const {
    return answer_.price < kUnbounded ? 0.5 * (answer_.price + totals_.below(answer_.price)) : kUnbounded;
  }

  // An upper limit on useful devices: each holds at least one slice that some cover needs.
  double slices_max(const std::vector<int>& fixed, const std::vector<std::size_t>& open) const {
    double most = std::accumulate(fixed.begin(), fixed.end(), 1.0);
    for (const std::size_t s : open) {
      int largest = 0;
      for (const auto& cover : columns_[s]) largest = std::max(largest, std::accumulate(cover.begin(), cover.end(), 0));
      most += largest;
    }
    return most;
  }

  // The column with the largest share for service s in the last linear program; the first column if there was no
  // program.
  std::size_t largest_share(std::size_t s) const {
    if (s >= shares_.size() || shares_[s].empty()) return 0;
    return static_cast<std::size_t>(std::ranges::max_element(shares_[s]) - shares_[s].begin());
  }

  // Requires cuts that hold the covers. Ensures that the answer is the cheaper of this plan and the previous one.
  void take(std::vector<std::vector<int>> cuts, std::vector<Cover> covers) {
    const double price = price_of(problem_, cuts);
    if (price >= answer_.price - kBoundTolerance) return;
    answer_.status = CoverStatus::solved;
    answer_.price = price;
    answer_.cuts = std::move(cuts);
    answer_.covers = std::move(covers);
  }

  // Tries to better the plan or to prove it. A cover that is part of a cheaper plan costs at most its service's
  // cheapest cover plus the gap between price and bound. If all such covers can be listed, a search over them either
  // finds a cheaper plan or proves this one.
  void improve() {
    round_to_plan(whole_, false);
    report();
    // The integer search over all columns grows quickly with the number of services, so it is limited to small
    // problems.
    const bool small = static_cast<int>(covers_.size()) <= budget_.tree_services_max;
    if (!closed() && small) round_to_plan(whole_, true);
    report();
    if (!closed() && !asks()) search_parts();
    report();
    // The listing below needs prices and a real plan to measure the gap from.
    if (closed() || !small || answer_.price >= kTooDear) return;
    if (answer_.kind_price.empty()) return;
    const bool limited = std::ranges::any_of(problem_.devices, [](const auto& d) { return d.count_max >= 0; });
    if (limited && answer_.status != CoverStatus::solved) return search_compact();
    const double gap = totals_.below(answer_.price) - root_bound_;
    bool complete = true;
    for (std::size_t s = 0; s < covers_.size() && complete; ++s) {
      const auto all = covers_[s].all_within(answer_.kind_price, answer_.service_price[s] + gap + kBoundTolerance,
                                             budget_.cover_nodes_max);
      complete = all.has_value() && all->size() < 2000;
      if (!complete) break;
      for (const auto& cover : *all) add_column(s, cover);
    }
    shares_.clear();
    if (complete) {
      round_to_plan(whole_, true);
      if (last_search_proved_) answer_.proved = true;
      report();
    }
    if (!answer_.proved && !closed()) search_compact();
  }

  // Solves the whole problem as one mixed-integer program. Only possible where capacity alone decides: a program
  // cannot call the certifier.
  void search_compact() {
    if (asks()) return;
    const double devices_max = answer_.price < kUnbounded ? answer_.price / least_price() + 1 : 1e6;
    Frame frame(problem_, whole_, std::vector<int>(problem_.kinds, 0), true, devices_max);
    std::vector<std::vector<int>> at(problem_.services.size());
    for (std::size_t s = 0; s < problem_.services.size(); ++s) add_service(frame.program, problem_.services[s], at[s]);
    const IntegerLimits limits{
        .nodes_max = budget_.tree_nodes_max / 8, .objective_step = totals_.step(), .cutoff = cutoff()};
    const auto integer = detail::solve_integer(frame.program, limits);
    if (integer.values) {
      std::vector<Cover> covers;
      for (const auto& row : at) {
        auto& cover = covers.emplace_back();
        for (const int column : row) {
          cover.push_back(static_cast<int>(std::lround((*integer.values)[static_cast<std::size_t>(column)])));
        }
      }
      for (std::size_t s = 0; s < covers.size(); ++s) {
        if (!covers_[s].has_capacity(covers[s])) return;  // Only by the tolerance of the solver.
      }
      take(frame.cuts_of(*integer.values), std::move(covers));
    }
    if (integer.proved) {
      answer_.proved = true;
    } else if (integer.bound < kUnbounded && integer.bound < answer_.price) {
      answer_.bound = std::max(answer_.bound, integer.bound);
    }
  }

  // True if some service has a test beyond capacity, such as certification by simulation.
  bool asks() const {
    return std::ranges::any_of(problem_.services,
                               [](const auto& service) { return static_cast<bool>(service.accepts); });
  }

  // The price of the cheapest device. A plan never has more than price / least_price() devices.
  double least_price() const {
    double least = kUnbounded;
    for (const auto& device : problem_.devices) least = std::min(least, device.price);
    return least;
  }

  // Adds the demand of a service to a program that chooses slices, not covers: slices of each offer in `at`, and the
  // share of their time that goes to each bucket.
  void add_service(LinearProgram& program, const CoverService& service, std::vector<int>& at) const {
    // Rates and demands are scaled by the larger of them. A tiny demand is then lost in the solver's tolerance, which
    // leaves the bound valid; covers are tested for capacity afterwards.
    constexpr double kSmallDemand = 1e-3;
    std::vector<int> class_rows;
    std::vector<double> scale;
    for (std::size_t i = 0; i < service.demand.size(); ++i) {
      scale.push_back(service.demand[i]);
      for (const auto& offer : service.offers) scale[i] = std::max(scale[i], kSmallDemand * offer.rate[i]);
      class_rows.push_back(program.add_row(service.demand[i] / scale[i], kUnbounded));
    }
    for (const auto& offer : service.offers) {
      LinearProgram::Column slices{.cost = 0, .low = 0, .high = kUnbounded, .integer = true, .entries = {}};
      slices.entries.push_back({static_cast<int>(offer.kind), -1});
      // With one bucket the time of a slice needs no division, so the rate is an entry of the slice column itself.
      if (service.demand.size() == 1) {
        slices.entries.push_back({class_rows[0], offer.rate[0] / scale[0]});
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
                            .entries = {{time, -1}, {class_rows[i], offer.rate[i] / scale[i]}}});
      }
    }
  }

  // Ensures that the bound of a proved answer is its price, and that any other bound is raised to a total that devices
  // can have.
  void finish() {
    for (const auto& covers : covers_) answer_.covers_tried += covers.asked();
    if (answer_.status != CoverStatus::solved) return;
    answer_.proved = answer_.proved || closed();
    if (answer_.proved) {
      answer_.bound = answer_.price;
    } else {
      answer_.bound = std::min(answer_.price, totals_.at_least(answer_.bound));
    }
  }

  // The price of a service that the fleet has no room for: above any plan.
  static constexpr double kTooDear = 1e7;
  static constexpr int kPartRoundsMax = 30;  // Stopping early only weakens the bound.

  const CoverProblem& problem_;
  const CoverBudget& budget_;
  Totals totals_;
  Ranges whole_;                                   // The whole search space.
  std::vector<double> even_price_;                 // By kind: its device's price over the most that fit.
  std::vector<ServiceCovers> covers_;              // By service: its search for cheap covers.
  std::vector<std::vector<Cover>> columns_;        // By service; only covers that it accepts.
  std::set<std::pair<std::size_t, Cover>> known_;  // What columns_ holds.
  std::vector<std::vector<double>> shares_;        // By service and column, of the last linear program.
  bool last_search_proved_ = false;                // Nothing over columns_ is cheaper.
  double root_bound_ = 0;                          // At the prices in the answer.
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
  const Frame frame(problem, Ranges(problem), need, true, std::accumulate(need.begin(), need.end(), 1.0));
  const auto integer =
      detail::solve_integer(frame.program, {.nodes_max = 20000, .objective_step = price_step(problem)});
  if (!integer.values) return {};
  auto cuts = frame.cuts_of(*integer.values);
  if (price != nullptr) *price = price_of(problem, cuts);
  return cuts;
}

}  // namespace tangram::plan
