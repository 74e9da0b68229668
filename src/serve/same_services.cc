// Fields are taken apart by structured bindings, so that a new field does not compile until it is compared.

#include "serve/same_services.h"

#include <algorithm>
#include <tuple>
#include <variant>

namespace tangram::serve {
namespace {

auto parts(const PoissonTraffic& t) {
  const auto& [rate] = t;
  return std::tie(rate);
}
auto parts(const ConstantTraffic& t) {
  const auto& [rate] = t;
  return std::tie(rate);
}
auto parts(const BurstTraffic& t) {
  const auto& [rate, factor, burst_s, calm_s] = t;
  return std::tie(rate, factor, burst_s, calm_s);
}
auto parts(const DiurnalTraffic& t) {
  const auto& [rate, amplitude, period_s, peak_at_s] = t;
  return std::tie(rate, amplitude, period_s, peak_at_s);
}
auto parts(const CurveTraffic& t) {
  const auto& [file, step_s, scale, rate] = t;
  return std::tie(file, step_s, scale, rate);
}
auto parts(const TraceTraffic& t) {
  const auto& [file, speed, trace] = t;
  return std::tie(file, speed, trace);
}
auto parts(const ClosedLoopTraffic& t) {
  const auto& [clients, think_s] = t;
  return std::tie(clients, think_s);
}
auto parts(const ConstantSize& s) {
  const auto& [size] = s;
  return std::tie(size);
}
auto parts(const LogNormalSize& s) {
  const auto& [median, sigma, min, max] = s;
  return std::tie(median, sigma, min, max);
}
auto parts(const HistogramSize::Bin& b) {
  const auto& [size, weight] = b;
  return std::tie(size, weight);
}
// Of a service that can be compared as they are.
auto plain_parts(const Service& s) {
  const auto& [name, model, slo, traffic, input_size, samples, padding, priority, tensors, size_drift, job, weights,
               isolation, tenant, share_group, engine, command, remotes] = s;
  return std::tie(name, model, slo, padding, priority, tensors, job, weights, isolation, tenant, share_group, engine,
                  command, remotes);
}

template <typename T>
bool same(const T& a, const T& b) {
  return parts(a) == parts(b);
}
bool same(const TraceSize& /*a*/, const TraceSize& /*b*/) { return true; }
bool same(const HistogramSize& a, const HistogramSize& b) {
  const auto& [file, bins] = a;
  return file == b.file && std::ranges::equal(bins, b.bins, [](const auto& x, const auto& y) { return same(x, y); });
}
template <typename... Kinds>
bool same(const std::variant<Kinds...>& a, const std::variant<Kinds...>& b) {
  if (a.index() != b.index()) return false;
  return std::visit([&]<typename Kind>(const Kind& kind) { return same(kind, std::get<Kind>(b)); }, a);
}
bool same(const SizeDrift& a, const SizeDrift& b) {
  const auto& [to, begin_s, end_s] = a;
  return same(to, b.to) && std::tie(begin_s, end_s) == std::tie(b.begin_s, b.end_s);
}
bool same(const Service& a, const Service& b) {
  const bool drifts = a.size_drift && b.size_drift;
  return plain_parts(a) == plain_parts(b) && same(a.traffic, b.traffic) && same(a.input_size, b.input_size) &&
         same(a.samples, b.samples) && a.size_drift.has_value() == b.size_drift.has_value() &&
         (!drifts || same(*a.size_drift, *b.size_drift));
}

}  // namespace

bool same_services(const sched::Roster& a, const sched::Roster& b) {
  return a.removed == b.removed && std::ranges::equal(a.workload.services, b.workload.services,
                                                      [](const Service& x, const Service& y) { return same(x, y); });
}

}  // namespace tangram::serve
