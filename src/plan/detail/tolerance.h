// How exact numbers of the planners are. check_plan() has tolerances of its own: it shares no code with planners.
#pragma once

namespace tangram::plan::detail {

// Relative: two sums of the same rates or prices, added in another order, are equal. Sums of a thousand doubles differ
// by 1e-13 or so; prices and rates that users mean to differ do so by far more than this.
inline constexpr double kSumTolerance = 1e-9;

// Absolute: prices of bounds, which come out of a linear program. CLP keeps its constraints to 1e-7.
inline constexpr double kBoundTolerance = 1e-7;

// Absolute: how far a number from a linear program may be from the whole number that it means. CBC takes an integer for
// one within 1e-6.
inline constexpr double kWholeTolerance = 1e-6;

// A search divides at a number only if it is at least this far from a whole one; below, rounding is all there is.
inline constexpr double kFractionMin = 1e-5;

// Relative: a choice of buckets replaces one with fewer buckets only if its slices cost less by more than this.
inline constexpr double kSavingMin = 1e-6;

// The least rate and the least share of sizes: a bucket that hardly anything arrives for is still divided by.
inline constexpr double kRateMin = 1e-9;

// Entries of a simplex tableau below kPivotMin are rounding errors; ratios within kRatioTie are equal, and then Bland's
// rule decides.
inline constexpr double kPivotMin = 1e-12;
inline constexpr double kRatioTie = 1e-15;

// Relative to the demand: a slice that serves less of it than this serves nothing of it. What is left of rounding would
// otherwise ask for millions of slices.
inline constexpr double kUnitMin = 1e-7;

}  // namespace tangram::plan::detail
