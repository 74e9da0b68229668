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
  for (const auto& model : models_) signatures_.push_back(&model.signature);
}

std::unique_ptr<engines::Executor> ExecutorFactory::make(const LiveWorld& world, SliceId slice,
                                                         const sched::Place& place, engines::ExecutorEvents& events) {
  if (config_.engine == engines::kRemoteEngine) return remotes_.make(slice, remote_config(world, slice, place), events);
  if (!config_.workers) return engines::make_emulated_executor(signatures_, config_.emulated);
  return workers_.make(slice, worker_config(world, slice, place), events);
}

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
  remote.address = config_.remotes[slice.index() % config_.remotes.size()];
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
  if (config_.worker_environment)
    worker.environment = config_.worker_environment(deployment.devices[place.device.index()].name, place.slice);
  if (geometry.units_per_core > 0) {
    const adapters::CoreShare share = adapters::core_share(geometry, place.slice, adapters::usable_cores());
    worker.spec.cores = share.cores;
    worker.spec.config.threads = share.threads();
    if (share.needs_quota()) worker.quota_cores = share.worth;
  }
  return worker;
}

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
  if (!config_.models.empty()) spec.path = config_.models + "/" + model.network;
  for (std::size_t bucket = 0; bucket < edges.size(); ++bucket) {
    if (entry.batch_max[bucket] > 0) spec.shapes.push_back({entry.batch_max[bucket], edges[bucket]});
  }
  return spec;
}

}  // namespace tangram::serve
