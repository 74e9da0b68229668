// An independent judge of plans.
//
// Every quantity is computed another way than in the planners: shares of sizes from the cumulative distribution
// instead of lists, batch rates from the predictor for each replica as placed, and the division of slices' time by a
// small simplex method instead of a solver library. A mistake would have to be made twice to stay hidden. The price is
// speed, which does not matter here.
//
// Four kinds of checks, in this order: places (devices and layouts), runs (each bucket of each replica), coverage of
// sizes, and time (capacity, with all devices and without each one).

#include "plan/check_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/math.h"
#include "base/text.h"

namespace tangram::plan {
namespace {

// With very many sizes planners may merge neighbours, which moves up to a thousandth of the inputs to another size.
constexpr double kLoadTolerance = 1e-3;

// The share of draws that are at most `x`. `samples`: of samples in a request instead of input sizes.
double drawn_up_to(const SizeDistribution& distribution, const Service& service, bool samples, std::int64_t x) {
  if (const auto* constant = std::get_if<ConstantSize>(&distribution)) return constant->size <= x ? 1 : 0;
  if (const auto* normal = std::get_if<LogNormalSize>(&distribution)) {
    if (normal->sigma <= 0) return std::llround(normal->median) <= x ? 1 : 0;
    // Draws outside the limits are set to the nearest limit, so the whole tail above counts as `max`.
    if (x < normal->min) return 0;
    if (x >= normal->max) return 1;
    return math::normal_cdf((math::log(static_cast<double>(x) + 0.5) - math::log(normal->median)) / normal->sigma);
  }
  double below = 0;
  double all = 0;
  if (const auto* histogram = std::get_if<HistogramSize>(&distribution)) {
    for (const auto& bin : histogram->bins) {
      all += bin.weight;
      below += bin.size <= x ? bin.weight : 0;
    }
  } else if (const auto* replay = std::get_if<TraceTraffic>(&service.traffic)) {
    for (const auto& entry : replay->trace) {
      all += 1;
      below += (samples ? entry.samples : entry.size) <= x ? 1 : 0;
    }
  }
  // No recording and no bins: every draw is 1.
  if (all <= 0) return x >= 1 ? 1 : 0;
  return below / all;
}

// The same for requests as they arrive. A recorded request holds the larger of the recorded and the drawn number; both
// must be at most x, and they are independent.
double share_up_to(const SizeDistribution& distribution, const Service& service, bool samples, std::int64_t x) {
  const double drawn = drawn_up_to(distribution, service, samples, x);
  const bool recorded = std::holds_alternative<TraceTraffic>(service.traffic);
  if (!samples || !recorded || std::holds_alternative<TraceSize>(distribution)) return drawn;
  return drawn * drawn_up_to(TraceSize{}, service, true, x);
}

// The smallest x with share_up_to(x) = 1, by doubling and bisection: the share only grows with x. The limit guards
// against a share that stays below 1 by rounding.
std::int64_t largest_draw(const SizeDistribution& distribution, const Service& service, bool samples) {
  std::int64_t high = 1;
  while (share_up_to(distribution, service, samples, high) < 1 && high < (std::int64_t{1} << 40)) high *= 2;
  std::int64_t low = 0;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (share_up_to(distribution, service, samples, middle) < 1 ? low : high) = middle;
  }
  return high;
}

// The mean of a number that is at least 0 is the sum over x of the share above x.
double mean_samples(const Service& service) {
  const std::int64_t most = largest_draw(service.samples, service, true);
  double mean = 0;
  for (std::int64_t x = 0; x < most; ++x) mean += 1 - share_up_to(service.samples, service, true, x);
  return mean;
}

// The rate to carry: the peak of a day or a curve, what a job needs to meet its deadline, otherwise the mean.
double peak_rate_per_s(const Service& service) {
  if (service.job) return static_cast<double>(service.job->rows) / to_seconds(service.job->deadline);
  if (const auto* day = std::get_if<DiurnalTraffic>(&service.traffic)) return day->rate_per_s * (1 + day->amplitude);
  if (const auto* loop = std::get_if<ClosedLoopTraffic>(&service.traffic)) {
    // Answers in time take at most the Slo, so each client sends at least this often.
    return loop->clients / (to_seconds(service.slo.latency) + loop->think_mean_s);
  }
  if (const auto* curve = std::get_if<CurveTraffic>(&service.traffic)) {
    double peak = 0;
    for (const double rate : curve->rate_per_s) peak = std::max(peak, rate * curve->scale);
    return peak;
  }
  return mean_rate_per_s(service.traffic);
}

// The demand of one service. Its buckets are the union of the buckets of all its replicas in the plan.
struct Wanted {
  const Service* service = nullptr;
  std::int64_t size_most = 1;
  std::int64_t samples_most = 1;
  std::set<std::int64_t> edges;
  // By upper edge; only those of which something arrives.
  std::map<std::int64_t, double> rate_per_s;
  std::map<std::int64_t, double> rate_per_s_drifted;  // The same after sizes have drifted, where they do.
};

using Services = std::map<std::string, Wanted>;

// Samples a second by bucket: the share of sizes above the previous edge and up to this one.
std::map<std::int64_t, double> rates_by_edge(const SizeDistribution& sizes, const Wanted& wanted, double all) {
  std::map<std::int64_t, double> rates;
  double before = 0;
  for (const std::int64_t edge : wanted.edges) {
    const double up_to = share_up_to(sizes, *wanted.service, false, edge);
    if (up_to > before) rates[edge] = all * (up_to - before);
    before = up_to;
  }
  return rates;
}

// Requires nothing of the plan: replicas of services that do not exist are skipped here and reported by
// check_replica().
Services services_of(const Problem& problem, const Plan& plan) {
  Services services;
  for (const auto& service : problem.workload.services) {
    Wanted& wanted = services[service.name];
    wanted.service = &service;
    wanted.size_most = largest_draw(service.input_size, service, false);
    wanted.samples_most = largest_draw(service.samples, service, true);
    if (!service.size_drift) continue;
    wanted.size_most = std::max(wanted.size_most, largest_draw(service.size_drift->to, service, false));
  }
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      for (const auto& replica : slice.replicas) {
        const auto found = services.find(replica.service);
        if (found == services.end()) continue;
        for (const auto& bucket : replica.buckets) found->second.edges.insert(bucket.size_max);
      }
    }
  }
  for (auto& [name, wanted] : services) {
    const Service& service = *wanted.service;
    const bool loop = std::holds_alternative<ClosedLoopTraffic>(service.traffic);  // Has no rate that could grow.
    const double factor = loop ? 1 : problem.options.demand_factor;
    const double all = peak_rate_per_s(service) * mean_samples(service) * factor;
    wanted.rate_per_s = rates_by_edge(service.input_size, wanted, all);
    if (service.size_drift) wanted.rate_per_s_drifted = rates_by_edge(service.size_drift->to, wanted, all);
  }
  return services;
}

// ---- Places ----

// What the plan says of slices that others use must be what the fleet says of the group that the device's name belongs
// to; of devices with other names, what it says of some group of the type.
std::string reserved_problem(const Problem& problem, const PlannedDevice& device) {
  Layout said;
  for (const auto& slice : device.slices) {
    if (!slice.reserved) continue;
    if (!slice.replicas.empty()) return "a replica is on a slice that others use";
    said.slices.push_back(slice.slice);
  }
  std::string expected;
  for (const auto& group : problem.fleet.groups) {
    if (group.type != device.type) continue;
    Layout wanted = group.reserved;
    std::ranges::sort(wanted.slices, {}, &Slice::start);
    const std::string prefix = (group.name.empty() ? group.type : group.name) + "-";
    const bool own = device.name.starts_with(prefix) &&
                     device.name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
    if (wanted == said) {
      if (own) return {};
      if (expected.empty()) expected = "none";
      continue;
    }
    if (own) {
      return fmt::format("others use {} of it, but the plan says {}", to_string(device.geometry, wanted),
                         to_string(device.geometry, said));
    }
  }
  if (!expected.empty()) return {};
  return fmt::format("the plan says that others use {}, but the fleet does not", to_string(device.geometry, said));
}

// The first thing that is wrong with one device, or nothing. Several groups may have the same type; a profile is
// allowed if any of them allows it.
std::string device_problem(const Problem& problem, const PlannedDevice& device) {
  const Geometry* known = nullptr;
  Geometry host;
  std::set<std::string> allowed;
  for (const auto& group : problem.fleet.groups) {
    if (group.type != device.type) continue;
    known = find_geometry(group.type);
    if (known == nullptr && group.host) {
      host = cpu_geometry(*group.host);
      known = &host;
    }
    if (known == nullptr) continue;
    for (const auto& profile : restrict_to(*known, group.profiles).profiles) allowed.insert(profile.name);
  }
  if (known == nullptr) return "the fleet has no " + device.type;
  if (device.geometry != *known) return "its geometry is not that of the fleet's " + device.type;
  if (auto text = reserved_problem(problem, device); !text.empty()) return text;
  std::string wrong = why_invalid(device.geometry, layout_of(device));
  if (!wrong.empty()) return wrong;
  for (const auto& slice : device.slices) {
    if (slice.reserved) continue;  // Others chose its profile.
    const std::string& name = device.geometry.profiles[slice.slice.profile].name;
    if (!allowed.contains(name)) return "the fleet does not allow " + name;
  }
  return {};
}

void check_devices(const Problem& problem, const Plan& plan, std::vector<std::string>& wrong) {
  std::set<std::string> names;
  std::map<std::string, int> used;
  for (const auto& device : plan.devices) {
    if (!names.insert(device.name).second) wrong.push_back(fmt::format("{}: the name is used twice", device.name));
    ++used[device.type];
    if (const auto text = device_problem(problem, device); !text.empty()) wrong.push_back(device.name + ": " + text);
  }
  for (const auto& [type, count] : used) {
    int most = 0;
    bool limited = true;
    for (const auto& group : problem.fleet.groups) {
      if (group.type != type) continue;
      limited = limited && group.count.has_value();
      most += group.count.value_or(0);
    }
    if (limited && count > most) {
      wrong.push_back(fmt::format("the plan uses {} of {}, but the fleet has {}", count, type, most));
    }
  }
}

// ---- Runs ----

std::optional<Prediction> run_of(const Problem& problem, const PlannedDevice& device, const Slice& slice,
                                 const Replica& replica, const PlannedBucket& bucket, const Service& service) {
  return problem.latency->predict({device.type, device.geometry.profiles[slice.profile].name, service.model,
                                   bucket.batch_size, bucket.size_max, replica.processes});
}

// The first thing that is wrong with one bucket, or nothing: it must be known to run, in time, in the memory, and hold
// the largest request.
std::string bucket_problem(const Problem& problem, const Wanted& wanted, const PlannedBucket& bucket,
                           const MigProfile& profile, const std::optional<Prediction>& run) {
  const double slo = to_milliseconds(wanted.service->slo.latency);
  const std::string what = fmt::format("size {} in batches of {}", bucket.size_max, bucket.batch_size);
  if (!run) return what + " has no known run time there: it was not measured, or does not fit into memory";
  const bool half = problem.options.rule == Rule::half;
  const double takes = to_milliseconds(half ? run->mean : run->p99);
  // Rule::half: nine tenths of half of the Slo.
  const double limit = half ? 0.45 * slo : slo;
  if (takes >= limit) {
    return fmt::format("{} takes {:.4g} ms, but rule {} allows less than {:.4g} ms", what, takes,
                       to_string(problem.options.rule), limit);
  }
  const bool known = run->memory_mib && profile.memory_gib.evidence != Evidence::unknown;
  const double room_mib = 1024 * profile.memory_gib.value * (1 - problem.options.memory_headroom);
  if (known && *run->memory_mib > room_mib) {
    return fmt::format("{} takes {:.0f} MiB, but the slice has only {:.0f} MiB with {:g} % kept free", what,
                       *run->memory_mib, room_mib, 100 * problem.options.memory_headroom);
  }
  if (bucket.batch_size < wanted.samples_most) {
    return fmt::format("{} cannot hold a request of {} samples", what, wanted.samples_most);
  }
  return {};
}

void check_replica(const Problem& problem, const Services& services, const PlannedDevice& device, const Slice& slice,
                   const Replica& replica, std::vector<std::string>& wrong) {
  const std::string where = fmt::format("{} {}@{}: {}", device.name, device.geometry.profiles[slice.profile].name,
                                        slice.start, replica.service);
  const auto found = services.find(replica.service);
  if (found == services.end()) {
    wrong.push_back(where + " is not among the services");
    return;
  }
  if (replica.processes < 1 || replica.buckets.empty()) wrong.push_back(where + " has no process or no bucket");
  for (const auto& bucket : replica.buckets) {
    const auto run = run_of(problem, device, slice, replica, bucket, *found->second.service);
    const auto text = bucket_problem(problem, found->second, bucket, device.geometry.profiles[slice.profile], run);
    if (!text.empty()) wrong.push_back(where + ": " + text);
  }
}

// A slice that services share holds the weights of all of them, those of one model and copy once, and the largest
// working set: they take turns. Copies that are loaded on demand take turns, too: the largest of them has to fit. A
// copy that some replica needs from the start is loaded for all. A service whose weights are not known is left out;
// nothing can be said of it.
void check_shared_memory(const Problem& problem, const Services& services, const PlannedDevice& device,
                         const PlannedSlice& slice, std::vector<std::string>& wrong) {
  if (slice.replicas.size() < 2) return;
  const MigProfile& profile = device.geometry.profiles[slice.slice.profile];
  if (profile.memory_gib.evidence == Evidence::unknown) return;
  struct Copy {
    double mib = 0;
    bool on_demand = true;
  };
  std::map<std::pair<std::string, std::string>, Copy> copies;
  double working_mib = 0;
  for (const auto& replica : slice.replicas) {
    const auto found = services.find(replica.service);
    if (found == services.end()) continue;
    const Service& service = *found->second.service;
    const auto own = problem.latency->weights_mib(device.type, profile.name, service.model);
    if (!own) continue;
    Copy& copy = copies[{service.model, service.weights}];
    copy.mib = std::max(copy.mib, *own * replica.processes);
    copy.on_demand = copy.on_demand && replica.load == ReplicaLoad::on_demand;
    for (const auto& bucket : replica.buckets) {
      const auto run = run_of(problem, device, slice.slice, replica, bucket, service);
      if (run && run->memory_mib) working_mib = std::max(working_mib, *run->memory_mib - *own * replica.processes);
    }
  }
  double weights_mib = 0;
  double on_demand_mib = 0;
  for (const auto& [name, copy] : copies) {
    if (copy.on_demand) on_demand_mib = std::max(on_demand_mib, copy.mib);
    if (!copy.on_demand) weights_mib += copy.mib;
  }
  const double room_mib = 1024 * profile.memory_gib.value * (1 - problem.options.memory_headroom);
  if (weights_mib + on_demand_mib + working_mib <= room_mib * (1 + kLoadTolerance)) return;
  const std::string on_demand =
      on_demand_mib > 0 ? fmt::format(", the largest of those on demand {:.0f} MiB", on_demand_mib) : "";
  wrong.push_back(fmt::format(
      "{} {}@{}: the weights of {} services take {:.0f} MiB{} and the largest run {:.0f} MiB more, but the slice has "
      "only {:.0f} MiB with {:g} % kept free",
      device.name, profile.name, slice.slice.start, slice.replicas.size(), weights_mib, on_demand, working_mib,
      room_mib, 100 * problem.options.memory_headroom));
}

// What is wrong with the replicas of a slice beside each other: one that is there twice, or a model on demand whose load
// time is not known or leaves its promise no time. A copy that another replica keeps loaded is never loaded on demand.
void check_replicas_of(const Problem& problem, const Services& services, const PlannedDevice& device,
                       const PlannedSlice& slice, std::vector<std::string>& wrong) {
  const std::string& profile = device.geometry.profiles[slice.slice.profile].name;
  std::set<std::string> names;
  std::set<std::pair<std::string, std::string>> loaded;
  const auto service_of = [&](const Replica& replica) {
    const auto found = services.find(replica.service);
    return found == services.end() ? nullptr : found->second.service;
  };
  for (const auto& replica : slice.replicas) {
    const Service* service = service_of(replica);
    if (service != nullptr && replica.load == ReplicaLoad::start) loaded.insert({service->model, service->weights});
  }
  for (const auto& replica : slice.replicas) {
    const std::string where = fmt::format("{} {}@{}: {}", device.name, profile, slice.slice.start, replica.service);
    if (!names.insert(replica.service).second) wrong.push_back(where + " is on it twice");
    const Service* service = service_of(replica);
    if (service == nullptr || loaded.contains({service->model, service->weights})) continue;
    const auto load = problem.latency->load_time(device.type, profile, service->model);
    if (!load) {
      wrong.push_back(where + " is loaded on demand, but its load time is not known: give load_ms in the measurements");
    } else if (*load >= service->slo.latency) {
      wrong.push_back(fmt::format("{} is loaded on demand, which takes {:.4g} ms, but its Slo is {:.4g} ms", where,
                                  to_milliseconds(*load), to_milliseconds(service->slo.latency)));
    }
  }
}

// Services that must not share a slice, and do.
void check_isolation(const Services& services, const PlannedDevice& device, const PlannedSlice& slice,
                     std::vector<std::string>& wrong) {
  for (std::size_t i = 0; i < slice.replicas.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto a = services.find(slice.replicas[j].service);
      const auto b = services.find(slice.replicas[i].service);
      if (a == services.end() || b == services.end() || a == b) continue;
      if (may_share_slices(*a->second.service, *b->second.service)) continue;
      wrong.push_back(fmt::format("{} {}@{}: {} and {} must not share a slice", device.name,
                                  device.geometry.profiles[slice.slice.profile].name, slice.slice.start, a->first,
                                  b->first));
    }
  }
}

// ---- Time ----

// Maximises the last variable of `a x <= b`, x >= 0, b >= 0, by the simplex method on a dense tableau. Starting at
// zero is feasible because b >= 0. Bland's rule, the lowest index among candidates, excludes cycling, so the loop
// ends.
double maximise_last(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t rows = a.size();
  const std::size_t columns = a.empty() ? 0 : a[0].size();
  std::vector<double> gain(columns, 0);
  gain[columns - 1] = 1;
  // Which variable each column and row holds: variables first, then the slack of each row.
  std::vector<std::size_t> in_column(columns);
  std::vector<std::size_t> in_row(rows);
  std::iota(in_column.begin(), in_column.end(), std::size_t{0});
  std::iota(in_row.begin(), in_row.end(), columns);
  double best = 0;
  while (true) {
    // Entering variable: the one of lowest index that increases the objective.
    std::size_t enter = columns;
    for (std::size_t j = 0; j < columns; ++j) {
      if (gain[j] > 1e-11 && (enter == columns || in_column[j] < in_column[enter])) enter = j;
    }
    if (enter == columns) return best;
    // Leaving variable: the first row that would become negative as the entering variable grows.
    std::size_t leave = rows;
    for (std::size_t i = 0; i < rows; ++i) {
      if (a[i][enter] <= 1e-11) continue;
      const double ratio = b[i] / a[i][enter];
      const double least = leave == rows ? std::numeric_limits<double>::infinity() : b[leave] / a[leave][enter];
      if (ratio < least || (ratio == least && in_row[i] < in_row[leave])) leave = i;
    }
    if (leave == rows) return std::numeric_limits<double>::infinity();
    // Pivot: exchange the two variables and update the tableau in place, so only the columns of non-basic variables
    // are stored.
    const double pivot = a[leave][enter];
    for (double& value : a[leave]) value /= pivot;
    a[leave][enter] = 1 / pivot;
    b[leave] /= pivot;
    for (std::size_t i = 0; i < rows; ++i) {
      if (i == leave || a[i][enter] == 0) continue;
      const double factor = a[i][enter];
      a[i][enter] = 0;
      for (std::size_t j = 0; j < columns; ++j) a[i][j] -= factor * a[leave][j];
      // Rounding may push a right-hand side just below zero; negative values would break the ratio test.
      b[i] = std::max(0.0, b[i] - factor * b[leave]);
    }
    const double factor = gain[enter];
    gain[enter] = 0;
    for (std::size_t j = 0; j < columns; ++j) gain[j] -= factor * a[leave][j];
    best += factor * b[leave];
    std::swap(in_column[enter], in_row[leave]);
  }
}

// Slices that hold the same replicas on the same kind of slice, and what one of them runs of each bucket if it runs
// nothing else. Grouping keeps the tableau small: a hundred equal slices are one row.
struct SliceGroup {
  double count = 0;
  std::map<std::pair<std::string, std::int64_t>, double> rate_per_s;
};

// Groups the slices of a plan. `without` is the index of a device to leave out; devices.size() means none.
std::vector<SliceGroup> slice_groups(const Problem& problem, const Services& services, const Plan& plan,
                                     std::size_t without) {
  std::map<std::string, SliceGroup> groups;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (d == without) continue;
    const auto& device = plan.devices[d];
    for (const auto& slice : device.slices) {
      std::string key = device.type + '/' + device.geometry.profiles[slice.slice.profile].name;
      SliceGroup group;
      for (const auto& replica : slice.replicas) {
        const auto found = services.find(replica.service);
        if (found == services.end()) continue;
        for (const auto& bucket : replica.buckets) {
          const auto run = run_of(problem, device, slice.slice, replica, bucket, *found->second.service);
          key += fmt::format("/{}:{}:{}:{}", replica.service, bucket.size_max, bucket.batch_size, replica.processes);
          if (!run || run->mean <= Duration::zero()) continue;
          double& rate = group.rate_per_s[{replica.service, bucket.size_max}];
          // Two replicas of one service on a slice do not add up: they share its time.
          rate = std::max(rate, static_cast<double>(bucket.batch_size) * replica.processes / to_seconds(run->mean));
        }
      }
      groups.try_emplace(key, group).first->second.count += 1;
    }
  }
  std::vector<SliceGroup> list;
  for (auto& [key, group] : groups) list.push_back(std::move(group));
  return list;
}

// The largest factor by which all rates of `names` can grow together. Requires that no other service uses their
// slices.
double common_factor(const Services& services, const std::vector<SliceGroup>& groups,
                     const std::set<std::string>& names) {
  if (std::ranges::any_of(names, [&](const auto& name) { return services.at(name).edges.empty(); })) return 0;
  std::map<std::pair<std::string, std::int64_t>, std::size_t> row;  // Of each bucket.
  for (const auto& name : names) {
    for (const auto& [edge, rate] : services.at(name).rate_per_s) row.emplace(std::pair(name, edge), row.size());
  }
  std::size_t columns = 1;
  std::vector<const SliceGroup*> used;
  for (const auto& group : groups) {
    const bool serves = std::ranges::any_of(group.rate_per_s, [&](const auto& r) { return row.contains(r.first); });
    if (serves) used.push_back(&group);
    if (serves) columns += group.rate_per_s.size();
  }
  if (row.empty()) return std::numeric_limits<double>::infinity();  // Nothing arrives.
  // factor * wanted - sum(rate * time) <= 0 for each bucket; sum(time) <= count for each group of slices.
  std::vector<std::vector<double>> a(row.size() + used.size(), std::vector<double>(columns, 0));
  std::vector<double> b(a.size(), 0);
  for (const auto& [bucket, index] : row) a[index].back() = services.at(bucket.first).rate_per_s.at(bucket.second);
  std::size_t column = 0;
  for (std::size_t g = 0; g < used.size(); ++g) {
    b[row.size() + g] = used[g]->count;
    for (const auto& [bucket, rate] : used[g]->rate_per_s) {
      a[row.size() + g][column] = 1;
      if (const auto at = row.find(bucket); at != row.end()) a[at->second][column] = -rate;
      ++column;
    }
  }
  return maximise_last(std::move(a), std::move(b));
}

// Partitions the services: two that share a slice are in the same set. Each set is a linear program of its own, which
// is much smaller than one for all.
std::vector<std::set<std::string>> sharing(const Services& services, const std::vector<SliceGroup>& groups) {
  std::vector<std::set<std::string>> sets;
  for (const auto& [name, wanted] : services) sets.push_back({name});
  for (const auto& group : groups) {
    std::set<std::string> together;
    for (const auto& [bucket, rate] : group.rate_per_s) together.insert(bucket.first);
    if (together.size() < 2) continue;
    std::vector<std::set<std::string>> next;
    for (auto& set : sets) {
      const bool meets = std::ranges::any_of(set, [&](const auto& name) { return together.contains(name); });
      if (meets) together.merge(set);
      if (!meets) next.push_back(std::move(set));
    }
    next.push_back(std::move(together));
    sets = std::move(next);
  }
  return sets;
}

// The services before sizes drift, and, where some drift, after all of them have.
std::vector<Services> ends_of_drift(const Services& services) {
  std::vector<Services> ends{services};
  const auto drifts = [](const auto& entry) { return !entry.second.rate_per_s_drifted.empty(); };
  if (std::ranges::none_of(services, drifts)) return ends;
  ends.push_back(services);
  for (auto& [name, wanted] : ends.back()) {
    if (!wanted.rate_per_s_drifted.empty()) wanted.rate_per_s = wanted.rate_per_s_drifted;
  }
  return ends;
}

// The load factor of each service without one device, at the end of a drift where it is less.
std::map<std::string, double> factors_without(const Problem& problem, const Services& services, const Plan& plan,
                                              std::size_t without) {
  const auto groups = slice_groups(problem, services, plan, without);
  std::map<std::string, double> factors;
  for (const auto& at_one_time : ends_of_drift(services)) {
    for (const auto& names : sharing(at_one_time, groups)) {
      const double factor = common_factor(at_one_time, groups, names);
      for (const auto& name : names) factors[name] = std::min(factors.try_emplace(name, factor).first->second, factor);
    }
  }
  return factors;
}

// Ensures that every size that can arrive belongs to some bucket.
void check_coverage(const Services& services, std::vector<std::string>& wrong) {
  for (const auto& [name, wanted] : services) {
    if (wanted.edges.empty()) {
      wrong.push_back(name + ": no replica serves it");
    } else if (*wanted.edges.rbegin() < wanted.size_most) {
      wrong.push_back(fmt::format("{}: inputs reach size {}, but the largest bucket ends at {}", name, wanted.size_most,
                                  *wanted.edges.rbegin()));
    }
  }
}

void check_load(const Problem& problem, const Services& services, const Plan& plan, std::vector<std::string>& wrong) {
  for (const auto& [name, factor] : factors_without(problem, services, plan, plan.devices.size())) {
    if (services.at(name).edges.empty() || factor >= 1 - kLoadTolerance) continue;
    const Traffic& traffic = services.at(name).service->traffic;
    const bool peak = std::holds_alternative<DiurnalTraffic>(traffic) || std::holds_alternative<CurveTraffic>(traffic);
    wrong.push_back(fmt::format("{}: its slices can run only {:.4g} % of the samples that arrive{}", name, 100 * factor,
                                peak ? " at its peak, for which plans must have the capacity" : ""));
  }
}

void check_spare(const Problem& problem, const Services& services, const Plan& plan, std::vector<std::string>& wrong) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    // Losing one of two equal devices has the same effect, so it is checked once.
    const bool seen = std::any_of(plan.devices.begin(), plan.devices.begin() + static_cast<std::ptrdiff_t>(d),
                                  [&](const PlannedDevice& other) {
                                    return other.type == plan.devices[d].type && other.slices == plan.devices[d].slices;
                                  });
    if (seen) continue;
    for (const auto& [name, factor] : factors_without(problem, services, plan, d)) {
      if (factor >= 1 - kLoadTolerance) continue;
      wrong.push_back(fmt::format("{}: without {}, its slices can run only {:.4g} % of the samples that arrive", name,
                                  plan.devices[d].name, 100 * factor));
    }
  }
}

}  // namespace

std::vector<std::string> check_plan(const Problem& problem, const Plan& plan) {
  std::vector<std::string> wrong;
  check_devices(problem, plan, wrong);
  if (!wrong.empty()) return wrong;  // Further checks need valid devices.
  const Services services = services_of(problem, plan);
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      for (const auto& replica : slice.replicas) {
        check_replica(problem, services, device, slice.slice, replica, wrong);
      }
      check_replicas_of(problem, services, device, slice, wrong);
      check_shared_memory(problem, services, device, slice, wrong);
      check_isolation(services, device, slice, wrong);
    }
  }
  check_coverage(services, wrong);
  check_load(problem, services, plan, wrong);
  if (problem.fleet.spare == SparePolicy::one_device) check_spare(problem, services, plan, wrong);
  return wrong;
}

std::map<std::string, double> load_factors(const Problem& problem, const Plan& plan) {
  return factors_without(problem, services_of(problem, plan), plan, plan.devices.size());
}

}  // namespace tangram::plan
