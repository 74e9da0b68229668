// The section `training` of a scenario, from its record to a TrainingSetup: reads the files that it names and checks
// that jobs, applications and speeds belong together. All problems are reported at the place in the scenario that names
// the file.

#include "lab/detail/training_record.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "formats/import.h"
#include "formats/measurements_file.h"
#include "formats/training_file.h"
#include "lab/training_data.h"

namespace tangram::lab {
namespace {

using formats::Position;
using formats::Problems;

// Each part comes back empty, with a problem added, if it cannot be built.
class RecordAssembler {
 public:
  RecordAssembler(const formats::ReadFile& read_file, Problems& problems)
      : read_file_(read_file), problems_(problems) {}

  // The applications by name. Synthetic ones bring their own restart costs, which go into `setup`.
  train::Applications applications(const formats::Located<ApplicationsSource>& source, TrainingSetup& setup) {
    train::Applications applications;
    if (const auto* synthetic = std::get_if<std::vector<SyntheticApplication>>(&source.value)) {
      for (const auto& one : *synthetic) {
        setup.restart_costs[one.name] = {one.restart_full_s, one.restart_fast_s};
        if (!applications.emplace(one.name, application_of(one)).second) {
          problems_.add(source.at, fmt::format("the application {} is given twice", one.name));
        }
      }
      if (synthetic->empty()) problems_.add(source.at, "needs at least one application");
      return applications;
    }
    const std::string& path = std::get<ApplicationsFile>(source.value).path;
    const auto text = read(path, source.at);
    if (!text) return applications;
    const auto rows = formats::parse_training({path, *text});
    if (!rows) return complain(source.at, rows.error()), applications;
    auto known = training_applications(*rows);
    if (!known) return complain(source.at, known.error()), applications;
    return std::move(*known);
  }

  // The training jobs. Inference jobs of a published workload are left out: the services of the scenario take their
  // place.
  std::vector<formats::ClusterJob> jobs(const formats::Located<JobsSource>& source,
                                        const train::Applications& applications, std::uint64_t seed) {
    if (const auto* synthetic = std::get_if<SyntheticJobs>(&source.value)) {
      for (const auto& name : synthetic->applications) {
        if (!applications.contains(name)) problems_.add(source.at, fmt::format("unknown application {}", name));
      }
      // An unknown application cannot be drawn from.
      return problems_.empty() ? jobs_of(*synthetic, applications, seed) : std::vector<formats::ClusterJob>{};
    }
    const std::string& path = std::get<JobsFile>(source.value).path;
    auto text = read(path, source.at);
    if (!text) return {};
    // Lines are counted before an import, so that messages point into the file that the user has.
    const JobsOrigin origin{path, formats::row_lines({path, *text})};
    if (!as_ours(path, *text, source.at)) return {};
    auto jobs = formats::parse_jobs({path, *text});
    if (!jobs) return complain(source.at, jobs.error()), std::vector<formats::ClusterJob>{};
    if (const auto known = check_applications(origin, *jobs, applications); !known) complain(source.at, known.error());
    std::erase_if(*jobs, [](const auto& job) { return job.kind != formats::JobKind::training; });
    return std::move(*jobs);
  }

  // Speeds of slices, from measured iterations.
  std::map<int, double> speeds(const formats::Located<std::optional<std::string>>& path) {
    if (!path.value) return {};
    const auto text = read(*path.value, path.at);
    if (!text) return {};
    const auto measurements = formats::parse_measurements({*path.value, *text});
    if (!measurements) return complain(path.at, measurements.error()), std::map<int, double>{};
    auto speeds = training_speeds(*measurements);
    if (speeds.empty()) problems_.add(path.at, fmt::format("{} has no throughput on a whole GPU", *path.value));
    return speeds;
  }

 private:
  // Converts a published workload into a jobs file; a text that is one already stays as it is. False, with a problem
  // added, if the conversion fails.
  bool as_ours(const std::string& path, std::string& text, Position at) {
    for (const char* format : {"deepboot", "pollux"}) {
      const auto* known = formats::find_import_format(format);
      if (known == nullptr || formats::import_kind(*known, {path, text}) != "jobs") continue;
      auto imported = formats::import_text(format, {{path, text}});
      if (!imported) return complain(at, imported.error()), false;
      text = std::move(*imported);
      return true;
    }
    return true;
  }

  std::optional<std::string> read(const std::string& path, Position at) {
    if (path.empty()) return std::nullopt;  // A missing path has been reported already.
    auto text = read_file_(path);
    if (text) return std::move(*text);
    problems_.add(at, fmt::format("cannot read {}: {}", path, text.error().message));
    return std::nullopt;
  }

  void complain(Position at, const Error& error) { problems_.add_complete(at, error.message); }

  const formats::ReadFile& read_file_;
  Problems& problems_;
};

}  // namespace

std::vector<std::string> allocator_names() {
  std::vector<std::string> names;
  for (const auto& allocator : train::allocators()) names.emplace_back(allocator.name);
  return names;
}

std::shared_ptr<const TrainingSetup> training_setup(const TrainingRecord& record, const formats::ReadFile& read_file,
                                                    std::uint64_t seed, Problems& problems) {
  auto setup = std::make_shared<TrainingSetup>();
  RecordAssembler assembler(read_file, problems);
  setup->applications = assembler.applications(record.applications, *setup);
  if (!problems.empty()) return nullptr;
  setup->jobs = assembler.jobs(record.jobs, setup->applications, seed);
  // Kept beside the jobs drawn for this seed, so that a run with another seed can draw its own.
  if (const auto* synthetic = std::get_if<SyntheticJobs>(&record.jobs.value)) setup->synthetic_jobs = *synthetic;
  setup->slice_speeds = assembler.speeds(record.slice_speeds);
  if (!problems.empty()) return nullptr;
  setup->allocator = record.allocator;
  setup->lend = record.lend;
  setup->gpus_per_node = record.gpus_per_node;
  setup->interval_s = record.interval_s;
  setup->restart = record.restart;
  setup->restart_cost = {record.restart_full_s, record.restart_fast_s};
  setup->lending.guard = record.guard;
  setup->lending.window = record.rate_window;
  setup->overtime_s = record.overtime_s;
  setup->seed = seed;
  return setup;
}

}  // namespace tangram::lab
