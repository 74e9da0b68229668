// The covers of one service: which numbers of slices carry its demand, and which of them are cheapest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "plan/cover.h"

namespace tangram::plan::detail {

class ServiceCovers {
 public:
  explicit ServiceCovers(const CoverService& service);

  // Every class can be run by some offer.
  bool coverable() const { return coverable_; }

  struct Cheapest {
    Cover cover;
    double cost = 0;
    double bound = 0;  // No cover that the service accepts costs less; equals `cost` when the search ended by itself.
  };
  // The cheapest cover by the prices of kinds, all of which are positive. Nothing if the service accepts none within
  // the limits.
  std::optional<Cheapest> cheapest(std::span<const double> kind_price, std::int64_t nodes_max);

  // Every accepted cover that costs at most `cost_max` and of which no part is one. Nothing if they are too many.
  std::optional<std::vector<Cover>> all_within(std::span<const double> kind_price, double cost_max,
                                               std::int64_t nodes_max);

  bool has_capacity(const Cover& cover);
  bool accepts(const Cover& cover);
  double load_factor(const Cover& cover);
  std::int64_t asked() const { return asked_; }
  std::int64_t nodes() const { return nodes_; }  // Of all searches for the cheapest so far.

 private:
  // A condition that every cover meets: sum(unit * cover) >= 1. It comes from weights of the classes, each slice
  // spending its time on the class that weighs most for it.
  struct Row {
    std::vector<double> unit;
  };
  struct Search;

  // Adds the row that these weights of the classes imply. Requires that they weigh some demand.
  void add_row(std::span<const double> class_weight);
  // The price of the cover's slices.
  double cost_of(const Cover& cover, std::span<const double> price) const;
  // The least that can complete `cover`, by the best of the rows, using only offers from `first` on in `order`.
  double completion_bound(const Cover& cover, std::span<const double> price, std::span<const std::size_t> order,
                          std::size_t first) const;
  // The offers in descending order of capacity for their price, judged by the first row.
  std::vector<std::size_t> order_by_worth(std::span<const double> price) const;
  // Tries all numbers of the offers from `depth` on. Ensures that search.best is the cheapest cover seen so far.
  void search(Search& search, std::size_t depth, double cost);
  // cheapest() where capacity alone decides. Its bound is weaker than its cost if the nodes run out.
  std::optional<Cheapest> cheapest_by_capacity(std::span<const double> price, std::int64_t nodes_max);
  // cheapest() where the service is asked. Asks about covers in ascending order of cost.
  std::optional<Cheapest> cheapest_accepted(std::span<const double> price, std::int64_t nodes_max);

  const CoverService& service_;
  bool coverable_ = false;
  std::vector<Row> rows_;
  std::map<Cover, bool> answers_;
  std::vector<Cover> rejected_;
  std::vector<Cover> accepted_;
  std::int64_t asked_ = 0;
  std::int64_t nodes_ = 0;
};

// The largest f such that y slices of the offers carry f times the demand, and weights of the classes that show why not
// more: sum over offers of y * max(rate * weight) = f where demand * weight sums to one.
struct LoadFactor {
  double factor = 0;
  std::vector<double> class_weight;
};
LoadFactor load_factor(const CoverService& service, const Cover& cover);

}  // namespace tangram::plan::detail
