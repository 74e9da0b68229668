#include "control/move_guard.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace tangram::control {
namespace {

double share(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

// Down, so that a broken promise is never shown as kept.
double percent_down(double share) { return std::floor(share * 1000) / 10; }

}  // namespace

MoveGuard::MoveGuard(const Options& options, const std::vector<Service>& services) : options_(options) {
  set_services(services);
}

void MoveGuard::set_services(const std::vector<Service>& services) {
  watching_ = false;
  looks_.clear();
  names_.clear();
  promised_.clear();
  for (const auto& service : services) {
    names_.push_back(service.name);
    promised_.push_back(service.slo.percentile / 100);
  }
}

void MoveGuard::observe(const Observation& seen) {
  now_ = seen.at;
  // Slices drain and load during a move; what that costs says nothing about either plan.
  if (seen.moving) return;
  Look look{seen.at, {}};
  for (const auto& service : seen.services) {
    look.counts.push_back({service.arrived, service.served, service.late + service.lost});
  }
  if (watching_) {
    for (std::size_t s = 0; s < look.counts.size(); ++s) {
      after_[s].arrived += look.counts[s].arrived;
      after_[s].kept += look.counts[s].kept;
      after_[s].missed += look.counts[s].missed;
      for (const auto& [size, count] : seen.services[s].sizes) sizes_[s][size] += static_cast<double>(count);
    }
    if (seen.at - began_ < options_.watch) return;
    // The watch is over, and the plan was good: from here on it is what a next move is compared with.
    watching_ = false;
    looks_.clear();
  }
  looks_.push_back(std::move(look));
  while (looks_.front().at < seen.at - options_.watch) looks_.pop_front();
}

void MoveGuard::begin(TimePoint now, std::vector<ServiceDemand> planned) {
  began_ = now;
  now_ = now;
  planned_ = std::move(planned);
  after_.assign(names_.size(), {});
  sizes_.assign(names_.size(), {});
  watching_ = true;
}

MoveGuard::Count MoveGuard::before(std::size_t s) const {
  Count sum;
  for (const auto& look : looks_) {
    sum.arrived += look.counts[s].arrived;
    sum.kept += look.counts[s].kept;
    sum.missed += look.counts[s].missed;
  }
  return sum;
}

bool MoveGuard::worse(std::size_t s, const Count& before) const {
  const Count& after = after_[s];
  if (after.ended() < options_.requests_min) return false;
  const double missed = share(after.missed, after.ended());
  if (1 - missed >= promised_[s]) return false;
  const double seconds = to_seconds(now_ - began_);
  if (seconds <= 0 || static_cast<double>(after.arrived) / seconds > planned_[s].rate_per_s) return false;
  const bool known_sizes = !sizes_[s].empty() && !planned_[s].mix.empty();
  if (known_sizes && mix_distance(sizes_[s], planned_[s].mix) > options_.mix_drift) return false;
  // Without a time before to compare with, the promise itself is the measure.
  const bool known = before.ended() > 0;
  // The move was made in trouble, and the plan before was no good either.
  if (known && share(before.kept, before.ended()) < promised_[s]) return false;
  const double base = known ? share(before.missed, before.ended()) : 1 - promised_[s];
  const double both = known ? share(before.missed + after.missed, before.ended() + after.ended()) : base;
  const double inverse =
      1.0 / static_cast<double>(after.ended()) + (known ? 1.0 / static_cast<double>(before.ended()) : 0.0);
  return missed - base > options_.deviations * std::sqrt(both * (1 - both) * inverse);
}

std::string MoveGuard::verdict() const {
  for (std::size_t s = 0; s < names_.size() && watching_; ++s) {
    const Count earlier = before(s);
    if (!worse(s, earlier)) continue;
    const auto kept = [](const Count& count) { return percent_down(share(count.kept, count.ended())); };
    return fmt::format("{}: {:.1f} % in time since the move, {}{:.4g} % promised", names_[s], kept(after_[s]),
                       earlier.ended() > 0 ? fmt::format("{:.1f} % before, ", kept(earlier)) : "", promised_[s] * 100);
  }
  return {};
}

}  // namespace tangram::control
