// A text that is equal for services that behave alike and differs for others. It serves as a key for remembered
// answers, so a field that is missing here would give a wrong answer silently. Hence the structured bindings.

#include "core/service_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tangram {
namespace {

// Visits a variant with one lambda for each alternative.
template <typename... Fs>
struct KeyOverload : Fs... {
  using Fs::operator()...;
};

// FNV-1a over whole numbers. A collision would need about four billion different traces in one run.
std::uint64_t digest_of(const Trace& trace) {
  std::uint64_t digest = 0xcbf29ce484222325ULL;
  const auto add = [&](std::int64_t value) {
    digest = (digest ^ static_cast<std::uint64_t>(value)) * 0x100000001b3ULL;
  };
  for (const auto& [at, size, samples] : trace) {
    add(at.time_since_epoch().count());
    add(size);
    add(samples);
  }
  return digest;
}

// The bindings below name every field, so a new field does not compile until someone decides whether it belongs to the
// key. Numbers are printed with as many digits as are needed to tell them apart. File names are left out: only
// contents matter.

std::string key_of(const Traffic& traffic) {
  return std::visit(KeyOverload{[](const PoissonTraffic& t) {
                                  const auto& [rate] = t;
                                  return fmt::format("poisson {}", rate);
                                },
                                [](const ConstantTraffic& t) {
                                  const auto& [rate] = t;
                                  return fmt::format("constant {}", rate);
                                },
                                [](const BurstTraffic& t) {
                                  const auto& [rate, factor, burst_s, calm_s] = t;
                                  return fmt::format("burst {} {} {} {}", rate, factor, burst_s, calm_s);
                                },
                                [](const DiurnalTraffic& t) {
                                  const auto& [rate, amplitude, period_s, peak_at_s] = t;
                                  return fmt::format("diurnal {} {} {} {}", rate, amplitude, period_s, peak_at_s);
                                },
                                [](const CurveTraffic& t) {
                                  const auto& [file, step_s, scale, rates] = t;
                                  return fmt::format("curve {} {} {}", step_s, scale, fmt::join(rates, " "));
                                },
                                [](const TraceTraffic& t) {
                                  const auto& [file, speed, trace] = t;
                                  return fmt::format("trace {} {} {:x}", speed, trace.size(), digest_of(trace));
                                },
                                [](const ClosedLoopTraffic& t) {
                                  const auto& [clients, think_s] = t;
                                  return fmt::format("loop {} {}", clients, think_s);
                                }},
                    traffic);
}

// A distribution of sizes; TraceSize means the sizes in the traffic, which is part of the key already.
std::string key_of(const SizeDistribution& sizes) {
  return std::visit(KeyOverload{[](const ConstantSize& s) {
                                  const auto& [size] = s;
                                  return fmt::format("constant {}", size);
                                },
                                [](const LogNormalSize& s) {
                                  const auto& [median, sigma, min, max] = s;
                                  return fmt::format("lognormal {} {} {} {}", median, sigma, min, max);
                                },
                                [](const HistogramSize& s) {
                                  const auto& [file, bins] = s;
                                  std::string key = "histogram";
                                  for (const auto& [size, weight] : bins) key += fmt::format(" {}:{}", size, weight);
                                  return key;
                                },
                                [](const TraceSize&) { return std::string("of the trace"); }},
                    sizes);
}

}  // namespace

std::string content_key(const Service& service) {
  // Name, tensors, weights, who may share and the engine are bound and left out: they do not affect the run times,
  // which come from the latency model.
  const auto& [name, model, slo, traffic, input_size, samples, padding, priority, tensors, drift, job, weights,
               isolation, tenant, share_group, engine, command, remotes] = service;
  const auto& [latency, percentile, window_s, late_limit] = slo;
  std::string key =
      fmt::format("{}|{} {} {}|{}|{}|{}|{}|{}", model, latency.count(), percentile, window_s, key_of(traffic),
                  key_of(input_size), key_of(samples), static_cast<int>(padding), priority);
  // Optional parts begin with a word of their own, so that no two services with different parts have the same text.
  if (late_limit != 1) key += fmt::format("|late {}", late_limit);
  if (drift) {
    const auto& [to, begin_s, end_s] = *drift;
    key += fmt::format("|drift {} {} {}", key_of(to), begin_s, end_s);
  }
  if (job) {
    const auto& [rows, deadline] = *job;
    key += fmt::format("|job {} {}", rows, deadline.count());
  }
  return key;
}

}  // namespace tangram
