// The rows of an offline job: a file in, inference requests out, one for each row.
//
// A file is read in pieces, so it may be larger than memory; only the row at hand is held. Blank lines are no rows. A
// row that makes no sense is told apart and costs nothing but itself; a file that makes no sense is refused with its
// line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/tensor.h"

namespace tangram::client {

enum class RowFormat : std::uint8_t { jsonl, csv };

// "jsonl" or "csv".
std::string_view to_string(RowFormat format);
// By the name or by the end of a file's name; nothing for another.
std::optional<RowFormat> parse_row_format(std::string_view name);

// Bytes of one row.
inline constexpr std::size_t kRowBytesMax = std::size_t{64} << 20;

struct Row {
  std::uint64_t number = 0;  // From 1, without blank lines and without the header of a CSV file.
  std::uint64_t line = 0;    // From 1, where it begins.
  std::string text;          // Without the end of its line.
  bool too_long = false;     // More than kRowBytesMax; the text is left out.
};

// Cuts text into rows. In CSV a quoted field may hold line ends.
class RowSplitter {
 public:
  explicit RowSplitter(RowFormat format, std::size_t row_bytes_max = kRowBytesMax)
      : format_(format), row_bytes_max_(row_bytes_max) {}

  // More of the file, after next() has answered nothing.
  void feed(std::string_view bytes) { text_.append(bytes); }
  // There is no more; what is left is the last row.
  void end() { ended_ = true; }
  // The next row, or nothing: more must come, or there is no more. The first row of a CSV file is its header, with
  // number 0.
  std::optional<Row> next();
  // What is wrong with the file: "line 17: the quote is never closed". Empty: nothing.
  const std::string& problem() const { return problem_; }

 private:
  void follow_quotes(char c);
  bool scan();
  std::optional<Row> take(std::size_t length);

  RowFormat format_;
  std::size_t row_bytes_max_;
  std::string text_;
  std::size_t begin_ = 0;    // Of the row at hand.
  std::size_t scanned_ = 0;  // Up to here there is no end of it.
  std::uint64_t line_ = 1;   // Of the row at hand.
  std::uint64_t lines_in_ = 0;
  std::uint64_t rows_ = 0;
  bool header_seen_ = false;
  bool quoted_ = false;
  bool just_closed_ = false;
  bool at_field_begin_ = true;
  bool too_long_ = false;
  bool first_ = true;  // A byte-order mark may come.
  bool ended_ = false;
  std::string problem_;
};

// Makes requests of rows for one model.
//
// A row of JSONL is an object. With an array `inputs` it is a request of the Open Inference Protocol and is sent as it
// stands. Otherwise every key is an input of the model, but for `id`, and its value the data of one sample: a number, a
// text, or arrays of them, nested as the shape is or flat. In CSV the columns are the inputs; a cell holds one value,
// several with blanks between them, or a JSON array.
class RowTranslator {
 public:
  RowTranslator(RowFormat format, std::vector<TensorSpec> inputs) : format_(format), inputs_(std::move(inputs)) {}

  // The first row of a CSV file. The error names the column that is no input.
  Result<Nothing> read_header(const Row& header);
  // The body of the request, or what is wrong with the row.
  Result<std::string> request_of(const Row& row) const;
  // What the row calls itself; empty if it does not, or cannot be read.
  std::string id_of(const Row& row) const;

 private:
  Result<std::string> from_json(const Row& row) const;
  Result<std::string> from_csv(const Row& row) const;

  RowFormat format_;
  std::vector<TensorSpec> inputs_;
  std::vector<std::string> columns_;
};

// What the server tells about the inputs of a model: the body of GET /v2/models/NAME.
Result<std::vector<TensorSpec>> read_model_inputs(const std::string& metadata);

}  // namespace tangram::client
