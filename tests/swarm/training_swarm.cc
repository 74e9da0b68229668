// training_swarm FIRST COUNT: made-up fleets, services, training jobs and lending tables, one a seed.
//
// Each seed is simulated twice and must give the same digest. The simulation itself stops at a GPU or slice with two
// owners, at progress that falls, at a lease that does not end and at a request that is lost; here every job and every
// GPU-second is counted. Tables of needs are drawn by chance, so that inference recalls far more than it would. A
// failure prints the line that repeats it.

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/text.h"
#include "core/geometry.h"
#include "core/layout.h"
#include "lab/synthetic_training.h"
#include "lab/training_fleet.h"
#include "learn/models/analytic.h"

namespace tangram {
namespace {

char repeat_line[64];

// A failed check stops the process; the line that repeats it must be out before.
extern "C" void print_repeat_line(int) {
  std::fflush(stdout);
  const auto written = write(STDERR_FILENO, repeat_line, std::strlen(repeat_line));
  (void)written;
}

constexpr const char* kLayouts[] = {"7g.80gb@0",
                                    "4g.40gb@0 + 3g.40gb@4",
                                    "3g.40gb@0 + 3g.40gb@4",
                                    "2g.20gb@0 + 2g.20gb@2 + 3g.40gb@4",
                                    "1g.10gb@0 + 1g.10gb@1 + 2g.20gb@2",
                                    "4g.40gb@0"};

struct Case {
  Plan plan;
  Workload workload;
  learn::AnalyticModel model{std::vector<learn::AnalyticRun>{}};
  lab::TrainingSetup setup;
  sim::SimulationConfig config;
};

std::string service_name(std::int64_t number) { return fmt::format("service-{}", number); }

void draw_services(Rng& rng, Case& made) {
  const std::int64_t services = rng.integer(1, 3);
  learn::AnalyticRun run;
  run.model = "net";
  run.launch_ms = rng.uniform(1, 8);
  run.sample_ms = rng.uniform(5, 40);
  made.model = learn::AnalyticModel({run});
  for (std::int64_t s = 0; s < services; ++s) {
    Service service;
    service.name = service_name(s);
    service.model = "net";
    service.slo = {from_milliseconds(rng.uniform(50, 500)), 99};
    DiurnalTraffic traffic;
    traffic.rate_per_s = rng.uniform(1, 40);
    traffic.amplitude = rng.uniform(0, 1);
    traffic.period_s = rng.uniform(60, 600);
    service.traffic = traffic;
    made.workload.services.push_back(service);
  }
}

// The first device serves everybody, so that every service has a slice; others serve whom chance says, or nobody.
void draw_plan(Rng& rng, Case& made) {
  const std::int64_t devices = rng.integer(1, 7);
  const auto services = std::ssize(made.workload.services);
  for (std::int64_t d = 0; d < devices; ++d) {
    PlannedDevice device;
    device.name = fmt::format("gpu-{}", d);
    device.type = "a100-80gb";
    device.geometry = *find_geometry("a100-80gb");
    const char* layout = d == 0 ? kLayouts[3] : kLayouts[rng.below(std::size(kLayouts))];
    const bool own = d > 0 && rng.chance(0.2);
    std::int64_t next = 0;
    for (const auto& slice : parse_layout(device.geometry, layout).layout.slices) {
      PlannedSlice planned{slice, {}};
      const std::int64_t service = d == 0 ? next++ % services : rng.integer(0, services - 1);
      if (!own && (d == 0 || rng.chance(0.85))) {
        planned.replicas = {{service_name(service), {{1, 8}}, static_cast<int>(rng.integer(1, 2))}};
      }
      device.slices.push_back(planned);
    }
    made.plan.devices.push_back(device);
  }
}

void draw_training(Rng& rng, std::uint64_t seed, Case& made) {
  for (int a = 0; a < 2; ++a) {
    lab::SyntheticApplication application;
    application.name = fmt::format("net-{}", a);
    application.epochs = static_cast<int>(rng.integer(1, 6));
    application.epoch_steps = rng.uniform(20, 400);
    application.batch_max = static_cast<int>(rng.integer(32, 512));
    application.worker_batch_max = static_cast<int>(rng.integer(8, 128));
    application.restart_full_s = std::floor(rng.uniform(0, 40));
    application.restart_fast_s = std::floor(application.restart_full_s / 8);
    made.setup.applications.emplace(application.name, lab::application_of(application));
    made.setup.restart_costs[application.name] = {application.restart_full_s, application.restart_fast_s};
  }
  const lab::SyntheticJobs jobs{static_cast<int>(rng.integer(1, 15)), rng.uniform(1, 80), {}};
  made.setup.jobs = lab::jobs_of(jobs, made.setup.applications, seed);
  constexpr const char* kAllocators[] = {"tangram", "tangram", "deepboot", "tiresias", "afs", "sia"};
  made.setup.allocator = kAllocators[rng.below(std::size(kAllocators))];
  made.setup.lend = rng.chance(0.6) ? lab::LendMode::slices : lab::LendMode::whole_gpu;
  made.setup.overtime_s = 50000;
  made.setup.gpus_per_node = static_cast<int>(rng.integer(1, 4));
  made.setup.interval_s = rng.chance(0.5) ? 60 : 20;
  made.setup.restart = rng.chance(0.7) ? train::RestartKind::fast : train::RestartKind::full;
  made.setup.lending.guard = from_seconds(rng.uniform(0, 20));
  made.setup.lending.window = from_seconds(rng.uniform(2, 20));
  if (rng.chance(0.5)) made.setup.slice_speeds = {{1, 0.2}, {2, 0.35}, {3, 0.5}, {4, 0.6}, {7, 1}};
}

Case draw(std::uint64_t seed) {
  Rng rng(seed);
  Case made;
  draw_services(rng, made);
  draw_plan(rng, made);
  draw_training(rng, seed, made);
  made.config.seed = seed;
  made.config.duration = from_seconds(rng.uniform(50, 900));
  made.config.faults.recall_s = rng.uniform(0, 10);
  if (rng.chance(0.3)) made.config.faults.slice_lost_mean_s = 120;
  if (rng.chance(0.2)) made.config.faults.fail_probability = 0.02;
  return made;
}

// Slices in any order, and needs that only grow with the rate.
std::vector<sched::ServiceNeeds> draw_needs(Rng rng, const Case& made, const sched::Deployment& deployment) {
  std::vector<sched::ServiceNeeds> needs(made.workload.services.size());
  for (std::uint32_t i = 0; i < deployment.places.size(); ++i) {
    const auto& at = deployment.places[i];
    auto& mine = needs[deployment.pools[at.pool.index()].services[0].service.index()].slices;
    const auto same = std::ranges::find_if(mine, [&](const auto& slice) {
      const auto& other = deployment.places[slice.front().index()];
      return other.device == at.device && other.slice.start == at.slice.start;
    });
    if (same != mine.end()) {
      same->push_back(SliceId(i));
    } else {
      mine.push_back({SliceId(i)});
    }
  }
  for (auto& service : needs) {
    std::size_t count = 1;
    for (double rate = 2; rate < 60 && rng.chance(0.9); rate += rng.uniform(1, 20)) {
      count = std::min(service.slices.size(), count + rng.below(2));
      service.needs.push_back({rate, count});
    }
  }
  return needs;
}

struct Answer {
  sim::SimulationResult simulation;
  lab::TrainingResult training;
};

Answer run(const Case& made) {
  const auto deployment = sched::compile(made.plan, made.workload, made.model);
  TANGRAM_CHECK(deployment.ok(), "the plan fits the services");
  lab::TrainingFleet fleet(made.setup, made.plan, draw_needs(Rng(made.config.seed).stream("needs"), made, *deployment),
                           30);
  sim::SimulationConfig config = made.config;
  config.lessee = &fleet;
  Answer answer;
  answer.simulation = sim::simulate(*deployment, made.workload, config);
  answer.training = fleet.result();
  return answer;
}

// With a GPU that is training's own, every job of an allocator that prices changes ends. Without one, nothing may ever
// be lent; a job of a fixed size may be too large; and where changes cost nothing, two jobs may take turns for ever.
bool must_end(const Case& made) {
  const bool own = std::ranges::any_of(made.plan.devices, [](const PlannedDevice& device) {
    return std::ranges::all_of(device.slices, [](const auto& slice) { return slice.replicas.empty(); });
  });
  return own && (made.setup.allocator == "tangram" || made.setup.allocator == "deepboot");
}

std::string judge(const Case& made, const Answer& first, const Answer& second) {
  if (first.simulation.digest != second.simulation.digest) return "two runs differ in their requests";
  if (first.training.jcts_s != second.training.jcts_s) return "two runs differ in their jobs";
  if (first.simulation.metrics.total().arrived != first.simulation.requests) return "a request was not counted";
  const auto& training = first.training;
  if (training.jcts_s.size() > training.jobs) return "more jobs ended than there were";
  if (training.jcts_s.size() < training.jobs && must_end(made)) return "a job was lost";
  for (const auto& step : training.timeline) {
    if (std::abs(step.sum() - training.gpus) > 1e-6) return "the owners do not add up to the fleet";
    for (const double gpus : {step.training, step.running, step.guarded, step.asleep, step.free}) {
      if (gpus < -1e-9) return "somebody owns less than nothing";
    }
  }
  if (training.reclaims > 0 && training.leases == 0) return "reclaims without leases";
  return {};
}

int run_seeds(std::uint64_t first, std::uint64_t count) {
  std::uint64_t ended = 0;
  std::uint64_t jobs = 0;
  std::int64_t leases = 0;
  std::int64_t reclaims = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string line = fmt::format("repeat: training_swarm {} 1\n", seed);
    std::strncpy(repeat_line, line.c_str(), sizeof repeat_line - 1);
    const Case made = draw(seed);
    const Answer answer = run(made);
    const std::string wrong = judge(made, answer, run(made));
    if (!wrong.empty()) {
      fmt::print(stderr, "seed {}: {}\n{}", seed, wrong, line);
      return 1;
    }
    ended += answer.training.jcts_s.size();
    jobs += answer.training.jobs;
    leases += answer.training.leases;
    reclaims += answer.training.reclaims;
  }
  fmt::print("{} seeds: {} of {} jobs ended, {} leases, {} reclaims\n", count, ended, jobs, leases, reclaims);
  if (count >= 100 && (leases == 0 || reclaims == 0 || ended * 2 < jobs)) {
    fmt::print(stderr, "the swarm tries nothing\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tangram

int main(int argc, char** argv) {
  std::signal(SIGABRT, tangram::print_repeat_line);
  const auto first = argc > 1 ? tangram::text::parse_integer(argv[1]) : std::nullopt;
  const auto count = argc > 2 ? tangram::text::parse_integer(argv[2]) : std::nullopt;
  if (!first || !count) {
    fmt::print(stderr, "usage: training_swarm FIRST COUNT\n");
    return 2;
  }
  return tangram::run_seeds(static_cast<std::uint64_t>(*first), static_cast<std::uint64_t>(*count));
}
