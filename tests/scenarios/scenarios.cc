// scenarios [--update] FILE...: runs scenarios and compares what was decided with the log that is kept beside each.
//
// A scenario is x.yaml; x.golden holds its decisions with their virtual instants and the digest of its outcomes, so
// that any moved decision shows in review. Each runs twice and must repeat itself, under its own policy and under every
// other; under a sanitizer, which does not change what is decided, once. --update writes the golden files anew.

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/test_seeds.h"
#include "lab/scenario.h"
#include "lab/training_fleet.h"
#include "sched/policy.h"
#include "sim/simulation.h"

namespace tangram {
namespace {

namespace fs = std::filesystem;

constexpr bool kRunsTwice = test_seeds(5) == 5;  // In release, that is.

Result<std::string> read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::not_found, path.string() + ": cannot be read"};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<lab::Scenario> load(const fs::path& path) {
  const auto text = read_text(path);
  if (!text) return text.error();
  const auto beside = [&](const std::string& name) { return read_text(path.parent_path() / name); };
  return lab::parse_scenario({path.filename().string(), *text}, beside);
}

sim::SimulationResult run(const lab::Scenario& scenario, const std::string& policy, bool log) {
  sim::SimulationConfig config = scenario.config;
  config.scheduler.policy = policy;
  config.log_decisions = log;
  if (!scenario.training) return sim::simulate(scenario.deployment, scenario.workload, config);
  lab::TrainingResult training;
  return lab::simulate_with_training(*scenario.training,
                                     {scenario.plan, scenario.workload, scenario.deployment, *scenario.latency}, config,
                                     &training);
}

std::string log_of(const sim::SimulationResult& result) {
  std::string text;
  for (const auto& line : result.decisions) text += line + '\n';
  return text + fmt::format("digest {:016x}\n", result.digest);
}

// "line 7: was ..., is ..." of the first line that differs.
std::string first_difference(const std::string& was, const std::string& is) {
  std::istringstream before(was), after(is);
  for (int line = 1;; ++line) {
    std::string a, b;
    const bool more_before = static_cast<bool>(std::getline(before, a));
    const bool more_after = static_cast<bool>(std::getline(after, b));
    if (!more_before) a = "(nothing)";
    if (!more_after) b = "(nothing)";
    if (a != b || (!more_before && !more_after)) return fmt::format("line {}:\n  was  {}\n  is   {}", line, a, b);
  }
}

// What is wrong; empty if nothing is.
std::string judge(const fs::path& path, bool update) {
  const auto scenario = load(path);
  if (!scenario) return scenario.error().message;
  const std::string& own = scenario->config.scheduler.policy;
  const std::string log = log_of(run(*scenario, own, true));
  if (kRunsTwice && log_of(run(*scenario, own, true)) != log) return "a second run decides otherwise";
  for (const auto& policy : sched::policies()) {
    const std::string name(policy.name);
    const auto digest = run(*scenario, name, false).digest;
    if (kRunsTwice && run(*scenario, name, false).digest != digest) {
      return "a second run under " + name + " has another digest";
    }
  }
  const fs::path golden = fs::path(path).replace_extension(".golden");
  if (update) {
    std::ofstream(golden, std::ios::binary) << log;
    return "";
  }
  const auto kept = read_text(golden);
  if (!kept) return kept.error().message;
  if (*kept == log) return "";
  return fmt::format("decisions have moved; {}\nto accept them: scenarios --update {}", first_difference(*kept, log),
                     path.string());
}

}  // namespace
}  // namespace tangram

int main(int argc, char** argv) {
  std::vector<std::string> files(argv + 1, argv + argc);
  const bool update = !files.empty() && files[0] == "--update";
  if (update) files.erase(files.begin());
  if (files.empty()) {
    fmt::print(stderr, "usage: scenarios [--update] FILE...\n");
    return 2;
  }
  int failures = 0;
  for (const auto& file : files) {
    const std::string wrong = tangram::judge(file, update);
    if (wrong.empty()) continue;
    ++failures;
    fmt::print("{}: {}\n", file, wrong);
  }
  fmt::print("{} scenarios, {} failed\n", files.size(), failures);
  return failures == 0 ? 0 : 1;
}
