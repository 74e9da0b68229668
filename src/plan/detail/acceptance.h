// Whether the slices of a cover keep the promise of a service, asked as seldom as possible.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "plan/compose.h"
#include "plan/detail/service_cover.h"
#include "plan/detail/tolerance.h"

namespace tangram::plan::detail {

// Decides whether a service, or services that share slices, accept a cover, and remembers covers that failed their
// confirmation.
class Acceptance {
 public:
  // What is known of the promise on the slices of a cover; asked again with `confirm` before a plan goes out.
  using Ask = std::function<Verdict(const Cover&, bool confirm)>;

  // A service with slices of its own. All outlive it.
  Acceptance(const Problem& problem, const Stock& stock, const Demand& demand)
      : problem_(problem),
        stock_(&stock),
        demand_(&demand),
        service_(cover_service(demand)),
        ask_([&](const Cover& cover, bool confirm) { return certify_cover(problem, stock, demand, cover, confirm); }) {}
  // Services that share slices: `service` is what slices offer to all of them, `ask` tells of the promise that has the
  // least room.
  Acceptance(const Problem& problem, CoverService service, Ask ask)
      : problem_(problem), service_(std::move(service)), ask_(std::move(ask)) {}

  bool accepts(const Cover& cover) const {
    // The demand is one end of a drift; this is the check of the other end. It is cheap, so it comes before any
    // simulation.
    if (demand_ != nullptr && !demand_->other_rate_per_s.empty() && !carries(*demand_, cover)) return false;
    if (problem_.options.rule != Rule::certified) return true;
    // A part of a cover that failed has no more capacity than it, so it fails too.
    for (const auto& no : refuted_) {
      bool inside = true;
      for (std::size_t o = 0; o < cover.size(); ++o) inside = inside && cover[o] <= no[o];
      if (inside) return false;
    }
    if (factor_least_ > 0 && cover_load_factor(service_, cover) < factor_least_) return false;
    const int slices = std::accumulate(cover.begin(), cover.end(), 0);
    if (slices > kScreenedAbove && cover_load_factor(service_, cover) < factor_refused()) return false;
    // Services that share slices have a bound that owes nothing to the search, so that it may be quick: a mixture holds
    // with the load factor at which some kind alone holds. The confirmation has the last word.
    if (slices > kScreenedAbove && demand_ == nullptr && factor_accepted_ < kNoFactor) {
      return cover_load_factor(service_, cover) >= factor_accepted_ * (1 - kSumTolerance);
    }
    const bool holds = certify(cover, false).holds;
    if (!holds && asked_ > kLooksExact) {
      hurried_ = true;
      factor_least_ = std::max(factor_least_, (1 + kHurryStep) * cover_load_factor(service_, cover));
    }
    return holds;
  }
  // True if covers were passed over without a look, so that the cheapest one found proves nothing.
  bool hurried() const { return hurried_; }
  // Of the covers that were simulated and rejected and cost less than `chosen`, the one with the largest share in time,
  // and its verdict.
  std::optional<std::pair<Cover, Verdict>> nearest_cover(const Cover& chosen,
                                                         const std::vector<double>& kind_price) const {
    const double limit = cheaper_than(chosen, kind_price);
    std::optional<std::pair<Cover, Verdict>> best;
    for (const auto& [cover, verdict] : rejected_) {
      // What was refused without a simulation has no share.
      if (cost_of(cover, kind_price) >= limit || verdict.attainment <= 0) continue;
      if (best && verdict.attainment <= best->second.attainment) continue;
      best = {cover, verdict};
    }
    return best;
  }
  // The same in the terms of a plan. Requires a service with slices of its own.
  std::optional<NearestCover> nearest(const Cover& chosen, const std::vector<double>& kind_price) const {
    const auto best = nearest_cover(chosen, kind_price);
    if (!best) return std::nullopt;
    return NearestCover{groups_of(problem_, *stock_, *demand_, best->first), best->second};
  }
  void refute(const Cover& cover) { refuted_.push_back(cover); }
  // From now on a cover also needs a larger load factor than this one, by a share that doubles up to one. This is not
  // part of the rule: it ends a search that could otherwise go on through thousands of covers that just fail.
  void ask_more_than(const Cover& cover) {
    factor_least_ = std::max(factor_least_, (1 + more_room_) * cover_load_factor(service_, cover));
    more_room_ = std::min(1.0, 2 * more_room_);
  }
  Verdict certify(const Cover& cover, bool confirm) const {
    ++asked_;
    Verdict verdict = ask_(cover, confirm);
    if (!verdict.holds) rejected_[cover] = verdict;
    if (verdict.holds) accepted_.insert(cover);
    return verdict;
  }
  std::int64_t asked() const { return asked_; }
  // What is known of the covers that cost less than `chosen`. Requires a service with slices of its own.
  SmallerCovers smaller(const Cover& chosen, const std::vector<double>& kind_price) const {
    if (nearest_cover(chosen, kind_price)) return SmallerCovers::rejected;
    const double limit = cheaper_than(chosen, kind_price);
    const auto is_cheaper = [&](const Cover& cover) { return cost_of(cover, kind_price) < limit; };
    if (std::ranges::any_of(accepted_, is_cheaper)) return SmallerCovers::suffices;
    CoverService by_capacity = service_;
    by_capacity.accepts = {};
    constexpr std::int64_t kNodes = 20'000;
    const auto cheapest = ServiceCovers(by_capacity).cheapest(kind_price, kNodes);
    return cheapest && cheapest->bound >= limit ? SmallerCovers::no_capacity : SmallerCovers::not_asked;
  }

 private:
  double cost_of(const Cover& cover, const std::vector<double>& kind_price) const {
    double cost = 0;
    for (std::size_t o = 0; o < cover.size(); ++o) cost += cover[o] * kind_price[service_.offers[o].kind];
    return cost;
  }
  // Covers below this cost less than `chosen`.
  double cheaper_than(const Cover& chosen, const std::vector<double>& kind_price) const {
    return cost_of(chosen, kind_price) * (1 - kSavingMin);
  }

  // Where capacity says little about waiting, as with a trace whose large inputs come all at once, thousands of covers
  // would be simulated. After this many, each rejected cover also rejects all with hardly more capacity.
  static constexpr std::int64_t kLooksExact = 200;
  static constexpr double kHurryStep = 0.02;
  // Covers with more slices than this are screened by their load factor before they are simulated: there are thousands
  // of them, and the more places there are, the less it matters which kinds they are.
  static constexpr int kScreenedAbove = 6;
  static constexpr double kNoFactor = 1e18;

  // The load factor below which no number of slices of any single kind was certified. A mixture is not expected to
  // manage with less than the best of its kinds. Computed once, by bisection for each offer.
  double factor_refused() const {
    if (factor_refused_) return *factor_refused_;
    double least = kNoFactor;
    for (std::size_t o = 0; o < service_.offers.size(); ++o) {
      Cover cover(service_.offers.size(), 0);
      cover[o] = 1;
      const double each = cover_load_factor(service_, cover);
      if (each <= 0) continue;
      // `no` slices lack the capacity; `yes` is about twice what capacity asks for.
      int no = static_cast<int>(std::ceil(1 / each - detail::kSumTolerance)) - 1;
      int yes = 2 * no + 4;
      const auto holds = [&](int count) {
        cover[o] = count;
        return certify(cover, false).holds;
      };
      // With few slices each one is a large step in load factor, so such offers say little about large covers. One
      // that fails even with twice the capacity says nothing.
      if (no < kScreenedAbove / 2 || !holds(yes)) continue;
      while (yes - no > 1) {
        const int middle = no + std::min((yes - no) / 2, std::max(1, no / 8));  // The answer is near `no`.
        (holds(middle) ? yes : no) = middle;
      }
      least = std::min(least, no * each);
      factor_accepted_ = std::min(factor_accepted_, yes * each);
    }
    factor_refused_ = least >= kNoFactor ? 0 : least;
    return *factor_refused_;
  }

  const Problem& problem_;
  const Stock* stock_ = nullptr;    // Null for services that share slices,
  const Demand* demand_ = nullptr;  // as is this.
  CoverService service_;
  Ask ask_;
  std::vector<Cover> refuted_;
  mutable std::map<Cover, Verdict> rejected_;  // Simulated, and broken.
  mutable std::set<Cover> accepted_;           // Simulated, and held.
  mutable double factor_least_ = 0;
  mutable bool hurried_ = false;
  double more_room_ = 0.05;
  mutable std::optional<double> factor_refused_;
  mutable double factor_accepted_ = kNoFactor;  // The least at which slices of one kind were certified.
  mutable std::int64_t asked_ = 0;
};

}  // namespace tangram::plan::detail
