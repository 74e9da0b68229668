// Plans, for people and for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/confidence.h"
#include "plan/certify_plan.h"
#include "plan/explain.h"
#include "plan/problem.h"
#include "report/style.h"
#include "report/yaml.h"

namespace tangram::report {

// A plan with everything that the reports show about it.
struct PlanStory {
  const plan::Problem& problem;
  const plan::PlanAnswer& answer;
  std::string planner;
  std::uint64_t seed = 1;
  std::vector<double> costs = {};                        // By service.
  std::optional<std::vector<plan::Relief>> relief = {};  // Where an explanation was asked for.
  std::vector<lab::Confidence> confidence = {};          // Empty where the model knows no intervals.
  std::vector<plan::Neighbours> neighbours = {};         // Where an explanation was asked for.
  bool explained = false;
  std::vector<lab::Guess> guesses = {};  // Services of which some run times were never measured.
  // The share of runs that are to be no longer than planned: of all, or of those in `guesses` where nothing was asked.
  std::optional<double> confidence_asked = {};
};

// "proved optimal among the plans in which ...".
std::string proved_text(const plan::PlanAnswer& answer);

// The devices as mosaics, the services as a table, and the verdict below. `indent` in spaces.
std::string plan_text(const PlanStory& story, const Terminal& terminal, int indent = 0);
std::string explanation_text(const PlanStory& story, const Terminal& terminal);

// An existing plan that was certified again: a table of the services and a sentence. `wrong` is what check_plan found.
std::string checked_plan_text(const plan::Problem& problem, const plan::CertifiedPlan& checked,
                              const std::vector<std::string>& wrong, const Terminal& terminal);
Json checked_plan_json(const plan::Problem& problem, const plan::CertifiedPlan& checked,
                       const std::vector<std::string>& wrong, std::uint64_t seed);

// Stable keys; the plan itself under "plan", as a plan file has it.
Json plan_json(const PlanStory& story);

// One row for each device, its slices coloured by the service on them. Complete documents.
std::string plan_svg(const PlanStory& story);
// What the picture says above its devices: "2 devices, ...".
std::string plan_title(const PlanStory& story);
// `generator` is the program that writes the page, with its commit: "tangram 0.1.0 1a2b3c4".
std::string plan_html(const PlanStory& story, const std::string& generator);

}  // namespace tangram::report
