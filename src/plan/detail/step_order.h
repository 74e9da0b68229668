// Finds an order of changes in which every service keeps enough capacity at any time.
//
// A transition consists of works, each of which takes some capacity away (a slice that is destroyed, a slice whose
// replicas change), and of newcomers, slices that add capacity once the slices in their way are gone. Newcomers are
// created as soon as they fit, which never hurts. The search is for an order of the works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/layout.h"

namespace tangram::plan {

using ServiceDelta = std::pair<std::size_t, double>;  // Service and requests a second.

// One change that has to be made and may take capacity away.
struct Work {
  std::size_t device = 0;
  bool leaves = false;  // The slice is destroyed; otherwise its replicas change.
  Slice slice;
  std::vector<ServiceDelta> worst;  // The most that is missing at any moment of it; not positive.
  std::vector<ServiceDelta> after;  // What has changed once it is done.
};

// A slice that is to be created.
struct Newcomer {
  std::size_t device = 0;
  Slice slice;
  std::vector<ServiceDelta> gain;  // Not negative.
};

// All works and newcomers, and which of them are finished. A value: searching copies it.
struct Agenda {
  std::vector<Work> works;
  std::vector<Newcomer> newcomers;
  std::vector<const Geometry*> geometries;         // By device.
  std::vector<std::vector<std::size_t>> works_of;  // By device.
  std::vector<std::vector<std::size_t>> newcomers_of;

  std::vector<char> done;        // By work.
  std::vector<char> made;        // By newcomer.
  std::vector<Layout> layouts;   // By device, as they are now.
  std::vector<double> capacity;  // By service.
  std::vector<double> floors;

  void add(Work work);
  void add(Newcomer newcomer);
  bool finished() const;
  // True if no service falls below its floor while the work is done.
  bool allows(const Work& work) const;
  // By how much of its floor the worst service would fall short: 0 if the work is allowed.
  double shortfall(const Work& work) const;
  // Does the work, and makes every newcomer of its device that fits then. Returns those.
  std::vector<std::size_t> do_work(std::size_t work);
  // Makes every newcomer of `device` that fits.
  std::vector<std::size_t> make_newcomers(std::size_t device);
  // How many works block the newcomer of the same device that this work would help most; a number larger than any
  // device has if it helps none.
  int distance(std::size_t work) const;
};

inline constexpr double kCapacityTolerance = 1e-9;  // Relative: sums of the same terms in another order are equal.
// Larger agendas are ordered greedily. The second bound counts works that are done: a state copies them all.
inline constexpr std::size_t kExhaustiveWorksMax = 20;
inline constexpr std::size_t kExhaustiveAgendaMax = 64;

struct WorkOrder {
  std::vector<std::size_t> works;  // All of them, or those that could be done.
  bool complete = false;
  bool exhaustive = false;  // Not complete, and no order is.
};

// An order in which all works that are left can be done. Where none is found, the longest that was.
WorkOrder find_order(const Agenda& agenda, std::size_t states_max);

}  // namespace tangram::plan
