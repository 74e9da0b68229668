// The results of a simulation for people and programs: numbers, CSV, HTML and a trace for Perfetto.
//
// Everything is text or a value; the caller decides where it goes. The same run gives the same bytes: nothing here
// depends on how long the machine took.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/run_scenario.h"
#include "lab/scenario.h"
#include "sim/simulation.h"

namespace tangram::report {

// The head of every file, with which a result can be reproduced.
struct ReportHead {
  std::string program;        // "tangram 0.1.0"
  std::string commit;         // Empty where it is not known.
  std::string configuration;  // effective_configuration().
  std::uint64_t seed = 1;
};

// Queued requests, as arrivals find them.
struct QueueView {
  double mean = 0;
  std::uint64_t p50 = 0;
  std::uint64_t p99 = 0;
  std::uint64_t max = 0;
};

// Counts of a service, bucket or tenant with the rates that follow from them. Shares lie between 0 and 1.
struct TallyView {
  std::string name;
  sim::Tally tally;
  double arrived_per_s = 0;
  double goodput_per_s = 0;  // Answered in time.
  std::optional<Slo> slo;    // Of a service.
  double batch_mean = 0;  // Samples; of a service or bucket. 0: no batch, or those of the service whose queue it joins.
  std::uint64_t cold_starts = 0;  // Batches that had to load their model first; of a service or all.
  double padding_share = 0;       // Share of the answered input that was padding.
  QueueView queue;
  std::size_t number = 0;  // Of a bucket, among those of its service.
  // False: no request was counted, and neither shares nor promises say anything.
  bool counted() const { return tally.arrived > 0; }
  // True if the share in time is at least the percentile of the Slo. Without requests, or an Slo, it is kept.
  bool kept() const { return !slo || 100 * tally.slo_attainment() >= slo->percentile; }
};

struct SliceView {
  std::string device;
  std::string slice;  // "3g.40gb@4", with "#1" for the second process on it.
  DeviceId device_id;
  Slice place;
  int process = 0;
  bool first_plan = true;     // Otherwise it came with a later one.
  double compute_slices = 0;  // Its share of them, where processes divide the slice.
  std::vector<std::string> services;
  double busy_share = 0;
  double useful_share = 0;  // Busy time less padding and less what fuller batches would have saved.
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  std::uint64_t served = 0;
  std::uint64_t late = 0;
  double goodput_per_s = 0;
  double padding_share = 0;
  double queue_mean = 0;  // Requests that wait for this slice alone, at the start of its batches.
  std::uint64_t queue_max = 0;
  std::optional<QuantileSketch> latency;  // Of what it answered; nothing in a large fleet.
};

struct RunView {
  std::string policy;
  TallyView total;
  std::vector<TallyView> services;
  std::vector<std::vector<TallyView>> buckets;  // By service; named "up to 64".
  std::vector<TallyView> tenants;               // Empty if there is only one.
  std::vector<SliceView> slices;
  double counted_s = 0;  // Virtual time in which the counted requests came; rates are over it.
  double end_s = 0;      // When the last request was resolved; shares of busy time are over it.
  std::uint64_t requests = 0;
  std::uint64_t batches = 0;
  std::uint64_t events = 0;
  std::uint64_t digest = 0;
  // Of the compute slices that the plan gives to services. Where it changes on the way, each plan counts from when it
  // is to come into force, so that the time of re-cutting is idle time. Nothing if there are none, or no time passes.
  std::optional<double> busy_share;
  std::optional<double> useful_share;
  double padding_share = 0;
  bool kept() const;  // By every service.
};

RunView view_of(const lab::Scenario& scenario, const lab::Run& run);

// What happened, in a few sentences: whether each Slo was kept, which service had the least to spare and when it
// lost most, and which slices worked most and least. Plain text.
std::vector<std::string> story_of(const RunView& view, const lab::Run& run);

// The share of requests that were in time, such as "99.53 %"; "-" where no request was counted.
std::string in_time_text(const TallyView& view);

// `policy,at_s,service,arrived,served,late,lost,queue_max`, a row for each step and service, after comment lines with
// the head. Empty rows for runs without a time line.
std::string timeline_csv(const ReportHead& head, const lab::Scenario& scenario, std::span<const lab::Run> runs);

// Chrome's trace format, which Perfetto opens: a track for each slice, a counter for what arrives.
std::string perfetto_trace(const ReportHead& head, const lab::Scenario& scenario, std::span<const lab::Run> runs);

// Every decision with its instant, if they were logged.
std::string decision_log(const ReportHead& head, std::span<const lab::Run> runs);

// One page that needs nothing but itself. Runs should have a time line of the same steps and their first batches
// recorded. With several runs it begins with their comparison.
std::string html_report(const ReportHead& head, const lab::Scenario& scenario, std::span<const lab::Run> runs);

// The part of that page about training: the owners of the GPUs, the completion times of jobs, and the leases.
std::string training_html(const lab::TrainingResult& training);

}  // namespace tangram::report
