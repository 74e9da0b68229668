// The readers of public formats, one source file each, and the functions that they share.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/import.h"
#include "formats/source.h"
#include "formats/table.h"

namespace tangram::formats::importers {

using Files = std::vector<Source>;

// Each requires at least one file. `selection` is the text behind the colon, or empty.
Result<std::string> parvagpu(const Files& files, std::string_view selection);
Result<std::string> migprofiler(const Files& files, std::string_view selection);
Result<std::string> azure_llm(const Files& files, std::string_view selection);
Result<std::string> twitter(const Files& files, std::string_view selection);
Result<std::string> pollux(const Files& files, std::string_view selection);
Result<std::string> deepboot(const Files& files, std::string_view selection);
Result<std::string> miso(const Files& files, std::string_view selection);
Result<std::string> mig_reconfig(const Files& files, std::string_view selection);
Result<std::string> text_lengths(const Files& files, std::string_view selection);

// These need to be told what was measured.
Result<std::string> perf_analyzer(const Files& files, const ImportTarget& target);
Result<std::string> model_analyzer(const Files& files, const ImportTarget& target);
Result<std::string> triton_statistics(const Files& files, const ImportTarget& target);

// The problems of several files, in their order.
class FileProblems {
 public:
  void take(const Problems& problems);
  bool empty() const { return message_.empty(); }
  Error error() const { return {ErrorCode::invalid, message_}; }

 private:
  std::string message_;
};

// Calls `use(T&& row, const RowPlace& place, Problems& problems, const Source& file)` for every row of every file.
template <typename T, typename Use>
FileProblems for_each_row_of(const Files& files, Use&& use) {
  FileProblems all;
  for (const auto& file : files) {
    Problems problems(file.name);
    for_each_row<T>(file, Header::lenient, problems,
                    [&](T row, const RowPlace& place) { use(std::move(row), place, problems, file); });
    all.take(problems);
  }
  return all;
}

// The columns of the header row of `file`; empty if it has none.
std::set<std::string, std::less<>> header_of(const Source& file);
// True if any of the files has a column of this name.
bool have_column(const Files& files, std::string_view name);

// The error for a selection that is not among `known`, or for no selection where there are several.
Error unknown_selection(std::string_view format, std::string_view selection, const std::set<std::string>& known);
Error no_rows(const Files& files);
inline constexpr std::string_view kNoRows = "no rows to import";

// Parts of a path: "traces/bert/placements.csv" has the stem "placements" and lies in "bert".
std::string stem_of(std::string_view path);
std::string folder_of(std::string_view path);

// The prefix of names for each file, so that they stay unique when several files are merged: the stem of the file, or
// nothing for a single file. Two files with the same stem are an error.
Result<std::map<std::string, std::string>> prefixes_of(const Files& files, std::string_view separator);

}  // namespace tangram::formats::importers
