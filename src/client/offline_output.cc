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
  // Text between JSON's values may have line ends, strings may not.
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line + '\n';
}

// Reasons quote the input, which may be cut or may not be UTF-8 at all; the line is JSON nevertheless.
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
  // The content is on the disk and the name stands; a folder that cannot be synced takes nothing of that away.
  static_cast<void>(file_.sync_directory());
  return Nothing{};
}

std::string failed_path(const std::string& output) { return output + ".failed.jsonl"; }

Result<Nothing> write_output(const OfflineStore& store, const OfflineJob& job) {
  WholeFile answers(job.output, job.id);
  std::optional<WholeFile> failures;
  std::uint64_t expected = 0;
  auto written = store.each_result([&](const RowResult& result) -> Result<Nothing> {
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
  // The answers come last: whoever sees them may rely on the list of failures.
  std::error_code ignored;
  if (!failures) std::filesystem::remove(failed_path(job.output), ignored);  // Of an earlier run.
  if (failures) {
    TANGRAM_RETURN_IF_ERROR(failures->finish());
  }
  return answers.finish();
}

}  // namespace tangram::client
