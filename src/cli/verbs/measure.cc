// `tangram measure`: drives an engine to produce measurements.
//
// There are two kinds of engines. `replay` and `emulated` answer from a file and need no hardware, so a campaign can be
// tried in seconds. `torch` and `onnx` run the model in a worker process on a slice. Each kind accepts options that
// mean nothing to the other, and those are errors here rather than ignored. After prepare_real() or prepare_answering()
// the rest of the verb treats all engines alike: candidates, sampler, result file, report.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <set>
#include <thread>

#include "base/text.h"
#include "cli/build_info.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/measure_cuts.h"
#include "cli/measure_result.h"
#include "cli/program.h"
#include "cli/server_options.h"
#include "core/geometry.h"
#include "engines/batch_engine.h"
#include "engines/engine.h"
#include "engines/example_models.h"
#include "engines/remote/remote_engine.h"
#include "engines/torch_library.h"
#include "formats/measurements_file.h"
#include "host/files.h"
#include "lab/model_file.h"
#include "lab/slo_regret.h"
#include "learn/sampler.h"
#include "measure/campaign.h"
#include "measure/cut_plan.h"
#include "measure/recorded_source.h"
#include "measure/result_file.h"
#include "recut/live_gpus.h"
#include "worker/command_server.h"
#include "worker/worker_engine.h"
#include "worker/worker_process.h"

namespace tangram::cli {
namespace measure_verb {
namespace {

namespace fs = std::filesystem;

// The campaign reports progress as a share; the bar counts whole parts.
constexpr std::uint64_t kProgressParts = 1'000;

struct Options {
  std::string model;
  std::string device;
  std::string engine;
  std::string measurements;   // For replay.
  std::string emulate;        // For emulated.
  std::string models;         // For engines that run models: the folder with the weights.
  std::string services;       // The same: what the model takes.
  std::string onnx_provider;  // For onnx.
  std::string command;        // For command.
  std::string remote;         // For remote: the server.
  CallerOptions remote_caller;
  std::string gpu;    // Which GPU, where there are several of the type.
  bool cut = false;   // The slices are made, one after another, on that GPU.
  std::string state;  // With `cut`: the folder of checkpoints.
  std::vector<std::string> known;
  measure::Axes axes;
  std::vector<double> slos_ms;
  std::string sampler = "active";
  // By default, measuring stops at an expected median error of 5 %, once plans lose little by not knowing more.
  learn::SamplerOptions sampling{.target_error = 0.05};
  std::optional<double> minutes_max;
  measure::RepeatOptions repeats;
  std::optional<double> memory_limit_mib;
  bool noise = false;
  bool real_time = false;
  std::string to;

  learn::Target target() const { return {device, model}; }
};

Result<Measurements> load_measurements(const std::string& path) {
  TANGRAM_TRY(const auto source, read_source(path));
  return formats::parse_measurements(source);
}

// Reads what the engine answers from. A text that begins with `{` is a fitted model, anything else is a CSV of
// measurements; `replay` only takes the latter. --memory-limit without any measured memory is an error, because it
// could not reject a run.
Result<measure::RecordedSource> load_engine_source(const Options& options, const std::string& path) {
  TANGRAM_TRY(const auto source, read_source(path));
  if (options.engine == "replay" || !text::trim(source.text).starts_with('{')) {
    TANGRAM_TRY(auto rows, formats::parse_measurements(source));
    const bool knows_memory = std::ranges::any_of(rows, [](const Measurement& m) { return m.memory_mib.has_value(); });
    if (options.memory_limit_mib && !knows_memory) {
      return invalid_input(path + ": no row has memory_mib, so --memory-limit would have no effect");
    }
    return measure::RecordedSource{std::move(rows), nullptr};
  }
  TANGRAM_TRY(auto fitted, lab::parse_model(source));
  return measure::source_of(std::move(fitted));
}

// "cpu" is this machine; every other type comes from the tables. An unknown name gets the nearest known one as a
// suggestion.
Result<Geometry> geometry_of(const std::string& device) {
  if (device == "cpu") return cpu_geometry(this_host());
  if (const Geometry* found = find_geometry(device)) return *found;
  const auto names = device_type_names();
  const auto near = text::nearest(device, names);
  return invalid_input(fmt::format("unknown device type \"{}\"{}; known: {}", device,
                                   near ? fmt::format(", did you mean {}?", *near) : "", fmt::join(names, ", ")));
}

// ---- Engines that run the model ----

bool really_runs(const Options& options) { return engines::find_engine(options.engine) == nullptr; }

// The first service of the file that uses the model. Its tensors and input sizes describe the model.
Result<Service> service_of(const Options& options) {
  TANGRAM_TRY(const auto workload, load_workload(options.services));
  std::set<std::string> models;
  for (const auto& service : workload.services) {
    if (service.model == options.model) return service;
    models.insert(service.model);
  }
  return invalid_input(fmt::format("{}: no service uses the model {}; its models are {}", options.services,
                                   options.model, fmt::join(models, ", ")));
}

// Which tensors the model takes: from the services file, or from the table of example models. An example text encoder
// has the largest size that it accepts, so that the sizes to measure span its whole range.
Result<Service> described(const Options& options) {
  if (!options.services.empty()) return service_of(options);
  const auto* const example = engines::find_example_model(options.model);
  if (example == nullptr) {
    return invalid_input(fmt::format(
        "the inputs of {} are unknown; name the services file that declares them: --services FILE", options.model));
  }
  Service service;
  service.model = options.model;
  service.tensors = engines::signature_of(*example);
  if (const auto* text = std::get_if<engines::TextEncoder>(&example->network)) {
    service.input_size = ConstantSize{text->length_max};
  }
  return service;
}

// True for engines whose model is behind a server, so that this machine need not have its weights.
bool is_served(const Options& options) { return options.engine == "command" || options.engine == "remote"; }

// Where the weights may be, the usual place first.
std::vector<std::string> weight_files(const Options& options) {
  const std::string path = (fs::path(options.models) / options.model).string();
  if (options.engine == "onnx") return {path + ".onnx", path + "/1/model.onnx"};
  return {path + ".pt"};
}

// Requires weights in MODELS. A missing file is reported here; a worker could only report it after it was started.
Result<engines::ModelSpec> model_spec(const Options& options, const Service& service) {
  const auto files = weight_files(options);
  const std::string path = (fs::path(options.models) / options.model).string();
  // The worker runs only this model, so the number of its service has no meaning.
  engines::ModelSpec spec{.service = ServiceId(0),
                          .name = options.model,
                          .network = options.model,
                          .path = options.models.empty() ? "" : fs::absolute(path).string(),
                          .signature = service.signature()};
  if (is_served(options)) return spec;
  if (options.models.empty()) {
    return invalid_input(fmt::format("the engine {} needs --models DIR, the folder that contains {}", options.engine,
                                     fs::path(files[0]).filename().string()));
  }
  std::error_code error;
  if (std::ranges::none_of(files, [&](const std::string& file) { return fs::exists(file, error); })) {
    return Error{
        ErrorCode::not_found,
        fmt::format("{}: not found{}", files[0],
                    engines::find_example_model(options.model) != nullptr ? "; `tangram models make` writes it" : "")};
  }
  return spec;
}

// The environment of a process on a slice of this MigProfile, on a GPU of this machine that has such a slice now.
Result<std::vector<std::string>> gpu_environment(const Geometry& geometry, const std::string& gpu_wanted,
                                                 const std::string& mig_profile) {
  const auto driver = adapters::probe_nvml(recut::nvml_library());
  if (!driver.problem.empty()) return Error{ErrorCode::unavailable, driver.problem};
  TANGRAM_TRY(const auto profile, find_profile(geometry, mig_profile));
  std::string why = fmt::format("this machine has no {}", geometry.type);
  for (const auto& gpu : driver.gpus) {
    if (!gpu_wanted.empty() && gpu.uuid != gpu_wanted && fmt::to_string(gpu.index) != gpu_wanted) continue;
    const Geometry* found = recut::geometry_of(gpu);
    if (found == nullptr || found->type != geometry.type) continue;
    why = !gpu.slices_known
              ? fmt::format("GPU {}: {}", gpu.index, gpu.problem)
              : fmt::format("GPU {} has no idle slice {}; tangram apply makes it", gpu.index, mig_profile);
    for (const auto& slice : gpu.slices) {
      if (slice.vendor_id != geometry.profiles[profile].vendor_id || !slice.whole) continue;
      // A slice that another process uses would be measured with it.
      const bool used = std::ranges::any_of(
          gpu.processes, [&](const adapters::DriverProcess& process) { return process.slice_start == slice.start; });
      if (!used && !slice.parts[0].uuid.empty()) return std::vector{"CUDA_VISIBLE_DEVICES=" + slice.parts[0].uuid};
    }
  }
  return Error{ErrorCode::not_found, why};
}

// A server that the user's command starts on a slice.
class CommandServer final : public engines::StartedServer {
 public:
  explicit CommandServer(std::unique_ptr<worker::CommandServer> server) : server_(std::move(server)) {}
  host::Endpoint address() const override { return {.port = server_->port()}; }
  std::optional<std::string> ended() override { return server_->ended(); }
  std::optional<double> memory_mib() const override { return on_host_ ? server_->memory_mib() : std::nullopt; }
  void set_on_gpu() { on_host_ = false; }

 private:
  std::unique_ptr<worker::CommandServer> server_;
  bool on_host_ = true;
};

Result<std::unique_ptr<engines::StartedServer>> start_server(const Options& options, const Geometry& geometry,
                                                             const std::string& program, const std::string& path,
                                                             const engines::Placement& placement) {
  TANGRAM_TRY(const auto index, find_profile(geometry, placement.mig_profile));
  worker::CommandPlace place{.model = path, .slice = placement.mig_profile};
  std::vector<std::string> environment;
  double quota = 0;
  if (geometry.units_per_core > 0) {
    const Slice slice{static_cast<std::uint16_t>(index), 0};
    const auto share = adapters::core_share(geometry, slice, adapters::usable_cores());
    place.cores = share.cores;
    environment.push_back("OMP_NUM_THREADS=" + fmt::to_string(share.threads()));
    if (share.needs_quota()) quota = share.worth;
  } else {
    TANGRAM_TRY(environment, gpu_environment(geometry, options.gpu, placement.mig_profile));
  }
  TANGRAM_TRY(auto started, worker::CommandServer::start(program, options.command, place, quota, environment));
  auto server = std::make_unique<CommandServer>(std::move(started));
  if (geometry.units_per_core == 0) server->set_on_gpu();
  return std::unique_ptr<engines::StartedServer>(std::move(server));
}

// The server behind --remote, or one that --command starts on each slice.
Result<std::unique_ptr<engines::Engine>> served_engine(const Options& options, const Geometry& geometry,
                                                       const std::string& program, engines::ModelSpec spec) {
  engines::RemoteEngineConfig config{.model = std::move(spec), .profile = {}};
  if (options.engine == "command") {
    TANGRAM_RETURN_IF_ERROR(worker::fill_command(options.command, {}));
    config.start = [&options, geometry, program, path = config.model.path](const engines::Placement& placement) {
      return start_server(options, geometry, program, path, placement);
    };
    return engines::make_remote_engine(std::move(config));
  }
  // The server cannot say on which slice it runs.
  if (options.axes.profiles.size() != 1 || !find_profile(geometry, options.axes.profiles[0])) {
    return invalid_input("the engine remote measures one server on one slice: give its MigProfile, --profiles 2g.20gb");
  }
  config.profile = geometry.profiles[*find_profile(geometry, options.axes.profiles[0])].name;
  TANGRAM_TRY(config.address, engines::parse_remote_address(options.remote));
  if (!options.remote_caller.token_file.empty()) {
    TANGRAM_TRY(config.caller.key, options.remote_caller.key());
  }
  TANGRAM_TRY(config.caller.tls, options.remote_caller.tls_context());
  config.caller.server_name = options.remote_caller.server_name;
  return engines::make_remote_engine(std::move(config));
}

// The engine that runs the model in a worker process. Fills the axes that the options leave open, which depends on the
// service and the geometry. All checks that need no worker come first.
Result<std::unique_ptr<engines::Engine>> real_engine(Options& options) {
  if (!options.measurements.empty() || !options.emulate.empty()) {
    return invalid_input(fmt::format(
        "the engine {} runs the model itself and takes neither --measurements nor --emulate", options.engine));
  }
  // A real run takes its own time and varies by itself.
  if (options.noise || options.real_time)
    return invalid_input("--noise and --real-time apply only to engines that predict times");
  if ((options.engine == "command") == options.command.empty()) {
    return invalid_input(options.command.empty() ? "the engine command needs --command COMMAND, which starts a server"
                                                 : "--command applies only to --engine command");
  }
  if ((options.engine == "remote") == options.remote.empty()) {
    return invalid_input(options.remote.empty() ? "the engine remote needs --remote HOST:PORT, the server to measure"
                                                : "--remote applies only to --engine remote");
  }
  TANGRAM_TRY(const auto geometry, geometry_of(options.device));
  // units_per_core is zero for every GPU.
  const bool on_gpu = geometry.units_per_core == 0;
  if (on_gpu && options.axes.profiles.empty()) {
    return invalid_input(
        "on a GPU, name the slices to measure, which have to be there: --profiles 2g.20gb; or let an idle GPU be cut for "
        "them: --gpu UUID --cut");
  }
  // The next checks are about this installation rather than about the options.
  if (options.engine == "torch" && !engines::has_torch_library()) {
    return Error{ErrorCode::unavailable, "this Tangram was built without libtorch"};
  }
  const std::string program = worker::find_worker_program();
  if (program.empty()) return Error{ErrorCode::not_found, "tangram-worker was not found in the folder of this program"};
  TANGRAM_TRY(const auto service, described(options));
  TANGRAM_TRY(auto spec, model_spec(options, service));
  measure::choose_axes(options.axes, service, geometry);
  if (is_served(options)) return served_engine(options, geometry, program, std::move(spec));
  std::function<Result<std::vector<std::string>>(const std::string&)> environment;
  if (on_gpu) {
    environment = [&options, geometry](const std::string& mig_profile) {
      return gpu_environment(geometry, options.gpu, mig_profile);
    };
  }
  return worker::make_worker_engine({.program = program,
                                     .engine = options.engine,
                                     .geometry = geometry,
                                     .model = std::move(spec),
                                     .memory_limit_mib = options.memory_limit_mib,
                                     .provider = options.onnx_provider,
                                     .environment = std::move(environment)});
}

// ---- Engines that answer from a file ----

// The path of the file that the engine answers from: --measurements for `replay`, --emulate for `emulated`. Both at
// once is an error, because the user would not know which one was used.
Result<std::string> source_path(const Options& options) {
  if (!options.models.empty() || !options.services.empty()) {
    return invalid_input(
        fmt::format("--models and --services apply only to engines that run models; {} does not", options.engine));
  }
  const bool replay = options.engine == "replay";
  const std::string& wanted = replay ? options.measurements : options.emulate;
  const std::string& other = replay ? options.emulate : options.measurements;
  const char* name = replay ? "--measurements" : "--emulate";
  if (wanted.empty())
    return invalid_input(
        fmt::format("the engine {} reads its times from a file: expected {} FILE", options.engine, name));
  if (replay && options.memory_limit_mib) {
    return invalid_input(
        "--memory-limit applies to the engines emulated and torch; replay uses what the file says about memory");
  }
  if (!other.empty())
    return invalid_input(fmt::format("the engine {} reads {}; give only that file", options.engine, name));
  return wanted;
}

// Without --real-time `config.sleep` stays empty and runs take no wall time, so a campaign of hours ends in seconds.
engines::EngineConfig engine_config(const Options& options, const measure::RecordedSource& source) {
  engines::EngineConfig config;
  config.noise = options.noise;
  config.seed = options.sampling.seed;
  config.memory_limit_mib = options.memory_limit_mib;
  if (options.real_time) config.sleep = [](Duration d) { std::this_thread::sleep_for(d); };
  if (options.engine == "replay") {
    config.measurements = source.rows;
  } else {
    measure::set_emulation(config, source);
  }
  return config;
}

// What the files of --known say about other models. Rows about the target are removed: the sampler must not know the
// answers that it is about to measure.
Result<learn::Knowledge> knowledge_of(const Options& options) {
  Measurements all;
  for (const auto& path : options.known) {
    TANGRAM_TRY(const auto measurements, load_measurements(path));
    all.insert(all.end(), measurements.begin(), measurements.end());
  }
  return measure::knowledge_without(std::move(all), options.target());
}

// How much worse plans are for not knowing more: with the Slos of --slo-ms, or with typical ones between the latencies
// measured so far. The result keeps a reference to `options`.
measure::RegretOf regret_of(const Options& options) {
  return [&options](std::span<const learn::Candidate> candidates, std::span<const Measurement> measured) {
    std::vector<double> slos = options.slos_ms;
    if (slos.empty()) {
      slos = lab::typical_slos_ms(Measurements(measured.begin(), measured.end()));
    }
    return lab::slo_regret(options.device, {candidates.begin(), candidates.end()}, std::move(slos));
  };
}

// The document names program, commit and seed, so that a result can be reproduced.
ExitCode print(Session& session, const Options& options, const measure::Report& report) {
  if (session.structured()) {
    const BuildInfo build = build_info();
    report::Json json{{"program", "tangram " + build.version},
                      {"commit", build.commit},
                      {"seed", options.sampling.seed},
                      {"model", options.model},
                      {"device", options.device},
                      {"engine", options.engine},
                      {"sampler", options.sampler},
                      {"file", options.to}};
    json.update(report::measure_json(measure_view(report)));
    session.print_value(json);
  } else {
    session.print(report::measure_table(measure_view(report), options.repeats.precision, session.terminal));
  }
  if (report.stop != measure::Stop::interrupted) return ExitCode::done;
  session.note(fmt::format("interrupted; {} holds {} measurements; run the same command to continue", options.to,
                           report.measurements.size()));
  return ExitCode::interrupted;
}

// Runs the campaign. Each point is stored as soon as it is measured, so Ctrl-C loses at most the point at hand.
Result<measure::Report> drive(Session& session, const measure::Task& task, engines::Engine& engine,
                              const measure::Choose& choose, const measure::ResultFile& output,
                              const InterruptGuard& guard) {
  measure::SteadyClock clock;
  Progress progress = session.progress("measuring", kProgressParts);
  return measure::measure(
      task, {.engine = engine,
             .clock = clock,
             .choose = choose,
             .store = [&](const Measurements& measured) { return output.write(measured); },
             .interrupted = [&] { return guard.interrupted(); },
             .progress = [&](double share) { progress.set(static_cast<std::uint64_t>(share * kProgressParts)); }});
}

// An engine that is ready to run, and what is known about the target before the first run.
struct Prepared {
  std::unique_ptr<engines::Engine> engine;
  std::string path;   // The file that it answers from or runs.
  Measurements rows;  // Rows about the target; empty for an engine that runs the model.
};

Result<Prepared> prepare_real(Options& options) {
  TANGRAM_TRY(auto engine, real_engine(options));
  return Prepared{std::move(engine), is_served(options) ? options.model : weight_files(options)[0], {}};
}

Result<Prepared> prepare_answering(Session& session, const Options& options) {
  TANGRAM_TRY(const auto path, source_path(options));
  TANGRAM_TRY(const auto source, load_engine_source(options, path));
  TANGRAM_TRY(auto rows, measure::select_target(source.rows, options.target(), path));
  // --noise scales with the recorded spread. Without any spread it has no effect, and the user should know.
  if (options.noise && !source.fitted && !measure::has_spread(rows)) {
    session.note(path + ": has no spread for this model; its emulated runs do not vary");
  }
  return Prepared{engines::find_engine(options.engine)->make(engine_config(options, source)), path, std::move(rows)};
}

// A replay of a whole file offers only the configurations in it. Once the user names an axis, the product of the axes
// is what was asked for, gaps in the file included.
measure::Campaign campaign_of(const Options& options) {
  return {.target = options.target(),
          .axes = options.axes,
          .only_known = options.engine == "replay" && !options.axes.narrowed(),
          .sampling = options.sampling,
          .minutes_max = options.minutes_max,
          .repeats = options.repeats};
}

// ---- On slices that are cut for it ----

Result<Nothing> check_cut(const Options& options, const Geometry& geometry) {
  if (!options.state.empty() && !options.cut) return invalid_input("--state applies only to --cut");
  if (!options.cut) return Nothing{};
  if (options.gpu.empty()) return invalid_input("--cut needs --gpu, the UUID or index of the idle GPU that may be cut");
  if (geometry.units_per_core > 0 || !really_runs(options) || options.engine == "remote") {
    return invalid_input("--cut applies to GPUs and to the engines onnx, torch and command");
  }
  return Nothing{};
}

// A campaign over stages of cuts. The stages are measured one after another, each with an even share of what is left of
// the budget.
class CutCampaign {
 public:
  // `options` have all axes, and outlive this.
  CutCampaign(Session& session, const Options& options, const Geometry& geometry, const measure::ResultFile& output,
              const learn::Knowledge& knowledge)
      : session_(session),
        options_(options),
        geometry_(geometry),
        output_(output),
        knowledge_(knowledge),
        regret_(regret_of(options)),
        begin_(std::chrono::steady_clock::now()) {
    report_.measurements = learn::select(output.rows(), options.target());
    report_.stop_reason = "nothing is left to measure";
  }

  // A stage of which nothing more is wanted is left out, and its cut with it.
  Result<measure::Report> run(BorrowedGpu& gpu, const std::vector<measure::CutStage>& stages) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const auto& [layout, profiles] = stages[i];
      Options options = options_;
      options.axes.profiles = profiles;
      const measure::Campaign campaign = campaign_of(options, stages.size() - i);
      TANGRAM_TRY(auto task, measure::task_of(campaign, geometry_, {}));
      task.before = report_.measurements;
      const auto sampler = measure::sampler_of(campaign, knowledge_, regret_);
      if (out_of_time() || !wants_more(task, sampler)) continue;
      if (guard_.interrupted()) {
        report_.stop = measure::Stop::interrupted;
        break;
      }
      session_.note(fmt::format("stage {} of {}: {}", i + 1, stages.size(), fmt::join(profiles, ", ")));
      if (layout != gpu.layout()) TANGRAM_RETURN_IF_ERROR(gpu.cut(layout));
      TANGRAM_TRY(const auto prepared, prepare_real(options));
      TANGRAM_TRY(auto part, drive(session_, task, *prepared.engine, sampler, output_, guard_));
      add(std::move(part));
      if (report_.stop == measure::Stop::interrupted) break;
    }
    report_.elapsed = elapsed();
    return std::move(report_);
  }

 private:
  Duration elapsed() const { return std::chrono::steady_clock::now() - begin_; }
  bool out_of_time() const { return options_.minutes_max && to_seconds(elapsed()) >= *options_.minutes_max * 60; }

  measure::Campaign campaign_of(const Options& options, std::size_t stages_left) const {
    measure::Campaign campaign = measure_verb::campaign_of(options);
    const std::size_t done = report_.measurements.size();
    const std::size_t left = campaign.sampling.budget > done ? campaign.sampling.budget - done : 0;
    campaign.sampling.budget = done + (left + stages_left - 1) / stages_left;
    if (campaign.minutes_max) *campaign.minutes_max = std::max(1e-6, *campaign.minutes_max - to_seconds(elapsed()) / 60);
    return campaign;
  }

  static bool wants_more(const measure::Task& task, const measure::Choose& sampler) {
    const bool known = std::ranges::all_of(task.candidates, [&](const learn::Candidate& candidate) {
      return std::ranges::any_of(task.before, [&](const Measurement& m) { return learn::candidate_of(m) == candidate; });
    });
    if (known || task.before.size() >= task.budget.measurements_max) return false;
    return sampler(task.candidates, task.before).next.has_value();
  }

  void add(measure::Report part) {
    std::ranges::move(part.points, std::back_inserter(report_.points));
    std::ranges::move(part.skipped, std::back_inserter(report_.skipped));
    report_.measurements = std::move(part.measurements);
    report_.stop = part.stop;
    report_.stop_reason = std::move(part.stop_reason);
    report_.expected_error = part.expected_error;
    report_.expected_regret = part.expected_regret;
  }

  Session& session_;
  const Options& options_;
  const Geometry& geometry_;
  const measure::ResultFile& output_;
  const learn::Knowledge& knowledge_;
  const measure::RegretOf regret_;
  const std::chrono::steady_clock::time_point begin_;
  const InterruptGuard guard_;  // Also between two stages: the GPU is given back in any case.
  measure::Report report_;
};

// Cuts the GPU for the profiles, measures them, and gives it back whatever happens.
Result<ExitCode> run_on_cuts(Session& session, Options options, const Geometry& geometry) {
  if (options.axes.profiles.empty()) options.axes.profiles = {"base"};
  // Fills the axes in, and finds what is wrong before anything is cut.
  TANGRAM_TRY(const auto checked, prepare_real(options));
  const measure::Campaign campaign = campaign_of(options);
  TANGRAM_TRY(const auto task, measure::task_of(campaign, geometry, {}));
  TANGRAM_RETURN_IF_ERROR(measure::check_candidates(task, *checked.engine, checked.path));
  std::vector<std::string> profiles;
  for (const auto& candidate : task.candidates) {
    if (std::ranges::find(profiles, candidate.mig_profile) == profiles.end()) profiles.push_back(candidate.mig_profile);
  }
  TANGRAM_TRY(const auto knowledge, knowledge_of(options));
  TANGRAM_TRY(const auto output, measure::ResultFile::open(options.to, options.target(), checked.path));
  TANGRAM_TRY(const auto gpu, BorrowedGpu::take(session, geometry, options.gpu, options.state));
  options.gpu = gpu->uuid();
  TANGRAM_TRY(const auto stages, measure::plan_cuts(geometry, profiles, gpu->layout()));
  CutCampaign cuts(session, options, geometry, output, knowledge);
  auto report = cuts.run(*gpu, stages);
  const auto restored = gpu->give_back();
  if (!report) {
    if (!restored) session.warn(restored.error().message);
    return report.error();
  }
  session.note(fmt::format("{} cut{} for {} MigProfiles", gpu->cuts(), gpu->cuts() == 1 ? "" : "s", profiles.size()));
  const ExitCode code = print(session, options, *report);
  if (!restored) return session.fail(restored.error());
  return code;
}

// By value: real_engine() fills the axes in, and a verb must not change the parsed options.
Result<ExitCode> run(Session& session, Options options) {
  options.sampling.kind = *learn::parse_sampler_kind(options.sampler);
  TANGRAM_TRY(const auto geometry, geometry_of(options.device));
  TANGRAM_RETURN_IF_ERROR(check_cut(options, geometry));
  if (options.cut) return run_on_cuts(session, options, geometry);
  TANGRAM_TRY(const auto prepared, really_runs(options) ? prepare_real(options) : prepare_answering(session, options));
  const measure::Campaign campaign = campaign_of(options);
  TANGRAM_TRY(auto task, measure::task_of(campaign, geometry, prepared.rows));
  // Otherwise a campaign that can run nothing would end at once with an empty report that looks like success.
  TANGRAM_RETURN_IF_ERROR(measure::check_candidates(task, *prepared.engine, prepared.path));
  TANGRAM_TRY(const auto knowledge, knowledge_of(options));
  // Opened before the first run: a file that cannot be written must not cost hours of measurements.
  TANGRAM_TRY(const auto output, measure::ResultFile::open(options.to, options.target(), prepared.path));
  // Rows of an earlier, interrupted run count towards the budget and are not measured again.
  task.before = learn::select(output.rows(), task.target);
  // The sampler refers to `knowledge` and `regret`, so both live until the campaign ends.
  const measure::RegretOf regret = regret_of(options);
  const auto sampler = measure::sampler_of(campaign, knowledge, regret);
  const InterruptGuard guard;
  TANGRAM_TRY(const auto report, drive(session, task, *prepared.engine, sampler, output, guard));
  return print(session, options, report);
}

// Engines that run models are not in the registry of engines, because they need a worker process and a geometry.
std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const auto& engine : engines::engines()) names.emplace_back(engine.name);
  for (const auto& engine : engines::batch_engines()) {
    if (engines::find_engine(engine.name) == nullptr) names.emplace_back(engine.name);
  }
  names.emplace_back(engines::kCommandEngine);
  names.emplace_back(engines::kRemoteEngine);
  return names;
}

// The options that say what is measured, and with which engine.
void add_what(Program& program, Arguments& verb, Options& options) {
  verb.add_option("--model", options.model, "The model to measure.")->required()->type_name("MODEL");
  program.offers(verb.add_option("--device", options.device, "The device type.")->required()->type_name("TYPE"),
                 device_type_names());
  program.one_of(
      verb.add_option(
              "--engine", options.engine,
              "The engine that runs the batches: replay returns the times of --measurements, emulated takes the time "
              "that --emulate predicts; torch and onnx run the model in --models; command starts a server of yours on "
              "each slice; remote measures a server that runs on a slice.")
          ->required()
          ->type_name("ENGINE"),
      engine_names());
  const auto file = [&](const char* name, auto& path, const char* help) {
    return program.offers_files(verb.add_option(name, path, help)->type_name("FILE"));
  };
  file("--measurements", options.measurements, "The measurements for the engine replay.");
  file("--emulate", options.emulate,
       "The times for the engine emulated: measurements, which it interpolates, or a latency model.");
  program.offers_files(
      verb.add_option("--models", options.models,
                      "The folder that contains MODEL.pt for the engine torch, or MODEL.onnx for onnx.")
          ->type_name("DIR"));
  file("--services", options.services,
       "The services file that declares the inputs of the model, for engines that run it; not needed for the models of "
       "`tangram models`.");
  verb.add_option("--command", options.command,
                  "For the engine command: the shell command that starts a server of the Open Inference Protocol on a "
                  "slice. {port}, {model}, {slice} and {cores} are replaced.")
      ->type_name("COMMAND");
  verb.add_option("--remote", options.remote,
                  "For the engine remote: the server, HOST:PORT. Nothing else may use it or its slice meanwhile.")
      ->type_name("ADDRESS");
  add_caller_options(program, verb, options.remote_caller, "remote-");
  verb.add_option("--gpu", options.gpu, "The GPU with the slices, where several have the type: its UUID or index.")
      ->type_name("GPU");
  verb.add_flag("--cut", options.cut,
                "Cut the idle GPU that --gpu names so that every MigProfile of --profiles (default: base) can be "
                "measured, with as few cuts as possible, and cut it as it was at the end. After a kill, the same command "
                "goes on and restores it, too.");
  verb.add_option("--state", options.state,
                  "With --cut: the folder for what has to be restored; default: that of `tangram apply`.")
      ->type_name("DIR");
  program.one_of(verb.add_option("--onnx-provider", options.onnx_provider,
                                 "What computes for the engine onnx; default: cpu on the host's cores, cuda on a GPU.")
                     ->type_name("P"),
                 {"cpu", "cuda", "tensorrt"});
  file("-o,--to", options.to, "The measurements file to write or to continue.")->required();
  file("--known", options.known, "Measurements of other models, which the sampler learns from.");
}

// The options that restrict the candidates.
void add_candidates(Program& program, Arguments& verb, Options& options) {
  program.offers(
      verb.add_option("--profiles", options.axes.profiles,
                      "The slices to measure: a set (base, double, me, all) or names; default: those of the file, or a "
                      "selection.")
          ->type_name("LIST")
          ->delimiter(','),
      {"base", "double", "me", "all"});
  const auto list = [&](const char* name, std::vector<std::int64_t>& values, double max, const char* help) {
    verb.add_option(name, values, help)->type_name("LIST")->delimiter(',')->range(1.0, max);
  };
  list("--batches", options.axes.batches, 1e6, "The batch sizes, 1,2,4; default: those of the file, or a selection.");
  list("--sizes", options.axes.sizes, 1e9, "The input sizes; default: those of the file, or a selection.");
  list("--processes", options.axes.processes, 1e3,
       "The numbers of processes that share the slice, 1,2,3; default: those of the file, or a selection.");
}

// The options that say how the sampler chooses, and when it stops.
void add_choice(Program& program, Arguments& verb, Options& options) {
  verb.add_option(
          "--max-measurements", options.sampling.budget,
          "The largest number of points, including those that the output file already has for this model and device.")
      ->type_name("N")
      ->capture_default_str()
      ->range(1, 1'000'000);
  verb.add_option("--max-minutes", options.minutes_max, "The longest time for this run.")
      ->type_name("T")
      ->range(1e-6, 1e6);
  verb.add_option("--target-error", options.sampling.target_error,
                  "Stop when the expected median error is below this and the regret is under 2 %; 0: never.")
      ->type_name("SHARE")
      ->capture_default_str()
      ->range(0.0, 1.0);
  program.one_of(verb.add_option("--sampler", options.sampler, "How to choose the next point.")
                     ->type_name("SAMPLER")
                     ->capture_default_str(),
                 {"active", "latin", "random", "grid"});
  verb.add_option("--slo-ms", options.slos_ms,
                  "The latency promises to plan for; default: several between the latencies seen.")
      ->type_name("LIST")
      ->delimiter(',')
      ->range(1e-6, 1e9);
  verb.add_option("--seed", options.sampling.seed, "The seed of the sampler and of the noise.")
      ->type_name("N")
      ->capture_default_str();
}

// The options that say how one point is timed.
void add_runs(Arguments& verb, Options& options) {
  verb.add_option("--precision", options.repeats.precision,
                  "Repeat a point until the 95 % interval of its mean is within this share of the mean.")
      ->type_name("SHARE")
      ->capture_default_str()
      ->range(1e-6, 1.0);
  verb.add_option("--max-repeats", options.repeats.repeats_max, "The largest number of timed runs of a point.")
      ->type_name("N")
      ->capture_default_str()
      ->range(1, 1'000'000);
  verb.add_option("--warm-up", options.repeats.warm_up, "The number of runs of a point before the timed ones.")
      ->type_name("N")
      ->capture_default_str()
      ->range(0, 1'000'000);
  verb.add_flag("--noise", options.noise, "Vary replayed and emulated run times by the measured or predicted spread.");
  verb.add_flag("--real-time", options.real_time, "Wait as long as each replayed or emulated run takes.");
  verb.add_option("--memory-limit", options.memory_limit_mib,
                  "The memory of every slice in MiB, for emulated, torch and onnx, instead of the known values.")
      ->type_name("MIB")
      ->range(1.0, 1e9);
}

}  // namespace
}  // namespace measure_verb

void add_measure(Program& program) {
  using namespace measure_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "measure",
       .group = "Learn",
       .summary = "measure the run times of a model on slices, with few points",
       .description =
           "Runs batches of a model on slices of a device and writes their run times. The sampler chooses the "
           "configurations to measure and stops when it can predict the rest well enough. Each point is warmed up "
           "and repeated until the 95 % interval of its mean is narrow; runs further than five deviations from the "
           "median are left out, unless they are frequent. Running out of memory is a result, and no larger run is "
           "tried after it. The file is written whole after every point: Ctrl-C loses only the current point, and "
           "the same command continues.",
       .examples =
           {{"tangram measure --model mobile-vision --device a100-80gb --engine replay --measurements "
             "examples/measurements.csv -o mine.csv",
             "Show which points of the example the sampler would have measured."},
            {"tangram measure --model bert --device a100-80gb --engine replay --measurements DIR/all.csv --known "
             "DIR/others.csv "
             "--max-measurements 10 -o few.csv",
             "Measure ten points, given the measurements of other models."},
            {"tangram measure --model bert --device a100-80gb --engine emulated --emulate DIR/all.csv --noise "
             "--real-time "
             "--max-minutes 5 -o few.csv",
             "Measure for five minutes on an emulated device."},
            {"tangram measure --model text-encoder --device cpu --engine onnx --models DIR -o cpu.csv",
             "Measure the cores of this machine, after `tangram models make DIR --format onnx`."},
            {"tangram measure --model bert --device a100-80gb --profiles 2g.20gb --engine remote --remote triton:8000 "
             "--services examples/services.yaml -o bert.csv",
             "Measure a Triton server that runs on a slice."},
            {"tangram measure --model text-encoder --device a100-80gb --engine onnx --models DIR --gpu 0 --cut "
             "--max-measurements 40 -o gpu.csv",
             "Cut an idle GPU in turn for each kind of slice, and restore its cuts."}}},
      [options](Session& session) { return run(session, *options); });
  add_what(program, verb, *options);
  add_candidates(program, verb, *options);
  add_choice(program, verb, *options);
  add_runs(verb, *options);
}

}  // namespace tangram::cli
