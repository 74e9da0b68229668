// Plans as people and as programs see them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/session.h"
#include "learn/fitted_model.h"
#include "plan/explain.h"
#include "plan/problem.h"

namespace tangram::cli {

// How sure a prediction is that the plan rests on: the one of the service with the widest interval.
struct Confidence {
  std::string service;
  std::string where;  // "3g.40gb of a100-80gb, batch 8, size 64"
  bool measured = false;
  double mean_ms = 0;
  double low_ms = 0;
  double high_ms = 0;
  double coverage = 0;
  std::size_t runs = 0;           // Predictions that the service rests on.
  std::size_t runs_measured = 0;  // Of those, measured ones.
};

// A plan with what is told about it.
struct PlanStory {
  const plan::Problem& problem;
  const plan::PlanAnswer& answer;
  std::string planner;
  std::uint64_t seed = 1;
  std::vector<double> costs = {};                        // By service.
  std::optional<std::vector<plan::Relief>> relief = {};  // Where an explanation was asked for.
  std::vector<Confidence> confidence = {};               // Empty where the model knows no intervals.
  bool explained = false;
};

// In the order of the services.
std::vector<Confidence> confidence_of(const plan::Problem& problem, const plan::PlanAnswer& answer,
                                      const learn::FittedModel& model);

// "proved best", or among which plans it is.
std::string proved_text(const plan::PlanAnswer& answer);

// The devices as mosaics, the services as a table, and the verdict below. `indent` in spaces.
std::string plan_text(const PlanStory& story, const Terminal& terminal, int indent = 0);
std::string explanation_text(const PlanStory& story, const Terminal& terminal);

// Stable keys; the plan itself under "plan", as a plan file has it.
report::Json plan_json(const PlanStory& story);

// One row for each device, its slices coloured by the service on them. Complete documents.
std::string plan_svg(const PlanStory& story);
std::string plan_html(const PlanStory& story);

}  // namespace tangram::cli
