// The table of public formats, and the dispatch of an import to its reader.
//
// Files are recognised by their header, never by their name: people rename files, and a folder may hold several kinds.

#include "formats/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>

#include "base/text.h"
#include "formats/detail/utf8.h"
#include "formats/importers/importers.h"

namespace tangram::formats {
namespace {

// Turns the files of one format into the text of one file of ours.
using Importer = Result<std::string> (*)(const importers::Files&, std::string_view);

// In the order of the help. kImporters has the reader of each format at the same index.
const ImportFormat kFormats[] = {
    {"parvagpu",
     "ParvaGPU (SC'24): profiles.csv, scenarios.csv or a deployment. Overlapping slices of a deployment are placed "
     "again.",
     "measurements, services or plan", false, "SCENARIO"},
    {"migprofiler",
     "MIGProfiler: profiles.csv, the rows for inference. Of a configuration measured twice, the first counts.",
     "measurements", false, "train"},
    {"azure-llm", "Azure's traces of language-model requests. Times are relative to the first request.", "trace"},
    {"twitter", "A request rate for each second. Gaps, marked by 0, are interpolated and commented.", "curve"},
    {"pollux", "Pollux (OSDI'21): workloads, or traces of applications in folders with their names.",
     "jobs or training"},
    {"deepboot", "DeepBoot's workloads of training jobs and inference tasks.", "jobs"},
    {"miso", "MISO (SoCC'22): training iteration times on slices of an A100-40GB.", "measurements"},
    {"mig-reconfig", "Times to create and destroy the slices of an A100, summarised.", "recuts"},
    {"text-lengths", "Lengths of texts in words, for each corpus.", "histogram", false, "CORPUS"},
    {"perf-analyzer",
     "The table of `perf_analyzer -f`: the compute time of the server, of the row with the fewest clients. Dynamic "
     "batching has to be off.",
     "measurements", true},
    {"model-analyzer", "Model Analyzer's metrics-model-inference.csv, and metrics-model-gpu.csv for the memory.",
     "measurements", true},
    {"triton-statistics", "The answer of a Triton server to /v2/models/MODEL/stats: compute times by batch size.",
     "measurements", true},
};

constexpr Importer kImporters[] = {
    importers::parvagpu, importers::migprofiler, importers::azure_llm,    importers::twitter,      importers::pollux,
    importers::deepboot, importers::miso,        importers::mig_reconfig, importers::text_lengths,
};

// The formats behind those, which need a target.
using TargetImporter = Result<std::string> (*)(const importers::Files&, const ImportTarget&);
constexpr TargetImporter kTargetImporters[] = {importers::perf_analyzer, importers::model_analyzer,
                                               importers::triton_statistics};
static_assert(std::size(kFormats) == std::size(kImporters) + std::size(kTargetImporters));

// The columns by which a kind of file is recognised: it has all of them, and no other kind of the format has.
struct Mark {
  std::string_view format;
  std::string_view kind;
  std::initializer_list<std::string_view> columns;
};

const Mark kMarks[] = {
    {"parvagpu", "measurements", {"mig_gpcs", "mps_procs"}},
    {"parvagpu", "services", {"scenario", "slo_latency_ms"}},
    {"parvagpu", "plan", {"Num GPU", "Placement"}},
    {"migprofiler", "measurements", {"gpu", "mig_profile", "seq_length"}},
    {"azure-llm", "trace", {"TIMESTAMP", "ContextTokens"}},
    {"pollux", "jobs", {"application", "num_replicas", "time"}},
    {"pollux", "training", {"local_bsz", "step_time"}},
    {"pollux", "training", {"progress", "grad_sqr"}},
    {"deepboot", "jobs", {"application", "num_replicas", "duration"}},
    {"miso", "measurements", {"mig_profile", "iter_s_mean"}},
    {"mig-reconfig", "recuts", {"partition", "action", "time_ms"}},
    {"text-lengths", "histogram", {"corpus", "words"}},
    {"perf-analyzer", "measurements", {"Inferences/Second", "Server Compute Infer"}},
    {"model-analyzer", "measurements", {"Model", "Batch", "Model Config Path"}},
};

// A rate curve has no header. Its first line that is neither empty nor a comment is a number.
bool begins_with_number(const Source& file) {
  std::string_view rest = without_byte_order_mark(file.text);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = text::trim(rest.substr(0, end));
    if (!line.empty() && !line.starts_with('#')) return text::parse_number(line).has_value();
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

// Nullopt if all files become the same kind. A file that is not recognised is left to the reader, whose message says
// which column is missing.
std::optional<Error> different_kinds(const ImportFormat& format, const std::vector<Source>& files) {
  std::map<std::string_view, std::vector<std::string>> by_kind;
  for (const auto& file : files) {
    if (const auto kind = import_kind(format, file); !kind.empty()) by_kind[kind].push_back(file.name);
  }
  if (by_kind.size() <= 1) return std::nullopt;
  std::string message = fmt::format("{}: an import writes one file of one kind, but these files become {} kinds",
                                    format.name, by_kind.size());
  for (const auto& [kind, names] : by_kind) {
    message += fmt::format("\n  {}: {}{}", kind, names.front(),
                           names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "");
  }
  return Error{ErrorCode::invalid, message};
}

Error unknown_format(std::string_view format) {
  std::vector<std::string> names;
  for (const auto& known : kFormats) names.push_back(known.name);
  return {ErrorCode::invalid, "the format " + detail::unknown_word(format, names)};
}

}  // namespace

std::span<const ImportFormat> import_formats() { return kFormats; }

const ImportFormat* find_import_format(std::string_view format) {
  // npos takes the whole text, so this works with and without a selection.
  const std::string_view name = format.substr(0, format.find(':'));
  for (const auto& known : kFormats) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

// Kinds of one format differ in their columns, so the first mark that fits is the only one.
std::string_view import_kind(const ImportFormat& format, const Source& file) {
  if (format.name == "twitter") return begins_with_number(file) ? "curve" : "";
  if (format.name == "triton-statistics") {
    return file.text.find("\"model_stats\"") == std::string::npos ? "" : "measurements";
  }
  const auto columns = importers::header_of(file);
  for (const auto& mark : kMarks) {
    const bool all = std::ranges::all_of(mark.columns, [&](auto column) { return columns.contains(column); });
    if (mark.format == format.name && all) return mark.kind;
  }
  return "";
}

Result<std::string> import_text(std::string_view format, const std::vector<Source>& files, const ImportTarget& target) {
  const ImportFormat* known = find_import_format(format);
  if (known == nullptr) return unknown_format(format);
  if (files.empty()) return Error{ErrorCode::invalid, known->name + ": there is no file to import"};
  const std::size_t colon = format.find(':');
  const std::string_view selection = colon == std::string_view::npos ? "" : format.substr(colon + 1);
  // Ignoring the selection would import more than was asked for.
  if (!selection.empty() && known->selection.empty()) {
    return Error{ErrorCode::invalid, fmt::format("{} takes no argument after a colon", known->name)};
  }
  if (const auto error = different_kinds(*known, files)) return *error;
  // `known` points into kFormats, so the difference is the index.
  const auto index = static_cast<std::size_t>(known - kFormats);
  if (index >= std::size(kImporters)) return kTargetImporters[index - std::size(kImporters)](files, target);
  return kImporters[index](files, selection);
}

// Every reader reports this with importers::kNoRows, at the end of the message.
bool is_nothing_to_import(const Error& error) { return error.message.ends_with(importers::kNoRows); }

}  // namespace tangram::formats
