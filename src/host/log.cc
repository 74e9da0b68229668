// The log: lines of JSON, collected under a mutex and written by one thread.
//
// A slow reader of the log must not slow down requests, so write() only appends to a buffer of bounded size. When the
// buffer is full, the line is dropped, and the next write to the descriptor is followed by one line with the count.

#include "host/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "base/json_reader.h"

namespace tangram::host {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames{"error", "warning", "info", "requests"};

}  // namespace

std::string_view to_string(LogLevel level) { return kLevelNames[static_cast<std::size_t>(level)]; }

std::optional<LogLevel> parse_log_level(std::string_view name) {
  const auto found = std::ranges::find(kLevelNames, name);
  if (found == kLevelNames.end()) return std::nullopt;
  return static_cast<LogLevel>(found - kLevelNames.begin());
}

LogWriter::LogWriter(int descriptor) : descriptor_(descriptor), thread_([this] { run(); }) {}

LogWriter::~LogWriter() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void LogWriter::write(std::string_view line) {
  {
    const MutexLock lock(mutex_);
    // Dropped rather than waited for: requests must not stall on a reader of the log.
    if (buffer_.size() + line.size() + 1 > kBufferMax) {
      ++dropped_;
      return;
    }
    buffer_ += line;
    buffer_ += '\n';
  }
  changed_.notify_one();
}

void LogWriter::write(LogLine& line) {
  if (line.level() <= level()) write(line.done());
}

// Ends only when the writer is stopping and the buffer is empty, so that the last lines before an exit are written.
void LogWriter::run() {
  const MutexLock lock(mutex_);
  std::string taken;
  while (true) {
    while (!stopping_ && buffer_.empty()) changed_.wait(mutex_);
    if (buffer_.empty()) return;
    taken.clear();
    // The two strings change places and keep their capacity, so a steady load allocates nothing here.
    taken.swap(buffer_);
    if (dropped_ > 0) {
      taken +=
          LogLine(LogLevel::warning, "log_lines_dropped").integer("count", static_cast<std::int64_t>(dropped_)).done() +
          '\n';
      dropped_ = 0;
    }
    // write(2) may block for as long as the reader of a pipe pleases. Without the mutex, request threads can still
    // append.
    mutex_.unlock();
    std::string_view rest = taken;
    while (!rest.empty()) {
      const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
      // The rest is lost: there is no other place to report that the log cannot be written.
      if (written < 0 && errno != EINTR) break;
      if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
    }
    mutex_.lock();
  }
}

LogLine::LogLine(LogLevel level, std::string_view event) : level_(level) {
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto milliseconds = now.time_since_epoch().count() % 1000;
  // The level `requests` chooses how much is written; the lines themselves are of level info, which log collectors
  // know.
  line_ = fmt::format(R"({{"time":"{:%Y-%m-%dT%H:%M:%S}.{:03}Z","level":"{}","event":"{}")",
                      fmt::gmtime(std::chrono::system_clock::to_time_t(now)), milliseconds,
                      to_string(std::min(level, LogLevel::info)), event);
}

// The constructor has written the first three members, so each further one begins with a comma.
void LogLine::key(std::string_view key) {
  line_ += ',';
  append_json_string(line_, key);
  line_ += ':';
}

LogLine& LogLine::text(std::string_view name, std::string_view value) {
  key(name);
  append_json_string(line_, value);
  return *this;
}

LogLine& LogLine::number(std::string_view name, double value) {
  key(name);
  append_json_number(line_, value);
  return *this;
}

LogLine& LogLine::integer(std::string_view name, std::int64_t value) {
  key(name);
  append_json_number(line_, value);
  return *this;
}

}  // namespace tangram::host
