// JSON Schemas for editors and a reference page for people, both made from the descriptions that the parsers use.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/describe.h"

namespace tangram::formats {

// The files that have a schema: fleet, services, plan, access as documents; measurements, trace, histogram, jobs,
// training and recuts as one row of a CSV file seen as an object.
std::vector<std::string> schema_names();

// JSON Schema, draft-07, with a newline at its end. Nothing for a name that is not in schema_names().
std::optional<std::string> json_schema(std::string_view name);

// The same for a file that another room describes, and its section of a reference page.
struct FileDescription {
  std::string name;
  Shape shape;
  std::string path;  // What such a file is called in examples.
  std::string kind;  // "YAML", "JSON", "CSV".
};
std::string json_schema(const Shape& shape);
std::string reference_section(const FileDescription& file);

// The reference page of all files, in Markdown: docs/reference/files.md.
std::string reference_markdown();

}  // namespace tangram::formats
