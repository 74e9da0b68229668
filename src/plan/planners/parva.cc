// ParvaGPU (Lee et al., SC 2024), as a baseline. For each service it chooses the batch, processes and slice with the
// most throughput per compute slice, uses as many of them as the rate needs and one smaller slice for the rest.
// Segments are placed in descending size on the fullest device that still has a place. Devices with few compute slices
// in use are then emptied into the holes of others, in slices of one and two.
//
// The paper's limits are kept, so that the comparison is fair: one type of device, one bucket (every input is padded
// to the longest), and no search over combinations. It gives no bound.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "plan/compose.h"
#include "plan/detail/tolerance.h"
#include "plan/objective.h"

namespace tangram::plan {
namespace {

// One slice that a service needs, with the offer that it runs.
struct Segment {
  std::size_t demand = 0;
  std::size_t offer = 0;
  bool placed = false;
};

// For one service: the best offer for each size of slice.
using BySize = std::map<int, std::size_t>;  // Compute slices to offer.

class Parva final : public Planner {
 public:
  PlanAnswer plan(const Problem& asked) const override {
    Problem problem = asked;
    // Parva plans without simulation, so a certified problem is planned under its own rule.
    problem.options.rule = asked.options.rule == Rule::certified ? Rule::half : asked.options.rule;
    problem.options.bucketing = Bucketing::longest;
    return plan_for_objective(problem, plan_once);
  }

 private:
  static PlanAnswer plan_once(const Problem& problem) {
    Stock stock = take_stock(problem);
    std::erase_if(stock.kinds, [](const SliceKind& kind) { return kind.group != 0; });  // It knows one type of device.
    if (stock.kinds.empty()) return plan_by_cover(problem, stock);
    Build build{problem, stock, {}, {}, {}};
    for (std::size_t s = 0; s < problem.workload.services.size(); ++s) {
      std::int64_t longest = size_shares(problem.workload.services[s]).back().size;
      build.demands.push_back(make_demand(problem, stock, s, {longest}));
      if (build.demands.back().offers.empty()) {
        PlanAnswer none;
        none.service = problem.workload.services[s].name;
        none.reason = why_unservable(problem, stock, build.demands.back());
        return none;
      }
      build.segment(s);
    }
    build.place_all();
    build.optimise();
    // The paper assumes as many devices as are needed, so the limit is only checked at the end.
    const int count = problem.fleet.groups[0].count.value_or(-1);
    if (count < 0 || static_cast<int>(build.devices.size()) <= count) return build.answer();
    PlanAnswer none;
    none.reason =
        fmt::format("the fleet has {} of {}, but this planner needs {}; add {}, or lower the rates", count,
                    problem.fleet.groups[0].type, build.devices.size(), static_cast<int>(build.devices.size()) - count);
    return none;
  }

  // The order in which starts are tried, in memory units. On ParvaGPU's board, a GPU with seven compute slices, these
  // are its places and no others: 3g starts at 4 alone, which leaves 0 to 3 for a 4g or for small slices. Other boards
  // have places that its board lacks, and beside slices that others use its places may be taken: there a profile's
  // other starts follow.
  static std::vector<int> places(const Geometry& geometry, const MigProfile& profile, bool reserved) {
    std::vector<int> starts{0};
    if (profile.compute_slices == 3) starts = {4};
    if (profile.compute_slices == 2) starts = {0, 4, 2};
    if (profile.compute_slices == 1) starts = {0, 6, 4, 1, 2, 3, 5};
    const bool its_board = geometry.compute_slices == 7 && geometry.units_per_core == 0;
    if (!its_board || reserved) starts.insert(starts.end(), profile.starts.begin(), profile.starts.end());
    return starts;
  }

  // The state of one planning run. A value, because empty_out() restores a copy when it fails.
  struct Build {
    const Problem& problem;
    const Stock& stock;
    std::vector<Demand> demands;
    std::vector<Segment> segments;
    struct Device {
      Layout layout;
      std::vector<std::size_t> held;  // By slice of the layout.
    };
    std::vector<Device> devices;

    int size_of(std::size_t segment) const {
      const Segment& s = segments[segment];
      return stock.profile(demands[s.demand].offers[s.offer].kind).compute_slices;
    }

    // Ensures at most one offer for each size: the one with the highest rate.
    BySize best_by_size(std::size_t d) const {
      BySize best;
      for (std::size_t o = 0; o < demands[d].offers.size(); ++o) {
        const auto& offer = demands[d].offers[o];
        const auto [it, fresh] = best.try_emplace(stock.profile(offer.kind).compute_slices, o);
        if (!fresh && demands[d].offers[it->second].rate_per_s[0] < offer.rate_per_s[0]) it->second = o;
      }
      return best;
    }

    // Uses as many of the most efficient size as fit below the rate, and the smallest size that covers the rest.
    void segment(std::size_t d) {
      const BySize best = best_by_size(d);
      const auto rate = [&](std::size_t o) { return demands[d].offers[o].rate_per_s[0]; };
      auto efficient = best.begin();
      for (auto it = best.begin(); it != best.end(); ++it) {
        if (rate(it->second) / it->first > rate(efficient->second) / efficient->first) efficient = it;
      }
      const double each = rate(efficient->second);
      double left = demands[d].rate_per_s[0];
      while (left > each) {
        segments.push_back({d, efficient->second, false});
        left -= each;
      }
      for (const auto& [size, offer] : best) {
        if (rate(offer) < left) continue;
        segments.push_back({d, offer, false});
        return;
      }
      segments.push_back({d, efficient->second, false});
    }

    const Geometry& geometry() const { return stock.geometries[0]; }

    // Adds the segment to the first start that is free on the device; false if there is none. Slices are appended, not
    // sorted: `held` has the same order, and answer() sorts them.
    bool try_place(std::size_t segment, Device& device) {
      const auto& offer = demands[segments[segment].demand].offers[segments[segment].offer];
      const std::size_t profile = stock.kinds[offer.kind].profile;
      const Layout& reserved = problem.fleet.groups[0].reserved;
      for (const int start : places(geometry(), geometry().profiles[profile], !reserved.slices.empty())) {
        const Slice slice{static_cast<std::uint16_t>(profile), static_cast<std::uint16_t>(start)};
        // What others use is taken on every device.
        Layout taken = device.layout;
        taken.slices.insert(taken.slices.end(), reserved.slices.begin(), reserved.slices.end());
        if (!fits(geometry(), taken, slice)) continue;
        device.layout.slices.push_back(slice);
        device.held.push_back(segment);
        return true;
      }
      return false;
    }

    int used(const Device& device) const { return compute_slices_used(geometry(), device.layout); }

    // Best fit: the fullest device that has a place, otherwise a new one.
    void place(std::size_t segment) {
      std::vector<std::size_t> order(devices.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::ranges::stable_sort(order,
                               [&](std::size_t a, std::size_t b) { return used(devices[a]) > used(devices[b]); });
      for (const std::size_t d : order) {
        if (try_place(segment, devices[d])) return;
      }
      devices.emplace_back();
      const bool placed = try_place(segment, devices.back());
      TANGRAM_CHECK(placed, "every slice fits on an empty device");
    }

    // Large slices first, as in best-fit decreasing: small ones fill the holes that remain.
    void place_all() {
      std::vector<std::size_t> order(segments.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return size_of(a) > size_of(b); });
      for (const std::size_t segment : order) place(segment);
    }

    // Replaces a segment by slices of one and two that together carry as much; nullopt if the service runs on neither.
    std::optional<std::vector<std::size_t>> split(std::size_t segment) {
      const Segment whole = segments[segment];
      const BySize best = best_by_size(whole.demand);
      double left = demands[whole.demand].offers[whole.offer].rate_per_s[0];
      // Only what the service still needs from it: other segments may carry more than their share.
      double others = 0;
      for (std::size_t i = 0; i < segments.size(); ++i) {
        if (i != segment && segments[i].demand == whole.demand && !segments[i].placed) {
          others += demands[whole.demand].offers[segments[i].offer].rate_per_s[0];
        }
      }
      left = std::min(left, demands[whole.demand].rate_per_s[0] - others);
      std::vector<std::size_t> parts;
      while (left > detail::kSumTolerance) {
        const auto one = best.find(1);
        const auto two = best.find(2);
        const auto rate = [&](BySize::const_iterator it) {
          return it == best.end() ? 0.0 : demands[whole.demand].offers[it->second].rate_per_s[0];
        };
        if (one == best.end() && two == best.end()) return std::nullopt;
        // One slice of size one if it is enough for the rest; otherwise two, which uses fewer slices.
        const bool small = rate(one) >= left || two == best.end();
        parts.push_back(small ? one->second : two->second);
        left -= small ? rate(one) : rate(two);
      }
      return parts;
    }

    // Empties devices that use at most four compute slices, the emptiest first, where the others have room. Each
    // success removes a device, so the loop ends.
    void optimise() {
      for (bool moved = true; moved && devices.size() > 1;) {
        moved = false;
        std::vector<std::size_t> order(devices.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::ranges::stable_sort(order,
                                 [&](std::size_t a, std::size_t b) { return used(devices[a]) < used(devices[b]); });
        for (const std::size_t d : order) {
          if (used(devices[d]) > 4) break;
          if (!empty_out(d)) continue;
          moved = true;
          break;
        }
      }
    }

    // Moves everything from one device to the others, or changes nothing. True if it succeeded.
    bool empty_out(std::size_t from) {
      const Build before = *this;
      const Device gone = devices[from];
      devices.erase(devices.begin() + static_cast<std::ptrdiff_t>(from));
      for (const std::size_t segment : gone.held) {
        const auto parts = split(segment);
        if (!parts) return restore(before);
        segments[segment].placed = true;  // It is replaced by its parts.
        for (const std::size_t offer : *parts) {
          segments.push_back({segments[segment].demand, offer, false});
          if (!place_in_holes(segments.size() - 1)) return restore(before);
        }
      }
      return true;
    }

    // Like place(), but never opens a new device.
    bool place_in_holes(std::size_t segment) {
      std::vector<std::size_t> order(devices.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::ranges::stable_sort(order,
                               [&](std::size_t a, std::size_t b) { return used(devices[a]) > used(devices[b]); });
      for (const std::size_t d : order) {
        if (try_place(segment, devices[d])) return true;
      }
      return false;
    }

    bool restore(const Build& before) {
      segments = before.segments;
      devices = before.devices;
      return false;
    }

    PlanAnswer answer() const {
      PlanAnswer answer;
      answer.status = PlanStatus::planned;
      // By service and offer: how many slices run it.
      std::vector<std::map<std::size_t, int>> counts(demands.size());
      const DeviceGroup& group = problem.fleet.groups[0];
      for (std::size_t d = 0; d < devices.size(); ++d) {
        PlannedDevice planned{device_name(group, static_cast<int>(d)), group.type, geometry(), {}};
        for (std::size_t i = 0; i < devices[d].held.size(); ++i) {
          const Segment& segment = segments[devices[d].held[i]];
          const auto& demand = demands[segment.demand];
          ++counts[segment.demand][segment.offer];
          planned.slices.push_back({devices[d].layout.slices[i],
                                    {replica_group(problem, stock, demand, demand.offers[segment.offer], 1).replica}});
        }
        add_reserved(group, planned);  // And sorts.
        answer.plan.devices.push_back(std::move(planned));
      }
      for (std::size_t s = 0; s < demands.size(); ++s) {
        ServicePlan service;
        service.service = problem.workload.services[s].name;
        service.edges = demands[s].edges;
        service.rate_per_s = demands[s].rate_per_s[0];
        for (const auto& [offer, count] : counts[s]) {
          service.groups.push_back(replica_group(problem, stock, demands[s], demands[s].offers[offer], count));
          service.load_factor += count * demands[s].offers[offer].rate_per_s[0] / service.rate_per_s;
        }
        answer.services.push_back(std::move(service));
      }
      answer.devices = static_cast<int>(devices.size());
      answer.price = answer.devices * (problem.options.objective == Objective::price ? group.price_per_hour : 1);
      return answer;
    }
  };
};

}  // namespace

std::unique_ptr<Planner> make_parva() { return std::make_unique<Parva>(); }

}  // namespace tangram::plan
