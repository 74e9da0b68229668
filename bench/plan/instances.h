// The problems that planning is timed on.
//
// Services run models whose latencies are those of ParvaGPU's profiles times a factor drawn from 0.5 to 2, at rates
// drawn log-uniformly from 1 to 2,000 a second. Without the public data (TANGRAM_DATA names its folder) a family of
// models with similar curves takes their place, so that the benchmarks run anywhere.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "plan/problem.h"

namespace tangram::plan::bench {

// Seconds that a batch takes, by compute slices, batch and processes.
struct NetworkProfile {
  std::map<std::array<std::int64_t, 3>, double> seconds;
  std::vector<double> slo_ms;
};

inline std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

// model,mig_gpcs,batch_size,mps_procs,throughput_req_s,latency_s,feasible. The throughput is that of one process; it
// has more digits than the latency. Empty where there is no such file.
inline std::vector<NetworkProfile> read_networks(const std::string& folder) {
  std::map<std::string, NetworkProfile> networks;
  std::ifstream profiles(folder + "/parvagpu/profiles.csv");
  std::string line;
  std::getline(profiles, line);
  while (std::getline(profiles, line)) {
    const auto cells = split(line);
    if (cells.size() < 7 || cells[6] != "1") continue;
    const std::int64_t batch = std::stoll(cells[2]);
    networks[cells[0]].seconds[{std::stoll(cells[1]), batch, std::stoll(cells[3])}] =
        static_cast<double>(batch) / std::stod(cells[4]);
  }
  std::ifstream scenarios(folder + "/parvagpu/scenarios.csv");
  std::getline(scenarios, line);
  while (std::getline(scenarios, line)) {
    const auto cells = split(line);
    if (cells.size() >= 4) networks[cells[1]].slo_ms.push_back(std::stod(cells[2]));
  }
  std::vector<NetworkProfile> list;
  for (auto& [name, network] : networks) list.push_back(std::move(network));
  return list;
}

// A fixed part, a part that grows with the batch and shrinks with the slice, and processes that share what is idle.
inline std::vector<NetworkProfile> made_up_networks() {
  std::vector<NetworkProfile> networks;
  Rng rng = Rng(7).stream("networks");
  for (int n = 0; n < 11; ++n) {
    NetworkProfile network;
    const double fixed_ms = rng.uniform(3, 15);
    const double sample_ms = rng.uniform(0.2, 3);
    const double largest_on_one = std::exp2(static_cast<double>(rng.integer(4, 7)));
    for (const std::int64_t slices : {1, 2, 3, 4, 7}) {
      for (std::int64_t batch = 1; batch <= 256; batch *= 2) {
        for (std::int64_t processes = 1; processes <= 5; ++processes) {
          const auto b = static_cast<double>(batch);
          const auto p = static_cast<double>(processes);
          if (b * p > largest_on_one * static_cast<double>(slices)) continue;
          const double work_ms = sample_ms * b / std::pow(static_cast<double>(slices), 0.9);
          network.seconds[{slices, batch, processes}] = 1e-3 * std::max(fixed_ms + work_ms, p * work_ms * 1.05);
        }
      }
    }
    const double alone_ms = 1e3 * network.seconds.at({1, 1, 1});
    network.slo_ms = {5 * alone_ms, 9 * alone_ms, 15 * alone_ms, 40 * alone_ms};
    networks.push_back(std::move(network));
  }
  return networks;
}

inline bool data_is_present() {
  const char* place = std::getenv("TANGRAM_DATA");
  return place != nullptr && !read_networks(place).empty();
}

inline const std::vector<NetworkProfile>& networks() {
  static const std::vector<NetworkProfile> kNetworks = [] {
    const char* place = std::getenv("TANGRAM_DATA");
    auto read = place != nullptr ? read_networks(place) : std::vector<NetworkProfile>{};
    return read.empty() ? made_up_networks() : read;
  }();
  return kNetworks;
}

// Model "17" is that of service 17: a network with its own factor. An input of the full size takes as long as was
// measured, and shorter ones less: a quarter is fixed and the rest is in proportion.
class ScaledNetworks final : public LatencyModel {
 public:
  struct Entry {
    const NetworkProfile* network = nullptr;
    double factor = 1;
    std::int64_t full_size = 1;
  };
  std::vector<Entry> entries;

  std::optional<Prediction> predict(const RunPoint& point) const override {
    std::size_t index = 0;
    std::from_chars(point.model.data(), point.model.data() + point.model.size(), index);
    const Entry& entry = entries[index];
    // "3g.40gb" has three compute slices.
    const auto at = entry.network->seconds.find({point.mig_profile[0] - '0', point.batch, point.processes});
    if (at == entry.network->seconds.end()) return std::nullopt;
    const double share = static_cast<double>(point.size) / static_cast<double>(entry.full_size);
    const double device = point.device.starts_with("h100") ? 0.6 : point.device.starts_with("a30") ? 1.3 : 1;
    const Duration run = from_seconds(at->second * entry.factor * device * (0.25 + 0.75 * share));
    return Prediction{run, run};
  }
};

struct Instance {
  ScaledNetworks model;
  Problem problem;  // Refers to `model`.
};

struct InstanceOptions {
  std::size_t services = 11;
  std::uint64_t seed = 1;
  bool sizes = false;  // Log-normal input sizes up to 512 in five buckets; otherwise all inputs are alike.
  bool tight = false;  // Promises of 2.5 to 8 times the fastest run instead of published ones: large slices matter.
  bool mixed = false;  // A30, A100 and H100, each with its price, for the lowest price instead of the fewest devices.
};

inline constexpr std::int64_t kFullSize = 512;

inline double fastest_run(const NetworkProfile& network) {
  double least = 1e9;
  for (const auto& [key, seconds] : network.seconds) least = std::min(least, seconds);
  return least;
}

inline Fleet make_fleet(bool mixed) {
  Fleet fleet;
  for (const auto& [type, price] :
       std::array<std::pair<const char*, double>, 3>{{{"a100-80gb", 3.67}, {"a30", 1.13}, {"h100-80gb", 6.98}}}) {
    DeviceGroup group;
    group.name = group.type = type;
    group.profiles = ProfileSet::base;
    group.price_per_hour = price;
    fleet.groups.push_back(group);
    if (!mixed) break;
  }
  return fleet;
}

inline Service draw_service(Rng& rng, const InstanceOptions& options, std::size_t index, ScaledNetworks& model) {
  const auto& network = networks()[rng.below(networks().size())];
  const double factor = rng.uniform(0.5, 2);
  model.entries.push_back({&network, factor, options.sizes ? kFullSize : 1});
  Service service;
  service.name = "service" + std::to_string(index);
  service.model = std::to_string(index);
  // A published promise, made longer with the latencies where they are.
  const double published_ms = network.slo_ms[rng.below(network.slo_ms.size())] * std::max(1.0, factor);
  const double tight_ms = 1e3 * factor * fastest_run(network) * std::exp(rng.uniform(std::log(2.5), std::log(8.0)));
  service.slo.latency = from_milliseconds(options.tight ? tight_ms : published_ms);
  service.traffic = PoissonTraffic{std::exp(rng.uniform(0, std::log(2000.0)))};
  if (options.sizes) service.input_size = LogNormalSize{rng.uniform(40, 160), 0.7, 1, kFullSize};
  return service;
}

inline std::unique_ptr<Instance> make_instance(const InstanceOptions& options) {
  auto instance = std::make_unique<Instance>();
  Rng rng = Rng(options.seed).stream("instance");
  for (std::size_t s = 0; s < options.services; ++s) {
    instance->problem.workload.services.push_back(draw_service(rng, options, s, instance->model));
  }
  instance->problem.fleet = make_fleet(options.mixed);
  instance->problem.latency = &instance->model;
  auto& plan = instance->problem.options;
  plan.rule = Rule::half;
  plan.objective = options.mixed ? Objective::price : Objective::devices;
  plan.processes_max = 5;
  plan.batches = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  plan.bucketing = options.sizes ? Bucketing::fixed : Bucketing::longest;
  if (options.sizes) plan.edges = {64, 128, 192, 320, kFullSize};
  return instance;
}

}  // namespace tangram::plan::bench
