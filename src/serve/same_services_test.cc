#include "serve/same_services.h"

#include <gtest/gtest.h>

#include <functional>

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

Workload workload() {
  Workload workload;
  workload.services.push_back({.name = "rank",
                               .model = "encoder",
                               .slo = {.latency = 100ms},
                               .traffic = PoissonTraffic{30},
                               .input_size = HistogramSize{"sizes.csv", {{.size = 4, .weight = 1}}}});
  return workload;
}

// Whether `change` of the service, or of the roster, is noticed.
bool noticed(const std::function<void(sched::Roster&, Service&)>& change) {
  const sched::Roster before = sched::Roster::of(workload());
  sched::Roster after = before;
  change(after, after.workload.services[0]);
  return !same_services(before, after);
}

TEST(SameServices, NoticesEveryChange) {
  EXPECT_FALSE(noticed([](sched::Roster&, Service&) {}));
  EXPECT_TRUE(noticed([](sched::Roster& r, Service&) { r.removed[0] = true; }));
  EXPECT_TRUE(noticed([](sched::Roster& r, Service&) { r.workload.services.pop_back(); }));
  EXPECT_TRUE(noticed([](sched::Roster&, Service& s) { s.name = "other"; }));
  EXPECT_TRUE(noticed([](sched::Roster&, Service& s) { s.priority = 1; }));
  EXPECT_TRUE(noticed([](sched::Roster&, Service& s) { s.slo.latency = 90ms; }));
  EXPECT_TRUE(noticed([](sched::Roster&, Service& s) { s.traffic = PoissonTraffic{31}; }));
  EXPECT_TRUE(noticed([](sched::Roster&, Service& s) { s.traffic = ConstantTraffic{30}; }));
  EXPECT_TRUE(noticed(
      [](sched::Roster&, Service& s) { s.input_size = HistogramSize{"sizes.csv", {{.size = 4, .weight = 2}}}; }));
  EXPECT_TRUE(noticed([](sched::Roster&, Service& s) { s.samples = LogNormalSize{}; }));
  EXPECT_TRUE(noticed([](sched::Roster&, Service& s) { s.size_drift = SizeDrift{}; }));
  EXPECT_TRUE(noticed([](sched::Roster&, Service& s) { s.remotes.push_back({.address = "a:1"}); }));
}

}  // namespace
}  // namespace tangram::serve
