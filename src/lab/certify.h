// Promises held against the simulator, with the very scheduler that will serve.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/latency_model.h"
#include "plan/problem.h"
#include "sched/deployment.h"
#include "sched/scheduler.h"
#include "sim/simulation.h"

namespace tangram::lab {

struct CertifyOptions {
  std::uint64_t seed = 1;
  std::uint64_t runs = 8;         // Independent ones; the confidence comes from how they differ.
  std::uint64_t requests = 5000;  // Of each run; the first tenth is not counted.
  std::uint64_t requests_confirm = 20000;
  // A queue near its capacity takes long to show what it does: what holds when it is confirmed has to hold in one run
  // of so many seconds, too, or of `endure_requests_max`. 0: no such run.
  double endure_s = 40;
  std::uint64_t endure_requests_max = 200'000;
  double deviations = 1.895;  // Student's t: one-sided 95 % for eight runs.
  double rate_scale = 1;
  sched::SchedulerConfig scheduler = {};
};

// The spread of run times that puts their p99 where the model has it, at the widest.
double noise_spread(const sched::Deployment& deployment);

// Simulates a service alone on its replicas. Poisson arrivals at the rate that the planner plans for; bursts, traces
// and closed loops as they are. A promise holds when its percentile is kept at the lower end of the confidence
// interval. The same question is simulated once: services are told apart by content_key() at the planning rate, so that
// neither the name of a service nor the order of questions matters.
class SimulatedCertifier final : public plan::Certifier {
 public:
  SimulatedCertifier(const LatencyModel& model, CertifyOptions options = {})
      : model_(model), options_(std::move(options)) {}

  plan::Verdict certify(const Service& service, std::span<const plan::ReplicaGroup> groups, bool confirm) override;

  std::uint64_t requests_simulated() const { return requests_; }

 private:
  // The compiled run times of one replica group on the buckets `edges`, made once for equal groups. A bucket that the
  // group does not serve has batch_max 0.
  const sched::PoolService& pool_service(const Service& service, const std::vector<std::int64_t>& edges,
                                         const plan::ReplicaGroup& group);
  // Answers a question that has not been asked before. Cost: up to `runs` simulations, and one long one if confirmed.
  plan::Verdict simulate(const Service& service, std::span<const plan::ReplicaGroup> groups, bool confirm);
  // One run of `endure_s` seconds with a seed of its own. True if it keeps the promise, or would be no longer than the
  // runs so far.
  bool endures(const Service& service, const sched::Deployment& deployment, const Workload& workload,
               sim::SimulationConfig config);
  // The service alone on its replicas, all slices on one device.
  sched::Deployment deploy(const Service& service, std::span<const plan::ReplicaGroup> groups);

  const LatencyModel& model_;
  CertifyOptions options_;
  std::map<std::string, sched::PoolService> compiled_;
  std::map<std::string, plan::Verdict> verdicts_;  // A question asked again has the same answer.
  std::uint64_t requests_ = 0;
};

}  // namespace tangram::lab
