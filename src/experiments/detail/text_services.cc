#include "experiments/detail/text_services.h"

#include <iterator>

#include "plan/demand.h"

namespace tangram::experiments::detail {

Workload make_workload(const ElasticBatchInput& input, const ElasticBatchSetting& setting) {
  Workload workload;
  for (const auto& model : input.models) {
    Service service;
    service.name = service.model = model;
    service.slo = {from_milliseconds(setting.slo_ms), 99};
    service.traffic = PoissonTraffic{setting.rate_per_s};
    service.input_size = setting.lengths.sizes;
    // As a histogram: the same sizes, drawn faster.
    HistogramSize histogram;
    for (const auto& [size, share] : plan::size_shares(service)) histogram.bins.push_back({size, share});
    service.input_size = std::move(histogram);
    workload.services.push_back(std::move(service));
  }
  return workload;
}

plan::Problem make_problem(const ElasticBatchInput& input, const LatencyModel& latency, Workload workload,
                           plan::Bucketing bucketing, plan::Certifier* certifier) {
  plan::Problem problem;
  DeviceGroup group;
  group.name = group.type = input.device;
  group.profiles = ProfileSet::base;
  problem.fleet.groups = {group};
  problem.workload = std::move(workload);
  problem.latency = &latency;
  problem.options.rule = plan::Rule::certified;
  problem.options.bucketing = bucketing;
  problem.options.edges.assign(std::begin(kFixedEdges), std::end(kFixedEdges));
  problem.certifier = certifier;
  return problem;
}

}  // namespace tangram::experiments::detail
