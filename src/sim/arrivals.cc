// Draws the arrival times, sizes and numbers of samples of one service.
//
// Times, burst states and sizes use three separate random streams. A change of the size distribution therefore leaves
// the arrival times as they are, and two policies that are compared see exactly the same requests. All functions of
// real numbers come from base/math.h or this file, because libm differs between machines and the results would, too.

#include "sim/arrivals.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/math.h"

namespace tangram::sim {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

TimePoint at_seconds(double seconds) { return kTimeZero + from_seconds(seconds); }

}  // namespace

// The logarithm and the alias table are computed once; a draw then costs O(1), however many bins a histogram has.
SizeSampler::SizeSampler(const SizeDistribution& distribution) : distribution_(distribution) {
  if (const auto* log_normal = std::get_if<LogNormalSize>(&distribution_)) log_median_ = math::log(log_normal->median);
  if (const auto* histogram = std::get_if<HistogramSize>(&distribution_)) {
    std::vector<double> weights;
    for (const auto& bin : histogram->bins) weights.push_back(bin.weight);
    if (!weights.empty()) bins_ = AliasTable(weights);
  }
}

std::int64_t SizeSampler::draw(Rng& rng) const {
  if (const auto* constant = std::get_if<ConstantSize>(&distribution_)) return constant->size;
  if (const auto* log_normal = std::get_if<LogNormalSize>(&distribution_)) {
    const double drawn = math::exp(log_median_ + log_normal->sigma * rng.normal());
    // Clamped and not drawn again, so that each size costs exactly one normal number.
    const double clamped =
        std::clamp(drawn, static_cast<double>(log_normal->min), static_cast<double>(log_normal->max));
    return static_cast<std::int64_t>(clamped + 0.5);
  }
  if (const auto* histogram = std::get_if<HistogramSize>(&distribution_)) {
    return histogram->bins.empty() ? 1 : histogram->bins[bins_.draw(rng)].size;
  }
  // TraceSize: the caller replaces this by the size in the trace.
  return 1;
}

ArrivalSource::ArrivalSource(const Service& service, const Rng& rng, std::uint64_t index, double rate_scale,
                             double begin_s)
    : service_(&service),
      scale_(rate_scale),
      begin_s_(begin_s),
      times_(rng.stream("arrivals", index)),
      states_(rng.stream("bursts", index)),
      sizes_(rng.stream("sizes", index)),
      size_sampler_(service.input_size),
      samples_sampler_(service.samples),
      at_s_(begin_s) {
  TANGRAM_CHECK(rate_scale > 0, "a rate is scaled by something positive");
  TANGRAM_CHECK(begin_s >= 0, "a day begins at zero");
  flows_ = mean_rate_per_s(service.traffic) > 0;
  // Kept as a gap, which saves a division per request.
  if (const auto* poisson = std::get_if<PoissonTraffic>(&service.traffic))
    gap_mean_s_ = 1 / (poisson->rate_per_s * scale_);
  if (service.size_drift) later_sampler_.emplace(service.size_drift->to);
  if (const auto* bursts = std::get_if<BurstTraffic>(&service.traffic)) {
    // The initial state is drawn from the stationary distribution, so that the mean rate is right from the first
    // second.
    bursting_ = states_.chance(bursts->burst_mean_s / (bursts->burst_mean_s + bursts->calm_mean_s));
  }
  if (const auto* curve = std::get_if<CurveTraffic>(&service.traffic)) {
    curve_step_ = static_cast<std::size_t>(begin_s / curve->step_s);
  }
  enter_piece();
}

std::optional<Arrival> ArrivalSource::next() {
  std::optional<Arrival> arrival;
  const auto at = next_time();
  if (!at) return arrival;
  arrival.emplace().at = *at;
  // Sizes are drawn for a trace as well and then replaced where the trace has them.
  fill(*arrival);
  if (const auto* replay = std::get_if<TraceTraffic>(&service_->traffic)) {
    const TraceEntry& entry = replay->trace[emitted_];
    if (std::holds_alternative<TraceSize>(service_->input_size)) arrival->size = entry.size;
    arrival->samples = static_cast<std::int32_t>(std::max<std::int64_t>(entry.samples, arrival->samples));
  }
  ++emitted_;
  return arrival;
}

void ArrivalSource::fill(Arrival& arrival) {
  // The extra number is drawn only for sizes that drift, so that all other services see the same random numbers as
  // before.
  const bool later = later_sampler_ && sizes_.chance(service_->size_drift->share_at(begin_s_ + to_seconds(arrival.at)));
  arrival.size = later ? later_sampler_->draw(sizes_) : size_sampler_.draw(sizes_);
  arrival.samples = static_cast<std::int32_t>(samples_sampler_.draw(sizes_));
}

Arrival ArrivalSource::after_answer(TimePoint answered) {
  const double think = std::get<ClosedLoopTraffic>(service_->traffic).think_mean_s / scale_;
  Arrival arrival;
  arrival.at = answered + (think > 0 ? from_seconds(times_.exponential(think)) : Duration::zero());
  fill(arrival);
  return arrival;
}

std::optional<TimePoint> ArrivalSource::next_time() {
  if (std::holds_alternative<PoissonTraffic>(service_->traffic)) {
    // With a rate of zero the gap would be infinite.
    if (!flows_) return std::nullopt;
    at_s_ += times_.exponential(gap_mean_s_);
    return at_seconds(at_s_ - begin_s_);
  }
  if (const auto* constant = std::get_if<ConstantTraffic>(&service_->traffic)) {
    const double rate = constant->rate_per_s * scale_;
    if (rate <= 0) return std::nullopt;
    // From the count and not by adding gaps, so that rounding errors do not add up over a long run.
    return at_seconds(static_cast<double>(emitted_ + 1) / rate);
  }
  if (std::holds_alternative<DiurnalTraffic>(service_->traffic)) {
    return flows_ ? std::optional(next_diurnal()) : std::nullopt;
  }
  if (const auto* replay = std::get_if<TraceTraffic>(&service_->traffic)) {
    if (emitted_ >= replay->trace.size()) return std::nullopt;
    return at_seconds(to_seconds(replay->trace[emitted_].at) / (replay->speed * scale_));
  }
  if (const auto* loop = std::get_if<ClosedLoopTraffic>(&service_->traffic)) {
    if (emitted_ >= static_cast<std::uint64_t>(loop->clients)) return std::nullopt;
    // Clients start with one think time each; otherwise all of them would arrive in the same instant.
    return kTimeZero +
           (loop->think_mean_s > 0 ? from_seconds(times_.exponential(loop->think_mean_s / scale_)) : Duration::zero());
  }
  return flows_ ? std::optional(next_piecewise()) : std::nullopt;
}

// Sets the rate that holds from at_s_ on, and the time until which it holds.
void ArrivalSource::enter_piece() {
  if (const auto* bursts = std::get_if<BurstTraffic>(&service_->traffic)) {
    const double share = bursts->burst_mean_s / (bursts->burst_mean_s + bursts->calm_mean_s);
    // Solves share * burst_factor * calm + (1 - share) * calm = rate_per_s, so that the mean is the configured rate.
    const double calm_rate = bursts->rate_per_s / (1 + share * (bursts->burst_factor - 1));
    piece_rate_ = scale_ * calm_rate * (bursting_ ? bursts->burst_factor : 1);
    piece_end_s_ = at_s_ + states_.exponential(bursting_ ? bursts->burst_mean_s : bursts->calm_mean_s);
    bursting_ = !bursting_;
    return;
  }
  if (const auto* curve = std::get_if<CurveTraffic>(&service_->traffic);
      curve != nullptr && !curve->rate_per_s.empty()) {
    // A curve repeats after its last step.
    piece_rate_ = scale_ * curve->scale * curve->rate_per_s[curve_step_ % curve->rate_per_s.size()];
    ++curve_step_;
    piece_end_s_ = static_cast<double>(curve_step_) * curve->step_s;
    return;
  }
  piece_end_s_ = kForever;
}

// Inversion of the cumulative rate: a unit exponential is the number of expected events until the next arrival, and
// each piece uses up rate x length of it. Exact for piecewise constant rates, and it costs one random number per
// arrival. A piece of rate zero is crossed without using up anything; the loop ends because flows_ guarantees a
// positive rate.
TimePoint ArrivalSource::next_piecewise() {
  double events = times_.exponential(1);
  while (events >= piece_rate_ * (piece_end_s_ - at_s_)) {
    events -= piece_rate_ * (piece_end_s_ - at_s_);
    at_s_ = piece_end_s_;
    enter_piece();
  }
  at_s_ += events / piece_rate_;
  return at_seconds(at_s_ - begin_s_);
}

// Thinning (Lewis and Shedler, 1979): draw at the peak rate, and keep each arrival with the probability rate / peak
// that holds at its instant. At most about half of the draws are discarded, since the mean rate is at least half of the
// peak.
TimePoint ArrivalSource::next_diurnal() {
  const auto& diurnal = std::get<DiurnalTraffic>(service_->traffic);
  const double peak = diurnal.rate_per_s * scale_ * (1 + diurnal.amplitude);
  while (true) {
    at_s_ += times_.exponential(1 / peak);
    // A quarter turn moves the maximum of the sine to peak_at_s.
    const double turns = (at_s_ - diurnal.peak_at_s) / diurnal.period_s + 0.25;
    const double rate = 1 + diurnal.amplitude * math::sine_of_turns(turns);
    if (times_.uniform() * (1 + diurnal.amplitude) < rate) return at_seconds(at_s_ - begin_s_);
  }
}

}  // namespace tangram::sim
