// Writes the results of a finished job: answers to the output file, failures to a file beside it. Each file appears
// under its name only when it is complete and synced.
#include "client/offline_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/detail/file_failure.h"

namespace tangram::client {
namespace {

constexpr std::size_t kPieceBytes = 256 << 10;

// {"row":7,"model_name":...}: the answer with the number of its row in front, on one line.
std::string answer_line(const RowResult& result) {
  std::string line = fmt::format("{{\"row\":{}", result.number);
  const bool more = result.text.find_first_not_of(" \t\r\n", 1) != result.text.rfind('}');
  if (more) line += ',';
  line.append(result.text, 1);
  // In JSON, line ends can only be white space between values (strings escape them), so blanks can replace them.
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line + '\n';
}

// Reasons quote the input, which may be cut or not UTF-8. Invalid bytes are replaced, so the line is always JSON.
std::string failed_line(const RowResult& result) {
  nlohmann::ordered_json line{{"row", result.number}, {"line", result.line}};
  if (!result.id.empty()) line["id"] = result.id;
  line["reason"] = result.text;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace

Result<Nothing> WholeFile::append(std::string_view text) {
  buffer_.append(text);
  return buffer_.size() < kPieceBytes ? Result<Nothing>(Nothing{}) : flush();
}

Result<Nothing> WholeFile::flush() {
  int error = file_.error();
  if (error == 0) error = file_.append(buffer_);
  if (error != 0) return file_failure(file_.temporary(), "cannot be written", error);
  buffer_.clear();
  return Nothing{};
}

Result<Nothing> WholeFile::finish() {
  TANGRAM_RETURN_IF_ERROR(flush());
  if (const int error = file_.sync()) return file_failure(file_.temporary(), "cannot be written", error);
  if (const int error = file_.take_name()) return file_failure(file_.target(), "cannot be written", error);
  // The content is on disk under its name. A failed sync of the folder is ignored, since it does not undo that.
  static_cast<void>(file_.sync_directory());
  return Nothing{};
}

std::string failed_path(const std::string& output) { return output + ".failed.jsonl"; }

Result<Nothing> write_output(const OfflineStore& store, const OfflineJob& job) {
  WholeFile answers(job.output, job.id);
  std::optional<WholeFile> failures;
  std::uint64_t expected = 0;
  auto written = store.each_result([&](const RowResult& result) -> Result<Nothing> {
    // A gap would shift answers against their rows, so it is an error rather than a shorter file.
    if (result.number != ++expected)
      return Error{ErrorCode::invalid, fmt::format("{}: row {} is missing", job.id, expected)};
    if (result.ok) return answers.append(answer_line(result));
    if (!failures) failures.emplace(failed_path(job.output), job.id);
    return failures->append(failed_line(result));
  });
  if (!written) return written;
  if (expected != job.rows) {
    return Error{ErrorCode::invalid, fmt::format("{}: {} of {} rows have a result", job.id, expected, job.rows)};
  }
  // The answers come last: a reader who finds them can rely on the list of failures being final.
  std::error_code ignored;
  if (!failures) std::filesystem::remove(failed_path(job.output), ignored);  // Of an earlier run.
  if (failures) {
    TANGRAM_RETURN_IF_ERROR(failures->finish());
  }
  return answers.finish();
}

}  // namespace tangram::client
