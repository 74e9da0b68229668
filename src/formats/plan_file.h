// The plan file: a layout for each device and the replicas on it, in JSON.
#pragma once

#include <cstdint>
#include <string>

#include "core/plan.h"
#include "formats/source.h"

namespace tangram::formats {

inline constexpr int kPlanVersion = 1;
// The starts of all profiles of all hosts in one plan: what their geometries take in memory, four bytes each. A host
// of 64 cores with quotas has 32,896 of them.
inline constexpr std::int64_t kPlanHostStartsMax = std::int64_t{1} << 25;

// Refuses layouts that the device does not permit, a `layout` that disagrees with `slices`, names used twice, and
// buckets that do not ascend. Whether the replicas keep their promises is not looked at.
Result<Plan> parse_plan(const Source& source);

// The same plan gives the same bytes, and parse_plan reads back an equal one.
std::string write_plan(const Plan& plan);

}  // namespace tangram::formats
