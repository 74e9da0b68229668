// Chooses and configures the executor of a slice.
//
// There are three kinds: emulated inside this process, which needs no GPU; a worker process per slice, which isolates a
// crash and pins the slice to its MIG device or cores; and a link to another server. Whatever the kind, the executor
// learns at its start which models and batch shapes the plan lets the slice run, so that it can load and warm up
// exactly these.

#include "serve/executor_factory.h"

#include <algorithm>

#include "serve/reports.h"

namespace tangram::serve {

ExecutorFactory::ExecutorFactory(const ServerConfig& config, const std::vector<ServedModel>& models,
                                 host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log)
    : config_(config),
      models_(models),
      remote_caller_(config.remote_caller),
      workers_(loop, clock, log),
      remotes_(loop, clock, log) {
  signatures_.resize(std::max(models_.capacity(), models_.size()));
  take_models();
}

void ExecutorFactory::take_models() {
  for (std::size_t i = 0; i < models_.size(); ++i) signatures_[i] = &models_[i].signature;
}

// Requires that `place` is the slice's place in the deployment of `world`.
std::unique_ptr<engines::Executor> ExecutorFactory::make(const LiveWorld& world, SliceId slice,
                                                         const sched::Place& place, engines::ExecutorEvents& events) {
  if (config_.engine == engines::kRemoteEngine) return remotes_.make(slice, remote_config(world, slice, place), events);
  if (!config_.workers) return engines::make_emulated_executor(signatures_, config_.emulated);
  return workers_.make(slice, worker_config(world, slice, place), events);
}

bool ExecutorFactory::change(const LiveWorld& world, SliceId slice, const sched::Place& place,
                             engines::Executor& executor) const {
  if (!config_.workers) return false;
  return executor.change_models(slice, model_specs(world.scheduler().state().deployment, place));
}

// For links that exist and for those that are made later.
void ExecutorFactory::set_remote_caller(const engines::RemoteCaller& caller) {
  remote_caller_ = caller;
  remotes_.set_caller(caller);
}

void ExecutorFactory::work(TimePoint now) {
  workers_.work(now);
  remotes_.work(now);
}

TimePoint ExecutorFactory::next_due() const { return std::min(workers_.next_due(), remotes_.next_due()); }

engines::RemoteConfig ExecutorFactory::remote_config(const LiveWorld& world, SliceId slice,
                                                     const sched::Place& place) const {
  engines::RemoteConfig remote;
  const auto own =
      config_.remote_of_device.find(world.scheduler().state().deployment.devices[place.device.index()].name);
  // Slices take the configured servers in turn, unless their device has one.
  const std::size_t number = own == config_.remote_of_device.end() ? slice.index() : own->second;
  remote.address = config_.remotes[number % config_.remotes.size()];
  remote.caller = remote_caller_;
  remote.title = slice_name(world, slice.index());
  remote.models = model_specs(world.scheduler().state().deployment, place);
  return remote;
}

worker::WorkerConfig ExecutorFactory::worker_config(const LiveWorld& world, SliceId slice,
                                                    const sched::Place& place) const {
  const sched::Deployment& deployment = world.scheduler().state().deployment;
  const Geometry& geometry = deployment.devices[place.device.index()].geometry;
  worker::WorkerConfig worker;
  worker.program = config_.worker_program.empty() ? worker::find_worker_program() : config_.worker_program;
  worker.title = slice_name(world, slice.index());
  worker.patience = config_.patience;
  worker.spec.engine = config_.engine;
  worker.spec.config.device = geometry.type;
  worker.spec.config.time_scale = config_.emulated.time_scale;
  worker.spec.models = model_specs(deployment, place);
  // For a GPU this names the MIG device that the process may see.
  if (config_.worker_environment)
    worker.environment = config_.worker_environment(deployment.devices[place.device.index()].name, place.slice);
  // A device made of host cores: the worker is pinned to the cores of its slice. A slice that ends inside a core also
  // needs a quota, since pinning alone would give it the whole core.
  if (geometry.units_per_core > 0) {
    const adapters::CoreShare share = adapters::core_share(geometry, place.slice, adapters::usable_cores());
    worker.spec.cores = share.cores;
    worker.spec.config.threads = share.threads();
    if (share.needs_quota()) worker.quota_cores = share.worth;
  }
  return worker;
}

// The services of the slice's pool: all slices of a pool hold the same replicas.
std::vector<engines::ModelSpec> ExecutorFactory::model_specs(const sched::Deployment& deployment,
                                                             const sched::Place& place) const {
  std::vector<engines::ModelSpec> specs;
  for (const auto& entry : deployment.pools[place.pool.index()].services) {
    specs.push_back(
        model_spec(models_[entry.service.index()], entry, deployment.services[entry.service.index()].edges));
  }
  return specs;
}

engines::ModelSpec ExecutorFactory::model_spec(const ServedModel& model, const sched::PoolService& entry,
                                               const std::vector<std::int64_t>& edges) const {
  engines::ModelSpec spec;
  spec.service = model.service;
  spec.name = model.name;
  spec.network = model.network;
  spec.signature = model.signature;
  if (!config_.models.empty()) spec.path = config_.models + "/" + model.weights;
  spec.copy = entry.model.copy;
  spec.on_demand = entry.model.on_demand;
  spec.load_time = entry.model.load;
  // One shape per bucket that the plan lets this pool run, with its largest batch. With a batch_max of 0 the pool does
  // not run the bucket.
  for (std::size_t bucket = 0; bucket < edges.size(); ++bucket) {
    if (entry.batch_max[bucket] > 0) spec.shapes.push_back({entry.batch_max[bucket], edges[bucket]});
  }
  return spec;
}

}  // namespace tangram::serve
