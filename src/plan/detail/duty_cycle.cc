// Sessions, their run times and their slices; then the plan of a packing, certified where the rule asks for it.

#include "plan/detail/duty_cycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>
#include <set>

#include "base/check.h"
#include "plan/detail/no_plan.h"
#include "plan/detail/tolerance.h"
#include "plan/objective.h"

namespace tangram::plan::detail {
namespace {

// A session whose promise does not hold may use this much of the time that it used before.
constexpr double kFillStep = 0.85;
// Below this share of a slice's time a session is given up.
constexpr double kFillLeast = 0.02;
constexpr int kRoundsMax = 60;

bool memory_known(const Problem& problem, const Stock& stock, const Service& service) {
  return std::ranges::all_of(std::views::iota(std::size_t{0}, stock.kinds.size()), [&](std::size_t kind) {
    return stock.profile(kind).memory_gib.evidence != Evidence::unknown &&
           problem.latency->weights_mib(stock.type(kind), stock.profile(kind).name, service.model).has_value();
  });
}

}  // namespace

CycleBoard::CycleBoard(const Problem& problem) : problem_(problem), stock_(take_stock(problem)) {
  std::erase_if(stock_.kinds, [](const SliceKind& kind) { return kind.group != 0; });
  kinds_.resize(stock_.kinds.size());
  std::iota(kinds_.begin(), kinds_.end(), std::size_t{0});
  std::ranges::stable_sort(kinds_, {}, [&](std::size_t kind) {
    return std::pair(compute_slices(kind), stock_.profile(kind).memory_gib.value);
  });
  make_sessions();
}

void CycleBoard::make_sessions() {
  const auto& services = problem_.workload.services;
  for (std::size_t s = 0; s < services.size(); ++s) {
    const std::int64_t longest = size_shares(services[s]).back().size;
    const Demand demand = make_demand(problem_, stock_, s, {longest});
    if (demand.offers.empty() && !unservable_) {
      unservable_ = no_plan(services[s].name, why_unservable(problem_, stock_, demand));
    }
    const bool shares = services[s].isolation != Isolation::own_slices && !services[s].job && !services[s].size_drift &&
                        memory_known(problem_, stock_, services[s]);
    const auto same =
        std::ranges::find_if(sessions_, [&](const Session& session) { return shares && joins(session, services[s]); });
    if (same == sessions_.end()) {
      sessions_.push_back(
          {{s}, demand.rate_per_s[0], to_seconds(services[s].slo.latency), longest, stock_.samples_most[s], shares});
      continue;
    }
    same->services.push_back(s);
    same->rate_per_s += demand.rate_per_s[0];
    same->size = std::max(same->size, longest);
    same->batch_least = std::max(same->batch_least, stock_.samples_most[s]);
  }
  for (const auto& session : sessions_) {
    std::vector<std::int64_t> batches = problem_.options.batches;
    for (std::int64_t b = 1; b <= 256 && problem_.options.batches.empty(); b *= 2) batches.push_back(b);
    std::erase_if(batches, [&](std::int64_t b) { return b < session.batch_least; });
    const bool missing = batches.empty() || batches.front() > session.batch_least;
    if (problem_.options.batches.empty() && missing) batches.insert(batches.begin(), session.batch_least);
    batches_.push_back(std::move(batches));
  }
  runs_.assign(sessions_.size(), std::vector<std::map<std::int64_t, std::optional<TurnRun>>>(stock_.kinds.size()));
}

// Nexus' session: the same network and the same promise.
bool CycleBoard::joins(const Session& session, const Service& service) const {
  const Service& first = problem_.workload.services[session.services[0]];
  return session.may_share && same_weights(first, service) && may_share_slices(first, service) &&
         first.slo == service.slo && first.padding == service.padding;
}

std::optional<TurnRun> CycleBoard::run(std::size_t session, std::size_t kind, std::int64_t batch) {
  auto& known = runs_[session][kind];
  const auto found = known.find(batch);
  if (found != known.end()) return found->second;
  const auto predicted = predict_with_headroom(
      problem_, stock_.profile(kind),
      {stock_.type(kind), stock_.profile(kind).name, service_of(session).model, batch, sessions_[session].size, 1});
  std::optional<TurnRun> run;
  if (predicted) {
    const bool half = problem_.options.rule == Rule::half;
    run = TurnRun{to_seconds(predicted->mean), to_seconds(half ? predicted->mean : predicted->p99),
                  predicted->memory_mib};
    if (run->slow_s >= (half ? 0.45 : 1) * sessions_[session].slo_s) run.reset();
  }
  return known.emplace(batch, run).first->second;
}

BatchChoice CycleBoard::saturated(std::size_t session, std::size_t kind) {
  BatchChoice best;
  const double fill_most = sessions_[session].fill_most;
  for (const std::int64_t batch : batches(session)) {
    const auto takes = run(session, kind, batch);
    const double share = best.batch > 0 ? std::min(0.5, fill_most) : fill_most;
    if (!takes || takes->slow_s > share * sessions_[session].slo_s) break;
    const double rate = fill_most * static_cast<double>(batch) / takes->mean_s;
    if (rate > best.rate_per_s) best = {batch, rate};
  }
  return best;
}

std::optional<CycleSlice> CycleBoard::alone(std::size_t session, std::size_t kind, double rate_per_s) {
  const Session& asked = sessions_[session];
  std::int64_t largest = 0;
  double cycle_s = 0;
  for (const std::int64_t batch : batches(session)) {
    const auto takes = run(session, kind, batch);
    if (!takes) break;
    const double gathers_s = static_cast<double>(batch) / rate_per_s;
    const double left_s = asked.slo_s - takes->slow_s;
    if (largest > 0 && gathers_s > left_s) break;
    largest = batch;
    cycle_s = std::min(gathers_s, left_s);
  }
  if (largest == 0 || cycle_s <= 0) return std::nullopt;
  return with_cycle(kind, {{session, rate_per_s, largest}}, cycle_s);
}

std::optional<CycleSlice> CycleBoard::with_cycle(std::size_t kind, std::vector<Turn> turns, double cycle_s) {
  CycleSlice slice{kind, cycle_s, std::move(turns), 0};
  double fill_most = 1;
  double busy_s = 0;
  for (auto& turn : slice.turns) {
    const Session& session = sessions_[turn.session];
    const double arrives = turn.rate_per_s * cycle_s;
    turn.batch = std::max(session.batch_least, static_cast<std::int64_t>(std::ceil(arrives * (1 - kSumTolerance))));
    const auto takes = run(turn.session, kind, turn.batch);
    if (!takes) return std::nullopt;
    busy_s += takes->mean_s;
    fill_most = std::min(fill_most, session.fill_most);
  }
  slice.occupancy = busy_s / cycle_s;
  if (slice.occupancy > fill_most * (1 + kSumTolerance)) return std::nullopt;
  return slice;
}

bool CycleBoard::fit_together(std::size_t kind, const std::vector<Turn>& turns) {
  const MigProfile& profile = stock_.profile(kind);
  const double room_mib = 1024 * profile.memory_gib.value * (1 - problem_.options.memory_headroom);
  double weights_mib = 0;
  double working_mib = 0;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const Service& service = service_of(turns[i].session);
    if (turns.size() > 1 && !sessions_[turns[i].session].may_share) return false;
    bool copy = false;
    for (std::size_t j = 0; j < i; ++j) {
      const Service& other = service_of(turns[j].session);
      if (!may_share_slices(service, other)) return false;
      copy = copy || same_weights(service, other);
    }
    const auto own = problem_.latency->weights_mib(stock_.type(kind), profile.name, service.model);
    const auto takes = run(turns[i].session, kind, turns[i].batch);
    if (!own || !takes) return turns.size() == 1;
    if (!copy) weights_mib += *own;
    if (takes->memory_mib) working_mib = std::max(working_mib, *takes->memory_mib - *own);
  }
  return weights_mib + working_mib <= room_mib;
}

namespace {

// A packing, laid out.
struct Laid {
  std::vector<CycleSlice> slices;
  SliceReplicas wanted;
  std::vector<std::vector<int>> cuts;
  double price = 0;
};

std::vector<Replica> replicas_on(CycleBoard& board, const CycleSlice& slice) {
  std::vector<Replica> replicas;
  const Problem& problem = board.problem();
  for (const auto& turn : slice.turns) {
    const Session& session = board.sessions()[turn.session];
    for (const std::size_t s : session.services) {
      replicas.push_back({.service = problem.workload.services[s].name, .buckets = {{session.size, turn.batch}}});
    }
  }
  if (replicas.size() < 2) return replicas;
  for (auto& replica : replicas) {
    const auto service = std::ranges::find(problem.workload.services, replica.service, &Service::name);
    if (std::holds_alternative<ClosedLoopTraffic>(service->traffic)) continue;
    replica.rate_max_per_s = problem.options.demand_factor * busiest_rate_per_s(*service);
  }
  return replicas;
}

// Nothing if the fleet has too few devices.
std::optional<Laid> lay(CycleBoard& board, const CoverModel& model, std::vector<CycleSlice> slices) {
  Laid laid{std::move(slices), SliceReplicas(board.stock().kinds.size()), {}, 0};
  std::vector<int> need(board.stock().kinds.size(), 0);
  for (const auto& slice : laid.slices) {
    laid.wanted[slice.kind].push_back(replicas_on(board, slice));
    ++need[slice.kind];
  }
  laid.cuts = pack(model.problem, need, &laid.price);
  if (laid.cuts.empty()) return std::nullopt;
  return laid;
}

// Sessions that meet on slices, each set with all slices of its sessions.
std::vector<std::set<std::size_t>> meeting(const std::vector<CycleSlice>& slices, std::size_t sessions) {
  std::vector<std::size_t> first(sessions);
  std::iota(first.begin(), first.end(), std::size_t{0});
  const std::function<std::size_t(std::size_t)> root = [&](std::size_t s) {
    return first[s] == s ? s : root(first[s]);
  };
  for (const auto& slice : slices) {
    for (const auto& turn : slice.turns) first[root(turn.session)] = root(slice.turns[0].session);
  }
  std::map<std::size_t, std::set<std::size_t>> sets;
  for (std::size_t s = 0; s < sessions; ++s) sets[root(s)].insert(s);
  std::vector<std::set<std::size_t>> list;
  for (auto& [id, set] : sets) list.push_back(std::move(set));
  return list;
}

std::vector<SharedGroup> groups_of(CycleBoard& board, const std::vector<CycleSlice>& slices,
                                   const std::set<std::size_t>& sessions) {
  std::vector<SharedGroup> groups;
  for (const auto& slice : slices) {
    if (!sessions.contains(slice.turns[0].session)) continue;
    const MigProfile& profile = board.stock().profile(slice.kind);
    SharedGroup group{board.stock().type(slice.kind), profile.name, profile.compute_slices, replicas_on(board, slice),
                      1};
    const auto same = std::ranges::find_if(groups, [&](const SharedGroup& other) {
      return other.mig_profile == group.mig_profile && other.replicas == group.replicas;
    });
    if (same == groups.end()) {
      groups.push_back(std::move(group));
    } else {
      ++same->count;
    }
  }
  return groups;
}

Verdict certify_one(const Problem& problem, const Service& service, const std::vector<SharedGroup>& shared,
                    bool confirm) {
  if (service.job)
    return {.holds = true, .attainment = 1, .attainment_low = 1, .attainment_high = 1, .view = "long run"};
  std::vector<ReplicaGroup> groups;
  for (const auto& group : shared) {
    groups.push_back({group.device_type, group.mig_profile, group.compute_slices, group.replicas[0], group.count});
  }
  if (!service.size_drift) return problem.certifier->certify(service, groups, confirm);
  const Verdict before = problem.certifier->certify(before_drift(service), groups, confirm);
  return before.holds ? problem.certifier->certify(after_drift(service), groups, confirm) : before;
}

// A verdict for each service of the workload.
std::vector<Verdict> certify(CycleBoard& board, const std::vector<CycleSlice>& slices, bool confirm,
                             std::int64_t& asked) {
  const Problem& problem = board.problem();
  std::vector<Verdict> verdicts(problem.workload.services.size());
  for (const auto& sessions : meeting(slices, board.sessions().size())) {
    const auto groups = groups_of(board, slices, sessions);
    std::vector<std::size_t> members;
    std::vector<Service> services;
    for (const std::size_t session : sessions) {
      for (const std::size_t s : board.sessions()[session].services) {
        members.push_back(s);
        services.push_back(problem.workload.services[s]);
      }
    }
    ++asked;
    if (services.size() == 1) {
      verdicts[members[0]] = certify_one(problem, services[0], groups, confirm);
      continue;
    }
    const auto together = problem.certifier->certify_together(services, groups, confirm);
    for (std::size_t i = 0; i < members.size(); ++i) verdicts[members[i]] = together[i];
  }
  return verdicts;
}

// Sessions with a promise that does not hold. A look ends with the first broken promise and leaves others open, so
// only those below their percentile count if there are any.
std::vector<std::size_t> broken(CycleBoard& board, const std::vector<Verdict>& verdicts) {
  std::vector<std::size_t> below;
  std::vector<std::size_t> open;
  for (std::size_t s = 0; s < board.sessions().size(); ++s) {
    bool lost = false;
    bool unsure = false;
    for (const std::size_t service : board.sessions()[s].services) {
      const double target = board.problem().workload.services[service].slo.percentile / 100;
      unsure = unsure || !verdicts[service].holds;
      lost = lost || (!verdicts[service].holds && verdicts[service].attainment < target);
    }
    if (lost) below.push_back(s);
    if (unsure) open.push_back(s);
  }
  return below.empty() ? open : below;
}

void describe(CycleBoard& board, const Laid& laid, const std::vector<Verdict>& verdicts, PlanAnswer& answer) {
  const Problem& problem = board.problem();
  const auto sets = meeting(laid.slices, board.sessions().size());
  answer.services.resize(problem.workload.services.size());
  for (const auto& sessions : sets) {
    const auto groups = groups_of(board, laid.slices, sessions);
    for (const std::size_t id : sessions) {
      const Session& session = board.sessions()[id];
      // What its slices could run if all of their sessions grew alike.
      double capacity = 0;
      for (const auto& slice : laid.slices) {
        for (const auto& turn : slice.turns) {
          if (turn.session == id) capacity += turn.rate_per_s / std::max(slice.occupancy, kRateMin);
        }
      }
      for (const std::size_t s : session.services) {
        const Service& service = problem.workload.services[s];
        ServicePlan& plan = answer.services[s];
        plan.service = service.name;
        plan.edges = {session.size};
        plan.rate_per_s = planning_rate_per_s(service) * samples_mean(service) * problem.options.demand_factor;
        plan.load_factor = capacity / std::max(session.rate_per_s, kRateMin);
        std::set<std::string> others;
        for (const auto& group : groups) {
          const auto own = std::ranges::find(group.replicas, service.name, &Replica::service);
          if (own == group.replicas.end()) continue;
          plan.groups.push_back({group.device_type, group.mig_profile, group.compute_slices, *own, group.count});
          for (const auto& replica : group.replicas) {
            if (replica.service != service.name) others.insert(replica.service);
          }
        }
        plan.shares_with.assign(others.begin(), others.end());
        if (!verdicts.empty()) plan.verdict = verdicts[s];
      }
    }
  }
}

PlanAnswer answer_of(CycleBoard& board, const CoverModel& model, const Laid& laid, const std::vector<Verdict>& verdicts,
                     std::int64_t asked) {
  PlanAnswer answer;
  answer.status = PlanStatus::planned;
  answer.plan = lay_out(board.problem(), board.stock(), model, laid.cuts, laid.wanted);
  answer.devices = static_cast<int>(answer.plan.devices.size());
  answer.price = laid.price;
  answer.certifications = asked;
  describe(board, laid, verdicts, answer);
  return answer;
}

// The reason, with the number of devices that the cheapest packing takes.
PlanAnswer too_few(CycleBoard& board, CoverModel model, const std::vector<CyclePacking>& packings) {
  const DeviceGroup& group = board.problem().fleet.groups[0];
  for (auto& device : model.problem.devices) device.count_max = -1;
  int least = 0;
  for (const auto& packing : packings) {
    const auto laid = lay(board, model, packing(board));
    if (!laid) continue;
    int devices = 0;
    for (const auto& cuts : laid->cuts) devices = std::accumulate(cuts.begin(), cuts.end(), devices);
    if (least == 0 || devices < least) least = devices;
  }
  const int count = group.count.value_or(0);
  return no_plan("", fmt::format("the fleet has {} of {}, but this planner needs {}; add {}, or lower the rates", count,
                                 group.type, least, least - count));
}

// One plan for the rates, prices and devices of the problem as they are.
PlanAnswer plan_once(const Problem& problem, const MakePackings& make_packings) {
  CycleBoard board(problem);
  if (board.kinds().empty()) return plan_by_cover(problem, board.stock());
  if (board.unservable()) return *board.unservable();
  const CoverModel model = cover_model(problem, board.stock(), {});
  const std::vector<CyclePacking> packings = make_packings(board);
  std::int64_t asked = 0;
  for (int round = 0; round < kRoundsMax; ++round) {
    std::optional<Laid> best;
    for (const auto& packing : packings) {
      auto laid = lay(board, model, packing(board));
      if (laid && (!best || laid->price < best->price * (1 - kSumTolerance))) best = std::move(laid);
    }
    if (!best) return too_few(board, model, packings);
    if (problem.options.rule != Rule::certified) return answer_of(board, model, *best, {}, 0);
    TANGRAM_CHECK(problem.certifier != nullptr, "Rule::certified needs a certifier");
    auto lost = broken(board, certify(board, best->slices, false, asked));
    if (lost.empty()) {
      const auto verdicts = certify(board, best->slices, true, asked);
      lost = broken(board, verdicts);
      if (lost.empty()) return answer_of(board, model, *best, verdicts, asked);
    }
    for (const std::size_t s : lost) {
      Session& session = board.sessions()[s];
      session.fill_most *= kFillStep;
      const bool runs =
          std::ranges::any_of(board.kinds(), [&](std::size_t kind) { return board.saturated(s, kind).rate_per_s > 0; });
      if (runs && session.fill_most >= kFillLeast) continue;
      const std::string& name = problem.workload.services[session.services[0]].name;
      return no_plan(name, fmt::format("{}: its promise does not hold even where this planner leaves {:.0f} % of its "
                                       "slices' time free; a longer Slo would help",
                                       name, 100 * (1 - session.fill_most)));
    }
  }
  return no_plan("", fmt::format("this planner found no plan whose promises all hold in {} attempts", kRoundsMax));
}

// A second device for each, cut alike and with the same replicas: any one may be lost.
void copy_devices(const Fleet& fleet, PlanAnswer& answer) {
  const DeviceGroup& group = fleet.groups[0];
  const std::vector<PlannedDevice> devices = answer.plan.devices;
  for (PlannedDevice device : devices) {
    device.name = device_name(group, static_cast<int>(answer.plan.devices.size()));
    answer.plan.devices.push_back(std::move(device));
  }
  answer.devices *= 2;
  answer.price *= 2;
  for (auto& service : answer.services) {
    service.load_factor *= 2;
    for (auto& slices : service.groups) slices.count *= 2;
  }
}

}  // namespace

PlanAnswer plan_by_cycles(const Problem& asked, const MakePackings& make_packings) {
  Problem problem = asked;
  problem.options.bucketing = Bucketing::longest;
  const bool spare = asked.fleet.spare == SparePolicy::one_device && !asked.fleet.groups.empty();
  problem.fleet.spare = SparePolicy::none;
  if (spare && problem.fleet.groups[0].count) *problem.fleet.groups[0].count /= 2;
  return plan_for_objective(problem, [&](const Problem& once) {
    PlanAnswer answer = plan_once(once, make_packings);
    if (spare && answer.status == PlanStatus::planned) copy_devices(problem.fleet, answer);
    return answer;
  });
}

}  // namespace tangram::plan::detail
