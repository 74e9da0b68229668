// Published workloads are imported first and then read as our own jobs files, so there is one reader and one set of
// checks. Messages name the published file and its line.

#include "experiments/training_workloads.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "formats/import.h"

namespace tangram::experiments {
namespace {

// "data/deepboot/small.csv" is the workload `small`.
std::string stem_of(std::string_view path) {
  constexpr std::string_view kEnding = ".csv";
  const auto slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  if (path.ends_with(kEnding)) path.remove_suffix(kEnding.size());
  return std::string(path);
}

Result<TrainingWorkload> read_workload(const formats::Source& source, const std::string& format) {
  TANGRAM_TRY(const auto text, formats::import_text(format, {source}));
  TANGRAM_TRY(auto jobs, formats::parse_jobs({source.name, text}));
  return TrainingWorkload{stem_of(source.name), std::move(jobs), {source.name, formats::row_lines(source)}};
}

}  // namespace

Result<train::Applications> applications_of(const Folder& traces) {
  if (!traces.files) return traces.files.error();
  TANGRAM_TRY(const auto text, formats::import_text("pollux", *traces.files));
  TANGRAM_TRY(const auto rows, formats::parse_training({"pollux/traces", text}));
  auto applications = lab::training_applications(rows);
  if (applications) return applications;
  // The message begins with the application, which is the name of a folder.
  return Error{applications.error().code, traces.path + "/" + applications.error().message};
}

Result<std::vector<TrainingWorkload>> workloads_of(const Folder& folder, const WorkloadRules& rules, Runner& runner) {
  if (!folder.files) return folder.files.error();
  std::vector<TrainingWorkload> workloads;
  for (const auto& source : *folder.files) {
    // The other workloads are still worth running.
    if (text::trim(source.text).empty()) {
      runner.warn(source.name + ": is empty and left out");
      continue;
    }
    TANGRAM_TRY(auto workload, read_workload(source, rules.format));
    // Checked before anything runs: a job that cannot run would only show after a year of simulated time.
    TANGRAM_RETURN_IF_ERROR(lab::check_applications(workload.origin, workload.jobs, rules.applications));
    TANGRAM_RETURN_IF_ERROR(lab::check_jobs_fit(workload.origin, workload.jobs, rules.gpus));
    workloads.push_back(std::move(workload));
  }
  if (!workloads.empty()) return workloads;
  return Error{ErrorCode::invalid, folder.path + ": every .csv file is empty"};
}

Error unfinished_error(const std::vector<TrainingWorkload>& workloads, const std::string& workload,
                       const std::string& job, const std::string& under) {
  std::string place = workload;  // That of a synthetic workload, which has no file.
  for (const auto& read : workloads) {
    if (read.name != workload) continue;
    const auto found = std::ranges::find(read.jobs, job, &formats::ClusterJob::name);
    place = read.origin.at(static_cast<std::size_t>(found - read.jobs.begin()));
  }
  return {ErrorCode::invalid, fmt::format("{}: {} does not end under {} within the simulated {:.0f} s", place, job,
                                          under, lab::kClusterTimeMax_s)};
}

}  // namespace tangram::experiments
