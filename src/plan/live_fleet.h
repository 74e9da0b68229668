// The devices while a plan is being changed: which slices are cut, which models are loaded, and which replicas take
// requests.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/plan.h"

namespace tangram::plan {

// What is done to a device in one step. Each action undoes another: create and destroy, load and unload, start and
// drain; retune undoes itself.
enum class StepAction {
  create,   // Slices are cut, several of one device at once.
  destroy,  // Slices on which nothing is loaded are taken away.
  load,     // A model comes into the memory of a slice. It takes no requests yet.
  unload,   // A model that takes no requests leaves it.
  start,    // A loaded replica takes requests.
  drain,    // A replica takes no more requests and finishes what it has.
  retune,   // A running replica goes on with other buckets and batches.
};
std::string_view to_string(StepAction action);

struct Step {
  StepAction action = StepAction::create;
  std::string device;
  std::vector<Slice> slices;  // One, or more for create and destroy.
  Replica replica;            // Not for create and destroy. Of retune, as it was.
  Replica retuned;            // Of retune: as it will be.
  bool temporary = false;     // It makes or takes away what neither plan has.
  // The services whose models are on the slice, too, and are not touched: they go on without a restart.
  std::vector<std::string> beside;

  // When and how long. Steps of one phase do not depend on each other and run at once.
  int phase = 0;
  TimePoint begins;
  Duration takes{};

  // Requests a second that the services which the step touches can take once it is done, and all services that are then
  // below what they need.
  std::map<std::string, double> capacity;
  std::vector<std::string> below;
};

// What takes the step back, without times and capacities.
Step inverse_of(const Step& step);

// Requests a second that `replica` can take on `slice` while exactly `slice.replicas` take requests there.
using Capacity = std::function<double(const PlannedDevice& device, const PlannedSlice& slice, const Replica& replica)>;

class LiveFleet {
 public:
  // Everything of `plan` takes requests.
  explicit LiveFleet(const Plan& plan);

  // Makes a device known that the plan does not name. It has no slices.
  void add_empty(const std::string& name, const std::string& type, const Geometry& geometry);

  // Others use the slice of a known device, on units that are free: no step takes it away.
  void reserve(const std::string& name, const Slice& slice);

  // Does the step, or says why it cannot be done: a slice does not fit or is still in use, a replica is not there.
  Result<Nothing> apply(const Step& step);

  // What takes requests now, with free slices; devices without slices are left out.
  Plan running() const;
  // True if everything that is loaded takes requests.
  bool settled() const;
  // A device, without its slices. It is known.
  const PlannedDevice& device(const std::string& name) const;
  // Replicas that are loaded on the slice, whether they take requests or not; nothing if there is no such slice.
  std::vector<Replica> loaded(const std::string& device, const Slice& slice) const;

  // By service, over all replicas that take requests. Computed from all replicas at each call.
  std::map<std::string, double> capacity(const Capacity& of_replica) const;
  // The same over one slice; empty if it is not there.
  std::map<std::string, double> capacity_of(const std::string& device, const Slice& slice,
                                            const Capacity& of_replica) const;

 private:
  struct LiveReplica {
    Replica replica;
    bool runs = false;
  };
  struct LiveSlice {
    Slice slice;
    std::vector<LiveReplica> replicas;
    bool reserved = false;
  };
  struct LiveDevice {
    PlannedDevice device;  // Its slices are not used.
    std::vector<LiveSlice> slices;
  };

  // Cuts the step's slices; an error if one does not fit. Ensures that slices stay sorted by start.
  Result<Nothing> create(LiveDevice& device, const Step& step);
  // Removes the step's slices; an error if one does not exist or has a model loaded.
  Result<Nothing> destroy(LiveDevice& device, const Step& step);
  // Loads, unloads, starts, drains or retunes one replica. Requires one of these actions.
  Result<Nothing> change_replica(LiveDevice& device, const Step& step);
  // The device's slices, in order of their starts.
  static Layout layout_of(const LiveDevice& device);
  // The slice with the replicas that take requests.
  static PlannedSlice running_on(const LiveSlice& slice);

  std::vector<LiveDevice> devices_;
  std::map<std::string, std::size_t> indices_;
};

}  // namespace tangram::plan
