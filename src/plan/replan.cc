// Replanning: a plan for a changed workload that keeps as much of the running plan as it can.
//
// Moving a replica costs seconds of loading and recutting a device stops what runs on the slices that go, so a plan
// that is equally cheap but lies elsewhere is worse. Services whose demand did not change keep their slices; the
// others choose from a short list of covers. One small integer program then chooses covers and cuts together. Price
// comes first; the reward for keeping a device or a slice is too small to buy a more expensive plan.
//
// Example: on ten devices with twenty services, doubling the rate of one service searches over that service alone, and
// over up to eight others only if the result costs over 2 % more than a plan from scratch.

#include "plan/replan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/check.h"
#include "plan/buckets.h"
#include "plan/certify_plan.h"
#include "plan/compose.h"
#include "plan/detail/linear_program.h"
#include "plan/detail/service_cover.h"
#include "plan/detail/shared_spare.h"
#include "plan/detail/tolerance.h"
#include "plan/explain.h"

namespace tangram::plan {
namespace {

using detail::kUnbounded;
using detail::LinearProgram;

// Expresses the slices of `before` as a cover of `demand`; nullopt if one of them is no longer on offer, for instance
// because another batch size is now best.
std::optional<Cover> cover_of(const Problem& problem, const Stock& stock, const Demand& demand,
                              const ServicePlan& before) {
  Cover cover(demand.offers.size(), 0);
  for (const auto& group : before.groups) {
    bool found = false;
    for (std::size_t o = 0; o < cover.size() && !found; ++o) {
      const auto offered = replica_group(problem, stock, demand, demand.offers[o], group.count);
      found = offered.device_type == group.device_type && offered.mig_profile == group.mig_profile &&
              offered.replica == group.replica;
      if (found) cover[o] += group.count;
    }
    if (!found) return std::nullopt;
  }
  return cover;
}

// One service of the new problem and its options.
struct Entry {
  Demand demand;
  std::optional<Cover> before;  // Its slices today, where they can stay.
  const ServicePlan* plan = nullptr;
  bool changed = true;
  bool open = true;           // May get other slices.
  std::vector<Cover> covers;  // To choose from.
  Cover chosen;
};

// run() has the steps in order: read the services, bound the problem from scratch, list covers, choose, lay out. The
// class is large because all of them work on the same entries, model and cuts.
class Replan {
 public:
  Replan(const Problem& problem, const PlanAnswer& previous, const ReplanOptions& options)
      : problem_(problem), previous_(previous), options_(options), stock_(take_stock(problem)) {}

  // Returns nullopt where staying close is impossible or too expensive, so that only a plan from scratch is left.
  std::optional<Replanned> run() {
    if (stock_.kinds.empty() || previous_.status != PlanStatus::planned || !read_services()) return std::nullopt;
    solve_whole();
    if (whole_.status != CoverStatus::solved) return std::nullopt;
    list_covers();
    bool chosen = choose();
    if (!certified() && (!chosen || too_dear())) {
      open_neighbours();
      list_covers();
      chosen = choose();
    }
    if (!chosen) return std::nullopt;
    if (!certified() && too_dear()) {
      // Still too expensive: take the covers of the search from scratch, and let choose() keep as many devices as
      // possible under them.
      from_scratch_ = true;
      for (std::size_t s = 0; s < entries_.size(); ++s) entries_[s].covers = {whole_.covers[s]};
      if (!choose()) return std::nullopt;
    }
    lay_out_near();
    return answer();
  }

 private:
  // True if the plan costs more than one from scratch by more than the options allow. Requires choose() and
  // solve_whole().
  bool too_dear() const { return price_ > whole_.price + options_.worse_max * whole_.bound + detail::kSumTolerance; }
  bool certified() const { return problem_.options.rule == Rule::certified; }

  // Ensures one entry for each service of the problem. False: too many have changed.
  bool read_services() {
    std::map<std::string, const ServicePlan*> before;
    for (const auto& service : previous_.services) before[service.service] = &service;
    for (std::size_t s = 0; s < problem_.workload.services.size(); ++s) {
      Entry entry;
      const auto known = before.find(problem_.workload.services[s].name);
      if (known != before.end()) entry.plan = known->second;
      entry.demand = make_demand(problem_, stock_, s, edges_for(s, entry.plan));
      if (entry.plan != nullptr) entry.before = cover_of(problem_, stock_, entry.demand, *entry.plan);
      entry.changed = !entry.before || !same_rate(entry) || !still_carries(entry);
      entry.open = entry.changed;
      entries_.push_back(std::move(entry));
    }
    // If more than half of the services changed, there is too little left to stay close to.
    const auto changed = std::ranges::count_if(entries_, [](const Entry& e) { return e.changed; });
    return 2 * changed <= static_cast<std::ptrdiff_t>(entries_.size()) + 1;
  }

  // Keeps the buckets of the running plan if they still reach the longest input: other edges would retune every
  // replica of the service.
  std::vector<std::int64_t> edges_for(std::size_t s, const ServicePlan* before) const {
    const auto longest = size_shares(problem_.workload.services[s]).back().size;
    if (before != nullptr && !before->edges.empty() && before->edges.back() >= longest) return before->edges;
    return service_bucket_sets(problem_, stock_, s).back().edges;
  }

  // Requires entry.plan. True if the demand is the one that its plan was made for.
  static bool same_rate(const Entry& entry) {
    const double rate = std::accumulate(entry.demand.rate_per_s.begin(), entry.demand.rate_per_s.end(), 0.0);
    return std::abs(rate - entry.plan->rate_per_s) <= detail::kSumTolerance * rate;
  }

  static CoverService cover_service(const Demand& demand) {
    CoverService service{demand.rate_per_s, {}, {}};
    for (const auto& offer : demand.offers) service.offers.push_back({offer.kind, offer.rate_per_s});
    return service;
  }

  // Requires entry.before. True if the slices of the running plan have the capacity for the new demand.
  static bool still_carries(const Entry& entry) {
    return cover_load_factor(cover_service(entry.demand), *entry.before) >= 1 - detail::kSumTolerance;
  }

  // Asks the certifier, and counts that. `verdict`, if not null, gets the answer.
  bool certify(const Entry& entry, const Cover& cover, bool confirm, Verdict* verdict = nullptr) {
    ++certifications_;
    const auto said = certify_cover(problem_, stock_, entry.demand, cover, confirm);
    if (verdict != nullptr) *verdict = said;
    return said.holds;
  }

  // The replicas of a cover as groups, in the form that a plan reports.
  std::vector<ReplicaGroup> groups_of(const Entry& entry, const Cover& cover) const {
    std::vector<ReplicaGroup> groups;
    for (std::size_t o = 0; o < cover.size(); ++o) {
      if (cover[o] > 0) {
        groups.push_back(replica_group(problem_, stock_, entry.demand, entry.demand.offers[o], cover[o]));
      }
    }
    return groups;
  }

  // Ensures the bound, the prices of kinds, and a plan from scratch to compare with. Services that did not change are
  // not certified again: capacity alone also gives a valid, though weaker, bound.
  void solve_whole() {
    std::vector<Demand> demands;
    std::vector<Cover> start;
    for (const auto& entry : entries_) demands.push_back(entry.demand);
    model_ = cover_model(problem_, stock_, demands);
    for (std::size_t s = 0; s < entries_.size() && certified(); ++s) {
      if (!entries_[s].changed) continue;
      model_.problem.services[s].accepts = [this, s](const Cover& c) { return certify(entries_[s], c, false); };
    }
    // This search only yields a reference price and prices of kinds, so the expensive integer search is limited to
    // small problems.
    CoverBudget budget = problem_.budget;
    budget.tree_services_max = std::min(budget.tree_services_max, 12);
    whole_ = solve_cover(model_.problem, budget);
  }

  // Requires prices of kinds, from solve_whole(). The value of a cover's slices at those prices.
  double cost_at_prices(std::size_t s, const Cover& cover) const {
    double cost = 0;
    for (std::size_t o = 0; o < cover.size(); ++o) {
      cost += cover[o] * whole_.kind_price[model_.problem.services[s].offers[o].kind];
    }
    return cost;
  }

  // Opens the unchanged services whose slices cost most above their cheapest cover: changing those can save most.
  void open_neighbours() {
    if (certified() || whole_.kind_price.empty()) return;
    std::vector<std::pair<double, std::size_t>> waste;
    for (std::size_t s = 0; s < entries_.size(); ++s) {
      if (entries_[s].changed) continue;
      waste.emplace_back(whole_.service_price[s] - cost_at_prices(s, *entries_[s].before), s);
    }
    std::ranges::sort(waste);
    for (std::size_t i = 0; i < waste.size() && static_cast<int>(i) < options_.neighbours_max; ++i) {
      entries_[waste[i].second].open = true;
    }
  }

  // Requires solve_whole(). Ensures at least one cover for each entry; entries that are not open have exactly the one
  // of today. Called again after open_neighbours(), it lists only what was opened.
  void list_covers() {
    for (std::size_t s = 0; s < entries_.size(); ++s) {
      Entry& entry = entries_[s];
      if (!entry.covers.empty() && (entry.changed || !entry.open)) continue;  // Listed before.
      entry.covers.clear();
      std::set<Cover> known;
      const auto add = [&](const Cover& cover) {
        if (known.insert(cover).second) entry.covers.push_back(cover);
      };
      if (entry.before && !entry.changed) add(*entry.before);
      if (!entry.open) continue;
      // A service whose rate changed may still manage with the slices it has.
      if (entry.before && still_carries(entry) && (!certified() || certify(entry, *entry.before, false))) {
        add(*entry.before);
      }
      add(whole_.covers[s]);
      // Each further cover would have to be certified by simulation, so a certified service has these two only.
      if (certified()) continue;
      for (const auto& cover : near_covers(s)) add(cover);
    }
  }

  // The cheapest covers at the prices of the bound, and slightly more expensive ones that may fit the devices better.
  std::vector<Cover> near_covers(std::size_t s) {
    detail::ServiceCovers covers(model_.problem.services[s]);
    // Prices are an estimate of what a slice costs, so a cover within about a third of a device can still be the best.
    const double slack = 0.3 * least_price();  // Of one device.
    auto all = covers.all_within(whole_.kind_price, whole_.service_price[s] + slack, 3000);
    if (!all) return {};
    std::ranges::stable_sort(*all, {}, [&](const Cover& cover) { return cost_at_prices(s, cover); });
    if (static_cast<int>(all->size()) > options_.covers_max) all->resize(static_cast<std::size_t>(options_.covers_max));
    return *all;
  }

  // The price of the cheapest device of the model.
  double least_price() const {
    double least = kUnbounded;
    for (const auto& device : model_.problem.devices) least = std::min(least, device.price);
    return least;
  }

  // Plans whose prices differ by less than this count as equally cheap: half a device where all cost the same,
  // otherwise a hundredth of the cheapest. A much smaller value would be lost in the tolerance of the solver.
  double price_tolerance() const {
    const double least = least_price();
    const bool alike = std::ranges::all_of(model_.problem.devices, [&](const auto& d) { return d.price == least; });
    return alike ? 0.5 * least : 0.01 * least;
  }

  // By device of the model and cut: the indices of the running plan's devices that are cut this way.
  std::vector<std::vector<std::vector<std::size_t>>> devices_by_cut() const {
    std::vector<std::vector<std::vector<std::size_t>>> by_cut;
    for (const auto& device : model_.problem.devices) by_cut.emplace_back(device.cuts.size());
    for (std::size_t i = 0; i < previous_.plan.devices.size(); ++i) {
      for (std::size_t d = 0; d < by_cut.size(); ++d) {
        if (!is_of(previous_.plan.devices[i], model_.groups[d])) continue;
        const auto cut = cut_of(model_.problem.devices[d], previous_.plan.devices[i]);
        const auto at = std::ranges::find(model_.problem.devices[d].cuts, cut);
        if (at == model_.problem.devices[d].cuts.end()) continue;
        by_cut[d][static_cast<std::size_t>(at - model_.problem.devices[d].cuts.begin())].push_back(i);
        break;
      }
    }
    return by_cut;
  }

  // Whether a running device is of the group of the fleet: by its name, since groups of one type may differ in price;
  // by its type if the fleet has no such name any more.
  bool is_of(const PlannedDevice& device, std::size_t group) const {
    const DeviceGroup* own = group_of_device(problem_.fleet, device);
    if (own != nullptr) return own == &problem_.fleet.groups[group];
    return problem_.fleet.groups[group].type == device.type;
  }

  // How many slices of each kind of the model's device a planned device has.
  std::vector<int> cut_of(const CoverDevice& device, const PlannedDevice& planned) const {
    std::vector<int> cut(device.kinds.size(), 0);
    for (const auto& slice : planned.slices) {
      for (std::size_t i = 0; i < cut.size(); ++i) {
        if (stock_.kinds[device.kinds[i]].profile == slice.slice.profile) ++cut[i];
      }
    }
    return cut;
  }

  // Chooses a cover for every service and the cuts of all devices, by price first; among equal prices the plan that
  // keeps most devices cut as they are and most services on their slices. False if the solver found no solution.
  bool choose() {
    by_cut_ = devices_by_cut();
    LinearProgram program;
    std::vector<int> need(model_.problem.kinds, 0);
    double slices = 1;
    for (std::size_t s = 0; s < entries_.size(); ++s) {
      if (entries_[s].covers.size() == 1) add_need(s, entries_[s].covers[0], need);
      int most = 0;
      for (const auto& cover : entries_[s].covers)
        most = std::max(most, std::accumulate(cover.begin(), cover.end(), 0));
      slices += most;
    }
    for (const int n : need) program.add_row(n, kUnbounded);
    // The rewards for kept devices and for kept slices share the price tolerance: together they are meant to decide
    // between equal prices and never to outweigh a real difference.
    const double favour = price_tolerance() / (2 * slices);
    std::vector<std::vector<std::pair<int, int>>> cut_columns;
    for (std::size_t d = 0; d < model_.problem.devices.size(); ++d) {
      cut_columns.push_back(add_device(program, d, slices, favour));
    }
    std::vector<std::vector<int>> cover_columns(entries_.size());
    for (std::size_t s = 0; s < entries_.size(); ++s) {
      if (entries_[s].covers.size() > 1) cover_columns[s] = add_choice(program, s, favour);
    }
    const auto integer = detail::solve_integer(program, {.nodes_max = options_.nodes_max});
    if (!integer.values) return false;
    take_cuts(*integer.values, cut_columns);
    take_covers(*integer.values, cover_columns);
    return true;
  }

  static int whole_value(const std::vector<double>& values, int column) {
    return static_cast<int>(std::lround(values[static_cast<std::size_t>(column)]));
  }

  // Ensures cuts_ and price_ as the solution says. `columns`: by device and cut, of devices that stay and of others.
  void take_cuts(const std::vector<double>& values, const std::vector<std::vector<std::pair<int, int>>>& columns) {
    price_ = 0;
    cuts_.clear();
    for (std::size_t d = 0; d < columns.size(); ++d) {
      auto& counts = cuts_.emplace_back();
      for (const auto& [kept, added] : columns[d]) {
        counts.push_back(whole_value(values, kept) + whole_value(values, added));
        price_ += model_.problem.devices[d].price * counts.back();
      }
    }
  }

  // Ensures the chosen cover of each entry. `columns`: by service and cover; empty where there is one cover only.
  void take_covers(const std::vector<double>& values, const std::vector<std::vector<int>>& columns) {
    for (std::size_t s = 0; s < entries_.size(); ++s) {
      entries_[s].chosen = entries_[s].covers[0];
      for (std::size_t c = 0; c < columns[s].size(); ++c) {
        if (whole_value(values, columns[s][c]) > 0) entries_[s].chosen = entries_[s].covers[c];
      }
    }
  }

  // Adds the slices of the cover to `need`, which is by kind.
  void add_need(std::size_t s, const Cover& cover, std::vector<int>& need) const {
    for (std::size_t o = 0; o < cover.size(); ++o) need[entries_[s].demand.offers[o].kind] += cover[o];
  }

  // Adds two columns for each cut: devices that are cut this way now, at a slightly lower cost, and further devices.
  std::vector<std::pair<int, int>> add_device(LinearProgram& program, std::size_t d, double most, double favour) const {
    const CoverDevice& device = model_.problem.devices[d];
    const int limit = device.count_max < 0 ? -1 : program.add_row(-kUnbounded, device.count_max);
    std::vector<std::pair<int, int>> columns;
    for (std::size_t c = 0; c < device.cuts.size(); ++c) {
      LinearProgram::Column column{.cost = device.price, .low = 0, .high = most, .integer = true, .entries = {}};
      for (std::size_t i = 0; i < device.kinds.size(); ++i) {
        const int n = device.cuts[c][i];
        if (n > 0) column.entries.push_back({static_cast<int>(device.kinds[i]), static_cast<double>(n)});
      }
      if (limit >= 0) column.entries.push_back({limit, 1});
      // The reward grows with the number of slices, because each may hold a replica that then need not move.
      LinearProgram::Column kept = column;
      kept.cost -= favour * std::accumulate(device.cuts[c].begin(), device.cuts[c].end(), 0);
      kept.high = static_cast<double>(by_cut_[d][c].size());
      const int first = program.add_column(std::move(kept));
      columns.emplace_back(first, program.add_column(std::move(column)));
    }
    return columns;
  }

  // Adds one column for each cover of service s, exactly one of which is chosen. Slices that the service has now are
  // slightly cheaper.
  std::vector<int> add_choice(LinearProgram& program, std::size_t s, double favour) const {
    const Entry& entry = entries_[s];
    const int row = program.add_row(1, 1);
    std::vector<int> columns;
    for (const auto& cover : entry.covers) {
      int kept = 0;
      for (std::size_t o = 0; o < cover.size() && entry.before; ++o) kept += std::min(cover[o], (*entry.before)[o]);
      LinearProgram::Column column{.cost = -favour * kept, .low = 0, .high = 1, .integer = true, .entries = {{row, 1}}};
      std::vector<int> need(model_.problem.kinds, 0);
      add_need(s, cover, need);
      for (std::size_t k = 0; k < need.size(); ++k) {
        if (need[k] > 0) column.entries.push_back({static_cast<int>(k), -static_cast<double>(need[k])});
      }
      columns.push_back(program.add_column(std::move(column)));
    }
    return columns;
  }

  // Places the chosen covers. Devices that keep their cut keep the replicas that are still wanted. Other replicas fill
  // free slices, first there and then on recut devices, which reuse the names of devices whose cut is gone.
  void lay_out_near() {
    for (std::size_t s = 0; s < entries_.size(); ++s) {
      for (const auto& group : groups_of(entries_[s], entries_[s].chosen)) {
        wanted_.push_back({group.device_type, group.mig_profile, group.replica, group.count});
      }
    }
    std::set<std::size_t> staying;
    std::vector<std::vector<int>> anew = cuts_;
    for (std::size_t d = 0; d < cuts_.size(); ++d) {
      for (std::size_t c = 0; c < cuts_[d].size(); ++c) {
        for (const std::size_t i : fullest_first(by_cut_[d][c])) {
          if (anew[d][c] == 0) break;
          --anew[d][c];
          staying.insert(i);
        }
      }
    }
    for (std::size_t i = 0; i < previous_.plan.devices.size(); ++i) {
      if (staying.contains(i)) plan_.devices.push_back(keep_wanted(previous_.plan.devices[i]));
    }
    cut_anew(anew, staying);
    fill_free_slices();
  }

  // Devices with most replicas first: when some have to go, the emptiest go.
  std::vector<std::size_t> fullest_first(std::vector<std::size_t> devices) const {
    std::ranges::stable_sort(devices, std::greater<>{}, [&](std::size_t i) {
      int replicas = 0;
      for (const auto& slice : previous_.plan.devices[i].slices) replicas += static_cast<int>(slice.replicas.size());
      return replicas;
    });
    return devices;
  }

  struct Wanted {
    std::string type;
    std::string mig_profile;
    Replica replica;
    int count = 0;
  };

  // A replica that still has to be placed and fits the slice; null if there is none. With `replica`, only that one.
  Wanted* find_wanted(const PlannedDevice& device, const Slice& slice, const Replica* replica) {
    const auto& name = device.geometry.profiles[slice.profile].name;
    for (auto& wanted : wanted_) {
      if (wanted.count > 0 && wanted.type == device.type && wanted.mig_profile == name &&
          (replica == nullptr || wanted.replica == *replica)) {
        return &wanted;
      }
    }
    return nullptr;
  }

  // Returns the device with the replicas that are still wanted, and counts each as placed. Other slices become free.
  PlannedDevice keep_wanted(PlannedDevice device) {
    for (auto& slice : device.slices) {
      Wanted* wanted = slice.replicas.size() == 1 ? find_wanted(device, slice.slice, slice.replicas.data()) : nullptr;
      if (wanted == nullptr) {
        slice.replicas.clear();
      } else {
        --wanted->count;
      }
    }
    return device;
  }

  // Adds empty devices for the cuts in `anew`. They take the names of devices that were not kept, then new names of
  // their group.
  void cut_anew(const std::vector<std::vector<int>>& anew, const std::set<std::size_t>& staying) {
    std::vector<const PlannedDevice*> gone;
    std::set<std::string> taken;
    for (std::size_t i = 0; i < previous_.plan.devices.size(); ++i) {
      taken.insert(previous_.plan.devices[i].name);
      if (!staying.contains(i)) gone.push_back(&previous_.plan.devices[i]);
    }
    for (std::size_t d = 0; d < anew.size(); ++d) {
      const DeviceGroup& group = problem_.fleet.groups[model_.groups[d]];
      std::vector<std::string> free;
      std::erase_if(gone, [&](const PlannedDevice* device) {
        if (!is_of(*device, model_.groups[d])) return false;
        free.push_back(device->name);
        return true;
      });
      for (std::size_t c = 0; c < anew[d].size(); ++c) {
        for (int n = 0; n < anew[d][c]; ++n) {
          std::string name;
          if (!free.empty()) {
            name = free.front();
            free.erase(free.begin());
            ++devices_recut_;
          } else {
            for (int number = 0; name.empty() || taken.contains(name); ++number) name = device_name(group, number);
            taken.insert(name);
          }
          plan_.devices.push_back(cut_device(d, c, std::move(name)));
        }
      }
    }
  }

  // An empty device of the model's type d with its cut c.
  PlannedDevice cut_device(std::size_t d, std::size_t c, std::string name) const {
    const CoverDevice& device = model_.problem.devices[d];
    const std::size_t group = model_.groups[d];
    PlannedDevice planned{std::move(name), problem_.fleet.groups[group].type, stock_.geometries[group], {}};
    Multiset multiset(planned.geometry.profiles.size(), 0);
    for (std::size_t i = 0; i < device.kinds.size(); ++i) {
      multiset[stock_.kinds[device.kinds[i]].profile] = static_cast<std::uint16_t>(device.cuts[c][i]);
    }
    const auto layout = realise(planned.geometry, multiset);
    TANGRAM_CHECK(layout.has_value(), "a cut of the table can be made");
    for (const Slice& slice : layout->slices) planned.slices.push_back({slice, {}});
    return planned;
  }

  // Requires every device in plan_. Ensures that every wanted replica is placed. A replica counts as moved only if its
  // service did not change: a changed service has to load replicas anyway.
  void fill_free_slices() {
    std::set<std::string> changed;
    for (const auto& entry : entries_) {
      if (entry.changed) changed.insert(problem_.workload.services[entry.demand.service].name);
    }
    for (auto& device : plan_.devices) {
      for (auto& slice : device.slices) {
        if (!slice.replicas.empty()) continue;
        Wanted* wanted = find_wanted(device, slice.slice, nullptr);
        if (wanted == nullptr) continue;
        slice.replicas.push_back(wanted->replica);
        --wanted->count;
        ++replicas_loaded_;
        replicas_moved_ += changed.contains(wanted->replica.service) ? 0 : 1;
      }
    }
    for (const auto& wanted : wanted_) TANGRAM_CHECK(wanted.count == 0, "the cuts hold every slice that is needed");
  }

  // Requires lay_out_near(). Returns nullopt if a changed service fails its confirmation.
  std::optional<Replanned> answer() {
    Replanned result;
    PlanAnswer& answer = result.answer;
    answer.status = PlanStatus::planned;
    answer.plan = std::move(plan_);
    answer.devices = static_cast<int>(answer.plan.devices.size());
    answer.price = price_;
    answer.bound = std::min(whole_.bound, price_);
    answer.proved = price_ <= answer.bound + detail::kBoundTolerance;
    for (std::size_t s = 0; s < entries_.size(); ++s) {
      const Entry& entry = entries_[s];
      ServicePlan plan;
      plan.service = problem_.workload.services[entry.demand.service].name;
      plan.edges = entry.demand.edges;
      plan.rate_per_s = std::accumulate(entry.demand.rate_per_s.begin(), entry.demand.rate_per_s.end(), 0.0);
      plan.load_factor = cover_load_factor(cover_service(entry.demand), entry.chosen);
      plan.groups = groups_of(entry, entry.chosen);
      if (s < whole_.service_price.size()) plan.price = whole_.service_price[s];
      if (!entry.changed) plan.verdict = entry.plan->verdict;
      if (certified() && entry.changed) {
        Verdict verdict;
        // A cover that fails its confirmation would need another search; the plan from scratch has one.
        if (!certify(entry, entry.chosen, true, &verdict)) return std::nullopt;
        plan.verdict = verdict;
      }
      answer.services.push_back(std::move(plan));
      if (entry.changed) result.changed.push_back(answer.services.back().service);
    }
    answer.certifications = certifications_;
    result.from_scratch = from_scratch_;
    result.replicas_moved = replicas_moved_;
    result.replicas_loaded = replicas_loaded_;
    result.devices_recut = devices_recut_;
    result.scratch_price = whole_.price;
    return result;
  }

  const Problem& problem_;
  const PlanAnswer& previous_;
  const ReplanOptions& options_;
  Stock stock_;
  std::vector<Entry> entries_;  // By service of the problem.
  CoverModel model_;
  CoverAnswer whole_;                                          // The search from scratch, to compare with.
  std::vector<std::vector<std::vector<std::size_t>>> by_cut_;  // By device of the model and cut: devices of today.
  std::vector<std::vector<int>> cuts_;  // By device of the model: how many of each cut are chosen.
  double price_ = 0;                    // Of cuts_.
  bool from_scratch_ = false;
  std::vector<Wanted> wanted_;  // Replicas that are still to be placed.
  Plan plan_;
  int replicas_moved_ = 0;
  int replicas_loaded_ = 0;
  int devices_recut_ = 0;
  std::int64_t certifications_ = 0;
};

// ---- Plans with shared slices ----

// The rates of the problem as limits on the shared slices of a plan.
void renew_rate_limits(const Problem& problem, PlanAnswer& answer) {
  const auto renew = [&](Replica& replica) {
    const auto service = std::ranges::find(problem.workload.services, replica.service, &Service::name);
    if (service == problem.workload.services.end()) return;
    if (replica.rate_max_per_s) replica.rate_max_per_s = problem.options.demand_factor * neighbour_rate_per_s(*service);
  };
  for (auto& device : answer.plan.devices) {
    for (auto& slice : device.slices) std::ranges::for_each(slice.replicas, renew);
  }
  for (auto& service : answer.services) {
    for (auto& group : service.groups) renew(group.replica);
  }
}

// The running plan for the new rates, if it keeps every promise: no replica moves, and only limits of rates change.
std::optional<PlanAnswer> keep_plan(const Problem& problem, const PlanAnswer& previous) {
  const auto& services = problem.workload.services;
  if (previous.status != PlanStatus::planned || previous.services.size() != services.size()) return std::nullopt;
  for (std::size_t s = 0; s < services.size(); ++s) {
    const ServicePlan& before = previous.services[s];
    if (before.service != services[s].name || before.edges.empty()) return std::nullopt;
    if (before.edges.back() < largest_size(services[s])) return std::nullopt;
  }
  PlanAnswer kept = previous;
  const detail::SetCheck check(problem, kept);
  for (const auto& set : shared_sets(kept.plan)) {
    const double factor = check.load_factor(set);
    if (factor < 1 - detail::kSumTolerance) return std::nullopt;
    for (auto& service : kept.services) {
      if (std::ranges::find(set.services, service.service) != set.services.end()) service.load_factor = factor;
    }
  }
  if (check.certifies() && !check.certify_all(kept.plan, kept).empty()) return std::nullopt;
  kept.certifications = check.asked();
  kept.price = plan_price(problem, kept.plan);
  for (std::size_t s = 0; s < services.size(); ++s) {
    kept.services[s].rate_per_s = planning_rate_per_s(services[s]) * samples_mean(services[s]);
  }
  renew_rate_limits(problem, kept);
  return kept;
}

// Which services share is decided for all of them at once, so the choice is between the running plan, as it is, and a
// plan from scratch. A service whose rate rose on a slice with room does not move anybody.
Replanned replan_shared(const Problem& problem, const PlanAnswer& previous, const ReplanOptions& options,
                        PlanAnswer scratch) {
  Replanned result;
  result.scratch_price = scratch.price;
  if (auto kept = keep_plan(problem, previous)) {
    const bool planned = scratch.status == PlanStatus::planned;
    if (!planned || kept->price <= scratch.price + options.worse_max * scratch.bound + detail::kSumTolerance) {
      kept->bound = planned ? std::min(scratch.bound, kept->price) : 0;
      kept->proved = planned && kept->price <= kept->bound + detail::kBoundTolerance;
      kept->with_sharing = planned && scratch.with_sharing;
      kept->price_alone = scratch.price_alone;
      kept->binds = scratch.binds;
      kept->notes = scratch.notes;
      kept->certifications += scratch.certifications;
      result.answer = std::move(*kept);
      return result;
    }
  }
  result.from_scratch = true;
  result.answer = std::move(scratch);
  return result;
}

}  // namespace

PlanAnswer as_running(const Problem& problem, const Plan& plan) {
  PlanAnswer answer;
  answer.status = PlanStatus::planned;
  answer.plan = plan;
  answer.devices = static_cast<int>(plan.devices.size());
  answer.price = plan_price(problem, plan);
  for (const auto& set : shared_sets(plan)) {
    for (const auto& name : set.services) {
      const auto service = std::ranges::find(problem.workload.services, name, &Service::name);
      if (service == problem.workload.services.end()) continue;
      ServicePlan running;
      running.service = name;
      running.groups = groups_in(set, name);
      std::set<std::int64_t> edges;
      for (const auto& group : running.groups) {
        for (const auto& bucket : group.replica.buckets) edges.insert(bucket.size_max);
      }
      running.edges.assign(edges.begin(), edges.end());
      // What it was planned for is not in the file. Whether its slices carry the rate of today is checked with them.
      running.rate_per_s = planning_rate_per_s(*service) * samples_mean(*service) * problem.options.demand_factor;
      for (const auto& other : set.services) {
        if (other != name) running.shares_with.push_back(other);
      }
      answer.services.push_back(std::move(running));
    }
  }
  // In the order of the workload, like every answer.
  std::ranges::stable_sort(answer.services, {}, [&](const ServicePlan& running) {
    return std::ranges::find(problem.workload.services, running.service, &Service::name) -
           problem.workload.services.begin();
  });
  if (problem.options.rule != Rule::certified || problem.certifier == nullptr) return answer;
  // A service may have grown beyond the limit that protected its neighbours from it. They are judged with what it sends
  // today, so the limit follows.
  renew_rate_limits(problem, answer);
  const CertifiedPlan certified = certify_plan(problem, answer.plan, *problem.certifier);
  for (const auto& service : certified.services) {
    const auto found = std::ranges::find(answer.services, service.service, &ServicePlan::service);
    if (found != answer.services.end()) found->verdict = service.verdict;
  }
  std::erase_if(answer.services, [](const ServicePlan& s) { return !s.verdict || !s.verdict->holds; });
  return answer;
}

Replanned replan(const Problem& problem, const PlanAnswer& previous, const ReplanOptions& options) {
  // Spare devices and headroom change all services at once, so there is no plan close by to look for. Devices of one
  // type with and without slices that others use are not alike, and the search close by takes them for alike.
  const bool reserved = std::ranges::any_of(problem.fleet.groups,
                                            [](const DeviceGroup& group) { return !group.reserved.slices.empty(); });
  const bool plain =
      problem.options.objective != Objective::headroom && problem.fleet.spare == SparePolicy::none && !reserved;
  const bool shares = problem.options.sharing != Sharing::none;
  if (plain && shares) {
    PlanAnswer scratch = find_planner("elastic")->make()->plan(problem);
    if (detail::has_shared_slices(previous.plan) || detail::has_shared_slices(scratch.plan)) {
      return replan_shared(problem, previous, options, std::move(scratch));
    }
  }
  if (plain) {
    if (auto near = Replan(problem, previous, options).run()) return *near;
  }
  Replanned result;
  result.from_scratch = true;
  result.answer = find_planner("elastic")->make()->plan(problem);
  result.scratch_price = result.answer.price;
  return result;
}

}  // namespace tangram::plan
