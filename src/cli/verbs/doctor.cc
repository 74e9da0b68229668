// `tangram doctor`: what is on this machine, and what follows from it.
//
// The verb reads the host, the driver, permissions and other owners of the GPUs into one Findings, and changes nothing.
// The last part, "What follows", translates the findings into what the user can do here. It never fails: a machine
// without a GPU or with a broken driver is a finding, because this is the verb that users run when something does not
// work.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "adapters/cpu_host/cpu_host.h"
#include "adapters/nvml/nvml.h"
#include "adapters/nvml/owners.h"
#include "adapters/nvml/permissions.h"
#include "base/text.h"
#include "cli/engine_findings.h"
#include "cli/program.h"
#include "cli/self_test.h"
#include "recut/live_gpus.h"
#include "report/mosaic.h"
#include "report/text_width.h"
#include "worker/confine.h"
#include "worker/worker_process.h"

namespace tangram::cli {
namespace doctor_verb {
namespace {

// Everything that was read from the machine. Both forms of output are computed from this value alone.
struct Findings {
  adapters::CpuHostReport host;
  adapters::DriverReport driver;
  adapters::GpuPermissions permissions;
  std::vector<std::string> owners;  // Other programs that manage the GPUs.
  std::vector<EngineFinding> engines;
  // What a worker that is started here is confined by. Empty: there is no program for workers.
  std::vector<worker::Measure> worker_measures;
};

const char* to_text(adapters::CgroupVersion version) {
  switch (version) {
    case adapters::CgroupVersion::none: return "none";
    case adapters::CgroupVersion::v1: return "v1";
    case adapters::CgroupVersion::v2: return "v2";
  }
  return "";
}

// True for a board that is cut like a known type but is another product, such as the PCIe board beside the SXM one. Its
// layouts are right, but its multiprocessors and memory are not in the tables.
bool only_cut_alike(const adapters::DriverGpu& gpu) {
  const Geometry* geometry = recut::geometry_of(gpu);
  return geometry != nullptr && geometry->title != find_geometry(geometry->type)->title;
}

int count_mig_capable(const adapters::DriverReport& driver) {
  int count = 0;
  for (const auto& gpu : driver.gpus) count += gpu.mig_capable ? 1 : 0;
  return count;
}

// One sentence for each thing that the user can or cannot do here.
std::vector<std::string> consequences(const Findings& findings) {
  std::vector<std::string> list;
  const CpuHost host = adapters::to_cpu_host(findings.host);
  const int units = cpu_geometry(host).units;
  // The host is always first, since every machine has one.
  list.push_back(
      host.quota
          ? fmt::format("The host's cores can be cut into {} units of a quarter core.", units)
          : fmt::format("The host's cores can be cut into {} whole cores; quarter cores need writable CPU quotas.",
                        units));
  // Everything below is about MIG.
  if (count_mig_capable(findings.driver) == 0) {
    list.push_back("No GPU that can be cut was found. Everything that needs no GPU works, for every device type.");
    return list;
  }
  // One sentence about MIG mode for all GPUs together: on a machine with eight GPUs it would otherwise repeat.
  bool any_off = false;
  for (const auto& gpu : findings.driver.gpus) {
    any_off = any_off || (gpu.mig_capable && !gpu.mig_enabled);
    // Tangram cuts only types that are in its tables: without them it does not know which starts are valid.
    if (gpu.mig_capable && recut::geometry_of(gpu) == nullptr) {
      list.push_back(fmt::format("GPU {} can be cut, but Tangram does not know its type (PCI id 0x{:04X}).", gpu.index,
                                 gpu.pci_device_id));
    }
    if (gpu.mig_capable && only_cut_alike(gpu)) {
      list.push_back(fmt::format(
          "GPU {} has the cuts of {}, but Tangram does not know the multiprocessors and memory of its slices: "
          "measure on it instead of using measurements of another board.",
          gpu.index, recut::geometry_of(gpu)->type));
    }
  }
  if (any_off) {
    list.push_back(findings.permissions.sys_admin ? "MIG mode is off on a GPU; this user may switch it on."
                                                  : "MIG mode is off on a GPU; switching it on needs CAP_SYS_ADMIN.");
  }
  // Two ways give the right to cut: root, or the capability node that an administrator can share with a group.
  list.push_back(
      findings.permissions.root || findings.permissions.mig_config
          ? "This user may cut the GPUs."
          : "This user may read the GPUs but not cut them: that needs root, or access to the mig/config node in "
            "/dev/nvidia-caps.");
  // The same warning that `tangram apply` prints.
  for (const auto& owner : findings.owners) {
    list.push_back(fmt::format(
        "Another tool manages these GPUs: {}. Only one tool should, or each undoes the changes of the other.", owner));
  }
  return list;
}

// "3g.40gb@4", or "id 9@4" with the vendor's number if the tables do not know the profile.
std::string slice_text(const Geometry* geometry, const adapters::DriverSlice& slice) {
  if (geometry != nullptr) {
    for (const auto& profile : geometry->profiles) {
      if (profile.vendor_id == slice.vendor_id) return fmt::format("{}@{}", profile.name, slice.start);
    }
  }
  return fmt::format("id {}@{}", slice.vendor_id, slice.start);
}

// A slice is identified by its start, since slices of one GPU do not overlap.
std::vector<int> processes_on(const adapters::DriverGpu& gpu, const adapters::DriverSlice& slice) {
  std::vector<int> pids;
  for (const auto& process : gpu.processes) {
    if (process.slice_start == slice.start) pids.push_back(process.pid);
  }
  return pids;
}

// Keys that need the tables (layout, differences) are missing for an unknown type.
report::Json gpu_json(const adapters::DriverGpu& gpu) {
  const Geometry* geometry = recut::geometry_of(gpu);
  report::Json json{{"index", gpu.index},
                    {"name", gpu.name},
                    {"uuid", gpu.uuid},
                    {"pci_bus_id", gpu.pci_bus_id},
                    {"pci_device_id", fmt::format("0x{:04X}", gpu.pci_device_id)},
                    {"type", geometry == nullptr ? report::Json(nullptr) : report::Json(geometry->type)},
                    {"sm_count_known", geometry != nullptr && !only_cut_alike(gpu)},
                    {"memory_gib", gpu.memory_gib},
                    {"mig_capable", gpu.mig_capable},
                    {"mig_enabled", gpu.mig_enabled},
                    {"mig_enabled_after_reset", gpu.mig_pending}};
  report::Json slices = report::Json::array();
  for (const auto& slice : gpu.slices) {
    report::Json uuids = report::Json::array();
    for (const auto& part : slice.parts) uuids.push_back(part.uuid);
    slices.push_back({{"slice", slice_text(geometry, slice)},
                      {"vendor_id", slice.vendor_id},
                      {"start", slice.start},
                      {"units", slice.units},
                      {"mig_uuids", std::move(uuids)},
                      {"whole", slice.whole},
                      {"pids", processes_on(gpu, slice)}});
  }
  json["slices"] = std::move(slices);
  if (geometry != nullptr) {
    json["layout"] = gpu.slices_known
                         ? report::Json(to_string(*geometry, adapters::recognise_layout(*geometry, gpu).layout))
                         : report::Json(nullptr);
    json["differences"] = adapters::compare_profiles(*geometry, gpu);
  }
  json["problem"] = gpu.problem.empty() ? report::Json(nullptr) : report::Json(gpu.problem);
  return json;
}

// A problem that does not exist and a limit that is not set are null.
report::Json findings_json(const Findings& findings) {
  const auto& host = findings.host;
  report::Json gpus = report::Json::array();
  for (const auto& gpu : findings.driver.gpus) gpus.push_back(gpu_json(gpu));
  report::Json json;
  json["host"] = {{"cores_online", host.cores_online},
                  {"cores_usable", host.cores_usable},
                  {"quota_cores", host.quota_cores ? report::Json(*host.quota_cores) : report::Json(nullptr)},
                  {"memory_gib", host.memory_gib},
                  {"cgroup", to_text(host.cgroup)},
                  {"cgroup_directory", host.cgroup_directory},
                  {"quota", host.quota},
                  {"quota_reason", host.quota_reason}};
  json["driver"] = {
      {"found", findings.driver.library_found},
      {"version", findings.driver.driver_version},
      {"problem", findings.driver.problem.empty() ? report::Json(nullptr) : report::Json(findings.driver.problem)}};
  json["gpus"] = std::move(gpus);
  json["permissions"] = {{"root", findings.permissions.root},
                         {"cap_sys_admin", findings.permissions.sys_admin},
                         {"nvidia_devices", findings.permissions.devices},
                         {"nvidia_caps", findings.permissions.capabilities},
                         {"mig_config", findings.permissions.mig_config}};
  json["mig_owners"] = findings.owners;
  report::Json engines = report::Json::array();
  for (const auto& engine : findings.engines) {
    report::Json entry{{"engine", engine.engine}, {"device", engine.device}, {"usable", engine.missing.empty()}};
    if (!engine.provider.empty()) entry["provider"] = engine.provider;
    entry["missing"] = engine.missing.empty() ? report::Json(nullptr) : report::Json(engine.missing);
    engines.push_back(std::move(entry));
  }
  json["engines"] = std::move(engines);
  report::Json measures = report::Json::object();
  for (const auto& measure : findings.worker_measures) measures[measure.name] = measure.in_force;
  json["workers"] = std::move(measures);
  json["consequences"] = consequences(findings);
  return json;
}

// Prints lines of `  term   text`, with long texts wrapped under themselves.
class Report {
 public:
  explicit Report(Session& session) : session_(session) {}

  // A blank line before every heading but the first.
  void heading(const std::string& text) {
    session_.print((begun_ ? "\n" : "") + paint(session_.terminal, Style::bold, text) + "\n");
    begun_ = true;
  }
  // wrap() is called without an indent, because the first line begins after the term; the indent is inserted at each
  // break.
  void line(const std::string& term, const std::string& text, Style style = Style::plain) {
    const std::string wrapped = report::wrap(text, session_.terminal.width - kIndent, 0);
    std::string body;
    for (const char c : wrapped) body += c == '\n' ? "\n" + std::string(kIndent, ' ') : std::string(1, c);
    session_.print("  " + report::pad_right(term, kIndent - 2) + paint(session_.terminal, style, body) + "\n");
  }

 private:
  // The longest fixed terms, such as "driver and table", have 16 letters.
  static constexpr int kIndent = 19;

  Session& session_;
  bool begun_ = false;
};

// Cores that are online, cores that this process may use, and the time that its cgroup allows are three different
// limits.
void report_host(Report& report, const adapters::CpuHostReport& host) {
  report.heading("Host");
  std::string cores = fmt::format("{} usable of {}", host.cores_usable, host.cores_online);
  if (host.quota_cores) cores += fmt::format(", limited to the time of {:.2f}", *host.quota_cores);
  report.line("cores", cores);
  report.line("memory", fmt::format("{:.1f} GiB", host.memory_gib));
  report.line("control groups", to_text(host.cgroup));
  report.line("CPU quotas", fmt::format("{}: {}", host.quota ? "can be set" : "cannot be set", host.quota_reason),
              host.quota ? Style::good : Style::plain);
}

// One line for a slice: its UUIDs, and the processes on it. A slice without a part exists but cannot run anything, and
// one in several parts has no UUID for all of its compute.
void report_slice(Report& report, const Geometry* geometry, const adapters::DriverGpu& gpu,
                  const adapters::DriverSlice& slice) {
  std::vector<std::string> texts;
  for (const auto& part : slice.parts) texts.push_back(part.uuid);
  if (slice.parts.empty()) texts.emplace_back("nothing can run on it");
  if (slice.parts.size() > 1) texts.push_back(fmt::format("in {} parts", slice.parts.size()));
  for (const int pid : processes_on(gpu, slice)) texts.push_back(fmt::format("used by process {}", pid));
  report.line(slice_text(geometry, slice), text::join(texts, ", "), slice.whole ? Style::plain : Style::bad);
}

// Ends early where the rest would have no meaning: without an answer, without a known type, or without MIG mode.
void report_gpu(Session& session, Report& report, const adapters::DriverGpu& gpu) {
  const Geometry* geometry = recut::geometry_of(gpu);
  report.heading(fmt::format("GPU {}: {}", gpu.index, gpu.name.empty() ? "no answer" : gpu.name));
  if (!gpu.problem.empty()) report.line("problem", gpu.problem, Style::bad);
  if (gpu.name.empty()) return;
  report.line("type", geometry == nullptr ? fmt::format("unknown type (PCI id 0x{:04X})", gpu.pci_device_id)
                      : only_cut_alike(gpu)
                          ? fmt::format("cut like {}; the multiprocessors differ from those of {} and are unknown",
                                        geometry->type, geometry->title)
                          : geometry->type);
  report.line("identity", fmt::format("{} at {}", gpu.uuid, gpu.pci_bus_id));
  report.line("memory", fmt::format("{:.1f} GiB", gpu.memory_gib));
  std::string mode = !gpu.mig_capable ? "cannot be cut" : gpu.mig_enabled ? "on" : "off";
  // A change of MIG mode may only come into force at the next reset; until then both states are true.
  if (gpu.mig_pending != gpu.mig_enabled)
    mode += fmt::format(", {} after the next reset", gpu.mig_pending ? "on" : "off");
  report.line("MIG mode", mode, gpu.mig_enabled ? Style::good : Style::plain);
  if (geometry == nullptr || !gpu.mig_capable) return;
  // The driver is the authority. A difference means that the tables are wrong or too old for this board.
  const auto differences = adapters::compare_profiles(*geometry, gpu);
  if (gpu.profiles.empty()) {
    report.line("driver and table", "not compared: the driver lists no profiles" +
                                        std::string(gpu.mig_enabled ? "" : " while MIG mode is off"));
  } else if (differences.empty()) {
    report.line("driver and table", "agree");
  }
  for (const auto& difference : differences) report.line("driver and table", difference);
  if (!gpu.mig_enabled) return;
  if (!gpu.slices_known) return report.line("layout", "not known: the driver does not list the slices", Style::bad);
  const auto recognised = adapters::recognise_layout(*geometry, gpu);
  report.line("layout", to_string(*geometry, recognised.layout));
  for (const auto& unknown : recognised.unknown) report.line("unknown slice", unknown, Style::bad);
  const report::MosaicRow row{recognised.layout, "", ""};
  session.print(report::draw_mosaic(*geometry, {&row, 1}, session.terminal, {.indent = 2}));
  for (const auto& slice : gpu.slices) report_slice(report, geometry, gpu, slice);
}

// What an administrator needs to see when a user reports that `tangram apply` was denied.
void report_permissions(Report& report, const adapters::GpuPermissions& permissions) {
  report.heading("Permissions");
  report.line("user", permissions.root ? "root" : "not root");
  report.line("CAP_SYS_ADMIN", permissions.sys_admin ? "yes" : "no");
  report.line("/dev/nvidia-caps", !permissions.capabilities ? "not there"
                                  : permissions.mig_config  ? "there, mig/config readable"
                                                            : "there, mig/config not readable");
}

// One line for each engine and kind of device: usable, or what is missing.
void report_engines(Report& report, const std::vector<EngineFinding>& engines) {
  report.heading("Engines");
  for (const auto& engine : engines) {
    const std::string name =
        fmt::format("{} {}", engine.engine, engine.provider.empty() ? engine.device : engine.provider);
    report.line(name, engine.missing.empty() ? "usable" : engine.missing,
                engine.missing.empty() ? Style::good : Style::plain);
  }
}

// Starts a worker that takes its measures, says which are in force, and ends.
std::vector<worker::Measure> ask_worker() {
  const std::string program = worker::find_worker_program();
  if (program.empty() || program.find('\'') != std::string::npos) return {};
  FILE* answer = popen(fmt::format("'{}' --measures", program).c_str(), "re");
  if (answer == nullptr) return {};
  std::vector<worker::Measure> measures;
  std::array<char, 65> name{};
  for (int in_force = 0; std::fscanf(answer, "%64s %d", name.data(), &in_force) == 2;) {
    measures.push_back({name.data(), in_force != 0});
  }
  pclose(answer);
  return measures;
}

void report_workers(Report& report, const std::vector<worker::Measure>& measures) {
  if (measures.empty()) return;
  report.heading("Workers");
  for (const auto& measure : measures) {
    std::string name = measure.name;
    std::ranges::replace(name, '_', ' ');
    const bool user = measure.name == "own_user";
    report.line(name,
                measure.in_force ? "yes"
                : user           ? "no: root; see --worker-user"
                                 : "no: this kernel does not permit it",
                measure.in_force ? Style::good : Style::plain);
  }
}

struct Options {
  bool self_test = false;
  SelfTestOptions test;
};

Result<Nothing> check_options(const Options& options) {
  const auto& [gpu, engine, models, model, services, report] = options.test;
  if (options.self_test && gpu.empty()) {
    return invalid_input("--self-test needs --gpu, the UUID or index of an idle GPU, which it cuts and restores");
  }
  const bool others = !gpu.empty() || !models.empty() || !model.empty() || !services.empty();
  const SelfTestOptions usual;
  if (!options.self_test && (others || report != usual.report || engine != usual.engine)) {
    return invalid_input("--gpu, --engine, --models, --model, --services and --report apply only to --self-test");
  }
  return Nothing{};
}

// All probes run before anything is printed; none of them changes the machine.
Result<ExitCode> run(Session& session, const Options& options) {
  TANGRAM_RETURN_IF_ERROR(check_options(options));
  Findings findings{adapters::probe_cpu_host(),
                    adapters::probe_nvml(recut::nvml_library()),
                    adapters::probe_gpu_permissions(),
                    adapters::other_mig_owners(),
                    {},
                    {}};
  findings.worker_measures = ask_worker();
  // Engines are not tried before: a library finds no device while MIG mode is on and there is no slice, and the steps
  // try one where it matters.
  if (options.self_test) return run_self_test(session, options.test, findings.driver, findings_json(findings));
  findings.engines = find_engines(findings.driver);
  if (session.structured()) {
    session.print_value(findings_json(findings));
    return ExitCode::done;
  }
  Report report(session);
  report_host(report, findings.host);
  report.heading("NVIDIA");
  report.line("driver", findings.driver.driver_version.empty() ? "none" : findings.driver.driver_version);
  if (!findings.driver.problem.empty()) report.line("", findings.driver.problem);
  for (const auto& gpu : findings.driver.gpus) report_gpu(session, report, gpu);
  report_permissions(report, findings.permissions);
  report_engines(report, findings.engines);
  report_workers(report, findings.worker_measures);
  report.heading("What follows");
  for (const auto& sentence : consequences(findings)) {
    session.print("  - " + report::wrap(sentence, session.terminal.width - 4, 4) + "\n");
  }
  return ExitCode::done;
}

}  // namespace
}  // namespace doctor_verb

void add_doctor(Program& program) {
  using namespace doctor_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "doctor",
       .group = "Look",
       .summary = "show what this machine can do: cores, GPUs, permissions",
       .description =
           "Reads cores, memory, control groups, the NVIDIA driver, its GPUs with their MIG mode and slices, and "
           "permissions, and says what Tangram can do with them; tries each engine, and says what an engine lacks on the "
           "cores or on a GPU. Changes nothing, unless --self-test is given: then it measures, cuts, serves and undoes "
           "on one idle GPU, and writes a report; its exit code is 1 if a step failed. $TANGRAM_NVML names another driver "
           "library, $TANGRAM_ONNXRUNTIME the library of ONNX Runtime. A machine without a GPU is fine: the exit code is 0.",
       .examples = {{"tangram doctor", "Look at this machine."},
                    {"tangram doctor --output json", "The same, for programs and bug reports."},
                    {"tangram doctor --self-test --gpu 0", "Try everything on an idle GPU, and restore it."}}},
      [options](Session& session) { return run(session, *options); });
  verb.add_flag("--self-test", options->self_test,
                "Cut an idle GPU, load and measure a model on its slices, serve it under load, and restore the cuts.");
  verb.add_option("--gpu", options->test.gpu, "The GPU for --self-test: its UUID or index. Nothing may use it.")
      ->type_name("GPU");
  program.one_of(verb.add_option("--engine", options->test.engine, "The engine for --self-test.")
                     ->type_name("ENGINE")
                     ->capture_default_str(),
                 {"onnx", "torch"});
  program.offers_files(verb.add_option("--models", options->test.models,
                                       "The folder with a model of yours for --self-test; default: an example is made.")
                           ->type_name("DIR"));
  verb.add_option("--model", options->test.model, "The name of that model.")->type_name("MODEL");
  program.offers_files(verb.add_option("--services", options->test.services,
                                       "The services file that declares its inputs; default: services.yaml in --models.")
                           ->type_name("FILE"));
  program.offers_files(verb.add_option("--report", options->test.report, "The report of --self-test, JSON.")
                           ->type_name("FILE")
                           ->capture_default_str());
}

}  // namespace tangram::cli
