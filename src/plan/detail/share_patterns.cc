// Column generation. The master program chooses among patterns; its duals price each queue; for every kind a small
// integer program finds the pattern that is worth most at these prices. What a slice is worth at most makes the prices
// a feasible solution of the dual (Farley, 1990), so every round gives a bound, however far the columns have come.
//
// Invariant: the worth of a kind is never below that of its best pattern. It comes from the solver's bound, not from
// the pattern that it found, and everything that an integer program leaves out only adds patterns.

#include "plan/detail/share_patterns.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "plan/detail/linear_program.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan::detail {
namespace {

// Pricing programs have at most two whole columns for each queue of at most a hundred.
constexpr std::int64_t kPricingNodes = 300;
// Relative: what the solvers' tolerances may hide of the worth of a pattern.
constexpr double kWorthTolerance = 1e-6;

// A queue on slices of one kind.
struct Fit {
  bool runs = false;
  bool whole = false;        // One slice may be enough for all its work and its promise.
  double time = 0;           // Of a slice, for all its work.
  std::vector<double> rate;  // By class, of a slice that runs nothing else; 0: it does not run there.
  double weights_mib = 0;
  double working_mib = 0;
  // Runs of one sample, two, and so on, by class; for blocking.
  std::vector<std::vector<double>> run_s;
};

// A set of queues on one slice, as a column of the master program.
struct Pattern {
  struct Use {
    std::size_t queue;
    bool whole;                // With all its work, on no other slice.
    std::vector<double> time;  // By class, if not whole.
  };
  std::size_t kind = 0;
  std::vector<Use> uses;
};

struct Prices {
  std::vector<double> present;                // By queue.
  std::vector<std::vector<double>> of_class;  // By queue and class, for a sample a second.
};

class PatternProgram {
 public:
  PatternProgram(const QueueProblem& problem, const std::vector<Service>& services, const CoverProblem& devices,
                 const std::vector<Demand>& demands, const PatternOptions& options)
      : problem_(problem), services_(services), devices_(devices), demands_(demands), options_(options) {
    make_fits();
    make_components();
    make_blocking();
  }

  double solve() {
    if (!start()) return 0;
    double bound = 0;
    for (int round = 0; round < options_.rounds_max; ++round) {
      const LinearAnswer answer = solve_linear(program_);
      if (!answer.optimal) return bound;
      const Prices prices = prices_of(answer);
      std::vector<double> worth(problem_.stock.kinds.size(), 0);
      std::size_t fresh = 0;
      for (std::size_t kind = 0; kind < worth.size(); ++kind) {
        const double paid = -answer.duals[static_cast<std::size_t>(kind_row_[kind])];
        for (const auto& component : components_) {
          const auto [most, pattern] = best_pattern(component, kind, prices);
          worth[kind] = std::max(worth[kind], most);
          if (pattern.uses.empty() || worth_of(pattern, prices) <= paid + kBoundTolerance) continue;
          add(pattern);
          ++fresh;
        }
      }
      bound = std::max(bound, scaled(prices, worth));
      const bool closed = std::ceil(bound - kBoundTolerance) >= std::ceil(answer.objective - kBoundTolerance);
      if (fresh == 0 || bound >= options_.price_enough || (closed && whole_prices())) break;
    }
    return bound;
  }

 private:
  std::size_t size() const { return demands_.size(); }
  const Service& service(std::size_t q) const { return problem_.problem.workload.services[q]; }

  // A bound that is rounded up anyway need not be exact.
  bool whole_prices() const {
    return std::ranges::all_of(devices_.devices, [](const CoverDevice& d) { return d.price == 1; });
  }

  // ---- What slices do for queues ----

  void make_fits() {
    std::map<std::string, int> queues_of;
    const auto key = [](const Service& s) { return s.model + "|" + s.weights; };
    for (std::size_t q = 0; q < size(); ++q) ++queues_of[key(service(q))];
    for (std::size_t q = 0; q < size(); ++q) {
      fits_.emplace_back();
      for (std::size_t kind = 0; kind < problem_.stock.kinds.size(); ++kind) {
        fits_.back().push_back(fit_of(q, kind, queues_of[key(service(q))]));
      }
    }
  }

  // Weights are counted by the share of the queues that run the same copy, so that one copy is never counted twice.
  Fit fit_of(std::size_t q, std::size_t kind, int queues_of_copy) const {
    const Demand& demand = demands_[q];
    Fit fit;
    fit.rate.assign(demand.edges.size(), 0);
    std::vector<std::int64_t> batch(demand.edges.size(), 0);
    for (const auto& offer : demand.offers) {
      if (offer.kind != kind) continue;
      for (std::size_t b = 0; b < fit.rate.size(); ++b) {
        fit.rate[b] = std::max(fit.rate[b], offer.rate_per_s[b]);
        batch[b] = std::max(batch[b], offer.batch[b]);
      }
    }
    fit.runs = std::ranges::any_of(fit.rate, [](double rate) { return rate > 0; });
    if (!fit.runs) return fit;
    fit.whole = true;
    for (std::size_t b = 0; b < fit.rate.size(); ++b) {
      if (demand.rate_per_s[b] <= 0) continue;
      fit.whole = fit.whole && fit.rate[b] > 0;
      if (fit.rate[b] > 0) fit.time += demand.rate_per_s[b] / fit.rate[b];
    }
    fit.whole = fit.whole && fit.time <= 1 + kSumTolerance;
    if (fit.whole && options_.breaks_alone) fit.whole = !options_.breaks_alone(q, kind);
    const std::size_t self[] = {q};
    const auto weights = weights_mib(problem_, self, kind);
    if (weights && !on_demand_s(problem_, q, demand, kind)) fit.weights_mib = *weights / queues_of_copy;
    for (std::size_t b = 0; b < fit.rate.size(); ++b) {
      auto& runs = fit.run_s.emplace_back();
      // Requests may be smaller than their bucket; padded to it they run as long as its largest.
      const bool padded = service(q).padding == Padding::bucket;
      const std::int64_t size = padded ? demand.edges[b] : b > 0 ? demand.edges[b - 1] : 1;
      const auto largest = run_of(q, kind, problem_.stock.samples_most[q], size);
      if (largest && largest->memory_mib && weights) {
        fit.working_mib = std::max(fit.working_mib, *largest->memory_mib - *weights);
      }
      for (std::int64_t n = 1; n <= batch[b]; ++n) {
        const auto run = run_of(q, kind, n, size);
        // Of what is not known, nothing can be said.
        runs.push_back(run ? to_seconds(run->mean) : 0);
      }
    }
    return fit;
  }

  std::optional<Prediction> run_of(std::size_t q, std::size_t kind, std::int64_t batch, std::int64_t size) const {
    return problem_.problem.latency->predict(
        {problem_.stock.type(kind), problem_.stock.profile(kind).name, service(q).model, batch, size, 1});
  }

  // What somebody's runs take beyond weights, whoever is on the slice.
  double working_least(const std::vector<std::size_t>& component, std::size_t kind) const {
    double least = PatternOptions::kEndless;
    for (const std::size_t q : component) {
      if (fits_[q][kind].runs) least = std::min(least, fits_[q][kind].working_mib);
    }
    return least < PatternOptions::kEndless ? least : 0;
  }

  // Queues that may share, directly or by way of others: a slice holds those of one component.
  void make_components() {
    std::vector<std::size_t> component(size());
    for (std::size_t q = 0; q < size(); ++q) component[q] = q;
    for (std::size_t a = 0; a < size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (component[a] == component[b] || !options_.compatible(a, b)) continue;
        const std::size_t from = std::max(component[a], component[b]);
        const std::size_t to = std::min(component[a], component[b]);
        std::ranges::replace(component, from, to);
      }
    }
    std::map<std::size_t, std::vector<std::size_t>> by_name;
    for (std::size_t q = 0; q < size(); ++q) by_name[component[q]].push_back(q);
    for (auto& [name, queues] : by_name) components_.push_back(std::move(queues));
  }

  // ---- Blocking ----

  // A queue whose requests come at random, and what its promises allow at most.
  struct Patience {
    bool known = false;
    double slo_s = 0;
    double late_most = 0;
  };

  void make_blocking() {
    for (std::size_t q = 0; q < size(); ++q) {
      Patience patience{options_.blocking, 0, 0};
      double served = 1;
      double rate = 0;
      double planned = 0;
      for (const std::size_t member : problem_.queues[q].members) {
        const Service& s = services_[member];
        patience.known = patience.known && std::holds_alternative<PoissonTraffic>(s.traffic);
        patience.slo_s = std::max(patience.slo_s, to_seconds(s.slo.latency));
        patience.late_most = std::max(patience.late_most, 1 - s.slo.percentile / 100);
        served = std::min(served, s.slo.percentile / 100);
        const bool loop = std::holds_alternative<ClosedLoopTraffic>(s.traffic);
        rate += loop ? 0 : mean_rate_per_s(s.traffic);
        planned += planning_rate_per_s(s);
      }
      patience_.push_back(patience);
      // Of the planned samples, those that are served in the long run at least.
      served_.push_back(planned > 0 ? served * std::min(1.0, rate / planned) : 0);
    }
  }

  // The time that a request of queue i can wait on a slice of the kind.
  double slack_s(std::size_t i, std::size_t kind) const {
    double least = patience_[i].slo_s;
    for (const auto& runs : fits_[i][kind].run_s) {
      if (!runs.empty()) least = std::min(least, runs[0]);
    }
    return patience_[i].slo_s - least;
  }

  // The share of the requests of somebody with this slack that are late because queue j has all its work there.
  double late_whole(std::size_t j, std::size_t kind, double slack) const {
    double late = 0;
    for (std::size_t b = 0; b < demands_[j].edges.size(); ++b) {
      const auto& runs = fits_[j][kind].run_s[b];
      double least = runs.empty() ? 0 : PatternOptions::kEndless;
      for (std::size_t n = 0; n < runs.size(); ++n) {
        least = std::min(least, std::max(0.0, runs[n] - slack) / static_cast<double>(n + 1));
      }
      late += demands_[j].rate_per_s[b] * least;
    }
    return served_[j] * late;
  }

  // The same for each unit of time that class b of queue j has there.
  double late_in_time(std::size_t j, std::size_t b, std::size_t kind, double slack) const {
    const auto& runs = fits_[j][kind].run_s[b];
    if (runs.empty() || runs[0] <= 0) return 0;
    return served_[j] * std::max(0.0, runs[0] - slack) / runs[0];
  }

  // ---- The master program ----

  bool start() {
    for (std::size_t kind = 0; kind < problem_.stock.kinds.size(); ++kind) {
      kind_row_.push_back(program_.add_row(-kUnbounded, 0));
    }
    for (const auto& device : devices_.devices) {
      const int limit = device.count_max < 0 ? -1 : program_.add_row(0, device.count_max);
      for (const auto& cut : device.cuts) {
        LinearProgram::Column column{.cost = device.price, .entries = {}};
        for (std::size_t i = 0; i < cut.size(); ++i) {
          if (cut[i] > 0) column.entries.push_back({kind_row_[device.kinds[i]], -static_cast<double>(cut[i])});
        }
        if (limit >= 0) column.entries.push_back({limit, 1});
        program_.add_column(std::move(column));
      }
    }
    for (std::size_t q = 0; q < size(); ++q) {
      present_row_.push_back(program_.add_row(1, kUnbounded));
      class_row_.emplace_back();
      for (const double rate : demands_[q].rate_per_s) class_row_.back().push_back(program_.add_row(rate, kUnbounded));
      bool runs = false;
      for (std::size_t kind = 0; kind < problem_.stock.kinds.size(); ++kind) {
        const Fit& fit = fits_[q][kind];
        if (!fit.runs) continue;
        runs = true;
        if (fit.whole) add({kind, {{q, true, {}}}});
        for (std::size_t b = 0; b < fit.rate.size(); ++b) {
          if (fit.rate[b] <= 0) continue;
          std::vector<double> times(fit.rate.size(), 0);
          times[b] = 1;
          add({kind, {{q, false, std::move(times)}}});
        }
      }
      if (!runs) return false;
    }
    return true;
  }

  void add(const Pattern& pattern) {
    LinearProgram::Column column{.entries = {{kind_row_[pattern.kind], 1}}};
    for (const auto& use : pattern.uses) {
      column.entries.push_back({present_row_[use.queue], use.whole ? 1 : 0.5});
      for (std::size_t b = 0; b < class_row_[use.queue].size(); ++b) {
        const double served =
            use.whole ? demands_[use.queue].rate_per_s[b] : use.time[b] * fits_[use.queue][pattern.kind].rate[b];
        if (served > 0) column.entries.push_back({class_row_[use.queue][b], served});
      }
    }
    program_.add_column(std::move(column));
  }

  Prices prices_of(const LinearAnswer& answer) const {
    Prices prices;
    for (std::size_t q = 0; q < size(); ++q) {
      prices.present.push_back(std::max(0.0, answer.duals[static_cast<std::size_t>(present_row_[q])]));
      prices.of_class.emplace_back();
      for (const int row : class_row_[q]) {
        prices.of_class.back().push_back(std::max(0.0, answer.duals[static_cast<std::size_t>(row)]));
      }
    }
    return prices;
  }

  double worth_whole(std::size_t q, const Prices& prices) const {
    double worth = prices.present[q];
    for (std::size_t b = 0; b < prices.of_class[q].size(); ++b) {
      worth += prices.of_class[q][b] * demands_[q].rate_per_s[b];
    }
    return worth;
  }

  double worth_of(const Pattern& pattern, const Prices& prices) const {
    double worth = 0;
    for (const auto& use : pattern.uses) {
      if (use.whole) {
        worth += worth_whole(use.queue, prices);
        continue;
      }
      worth += 0.5 * prices.present[use.queue];
      for (std::size_t b = 0; b < use.time.size(); ++b) {
        worth += prices.of_class[use.queue][b] * use.time[b] * fits_[use.queue][pattern.kind].rate[b];
      }
    }
    return worth;
  }

  // The prices, divided by what makes the slices of no device worth more than it costs.
  double scaled(const Prices& prices, const std::vector<double>& worth) const {
    double all = 0;
    for (std::size_t q = 0; q < size(); ++q) all += worth_whole(q, prices);
    double most = 0;
    for (const auto& device : devices_.devices) {
      for (const auto& cut : device.cuts) {
        double sum = 0;
        for (std::size_t i = 0; i < cut.size(); ++i) sum += cut[i] * worth[device.kinds[i]];
        most = std::max(most, sum / device.price);
      }
    }
    return most > 0 ? all / most / (1 + kWorthTolerance) : 0;
  }

  // ---- Pricing ----

  struct Best {
    double worth = 0;  // Not less than that of any pattern.
    Pattern pattern;   // The best found; may be empty.
  };

  Best best_pattern(const std::vector<std::size_t>& component, std::size_t kind, const Prices& prices) const {
    LinearProgram program;
    const auto room = room_mib(problem_, kind);
    const int time_row = program.add_row(-kUnbounded, 1);
    const int memory_row = program.add_row(-kUnbounded, room ? *room - working_least(component, kind) : kUnbounded);
    struct Columns {
      std::size_t queue;
      int whole = -1;
      int spread = -1;
      std::vector<int> time = {};
    };
    std::vector<Columns> columns;
    for (const std::size_t q : component) {
      const Fit& fit = fits_[q][kind];
      if (!fit.runs || (room && fit.weights_mib > *room)) continue;
      Columns own{q};
      const int one_of = program.add_row(-kUnbounded, 1);
      if (fit.whole) {
        own.whole = program.add_column({.cost = -worth_whole(q, prices),
                                        .high = 1,
                                        .integer = true,
                                        .entries = {{one_of, 1}, {time_row, fit.time}, {memory_row, fit.weights_mib}}});
      }
      const int held = program.add_row(-kUnbounded, 0);
      own.spread = program.add_column({.cost = -0.5 * prices.present[q],
                                       .high = 1,
                                       .integer = true,
                                       .entries = {{one_of, 1}, {held, -1}, {memory_row, fit.weights_mib}}});
      for (std::size_t b = 0; b < fit.rate.size(); ++b) {
        own.time.push_back(program.add_column({.cost = -prices.of_class[q][b] * fit.rate[b],
                                               .high = fit.rate[b] > 0 ? 1.0 : 0.0,
                                               .entries = {{held, 1}, {time_row, 1}}}));
      }
      columns.push_back(std::move(own));
    }
    // Who is on no other slice must not be late too often because of the others.
    for (const auto& own : columns) {
      const Patience& patience = patience_[own.queue];
      if (own.whole < 0 || !patience.known) continue;
      const double slack = slack_s(own.queue, kind);
      std::vector<std::pair<int, double>> late;
      double most = 0;
      for (const auto& other : columns) {
        if (other.queue == own.queue) continue;
        double largest = 0;
        if (other.whole >= 0) {
          largest = late_whole(other.queue, kind, slack);
          if (largest > 0) late.emplace_back(other.whole, largest);
        }
        for (std::size_t b = 0; b < other.time.size(); ++b) {
          const double each = late_in_time(other.queue, b, kind, slack);
          if (each > 0) late.emplace_back(other.time[b], each);
          largest = std::max(largest, each);
        }
        most += largest;
      }
      if (most <= patience.late_most) continue;
      // late <= late_most + (most - late_most) * (1 - whole)
      const int row = program.add_row(-kUnbounded, most);
      for (const auto& [column, value] : late) {
        program.columns[static_cast<std::size_t>(column)].entries.push_back({row, value});
      }
      program.columns[static_cast<std::size_t>(own.whole)].entries.push_back({row, most - patience.late_most});
    }
    Best best{0, {kind, {}}};
    if (columns.empty()) return best;
    const LinearAnswer relaxed = solve_linear(program);
    const IntegerAnswer answer = solve_integer(program, {.nodes_max = kPricingNodes});
    best.worth = relaxed.optimal ? -relaxed.objective : PatternOptions::kEndless;
    if (answer.bound > -kUnbounded) best.worth = std::min(best.worth, -answer.bound);
    if (!answer.values) return best;
    best.worth = std::max(best.worth, -answer.objective);
    for (const auto& own : columns) {
      const auto value = [&](int column) { return (*answer.values)[static_cast<std::size_t>(column)]; };
      if (own.whole >= 0 && value(own.whole) > 0.5) best.pattern.uses.push_back({own.queue, true, {}});
      if (value(own.spread) < 0.5) continue;
      std::vector<double> time;
      for (const int column : own.time) time.push_back(std::clamp(value(column), 0.0, 1.0));
      best.pattern.uses.push_back({own.queue, false, std::move(time)});
    }
    return best;
  }

  const QueueProblem& problem_;
  const std::vector<Service>& services_;
  const CoverProblem& devices_;
  const std::vector<Demand>& demands_;
  const PatternOptions& options_;
  std::vector<std::vector<Fit>> fits_;  // By queue and kind.
  std::vector<std::vector<std::size_t>> components_;
  std::vector<Patience> patience_;  // By queue.
  std::vector<double> served_;      // By queue.
  LinearProgram program_;
  std::vector<int> kind_row_;
  std::vector<int> present_row_;
  std::vector<std::vector<int>> class_row_;
};

}  // namespace

double pattern_bound(const QueueProblem& problem, const std::vector<Service>& services, const CoverProblem& devices,
                     const std::vector<Demand>& demands, const PatternOptions& options) {
  return PatternProgram(problem, services, devices, demands, options).solve();
}

}  // namespace tangram::plan::detail
