// `tangram import`: files of others become files of ours.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/program.h"
#include "cli/table.h"
#include "formats/import.h"

namespace tangram::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFilesMax = 10'000;  // Of one import. A folder with more was hardly meant.

struct Options {
  std::string format;
  std::vector<std::string> paths;
  std::string to;
};

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const auto& format : formats::import_formats()) names.push_back(format.name);
  return names;
}

ExitCode list_formats(Session& session) {
  if (session.structured()) {
    Json list = Json::array();
    for (const auto& format : formats::import_formats()) {
      list.push_back({{"name", format.name}, {"summary", format.summary}, {"output", format.output}});
    }
    session.print_value(list);
    return ExitCode::done;
  }
  Table table({{"FORMAT"}, {"BECOMES"}, {"WHAT IT IS", Align::left, true}});
  for (const auto& format : formats::import_formats()) {
    table.add({{format.name, Style::accent}, format.output, format.summary});
  }
  session.print(table.render(session.terminal));
  return ExitCode::done;
}

// A folder stands for the files in it and below, in the order of their names; hidden ones are left out.
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
      return Error{ErrorCode::exhausted, fmt::format("{}: holds more than {} files", path, kFilesMax)};
    }
  }
  if (error) return Error{ErrorCode::denied, fmt::format("{}: cannot list: {}", path, error.message())};
  std::ranges::sort(files);
  return files;
}

Result<std::vector<formats::Source>> read_all(const std::vector<std::string>& paths) {
  std::vector<formats::Source> sources;
  for (const auto& path : paths) {
    const auto files = files_below(path);
    if (!files) return files.error();
    for (const auto& file : *files) {
      auto source = read_source(file);
      if (!source) return source.error();
      sources.push_back(std::move(*source));
    }
  }
  return sources;
}

ExitCode run(Session& session, const Options& options) {
  if (options.format.empty()) return list_formats(session);
  const auto names = format_names();
  if (formats::find_import_format(options.format) == nullptr) {
    const auto near = text::nearest(options.format, names);
    return session.fail({ErrorCode::invalid,
                         fmt::format("unknown format \"{}\"{}; known: {}", options.format,
                                     near ? fmt::format(", did you mean {}?", *near) : "", text::join(names, ", "))});
  }
  if (options.paths.empty()) return session.fail({ErrorCode::invalid, "expected a PATH to import"});
  const auto sources = read_all(options.paths);
  if (!sources) return session.fail(sources.error());
  const auto imported = formats::import_text(options.format, *sources);
  if (!imported) return session.fail(imported.error());
  if (options.to.empty() || options.to == "-") {
    session.print(std::string_view(*imported));
    return ExitCode::done;
  }
  const auto written = write_file_atomically(options.to, *imported);
  if (!written) return session.fail(written.error());
  const auto lines = std::ranges::count(*imported, '\n');
  session.note(
      fmt::format("{}: {} lines from {} file{}", options.to, lines, sources->size(), sources->size() == 1 ? "" : "s"));
  return ExitCode::done;
}

}  // namespace

void add_import(Program& program) {
  const auto options = std::make_shared<Options>();
  CLI::App& verb = program.add_verb(
      {.name = "import",
       .group = "Files",
       .summary = "turn published measurements and traces into files of Tangram",
       .description =
           "Without arguments, lists the formats it knows. With FORMAT and PATH, reads the files, or all files of "
           "a folder, and writes one file of ours, whole or not at all.",
       .examples = {{"tangram import", "List the formats."},
                    {"tangram import azure-llm conv.csv -o trace.csv", "A public trace becomes a trace of ours."},
                    {"tangram import parvagpu profiles.csv | head", "Look at the first measurements."}}},
      [options](Session& session) { return run(session, *options); });
  program.offers(verb.add_option("FORMAT", options->format, "What the files are; without it, the formats are listed."),
                 format_names());
  program.offers_files(verb.add_option("PATH", options->paths, "Files or folders to read."));
  program.offers_files(
      verb.add_option("-o,--to", options->to, "Where to write; standard output without it.")->type_name("FILE"));
}

}  // namespace tangram::cli
