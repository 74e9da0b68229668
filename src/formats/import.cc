#include "formats/import.h"

#include <fmt/format.h>

#include <iterator>

#include "base/text.h"
#include "formats/importers/importers.h"

namespace tangram::formats {
namespace {

using Importer = Result<std::string> (*)(const importers::Files&, std::string_view);

// The order is that of the help. The two arrays line up.
const ImportFormat kFormats[] = {
    {"parvagpu",
     "ParvaGPU (SC'24): profiles.csv, scenarios.csv or a deployment, whose overlapping slices are laid out anew.",
     "measurements, services or plan", "a scenario"},
    {"migprofiler", "MIGProfiler: profiles.csv, rows of inference; of a configuration measured twice the first.",
     "measurements", "train"},
    {"azure-llm", "Azure's traces of language-model requests; time counts from the first request.", "trace", ""},
    {"twitter", "A request rate for each second; gaps, marked by 0, are interpolated and commented.", "rate curve", ""},
    {"pollux", "Pollux (OSDI'21): workloads, or the traces of applications in folders of their names.",
     "jobs, or one table of all traces", ""},
    {"deepboot", "DeepBoot's workloads of training jobs and inference tasks.", "jobs", ""},
    {"miso", "MISO (SoCC'22): training iteration times on slices of an A100-40GB.", "measurements", ""},
    {"mig-reconfig", "Times to create and to destroy the slices of an A100, summed up.", "table of re-cut times", ""},
    {"text-lengths", "Lengths of texts in words, for each corpus.", "histogram", "a corpus"},
};

constexpr Importer kImporters[] = {
    importers::parvagpu, importers::migprofiler, importers::azure_llm,    importers::twitter,      importers::pollux,
    importers::deepboot, importers::miso,        importers::mig_reconfig, importers::text_lengths,
};
static_assert(std::size(kFormats) == std::size(kImporters));

Error unknown_format(std::string_view format) {
  std::vector<std::string> names;
  for (const auto& known : kFormats) names.push_back(known.name);
  return {ErrorCode::invalid, "the format " + detail::unknown_word(format, names)};
}

}  // namespace

std::span<const ImportFormat> import_formats() { return kFormats; }

const ImportFormat* find_import_format(std::string_view format) {
  const std::string_view name = format.substr(0, format.find(':'));
  for (const auto& known : kFormats) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

Result<std::string> import_text(std::string_view format, const std::vector<Source>& files) {
  const ImportFormat* known = find_import_format(format);
  if (known == nullptr) return unknown_format(format);
  if (files.empty()) return Error{ErrorCode::invalid, known->name + ": no file to import"};
  const std::size_t colon = format.find(':');
  const std::string_view selection = colon == std::string_view::npos ? "" : format.substr(colon + 1);
  if (!selection.empty() && known->selection.empty()) {
    return Error{ErrorCode::invalid, fmt::format("{} takes nothing behind a colon", known->name)};
  }
  return kImporters[known - kFormats](files, selection);
}

}  // namespace tangram::formats
