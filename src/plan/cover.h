// The combinatorial heart of planning, in terms of kinds and devices rather than GPUs: how few devices hold the slices
// that all services need.
//
// Kinds are shapes of slices on types of devices. A device can be cut in certain ways, each giving a number of slices
// of every kind. A service covers its demand, split into classes of input sizes, with offers: one slice of a kind that
// runs so many samples a second of each class. A slice can divide its time between the classes of its service, so an
// offer with y slices provides rate * t of each class, for any t with sum(t) <= y.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tangram::plan {

// One way of using one slice for one service.
struct CoverOffer {
  std::size_t kind = 0;
  std::vector<double> rate;  // By class; 0: the slice cannot run the class in time.
};

// How many slices of each offer, in the order of the service's offers.
using Cover = std::vector<int>;

struct CoverService {
  std::vector<double> demand;  // By class.
  std::vector<CoverOffer> offers;
  // Whether a cover that has the capacity also keeps the promise. Asked seldom, and answers the same every time. Adding
  // a slice never turns a yes into a no. Empty: capacity suffices.
  std::function<bool(const Cover&)> accepts;
};

// Equal devices.
struct CoverDevice {
  double price = 1;
  int count_max = -1;                  // Below zero: unlimited.
  std::vector<std::size_t> kinds;      // The kinds that its cuts consist of.
  std::vector<std::vector<int>> cuts;  // Slices of each of `kinds`; none contains another.
};

struct CoverProblem {
  std::size_t kinds = 0;
  std::vector<CoverDevice> devices;
  std::vector<CoverService> services;
};

// Limits by counts of work, never by a clock.
struct CoverBudget {
  int rounds_max = 200;                    // Of column generation.
  std::int64_t cover_nodes_max = 20000;    // Of the search for one service's cheapest cover.
  std::int64_t tree_nodes_max = 4000;      // Of the final search over all services.
  int tree_services_max = 40;              // Beyond this many services the final search is not begun.
  int parts_max = 240;                     // Parts by numbers of devices; an eighth beyond that many services.
  std::int64_t parts_nodes_max = 1500000;  // Of the searches for cheapest covers in all parts.
  int pools_max = 24;                      // Sets of blocks that are put onto common slices.
  std::int64_t pool_looks_max = 2000;      // Simulations of such sets, after which no further set is begun.
  // Told the best price and bound now and then; for progress bars.
  std::function<void(double price, double bound)> progress;
};

enum class CoverStatus { solved, infeasible };

struct CoverAnswer {
  CoverStatus status = CoverStatus::infeasible;
  std::vector<std::vector<int>> cuts;  // By device and cut: how many devices are cut so.
  std::vector<Cover> covers;           // By service.
  double price = 0;
  double bound = 0;                    // No answer is cheaper.
  bool proved = false;                 // None is cheaper than this one.
  std::vector<double> kind_price;      // What a slice of each kind is worth in the bound.
  std::vector<double> service_price;   // What each service costs in the bound; sums to it, but for limited devices.
  std::size_t infeasible_service = 0;  // Where infeasible: a service that no cover satisfies, or services.size().
  std::int64_t covers_tried = 0;
};

// `start` is a cover of each service to begin with, as a warm start; empty: none.
CoverAnswer solve_cover(const CoverProblem& problem, const CoverBudget& budget = {},
                        const std::vector<Cover>& start = {});

// How many times its demand a cover carries. At least 1: it has the capacity.
double cover_load_factor(const CoverService& service, const Cover& cover);

// The fewest devices, by price, that hold `need` slices of each kind. By device and cut; nothing if they do not.
std::vector<std::vector<int>> pack(const CoverProblem& problem, const std::vector<int>& need, double* price);

}  // namespace tangram::plan
