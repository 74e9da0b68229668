// Spare devices for plans in which services share slices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/shared_slices.h"

namespace tangram::plan::detail {

// True if some slice of the plan holds several services.
bool has_shared_slices(const Plan& plan);

// Judges plans by their sets of services: each set is certified as a whole, or under other rules has the capacity.
class SetCheck {
 public:
  // `answer` names the services in the order of the workload, with the buckets that they have in the plan.
  SetCheck(const Problem& problem, const PlanAnswer& answer);

  // How many times its demand the slices of a set carry, all its services growing alike.
  double load_factor(const SharedSet& set) const;
  // How many services lack capacity on `plan` without its device `lost`, or with `promises` break their Slo. Only sets
  // with a slice on the lost device are looked at; the others are as well off as before. Stops counting at `most`.
  std::size_t short_without(const Plan& plan, std::size_t lost, bool promises, std::size_t most) const;
  // Certifies all sets of the plan; empty, or the name of a service that fails. Fills in the verdicts of `answer`.
  std::string certify_all(const Plan& plan, PlanAnswer& answer) const;
  bool certifies() const { return problem_.options.rule == Rule::certified; }
  std::int64_t asked() const { return asked_; }

 private:
  bool keeps_promises(const SharedSet& set) const;

  const Problem& problem_;
  std::vector<std::vector<double>> rates_;        // By service and bucket: samples a second.
  std::vector<std::vector<std::int64_t>> edges_;  // By service.
  mutable std::int64_t asked_ = 0;
};

// Copies devices of the plan until no loss of one leaves a service short, and removes copies that are not needed. False
// if some loss still hurts.
bool add_spare_devices(const SetCheck& check, Plan& plan);

}  // namespace tangram::plan::detail
