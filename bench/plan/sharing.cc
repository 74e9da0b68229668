// Plans of long tails: elastic with shared slices against nexus, gpulet and slices of one's own.
//
//   plan_sharing [--first N] [--problems N] [--peers none|own|certified] [--seed N] [--seeds N] [--write DIR]
//   plan_sharing --row thirty|two_hundred|thousand [--data DIR] [--examples DIR] [--services N] [--write DIR]
//
// Prints one JSON line for each problem. Every plan is checked by check_plan(). Every promise of elastic's plan is
// confirmed with other seeds, and those of the peers' plans under their own rule are judged in the same way. `peers
// certified` also plans with the peers until every promise holds. `write` writes the files of each problem, for
// `tangram plan`. bench/plan/sharing runs it on all cores.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "base/check.h"
#include "base/text.h"
#include "bench/plan/long_tail_problems.h"
#include "formats/fleet_file.h"
#include "formats/import.h"
#include "formats/measurements_file.h"
#include "formats/workload_file.h"
#include "lab/certify.h"
#include "learn/models/table.h"
#include "plan/check_plan.h"
#include "plan/problem.h"

namespace tangram::bench {
namespace {

struct Options {
  std::uint64_t first = 1;
  std::uint64_t problems = 1;
  std::uint64_t seeds = 2;  // Further seeds that confirm a plan.
  std::uint64_t seed = 1;   // Of the search.
  bool peers = true;        // Under their own rule.
  bool certified = false;   // The peers, too.
  std::string row;
  std::string data;
  std::string examples = "examples";
  std::size_t services = 1000;
  std::string write;
};

// Of this process, so that other work on the machine does not count.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  TANGRAM_CHECK(in.good(), "a file of the benchmark can be read");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_problem(const RandomProblem& problem, const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/fleet.yaml") << formats::write_fleet(problem.fleet);
  std::ofstream(folder + "/services.yaml") << formats::write_workload(problem.workload);
  std::ofstream(folder + "/measurements.csv") << formats::write_measurements(problem.measurements);
}

struct Lost {
  int unconfirmed = 0;  // Promises that do not hold with confidence.
  int below = 0;        // Of these, those whose estimate is below the percentile.

  void count(const Service& service, const plan::Verdict& verdict) {
    unconfirmed += !verdict.holds;
    below += !verdict.holds && verdict.attainment < service.slo.percentile / 100;
    if (verdict.holds) return;
    fmt::print(stderr, "{}: p{:g} not confirmed: {:.5f} ({:.5f} to {:.5f})\n", service.name, service.slo.percentile,
               verdict.attainment, verdict.attainment_low, verdict.attainment_high);
  }
};

// Promises of a plan that do not hold with a seed. Services that meet on slices are judged together.
Lost promises_lost(const plan::Problem& problem, const Plan& plan, const LatencyModel& model, std::uint64_t seed) {
  lab::SimulatedCertifier certifier(model, {.seed = seed, .confirmations = 1});
  std::vector<std::set<std::string>> sets;
  std::vector<plan::SharedGroup> all;
  for (const auto& device : plan.devices) {
    for (const auto& slice : device.slices) {
      if (slice.replicas.empty()) continue;
      const MigProfile& profile = device.geometry.profiles[slice.slice.profile];
      plan::SharedGroup group{device.type, profile.name, profile.compute_slices, slice.replicas, 1};
      const auto same = std::ranges::find_if(all, [&](const plan::SharedGroup& other) {
        return other.mig_profile == group.mig_profile && other.replicas == group.replicas;
      });
      if (same != all.end()) {
        ++same->count;
        continue;
      }
      std::set<std::string> names;
      for (const auto& replica : slice.replicas) names.insert(replica.service);
      std::erase_if(sets, [&](const std::set<std::string>& set) {
        const bool meets = std::ranges::any_of(set, [&](const std::string& name) { return names.contains(name); });
        if (meets) names.insert(set.begin(), set.end());
        return meets;
      });
      sets.push_back(std::move(names));
      all.push_back(std::move(group));
    }
  }
  Lost lost;
  for (const auto& names : sets) {
    std::vector<Service> services;
    for (const auto& service : problem.workload.services) {
      if (names.contains(service.name)) services.push_back(service);
    }
    std::vector<plan::SharedGroup> groups;
    std::vector<plan::ReplicaGroup> own;
    for (const auto& group : all) {
      if (!names.contains(group.replicas[0].service)) continue;
      groups.push_back(group);
      own.push_back({group.device_type, group.mig_profile, group.compute_slices, group.replicas[0], group.count});
    }
    if (services.size() == 1) {
      lost.count(services[0], certifier.certify(services[0], own, true));
      continue;
    }
    const auto verdicts = certifier.certify_together(services, groups, true);
    for (std::size_t i = 0; i < services.size(); ++i) lost.count(services[i], verdicts[i]);
  }
  return lost;
}

struct Planned {
  plan::PlanAnswer answer;
  double cpu_s = 0;
  std::string wrong;

  int devices() const { return answer.status == plan::PlanStatus::planned ? answer.devices : -1; }
};

Planned plan_with(plan::Problem& problem, const LatencyModel& model, const std::string& planner, plan::Rule rule,
                  plan::Sharing sharing, std::uint64_t seed = 1) {
  lab::SimulatedCertifier certifier(model, {.seed = seed});
  problem.certifier = &certifier;
  problem.options.rule = rule;
  problem.options.sharing = sharing;
  const double begin = cpu_seconds();
  Planned planned;
  planned.answer = plan::find_planner(planner)->make()->plan(problem);
  planned.cpu_s = cpu_seconds() - begin;
  if (planned.answer.status == plan::PlanStatus::planned) {
    planned.wrong = text::join(plan::check_plan(problem, planned.answer.plan), "; ");
  } else {
    fmt::print(stderr, "{}: no plan: {}\n", planner, planned.answer.reason);
  }
  return planned;
}

void run_problem(const std::string& name, const RandomProblem& random, const Options& options) {
  if (!options.write.empty()) write_problem(random, options.write + "/" + name);
  const learn::TableModel model(random.measurements);
  plan::Problem problem;
  problem.fleet = random.fleet;
  problem.workload = random.workload;
  problem.latency = &model;
  std::string line = fmt::format("{{\"problem\": \"{}\", \"services\": {}", name, random.workload.services.size());
  std::string wrong;
  const auto add = [&](const std::string& key, const Planned& planned) {
    line += fmt::format(", \"{}\": {}, \"{}_s\": {:.2f}", key, planned.devices(), key, planned.cpu_s);
    if (!planned.wrong.empty()) wrong += key + ": " + planned.wrong + "; ";
    // A problem may take minutes: what is known is shown at once.
    fmt::print(stderr, "{} {}: {} devices, {:.1f} s\n", name, key, planned.devices(), planned.cpu_s);
  };
  for (const std::string peer : {"nexus", "gpulet"}) {
    if (!options.peers) break;
    const Planned own = plan_with(problem, model, peer, plan::Rule::no_waiting, plan::Sharing::all);
    add(peer, own);
    if (own.devices() >= 0 && options.seeds > 0) {
      line += fmt::format(", \"{}_lost\": {}", peer, promises_lost(problem, own.answer.plan, model, 101).below);
    }
  }
  const Planned elastic = plan_with(problem, model, "elastic", plan::Rule::certified, plan::Sharing::all, options.seed);
  add("elastic", elastic);
  line += fmt::format(", \"bound\": {}, \"proved\": {}, \"binds\": \"{}\", \"certifications\": {}",
                      elastic.answer.bound, elastic.answer.proved, elastic.answer.binds, elastic.answer.certifications);
  if (elastic.answer.price_alone) line += fmt::format(", \"alone\": {}", *elastic.answer.price_alone);
  if (!elastic.answer.price_alone) {
    add("alone", plan_with(problem, model, "elastic", plan::Rule::certified, plan::Sharing::none));
  }
  Lost lost;
  for (std::uint64_t seed = 1; seed <= options.seeds && elastic.devices() >= 0; ++seed) {
    const Lost more = promises_lost(problem, elastic.answer.plan, model, 100 + seed);
    lost.unconfirmed += more.unconfirmed;
    lost.below += more.below;
  }
  line += fmt::format(", \"elastic_unconfirmed\": {}, \"elastic_lost\": {}, \"judged\": {}", lost.unconfirmed,
                      lost.below, options.seeds * random.workload.services.size());
  if (options.certified) {
    for (const std::string peer : {"nexus", "gpulet"}) {
      add(peer + "_certified", plan_with(problem, model, peer, plan::Rule::certified, plan::Sharing::all));
    }
  }
  fmt::print("{}, \"wrong\": \"{}\"}}\n", line, wrong);
  std::fflush(stdout);
}

Measurements import(const std::string& format, const std::string& path) {
  const auto text = formats::import_text(format, {formats::Source{path, text_of(path)}});
  TANGRAM_CHECK(text.ok(), "the public measurements can be imported");
  return *formats::parse_measurements(formats::Source{path, *text});
}

RandomProblem row_problem(const Options& options) {
  const std::string path = options.examples + "/measurements.csv";
  if (options.row != "thousand") {
    Measurements example = *formats::parse_measurements(formats::Source{path, text_of(path)});
    std::erase_if(example, [](const Measurement& m) { return m.device != "a100-80gb"; });
    return options.row == "thirty" ? thirty_services(example) : two_hundred_services(example);
  }
  return thousand_services(measured_models(import("parvagpu", options.data + "/parvagpu/profiles.csv"),
                                           import("migprofiler", options.data + "/migprofiler/profiles.csv")),
                           options.services);
}

int main_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--first") options.first = std::stoull(value);
    if (name == "--problems") options.problems = std::stoull(value);
    if (name == "--seeds") options.seeds = std::stoull(value);
    if (name == "--seed") options.seed = std::stoull(value);
    if (name == "--peers") options.certified = value == "certified";
    if (name == "--peers") options.peers = value != "none";
    if (name == "--row") options.row = value;
    if (name == "--data") options.data = value;
    if (name == "--examples") options.examples = value;
    if (name == "--services") options.services = std::stoull(value);
    if (name == "--write") options.write = value;
  }
  if (!options.row.empty()) {
    run_problem(options.row, row_problem(options), options);
    return 0;
  }
  for (std::uint64_t n = options.first; n < options.first + options.problems; ++n) {
    run_problem(fmt::format("p{}", n), long_tail_problem(n), options);
  }
  return 0;
}

}  // namespace
}  // namespace tangram::bench

int main(int argc, char** argv) { return tangram::bench::main_of(argc, argv); }
