// Chooses and configures the executor of a slice.
//
// There are three kinds: emulated inside this process, which needs no GPU; a worker process per slice, which isolates a
// crash and pins the slice to its MIG device or cores; and a link to another server. Whatever the kind, the executor
// learns at its start which models and batch shapes the plan lets the slice run, so that it can load and warm up
// exactly these.

#include "serve/executor_factory.h"

#include <algorithm>

#include "serve/reports.h"
#include "serve/training_host.h"

namespace tangram::serve {

ExecutorFactory::ExecutorFactory(const ServerConfig& config, const std::vector<ServedModel>& models,
                                 host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log)
    : config_(config),
      log_(log),
      models_(models),
      remote_caller_(config.remote_caller),
      workers_(loop, clock, log),
      remotes_(loop, clock, log),
      commands_(loop, clock, log, remotes_) {
  signatures_.resize(std::max(models_.capacity(), models_.size()));
  take_models();
  if (config_.nodes) nodes_ = std::make_unique<NodeHub>(*config_.nodes, loop, clock, log);
}

void ExecutorFactory::take_models() {
  for (std::size_t i = 0; i < models_.size(); ++i) signatures_[i] = &models_[i].signature;
}

namespace {

// The servers for a MigProfile.
std::vector<host::Endpoint> servers_of(const std::vector<SliceServer>& servers, const std::string& mig_profile) {
  std::vector<host::Endpoint> found;
  for (const auto& server : servers) {
    if (server.mig_profile.empty() || server.mig_profile == mig_profile) found.push_back(server.address);
  }
  return found;
}

bool geometry_is_host(const sched::Deployment& deployment, const sched::Place& place) {
  return deployment.devices[place.device.index()].geometry.units_per_core > 0;
}

}  // namespace

// Requires that `place` is the slice's place in the deployment of `world`.
std::unique_ptr<engines::Executor> ExecutorFactory::make(const LiveWorld& world, SliceId slice,
                                                         const sched::Place& place, engines::ExecutorEvents& events) {
  const std::string& engine = first_model(world.scheduler().state().deployment, place).platform;
  if (engine == engines::kRemoteEngine) return remotes_.make(slice, remote_config(world, slice, place), events);
  if (nodes_ != nullptr) return nodes_->make(slice, node_config(world, slice, place), events);
  if (engine == engines::kCommandEngine) return commands_.make(slice, command_config(world, slice, place), events);
  if (!config_.workers) return engines::make_emulated_executor(signatures_, config_.emulated);
  return workers_.make(slice, worker_config(world, slice, place), events);
}

bool ExecutorFactory::change(const LiveWorld& world, SliceId slice, const sched::Place& place,
                             engines::Executor& executor) const {
  const std::string& engine = first_model(world.scheduler().state().deployment, place).platform;
  if (nodes_ != nullptr && engine != engines::kRemoteEngine) {
    return executor.change_models(slice, node_config(world, slice, place).spec.models);
  }
  if (!config_.workers || engine == engines::kRemoteEngine || engine == engines::kCommandEngine) return false;
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
  commands_.work(now);
  if (nodes_ != nullptr) nodes_->work(now);
}

TimePoint ExecutorFactory::next_due() const {
  const TimePoint due = std::min({workers_.next_due(), remotes_.next_due(), commands_.next_due()});
  return nodes_ == nullptr ? due : std::min(due, nodes_->next_due());
}

const ServedModel& ExecutorFactory::first_model(const sched::Deployment& deployment, const sched::Place& place) const {
  const auto& services = deployment.pools[place.pool.index()].services;
  return models_[services.empty() ? 0 : services.front().service.index()];
}

engines::RemoteConfig ExecutorFactory::remote_config(const LiveWorld& world, SliceId slice,
                                                     const sched::Place& place) const {
  engines::RemoteConfig remote;
  const sched::Deployment& deployment = world.scheduler().state().deployment;
  const sched::DeployedDevice& device = deployment.devices[place.device.index()];
  const std::size_t service = first_model(deployment, place).service.index();
  std::vector<host::Endpoint> servers;
  if (service < config_.remotes_of.size()) {
    servers = servers_of(config_.remotes_of[service], device.geometry.profiles[place.slice.profile].name);
  }
  const auto own = config_.remote_of_device.find(device.name);
  // Slices take the servers of their service, or else the configured ones, in turn, unless their device has one.
  if (!servers.empty()) {
    remote.address = servers[slice.index() % servers.size()];
  } else if (config_.remotes.empty()) {
    // A plan has put the service where it has no server. Nothing listens at port 0, so the slice is never ready.
    remote.address = {.port = 0};
    log_.write(host::LogLine(host::LogLevel::error, "remote_missing")
                   .text("slice", slice_name(world, slice.index()))
                   .text("mig_profile", device.geometry.profiles[place.slice.profile].name));
  } else {
    const std::size_t number = own == config_.remote_of_device.end() ? slice.index() : own->second;
    remote.address = config_.remotes[number % config_.remotes.size()];
  }
  remote.caller = remote_caller_;
  remote.title = slice_name(world, slice.index());
  remote.models = model_specs(deployment, place);
  return remote;
}

// Weights are named as they are below the folder of models, which is the node's own.
NodeSliceConfig ExecutorFactory::node_config(const LiveWorld& world, SliceId slice, const sched::Place& place) const {
  const sched::Deployment& deployment = world.scheduler().state().deployment;
  const sched::DeployedDevice& device = deployment.devices[place.device.index()];
  const MigProfile& profile = device.geometry.profiles[place.slice.profile];
  NodeSliceConfig node;
  node.title = slice_name(world, slice.index());
  node.device = device.name;
  node.type = device.geometry.type;
  node.mig_profile = profile.name;
  node.start = place.slice.start;
  node.units = profile.units;
  node.device_units = device.geometry.units;
  node.units_per_core = device.geometry.units_per_core;
  node.process = place.process;
  node.spec.engine = first_model(deployment, place).platform;
  node.spec.config.device = device.geometry.type;
  node.spec.config.time_scale = config_.emulated.time_scale;
  node.spec.config.mig_profile = profile.name;
  node.spec.config.memory_mib = deployment.pools[place.pool.index()].memory_mib;
  node.spec.config.provider = config_.onnx_provider;
  node.spec.models = model_specs(deployment, place);
  for (auto& model : node.spec.models) model.path = models_[model.service.index()].weights;
  return node;
}

CommandConfig ExecutorFactory::command_config(const LiveWorld& world, SliceId slice, const sched::Place& place) const {
  const sched::Deployment& deployment = world.scheduler().state().deployment;
  const ServedModel& model = first_model(deployment, place);
  // The same share of the machine as a worker would have.
  worker::WorkerConfig worker = worker_config(world, slice, place);
  CommandConfig command;
  command.program = worker.program;
  command.command = model.command.empty() ? config_.command : model.command;
  command.title = worker.title;
  command.cores = worker.spec.cores;
  command.quota_cores = worker.quota_cores;
  command.environment = worker.environment;
  // Libraries that count the cores of the machine would start a thread for each.
  if (geometry_is_host(deployment, place)) {
    command.environment.push_back("OMP_NUM_THREADS=" + std::to_string(worker.spec.config.threads));
  }
  command.models = worker.spec.models;
  if (!command.models.empty()) command.model = command.models.front().path;
  command.patience = worker.patience;
  return command;
}

worker::WorkerConfig ExecutorFactory::worker_config(const LiveWorld& world, SliceId slice,
                                                    const sched::Place& place) const {
  const sched::Deployment& deployment = world.scheduler().state().deployment;
  const Geometry& geometry = deployment.devices[place.device.index()].geometry;
  worker::WorkerConfig worker;
  worker.user = config_.worker_user;
  worker.program = config_.worker_program.empty() ? worker::find_worker_program() : config_.worker_program;
  worker.title = slice_name(world, slice.index());
  worker.patience = config_.patience;
  worker.spec.engine = first_model(deployment, place).platform;
  worker.spec.config.device = geometry.type;
  worker.spec.config.time_scale = config_.emulated.time_scale;
  worker.spec.config.mig_profile = geometry.profiles[place.slice.profile].name;
  worker.spec.config.memory_mib = deployment.pools[place.pool.index()].memory_mib;
  worker.spec.config.provider = config_.onnx_provider;
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

TrainerPlace ExecutorFactory::training_place(const LiveWorld& world, SliceId slice) const {
  const sched::State& state = world.scheduler().state();
  const sched::Place& place = state.slices[slice.index()].place;
  const auto& device = state.deployment.devices[place.device.index()];
  TrainerPlace trainer;
  if (config_.worker_environment) trainer.environment = config_.worker_environment(device.name, place.slice);
  if (device.geometry.units_per_core == 0) return trainer;
  trainer.cpus = adapters::core_share(device.geometry, place.slice, adapters::usable_cores()).cores;
  // PyTorch itself needs some hundred.
  const double memory_mib = state.deployment.pools[place.pool.index()].memory_mib;
  if (memory_mib > 0) trainer.memory_mib = static_cast<std::int64_t>(std::max(memory_mib, 1024.0));
  return trainer;
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
