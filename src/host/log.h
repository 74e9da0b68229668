// The log: one JSON object for each line, for log collectors.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "host/mutex.h"

namespace tangram::host {

// How much is written. Each level includes those before it.
enum class LogLevel : std::uint8_t { error, warning, info, requests };
std::string_view to_string(LogLevel level);
std::optional<LogLevel> parse_log_level(std::string_view name);

class LogLine;

// Writes lines to a descriptor from its own thread, so that a full pipe does not block the threads that log. Lines that
// do not fit into the buffer are dropped and counted. Half a second after its end begins, lines that nobody reads are
// lost.
class LogWriter {
 public:
  static constexpr std::size_t kBufferMax = 4 << 20;

  explicit LogWriter(int descriptor);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Adds a line end.
  void write(std::string_view line);
  // The same for a line of a level that is wanted; others are dropped.
  void write(LogLine& line);

  // Any thread, at any time.
  LogLevel level() const { return level_.load(std::memory_order_relaxed); }
  void set_level(LogLevel level) { level_ = level; }

 private:
  // The writing thread. Returns once stopping_ is set and the buffer is written.
  void run();
  // False: it cannot be written, or the writer is to stop and nobody reads.
  bool write_out(std::string_view text) EXCLUDES(mutex_);

  int descriptor_;
  const bool may_block_;  // It is no file: a pipe, a terminal.
  std::atomic<LogLevel> level_{LogLevel::info};
  Mutex mutex_;
  CondVar changed_;  // With mutex_: there is something to write, or the writer is to stop.
  std::string buffer_ GUARDED_BY(mutex_);
  std::uint64_t dropped_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// One line under construction: {"time":"...","level":"info","event":"started",...}
class LogLine {
 public:
  LogLine(LogLevel level, std::string_view event);
  LogLine& text(std::string_view key, std::string_view value);
  LogLine& number(std::string_view key, double value);
  LogLine& integer(std::string_view key, std::int64_t value);
  LogLevel level() const { return level_; }
  std::string done() { return std::move(line_) + '}'; }

 private:
  void key(std::string_view key);

  LogLevel level_;
  std::string line_;
};

}  // namespace tangram::host
