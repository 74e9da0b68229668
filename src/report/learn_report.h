// How good a fitted model is, as a basis for deciding whether to measure more.
#pragma once

#include <string>
#include <vector>

#include "learn/fitted_model.h"
#include "learn/sampler.h"

namespace tangram::report {

// One measured run, and what the model said of it without having seen it.
struct UnseenRun {
  learn::Candidate candidate;
  double measured_ms = 0;
  double predicted_ms = 0;
  double low_ms = 0;
  double high_ms = 0;

  double error() const { return predicted_ms / measured_ms - 1; }
  bool covered() const { return low_ms <= measured_ms && measured_ms <= high_ms; }
};

// Errors of the runs that share something: a slice, a batch.
struct ErrorGroup {
  std::string name;
  std::size_t runs = 0;
  double median_error = 0;
  double p90_error = 0;
  double bias = 0;  // Median of predicted / measured - 1.
};

struct LearnReport {
  std::string device;
  std::string model;
  std::string members;  // "kriged", "kriged and boosted".
  std::size_t measurements = 0;
  std::size_t out_of_memory = 0;
  learn::Calibration calibration = learn::Calibration::assumed;
  double coverage_stated = 0.95;
  // From leaving out one run at a time; all zero where there is only one run.
  std::vector<UnseenRun> unseen;
  double median_error = 0;
  double p90_error = 0;
  double coverage = 0;
  std::vector<ErrorGroup> by_slice;
  std::vector<ErrorGroup> by_batch;
  std::vector<ErrorGroup> by_size;
  std::vector<ErrorGroup> by_processes;
  std::vector<learn::CrossValidation> validation;
  std::optional<learn::Candidate> next;  // What it would measure next; nothing: there is nothing left.
  std::string next_reason;
};

// `knowledge` is what the sampler may know beside the model's own measurements.
LearnReport report_on(const learn::FittedRun& run, const learn::Knowledge& knowledge);

// "from its own errors", ...
std::string calibration_text(learn::Calibration calibration);

// A page for people: measured against predicted, and the errors.
std::string learn_html(const std::vector<LearnReport>& reports);

}  // namespace tangram::report
