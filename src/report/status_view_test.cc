#include "report/status_view.h"

#include <gtest/gtest.h>

namespace tangram::report {
namespace {

ServerStatus status_of_one() {
  ServerStatus status;
  status.ready = true;
  status.up_s = 61;
  status.services.push_back({.name = "rank", .slo_ms = 100, .kept_share = 0.995, .served = 200, .impossible = 3});
  status.slices.push_back({.name = "gpu0 1g.10gb@0", .status = "idle", .services = {"rank", "embed"}});
  return status;
}

TEST(StatusText, ListsServicesAndSlices) {
  const std::string text = status_text(status_of_one(), {});
  EXPECT_TRUE(text.starts_with("ready for 61 s, 0 requests in flight")) << text;
  EXPECT_NE(text.find("99.5 %"), std::string::npos) << text;
  EXPECT_NE(text.find("rank, embed"), std::string::npos) << text;
}

TEST(StatusText, HasNoTenantsWhereTheServerIdentifiesNobody) {
  ServerStatus status = status_of_one();
  EXPECT_EQ(status_text(status, {}).find("tenant"), std::string::npos);
  status.tenants.push_back({.name = "team-a", .over_limits = 4});
  EXPECT_NE(status_text(status, {}).find("team-a"), std::string::npos);
}

// A server that drains is still ready for the requests in flight; what matters is that it takes no new ones.
TEST(StatusText, SaysDrainingBeforeReady) {
  ServerStatus status = status_of_one();
  status.draining = true;
  EXPECT_TRUE(status_text(status, {}).starts_with("draining"));
}

}  // namespace
}  // namespace tangram::report
