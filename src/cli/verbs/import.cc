// `tangram import`: converts published measurements and traces into files of Tangram.
//
// The formats are in the room `formats`, one entry of a registry each. This file finds the files, selects those of the
// format and of one kind, and writes the result. One import makes one file of one kind, because every kind has its own
// parser and users.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/program.h"
#include "core/geometry.h"
#include "formats/import.h"
#include "host/files.h"
#include "report/table.h"

namespace tangram::cli {
namespace import_verb {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFilesMax = 10'000;  // Of one import. A folder with more was probably not intended.

struct Options {
  std::string format;
  std::vector<std::string> paths;
  std::string to;
  std::string kind;
  formats::ImportTarget target;
};

// Shown below the list of formats.
constexpr const char* kColon = "Some formats take an argument after a colon, as in text-lengths:CORPUS.";

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const auto& format : formats::import_formats()) names.push_back(format.name);
  return names;
}

ExitCode list_formats(Session& session) {
  if (session.structured()) {
    report::Json list = report::Json::array();
    for (const auto& format : formats::import_formats()) {
      list.push_back({{"name", format.name},
                      {"selection", format.selection.empty() ? report::Json(nullptr) : report::Json(format.selection)},
                      {"summary", format.summary},
                      {"output", format.output}});
    }
    session.print_value(list);
    return ExitCode::done;
  }
  report::Table table({{"FORMAT"}, {"BECOMES"}, {"WHAT IT IS", report::Align::left, true}});
  for (const auto& format : formats::import_formats()) {
    table.add({{format.usage(), Style::accent}, format.output, format.summary});
  }
  session.print(table.render(session.terminal));
  session.remark("\n" + std::string(kColon) + "\n");
  return ExitCode::done;
}

// The files in a folder and below, sorted by name so that the result does not depend on the file system. Hidden files
// and folders, such as .git, are left out. A path that is no folder is returned as it is; reading it reports what is
// wrong.
Result<std::vector<std::string>> files_below(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  fs::recursive_directory_iterator entry(path, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->path().filename().string().starts_with('.')) {
      if (entry->is_directory(error)) entry.disable_recursion_pending();
      continue;
    }
    if (entry->is_regular_file(error)) files.push_back(entry->path().string());
    if (files.size() > kFilesMax) {
      return Error{ErrorCode::invalid, fmt::format("{}: contains more than {} files", path, kFilesMax)};
    }
  }
  if (error) return Error{ErrorCode::denied, fmt::format("{}: cannot list the folder: {}", path, error.message())};
  std::ranges::sort(files);
  return files;
}

// The files to import, those that were skipped, and the kinds that the former become.
struct Input {
  std::vector<formats::Source> files;
  std::vector<std::string> skipped;
  std::set<std::string> kinds;
};

// Reads the files. In a folder only files of the format are taken, because folders of published data also hold scripts
// and notes. A file that is named itself is always taken: if it is wrong, the parser says how. With --kind, files that
// become another kind are skipped.
Result<Input> read_all(const formats::ImportFormat& format, const Options& options) {
  Input input;
  for (const auto& path : options.paths) {
    TANGRAM_TRY(const auto files, files_below(path));
    for (const auto& file : files) {
      TANGRAM_TRY(auto source, read_source(file));
      const std::string kind(formats::import_kind(format, source));
      // Found in a folder, and not of this format.
      const bool foreign = kind.empty() && file != path;
      if (foreign || (!options.kind.empty() && kind != options.kind)) {
        input.skipped.push_back(file);
        continue;
      }
      if (!kind.empty()) input.kinds.insert(kind);
      input.files.push_back(std::move(source));
    }
  }
  return input;
}

// All files were skipped, so the message says what was looked for.
Error nothing_to_import(const Options& options) {
  const std::string what = options.kind.empty() ? options.format : options.format + " that becomes " + options.kind;
  return {ErrorCode::invalid, fmt::format("{}: contains no file of {}", text::join(options.paths, ", "), what)};
}

// Three names are enough to recognise a wrong choice.
std::string skipped_text(const std::vector<std::string>& skipped) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> shown(skipped.begin(),
                                 skipped.begin() + static_cast<std::ptrdiff_t>(std::min(skipped.size(), kShown)));
  std::string text = fmt::format("{} file{} of other kinds skipped: {}", skipped.size(), skipped.size() == 1 ? "" : "s",
                                 text::join(shown, ", "));
  if (skipped.size() > kShown) text += fmt::format(" and {} more", skipped.size() - kShown);
  return text;
}

// The number of data rows, or null for services and plans, which are documents. A curve has no header; comments do not
// count.
report::Json rows_json(const std::string& kind, const std::string& text) {
  if (kind == "services" || kind == "plan") return nullptr;
  std::int64_t rows = kind == "curve" ? 0 : -1;  // Without the header.
  for (const auto line : text::split(text, '\n')) rows += line.empty() || line.starts_with('#') ? 0 : 1;
  return rows;
}

// Writes the result to the file of -o or to standard output. In structured output without a file, the text is part of
// the document, so that standard output stays one valid document.
Result<ExitCode> answer(Session& session, const Options& options, const Input& input, const std::string& text) {
  const bool to_file = !options.to.empty() && options.to != "-";
  if (to_file) {
    TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(options.to, text));
    session.note(fmt::format("{}: {} lines from {} file{}", options.to, std::ranges::count(text, '\n'),
                             input.files.size(), input.files.size() == 1 ? "" : "s"));
  }
  if (!session.structured()) {
    if (!to_file) session.print(std::string_view(text));
    return ExitCode::done;
  }
  const std::string kind = input.kinds.empty() ? "" : *input.kinds.begin();
  report::Json json{{"file", to_file ? report::Json(options.to) : report::Json(nullptr)},
                    {"kind", kind},
                    {"rows", rows_json(kind, text)},
                    {"files_read", input.files.size()},
                    {"files_skipped", input.skipped}};
  if (!to_file) json["text"] = text;
  session.print_value(json);
  return ExitCode::done;
}

Result<ExitCode> run(Session& session, const Options& options) {
  if (options.format.empty()) return list_formats(session);
  const auto names = format_names();
  const formats::ImportFormat* format = formats::find_import_format(options.format);
  if (format == nullptr) {
    const auto near = text::nearest(options.format, names);
    return session.fail({ErrorCode::invalid,
                         fmt::format("unknown format \"{}\"{}; known: {}", options.format,
                                     near ? fmt::format(", did you mean {}?", *near) : "", text::join(names, ", "))});
  }
  if (options.paths.empty()) return session.fail({ErrorCode::invalid, "expected a PATH to import"});
  const bool has_target = !options.target.model.empty() || !options.target.device.empty() ||
                          !options.target.mig_profile.empty() || options.target.batch != 1 || options.target.size != 1;
  if (has_target && !format->needs_target) {
    return session.fail({ErrorCode::invalid, fmt::format("{}: its files say themselves what was measured; leave out "
                                                         "--model, --device, --profile, --batch and --size",
                                                         format->name)});
  }
  TANGRAM_TRY(const auto input, read_all(*format, options));
  if (input.files.empty()) return session.fail(nothing_to_import(options));
  // Files of several kinds cannot become one file. The advice is added here, because `formats` does not know the option
  // --kind.
  const auto imported = formats::import_text(options.format, input.files, options.target);
  if (!imported) {
    const char* advice = input.kinds.size() > 1 ? "\nChoose a kind with --kind, or name the files of one kind.\n" : "";
    return session.fail({imported.error().code, imported.error().message + advice});
  }
  if (!input.skipped.empty()) session.note(skipped_text(input.skipped));
  return answer(session, options, input, *imported);
}

// Every kind of file that some format becomes.
std::vector<std::string> kinds() {
  return {"measurements", "services", "plan", "trace", "curve", "jobs", "training", "recuts", "histogram"};
}

// "parvagpu[:SCENARIO], migprofiler[:train], ...": the formats that take a selection.
std::string choices_text() {
  std::vector<std::string> usages;
  for (const auto& format : formats::import_formats()) {
    if (!format.selection.empty()) usages.push_back(format.usage());
  }
  return text::join(usages, ", ");
}

}  // namespace
}  // namespace import_verb

void add_import(Program& program) {
  using namespace import_verb;
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "import",
       .group = "Files",
       .summary = "convert published measurements and traces to Tangram files",
       .description =
           "Without arguments, lists the formats. With FORMAT and PATH, reads the files (for a folder, all files of "
           "that format in it and below) and writes one Tangram file, whole or not at all. If the files convert to "
           "several kinds, --kind chooses one. Several files of one kind become one file; if their names clash, each "
           "is prefixed with its file name. The column BECOMES of the list names the kind of the result, as validate "
           "prints it. Some formats take an argument after a colon: " +
           choices_text() +
           ". With --output json or yaml, the answer says what was written; without -o, it contains the file as text.",
       .examples =
           {{"tangram import", "List the formats."},
            {"tangram import azure-llm DIR/conv.csv -o trace.csv", "Convert a public trace."},
            {"tangram import text-lengths:CORPUS DIR/length_histograms.csv -o histogram.csv",
             "Convert the lengths of one corpus."},
            {"tangram import pollux DIR --kind jobs -o jobs.csv",
             "Convert the workloads in a folder, without its traces."},
            {"tangram import triton-statistics DIR/stats.json --model bert --device a100-80gb --profile 2g.20gb "
             "-o bert.csv",
             "Use the run times that a Triton server has counted."},
            {"tangram import parvagpu DIR/profiles.csv | head", "Print the first measurements."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers(
      verb.add_option("FORMAT", options->format, "The format of the files; without it, the formats are listed."),
      format_names());
  program.offers_files(verb.add_option("PATH", options->paths, "The files or folders to read."));
  program.offers_files(
      verb.add_option("-o,--to", options->to, "The file to write; default: standard output.")->type_name("FILE"));
  verb.add_option("--model", options->target.model, "What was measured, for formats that do not say it: the model.")
      ->type_name("MODEL");
  program.offers(verb.add_option("--device", options->target.device, "The same: the device type.")->type_name("TYPE"),
                 device_type_names());
  verb.add_option("--profile", options->target.mig_profile, "The same: the MigProfile.")->type_name("PROFILE");
  verb.add_option("--batch", options->target.batch, "For perf-analyzer: its batch size (-b).")
      ->type_name("N")
      ->capture_default_str()
      ->range(1, 1'000'000);
  verb.add_option("--size", options->target.size, "The input size that was measured.")
      ->type_name("N")
      ->capture_default_str()
      ->range(1, 1'000'000'000);
  program.one_of(
      verb.add_option("--kind", options->kind, "Convert only files that become this kind.")->type_name("KIND"),
      kinds());
}

}  // namespace tangram::cli
