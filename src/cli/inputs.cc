// Reads the files that users name, by the parsers of the room `formats`. Paths inside a file are relative to that file,
// so a folder with its files can be moved or run from anywhere.

#include "cli/inputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>

#include "adapters/cpu_host/cpu_host.h"
#include "cli/file_kind.h"
#include "formats/fleet_file.h"
#include "formats/workload_file.h"
#include "host/files.h"

namespace tangram::cli {
namespace {

namespace fs = std::filesystem;

// The folder of the running program, whatever it was called by; empty if /proc is not mounted.
fs::path program_directory() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : program.parent_path();
}

// What is wrong with a file that was taken for `wanted`: if it is of another kind, that is all there is to say. Files
// given in the wrong order are the usual reason.
Error explain_kind(const Error& error, const formats::Source& source, FileKind wanted) {
  const auto kind = detect_file_kind("", source.text);
  if (!kind || *kind == wanted || error.code != ErrorCode::invalid) return error;
  const bool swapped = (*kind == FileKind::fleet || *kind == FileKind::services) &&
                       (wanted == FileKind::fleet || wanted == FileKind::services);
  return {error.code,
          fmt::format("{}: this is a {} file, and a {} file was expected here{}", source.name, to_string(*kind),
                      to_string(wanted), swapped ? "; were FLEET and SERVICES swapped?" : "")};
}

}  // namespace

CpuHost this_host() {
  // Probed once: it reads several files of /proc and /sys, and all fleets of one command must see the same machine.
  static const CpuHost host = adapters::to_cpu_host(adapters::probe_cpu_host());
  return host;
}

// The name is for messages, in which "-" would not be recognised as a file.
Result<formats::Source> read_source(const std::string& path) {
  TANGRAM_TRY(auto content, host::read_file(path));
  return formats::Source{path == "-" ? "standard input" : path, std::move(content)};
}

// A text from standard input has no folder, so its paths are relative to the current one.
formats::ReadFile reader_beside(const std::string& path) {
  const fs::path folder = path == "-" ? fs::path() : fs::path(path).parent_path();
  return [folder](const std::string& name) { return host::read_file((folder / name).string()); };
}

Result<Fleet> load_fleet(const std::string& path) {
  TANGRAM_TRY(const auto source, read_source(path));
  auto fleet = formats::parse_fleet(source, this_host());
  if (!fleet) return explain_kind(fleet.error(), source, FileKind::fleet);
  return fleet;
}

Result<Workload> load_workload(const std::string& path) {
  TANGRAM_TRY(const auto source, read_source(path));
  auto workload = formats::parse_workload(source, reader_beside(path));
  if (!workload) return explain_kind(workload.error(), source, FileKind::services);
  return workload;
}

Result<lab::Scenario> load_scenario(const std::string& path) {
  TANGRAM_TRY(const auto source, read_source(path));
  return lab::parse_scenario(source, reader_beside(path));
}

Result<Nothing> needs_plan(const lab::Scenario& scenario, const std::string& path) {
  if (lab::has_plan(scenario)) return Nothing{};
  return Error{ErrorCode::invalid,
               path + ": the scenario has no plan; use `tangram simulate --replan` to plan for its fleet"};
}

Result<std::string> examples_directory() {
  // In order of preference: what the user says, the installed program, the source tree, the current folder.
  std::vector<fs::path> places;
  if (const char* share = std::getenv("TANGRAM_SHARE")) places.emplace_back(share);
  if (const fs::path program = program_directory(); !program.empty()) {
    places.push_back(program / "../share/tangram");
    places.push_back(program / "../../..");  // build/<preset>/bin in the source.
  }
  places.emplace_back();  // The current folder, for a build elsewhere.
  for (const auto& place : places) {
    std::error_code error;
    const fs::path examples = (place / "examples").lexically_normal();
    // A folder called "examples" is common, so look for a file of ours in it.
    if (fs::is_regular_file(examples / "scenario-day.yaml", error)) return examples.string();
  }
  return Error{ErrorCode::not_found,
               "the examples were not found; set TANGRAM_SHARE to the folder that contains examples/"};
}

}  // namespace tangram::cli
