// JSON Schemas and the reference page, both from the descriptions that the parsers use.
//
// A schema is a tree of Nodes that is written as JSON; the page is Markdown with one table for each file. Neither
// repeats a limit or a default by hand, so a change of a description changes parser, schema and page together.

#include "formats/schema.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "formats/detail/shapes.h"

namespace tangram::formats {
namespace {

// A file with its description. The shape is a function, because shapes are built on demand.
struct File {
  const char* name;
  Shape (*shape)();
  const char* path;  // What such a file is called in examples.
  const char* kind;  // "YAML", "JSON", "CSV".
};

// The order is that of the reference page.
constexpr File kFiles[] = {
    {"fleet", fleet_shape, "fleet.yaml", "YAML"}, {"services", services_shape, "services.yaml", "YAML"},
    {"plan", plan_shape, "plan.json", "JSON"},    {"measurements", measurement_shape, "measurements.csv", "CSV"},
    {"trace", trace_shape, "trace.csv", "CSV"},   {"histogram", histogram_shape, "histogram.csv", "CSV"},
    {"jobs", job_shape, "jobs.csv", "CSV"},       {"training", training_shape, "training.csv", "CSV"},
    {"recuts", recut_shape, "recuts.csv", "CSV"}, {"access", access_shape, "access.yaml", "YAML"},
    {"training-job", training_job_shape, "job.yaml", "YAML"},
    {"config", config_shape, "tangram.yaml", "YAML"},
};

Node map_node() {
  Node node;
  node.kind = Node::Kind::map;
  return node;
}

Node list_node() {
  Node node;
  node.kind = Node::Kind::sequence;
  return node;
}

void put(Node& map, std::string key, Node value) { map.entries.push_back({std::move(key), {}, std::move(value)}); }

Node names_node(const std::vector<std::string>& names) {
  Node list = list_node();
  for (const auto& name : names) list.items.push_back(text_node(name));
  return list;
}

// The words that a text may be: those of a list that is computed (device types), or the enumerators; empty for free
// text.
std::vector<std::string> words_of(const Shape& shape) {
  if (shape.limits.names != nullptr) return shape.limits.names();
  std::vector<std::string> words;
  for (const auto& name : shape.names) words.push_back(name.name);
  return words;
}

// Draft 7 has numeric exclusive bounds; infinite bounds mean that there is no limit and are left out.
void put_limits(Node& schema, const Limits& limits) {
  const auto put_bound = [&](const char* key, double bound) {
    if (std::isfinite(bound)) put(schema, key, plain_node(detail::write_number(bound)));
  };
  put_bound("minimum", limits.min);
  put_bound("exclusiveMinimum", limits.above);
  put_bound("maximum", limits.max);
  put_bound("exclusiveMaximum", limits.below);
}

Node schema_of(const Shape& shape);

// Unknown keys are errors in the parsers, so the schema forbids them too.
void put_record(Node& schema, const Shape& shape) {
  put(schema, "type", text_node("object"));
  put(schema, "additionalProperties", plain_node("false"));
  Node required = list_node();
  Node properties = map_node();
  for (const auto& field : shape.fields) {
    if (field.required) required.items.push_back(text_node(field.key));
    Node property = schema_of(field.shape);
    put(property, "description", text_node(field.help));
    if (field.fallback) put(property, "default", *field.fallback);
    put(properties, field.key, std::move(property));
  }
  put(schema, "properties", std::move(properties));
  if (!required.items.empty()) put(schema, "required", std::move(required));
}

// Each option is an object with exactly one key, or a bare value. `oneOf` then rejects two options at once, as the
// parser does.
void put_choice(Node& schema, const Shape& shape) {
  Node options = list_node();
  for (const auto& field : shape.fields) {
    Shape option;
    if (field.key.empty()) {
      option = field.shape;
    } else {
      option.kind = Shape::Kind::record;
      option.fields.push_back(field);
    }
    Node node = schema_of(option);
    if (field.key.empty()) put(node, "description", text_node(field.help));
    options.items.push_back(std::move(node));
  }
  put(schema, "oneOf", std::move(options));
}

// A pattern or an enumeration already excludes the empty text; otherwise minLength does.
void put_text(Node& schema, const Shape& shape) {
  put(schema, "type", text_node("string"));
  const auto words = words_of(shape);
  if (!words.empty()) {
    put(schema, "enum", names_node(words));
  } else if (shape.limits.text == TextRule::name) {
    put(schema, "pattern", text_node("^[A-Za-z0-9][A-Za-z0-9._-]*$"));
  } else {
    put(schema, "minLength", plain_node("1"));
  }
}

// Recursive over the shape. Shapes come from C++ types, which are finite, so the recursion ends.
Node schema_of(const Shape& shape) {
  Node schema = map_node();
  switch (shape.kind) {
    case Shape::Kind::boolean: put(schema, "type", text_node("boolean")); break;
    case Shape::Kind::integer: put(schema, "type", text_node("integer")); break;
    case Shape::Kind::number: put(schema, "type", text_node("number")); break;
    case Shape::Kind::text:
    case Shape::Kind::names: put_text(schema, shape); break;
    case Shape::Kind::list:
      put(schema, "type", text_node("array"));
      if (shape.limits.items_min > 0) put(schema, "minItems", plain_node(std::to_string(shape.limits.items_min)));
      put(schema, "items", schema_of(shape.item[0]));
      break;
    case Shape::Kind::record: put_record(schema, shape); break;
    case Shape::Kind::choice: put_choice(schema, shape); break;
  }
  // Limits of lists and texts have other keywords and are written above.
  const bool numeric = shape.kind == Shape::Kind::integer || shape.kind == Shape::Kind::number;
  if (numeric) put_limits(schema, shape.limits);
  return schema;
}

// "at least 1, at most 256", or an empty text without limits.
std::string range_text(const Limits& limits) {
  std::vector<std::string> parts;
  const auto add = [&](const char* words, double bound) {
    if (std::isfinite(bound)) parts.push_back(words + detail::write_number(bound));
  };
  add("at least ", limits.min);
  add("above ", limits.above);
  add("at most ", limits.max);
  add("below ", limits.below);
  return text::join(parts, ", ");
}

// The column "Value" of the reference page.
std::string type_text(const Shape& shape) {
  switch (shape.kind) {
    case Shape::Kind::boolean: return "true or false";
    case Shape::Kind::integer: return "whole number";
    case Shape::Kind::number: return "number";
    case Shape::Kind::list: return "list";
    case Shape::Kind::record: return "map";
    case Shape::Kind::choice: return "one of the following";
    case Shape::Kind::text:
    case Shape::Kind::names: break;
  }
  const auto words = words_of(shape);
  if (words.empty()) return shape.limits.text == TextRule::name ? "name" : "text";
  // The vertical bar is escaped, because it would end the cell of a Markdown table.
  return "`" + text::join(words, "` \\| `") + "`";
}

void append_rows(const Shape& shape, const std::string& prefix, std::string& out);

// One row for the field, then those of its parts: `devices[].type` for a part of a list, `slo.latency_ms` for a map. A
// bare value has no key and is shown under the path of its choice.
void append_row(const Shape::Field& field, const std::string& prefix, bool option, std::string& out) {
  const std::string path = field.key.empty() ? prefix.substr(0, prefix.size() - 1) : prefix + field.key;
  std::string type = type_text(field.shape);
  if (const std::string range = range_text(field.shape.limits); !range.empty()) type += ", " + range;
  // Options of a choice are required in their own schema, but the reader of the table chooses one, so they do not say
  // so.
  std::string fallback = field.fallback              ? "`" + field.fallback->text + "`"
                         : field.required && !option ? "required"
                                                     : "";
  std::string help = field.help;
  for (const auto& name : field.shape.names) help += fmt::format(" `{}`: {}", name.name, name.help);
  out += fmt::format("| `{}` | {} | {} | {} |\n", path, type, fallback, help);
  // A list of maps continues with the parts of one item; a list of scalars has none.
  const Shape& inner = field.shape.kind == Shape::Kind::list ? field.shape.item[0] : field.shape;
  append_rows(inner, path + (field.shape.kind == Shape::Kind::list ? "[]." : "."), out);
}

void append_rows(const Shape& shape, const std::string& prefix, std::string& out) {
  for (const auto& field : shape.fields) append_row(field, prefix, shape.kind == Shape::Kind::choice, out);
}

// The heading, one sentence, and the table of one file.
std::string section(const FileDescription& file) {
  const Shape& shape = file.shape;
  const bool csv = file.kind == "CSV";
  std::string out =
      fmt::format("## {} (`{}`)\n\n{} {}. Schema: [`{}.schema.json`](../schema/{}.schema.json){}.\n\n", shape.title,
                  file.path, shape.help, file.kind, file.name, file.name, csv ? ", of one row" : "");
  out += csv ? "| Column | Value | Default | Meaning |\n|---|---|---|---|\n"
             : "| Key | Value | Default | Meaning |\n|---|---|---|---|\n";
  append_rows(shape, "", out);
  return out + "\n";
}

constexpr std::string_view kIntroduction = R"(# Files

<!-- Made by `tangram reference` from the descriptions that the parsers use. Do not edit by hand. -->

Every file that people write is checked as a whole: all problems are reported at once, each with its position, as in
`fleet.yaml:12:9: 3g.20gb cannot start at 2; allowed: 0, 4`. The column number counts bytes. An unknown key or column is
an error, and the message suggests the nearest known one.

- Times carry their unit in the key (`latency_ms`, `step_s`).
- A path inside a file is relative to the file that names it.
- `devices[].type` in the tables below means: the key `type` of every entry of the list `devices`.
- Where a value is *one of the following*, exactly one of the keys below it is present.
- CSV files begin with a header row; columns may be in any order. Quotes, CRLF and a byte-order mark are supported.
- A document is at most 64 MiB long, 64 levels deep and has at most 1,000,000 values; a CSV file is at most 1 GiB long.

Editors complete and check these files with the JSON Schemas beside this page, for instance with this first line:

```yaml
# yaml-language-server: $schema=docs/schema/fleet.schema.json
```

)";

// The rate curve is no table and no document, so it has no description and its section is written by hand.
constexpr std::string_view kRateCurve = R"(## Rate curve (`rates.txt`)

One rate in requests a second on each line, not negative. Empty lines and lines that begin with `#` are ignored. The
key `step_s` of the services file sets the time that a line covers.
)";

}  // namespace

std::vector<std::string> schema_names() {
  std::vector<std::string> names;
  for (const auto& file : kFiles) names.emplace_back(file.name);
  return names;
}

std::optional<std::string> json_schema(std::string_view name) {
  for (const auto& file : kFiles) {
    if (file.name != name) continue;
    return json_schema(file.shape());
  }
  return std::nullopt;
}

std::string json_schema(const Shape& shape) {
  Node schema = map_node();
  // Draft 7 is what the YAML language server and most editors understand.
  put(schema, "$schema", text_node("http://json-schema.org/draft-07/schema#"));
  put(schema, "title", text_node(shape.title));
  put(schema, "description", text_node(shape.help));
  // Title and description come first in the file; the keys of the body follow them at the same level.
  Node body = schema_of(shape);
  for (auto& entry : body.entries) schema.entries.push_back(std::move(entry));
  return to_json(schema) + "\n";
}

std::string reference_section(const FileDescription& file) { return section(file); }

std::string reference_markdown() {
  std::string out(kIntroduction);
  for (const auto& file : kFiles) out += section({file.name, file.shape(), file.path, file.kind});
  return out + std::string(kRateCurve);
}

}  // namespace tangram::formats
