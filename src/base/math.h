// Elementary functions whose bytes are the same on every x86-64 machine.
//
// The C library chooses among versions of exp and log by the processor it finds, and its last bit differs between
// releases. Everything that a seed must repeat goes through these instead: plain IEEE additions, multiplications
// and divisions in a fixed order, compiled without contraction.
#pragma once

namespace tangram::math {

inline constexpr double kPi = 3.14159265358979323846;
inline constexpr double kLn2 = 0.693147180559945309417;

// Natural logarithm. Relative error under 4e-16 except beside x = 1, where the absolute error is under 2e-16.
// log(0) is -infinity; a negative argument gives NaN.
double log(double x);

// e to the power x. Relative error under 1e-15; overflow gives infinity, underflow zero.
double exp(double x);

// x to the power y for x >= 0, by exp(y log x): relative error about |y log x| * 1e-15.
double pow(double x, double y);

// The quantile function of the standard normal distribution, 0 < p < 1. Absolute error under 1e-8 for p between 1e-15
// and 1 - 1e-15.
double normal_quantile(double p);

// The standard normal distribution function. Absolute error under 1e-12.
double normal_cdf(double x);

// The sine of an angle in full turns: 0.25 gives 1. Absolute error under 1e-12.
double sine_of_turns(double turns);

}  // namespace tangram::math
