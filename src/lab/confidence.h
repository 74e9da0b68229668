// How sure the predictions are that a plan rests on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "learn/fitted_model.h"
#include "plan/problem.h"

namespace tangram::lab {

// The prediction of a service with the widest interval relative to its mean.
struct Confidence {
  std::string service;
  std::string where;  // "3g.40gb of a100-80gb, batch 8, size 64"
  bool measured = false;
  double mean_ms = 0;
  double low_ms = 0;
  double high_ms = 0;
  double coverage = 0;            // Of the interval, between 0 and 1.
  std::size_t runs = 0;           // Predictions that the service rests on, ...
  std::size_t runs_measured = 0;  // ... and how many of them were measured.
};

// One entry per service of `answer`, in its order. A service whose runs the model does not know has `runs` == 0.
std::vector<Confidence> confidence_of(const plan::Problem& problem, const plan::PlanAnswer& answer,
                                      const learn::FittedModel& model);

// The kinds of slices of a service of which no run time was measured: "3g.40gb of a100-80gb", or "1g.10gb of h100-80gb
// (by a100-80gb)" where another device type was.
struct Guess {
  std::string service;
  std::vector<std::string> slices;
};

// The services of `answer` that have such slices, in its order.
std::vector<Guess> guesses_of(const plan::Problem& problem, const plan::PlanAnswer& answer,
                              const learn::FittedModel& model);

}  // namespace tangram::lab
