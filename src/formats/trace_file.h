// Recorded traffic: traces, rate curves and histograms of input sizes.
#pragma once

#include <string>
#include <vector>

#include "core/workload.h"
#include "formats/source.h"

namespace tangram::formats {

// CSV `at_s,size,samples`; `samples` may be left out and is then 1. Times ascend; equal ones are fine. They are read
// as decimal numbers exactly to the nanosecond.
Result<Trace> parse_trace(const Source& source);
std::string write_trace(const Trace& trace);

// One rate in requests a second on each line, not negative. Lines that are empty or begin with # are passed over.
Result<std::vector<double>> parse_rate_curve(const Source& source);
std::string write_rate_curve(const std::vector<double>& rate_per_s);

// CSV `size,weight`: sizes ascend strictly, weights are positive.
Result<std::vector<HistogramSize::Bin>> parse_histogram(const Source& source);
std::string write_histogram(const std::vector<HistogramSize::Bin>& histogram);

}  // namespace tangram::formats
