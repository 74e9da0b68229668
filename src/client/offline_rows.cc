// Cuts an input file into rows and turns each row into the JSON body of one inference request.
//
// A row is one line of JSON Lines or one record of CSV, which may span lines inside quotes. The cutter keeps a row and
// the read-ahead in memory; a row beyond the limit keeps its number but loses its text.
//
// Example: for an input `x` of shape [2], the row {"id":"a","x":[1,2]} becomes
// {"id":"a","inputs":[{"data":[1,2],"datatype":"FP32","name":"x","shape":[1,2]}]}.
#include "client/offline_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_reader.h"
#include "base/text.h"
#include "formats/csv.h"

namespace tangram::client {
namespace {

using nlohmann::json;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
// Consumed bytes are erased once they exceed this. Erasing after each row would move the whole buffer each time.
constexpr std::size_t kBufferSlack = std::size_t{1} << 20;
// Axes of one sample. Deeper nesting is not a tensor, and the limit bounds the recursion below.
constexpr std::size_t kAxesMax = 16;

Error row_problem(std::string message) { return {ErrorCode::invalid, std::move(message)}; }

const TensorSpec* find_row_input(const std::vector<TensorSpec>& inputs, std::string_view name) {
  const auto found = std::ranges::find(inputs, name, &TensorSpec::name);
  return found == inputs.end() ? nullptr : &*found;
}

std::string known_inputs(const std::vector<TensorSpec>& inputs) {
  std::vector<std::string_view> names;
  for (const auto& input : inputs) names.push_back(input.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Appends the elements of a nested array one after the other, and finds the shape that the nesting has. False where
// its rows differ in length or hold something that is no element.
bool flatten_row_value(const json& value, std::size_t depth, std::vector<std::int64_t>& shape, json& flat) {
  if (depth > kAxesMax) return false;
  if (!value.is_array()) {
    // The first element fixes the depth; every later element must be equally deep.
    if (value.is_object() || value.is_null() || depth != shape.size()) return false;
    flat.push_back(value);
    return true;
  }
  const auto length = static_cast<std::int64_t>(value.size());
  if (depth == shape.size()) {
    if (!flat.empty()) return false;  // Another branch has an element at this depth.
    shape.push_back(length);
  }
  if (shape[depth] != length) return false;
  return std::ranges::all_of(value, [&](const json& part) { return flatten_row_value(part, depth + 1, shape, flat); });
}

// The shape of a sample with `count` elements in a flat list, or nullopt. Unique only with at most one variable axis:
// 12 values fit [3,-1] as [3,4], but [-1,-1] in six ways.
std::optional<std::vector<std::int64_t>> shape_of_flat(const TensorSpec& spec, std::int64_t count) {
  const auto fixed = elements_of(spec, 1);
  if (!fixed || *fixed == 0) return std::nullopt;
  const auto variable = std::ranges::count(spec.shape, kVariableAxis);
  if (variable > 1 || count % *fixed != 0 || (variable == 0 && count != *fixed)) return std::nullopt;
  std::vector<std::int64_t> shape = spec.shape;
  std::ranges::replace(shape, kVariableAxis, count / *fixed);
  return shape;
}

// One input of a request, from the data of one sample.
Result<json> row_tensor_of(const TensorSpec& spec, const json& value) {
  std::vector<std::int64_t> shape;
  json flat = json::array();
  if (!flatten_row_value(value, 0, shape, flat)) {
    return row_problem(fmt::format("{}: expected a value or arrays of values of equal lengths", spec.name));
  }
  const bool text = spec.datatype == Datatype::bytes;
  for (const auto& element : flat) {
    if (element.is_string() == text) continue;
    return row_problem(fmt::format("{}: expected {}, read {}", spec.name, text ? "texts" : "numbers", element.dump()));
  }
  // A nesting with the model's number of axes is sent as it is, and the server checks it. A flat list is accepted too,
  // because a CSV cell can hold nothing else without JSON.
  if (shape.size() != spec.shape.size()) {
    const auto count = static_cast<std::int64_t>(flat.size());
    const auto reshaped = shape_of_flat(spec, count);
    if (!reshaped) {
      return row_problem(fmt::format("{}: {} values do not make a sample of shape [{}]", spec.name, count,
                                     fmt::join(spec.shape, ",")));
    }
    shape = *reshaped;
  }
  // Each row is a request of one sample; the server forms the batches.
  shape.insert(shape.begin(), 1);
  return json{{"name", spec.name}, {"shape", shape}, {"datatype", to_string(spec.datatype)}, {"data", std::move(flat)}};
}

// Invalid UTF-8 is replaced rather than thrown at: one bad row must not end the job.
std::string request_text(const json& request) { return request.dump(-1, ' ', false, json::error_handler_t::replace); }

std::optional<std::string> id_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? std::optional(value.dump()) : std::nullopt;
}

// The value of one CSV cell: a JSON array, a text for BYTES, or numbers separated by spaces ("1 2 3").
Result<json> value_of_cell(const TensorSpec& spec, std::string_view cell) {
  if (cell.starts_with('[')) {
    json value = json::parse(cell, nullptr, false);
    if (value.is_discarded())
      return row_problem(fmt::format("{}: not a JSON array: {}", spec.name, cell.substr(0, 60)));
    return value;
  }
  if (spec.datatype == Datatype::bytes) {
    if (!is_utf8(cell)) return row_problem(fmt::format("{}: not UTF-8", spec.name));
    return json(std::string(cell));
  }
  json values = json::array();
  for (const auto word : text::split(cell, ' ')) {
    if (word.empty()) continue;
    json number = json::parse(word, nullptr, false);
    if (number.is_discarded() || !(number.is_number() || number.is_boolean())) {
      return row_problem(fmt::format("{}: not a number: {}", spec.name, word.substr(0, 60)));
    }
    values.push_back(std::move(number));
  }
  // A scalar input takes a value, not an array of one value.
  if (spec.shape.empty() && values.size() == 1) return values[0];
  return values;
}

// The fields of one row of CSV.
Result<std::vector<std::string>> fields_of(const Row& row) {
  formats::Problems problems("row");
  formats::CsvReader reader(row.text, problems);
  std::vector<formats::CsvField> fields;
  const bool read = reader.next(fields);
  if (!problems.empty() || !read) return row_problem("not a CSV row");
  std::vector<std::string> texts;
  for (const auto& field : fields) texts.emplace_back(field.text);
  return texts;
}

}  // namespace

std::string_view to_string(RowFormat format) { return format == RowFormat::csv ? "csv" : "jsonl"; }

std::optional<RowFormat> parse_row_format(std::string_view name) {
  const std::string lower = text::lower(name);
  if (lower == "csv" || lower.ends_with(".csv")) return RowFormat::csv;
  if (lower == "jsonl" || lower.ends_with(".jsonl") || lower.ends_with(".ndjson")) return RowFormat::jsonl;
  return std::nullopt;
}

// ---- Cutting ----

// RFC 4180: a quote opens a field only at its beginning; inside, two quotes in a row stand for one.
void RowSplitter::follow_quotes(char c) {
  const bool opens = at_field_begin_ || just_closed_;
  just_closed_ = quoted_ && c == '"';
  if (c == '"') quoted_ = !quoted_ && opens;
  at_field_begin_ = !quoted_ && (c == ',' || c == '\n');
}

// Moves scanned_ to the end of the current row. False: more input is needed. Each byte is scanned once, so a row that
// arrives in many pieces costs linear time.
bool RowSplitter::scan() {
  for (; scanned_ < text_.size(); ++scanned_) {
    const char c = text_[scanned_];
    if (format_ == RowFormat::csv) follow_quotes(c);
    if (c != '\n') continue;
    if (!quoted_) return true;
    ++lines_in_;
  }
  return ended_ && (scanned_ > begin_ || too_long_);
}

std::optional<Row> RowSplitter::next() {
  // The mark may be split over the first two pieces, so wait until it can be told.
  if (first_ && text_.size() < kByteOrderMark.size() && !ended_) return std::nullopt;
  if (first_ && text_.starts_with(kByteOrderMark)) begin_ = scanned_ = kByteOrderMark.size();
  first_ = false;
  while (problem_.empty()) {
    const bool complete = scan();
    if (ended_ && quoted_) {
      problem_ = fmt::format("line {}: a quoted field that begins in this row is never closed", line_);
      return std::nullopt;
    }
    // The text of a row that is too long is dropped as it arrives, so memory stays bounded.
    too_long_ |= scanned_ - begin_ > row_bytes_max_;
    if (too_long_ || begin_ > kBufferSlack) {
      const std::size_t drop = too_long_ ? scanned_ : begin_;
      text_.erase(0, drop);
      scanned_ -= drop;
      begin_ = 0;
    }
    if (!complete) return std::nullopt;
    if (auto row = take(scanned_ - begin_)) return row;
  }
  return std::nullopt;
}

// Returns the current row of `length` bytes, or nothing if it is blank, and moves to the next. Blank lines get no row
// number but count as lines, so that error messages name the line that an editor shows.
std::optional<Row> RowSplitter::take(std::size_t length) {
  std::string_view text(text_.data() + begin_, length);
  if (text.ends_with('\r')) text.remove_suffix(1);
  const bool blank = !too_long_ && text::trim(text).empty();
  std::optional<Row> row;
  if (!blank) {
    const bool header = format_ == RowFormat::csv && !header_seen_;
    header_seen_ = true;
    row = Row{header ? 0 : ++rows_, line_, too_long_ ? std::string() : std::string(text), too_long_};
  }
  scanned_ = std::min(scanned_ + 1, text_.size());
  begin_ = scanned_;
  line_ += 1 + lines_in_;
  lines_in_ = 0;
  too_long_ = false;
  return row;
}

// ---- Requests ----

Result<Nothing> RowTranslator::read_header(const Row& header) {
  auto fields = fields_of(header);
  if (!fields) return row_problem(fmt::format("line {}: {}", header.line, fields.error().message));
  for (auto& field : *fields) {
    const std::string name(text::trim(field));
    if (name != "id" && find_row_input(inputs_, name) == nullptr) {
      return row_problem(fmt::format(
          "line {}: column {}: not an input of the model; its inputs are {}. The first line must name the columns",
          header.line, name, known_inputs(inputs_)));
    }
    if (std::ranges::count(columns_, name) > 0) {
      return row_problem(fmt::format("line {}: column {}: the name is used twice", header.line, name));
    }
    columns_.push_back(name);
  }
  return Nothing{};
}

Result<std::string> RowTranslator::request_of(const Row& row) const {
  if (row.too_long) return row_problem(fmt::format("longer than {} bytes", kRowBytesMax));
  // JSON parsers take a zero byte for the end of the text and would ignore the rest of the row.
  if (row.text.find('\0') != std::string::npos) return row_problem("contains a zero byte");
  return format_ == RowFormat::csv ? from_csv(row) : from_json(row);
}

std::string RowTranslator::id_of(const Row& row) const {
  // A model may have an input named `id`; then the column is data.
  if (find_row_input(inputs_, "id") != nullptr) return "";
  if (format_ == RowFormat::csv) {
    const auto column = static_cast<std::size_t>(std::ranges::find(columns_, "id") - columns_.begin());
    const auto fields = fields_of(row);
    return fields && column < fields->size() && column < columns_.size() ? (*fields)[column] : "";
  }
  const json value = json::parse(row.text, nullptr, false);
  if (!value.is_object() || !value.contains("id")) return "";
  return id_text(value["id"]).value_or("");
}

Result<std::string> RowTranslator::from_json(const Row& row) const {
  json value = json::parse(row.text, nullptr, false);
  if (!value.is_object()) return row_problem("not a JSON object");
  // The row is a whole request already. It is passed on unchanged and the server validates it.
  if (value.contains("inputs") && value["inputs"].is_array()) return row.text;
  json request = json::object();
  json inputs = json::array();
  for (const auto& [key, data] : value.items()) {
    const TensorSpec* spec = find_row_input(inputs_, key);
    if (key == "id" && spec == nullptr) {
      const auto id = id_text(data);
      if (!id) return row_problem("id: expected a string or a number");
      request["id"] = *id;
      continue;
    }
    if (spec == nullptr) {
      return row_problem(fmt::format("{}: not an input of the model; its inputs are {}", key, known_inputs(inputs_)));
    }
    TANGRAM_TRY(auto tensor, row_tensor_of(*spec, data));
    inputs.push_back(std::move(tensor));
  }
  if (inputs.empty()) return row_problem("the row has no input");
  request["inputs"] = std::move(inputs);
  return request_text(request);
}

Result<std::string> RowTranslator::from_csv(const Row& row) const {
  TANGRAM_TRY(auto fields, fields_of(row));
  if (fields.size() != columns_.size()) {
    return row_problem(fmt::format("the row has {} fields, the header has {}", fields.size(), columns_.size()));
  }
  json request = json::object();
  json inputs = json::array();
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const TensorSpec* spec = find_row_input(inputs_, columns_[i]);
    if (spec == nullptr) {
      request["id"] = fields[i];
      continue;
    }
    // An empty cell omits the input, except for BYTES, where it is the empty text.
    if (fields[i].empty() && spec->datatype != Datatype::bytes) continue;
    TANGRAM_TRY(const auto value, value_of_cell(*spec, fields[i]));
    TANGRAM_TRY(auto tensor, row_tensor_of(*spec, value));
    inputs.push_back(std::move(tensor));
  }
  if (inputs.empty()) return row_problem("the row has no input");
  request["inputs"] = std::move(inputs);
  return request_text(request);
}

Result<std::vector<TensorSpec>> read_model_inputs(const std::string& metadata) {
  const json told = json::parse(metadata, nullptr, false);
  const Error wrong = row_problem(fmt::format("not a valid model description: {}", metadata.substr(0, 200)));
  if (!told.is_object() || !told.contains("inputs") || !told["inputs"].is_array()) return wrong;
  std::vector<TensorSpec> inputs;
  for (const auto& input : told["inputs"]) {
    if (!input.is_object() || !input.contains("name") || !input["name"].is_string()) return wrong;
    const bool named = input.contains("datatype") && input["datatype"].is_string();
    const auto datatype = named ? parse_datatype(input["datatype"].get<std::string>()) : std::nullopt;
    if (!datatype || !input.contains("shape") || !input["shape"].is_array() || input["shape"].empty()) return wrong;
    TensorSpec spec{.name = input["name"].get<std::string>(), .datatype = *datatype, .shape = {}};
    // The first axis is the batch, which a TensorSpec does not include.
    for (std::size_t i = 1; i < input["shape"].size(); ++i) {
      if (!input["shape"][i].is_number_integer()) return wrong;
      spec.shape.push_back(input["shape"][i].get<std::int64_t>());
    }
    inputs.push_back(std::move(spec));
  }
  return inputs;
}

}  // namespace tangram::client
