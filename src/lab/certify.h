// Promises held against the simulator, with the scheduler that will serve.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/latency_model.h"
#include "lab/traffic_design.h"
#include "plan/demand.h"
#include "plan/problem.h"
#include "sched/deployment.h"
#include "sched/scheduler.h"
#include "sim/simulation.h"

namespace tangram::lab {

struct CertifyOptions {
  std::uint64_t seed = 1;
  // Simulated requests after which a question that is too close to call is given up. Most take a tenth of it.
  std::uint64_t requests_look = 250'000;
  std::uint64_t requests_confirm = 2'000'000;
  // The probability that a promise is certified which does not hold, for one service of a plan.
  double error = 0.05;
  // A search confirms a service at most this often; the error is divided among these.
  int confirmations = 10;
  // A question is decided, on the safe side, when the interval is this share of the requests that may be late.
  double indifference = 0.05;
  // Names the random numbers of confirmations, so that a finished plan can be checked with others than those that let
  // it pass; see checking().
  std::string confirm_stream = "confirm";
  // The spread of run times where neither measurements nor the learned model have any.
  double noise = 0.05;
  double rate_scale = 1;
  sched::SchedulerConfig scheduler = {};

  // For certifying an existing plan again. Its random numbers are those of no search and no confirmation, whatever the
  // seed, and there is one answer for each service, so that it has the whole error.
  CertifyOptions checking() const;
};

// The spread of run times that puts their p99 where the model has it, at the widest.
double noise_spread(const sched::Deployment& deployment);

// How fast the slices of a deployment are for one of its services.
SlicePower power_of(const sched::Deployment& deployment, ServiceId service, const std::vector<plan::SizeShare>& sizes,
                    double samples_mean);

// Simulates a service alone on its replicas, with parts of its traffic as TrafficDesign chooses them. A promise holds
// when the lower end of the interval is at least the percentile in the long run, for traffic that varies by the hour
// also in the busiest hour, and with Slo::window_s in the busiest window. Then 95 % of the busiest windows have to keep
// the percentile one by one, too. The same question is simulated once: services are told apart by content_key(), so
// that neither the name of a service nor the order of questions matters.
class SimulatedCertifier final : public plan::Certifier {
 public:
  SimulatedCertifier(const LatencyModel& model, CertifyOptions options = {})
      : model_(model), options_(std::move(options)) {}

  plan::Verdict certify(const Service& service, std::span<const plan::ReplicaGroup> groups, bool confirm) override;
  // All services on the slices that they share. Services of steady traffic are judged in one run, with those whose rate
  // varies at their busiest; each of these is judged in runs of its own, with all others at their busiest.
  std::vector<plan::Verdict> certify_together(std::span<const Service> services,
                                              std::span<const plan::SharedGroup> groups, bool confirm) override;

  std::uint64_t requests_simulated() const { return requests_; }

 private:
  // What is derived from a service alone, remembered: a trace may have a million requests, and a search asks hundreds
  // of questions about it.
  struct KnownService {
    double rate_per_s = 0;  // To plan for.
    std::vector<plan::SizeShare> sizes;
    double samples_mean = 1;
    Service bare;  // Without its traffic.
  };
  // The service without its traffic, which a long trace would make large. What is known of a service serves all that
  // behave alike, so name, weights and tensors are its own.
  Service bare(const Service& service);
  const KnownService& known_service(const Service& service, const std::string& key);
  // The compiled run times of one replica group on the buckets `edges`, made once for equal groups. A bucket that the
  // group does not serve has batch_max 0.
  const sched::PoolService& pool_service(const Service& service, const std::vector<std::int64_t>& edges,
                                         const plan::ReplicaGroup& group);
  // Answers a question that has not been asked before, by a sequential test. Cost: `requests_look` or
  // `requests_confirm` simulated requests at most, and one replicate more.
  plan::Verdict simulate(const Service& service, const KnownService& known, std::span<const plan::ReplicaGroup> groups,
                         bool confirm);
  // Holds the whole trace of a service against the promise of a verdict that holds otherwise.
  void check_whole_trace(const Service& asked, const sched::Deployment& deployment, const Service& bare,
                         sim::SimulationConfig config, plan::Verdict& verdict);
  // Holds the windows of Slo::window_s against the promise of a verdict that holds otherwise.
  void check_windows(const TrafficDesign& design, const sched::Deployment& deployment, const Service& bare,
                     sim::SimulationConfig config, bool confirm, plan::Verdict& verdict);
  // Services that share slices while they are judged; see certify_together.cc.
  struct Together;
  std::vector<plan::Verdict> simulate_together(std::span<const Service> services,
                                               std::span<const plan::SharedGroup> groups, bool confirm);
  bool loads_known(std::span<const Service> services, std::span<const plan::SharedGroup> groups) const;
  sched::Deployment deploy_together(std::span<const Service> services, std::span<const plan::SharedGroup> groups);
  // Judges the services of steady traffic, or the one whose rate varies, and fills in their verdicts. False if a look
  // ended early, because a promise is broken.
  bool judge(Together& together, std::span<const std::size_t> judged, bool confirm);

  // The service alone on its replicas, all slices on one device.
  sched::Deployment deploy(const Service& service, std::span<const plan::ReplicaGroup> groups);

  const LatencyModel& model_;
  CertifyOptions options_;
  std::map<std::string, sched::PoolService> compiled_;
  std::map<std::string, KnownService> services_;   // By content_key().
  std::map<std::string, plan::Verdict> verdicts_;  // A question asked again has the same answer.
  std::map<std::string, std::vector<plan::Verdict>> verdicts_together_;
  std::uint64_t requests_ = 0;
};

}  // namespace tangram::lab
