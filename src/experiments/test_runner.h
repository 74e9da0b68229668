// A Runner for tests: one cell after the other, messages kept.
#pragma once

#include <string>
#include <vector>

#include "experiments/runner.h"

namespace tangram::experiments {

struct TestRunner final : Runner {
  void run_all(std::string_view activity, std::size_t count, const std::function<void(std::size_t)>& run) override {
    activities.emplace_back(activity);
    for (std::size_t i = 0; i < count; ++i) run(i);
  }
  void note(std::string_view line) override { notes.emplace_back(line); }
  void warn(std::string_view line) override { warnings.emplace_back(line); }

  std::vector<std::string> activities;
  std::vector<std::string> notes;
  std::vector<std::string> warnings;
};

}  // namespace tangram::experiments
