// `tangram export`: writes a plan for other tools, such as mig-parted, Kubernetes, Slurm or Triton.
//
// The formats are in the room `formats`, one entry of a registry each. This file reads the plan, checks the options
// that refer to it, and puts the files on standard output, into one file or into a folder. What a format cannot express
// is printed as a note on standard error, so that standard output can be piped into the other tool.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/plan_inputs.h"
#include "cli/program.h"
#include "formats/export.h"
#include "host/files.h"
#include "report/table.h"

namespace tangram::cli {
namespace export_verb {
namespace {

namespace fs = std::filesystem;

// `shared` is what formats take as they are; --uuid and --board still have to be parsed.
struct Options {
  std::string format;
  std::string plan;
  std::string services;
  std::string to;
  std::vector<std::string> uuids;
  std::vector<std::string> boards;
  formats::ExportOptions shared;
};

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const auto& format : formats::export_formats()) names.emplace_back(format.name);
  return names;
}

// Without a FORMAT the verb lists the registry, so that users need no manual to find the names.
ExitCode list_formats(Session& session) {
  if (session.structured()) {
    report::Json list = report::Json::array();
    for (const auto& format : formats::export_formats()) {
      list.push_back({{"name", format.name}, {"summary", format.summary}, {"several_files", format.several}});
    }
    session.print_value(list);
    return ExitCode::done;
  }
  report::Table table({{"FORMAT"}, {"MAKES"}, {"WHAT IT IS", report::Align::left, true}});
  for (const auto& format : formats::export_formats()) {
    table.add({{std::string(format.name), Style::accent},
               format.several ? "a folder" : "a file",
               std::string(format.summary)});
  }
  session.print(table.render(session.terminal));
  return ExitCode::done;
}

// Parses the NAME=VALUE pairs of one option. A name that is given twice is an error: either value could be the wrong
// one.
Result<std::map<std::string, std::string>> pairs_of(const char* option, const std::vector<std::string>& texts) {
  std::map<std::string, std::string> pairs;
  for (const auto& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      return Error{ErrorCode::invalid, fmt::format("{}: expected NAME=VALUE, found \"{}\"", option, text)};
    }
    if (!pairs.emplace(text.substr(0, equals), text.substr(equals + 1)).second) {
      return Error{ErrorCode::invalid, fmt::format("{}: {} is given twice", option, text.substr(0, equals))};
    }
  }
  return pairs;
}

// True for a UUID such as GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f: 32 hexadecimal digits in groups, as nvidia-smi -L
// prints them. A wrong UUID would be noticed only by the other tool, much later.
bool is_uuid_of_gpu(std::string_view text) {
  constexpr std::string_view kForm = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  const auto fits = [](char c, char form) {
    const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    return form == 'x' ? digit : c == form;
  };
  return std::ranges::equal(text, kForm, fits);
}

// Checks that the names of --uuid and --board are in the plan: one that is not is a typing error and would have no
// effect.
Result<Nothing> check_names(const Plan& plan, const formats::ExportOptions& options) {
  // The same search serves names and types of devices.
  const auto known = [&](const std::string& name, auto field) {
    return std::ranges::any_of(plan.devices, [&](const PlannedDevice& device) { return device.*field == name; });
  };
  for (const auto& [name, uuid] : options.uuids) {
    if (!known(name, &PlannedDevice::name)) {
      return Error{ErrorCode::invalid, fmt::format("--uuid: the plan has no device {}", name)};
    }
    if (!is_uuid_of_gpu(uuid)) {
      return Error{
          ErrorCode::invalid,
          fmt::format("--uuid: {} is not the UUID of a GPU; expected GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, "
                      "as nvidia-smi -L prints it",
                      uuid)};
    }
  }
  for (const auto& [type, board] : options.boards) {
    if (known(type, &PlannedDevice::type)) continue;
    return Error{ErrorCode::invalid, fmt::format("--board: the plan has no device of type {}", type)};
  }
  return Nothing{};
}

// The files, read, and the options that all formats share.
struct Inputs {
  Plan plan;
  std::optional<Workload> workload;
  formats::ExportOptions options;
};

Result<Inputs> read_inputs(const Options& options) {
  Inputs inputs{{}, std::nullopt, options.shared};
  TANGRAM_TRY(auto plan, load_plan(options.plan));
  inputs.plan = std::move(plan);
  if (!options.services.empty()) {
    TANGRAM_TRY(auto workload, load_workload(options.services));
    inputs.workload = std::move(workload);
  }
  TANGRAM_TRY(auto uuids, pairs_of("--uuid", options.uuids));
  TANGRAM_TRY(auto boards, pairs_of("--board", options.boards));
  inputs.options.uuids = std::move(uuids);
  inputs.options.boards = std::move(boards);
  TANGRAM_RETURN_IF_ERROR(check_names(inputs.plan, inputs.options));
  return inputs;
}

// Writes each file whole or not at all. Older files in the folder that are not written again stay: they may be the
// user's.
Result<Nothing> write_folder(const std::string& folder, const std::vector<formats::ExportedFile>& files) {
  for (const auto& file : files) {
    const fs::path path = fs::path(folder) / file.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return Error{ErrorCode::denied,
                   fmt::format("{}: cannot create the folder: {}", path.parent_path().string(), error.message())};
    }
    TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(path.string(), file.text));
  }
  return Nothing{};
}

// "1 file", "2 files".
std::string counted_files(std::size_t count) { return fmt::format("{} file{}", count, count == 1 ? "" : "s"); }

// A format with several files takes -o as a folder, even if it has only one file for this plan, so that the path means
// the same for every plan.
Result<Nothing> write(Session& session, const Options& options, const formats::ExportFormat& format,
                      const formats::Export& result) {
  if (!format.several) {
    // A format that makes one file always has exactly one.
    const auto written = host::write_file_atomically(options.to, result.files.front().text);
    if (written) session.note("wrote " + options.to);
    return written;
  }
  const auto written = write_folder(options.to, result.files);
  if (written) session.note(fmt::format("wrote {} to {}", counted_files(result.files.size()), options.to));
  return written;
}

// Prints the files to standard output. Several files are separated by a comment with the name of each; a format without
// comments cannot be separated and needs a folder.
Result<Nothing> print(Session& session, const formats::ExportFormat& format, const formats::Export& result) {
  if (result.files.size() > 1 && !format.comments) {
    return Error{ErrorCode::invalid, fmt::format("{} writes {} here; name a folder with -o", format.name,
                                                 counted_files(result.files.size()))};
  }
  for (const auto& file : result.files) {
    if (result.files.size() > 1) session.print(fmt::format("# {}\n", file.path));
    session.print(file.text);
  }
  return Nothing{};
}

// The document holds the texts only if they were not written to files.
report::Json answer_json(const Options& options, bool to_file, const formats::ExportFormat& format,
                         const formats::Export& result) {
  report::Json files = report::Json::array();
  for (const auto& file : result.files) {
    // Paths are those on disk if files were written, and otherwise relative to a folder that the user may choose.
    const std::string path = !to_file         ? file.path
                             : format.several ? (fs::path(options.to) / file.path).string()
                                              : options.to;
    report::Json item{{"path", path}};
    if (!to_file) item["text"] = file.text;
    files.push_back(std::move(item));
  }
  return {{"format", format.name}, {"written", to_file}, {"files", std::move(files)}, {"notes", result.notes}};
}

Result<ExitCode> run(Session& session, const Options& options) {
  if (options.format.empty()) return list_formats(session);
  const auto names = format_names();
  const formats::ExportFormat* format = formats::find_export_format(options.format);
  if (format == nullptr) {
    const auto near = text::nearest(options.format, names);
    return session.fail({ErrorCode::invalid,
                         fmt::format("unknown format \"{}\"{}; known: {}", options.format,
                                     near ? fmt::format(", did you mean {}?", *near) : "", text::join(names, ", "))});
  }
  if (options.plan.empty()) return session.fail({ErrorCode::invalid, "expected a PLAN to export"});
  const bool pods = options.format.starts_with("kubernetes");
  if (options.shared.gateway && options.format != "kubernetes") {
    return session.fail({ErrorCode::invalid, "--gateway is for the format kubernetes"});
  }
  // No image serves everybody's models, and one that cannot be pulled is noticed in the cluster only.
  if (pods && options.shared.image.empty()) {
    return session.fail({ErrorCode::invalid,
                         options.shared.gateway
                             ? "expected --image REGISTRY/NAME:TAG, an image whose program is tangram"
                             : "expected --image REGISTRY/NAME:TAG, the image that serves a slice, such as Triton's"});
  }
  TANGRAM_TRY(const auto inputs, read_inputs(options));
  // The format does not know the file name, so the error gets it here.
  const auto result = format->write({&inputs.plan, inputs.workload ? &*inputs.workload : nullptr, inputs.options});
  if (!result) return session.fail({result.error().code, fmt::format("{}: {}", options.plan, result.error().message)});
  // "-" is standard output, as for other tools.
  const bool to_file = !options.to.empty() && options.to != "-";
  if (to_file) {
    TANGRAM_RETURN_IF_ERROR(write(session, options, *format, *result));
  } else if (!session.structured()) {
    TANGRAM_RETURN_IF_ERROR(print(session, *format, *result));
  }
  // Notes come after the files: they say what the format could not express.
  for (const auto& note : result->notes) session.note(note);
  if (session.structured()) session.print_value(answer_json(options, to_file, *format, *result));
  return ExitCode::done;
}

// The text for help and the reference page.
VerbInfo info() {
  return {
      .name = "export",
      .group = "Plan",
      .summary = "write a plan for mig-parted, Kubernetes, Slurm or Triton",
      .description =
          "Without arguments, lists the formats. With FORMAT and PLAN, writes the plan in the format of another "
          "tool: to standard output, or with -o to a file, or to a folder if the format has several files. Each file "
          "is written whole or not at all. A device is named PREFIX-NUMBER: the prefix is its node, the number its "
          "GPU index there; --gpus-per-node changes that. With --services, model names, promises and rates are "
          "included. What a format cannot express is reported on standard error.",
      .examples = {
          {"tangram export", "List the formats."},
          {"tangram export mig-parted examples/plan.json -o mig-parted.yaml", "Write the file of nvidia-mig-parted."},
          {"tangram export kubernetes examples/plan.json --services examples/services.yaml --image "
           "registry.example/tritonserver:latest | kubectl apply --server-side -f -",
           "Write layouts, node labels, Deployments and Services."},
          {"tangram export kubernetes examples/plan.json --gateway --image registry.example/tangram:latest --namespace "
           "serving -o gateway.yaml",
           "Write the gateway, the controller and their rights."},
          {"tangram export triton examples/plan.json --services examples/services.yaml -o models",
           "Write a model repository for each slice."},
          {"tangram export slurm examples/plan.json --gpus-per-node 8", "Write gres.conf and the node lines."}}};
}

}  // namespace
}  // namespace export_verb

void add_export(Program& program) {
  using namespace export_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(info(), [options](Session& session) { return run(session, *options); });
  program.offers(verb.add_option("FORMAT", options->format, "The format; without it, the formats are listed."),
                 format_names());
  program.offers_files(verb.add_option("PLAN", options->plan, "The plan, JSON."));
  program.offers_files(
      verb.add_option("--services", options->services, "The services that the plan serves.")->type_name("FILE"));
  program.offers_files(
      verb.add_option("-o,--to", options->to, "The file to write, or the folder if the format has several files.")
          ->type_name("PATH"));
  auto& shared = options->shared;
  program.whole_number(verb.add_option("--gpus-per-node", shared.gpus_per_node,
                                       "GPUs per node; default: devices with the same prefix share a node.")
                           ->type_name("N"),
                       1, 64);
  verb.add_option("--label", shared.label, "mig-parted, kubernetes: the prefix of layout names.")
      ->type_name("NAME")
      ->capture_default_str();
  verb.add_option("--uuid", options->uuids, "mig-checkpoint: DEVICE=GPU-..., once for each device.")
      ->type_name("NAME=UUID");
  verb.add_option("--board", options->boards,
                  "slurm: TYPE=NAME, where NAME is what slurmd -G prints before the profile.")
      ->type_name("TYPE=NAME");
  shared.image.clear();
  verb.add_option("--image", shared.image, "kubernetes, required there: the image that serves a slice.")
      ->type_name("IMAGE");
  verb.add_option("--models-claim", shared.models_claim,
                  "kubernetes: the PersistentVolumeClaim with the models, mounted at /models; empty: none.")
      ->type_name("NAME")
      ->capture_default_str();
  verb.add_option("--argument", shared.arguments,
                  "kubernetes: an argument of the container, instead of those of a Triton server. Repeatable.")
      ->type_name("WORD");
  verb.add_flag("--gateway", shared.gateway,
                "kubernetes: write the gateway, the controller and what they need, instead of servers for each slice.");
  verb.add_option("--namespace", shared.name_space, "kubernetes: the namespace of the Deployments.")->type_name("NAME");
  verb.add_option("--backend", shared.backend, "triton: the backend of all models.")->type_name("NAME");
}

}  // namespace tangram::cli
