// The table of export formats, made from exports.def.

#include "formats/export.h"

namespace tangram::formats {

// exports.def has one line for each format. It is expanded twice: into declarations and into the table.
namespace exports {

#define TANGRAM_EXPORT(function, name, several, comments, summary) Result<Export> function(const ExportInput& input);
#include "formats/exports/exports.def"
#undef TANGRAM_EXPORT

}  // namespace exports

namespace {

constexpr ExportFormat kExportFormats[] = {
#define TANGRAM_EXPORT(function, name, several, comments, summary) \
  {name, summary, several, comments, exports::function},
#include "formats/exports/exports.def"
#undef TANGRAM_EXPORT
};

}  // namespace

std::span<const ExportFormat> export_formats() { return kExportFormats; }

const ExportFormat* find_export_format(std::string_view name) {
  for (const auto& format : kExportFormats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

}  // namespace tangram::formats
