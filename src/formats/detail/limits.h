// How large the numbers in files may be. Each lies far beyond use; they are there so that sums and products of them
// stay exact or at least finite.
#pragma once

namespace tangram::formats {

inline constexpr double kSizeMax = 1e9;       // Of an input.
inline constexpr double kSamplesMax = 1e6;    // Of one request.
inline constexpr double kRateMax = 1e9;       // Requests a second.
inline constexpr double kBatchMax = 1e6;      // Samples in one batch.
inline constexpr double kProcessesMax = 1e3;  // On one slice.
inline constexpr double kLatencyMsMax = 1e9;  // Eleven days.
inline constexpr double kSecondsMax = 1e9;    // Thirty years.

}  // namespace tangram::formats
