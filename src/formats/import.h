// Readers for the formats in which others have published measurements and traces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/source.h"

namespace tangram::formats {

struct ImportFormat {
  std::string name;           // What `tangram import` calls it.
  std::string summary;        // One sentence for the help.
  std::string output;         // The kinds of file it becomes, in words: "jobs or training".
  bool needs_target = false;  // The files do not say what was measured: an ImportTarget does.
  std::string selection =
      {};  // What may follow the name behind a colon, as in text-lengths:CORPUS; empty if nothing may.

  // "text-lengths[:CORPUS]"
  std::string usage() const { return selection.empty() ? name : name + "[:" + selection + "]"; }
};

// What was measured, for formats whose files do not say it.
struct ImportTarget {
  std::string model = {};
  std::string device = {};  // Type.
  std::string mig_profile = {};
  std::int64_t batch = 1;  // perf-analyzer: the one of its option -b.
  std::int64_t size = 1;   // Of the inputs.
};

// In the order of the help.
std::span<const ImportFormat> import_formats();

// The format that a name means, with or without a selection behind it; null if there is none.
const ImportFormat* find_import_format(std::string_view format);

// The kind of file that `file` becomes ("measurements", "trace", "curve", ...), by its header; empty if it is none of
// the format's files.
std::string_view import_kind(const ImportFormat& format, const Source& file);

// The text of one file of ours, made of all `files` together. Headers are checked, and every row that is wrong is
// reported with its place; nothing is skipped silently unless the format's summary says so. Files that become different
// kinds are refused: one import makes one file. A folder's files are given one by one, named by their paths; where
// names in several files may be the same, that of the file goes in front.
// `target` is for formats that need one.
Result<std::string> import_text(std::string_view format, const std::vector<Source>& files,
                                const ImportTarget& target = {});
// True if the error says that the files are valid but contain no row to import: only a header, or only rows of another
// kind.
bool is_nothing_to_import(const Error& error);

}  // namespace tangram::formats
