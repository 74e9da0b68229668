// The published result of PARIS and ELSA, on measured profiles.
//
// One model on a fixed budget of compute slices serves queries that hold several samples each. For every way of
// cutting the budget and every dispatch policy, the highest rate is sought that keeps the p95 within the Slo and the
// p99, or strictly the p99.9, within three. The scheduler serves as it does by default, under an Slo that asks for late
// answers until three Slos have passed, or under one that does not; a query that it rejects counts as never answered.
// The queue may not grow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/measurement.h"
#include "experiments/detail/query_judge.h"
#include "sched/scheduler.h"

namespace tangram::experiments {

struct ParisElsaSetting {
  std::string model;
  int compute_slices = 0;
  double mu = 1;  // Of the log-normal number of samples in a query.
  double sigma = 0.9;
  std::int64_t samples_max = 32;
  double slo_factor = 1.5;  // Slo = this times the run time of the largest query on seven compute slices.
};

// The eleven settings of the reference. Where not all of their models were measured: those whose model was, and one
// setting for every other model.
std::vector<ParisElsaSetting> paris_elsa_settings(const Measurements& measurements);

// Why nothing can be said about the setting whatever the cut and the policy, with the row that is missing; nothing
// where something can.
std::optional<std::string> paris_elsa_missing(const Measurements& measurements, const ParisElsaSetting& setting);

// "homogeneous-1", "homogeneous-2", "homogeneous-3", "homogeneous-7", "random", "paris". Beside these there is
// "elastic": the cut that carries most with the cell's policy, found by search.
std::vector<std::string> paris_elsa_partitionings();

struct ParisElsaCell {
  ParisElsaSetting setting;
  std::string partitioning;
  std::string policy;
  bool merge = false;   // Queries may share a batch.
  bool single = false;  // Queries hold one sample each: the usual serving case.
  std::uint64_t seed = 7;
  std::uint64_t queries = 60000;
  // Slo::late_limit of the service: how long late queries are still answered, in Slos. 3 is what the judge asks of the
  // p99; 1 is the default of a service, which rejects a query as soon as it cannot be in time.
  double late_limit = 3;
  std::vector<int> counts;  // The cut, as ParisElsaResult::counts; empty: what `partitioning` names.
  sched::PolicyConfig policy_config;
};

// A highest rate, and what the queries saw at that rate. An infinite latency belongs to a query that was not answered.
struct ParisElsaRate {
  double qps = 0;  // 0: infeasible at any rate.
  double p50_ms = 0;
  double p95_ms = 0;
  double p99_ms = 0;
  double p999_ms = 0;
  double busy_share = 0;  // Of compute slices.
  std::vector<detail::SamplesGroup> groups;
};

struct ParisElsaResult {
  ParisElsaRate rate;               // With the p95 within the Slo and the p99 within three.
  ParisElsaRate strict;             // With the p99.9 within three as well.
  std::vector<int> counts;          // Slices of 1, 2, 3, 4 and 7 compute slices.
  std::vector<std::int64_t> knees;  // Of PARIS; empty for other partitionings.
  double slo_ms = 0;
  double capacity_qps = 0;  // No policy answers every query at a higher rate for ever; see detail/cut_capacity.h.
  double bound_qps = 0;     // On no cut: the budget over the least compute-slice seconds that a query costs.
};

// What an independent simulator found for the same cell, in queries a second; 0: infeasible; nothing: not published.
// Only for queries of several samples that run alone.
std::optional<double> paris_elsa_reference(const ParisElsaCell& cell);

// The cut of the budget that carries most with the policy of the cell, by search. Where queries run alone it is the one
// that gains most over the published cuts by the criterion by which it gains least. It draws other random numbers than
// run_paris_elsa does with the seeds after the one of the cell.
std::vector<int> elastic_cut(const Measurements& measurements, const ParisElsaCell& cell);

ParisElsaResult run_paris_elsa(const Measurements& measurements, const ParisElsaCell& cell);

// What the queries of the cell see at the given rate on cell.counts, which may not be empty; the rate may be above the
// capacity.
detail::QueryVerdict judge_paris_elsa(const Measurements& measurements, const ParisElsaCell& cell, double qps);

}  // namespace tangram::experiments
