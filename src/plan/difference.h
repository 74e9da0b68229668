// What changes between two plans.
//
// Devices of one type are interchangeable, and so are the places of equal slices on a device: what counts is which cuts
// with which replicas a plan has. A difference therefore first decides which device takes which role of the new plan,
// and where on it the slices lie, such that as much as possible stays as it is. A mere permutation of names is no
// change.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "core/plan.h"

namespace tangram::plan {

struct DifferenceOptions {
  bool rename = true;  // A device may take the role that the new plan gives to another of its type.
  bool move = true;    // Slices of the new plan may lie elsewhere on their device than it says.
};

enum class SliceChange {
  kept,       // It is there before and after, with the same replicas.
  changed,    // It is there before and after, with other replicas.
  destroyed,  // It is only there before.
  created,    // It is only there after.
};

struct SliceDifference {
  SliceChange change = SliceChange::kept;
  Slice slice;
  std::vector<Replica> before;
  std::vector<Replica> after;
  bool reserved = false;  // Others use it afterwards.
};

// What becomes of the replicas of one slice. The order of replicas does not matter.
struct ReplicaChanges {
  struct Retuned {
    Replica before;
    Replica after;  // The same service and processes with other buckets or batches: no reload.
  };
  std::vector<Replica> kept;
  std::vector<Retuned> retuned;
  std::vector<Replica> stopped;
  std::vector<Replica> loaded;
};
ReplicaChanges compare_replicas(const std::vector<Replica>& before, const std::vector<Replica>& after);

struct DeviceDifference {
  PlannedDevice before;                 // No slices where the old plan does not have the device.
  PlannedDevice after;                  // Under the same name; no slices where the new plan does not need it.
  std::string role;                     // What the new plan calls it; empty if it does not need it.
  std::vector<SliceDifference> slices;  // In order of their starts.
};

struct DifferenceCounts {
  int devices_before = 0;  // With slices.
  int devices_after = 0;
  int slices_kept = 0;
  int slices_changed = 0;
  int slices_destroyed = 0;
  int slices_created = 0;
  int replicas_kept = 0;
  int replicas_retuned = 0;
  int replicas_stopped = 0;
  int replicas_loaded = 0;

  bool operator==(const DifferenceCounts&) const = default;
};

struct Difference {
  std::vector<DeviceDifference> devices;  // Those of the old plan, then those that only the new one names.
  Plan target;  // The new plan as it will be: its roles under the names of the devices that take them.
  DifferenceCounts counts;

  bool empty() const;  // Nothing has to be done.
};

// Errors: a device that is of one type in `before` and of another in `after`, or an invalid layout.
Result<Difference> diff(const Plan& before, const Plan& after, const DifferenceOptions& options = {});

// True if both plans cut their devices alike and load the same replicas, whatever the order of devices and replicas.
// Devices without slices do not count.
bool same_content(const Plan& a, const Plan& b);

}  // namespace tangram::plan
