// Makes the executor of a slice: inside this process, in a worker, or at another server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/executor.h"
#include "engines/remote/remote_link.h"
#include "host/event_loop.h"
#include "host/log.h"
#include "serve/command_link.h"
#include "serve/live_world.h"
#include "serve/node_hub.h"
#include "serve/server_config.h"
#include "worker/worker_link.h"

namespace tangram::serve {

struct TrainerPlace;

// Owns what the executors share: the worker processes and the links to other servers. Outlives them. Used by the thread
// of the world only.
class ExecutorFactory {
 public:
  // All outlive it.
  ExecutorFactory(const ServerConfig& config, const std::vector<ServedModel>& models, host::EventLoop& loop,
                  const host::LiveClock& clock, host::LogWriter& log);

  // For a slice of the plan that `world` serves by.
  std::unique_ptr<engines::Executor> make(const LiveWorld& world, SliceId slice, const sched::Place& place,
                                          engines::ExecutorEvents& events);
  // Makes the executor of a slice that has left serve as `slice`, which has the same cut: its process goes on, and only
  // the models that differ are loaded and unloaded. False: it cannot.
  bool change(const LiveWorld& world, SliceId slice, const sched::Place& place, engines::Executor& executor) const;
  // Where a trainer on a lent slice runs: on the cores of the slice or with its MIG device.
  TrainerPlace training_place(const LiveWorld& world, SliceId slice) const;
  // Reads the models again: a reload has added some.
  void take_models();
  // Replaces the credentials that other servers identify us by.
  void set_remote_caller(const engines::RemoteCaller& caller);
  // From now on a worker that cannot start is tried again instead of ending the server.
  void end_first_start() { workers_.end_first_start(); }
  // Why a worker can never start; empty: all can.
  const std::string& unrecoverable() const { return workers_.unrecoverable(); }

  // The nodes that run the slices; null: this machine does.
  NodeHub* nodes() const { return nodes_.get(); }

  // Time-outs of workers and links.
  void work(TimePoint now);
  TimePoint next_due() const;

 private:
  // What the link of a slice needs to know.
  engines::RemoteConfig remote_config(const LiveWorld& world, SliceId slice, const sched::Place& place) const;
  // What the node of a slice needs to know.
  NodeSliceConfig node_config(const LiveWorld& world, SliceId slice, const sched::Place& place) const;
  // What a server that is started on the slice needs to know.
  CommandConfig command_config(const LiveWorld& world, SliceId slice, const sched::Place& place) const;
  // The engine of the services of a slice, which is one for all of them, and the first of them.
  const ServedModel& first_model(const sched::Deployment& deployment, const sched::Place& place) const;
  // What the worker of a slice needs to know: its models, its cores, its environment.
  worker::WorkerConfig worker_config(const LiveWorld& world, SliceId slice, const sched::Place& place) const;
  // The models that a slice serves, with the shapes that its batches can have.
  std::vector<engines::ModelSpec> model_specs(const sched::Deployment& deployment, const sched::Place& place) const;
  // One of them. Requires that `edges` are the bucket edges of its service.
  engines::ModelSpec model_spec(const ServedModel& model, const sched::PoolService& entry,
                                const std::vector<std::int64_t>& edges) const;

  const ServerConfig& config_;
  host::LogWriter& log_;
  const std::vector<ServedModel>& models_;
  std::vector<const Signature*> signatures_;  // By service, null beyond the last. Executors look into it: never moves.
  engines::RemoteCaller remote_caller_;
  worker::Workers workers_;
  engines::Remotes remotes_;
  Commands commands_;
  std::unique_ptr<NodeHub> nodes_;
};

}  // namespace tangram::serve
