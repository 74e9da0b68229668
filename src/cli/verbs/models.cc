// `tangram models`: example networks to measure and serve without downloading anything.
//
// Weights are random but come from a seed, so two users with the same seed have the same files. Random weights take the
// same time as trained ones, which is all that measuring and serving need.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "cli/program.h"
#include "engines/example_models.h"
#include "engines/onnx/onnx_file.h"
#include "engines/onnx/onnx_models.h"
#include "engines/torch_library.h"
#include "formats/workload_file.h"
#include "host/files.h"
#include "report/table.h"

namespace tangram::cli {
namespace models_verb {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string action;
  std::string folder;
  std::vector<std::string> names;
  std::string format;  // Empty: torchscript where this Tangram has libtorch, else onnx.
  std::uint64_t seed = 1;
};

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& model : engines::example_models()) names.emplace_back(model.name);
  return names;
}

ExitCode list(Session& session) {
  if (session.structured()) {
    report::Json models = report::Json::array();
    for (const auto& model : engines::example_models()) {
      models.push_back(
          {{"name", model.name}, {"parameters", engines::parameters_of(model)}, {"summary", model.summary}});
    }
    session.print_value(models);
    return ExitCode::done;
  }
  report::Table table({{"MODEL"}, {"PARAMETERS", report::Align::right}, {"WHAT", report::Align::left, true}});
  for (const auto& model : engines::example_models()) {
    table.add({{std::string(model.name), Style::accent},
               fmt::to_string(engines::parameters_of(model)),
               std::string(model.summary)});
  }
  session.print(table.render(session.terminal));
  return ExitCode::done;
}

// A service for the model, to plan and serve with as it is, or as a start for one's own. Rate and Slo are starting
// values for a few cores; `tangram measure` says what this machine can do.
Service example_service(const engines::ExampleModel& model) {
  Service service;
  service.model = std::string(model.name);
  service.tensors = engines::signature_of(model);
  const bool text = std::holds_alternative<engines::TextEncoder>(model.network);
  service.name = std::string(model.service);
  service.slo = {.latency = from_milliseconds(text ? 300 : 200), .percentile = 95};
  service.traffic = PoissonTraffic{10};
  // Most texts are short and a few are long, which is what buckets are for.
  if (text) service.input_size = LogNormalSize{.median = 24, .sigma = 0.7, .min = 2, .max = 128};
  return service;
}

// Writes NAME.onnx or NAME.pt for each model and one services.yaml for all. Only TorchScript needs a library; if it is
// missing, nothing is written.
Result<ExitCode> make(Session& session, const Options& options) {
  const bool onnx = options.format.empty() ? !engines::has_torch_library() : options.format == "onnx";
  const engines::TorchLibrary* torch = nullptr;
  if (!onnx) {
    TANGRAM_TRY(torch, engines::load_torch_library());
  }
  std::error_code error;
  fs::create_directories(options.folder, error);
  Workload workload;
  for (const auto& name : options.names) {
    // Never null: --only was checked against the list when it was parsed.
    const auto* const model = engines::find_example_model(name);
    const std::string path = (fs::path(options.folder) / (name + (onnx ? ".onnx" : ".pt"))).string();
    TANGRAM_RETURN_IF_ERROR(onnx ? host::write_file_atomically(path, engines::write_onnx_model(*model, options.seed))
                                 : torch->write_model(*model, options.seed, path));
    workload.services.push_back(example_service(*model));
    session.remark(fmt::format("{}: {} parameters\n", path, engines::parameters_of(*model)));
  }
  const std::string services = (fs::path(options.folder) / "services.yaml").string();
  TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(services, formats::write_workload(workload)));
  session.remark(services + ": a service for each\n");
  return ExitCode::done;
}

// "MODEL" of MODEL.onnx, or of MODEL/1/model.onnx as in a repository of Triton.
std::string model_of(const fs::path& file) {
  if (file.filename() == "model.onnx" && file.parent_path().filename() == "1") {
    return fs::absolute(file).parent_path().parent_path().filename().string();
  }
  return file.stem().string();
}

// The axes of a tensor with the batch in front, "[batch, 3, length]".
std::string axes_text(const engines::OnnxTensor& tensor) {
  std::vector<std::string> axes;
  for (const auto& axis : tensor.axes) {
    axes.push_back(axis.length > 0 ? fmt::to_string(axis.length) : axis.name.empty() ? "?" : axis.name);
  }
  return fmt::format("[{}]", fmt::join(axes, ", "));
}

// Prints a services file with one service for the model. What the file cannot say, the promise, the traffic and the
// sizes, has values to start with; the remarks name them.
Result<ExitCode> inspect(Session& session, const Options& options) {
  TANGRAM_TRY(const auto file, engines::read_onnx(options.folder));
  for (const auto& [kind, tensors] : {std::pair("input", &file.inputs), std::pair("output", &file.outputs)}) {
    for (const auto& tensor : *tensors) session.remark(fmt::format("{} {} {}\n", kind, tensor.name, axes_text(tensor)));
  }
  auto tensors = engines::signature_of(file);
  if (!tensors) return Error{tensors.error().code, fmt::format("{}: {}", options.folder, tensors.error().message)};
  Service service;
  service.model = model_of(options.folder);
  service.name = service.model;
  service.tensors = std::move(*tensors);
  service.slo = {.latency = from_milliseconds(100), .percentile = 99};
  service.traffic = PoissonTraffic{10};
  const auto variable = engines::variable_axes(file);
  if (!variable.empty()) service.input_size = LogNormalSize{.median = 32, .sigma = 0.7, .min = 1, .max = 128};
  Workload workload;
  workload.services.push_back(std::move(service));
  session.print(formats::write_workload(workload));
  session.remark(fmt::format("to be replaced by yours: slo, traffic{}\n", variable.empty() ? "" : ", input_size"));
  if (variable.size() > 1) {
    session.remark(fmt::format("several axes vary: {}; all are taken to be as long as the input is large\n",
                               fmt::join(variable, ", ")));
  }
  return ExitCode::done;
}

Result<ExitCode> run(Session& session, Options options) {
  if (options.action.empty()) return list(session);
  if (options.folder.empty()) {
    return session.fail({ErrorCode::invalid, options.action == "make"
                                                 ? "expected the folder to write to: tangram models make DIR"
                                                 : "expected the file to read: tangram models inspect FILE"});
  }
  if (options.action == "inspect") return inspect(session, options);
  // The two small models; the large ones are made only on request.
  if (options.names.empty()) options.names = {"text-encoder", "image-classifier"};
  return make(session, options);
}

}  // namespace
}  // namespace models_verb

void add_models(Program& program) {
  using namespace models_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "models",
       .group = "Learn",
       .summary = "list and make small example networks; read what an ONNX file takes",
       .description =
           "Without arguments, lists the networks that Tangram can make. `make DIR` writes them to a folder as "
           "TorchScript, which the engine torch runs, or as ONNX, which the engine onnx runs, with a services file "
           "that declares their inputs. The weights are the same in both. They "
           "are random, from a seed, and the same bytes each time: the outputs mean nothing, but tensors and run "
           "times are those of a real network. `inspect FILE` reads the inputs and outputs of an ONNX file and prints a "
           "services file for it: the first axis is the batch, and axes that vary follow the size of the input. Slo, "
           "traffic and input sizes in it are values to start with.",
       .examples = {{"tangram models", "List the networks."},
                    {"tangram models make DIR", "Make the small text encoder and the image classifier."},
                    {"tangram models make DIR --format onnx", "The same as ONNX, which needs no library."},
                    {"tangram models inspect DIR/text-encoder.onnx > services.yaml",
                     "Begin a services file for an ONNX model."},
                    {"tangram models make DIR --only text-encoder-large",
                     "Make the encoder with 11 million parameters."}}},
      [options](Session& session) { return run(session, *options); });
  program.one_of(verb.add_option("ACTION", options->action, "make or inspect; without it, the networks are listed."),
                 {"make", "inspect"});
  program.offers_files(
      verb.add_option("PATH", options->folder, "The folder to write to (make), or the ONNX file to read (inspect)."));
  program.one_of(verb.add_option("--only", options->names, "The networks to make.")->type_name("LIST")->delimiter(','),
                 model_names());
  program.one_of(verb.add_option("--format", options->format,
                                 "The format of the files; default: torchscript where this Tangram has libtorch, else "
                                 "onnx. Writing ONNX needs no library.")
                     ->type_name("FORMAT"),
                 {"onnx", "torchscript"});
  verb.add_option("--seed", options->seed, "The seed of the weights.")->type_name("N")->capture_default_str();
}

}  // namespace tangram::cli
