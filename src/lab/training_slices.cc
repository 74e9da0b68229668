// Training speed of slices, from measured iterations, and the best use of what a plan leaves uncut.
//
// Speeds are relative to a whole GPU, so that models of very different throughput can be averaged. Example: a 3g slice
// at 0.45 and a 2g slice at 0.3 train 0.75 GPU-hours in an hour.

#include "lab/training_slices.h"

#include <algorithm>
#include <charconv>

namespace tangram::lab {
namespace {

// The number before the "g": 3 of "3g.20gb". 0 where there is none.
int compute_slices_of(const std::string& mig_profile) {
  int slices = 0;
  std::from_chars(mig_profile.data(), mig_profile.data() + mig_profile.size(), slices);
  return slices;
}

// Compute slices of a whole GPU of this type. An unknown type counts as seven, the number of the A100 and the H100.
int whole_gpu(const std::string& type) {
  const Geometry* geometry = find_geometry(type);
  return geometry != nullptr ? geometry->compute_slices : 7;
}

// Finds the set of slices with the highest total speed by trying all of them. A device has at most eight memory units,
// so there are few. Slices are added from left to right: each set is then visited once and not in every order.
class Filling {
 public:
  Filling(const Geometry& geometry, const std::map<int, double>& speeds) : geometry_(geometry), speeds_(speeds) {}

  Layout best(const Layout& taken) {
    search(taken, {}, 0, 0);
    return best_;
  }

 private:
  void search(const Layout& used, const Layout& added, double speed, int from_unit) {
    if (speed > best_speed_) {
      best_speed_ = speed;
      best_ = added;
    }
    for (std::size_t p = 0; p < geometry_.profiles.size(); ++p) {
      const MigProfile& profile = geometry_.profiles[p];
      const double more = speed_of(speeds_, profile.compute_slices);
      // A slice on which training does not run would only take room away.
      if (profile.family != ProfileFamily::plain || more <= 0) continue;
      for (const int start : profile.starts) {
        const Slice slice{static_cast<std::uint16_t>(p), static_cast<std::uint16_t>(start)};
        if (start < from_unit || !fits(geometry_, used, slice)) continue;
        search(with_slice(geometry_, used, slice), with_slice(geometry_, added, slice), speed + more, start + 1);
      }
    }
  }

  const Geometry& geometry_;
  const std::map<int, double>& speeds_;
  Layout best_;
  double best_speed_ = 0;
};

}  // namespace

double speed_of(const std::map<int, double>& speeds, int compute_slices) {
  const auto found = speeds.find(compute_slices);
  return found == speeds.end() ? 0 : found->second;
}

std::map<int, double> training_speeds(const Measurements& iterations) {
  int whole = 0;
  std::map<std::string, std::map<int, double>> throughput;  // Of each model, by compute slices, at its best batch.
  for (const auto& m : iterations) {
    const int slices = compute_slices_of(m.mig_profile);
    whole = std::max(whole, whole_gpu(m.device));
    double& best = throughput[m.model][slices];
    best = std::max(best, m.throughput_per_s.value_or(0));
  }
  std::map<int, double> speeds;
  double models = 0;
  for (const auto& [model, by_slices] : throughput) {
    const double on_whole = speed_of(by_slices, whole);
    // A model that was never timed on a whole GPU has nothing to be compared with.
    if (on_whole <= 0) continue;
    models += 1;
    for (const auto& [slices, rate] : by_slices) speeds[slices] += rate / on_whole;
  }
  // A model that does not fit on a slice adds 0 to the sum and counts in the mean: jobs of that kind cannot use it.
  for (auto& [slices, speed] : speeds) speed /= models;
  return speeds;
}

Layout leftover_slices(const PlannedDevice& device, const std::map<int, double>& speeds) {
  Layout taken;  // A planned slice without replicas is free to lend, unless others use it.
  for (const auto& planned : device.slices) {
    if (planned.reserved || !planned.replicas.empty()) taken.slices.push_back(planned.slice);
  }
  return Filling(device.geometry, speeds).best(taken);
}

double best_cut_speed(const Geometry& geometry, const std::map<int, double>& speeds) {
  double speed = 0;
  for (const auto& slice : Filling(geometry, speeds).best({}).slices) {
    speed += speed_of(speeds, geometry.profiles[slice.profile].compute_slices);
  }
  return speed;
}

}  // namespace tangram::lab
