#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/text.h"
#include "formats/document.h"
#include "formats/export.h"
#include "formats/exports/naming.h"
#include "formats/exports/test_kinds.h"
#include "formats/plan_file.h"

namespace tangram::formats {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Replica replica_of(std::string service, std::vector<PlannedBucket> buckets, int processes = 1) {
  return {std::move(service), std::move(buckets), processes};
}

PlannedDevice device_of(const std::string& name, const std::string& type, const std::string& layout,
                        std::vector<std::vector<Replica>> replicas) {
  PlannedDevice device{name, type, type == "cpu" ? cpu_geometry({2, 8, true}) : *find_geometry(type), {}};
  const auto parsed = parse_layout(device.geometry, layout);
  EXPECT_TRUE(parsed.problems.empty());
  for (std::size_t i = 0; i < parsed.layout.slices.size(); ++i) {
    device.slices.push_back({parsed.layout.slices[i], i < replicas.size() ? replicas[i] : std::vector<Replica>{}});
  }
  return device;
}

// Two boards of one node, a third of another type, and a host.
Plan mixed_plan() {
  const Replica rank = replica_of("rank", {{64, 16}, {512, 2}});
  const Replica tag = replica_of("tag", {{1, 8}}, 2);
  return {{device_of("rack-0", "a100-80gb", "4g@0 + 3g@4", {{rank}, {tag}}),
           device_of("rack-1", "a100-80gb", "3g@0 + 1g.20gb@4 + 1g.10gb+me@6", {{tag}, {rank, tag}, {}}),
           device_of("edge-0", "a30", "2g@0 + 2g@2", {{tag}, {tag}}), device_of("host-0", "cpu", "1c@0", {{rank}})}};
}

Result<Export> export_as(std::string_view format, const Plan& plan, const ExportOptions& options = {},
                         const Workload* workload = nullptr) {
  return find_export_format(format)->write({&plan, workload, options});
}

Workload two_services() {
  Workload workload;
  for (const char* name : {"rank", "tag"}) {
    Service service;
    service.name = name;
    service.model = std::string(name) + "-net";
    service.slo.latency = from_milliseconds(100);
    service.traffic = PoissonTraffic{2000};
    workload.services.push_back(service);
  }
  return workload;
}

TEST(Export, LeavesHostsOutOfWhatOnlyKnowsMig) {
  for (const char* format : {"mig-parted", "kubernetes", "kubernetes-dra", "slurm"}) {
    const auto result = export_as(format, mixed_plan());
    ASSERT_TRUE(result.ok()) << format;
    EXPECT_EQ(result->notes.front(), "host-0 is left out: the cores of a host are not cut by MIG");
    for (const auto& file : result->files) EXPECT_EQ(file.text.find("host"), std::string::npos) << file.text;
  }
  const Plan host{{device_of("host-0", "cpu", "1c@0", {})}};
  EXPECT_EQ(export_as("slurm", host).error().message, "the plan has no GPU, so there is nothing to export");
}

// What mig-parted accepts: version v1, and no keys but these four in an entry.
TEST(Export, MigPartedHasOnlyTheKeysOfItsSpecification) {
  const auto result = export_as("mig-parted", mixed_plan());
  const YAML::Node root = YAML::Load(result->files[0].text);
  EXPECT_EQ(root["version"].as<std::string>(), "v1");
  EXPECT_EQ(root.size(), 2u);
  for (const auto& label : root["mig-configs"]) {
    for (const auto& entry : label.second) {
      for (const auto& field : entry) {
        EXPECT_THAT((std::vector<std::string>{"device-filter", "devices", "mig-enabled", "mig-devices"}),
                    testing::Contains(field.first.as<std::string>()));
      }
      for (const auto& id : entry["device-filter"]) {
        EXPECT_TRUE(std::regex_match(id.as<std::string>(), std::regex("0x[0-9A-F]{4}10DE")));
      }
    }
  }
}

TEST(Export, MigPartedCountsTheProfilesOfEachGpu) {
  const auto result = export_as("mig-parted", mixed_plan());
  const YAML::Node rack = YAML::Load(result->files[0].text)["mig-configs"]["tangram-rack"];
  ASSERT_EQ(rack.size(), 2u);
  EXPECT_EQ(rack[0]["devices"].as<std::vector<int>>(), std::vector<int>{0});
  EXPECT_EQ((rack[1]["mig-devices"].as<std::map<std::string, int>>()),
            (std::map<std::string, int>{{"3g.40gb", 1}, {"1g.20gb", 1}, {"1g.10gb+me", 1}}));
  const YAML::Node edge = YAML::Load(result->files[0].text)["mig-configs"]["tangram-edge"];
  EXPECT_EQ(edge[0]["mig-devices"]["2g.12gb"].as<int>(), 2);
}

// Places do not matter to mig-parted: the two boards share an entry. The third holds nothing, and stays in MIG mode.
TEST(Export, MigPartedPutsEqualGpusTogetherAndKeepsEmptyOnes) {
  const Plan plan{{device_of("n-0", "a100-80gb", "2g@0 + 1g.10gb@2", {}),
                   device_of("n-1", "a100-80gb", "1g.10gb@0 + 2g@2", {}), device_of("n-2", "a100-80gb", "empty", {})}};
  const auto result = export_as("mig-parted", plan);
  const YAML::Node node = YAML::Load(result->files[0].text)["mig-configs"]["tangram-n"];
  ASSERT_EQ(node.size(), 2u);
  EXPECT_EQ(node[0]["devices"].as<std::vector<int>>(), (std::vector<int>{0, 1}));
  EXPECT_TRUE(node[1]["mig-enabled"].as<bool>());
  EXPECT_EQ(node[1]["mig-devices"].size(), 0u);
}

// Devices 0 to 3, two to a node: 2 is GPU 0 of the second.
TEST(Export, FillsNodesWithSoManyGpus) {
  Plan plan;
  for (const int i : {0, 1, 2, 3}) plan.devices.push_back(device_of("n-" + std::to_string(i), "a30", "4g@0", {}));
  ExportOptions options;
  options.gpus_per_node = 2;
  const auto result = export_as("mig-parted", plan, options);
  const YAML::Node second = YAML::Load(result->files[0].text)["mig-configs"]["tangram-n-1"];
  EXPECT_EQ(second[0]["devices"].as<std::vector<int>>(), (std::vector<int>{0, 1}));
}

TEST(Export, RefusesTwoDevicesOnOneSeatAndNamesNoMachineHas) {
  const Plan twice{{device_of("n-0", "a30", "4g@0", {}), device_of("n", "a30", "4g@0", {})}};
  EXPECT_EQ(export_as("slurm", twice).error().message, "devices n-0 and n would both be GPU 0 of node n");
  const Plan odd{{device_of("My Rack-0", "a30", "4g@0", {})}};
  EXPECT_THAT(export_as("slurm", odd).error().message, HasSubstr("is not a host name"));
}

// Numbers of NVML: 3g is 2, 4g is 3, 1g+me is 7, the double-memory 1g is 9; its compute profile on an A100 is the plain
// one, because it has no more multiprocessors than a 1g.
TEST(Export, CheckpointKeepsThePlacesOfSlices) {
  ExportOptions options;
  options.uuids = {{"rack-0", "GPU-a"}, {"rack-1", "GPU-b"}, {"edge-0", "GPU-c"}};
  const auto result = export_as("mig-checkpoint", mixed_plan(), options);
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_EQ(result->files.size(), 2u);
  EXPECT_EQ(result->files[0].path, "rack.json");
  const auto json = nlohmann::json::parse(result->files[0].text);
  EXPECT_EQ(json["Version"], "v1");
  const auto& second = json["MigState"]["Devices"][1];
  EXPECT_EQ(second["UUID"], "GPU-b");
  EXPECT_EQ(second["MigMode"], 1);
  EXPECT_EQ(
      second["GpuInstances"].dump(),
      R"([{"ComputeInstances":[{"EngProfileID":0,"ProfileID":2}],"Placement":{"Size":4,"Start":0},"ProfileID":2},)"
      R"({"ComputeInstances":[{"EngProfileID":0,"ProfileID":0}],"Placement":{"Size":1,"Start":6},"ProfileID":7},)"
      R"({"ComputeInstances":[{"EngProfileID":0,"ProfileID":0}],"Placement":{"Size":2,"Start":4},"ProfileID":9}])");
}

// On an H100 the double-memory slice has 26 multiprocessors, and only compute profile 7 gives them.
TEST(Export, CheckpointGivesDoubleMemorySlicesAllTheirMultiprocessors) {
  const Plan plan{{device_of("GPU-x", "h100-80gb", "1g.20gb@6", {})}};
  const auto result = export_as("mig-checkpoint", plan);
  // The name is a UUID, but no name of a machine: its node cannot be told.
  EXPECT_FALSE(result.ok());
  ExportOptions options;
  options.uuids = {{"n-0", "GPU-x"}};
  const Plan named{{device_of("n-0", "h100-80gb", "1g.20gb@6", {})}};
  const auto json = nlohmann::json::parse(export_as("mig-checkpoint", named, options)->files[0].text);
  EXPECT_EQ(json["MigState"]["Devices"][0]["GpuInstances"][0]["ComputeInstances"][0]["ProfileID"], 7);
}

TEST(Export, CheckpointNeedsTheUuidOfEveryGpu) {
  ExportOptions options;
  options.uuids = {{"rack-0", "GPU-a"}};
  EXPECT_THAT(export_as("mig-checkpoint", mixed_plan(), options).error().message,
              HasSubstr("missing for rack-1, edge-0"));
}

// Every profile of every board has a number, and no two of one board the same.
TEST(Export, CheckpointKnowsEveryProfile) {
  for (const auto& geometry : known_geometries()) {
    std::set<int> numbers;
    for (std::size_t i = 0; i < geometry.profiles.size(); ++i) {
      PlannedDevice device{"n-0", geometry.type, geometry, {}};
      device.slices.push_back({{static_cast<std::uint16_t>(i), 0}, {}});
      ExportOptions options;
      options.uuids = {{"n-0", "GPU-a"}};
      const auto result = export_as("mig-checkpoint", {{device}}, options);
      ASSERT_TRUE(result.ok()) << geometry.type << " " << geometry.profiles[i].name;
      const auto json = nlohmann::json::parse(result->files[0].text);
      EXPECT_TRUE(numbers.insert(json["MigState"]["Devices"][0]["GpuInstances"][0]["ProfileID"].get<int>()).second);
    }
  }
}

std::vector<YAML::Node> of_kind(const std::string& text, const std::string& kind) {
  std::vector<YAML::Node> found;
  for (const auto& document : YAML::LoadAll(text)) {
    if (document["kind"].as<std::string>() == kind) found.push_back(document);
  }
  return found;
}

const std::regex kDnsLabel("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?");

TEST(Export, KubernetesAsksForTheSliceOfEachPod) {
  const Workload workload = two_services();
  const auto result = export_as("kubernetes", mixed_plan(), {}, &workload);
  const std::string& text = result->files[0].text;
  std::map<std::string, int> asked;
  for (const auto& deployment : of_kind(text, "Deployment")) {
    const auto name = deployment["metadata"]["name"].as<std::string>();
    EXPECT_TRUE(std::regex_match(name, kDnsLabel)) << name;
    const YAML::Node pod = deployment["spec"]["template"];
    EXPECT_EQ(deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"].as<std::string>(),
              pod["metadata"]["labels"]["app.kubernetes.io/name"].as<std::string>());
    for (const auto& limit : pod["spec"]["containers"][0]["resources"]["limits"]) {
      asked[limit.first.as<std::string>()] += limit.second.as<int>() * deployment["spec"]["replicas"].as<int>();
    }
    const auto replicas = nlohmann::json::parse(pod["metadata"]["annotations"]["tangram/replicas"].as<std::string>());
    EXPECT_THAT(replicas[0]["model"].get<std::string>(), HasSubstr("-net"));
  }
  // The free 1g.10gb+me is not asked for.
  EXPECT_EQ(asked, (std::map<std::string, int>{{"nvidia.com/mig-4g.40gb", 1},
                                               {"nvidia.com/mig-3g.40gb", 2},
                                               {"nvidia.com/mig-1g.20gb", 1},
                                               {"nvidia.com/mig-2g.12gb", 2}}));
}

// The label of a node names a layout of the ConfigMap, and pods keep to nodes with the layouts that have their slices.
TEST(Export, KubernetesLabelsNodesWithLayoutsThatExist) {
  const std::string text = export_as("kubernetes", mixed_plan())->files[0].text;
  const auto maps = of_kind(text, "ConfigMap");
  ASSERT_EQ(maps.size(), 1u);
  const YAML::Node layouts = YAML::Load(maps[0]["data"]["config.yaml"].as<std::string>());
  std::map<std::string, std::string> labels;
  for (const auto& node : of_kind(text, "Node")) {
    const auto label = node["metadata"]["labels"]["nvidia.com/mig.config"].as<std::string>();
    EXPECT_TRUE(layouts["mig-configs"][label].IsDefined()) << label;
    labels[node["metadata"]["name"].as<std::string>()] = label;
  }
  EXPECT_EQ(labels, (std::map<std::string, std::string>{{"rack", "tangram-rack"}, {"edge", "tangram-edge"}}));
  for (const auto& deployment : of_kind(text, "Deployment")) {
    const YAML::Node terms = deployment["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
                                       ["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    const bool edge = deployment["metadata"]["labels"]["tangram/device-type"].as<std::string>() == "a30";
    EXPECT_EQ(terms[0]["matchExpressions"][0]["values"][0].as<std::string>(), edge ? "tangram-edge" : "tangram-rack");
  }
}

TEST(Export, KubernetesSpellsMediaProfilesWithADot) {
  const Plan plan{{device_of("n-0", "a100-40gb", "1g.5gb+me@0", {{replica_of("a", {{1, 1}})}})}};
  const auto deployments = of_kind(export_as("kubernetes", plan)->files[0].text, "Deployment");
  EXPECT_EQ(
      deployments[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.5gb.me"]
          .as<int>(),
      1);
}

TEST(Export, ClaimsNameTheProfileAndTheirTemplates) {
  const std::string text = export_as("kubernetes-dra", mixed_plan())->files[0].text;
  std::set<std::string> templates;
  for (const auto& claim : of_kind(text, "ResourceClaimTemplate")) {
    EXPECT_EQ(claim["apiVersion"].as<std::string>(), "resource.k8s.io/v1");
    const YAML::Node request = claim["spec"]["spec"]["devices"]["requests"][0];
    EXPECT_EQ(request["exactly"]["deviceClassName"].as<std::string>(), "mig.nvidia.com");
    EXPECT_TRUE(
        std::regex_match(request["exactly"]["selectors"][0]["cel"]["expression"].as<std::string>(),
                         std::regex(R"(device\.attributes\['gpu\.nvidia\.com'\]\.profile == '[1-7]g\.[0-9]+gb')")));
    templates.insert(claim["metadata"]["name"].as<std::string>());
  }
  for (const auto& deployment : of_kind(text, "Deployment")) {
    const YAML::Node pod = deployment["spec"]["template"]["spec"];
    EXPECT_TRUE(templates.contains(pod["resourceClaims"][0]["resourceClaimTemplateName"].as<std::string>()));
    EXPECT_EQ(pod["containers"][0]["resources"]["claims"][0]["name"].as<std::string>(),
              pod["resourceClaims"][0]["name"].as<std::string>());
  }
}

// As a reader that knows types: plain scalars become what they look like.
nlohmann::json json_of(const YAML::Node& node) {
  if (node.IsMap()) {
    nlohmann::json map = nlohmann::json::object();
    for (const auto& entry : node) map[entry.first.as<std::string>()] = json_of(entry.second);
    return map;
  }
  if (node.IsSequence()) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& item : node) list.push_back(json_of(item));
    return list;
  }
  if (node.IsNull()) return nullptr;
  const auto text = node.Scalar();
  if (node.Tag() == "!") return text;  // In quotes.
  const auto value = nlohmann::json::parse(text, nullptr, false);
  return value.is_discarded() || value.is_string() ? nlohmann::json(text) : value;
}

TEST(Export, KubernetesManifestsAreKindsThatKubernetesKnows) {
  Workload workload = two_services();
  workload.services[1].job = Job{};
  ExportOptions options;
  options.name_space = "serving";
  for (const char* format : {"kubernetes", "kubernetes-dra"}) {
    for (const bool gateway : {false, true}) {
      options.gateway = gateway;
      std::set<std::string> kinds;
      for (const auto& document : YAML::LoadAll(export_as(format, mixed_plan(), options, &workload)->files[0].text)) {
        EXPECT_EQ(test::why_no_kind(json_of(document)), "");
        kinds.insert(document["kind"].as<std::string>());
      }
      if (format == std::string("kubernetes") && gateway) {
        EXPECT_THAT(kinds, testing::IsSupersetOf({"CustomResourceDefinition", "Deployment", "DaemonSet", "Role",
                                                  "NetworkPolicy", "Service", "PodDisruptionBudget", "Plan"}));
      } else {
        EXPECT_THAT(kinds, testing::IsSupersetOf({"Deployment", "Job", "Service"})) << format;
      }
    }
  }
}

// The check above is worth nothing if it passes anything.
TEST(Export, TheCheckOfKindsFindsMistakes) {
  const auto service = of_kind(export_as("kubernetes", mixed_plan())->files[0].text, "Service").front();
  auto wrong = json_of(service);
  EXPECT_EQ(test::why_no_kind(wrong), "");
  wrong["spec"]["prots"] = wrong["spec"]["ports"];
  EXPECT_THAT(test::why_no_kind(wrong), HasSubstr("prots"));
  EXPECT_NE(test::why_no_kind({{"kind", "Deploymnet"}}), "");
}

TEST(Export, KubernetesPodsHaveModelsProbesAndArguments) {
  const auto deployments = of_kind(export_as("kubernetes", mixed_plan())->files[0].text, "Deployment");
  const auto triton = export_as("triton", mixed_plan());
  for (const auto& deployment : deployments) {
    const YAML::Node pod = deployment["spec"]["template"]["spec"];
    const YAML::Node container = pod["containers"][0];
    EXPECT_EQ(container["readinessProbe"]["httpGet"]["path"].as<std::string>(), "/v2/health/ready");
    EXPECT_EQ(container["livenessProbe"]["httpGet"]["path"].as<std::string>(), "/v2/health/live");
    EXPECT_EQ(pod["volumes"][0]["persistentVolumeClaim"]["claimName"].as<std::string>(), "tangram-models");
    EXPECT_EQ(pod["tolerations"][0]["key"].as<std::string>(), "nvidia.com/gpu");
    // The folder is one that the format triton writes.
    const auto argument = container["args"][1].as<std::string>();
    const std::string folder = argument.substr(argument.find("/models/") + 8) + "/";
    EXPECT_TRUE(std::ranges::any_of(triton->files, [&](const auto& file) { return file.path.starts_with(folder); })) << folder;
  }
  ExportOptions options;
  options.arguments = {"serve", "--slow"};
  options.models_claim = "";
  const auto other = of_kind(export_as("kubernetes", mixed_plan(), options)->files[0].text, "Deployment")[0];
  EXPECT_EQ(other["spec"]["template"]["spec"]["containers"][0]["args"][1].as<std::string>(), "--slow");
  EXPECT_FALSE(other["spec"]["template"]["spec"]["volumes"].IsDefined());
}

// The Service of a service finds the pods of all slices that serve it, those that it shares as well.
TEST(Export, KubernetesServicesFindTheirPods) {
  const std::string text = export_as("kubernetes", mixed_plan())->files[0].text;
  const auto services = of_kind(text, "Service");
  ASSERT_EQ(services.size(), 2U);
  for (const auto& service : services) {
    const auto label = service["spec"]["selector"].begin()->first.as<std::string>();
    int pods = 0;
    for (const auto& deployment : of_kind(text, "Deployment")) {
      if (deployment["spec"]["template"]["metadata"]["labels"][label].IsDefined()) pods += deployment["spec"]["replicas"].as<int>();
    }
    // rank: one 4g and the shared 1g.20gb. tag: two 3g, the shared slice and two 2g of the A30.
    EXPECT_EQ(pods, service["metadata"]["name"].as<std::string>() == "tangram-rank" ? 2 : 5);
  }
}

// A slice that works on a job alone is free when the job's deadline has passed.
TEST(Export, KubernetesRunsJobsAsJobs) {
  Workload workload = two_services();
  workload.services[1].job = Job{};
  workload.services[1].slo.latency = from_seconds(7200);
  const std::string text = export_as("kubernetes", mixed_plan(), {}, &workload)->files[0].text;
  const auto jobs = of_kind(text, "Job");
  ASSERT_EQ(jobs.size(), 2U) << "tag alone: on 3g.40gb and on the A30";
  for (const auto& job : jobs) {
    EXPECT_EQ(job["spec"]["activeDeadlineSeconds"].as<int>(), 7200);
    EXPECT_EQ(job["spec"]["template"]["spec"]["restartPolicy"].as<std::string>(), "OnFailure");
  }
  EXPECT_EQ(of_kind(text, "Deployment").size(), 2U) << "rank alone, and the slice that both share";
}

TEST(Export, KubernetesLayoutsCanBeSwitchedOff) {
  const auto maps = of_kind(export_as("kubernetes", mixed_plan())->files[0].text, "ConfigMap");
  const YAML::Node layouts = YAML::Load(maps[0]["data"]["config.yaml"].as<std::string>())["mig-configs"];
  EXPECT_EQ(layouts["all-disabled"][0]["devices"].as<std::string>(), "all");
  EXPECT_FALSE(layouts["all-disabled"][0]["mig-enabled"].as<bool>());
  EXPECT_FALSE(YAML::Load(export_as("mig-parted", mixed_plan())->files[0].text)["mig-configs"]["all-disabled"].IsDefined());
}

// An H100 PCIe and an H800 PCIe are cut as an H100 SXM.
TEST(Export, FiltersNameTheBoardsThatAreCutAlike) {
  const Plan plan{{device_of("n-0", "h100-80gb", "7g@0", {{replica_of("a", {{1, 1}})}})}};
  const std::string text = export_as("mig-parted", plan)->files[0].text;
  for (const char* id : {"0x233010DE", "0x233110DE", "0x232210DE"}) EXPECT_THAT(text, HasSubstr(id));
}

// What the definition of Plan lets through is what the parser reads, and the resource holds the plan.
TEST(Export, GatewayHoldsThePlanAsAResource) {
  ExportOptions options;
  options.gateway = true;
  const auto result = export_as("kubernetes", mixed_plan(), options);
  const auto plan = of_kind(result->files[0].text, "Plan");
  ASSERT_EQ(plan.size(), 1U);
  EXPECT_EQ(*parse_plan({"spec", json_of(plan[0]["spec"]).dump()}), mixed_plan());
  EXPECT_EQ(plan[0]["metadata"]["namespace"].as<std::string>(), "default");
  EXPECT_THAT(result->notes, Contains(HasSubstr("tangram-files")));
}

// Names that Kubernetes, YAML or a file system would stumble over.
TEST(Export, OddServiceNamesBecomeNamesThatEverybodyAccepts) {
  const std::vector<std::string> odd{"Große Suche", "a/../../b",           "yes",   "-x-", "a.b", "A",
                                     "a",           std::string(200, 'q'), "\"\\#:"};
  Plan plan;
  for (std::size_t i = 0; i < odd.size(); ++i) {
    plan.devices.push_back(device_of("n-" + std::to_string(i), "a30", "4g@0", {{replica_of(odd[i], {{1, 1}})}}));
  }
  std::set<std::string> names;
  for (const auto& deployment : of_kind(export_as("kubernetes", plan)->files[0].text, "Deployment")) {
    const auto name = deployment["metadata"]["name"].as<std::string>();
    EXPECT_TRUE(std::regex_match(name, kDnsLabel)) << name;
    names.insert(name);
  }
  EXPECT_EQ(names.size(), odd.size());
  const auto models = export_as("triton", plan);
  for (const auto& file : models->files) {
    EXPECT_TRUE(std::regex_match(file.path, std::regex("n-[0-9]/4g.24gb-0/[A-Za-z0-9][A-Za-z0-9._-]*/config.pbtxt")))
        << file.path;
  }
}

TEST(Export, DnsLabelsOfDifferentTextsDiffer) {
  EXPECT_EQ(exports::dns_label("rank-answers"), "rank-answers");
  EXPECT_NE(exports::dns_label("Rank"), exports::dns_label("rank"));
  EXPECT_NE(exports::dns_label("a.b"), exports::dns_label("a_b"));
  EXPECT_LE(exports::dns_label(std::string(500, 'x'), 20).size(), 20u);
  EXPECT_TRUE(std::regex_match(exports::dns_label("é"), kDnsLabel));
}

// NAME=VALUE words of one line of Slurm's files.
std::map<std::string, std::string> words_of(std::string_view line) {
  std::map<std::string, std::string> words;
  for (const auto word : text::split(line, ' ')) {
    const auto equals = word.find('=');
    if (equals != std::string_view::npos) words.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return words;
}

TEST(Export, SlurmCountsTheSlicesOfEachNode) {
  const auto result = export_as("slurm", mixed_plan());
  ASSERT_EQ(result->files.size(), 6u);
  std::map<std::string, std::string> detected;
  for (const auto line : text::split(result->files[0].text, '\n')) {
    if (const auto words = words_of(line); words.contains("NodeName"))
      detected[words.at("NodeName")] = words.at("AutoDetect");
  }
  EXPECT_EQ(detected, (std::map<std::string, std::string>{{"rack", "nvml"}, {"edge", "nvml"}}));
  std::map<std::string, std::string> gres;
  std::string tres;
  for (const auto line : text::split(result->files[1].text, '\n')) {
    const auto words = words_of(line);
    if (words.contains("NodeName")) gres[words.at("NodeName")] = words.at("Gres");
    if (words.contains("AccountingStorageTRES")) tres = words.at("AccountingStorageTRES");
  }
  EXPECT_EQ(gres["rack"], "gpu:1g.10gb+me:1,gpu:1g.20gb:1,gpu:3g.40gb:2,gpu:4g.40gb:1");
  EXPECT_EQ(gres["edge"], "gpu:2g.12gb:2");
  EXPECT_THAT(tres, HasSubstr("gres/gpu:2g.12gb"));
}

// The scripts give `tangram apply` a file for each node, whose devices are called after their index.
TEST(Export, SlurmsPrologCutsEachNode) {
  const auto result = export_as("slurm", mixed_plan());
  const auto text_of = [&](const std::string& path) {
    const auto found = std::ranges::find(result->files, path, &ExportedFile::path);
    return found == result->files.end() ? std::string() : found->text;
  };
  const auto rack = parse_plan({"rack", text_of("cuts/rack.json")});
  ASSERT_TRUE(rack.ok()) << rack.error().message;
  ASSERT_EQ(rack->devices.size(), 2U);
  EXPECT_EQ(rack->devices[1].name, "gpu-1");
  EXPECT_EQ(layout_of(rack->devices[1]), layout_of(mixed_plan().devices[1]));
  EXPECT_TRUE(rack->devices[1].slices[0].replicas.empty());
  for (const char* script : {"prolog.sh", "epilog.sh"}) {
    EXPECT_TRUE(text_of(script).starts_with("#!/bin/sh\n")) << script;
    EXPECT_THAT(text_of(script), HasSubstr("$SLURMD_NODENAME.json"));
  }
}

TEST(Export, SlurmNamesTheBoardWhereItIsTold) {
  ExportOptions options;
  options.boards = {{"a30", "nvidia_a30"}};
  const auto result = export_as("slurm", mixed_plan(), options);
  EXPECT_THAT(result->files[1].text, HasSubstr("NodeName=edge Gres=gpu:nvidia_a30_2g.12gb:2\n"));
}

// Slurm would find 1g.10gb within 1g.10gb+me.
TEST(Export, SlurmWarnsOfTypesThatContainEachOther) {
  const Plan plan{{device_of("n-0", "a100-80gb", "1g.10gb@0 + 1g.10gb+me@1", {})}};
  EXPECT_THAT(export_as("slurm", plan)->notes,
              ElementsAre("n: Slurm may mistake 1g.10gb+me for 1g.10gb, because its name contains the other"));
}

// A reader of the protobuf text format, as far as Triton's files need it: fields with scalars, lists and messages. A
// field that stands several times, or a list, has several values. Anything else is an error.
struct Message;
struct Value {
  std::string scalar;
  std::shared_ptr<Message> message;
};
struct Message {
  std::map<std::string, std::vector<Value>> fields;
  const Value& one(const std::string& name) const {
    EXPECT_EQ(fields.at(name).size(), 1u) << name;
    return fields.at(name).front();
  }
  const std::string& text(const std::string& name) const { return one(name).scalar; }
  const Message& part(const std::string& name) const { return *one(name).message; }
};

class PbtxtReader {
 public:
  explicit PbtxtReader(const std::string& text) {
    static const std::regex kToken(R"re(#[^\n]*|"(\\.|[^"\\])*"|[A-Za-z0-9_.-]+|[\[\]{}:,])re");
    for (std::sregex_iterator i(text.begin(), text.end(), kToken), end; i != end; ++i) {
      if (i->str()[0] != '#') tokens_.push_back(i->str());
    }
  }
  Message read() {
    Message message = read_message("");
    EXPECT_EQ(next_, tokens_.size());
    return message;
  }

 private:
  std::string peek() const { return next_ < tokens_.size() ? tokens_[next_] : ""; }
  std::string take() {
    EXPECT_LT(next_, tokens_.size());
    return next_ < tokens_.size() ? tokens_[next_++] : "";
  }
  Message read_message(const std::string& end) {
    Message message;
    while (next_ < tokens_.size() && peek() != end) {
      const std::string name = take();
      EXPECT_TRUE(std::regex_match(name, std::regex("[a-z_]+"))) << name;
      if (peek() == ":") take();
      auto& values = message.fields[name];
      if (peek() != "[") {
        values.push_back(read_value());
        continue;
      }
      take();
      while (peek() != "]" && next_ < tokens_.size()) {
        values.push_back(read_value());
        if (peek() == ",") take();
      }
      take();
    }
    return message;
  }
  Value read_value() {
    const std::string token = take();
    if (token != "{") return {token, nullptr};
    const auto message = std::make_shared<Message>(read_message("}"));
    EXPECT_EQ(take(), "}");
    return {"", message};
  }

  std::vector<std::string> tokens_;
  std::size_t next_ = 0;
};

std::string text_at(const Export& result, const std::string& path) {
  for (const auto& file : result.files) {
    if (file.path == path) return file.text;
  }
  ADD_FAILURE() << "no file " << path;
  return "";
}

// tag promises 100 ms. Its 2000 requests/s are shared by ten processes, two on each of five slices. A batch of 8 fills
// in 7 * 10 / 2000 s = 35 ms, and a quarter of the promise is 25 ms.
TEST(Export, TritonHasBatchesDelaysAndProcesses) {
  const Workload workload = two_services();
  const auto result = export_as("triton", mixed_plan(), {}, &workload);
  const Message tag = PbtxtReader(text_at(*result, "rack-0/3g.40gb-4/tag/config.pbtxt")).read();
  EXPECT_EQ(tag.text("name"), "\"tag\"");
  EXPECT_EQ(tag.text("max_batch_size"), "8");
  EXPECT_EQ(tag.part("dynamic_batching").text("max_queue_delay_microseconds"), "25000");
  EXPECT_EQ(tag.part("dynamic_batching").part("default_queue_policy").text("default_timeout_microseconds"), "100000");
  EXPECT_EQ(tag.part("instance_group").text("count"), "2");
  EXPECT_EQ(tag.part("instance_group").text("kind"), "KIND_GPU");
  EXPECT_EQ(tag.part("instance_group").text("gpus"), "0");
  const Message rank = PbtxtReader(text_at(*result, "rack-0/4g.40gb-0/rank/config.pbtxt")).read();
  EXPECT_EQ(rank.text("max_batch_size"), "16");
  const auto& preferred = rank.part("dynamic_batching").fields.at("preferred_batch_size");
  ASSERT_EQ(preferred.size(), 2u);
  EXPECT_EQ(preferred[0].scalar + " " + preferred[1].scalar, "2 16");
  // Three processes of rank: a batch of 16 fills in 15 * 3 / 2000 s = 22.5 ms.
  EXPECT_EQ(rank.part("dynamic_batching").text("max_queue_delay_microseconds"), "22500");
  EXPECT_EQ(rank.part("parameters").part("value").text("string_value"), "\"64:16,512:2\"");
}

TEST(Export, TritonRunsHostsToo) {
  const auto result = export_as("triton", mixed_plan());
  const Message rank = PbtxtReader(text_at(*result, "host-0/1c-0/rank/config.pbtxt")).read();
  EXPECT_EQ(rank.part("instance_group").text("kind"), "KIND_CPU");
  EXPECT_FALSE(rank.part("instance_group").fields.contains("gpus"));
  EXPECT_FALSE(rank.part("dynamic_batching").fields.contains("max_queue_delay_microseconds"));
}

// Two replicas on one slice are two models of one repository, and a service twice gets two names.
TEST(Export, TritonKeepsReplicasOfASliceApart) {
  const Plan plan{{device_of("n-0", "a30", "4g@0",
                             {{replica_of("a", {{1, 1}}), replica_of("a", {{1, 4}}), replica_of("b", {{1, 1}})}})}};
  std::vector<std::string> paths;
  const auto models = export_as("triton", plan);
  for (const auto& file : models->files) paths.push_back(file.path);
  EXPECT_THAT(paths, ElementsAre("n-0/4g.24gb-0/a/config.pbtxt", "n-0/4g.24gb-0/a-2/config.pbtxt",
                                 "n-0/4g.24gb-0/b/config.pbtxt"));
}

// Two services on one slice: one server that runs one batch at a time, and what Triton cannot do is said.
TEST(Export, TritonRunsTheModelsOfASharedSliceInTurn) {
  Replica limited = replica_of("b", {{1, 1}});
  limited.rate_max_per_s = 5;
  const Plan plan{{device_of("n-0", "a30", "2g@0 + 2g@2", {{replica_of("a", {{1, 4}}), limited}, {limited}})}};
  Workload workload;
  for (const char* name : {"a", "b"}) {
    Service service;
    service.name = name;
    service.model = "net";
    workload.services.push_back(service);
  }
  const auto result = export_as("triton", plan, {}, &workload);
  const Message shared = PbtxtReader(text_at(*result, "n-0/2g.12gb-0/a/config.pbtxt")).read();
  EXPECT_EQ(shared.part("instance_group").part("rate_limiter").part("resources").text("name"), "\"slice\"");
  const Message own = PbtxtReader(text_at(*result, "n-0/2g.12gb-2/b/config.pbtxt")).read();
  EXPECT_FALSE(own.part("instance_group").fields.contains("rate_limiter"));
  EXPECT_THAT(result->notes, Contains(HasSubstr("--rate-limit=execution_count")));
  EXPECT_THAT(result->notes, Contains(HasSubstr("does not limit the rates")));
  EXPECT_THAT(result->notes, Contains(HasSubstr("Triton loads a copy for each")));
}

TEST(Export, KubernetesListsAllModelsOfASharedSlice) {
  Replica limited = replica_of("b", {{1, 1}});
  limited.rate_max_per_s = 2.5;
  const Plan plan{{device_of("n-0", "a30", "4g@0", {{replica_of("a", {{1, 4}}), limited}})}};
  const auto result = export_as("kubernetes", plan);
  EXPECT_THAT(result->files[0].text, HasSubstr("a-b-4g-24gb"));
  EXPECT_THAT(result->files[0].text, HasSubstr("rate_max_per_s"));
  EXPECT_THAT(result->notes, Contains(HasSubstr("keeps all models that its annotation tangram/replicas lists")));
}

TEST(Export, WithoutAReplicaThereIsNothingToServe) {
  const Plan plan{{device_of("n-0", "a30", "4g@0", {})}};
  EXPECT_FALSE(export_as("triton", plan).ok());
  EXPECT_FALSE(export_as("kubernetes-dra", plan).ok());
  EXPECT_TRUE(export_as("kubernetes", plan).ok());
}

}  // namespace
}  // namespace tangram::formats
