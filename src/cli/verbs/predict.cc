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
               fmt::format("{}: {}; choose with --model and --device among: {}", options.file,
                           found.empty() ? "holds no such model" : "holds several models", names_of(model))};
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

void add_predict(Program& program) {
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "predict",
       .group = "Learn",
       .summary = "what a learned model says about one run",
       .description = "Latency with its interval, p99, throughput and memory of one batch on one slice, from the model "
                      "that tangram learn wrote. On a slice larger or smaller than all that were measured it says so "
                      "(beyond_measured in JSON), and the interval grows with the distance. Ends with 1 if the run "
                      "more probably does not fit into memory.",
       .examples = {{"tangram predict model.json --model text-encoder --slice 2g.20gb --batch 8", "One run."},
                    {"tangram predict model.json --model text-encoder --slice 1g --batch 4 --size 128 --processes 2",
                     "One of several models, with two processes on the slice."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers_files(verb.add_option("FILE", options->file, "The model, JSON.")->required());
  verb.add_option("--slice", options->slice, "MigProfile of the slice.")->type_name("PROFILE")->required();
  verb.add_option("--batch", options->batch, "Samples in the batch.")
      ->type_name("N")
      ->capture_default_str()
      ->range(std::int64_t{1}, kCountMax);
  verb.add_option("--size", options->size, "Input size of each.")
      ->type_name("N")
      ->capture_default_str()
      ->range(std::int64_t{1}, kCountMax);
  verb.add_option("--processes", options->processes, "Processes that share the slice.")
      ->type_name("N")
      ->capture_default_str()
      ->range(std::int64_t{1}, kCountMax);
  verb.add_option("--model", options->model, "Which model, where the file holds several.")->type_name("NAME");
  verb.add_option("--device", options->device, "On which device type, where it holds several.")->type_name("TYPE");
}

}  // namespace tangram::cli
