// Finds an order of works in which no service falls below its floor.
//
// A work takes capacity away; a newcomer brings some once its units are free. Small agendas are searched exhaustively
// with memory of visited sets, so that a failure is a proof. Large ones are ordered greedily: the work that is nearest
// to freeing room for a newcomer comes first, since only newcomers and finished works raise capacity.

#include "plan/detail/step_order.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace tangram::plan {
namespace {

// The distance of a work that frees room for no newcomer: behind all others.
constexpr int kHelpsNobody = 1'000'000;

// Depth first over sets of finished works. Which newcomers exist follows from the set, so a set that led nowhere need
// not be visited again.
class ExhaustiveSearch {
 public:
  ExhaustiveSearch(const Agenda& agenda, std::size_t states_max) : start_(agenda), states_left_(states_max) {}

  WorkOrder run() {
    WorkOrder order;
    order.complete = visit(start_);
    order.works = order.complete ? path_ : longest_;
    // With states left over, every order was tried, and none is complete.
    order.exhaustive = !order.complete && states_left_ > 0;
    return order;
  }

 private:
  bool visit(const Agenda& agenda) {
    if (agenda.finished()) return true;
    // Where no order is complete, the longest one shows which work has to be forced.
    if (path_.size() > longest_.size()) longest_ = path_;
    if (states_left_ == 0) return false;
    --states_left_;
    for (const auto work : candidates(agenda)) {
      Agenda next = agenda;
      next.do_work(work);
      path_.push_back(work);
      if (seen_.insert(next.done).second && visit(next)) return true;
      path_.pop_back();
    }
    return false;
  }

  // Works that take no service below its floor, those that free room soonest first.
  static std::vector<std::size_t> candidates(const Agenda& agenda) {
    std::vector<std::tuple<int, std::size_t>> list;
    for (std::size_t i = 0; i < agenda.works.size(); ++i) {
      if (!agenda.done[i] && agenda.allows(agenda.works[i])) list.emplace_back(agenda.distance(i), i);
    }
    std::ranges::sort(list);
    std::vector<std::size_t> works;
    for (const auto& [distance, work] : list) works.push_back(work);
    return works;
  }

  const Agenda& start_;
  std::size_t states_left_;
  std::set<std::vector<char>> seen_;
  std::vector<std::size_t> path_;
  std::vector<std::size_t> longest_;
};

// For large agendas: always the allowed work that is nearest to making room for a newcomer.
WorkOrder greedy_order(Agenda agenda) {
  WorkOrder order;
  std::vector<int> distances(agenda.works.size());
  std::set<std::tuple<int, std::size_t>> open;
  // A work changes distances on its own device only, so the others need no update.
  const auto refresh = [&](std::size_t device) {
    for (const auto work : agenda.works_of[device]) {
      open.erase({distances[work], work});
      distances[work] = agenda.distance(work);
      if (!agenda.done[work]) open.emplace(distances[work], work);
    }
  };
  for (std::size_t device = 0; device < agenda.works_of.size(); ++device) refresh(device);
  while (!open.empty()) {
    const auto next =
        std::ranges::find_if(open, [&](const auto& entry) { return agenda.allows(agenda.works[std::get<1>(entry)]); });
    if (next == open.end()) return order;
    const std::size_t work = std::get<1>(*next);
    agenda.do_work(work);
    order.works.push_back(work);
    refresh(agenda.works[work].device);
  }
  order.complete = true;
  return order;
}

}  // namespace

void Agenda::add(Work work) {
  works_of[work.device].push_back(works.size());
  works.push_back(std::move(work));
  done.push_back(0);
}

void Agenda::add(Newcomer newcomer) {
  newcomers_of[newcomer.device].push_back(newcomers.size());
  newcomers.push_back(std::move(newcomer));
  made.push_back(0);
}

bool Agenda::finished() const {
  return std::ranges::all_of(done, [](char flag) { return flag != 0; });
}

double Agenda::shortfall(const Work& work) const {
  double worst = 0;
  for (const auto& [service, delta] : work.worst) {
    const double missing = floors[service] - capacity[service] - delta;
    // A work that does not reduce a service cannot make its shortfall worse, even if it is already below its floor.
    if (delta < 0 && missing > kCapacityTolerance * floors[service]) {
      worst = std::max(worst, missing / floors[service]);
    }
  }
  return worst;
}

bool Agenda::allows(const Work& work) const { return shortfall(work) <= 0; }

std::vector<std::size_t> Agenda::do_work(std::size_t index) {
  const Work& work = works[index];
  done[index] = 1;
  for (const auto& [service, delta] : work.after) capacity[service] += delta;
  // Its slice stays, so there is no room for a newcomer.
  if (!work.leaves) return {};
  std::erase(layouts[work.device].slices, work.slice);
  return make_newcomers(work.device);
}

// Requires layouts[device] as it is now. Newcomers of one plan do not overlap, so the order in which they are created
// does not matter.
std::vector<std::size_t> Agenda::make_newcomers(std::size_t device) {
  std::vector<std::size_t> fresh;
  for (const auto index : newcomers_of[device]) {
    const Newcomer& newcomer = newcomers[index];
    if (made[index] || !fits(*geometries[device], layouts[device], newcomer.slice)) continue;
    layouts[device] = with_slice(*geometries[device], std::move(layouts[device]), newcomer.slice);
    for (const auto& [service, gain] : newcomer.gain) capacity[service] += gain;
    made[index] = 1;
    fresh.push_back(index);
  }
  return fresh;
}

int Agenda::distance(std::size_t index) const {
  const Work& work = works[index];
  if (!work.leaves) return 0;  // It needs no newcomer to bring its gain.
  const Geometry& geometry = *geometries[work.device];
  int nearest = kHelpsNobody;
  for (const auto newcomer : newcomers_of[work.device]) {
    const Slice& wanted = newcomers[newcomer].slice;
    // The work is not in the way of that newcomer.
    if (made[newcomer] || fits(geometry, Layout{{work.slice}}, wanted)) continue;
    int in_the_way = 0;
    for (const auto other : works_of[work.device]) {
      const bool blocks = works[other].leaves && !done[other] && !fits(geometry, Layout{{works[other].slice}}, wanted);
      in_the_way += blocks ? 1 : 0;
    }
    nearest = std::min(nearest, in_the_way);
  }
  return nearest;
}

WorkOrder find_order(const Agenda& agenda, std::size_t states_max) {
  const auto left = static_cast<std::size_t>(std::ranges::count(agenda.done, 0));
  const bool small = left <= kExhaustiveWorksMax && agenda.works.size() <= kExhaustiveAgendaMax;
  if (small) return ExhaustiveSearch(agenda, states_max).run();
  return greedy_order(agenda);
}

}  // namespace tangram::plan
