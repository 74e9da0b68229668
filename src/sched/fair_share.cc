// Virtual time and debts. Everything is computed from the requests and their instants, in the order of arrival.
#include "sched/fair_share.h"

#include <algorithm>

namespace tangram::sched {
namespace {

// One loss lowers what the slices are thought to carry by so much, ...
constexpr double kLossStep = 0.01;
// ... down to this at most: batches of one at the worst.
constexpr double kCarriedMin = 0.3;
// It is forgiven in this time.
constexpr double kCarriedAgainS = 60;

}  // namespace

void FairShare::pass(TimePoint now) {
  const double passed_ns = static_cast<double>((now - at_).count());
  at_ = now;
  if (weights_ > 0) virtual_ns_ += passed_ns * carried_ / weights_;
  carried_ = std::min(1.0, carried_ + passed_ns * 1e-9 / kCarriedAgainS);
  // Twice in kActive is often enough: who is active too long costs the others a little of their shares.
  if (now < look_at_) return;
  look_at_ = now + kActive / 2;
  std::erase_if(active_, [&](const auto& entry) { return now - entry.second.last > kActive; });
  // Summed up anew, so that nothing adds up over the years.
  weights_ = 0;
  for (const auto& [id, tenant] : active_) weights_ += tenant.weight;
}

bool FairShare::take(TenantId id, double weight, Duration cost, Duration promise, TimePoint now) {
  pass(now);
  Tenant& tenant = active_[id];
  if (tenant.weight != weight) {
    weights_ += weight - tenant.weight;
    tenant.weight = weight;
  }
  tenant.last = now;
  // What it may be ahead: at its share, this much is paid within the promise.
  const double ahead_max = static_cast<double>(promise.count()) * carried_ / weights_;
  const double ahead_at = std::max(tenant.ahead_at, virtual_ns_) + static_cast<double>(cost.count()) / weight;
  // One request always fits, however small the share.
  const bool within = tenant.ahead_at <= virtual_ns_ || ahead_at - virtual_ns_ <= ahead_max;
  // Alone, it may have all; what it took then is no debt towards those that come later.
  if (active_.size() == 1) {
    tenant.ahead_at = std::min(ahead_at, virtual_ns_ + ahead_max);
    return true;
  }
  if (within) tenant.ahead_at = ahead_at;
  return within;
}

void FairShare::note_loss() {
  if (active_.size() > 1) carried_ = std::max(kCarriedMin, carried_ - kLossStep);
}

}  // namespace tangram::sched
