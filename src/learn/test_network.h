// A network with known behaviour, for tests and benchmarks.
#pragma once

#include <cmath>

#include "core/measurement.h"

namespace tangram::learn {

// On an A100-80GB: 5 ms of launching, 2 ms of work a sample on one compute slice that scales with compute alone, and
// 2 GiB + 200 MiB a sample of memory. All run times are exact.
struct TestNetwork {
  std::string model = "net";
  double launch_ms = 5;
  double work_ms = 2;

  Measurement run(const char* profile, int slices, double gib, std::int64_t batch, std::int64_t processes = 1) const {
    Measurement m;
    m.device = "a100-80gb";
    m.mig_profile = profile;
    m.model = model;
    m.batch = batch;
    m.processes = processes;
    const auto count = static_cast<double>(processes);
    const double memory_gib = count * (2 + 0.2 * static_cast<double>(batch));
    const double work = count * work_ms * static_cast<double>(batch + 1) / slices;
    if (memory_gib < gib) m.latency_ms = std::pow(std::pow(launch_ms, 6) + std::pow(work, 6), 1.0 / 6);
    return m;
  }

  // Batches 1 to 256 by powers of two and `processes` processes on the five plain profiles.
  Measurements table(std::int64_t processes_max = 1) const {
    Measurements all;
    for (std::int64_t p = 1; p <= processes_max; ++p) {
      for (std::int64_t b = 1; b <= 256; b *= 2) {
        all.push_back(run("1g.10gb", 1, 9.5, b, p));
        all.push_back(run("2g.20gb", 2, 19.5, b, p));
        all.push_back(run("3g.40gb", 3, 39.25, b, p));
        all.push_back(run("4g.40gb", 4, 39.25, b, p));
        all.push_back(run("7g.80gb", 7, 78.75, b, p));
      }
    }
    return all;
  }
};

}  // namespace tangram::learn
