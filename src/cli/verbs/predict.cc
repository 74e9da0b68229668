// `tangram predict`: what a learned model says about one run.
//
// The exit code answers whether the run fits into memory, so that scripts can search for the largest batch.

#include <fmt/format.h>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/program.h"
#include "core/geometry.h"
#include "lab/model_file.h"
#include "report/estimate_view.h"

namespace tangram::cli {
namespace predict_verb {
namespace {

struct Options {
  std::string file;
  std::string slice;
  std::int64_t batch = 1;
  std::int64_t size = 1;
  std::int64_t processes = 1;
  std::string model;
  std::string device;
};

// Far above any real batch; the limit keeps products of the three numbers within range.
constexpr std::int64_t kCountMax = 1'000'000;

// The choices, for the error message.
std::string names_of(const learn::FittedModel& model) {
  std::vector<std::string> names;
  for (const auto& run : model.runs()) names.push_back(fmt::format("{} on {}", run.model, run.device));
  return text::join(names, ", ");
}

// The one fitted run that the options select. None or several is an error that lists the choices.
Result<const learn::FittedRun*> find_run(const learn::FittedModel& model, const Options& options) {
  std::vector<const learn::FittedRun*> found;
  for (const auto& run : model.runs()) {
    const bool same_model = options.model.empty() || run.model == options.model;
    const bool same_device = options.device.empty() || run.device == options.device;
    if (same_model && same_device) found.push_back(&run);
  }
  if (found.size() == 1) return found.front();
  return Error{ErrorCode::invalid,
               fmt::format("{}: {}; choose one with --model and --device: {}", options.file,
                           found.empty() ? "has no such model" : "has several models", names_of(model))};
}

// The profile's full name, so that "1g" finds "1g.10gb". For a device type that is not in the tables the name is taken
// as it is.
Result<std::string> profile_name(const learn::FittedRun& run, const std::string& slice) {
  const Geometry* geometry = find_geometry(run.device);
  if (geometry == nullptr) return slice;
  TANGRAM_TRY(const auto index, find_profile(*geometry, slice));
  return geometry->profiles[index].name;
}

Result<ExitCode> run(Session& session, const Options& options) {
  TANGRAM_TRY(const auto source, read_source(options.file));
  TANGRAM_TRY(const auto model, lab::parse_model(source));
  TANGRAM_TRY(const auto found, find_run(model, options));
  const learn::FittedRun& fitted = *found;
  TANGRAM_TRY(const auto profile, profile_name(fitted, options.slice));
  const learn::Candidate candidate{profile, options.batch, options.size, options.processes};
  // No estimate means that the device has no such slice, since batch, size and processes are in range.
  const auto estimate = fitted.estimate(candidate);
  if (!estimate) {
    return session.fail({ErrorCode::invalid, fmt::format("{} has no slice {}", fitted.device, options.slice)});
  }
  if (session.structured()) {
    session.print_value(report::estimate_json(fitted, candidate, *estimate));
  } else {
    session.print(report::estimate_text(fitted, candidate, *estimate));
  }
  // The answer is "no" if the run more probably runs out of memory. The estimate is printed in both cases.
  return estimate->fits_probability < 0.5 ? ExitCode::answer_is_no : ExitCode::done;
}

}  // namespace
}  // namespace predict_verb

void add_predict(Program& program) {
  using namespace predict_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "predict",
       .group = "Learn",
       .summary = "predict one run with a latency model",
       .description =
           "Predicts the latency with its interval, the p99, the throughput and the memory of one batch on one "
           "slice, from the model that tangram learn wrote. If the slice is larger or smaller than all measured "
           "slices, the answer says so (beyond_measured in JSON), and the interval grows with the distance. Exits "
           "with 1 if the run probably does not fit into memory.",
       .examples = {{"tangram predict model.json --model text-encoder --slice 2g.20gb --batch 8", "Predict one run."},
                    {"tangram predict model.json --model text-encoder --slice 1g --batch 4 --size 128 --processes 2",
                     "Predict for two processes on the slice."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers_files(verb.add_option("FILE", options->file, "The latency model, JSON.")->required());
  verb.add_option("--slice", options->slice, "The MigProfile of the slice.")->type_name("PROFILE")->required();
  verb.add_option("--batch", options->batch, "The number of samples in the batch.")
      ->type_name("N")
      ->capture_default_str()
      ->range(std::int64_t{1}, kCountMax);
  verb.add_option("--size", options->size, "The input size of each sample.")
      ->type_name("N")
      ->capture_default_str()
      ->range(std::int64_t{1}, kCountMax);
  verb.add_option("--processes", options->processes, "The number of processes that share the slice.")
      ->type_name("N")
      ->capture_default_str()
      ->range(std::int64_t{1}, kCountMax);
  verb.add_option("--model", options->model, "The model, if the file has several.")->type_name("NAME");
  verb.add_option("--device", options->device, "The device type, if the file has several.")->type_name("TYPE");
}

}  // namespace tangram::cli
