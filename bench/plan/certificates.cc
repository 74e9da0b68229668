// Holds certificates against the truth: plans random problems, then simulates the described traffic as it is, whole and
// with other random numbers, until the share in time is known to 0.1 points or is beyond doubt.
//
//   plan_certificates [--first N] [--problems N] [--seeds N] [--rate-max R] [--hours-max H] [--day N]
//
// One JSON line for each promise, one for each problem, and a summary. bench/plan/certificates runs it on all cores.
// Nothing here is shared with the certifier but the simulator itself: no part is weighed, no traffic is shortened.
// Plans are made as `tangram plan` makes them by default, so services share slices where the memory of their models is
// known: in the problems from kSharedProblems on. Services that share are judged together, each with its own traffic.

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <set>

#include "base/check.h"
#include "base/math.h"
#include "bench/plan/random_problems.h"
#include "core/service_key.h"
#include "lab/certify.h"
#include "learn/models/table.h"
#include "plan/demand.h"
#include "plan/problem.h"
#include "plan/shared_slices.h"
#include "sched/deployment.h"
#include "sim/simulation.h"

namespace tangram::bench {
namespace {

struct Options {
  std::uint64_t first = 1;
  std::uint64_t problems = 10;
  std::uint64_t seeds = 5;
  double rate_max = 300;
  double hours_max = 240;
  std::uint64_t day = 0;  // Problems up to this number are also planned with a simulated day as the certifier.
};

double cycle_s(const Traffic& traffic) {
  if (const auto* bursts = std::get_if<BurstTraffic>(&traffic)) return bursts->burst_mean_s + bursts->calm_mean_s;
  if (const auto* day = std::get_if<DiurnalTraffic>(&traffic)) return day->period_s;
  if (const auto* curve = std::get_if<CurveTraffic>(&traffic))
    return curve->step_s * static_cast<double>(curve->rate_per_s.size());
  if (const auto* replay = std::get_if<TraceTraffic>(&traffic))
    return to_seconds(replay->trace.back().at - kTimeZero) / replay->speed + 1e-6;
  return 0;
}

// Slices of a service or of several that share them, with their traffic as described. Time is divided into runs of
// whole periods, each with a seed of its own; bursts begin in a random state.
class Truth {
 public:
  Truth(const LatencyModel& model, std::vector<Service> services, const std::vector<plan::SharedGroup>& groups,
        std::uint64_t seed, double noise)
      : seed_(seed) {
    Plan plan;
    PlannedDevice device;
    device.name = device.type = "a100-80gb";
    device.geometry = *find_geometry("a100-80gb");
    for (const auto& group : groups) {
      const auto profile = find_profile(device.geometry, group.mig_profile);
      for (int n = 0; n < group.count; ++n) {
        device.slices = {{{static_cast<std::uint16_t>(*profile), 0}, group.replicas}};
        device.name = fmt::format("a100-{}", plan.devices.size());
        plan.devices.push_back(device);
      }
    }
    workload_.services = std::move(services);
    lines_.resize(workload_.services.size());
    auto deployment = sched::compile(plan, workload_, model);
    TANGRAM_CHECK(deployment.ok(), "the plan of a problem can be deployed");
    deployment_ = *deployment;
    const double spread = lab::noise_spread(deployment_);
    config_.noise.spread = spread > 1e-6 ? spread : noise;
    // At least half an hour, and whole cycles of what repeats exactly; those of services that share have a common
    // multiple.
    for (const auto& service : workload_.services) {
      const double cycle = cycle_s(service.traffic);
      const bool repeats = !std::holds_alternative<BurstTraffic>(service.traffic);
      run_s_ = std::max(run_s_, cycle <= 0 || !repeats ? std::max(1800.0, 2 * cycle)
                                                       : cycle * std::max(1.0, std::ceil(1800 / cycle)));
      if (std::holds_alternative<TraceTraffic>(service.traffic)) run_s_ = cycle;
    }
    if (workload_.services.size() > 1) run_s_ = kSharedPeriod * std::ceil(run_s_ / kSharedPeriod - 1e-9);
  }

  void run() {
    config_.seed = Rng(seed_).stream("truth", runs_).next_u64();
    config_.duration = from_seconds(run_s_);
    config_.timeline_steps = has_trace() ? 0 : static_cast<std::size_t>(60 * std::max(1.0, run_s_ / least_cycle_s()));
    const auto result = sim::simulate(deployment_, workload_, config_);
    requests_ += result.requests;
    ++runs_;
    for (std::size_t s = 0; s < lines_.size(); ++s) {
      const auto total = result.metrics.service_total(s);
      lines_[s].shares.push_back({static_cast<double>(total.arrived), static_cast<double>(total.served)});
      if (result.metrics.timeline.empty()) continue;
      const auto& line = result.metrics.timeline[s];
      lines_[s].steps.resize(line.size());
      for (std::size_t i = 0; i < line.size(); ++i) {
        lines_[s].steps[i].first += line[i].arrived;
        lines_[s].steps[i].second += line[i].served;
      }
    }
  }
  // The share in time and its standard error.
  std::pair<double, double> share(std::size_t s = 0) const {
    double arrived = 0;
    double served = 0;
    for (const auto& [a, v] : lines_[s].shares) {
      arrived += a;
      served += v;
    }
    const double p = arrived > 0 ? served / arrived : 1;
    const auto n = static_cast<double>(runs_);
    double squares = 0;
    for (const auto& [a, v] : lines_[s].shares) squares += (v - p * a) * (v - p * a);
    return {p, n < 2 ? 1 : std::sqrt(squares * n / (n - 1)) / std::max(1.0, arrived)};
  }
  // The largest standard error of a service.
  double error() const {
    double most = 0;
    for (std::size_t s = 0; s < lines_.size(); ++s) most = std::max(most, share(s).second);
    return most;
  }
  // The share in the busiest hour of what repeats by the hour or more; that of all time otherwise.
  double busiest_hour(std::size_t s = 0) const {
    const Traffic& traffic = workload_.services[s].traffic;
    const double cycle = cycle_s(traffic);
    const bool varies =
        std::holds_alternative<DiurnalTraffic>(traffic) || std::holds_alternative<CurveTraffic>(traffic);
    const auto& line = lines_[s].steps;
    if (!varies || cycle <= 3600 || line.empty()) return share(s).first;
    // Steps of the runs, folded onto one cycle.
    const double step_s = run_s_ / static_cast<double>(line.size());
    const auto per_cycle = static_cast<std::size_t>(std::lround(cycle / step_s));
    std::vector<std::pair<double, double>> folded(per_cycle);
    for (std::size_t i = 0; i < line.size(); ++i) {
      folded[i % per_cycle].first += line[i].first;
      folded[i % per_cycle].second += line[i].second;
    }
    const auto wide = static_cast<std::size_t>(std::lround(3600 / step_s));
    double most = -1;
    double share_of_most = 1;
    for (std::size_t from = 0; from < per_cycle; ++from) {
      double arrived = 0;
      double served = 0;
      for (std::size_t i = 0; i < wide; ++i) {
        arrived += folded[(from + i) % per_cycle].first;
        served += folded[(from + i) % per_cycle].second;
      }
      if (arrived <= most) continue;
      most = arrived;
      share_of_most = served / arrived;
    }
    return share_of_most;
  }
  // Whether every promise is kept, or not, by more than eight standard errors over at least 16 runs, in the busiest hour
  // as well: no further run would change the verdict.
  bool beyond_doubt() const {
    if (runs_ < 16) return false;
    for (std::size_t s = 0; s < lines_.size(); ++s) {
      const double target = workload_.services[s].slo.percentile / 100;
      const auto [p, error] = share(s);
      const double hour_error = error * std::sqrt(cycles_h(s));
      if (std::abs(p - target) < 8 * error || std::abs(busiest_hour(s) - target) < 8 * hour_error) return false;
    }
    return true;
  }
  // The busiest hour is a part of the time, so its error is larger by the root of this.
  double cycles_h(std::size_t s) const { return std::max(1.0, cycle_s(workload_.services[s].traffic) / 3600); }
  double hours() const { return static_cast<double>(runs_) * run_s_ / 3600; }
  std::size_t runs() const { return runs_; }
  std::uint64_t requests() const { return requests_; }

 private:
  using Counts = std::vector<std::pair<double, double>>;  // Requests, and those in time.
  struct Line {
    Counts shares;  // By run.
    Counts steps;   // By step, over all runs.
  };

  bool has_trace() const {
    return std::ranges::any_of(workload_.services,
                               [](const auto& s) { return std::holds_alternative<TraceTraffic>(s.traffic); });
  }
  // Of what varies; 60 steps are counted in each.
  double least_cycle_s() const {
    double least = run_s_;
    for (const auto& service : workload_.services) {
      const double cycle = cycle_s(service.traffic);
      const bool repeats = !std::holds_alternative<BurstTraffic>(service.traffic);
      if (cycle > 0 && repeats) least = std::min(least, cycle);
    }
    return least;
  }

  Workload workload_;
  sched::Deployment deployment_;
  sim::SimulationConfig config_;
  std::uint64_t seed_;
  double run_s_ = 0;
  std::vector<Line> lines_;  // By service.
  std::size_t runs_ = 0;
  std::uint64_t requests_ = 0;
};

// Slices of one service, as slices that happen to be shared by one.
std::vector<plan::SharedGroup> as_shared(std::span<const plan::ReplicaGroup> groups) {
  std::vector<plan::SharedGroup> shared;
  for (const auto& g : groups) shared.push_back({g.device_type, g.mig_profile, g.compute_slices, {g.replica}, g.count});
  return shared;
}

// The same search with the whole truth instead of an estimate: up to a day of the traffic, less only where the answer
// is beyond doubt.
class DayCertifier final : public plan::Certifier {
 public:
  DayCertifier(const LatencyModel& model, double noise) : model_(model), noise_(noise) {}

  plan::Verdict certify(const Service& service, std::span<const plan::ReplicaGroup> groups, bool confirm) override {
    std::string key = content_key(service) + (confirm ? "|confirm" : "|look");
    for (const auto& group : groups) {
      key += fmt::format("|{}*{}", group.mig_profile, group.count);
      for (const auto& bucket : group.replica.buckets) key += fmt::format(",{}:{}", bucket.size_max, bucket.batch_size);
    }
    const auto found = verdicts_.find(key);
    if (found != verdicts_.end()) return found->second;
    Truth truth(model_, {service}, as_shared(groups), confirm ? 77 : 78, noise_);
    const double target = service.slo.percentile / 100;
    plan::Verdict verdict;
    while (truth.hours() < 24) {
      truth.run();
      const auto [p, error] = truth.share();
      if (truth.runs() == 1 && 1 - p > 5 * (1 - target)) break;
      if (truth.runs() >= 6 && std::abs(p - target) > 6 * error + 1e-9) break;
    }
    verdict.attainment = verdict.attainment_low = verdict.attainment_high =
        std::min(truth.share().first, truth.busiest_hour());
    verdict.holds = verdict.attainment >= target;
    return verdicts_.emplace(key, verdict).first->second;
  }

 private:
  const LatencyModel& model_;
  double noise_;
  std::map<std::string, plan::Verdict> verdicts_;
};

// Of this process, so that other work on the machine does not count.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

const char* name_of(const Traffic& traffic) {
  static constexpr const char* names[] = {"poisson", "constant", "bursts", "diurnal", "curve", "trace", "closed_loop"};
  return names[traffic.index()];
}

struct Summary {
  int planned = 0;
  int promises = 0;
  int broken = 0;
  double worst = 0;  // Points below the promise, of broken ones.
  int seeds_differ = 0;
  int seeds_apart = 0;  // By more than one device.
  int silent = 0;       // Differ, and no plan says that it is too close to call.
  int renamed_differ = 0;
  int nudged_differ = 0;
  int day_asked = 0;
  int day_fewer = 0;
  int day_fewer_by_more = 0;
  std::vector<double> plan_s;
};

plan::PlanAnswer plan_problem(const RandomProblem& random, const LatencyModel& model, plan::Certifier& certifier) {
  plan::Problem problem;
  problem.fleet = random.fleet;
  problem.workload = random.workload;
  problem.latency = &model;
  problem.certifier = &certifier;
  problem.options.sharing = plan::Sharing::all;  // As `tangram plan` by default.
  return plan::find_planner("elastic")->make()->plan(problem);
}

bool says_too_close(const plan::PlanAnswer& answer) {
  return std::ranges::any_of(answer.services, [](const auto& s) { return s.nearest && s.nearest->verdict.too_close; });
}

// Holds one service of a simulated set against its promise.
void judge_service(const RandomProblem& random, const plan::PlanAnswer& answer, const plan::SharedSet& set,
                   std::size_t s, const Truth& truth, std::uint64_t number, Summary& summary) {
  const auto service = std::ranges::find(random.workload.services, set.services[s], &Service::name);
  const auto part = std::ranges::find(answer.services, set.services[s], &plan::ServicePlan::service);
  const auto [p, error] = truth.share(s);
  const double target = service->slo.percentile / 100;
  const double upper = p + 1.96 * error;
  const double hour = truth.busiest_hour(s);  // It is promised, too.
  const bool broken = upper < target || hour + 1.96 * std::sqrt(truth.cycles_h(s)) * error < target;
  ++summary.promises;
  summary.broken += broken;
  if (broken) summary.worst = std::max(summary.worst, 100 * (target - std::min(p, hour)));
  fmt::print(
      "{{\"problem\": {}, \"service\": \"{}\", \"traffic\": \"{}\", \"promised\": {:.2f}, \"certified\": {:.3f}, "
      "\"certified_low\": {:.3f}, \"over\": \"{}\", \"true\": {:.3f}, \"error\": {:.3f}, \"busiest_hour\": {:.3f}, "
      "\"hours\": {:.1f}, \"shares\": {}, \"broken\": {}}}\n",
      number, service->name, name_of(service->traffic), 100 * target, 100 * part->verdict->attainment,
      100 * part->verdict->attainment_low, part->verdict->view, 100 * p, 100 * error, 100 * hour, truth.hours(),
      set.services.size(), broken);
}

// Simulates the plan and counts broken promises.
void judge(const RandomProblem& random, const LatencyModel& model, const plan::PlanAnswer& answer, std::uint64_t number,
           const Options& options, Summary& summary) {
  for (const auto& set : plan::shared_sets(answer.plan)) {
    std::vector<Service> services;
    for (const auto& name : set.services)
      services.push_back(*std::ranges::find(random.workload.services, name, &Service::name));
    Truth truth(model, services, set.groups, 1000 + number, lab::CertifyOptions{}.noise);
    while (truth.runs() < 8 ||
           (truth.error() > 0.001 && truth.hours() < options.hours_max && !truth.beyond_doubt()))
      truth.run();
    for (std::size_t s = 0; s < set.services.size(); ++s) judge_service(random, answer, set, s, truth, number, summary);
    std::fflush(stdout);
  }
}

void run_problem(std::uint64_t number, const Options& options, Summary& summary) {
  const RandomProblem random = random_problem(number, options.rate_max);
  const learn::TableModel model(random.measurements);
  std::set<int> counts;
  bool too_close = false;
  plan::PlanAnswer first;
  double plan_s = 0;
  std::string counts_text;
  for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
    lab::SimulatedCertifier certifier(model, {.seed = seed});
    const double begin = cpu_seconds();
    const auto answer = plan_problem(random, model, certifier);
    if (seed == 1) {
      plan_s = cpu_seconds() - begin;
      first = answer;
    }
    counts.insert(answer.devices);
    counts_text += fmt::format("{}{}", seed == 1 ? "" : ", ", answer.devices);
    too_close = too_close || says_too_close(answer);
  }
  if (first.status != plan::PlanStatus::planned) {
    fmt::print("{{\"problem\": {}, \"infeasible\": \"{}\"}}\n", number, first.reason);
    return;
  }
  ++summary.planned;
  summary.plan_s.push_back(plan_s);
  judge(random, model, first, number, options, summary);
  const bool differ = counts.size() > 1;
  summary.seeds_differ += differ;
  summary.seeds_apart += *counts.rbegin() - *counts.begin() > 1;
  summary.silent += differ && !too_close;
  // Renamed and in the opposite order; then at rates that are 0.01 % higher.
  RandomProblem renamed = random;
  for (auto& service : renamed.workload.services) service.name = "renamed-" + service.name;
  std::ranges::reverse(renamed.workload.services);
  RandomProblem nudged = random;
  for (auto& service : nudged.workload.services) {
    if (auto* t = std::get_if<PoissonTraffic>(&service.traffic)) t->rate_per_s *= 1.0001;
    if (auto* t = std::get_if<BurstTraffic>(&service.traffic)) t->rate_per_s *= 1.0001;
    if (auto* t = std::get_if<DiurnalTraffic>(&service.traffic)) t->rate_per_s *= 1.0001;
    if (auto* t = std::get_if<CurveTraffic>(&service.traffic)) t->scale *= 1.0001;
    if (auto* t = std::get_if<TraceTraffic>(&service.traffic)) t->speed *= 1.0001;
  }
  int changed[2] = {0, 0};
  if (options.seeds > 1) {
    lab::SimulatedCertifier one(model, {.seed = 1});
    changed[0] = plan_problem(renamed, model, one).devices - first.devices;
    lab::SimulatedCertifier other(model, {.seed = 1});
    changed[1] = plan_problem(nudged, model, other).devices - first.devices;
  }
  summary.renamed_differ += changed[0] != 0;
  summary.nudged_differ += changed[1] != 0;
  int day_devices = -1;
  if (number <= options.day) {
    DayCertifier day(model, lab::CertifyOptions{}.noise);
    day_devices = plan_problem(random, model, day).devices;
    ++summary.day_asked;
    summary.day_fewer += day_devices < first.devices;
    summary.day_fewer_by_more += day_devices < first.devices - 1;
  }
  fmt::print(
      "{{\"problem\": {}, \"devices\": [{}], \"too_close\": {}, \"renamed\": {}, \"nudged\": {}, \"day\": {}, "
      "\"alone\": {}, \"plan_s\": {:.3f}, \"certifications\": {}}}\n",
      number, counts_text, too_close, changed[0], changed[1], day_devices, first.price_alone.value_or(-1), plan_s,
      first.certifications);
  std::fflush(stdout);
}

int main_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (name == "--first") options.first = static_cast<std::uint64_t>(value);
    if (name == "--problems") options.problems = static_cast<std::uint64_t>(value);
    if (name == "--seeds") options.seeds = static_cast<std::uint64_t>(value);
    if (name == "--rate-max") options.rate_max = value;
    if (name == "--hours-max") options.hours_max = value;
    if (name == "--day") options.day = static_cast<std::uint64_t>(value);
  }
  Summary summary;
  for (std::uint64_t n = options.first; n < options.first + options.problems; ++n) run_problem(n, options, summary);
  std::ranges::sort(summary.plan_s);
  const auto at = [&](double share) {
    return summary.plan_s.empty()
               ? 0
               : summary.plan_s[static_cast<std::size_t>(share * static_cast<double>(summary.plan_s.size() - 1))];
  };
  fmt::print(
      "{{\"planned\": {}, \"promises\": {}, \"broken\": {}, \"worst_points\": {:.3f}, \"seeds_differ\": {}, "
      "\"seeds_apart\": {}, \"silent\": {}, \"renamed_differ\": {}, \"nudged_differ\": {}, \"day_asked\": {}, "
      "\"day_fewer\": {}, \"day_fewer_by_more\": {}, \"plan_s_median\": {:.3f}, \"plan_s_p90\": {:.3f}, "
      "\"plan_s_max\": {:.3f}}}\n",
      summary.planned, summary.promises, summary.broken, summary.worst, summary.seeds_differ, summary.seeds_apart,
      summary.silent, summary.renamed_differ, summary.nudged_differ, summary.day_asked, summary.day_fewer,
      summary.day_fewer_by_more, at(0.5), at(0.9), at(1));
  return 0;
}

}  // namespace
}  // namespace tangram::bench

int main(int argc, char** argv) { return tangram::bench::main_of(argc, argv); }
