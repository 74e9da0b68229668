#include "cli/verbs/reproduce_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "cli/inputs.h"
#include "formats/import.h"

namespace tangram::cli {
namespace {

namespace fs = std::filesystem;

Result<std::vector<std::string>> csv_files_below(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code bad;
  for (fs::recursive_directory_iterator entry(folder, bad), end; !bad && entry != end; entry.increment(bad)) {
    if (entry->is_regular_file() && entry->path().extension() == ".csv") paths.push_back(entry->path().string());
  }
  if (bad || paths.empty()) {
    return Error{ErrorCode::not_found,
                 folder.string() + ": " + (bad ? "cannot read: " + bad.message() : "holds no .csv file") +
                     "\n--data names the folder that holds pollux/traces, pollux/workloads and deepboot"};
  }
  std::ranges::sort(paths);
  return paths;
}

Result<std::vector<formats::Source>> read_sources(const fs::path& folder) {
  const auto paths = csv_files_below(folder);
  if (!paths) return paths.error();
  std::vector<formats::Source> sources;
  for (const auto& path : *paths) {
    auto source = read_source(path);
    if (!source) return source.error();
    sources.push_back(std::move(*source));
  }
  return sources;
}

Result<TrainingWorkload> read_workload(const formats::Source& source, const std::string& format) {
  const auto text = formats::import_text(format, {source});
  if (!text) return text.error();
  auto jobs = formats::parse_jobs({source.name, *text});
  if (!jobs) return jobs.error();
  return TrainingWorkload{
      fs::path(source.name).stem().string(), std::move(*jobs), {source.name, formats::row_lines(source)}};
}

}  // namespace

Result<train::Applications> load_training_applications(const std::string& data) {
  const auto sources = read_sources(fs::path(data) / "pollux" / "traces");
  if (!sources) return sources.error();
  const auto text = formats::import_text("pollux", *sources);
  if (!text) return text.error();
  const auto rows = formats::parse_training({"pollux/traces", *text});
  if (!rows) return rows.error();
  auto applications = lab::training_applications(*rows);
  if (applications) return applications;
  // The message begins with the application, which is the name of a folder.
  return Error{applications.error().code,
               (fs::path(data) / "pollux" / "traces" / applications.error().message).string()};
}

Result<std::vector<TrainingWorkload>> load_training_workloads(Session& session, const std::string& data,
                                                              const std::string& folder, const std::string& format,
                                                              const train::Applications& applications, int gpus) {
  const auto sources = read_sources(fs::path(data) / folder);
  if (!sources) return sources.error();
  std::vector<TrainingWorkload> workloads;
  for (const auto& source : *sources) {
    if (text::trim(source.text).empty()) {
      session.warn(source.name + ": empty, left out");
      continue;
    }
    auto workload = read_workload(source, format);
    if (!workload) return workload.error();
    const auto known = lab::check_applications(workload->origin, workload->jobs, applications);
    if (!known) return known.error();
    const auto fit = lab::check_jobs_fit(workload->origin, workload->jobs, gpus);
    if (!fit) return fit.error();
    workloads.push_back(std::move(*workload));
  }
  if (!workloads.empty()) return workloads;
  return Error{ErrorCode::invalid, (fs::path(data) / folder).string() + ": every .csv file is empty"};
}

Error unfinished_error(const std::vector<TrainingWorkload>& workloads, const std::string& workload,
                       const std::string& job, const std::string& under) {
  std::string place = workload;  // That of a workload that is made here.
  for (const auto& read : workloads) {
    if (read.name != workload) continue;
    const auto found = std::ranges::find(read.jobs, job, &formats::Job::name);
    place = read.origin.at(static_cast<std::size_t>(found - read.jobs.begin()));
  }
  return {ErrorCode::invalid, fmt::format("{}: {} does not end under {} within the {:.0f} s that are simulated", place,
                                          job, under, lab::kClusterTimeMax_s)};
}

}  // namespace tangram::cli
