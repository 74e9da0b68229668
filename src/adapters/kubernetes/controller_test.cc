#include "adapters/kubernetes/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "adapters/kubernetes/test_api_server.h"
#include "formats/plan_file.h"

namespace tangram::adapters {
namespace {

using namespace test;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

PlannedDevice board(const std::string& name, const std::string& layout, const std::string& service) {
  PlannedDevice made;
  made.name = name;
  made.type = "a100-80gb";
  made.geometry = *find_geometry("a100-80gb");
  for (const auto& slice : parse_layout(made.geometry, layout).layout.slices) {
    made.slices.push_back({slice, {{service, {{1, 4}}}}, false});
  }
  return made;
}

Json plan_object(const Plan& plan, const Json& annotations = Json::object()) {
  return {{"apiVersion", "tangram.dev/v1"}, {"kind", "Plan"}, {"metadata", {{"annotations", annotations}}}, {"spec", Json::parse(formats::write_plan(plan))}};
}

// The stand-in without sockets, and faults on the way to it.
class TestApi final : public KubeApi {
 public:
  explicit TestApi(TestApiServer& server) : server_(server) {}

  Result<KubeAnswer> ask(const KubeQuestion& question) override {
    asked.push_back(now);
    const bool write = question.method != "GET";
    if (faults != nullptr && faults->chance(fault_share)) {
      ++injected;
      switch (faults->below(6)) {
        case 0: return Error{ErrorCode::unavailable, "connection lost"};
        case 1:
          // The worst: it was done, and nobody was told.
          if (write) server_.handle(question);
          return Error{ErrorCode::unavailable, "connection lost"};
        case 2: return KubeAnswer{429, "{}", seconds(2)};
        case 3: return KubeAnswer{500, "no JSON", std::nullopt};
        case 4: return KubeAnswer{write ? 409 : 410, R"({"kind":"Status"})", std::nullopt};
        default: return KubeAnswer{200, "{\"half", std::nullopt};
      }
    }
    return server_.handle(question);
  }

  Result<std::unique_ptr<KubeWatch>> watch(const std::string& path, int& refused) override {
    asked.push_back(now);
    const KubePath parsed = parse_kube_path(path);
    const auto version = static_cast<std::uint64_t>(text::parse_integer(parsed.query.at("resourceVersion")).value_or(0));
    std::vector<std::string> none;
    std::uint64_t seen = version;
    if (!server_.known(parsed.collection)) refused = 404;
    if (faults != nullptr && faults->chance(fault_share)) refused = ++injected % 2 == 0 ? 410 : 503;
    if (refused == 0 && !server_.events_after(version, parsed.collection, "", none, seen)) refused = 410;
    if (refused != 0) return std::unique_ptr<KubeWatch>();
    const auto selector = parsed.query.contains("labelSelector") ? parsed.query.at("labelSelector") : std::string();
    return std::unique_ptr<KubeWatch>(std::make_unique<Watch>(*this, parsed.collection, selector, version));
  }

  class Watch final : public KubeWatch {
   public:
    Watch(TestApi& api, std::string collection, std::string selector, std::uint64_t version)
        : api_(api), collection_(std::move(collection)), selector_(std::move(selector)), version_(version), until_(api.now + seconds(300)) {}

    bool poll(std::vector<std::string>& lines) override {
      if (api_.faults != nullptr && api_.faults->chance(api_.fault_share / 10)) {
        ++api_.injected;
        // Half an event, or none.
        if (api_.faults->chance(0.5)) lines.emplace_back(R"({"type":"MODIFIED","obj)");
        return false;
      }
      if (!api_.server_.events_after(version_, collection_, selector_, lines, version_)) {
        lines.emplace_back(R"({"type":"ERROR","object":{"kind":"Status","code":410}})");
        return false;
      }
      return api_.now < until_;
    }

   private:
    TestApi& api_;
    std::string collection_;
    std::string selector_;
    std::uint64_t version_;
    Duration until_;
  };

  Duration now = {};
  std::vector<Duration> asked;  // When each request was made.
  Rng* faults = nullptr;
  double fault_share = 0;
  std::uint64_t injected = 0;

 private:
  TestApiServer& server_;
};

// A cluster with controllers, in virtual time.
class Rig {
 public:
  Rig() : api(server), cluster(server) {
    cluster.add_node("rack");
    cluster.add_node("edge");
    cluster.publish();
    start();
  }

  void start(const std::string& identity = "one") {
    ControllerOptions options;
    options.identity = identity;
    options.cluster.join = "tangram-gateway:8003";
    options.cluster.image = image;
    controllers.push_back(std::make_unique<Controller>(
        options, api, [this] { return fmt::format("2026-01-01T00:{:02}:{:02}.000000Z", now / minutes(1) % 60, now / seconds(1) % 60); },
        [this](const std::string& line) { said += line + "\n"; }));
    due.push_back(now);
  }

  // A tenth of a second at a time.
  void run(Duration length) {
    for (const Duration end = now + length; now < end; now += milliseconds(100)) {
      api.now = now;
      if (now % seconds(1) == Duration::zero()) cluster.tick();
      for (auto& one : controllers) one->step(now);
    }
  }
  // Runs until everything is as the Plans say. False: it is not after `limit`.
  bool converge(Duration limit = minutes(15)) {
    for (const Duration end = now + limit; now < end;) {
      run(seconds(1));
      if (why_not().empty()) return true;
    }
    return false;
  }

  // What is not as it has to be, judged from the objects alone.
  std::string why_not() {
    std::map<std::string, std::string> wanted;  // UUIDs that pods must have, with what they are.
    std::size_t budgets = 0;
    for (const auto& [name, object] : server.of(kPlans)) {
      const auto plan = formats::parse_plan({"plan", object["spec"].dump()});
      if (!plan) continue;
      std::set<std::string> services;
      for (const auto& device : plan->devices) {
        const auto dash = device.name.rfind('-');
        const auto& cuts = cluster.cuts()[{device.name.substr(0, dash), std::stoi(device.name.substr(dash + 1))}];
        if (cuts.size() != device.slices.size()) return device.name + " is not cut";
        for (const auto& slice : device.slices) {
          const auto& profile = device.geometry.profiles[slice.slice.profile].name;
          const auto found = cuts.find({profile, slice.slice.start});
          if (found == cuts.end()) return device.name + " is cut otherwise";
          wanted[found->second] = device.name;
          for (const auto& replica : slice.replicas) services.insert(replica.service);
        }
      }
      budgets += services.size();
      const auto ready = std::to_string(wanted.size());
      if (server.of(kPlans).size() == 1 && object.value("/status/ready"_json_pointer, "") != ready + "/" + ready) return name + " does not say that it is ready";
    }
    std::set<std::string> running;
    for (const auto& [name, pod] : server.of(kPods)) {
      if (pod["metadata"].contains("deletionTimestamp")) return name + " is going";
      if (pod.value("/status/phase"_json_pointer, "") != "Running") return name + " does not run";
      const auto uuid = pod["status"]["uuid"].get<std::string>();
      if (!wanted.contains(uuid)) return name + " is needless";
      if (!running.insert(uuid).second) return name + " has a slice that another has";
      if (pod["spec"]["containers"][0]["image"] != image) return name + " has an old image";
    }
    if (running.size() != wanted.size()) return fmt::format("{} of {} pods run", running.size(), wanted.size());
    if (server.of(kClaims).size() != wanted.size()) return "claims are left over";
    if (server.of(kBudgets).size() != budgets) return "budgets are missing or left over";
    for (const auto& [name, budget] : server.of(kBudgets)) {
      if (budget.value("/spec/minAvailable"_json_pointer, -1) < 0 || budget["spec"].contains("maxUnavailable")) return name + " was changed";
    }
    return "";
  }

  // Most requests within any `window`.
  std::size_t busiest(Duration window) const {
    std::size_t most = 0;
    std::size_t first = 0;
    for (std::size_t i = 0; i < api.asked.size(); ++i) {
      while (api.asked[i] - api.asked[first] >= window) ++first;
      most = std::max(most, i - first + 1);
    }
    return most;
  }

  TestApiServer server;
  TestApi api;
  TestCluster cluster;
  std::string image = "tangram:latest";
  std::vector<std::unique_ptr<Controller>> controllers;
  std::vector<Duration> due;
  std::string said;
  Duration now = {};
};

Plan two_boards() { return {{board("rack-0", "4g.40gb@0 + 3g.40gb@4", "rank"), board("rack-1", "1g.10gb@0 + 1g.10gb@1 + 2g.20gb@2", "tag")}}; }

TEST(Controller, CutsAndRunsAPodForEachSlice) {
  Rig rig;
  rig.server.put(kPlans, "p", plan_object(two_boards()));
  ASSERT_TRUE(rig.converge(minutes(1))) << rig.why_not() << "\n" << rig.said;
  EXPECT_EQ(rig.server.of(kPods).size(), 5U);
  const Json plan = rig.server.of(kPlans)["p"];
  for (const auto& condition : plan["status"]["conditions"]) EXPECT_EQ(condition["status"], "True") << condition;
  EXPECT_TRUE(rig.controllers[0]->settled());
}

// The claim names one device and nothing else may be allocated for it.
TEST(Controller, ClaimsTheDeviceByItsUuid) {
  Rig rig;
  rig.server.put(kPlans, "p", plan_object({{board("rack-0", "7g.80gb@0", "rank")}}));
  ASSERT_TRUE(rig.converge(minutes(1))) << rig.why_not();
  const auto uuid = rig.cluster.cuts().at({"rack", 0}).begin()->second;
  const Json claim = rig.server.of(kClaims).begin()->second;
  const Json request = claim["spec"]["devices"]["requests"][0]["exactly"];
  EXPECT_EQ(request["deviceClassName"], "mig.nvidia.com");
  EXPECT_EQ(request["selectors"][0]["cel"]["expression"], "device.attributes['gpu.nvidia.com'].uuid == '" + uuid + "'");
}

// Nothing is written in ten minutes of quiet: only the Lease (120 renewals of two requests each) and the watches (7 kinds,
// each twice).
TEST(Controller, AsksLittleWhileNothingChanges) {
  Rig rig;
  rig.server.put(kPlans, "p", plan_object(two_boards()));
  ASSERT_TRUE(rig.converge(minutes(1)));
  rig.run(seconds(30));
  const auto before = rig.controllers[0]->counts();
  rig.run(minutes(10));
  const auto after = rig.controllers[0]->counts();
  EXPECT_EQ(after.applies, before.applies);
  EXPECT_EQ(after.status_writes, before.status_writes);
  EXPECT_EQ(after.deletes, before.deletes);
  EXPECT_LE(after.requests - before.requests, 260U);
}

TEST(Controller, KeepsPodsOfSlicesThatStay) {
  Rig rig;
  rig.server.put(kPlans, "p", plan_object(two_boards()));
  ASSERT_TRUE(rig.converge(minutes(1)));
  const auto kept = rig.server.of(kPods)["p-rack-0-4g-40gb-0"]["metadata"]["uid"];
  rig.server.put(kPlans, "p", plan_object({{board("rack-0", "4g.40gb@0 + 2g.20gb@4 + 1g.10gb@6", "other"), board("rack-1", "7g.80gb@0", "tag")}}));
  ASSERT_TRUE(rig.converge(minutes(2))) << rig.why_not() << "\n" << rig.said;
  EXPECT_EQ(rig.server.of(kPods)["p-rack-0-4g-40gb-0"]["metadata"]["uid"], kept);
  // The budget of the service that it serves now selects it.
  EXPECT_EQ(rig.server.of(kPods)["p-rack-0-4g-40gb-0"]["metadata"]["labels"]["tangram.dev/serves.other"], "true");
}

TEST(Controller, ReplacesPodsOneByOneForANewImage) {
  Rig rig;
  rig.server.put(kPlans, "p", plan_object(two_boards()));
  ASSERT_TRUE(rig.converge(minutes(1)));
  rig.controllers.clear();
  rig.image = "tangram:2";
  rig.start();
  std::size_t fewest = 5;
  for (int i = 0; i < 600 && !rig.why_not().empty(); ++i) {
    rig.run(milliseconds(500));
    const auto running = std::ranges::count_if(rig.server.of(kPods), [](const auto& entry) {
      return entry.second.contains("status") && !entry.second["metadata"].contains("deletionTimestamp");
    });
    fewest = std::min(fewest, static_cast<std::size_t>(running));
  }
  EXPECT_EQ(rig.why_not(), "");
  EXPECT_EQ(fewest, 4U);
}

TEST(Controller, RefusesToCutWhereTheMigManagerIsInCharge) {
  Rig rig;
  rig.cluster.add_node("rack", {{"nvidia.com/mig.config", "all-1g.10gb"}});
  rig.server.put(kPlans, "p", plan_object(two_boards()));
  EXPECT_FALSE(rig.converge(minutes(1)));
  EXPECT_TRUE(rig.server.of(kConfigMaps).empty());
  EXPECT_TRUE(rig.server.of(kPods).empty());
  const Json conditions = rig.server.of(kPlans)["p"]["status"]["conditions"];
  EXPECT_EQ(conditions[1]["reason"], "MigManagerInCharge");
  EXPECT_THAT(conditions[1]["message"].get<std::string>(), HasSubstr("kubectl label node rack nvidia.com/mig.config-"));
  // Taken away: the plan comes into force by itself.
  rig.cluster.add_node("rack");
  EXPECT_TRUE(rig.converge(minutes(2))) << rig.why_not();
}

TEST(Controller, RefusesAPlanThatIsWrongOrNamesAnothersGpu) {
  Rig rig;
  rig.server.put(kPlans, "a", plan_object({{board("rack-0", "7g.80gb@0", "rank")}}));
  rig.server.put(kPlans, "b", plan_object({{board("rack-0", "3g.40gb@0", "tag")}}));
  rig.server.put(kPlans, "c", {{"spec", {{"version", 1}, {"devices", "none"}}}});
  rig.run(minutes(1));
  const auto accepted = [&](const char* name) { return rig.server.of(kPlans)[name]["status"]["conditions"][0]; };
  EXPECT_EQ(accepted("a")["status"], "True");
  EXPECT_EQ(accepted("b")["reason"], "Conflict");
  EXPECT_EQ(accepted("b")["message"], "GPU 0 of rack belongs to the older plan a");
  EXPECT_EQ(accepted("c")["reason"], "Invalid");
  EXPECT_EQ(rig.server.of(kPods).size(), 1U);
}

TEST(Controller, RemovesEverythingOfAPlanThatIsDeleted) {
  Rig rig;
  rig.server.put(kPlans, "p", plan_object(two_boards()));
  ASSERT_TRUE(rig.converge(minutes(1)));
  rig.server.erase(kPlans, "p");
  rig.run(seconds(10));
  EXPECT_TRUE(rig.server.of(kPods).empty());
  EXPECT_TRUE(rig.server.of(kClaims).empty());
  EXPECT_TRUE(rig.server.of(kBudgets).empty());
}

// Two replicas: one leads. It stops without a word, and the other leads within the lease's 15 s and a look.
TEST(Controller, HandsTheLeadOver) {
  Rig rig;
  rig.start("two");
  rig.server.put(kPlans, "p", plan_object(two_boards()));
  ASSERT_TRUE(rig.converge(minutes(1)));
  const bool first = rig.controllers[0]->leads(rig.now);
  EXPECT_NE(first, rig.controllers[1]->leads(rig.now));
  rig.controllers.erase(rig.controllers.begin() + (first ? 0 : 1));
  rig.run(seconds(12));
  EXPECT_FALSE(rig.controllers[0]->leads(rig.now));
  rig.run(seconds(8));
  EXPECT_TRUE(rig.controllers[0]->leads(rig.now));
}

TEST(Controller, WorksWithoutDraAndSaysWhatIsMissing) {
  Rig rig;
  rig.server.lose_kind(kResourceSlices);
  rig.server.lose_kind(kClaims);
  rig.server.put(kPlans, "p", plan_object(two_boards()));
  rig.run(seconds(30));
  EXPECT_THAT(rig.server.of(kPlans)["p"]["status"]["conditions"][1]["message"].get<std::string>(), HasSubstr("has not published"));
  EXPECT_LE(rig.busiest(seconds(10)), 60U);
}

// Seven slices on a board of seven, five on another: with a device to spare all seven of one kind may be away.
TEST(Controller, AllowsTheDisruptionsThatThePlanHasRoomFor) {
  Plan plan{{board("rack-0", "1g.10gb@0 + 1g.10gb@1 + 1g.10gb@2", "a"), board("rack-1", "1g.10gb@0", "a"),
             board("edge-0", "4g.40gb@0 + 3g.40gb@4", "b")}};
  EXPECT_EQ(disruptions_allowed(plan, false), (std::map<std::string, int>{{"a", 0}, {"b", 0}}));
  EXPECT_EQ(disruptions_allowed(plan, true), (std::map<std::string, int>{{"a", 3}, {"b", 1}}));
}

// A thousand faults of all sorts, with everything as the Plan says after every fifty.
TEST(Controller, ConvergesAfterAThousandRandomFaults) {
  Rig rig;
  Rng rng = Rng(22).stream("faults");
  Rng api_rng = Rng(22).stream("api");
  const std::vector<Plan> plans{
      two_boards(),
      {{board("rack-0", "7g.80gb@0", "rank"), board("rack-1", "3g.40gb@0 + 3g.40gb@4", "tag")}},
      {{board("rack-0", "4g.40gb@0 + 2g.20gb@4 + 1g.10gb@6", "rank"), board("edge-3", "2g.20gb@0 + 2g.20gb@2", "new")}}};
  rig.server.put(kPlans, "p", plan_object(plans[0]));
  ASSERT_TRUE(rig.converge(minutes(1)));
  ControllerCounts before{};
  std::uint64_t faults = 0;
  Duration longest = {};
  const auto random_of = [&](const std::string& collection) {
    auto& objects = rig.server.of(collection);
    if (objects.empty()) return std::string();
    auto it = objects.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(rng.below(objects.size())));
    return it->first;
  };
  while (faults + rig.api.injected < 1000) {
    rig.api.faults = &api_rng;
    rig.api.fault_share = 0.15;
    for (int i = 0; i < 25; ++i) {
      ++faults;
      const std::string collections[] = {kPods, kClaims, kBudgets, kConfigMaps, kResourceSlices, kLeases};
      const auto& collection = collections[rng.below(6)];
      switch (rng.below(8)) {
        case 0:
        case 1: rig.server.erase(collection, random_of(collection)); break;
        case 2: rig.server.forget_history(); break;
        case 3: rig.server.put(kPlans, "p", plan_object(plans[rng.below(plans.size())])); break;
        case 4: {
          // Somebody changes what is ours.
          const auto name = random_of(kBudgets);
          if (name.empty()) break;
          Json budget = rig.server.of(kBudgets)[name];
          budget["spec"]["minAvailable"] = -7;
          rig.server.put(kBudgets, name, budget);
          break;
        }
        case 5: {
          const auto name = random_of(kPods);
          if (name.empty()) break;
          Json pod = rig.server.of(kPods)[name];
          pod["metadata"]["annotations"].erase(kDigestAnnotation);
          rig.server.put(kPods, name, pod);
          break;
        }
        case 6: {
          // Somebody destroys a slice.
          for (auto& [gpu, slices] : rig.cluster.cuts()) {
            if (slices.empty() || rng.chance(0.5)) continue;
            slices.erase(slices.begin());
            break;
          }
          break;
        }
        default:
          // The controller dies, and another starts elsewhere.
          before.requests += rig.controllers[0]->counts().requests;
          rig.controllers.clear();
          rig.start(fmt::format("c{}", faults));
      }
      if (rng.chance(0.3)) rig.cluster.publish();
      rig.run(milliseconds(100 * rng.integer(1, 30)));
    }
    rig.api.faults = nullptr;
    rig.cluster.publish();
    const Duration begin = rig.now;
    ASSERT_TRUE(rig.converge()) << "after " << faults + rig.api.injected << " faults: " << rig.why_not() << "\n"
                                << rig.said.substr(rig.said.size() - std::min<std::size_t>(rig.said.size(), 3000));
    longest = std::max(longest, rig.now - begin);
  }
  // 20 a second in the long run and 60 at once: 260 in ten seconds. A new controller begins with a new budget.
  EXPECT_LE(rig.busiest(seconds(10)), 3U * 260U);
  std::size_t at = rig.api.asked.size();
  rig.run(minutes(5));
  const auto quiet = rig.api.asked.size() - at;
  EXPECT_LE(quiet, 150U);
  const double mean = static_cast<double>(at) / to_seconds(rig.now - minutes(5));
  EXPECT_LE(mean, 20.0);
  std::cout << fmt::format("[ figures ] {} faults, {} requests in {:.0f} s: {:.2f}/s, at most {} in 10 s; quiet: {:.2f}/s; longest convergence {:.0f} s\n",
                           faults + rig.api.injected, at, to_seconds(rig.now), mean, rig.busiest(seconds(10)), static_cast<double>(quiet) / 300.0, to_seconds(longest));
}

}  // namespace
}  // namespace tangram::adapters
