// The steps are processes of this very program, so that what is tested is what users run, and a step that crashes or
// hangs is a finding and not the end.

#include "cli/self_test.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "base/text.h"
#include "cli/build_info.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/measure_cuts.h"
#include "engines/example_models.h"
#include "formats/plan_file.h"
#include "formats/workload_file.h"
#include "host/files.h"
#include "recut/live_gpus.h"

extern char** environ;

namespace tangram::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr double kStepMaxS = 900;     // Of a step: TensorRT and a first load of CUDA take minutes.
constexpr double kReadyMaxS = 300;    // Until a server is ready.
constexpr double kEndMaxS = 60;       // Until it has ended.
constexpr std::size_t kOutputMax = 16 * 1024;  // Of a step, in the report.
constexpr const char* kDevice = "self-test";
constexpr int kLoadS = 5;

struct TestStep {
  std::string name;
  std::vector<std::string> words;  // Without the program.
  bool passed = false;
  std::string problem;
  double seconds = 0;
  std::string output;
};

// A process of this program, whose output goes to a file.
class SelfProcess {
 public:
  SelfProcess(const std::vector<std::string>& words, std::string log) : log_(std::move(log)) {
    std::vector<std::string> all{"tangram"};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (auto& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t streams;
    posix_spawn_file_actions_init(&streams);
    posix_spawn_file_actions_addopen(&streams, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&streams, STDOUT_FILENO, log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&streams, STDOUT_FILENO, STDERR_FILENO);
    // Ctrl-C is for us: the step is ended in an orderly way.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    const int failed = posix_spawn(&process_, "/proc/self/exe", &streams, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&streams);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0) process_ = -1;
  }
  ~SelfProcess() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  SelfProcess(const SelfProcess&) = delete;
  SelfProcess& operator=(const SelfProcess&) = delete;

  bool started() const { return process_ > 0; }
  void ask_to_end(int number) const {
    if (process_ > 0) kill(process_, number);
  }
  // The exit code, or 128 and the signal; nothing: it still runs after so long.
  std::optional<int> wait(double seconds) {
    const auto until = steady_clock::now() + std::chrono::duration<double>(seconds);
    while (process_ > 0) {
      int status = 0;
      if (waitpid(process_, &status, WNOHANG) == process_) {
        process_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      if (steady_clock::now() >= until) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return 127;
  }
  std::string output() const {
    const auto text = host::read_file(log_);
    return text ? *text : std::string();
  }

 private:
  std::string log_;
  pid_t process_ = -1;
};

// A folder that goes with the test.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (fs::temp_directory_path() / "tangram-self-test-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  bool made() const { return !path_.empty(); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

class SelfTest {
 public:
  SelfTest(Session& session, const SelfTestOptions& options, const adapters::DriverGpu& gpu, std::string engine)
      : session_(session), options_(options), gpu_(gpu), geometry_(*recut::geometry_of(gpu)), engine_(std::move(engine)) {}

  // Errors: nothing could be tried.
  Result<Nothing> run() {
    if (!folder_.made()) return Error{ErrorCode::unavailable, "cannot make a temporary folder"};
    TANGRAM_RETURN_IF_ERROR(prepare());
    const bool measured = step("measure on slices that are cut for it", measure_words());
    if (measured && !interrupted()) {
      const bool cut = step("cut the GPU for a plan", {"apply", folder_ / "plan.json", "--gpu", choice()});
      if (cut && !interrupted()) step("compare the plan with the driver", {"diff", "--live", folder_ / "plan.json", "--gpu", choice()});
      if (cut && !interrupted()) serve();
      // Whatever has happened since the apply began.
      step("undo the cuts", {"rollback"});
    }
    check_restored();
    return Nothing{};
  }

  const std::vector<TestStep>& steps() const { return steps_; }
  bool restored() const { return restored_; }
  bool passed() const {
    return restored_ && std::ranges::all_of(steps_, [](const TestStep& step) { return step.passed; });
  }
  std::string measurements() const {
    const auto text = host::read_file(folder_ / "measured.csv");
    return text ? *text : std::string();
  }

 private:
  std::string choice() const { return fmt::format("{}={}", kDevice, gpu_.uuid); }
  bool interrupted() const { return guard_.interrupted(); }

  // The two smallest plain profiles, or the one that there is, each where it may start first.
  Layout two_slices() const {
    Layout layout;
    const Geometry base = restrict_to(geometry_, ProfileSet::base);
    for (const auto& profile : base.profiles) {
      const std::size_t index = *find_profile(geometry_, profile.name);
      if (layout.slices.size() == 2) break;
      for (const int start : profile.starts) {
        const Slice slice{static_cast<std::uint16_t>(index), static_cast<std::uint16_t>(start)};
        if (!fits(geometry_, layout, slice)) continue;
        layout = with_slice(geometry_, layout, slice);
        break;
      }
    }
    return layout;
  }

  // The model, a service for it whose promise any GPU keeps, and a plan with a replica on each slice.
  Result<Nothing> prepare() {
    Service service;
    models_ = options_.models;
    if (models_.empty()) {
      models_ = folder_ / "models";
      const std::string format = engine_ == "onnx" ? "onnx" : "torchscript";
      if (!step("make an example model", {"models", "make", models_, "--only", "text-encoder", "--format", format})) {
        return Error{ErrorCode::unavailable, steps_.back().problem};
      }
    }
    const std::string services = options_.services.empty() ? models_ + "/services.yaml" : options_.services;
    TANGRAM_TRY(const auto workload, load_workload(services));
    const std::string wanted = options_.model.empty() ? "text-encoder" : options_.model;
    const auto found = std::ranges::find(workload.services, wanted, &Service::model);
    if (found == workload.services.end()) {
      return invalid_input(fmt::format("{}: no service uses the model {}", services, wanted));
    }
    service = *found;
    service.engine = {};
    service.slo.latency = std::chrono::seconds(30);
    service.traffic = PoissonTraffic{10};
    service_ = service;
    TANGRAM_RETURN_IF_ERROR(
        host::write_file_atomically(folder_ / "services.yaml", formats::write_workload(Workload{{service}})));
    layout_ = two_slices();
    PlannedDevice device{kDevice, geometry_.type, geometry_, {}};
    for (const auto& slice : layout_.slices) {
      device.slices.push_back({slice, {Replica{service.name, {{largest_size(service), 1}}, 1}}});
    }
    return host::write_file_atomically(folder_ / "plan.json", formats::write_plan(Plan{{device}}));
  }

  std::vector<std::string> measure_words() const {
    std::vector<std::string> profiles;
    for (const auto& slice : layout_.slices) profiles.push_back(geometry_.profiles[slice.profile].name);
    return {"measure",      "--model",       service_.model, "--device",   geometry_.type,
            "--engine",     engine_,         "--models",     models_,      "--services",
            folder_ / "services.yaml",       "--profiles",   fmt::format("{}", fmt::join(profiles, ",")),
            "--batches",    "1,4",           "--sizes",      fmt::to_string(largest_size(service_)),
            "--sampler",    "grid",          "--max-repeats", "10",        "--gpu",
            gpu_.uuid,      "--cut",         "-o",           folder_ / "measured.csv"};
  }

  // Runs the words to their end. True: the exit code is 0.
  bool step(const std::string& name, std::vector<std::string> words) {
    TestStep step{name, std::move(words), false, {}, 0, {}};
    const auto begin = steady_clock::now();
    SelfProcess process(step.words, next_log());
    auto code = process.wait(kStepMaxS);
    if (!code) {
      process.ask_to_end(SIGINT);  // It gives back what it has cut.
      process.wait(kEndMaxS);
      step.problem = fmt::format("did not end within {:g} s", kStepMaxS);
    } else if (*code != 0) {
      step.problem = fmt::format("ended with {}", *code);
    }
    step.output = process.output();
    return done(std::move(step), begin);
  }

  // Serves the plan, sends requests, and ends the server.
  void serve() {
    TestStep step{"serve under load",
                  {"serve", folder_ / "plan.json", "--services", folder_ / "services.yaml", "--measurements",
                   folder_ / "measured.csv", "--engine", engine_, "--models", models_, "--gpu", choice(), "--http-port",
                   "0", "--metrics-port", "0", "--no-grpc"},
                  false, {}, 0, {}};
    const auto begin = steady_clock::now();
    SelfProcess server(step.words, next_log());
    const auto until = begin + std::chrono::duration<double>(kReadyMaxS);
    std::optional<int> ended;
    while (!ready(server.output()) && !ended && steady_clock::now() < until && !interrupted()) ended = server.wait(0.1);
    const std::string port = port_of(server.output());
    if (ended || port.empty()) {
      step.problem = ended ? fmt::format("the server ended with {}", *ended) : "the server did not become ready";
    } else {
      SelfProcess load({"load", "--services", folder_ / "services.yaml", "--http-port", port, "--seconds",
                        fmt::to_string(kLoadS), "--output", "json"},
                       next_log());
      const auto code = load.wait(kStepMaxS);
      step.output = load.output();
      if (!code || *code != 0) step.problem = code ? fmt::format("tangram load ended with {}", *code) : "tangram load did not end";
    }
    server.ask_to_end(SIGTERM);
    const auto code = ended ? ended : server.wait(kEndMaxS);
    if (step.problem.empty() && code != 0) step.problem = "the server did not end well";
    step.output += server.output();
    done(std::move(step), begin);
  }

  static bool ready(const std::string& log) { return log.find("\"event\":\"ready\"") != std::string::npos; }
  static std::string port_of(const std::string& log) {
    constexpr std::string_view kBefore = "\"http\":\"http://127.0.0.1:";
    const auto at = log.find(kBefore);
    if (at == std::string::npos || !ready(log)) return {};
    const auto from = at + kBefore.size();
    return log.substr(from, log.find_first_not_of("0123456789", from) - from);
  }

  void check_restored() {
    TestStep step{"the GPU is as it was", {"doctor"}, false, {}, 0, {}};
    const auto begin = steady_clock::now();
    const auto driver = adapters::probe_nvml(recut::nvml_library());
    const auto gpu = std::ranges::find(driver.gpus, gpu_.uuid, &adapters::DriverGpu::uuid);
    const auto cuts = [&](const adapters::DriverGpu& of) {
      return fmt::format("{}{}", of.mig_enabled ? "" : "MIG off, ",
                         to_string(geometry_, adapters::recognise_layout(geometry_, of).layout));
    };
    if (gpu == driver.gpus.end()) {
      step.problem = "the driver does not list it any more";
    } else if (cuts(*gpu) != cuts(gpu_)) {
      step.problem = fmt::format("it was {} and is {}; `tangram rollback` restores the cuts", cuts(gpu_), cuts(*gpu));
    } else {
      restored_ = true;
      step.output = cuts(*gpu);
    }
    done(std::move(step), begin);
  }

  bool done(TestStep step, steady_clock::time_point begin) {
    step.seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
    step.passed = step.problem.empty();
    if (step.output.size() > kOutputMax) step.output = "..." + step.output.substr(step.output.size() - kOutputMax);
    if (!session_.structured()) {
      session_.print(fmt::format("  {}  {} ({:.1f} s){}\n", step.passed ? "ok    " : "FAILED", step.name, step.seconds,
                                 step.passed ? "" : ": " + step.problem));
    }
    steps_.push_back(std::move(step));
    return steps_.back().passed;
  }

  std::string next_log() { return folder_ / fmt::format("log-{}", ++logs_); }

  Session& session_;
  const SelfTestOptions& options_;
  const adapters::DriverGpu gpu_;
  const Geometry geometry_;
  const std::string engine_;
  const InterruptGuard guard_;
  TestFolder folder_;
  std::string models_;
  Service service_;
  Layout layout_;
  std::vector<TestStep> steps_;
  int logs_ = 0;
  bool restored_ = false;
};

}  // namespace

Result<ExitCode> run_self_test(Session& session, const SelfTestOptions& options, const adapters::DriverReport& driver,
                               const report::Json& findings) {
  if (options.models.empty() != options.model.empty()) return invalid_input("--models and --model belong together");
  if (!options.services.empty() && options.models.empty()) return invalid_input("--services needs --models and --model");
  TANGRAM_RETURN_IF_ERROR(host::check_writable(options.report));
  TANGRAM_TRY(const auto gpu, idle_gpu(driver, options.gpu));
  if (!session.structured()) {
    session.print(fmt::format("GPU {} ({}): {}, with the engine {}\n", gpu.index, gpu.uuid, gpu.name, options.engine));
  }
  SelfTest test(session, options, gpu, options.engine);
  const auto ran = test.run();
  report::Json steps = report::Json::array();
  for (const auto& step : test.steps()) {
    steps.push_back({{"step", step.name},
                     {"command", fmt::format("tangram {}", fmt::join(step.words, " "))},
                     {"passed", step.passed},
                     {"problem", step.problem.empty() ? report::Json(nullptr) : report::Json(step.problem)},
                     {"seconds", step.seconds},
                     {"output", step.output}});
  }
  const BuildInfo build = build_info();
  const report::Json json{{"program", "tangram " + build.version},
                          {"commit", build.commit},
                          {"gpu", gpu.uuid},
                          {"type", recut::geometry_of(gpu)->type},
                          {"engine", options.engine},
                          {"passed", ran.ok() && test.passed()},
                          {"restored", test.restored()},
                          {"steps", steps},
                          {"measurements", test.measurements()},
                          {"machine", findings}};
  TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(
      options.report, json.dump(2, ' ', false, report::Json::error_handler_t::replace) + "\n"));
  if (session.structured()) session.print_value(json);
  if (!ran) return ran.error();
  if (!session.structured()) {
    session.print(fmt::format("{}; {} has what each step said: please send it to us, whatever the result\n",
                              test.passed() ? "all steps passed" : "not all steps passed", options.report));
  }
  return test.passed() ? ExitCode::done : ExitCode::answer_is_no;
}

}  // namespace tangram::cli
