// The log: lines of JSON, collected under a mutex and written by one thread.
//
// A slow reader of the log must not slow down requests, so write() only appends to a buffer of bounded size. When the
// buffer is full, the line is dropped, and the next write to the descriptor is followed by one line with the count.

#include "host/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>

#include "base/json_reader.h"

namespace tangram::host {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames{"error", "warning", "info", "requests"};

// How often a writer that nobody reads looks whether it is to stop, and how long it then still waits.
constexpr int kLookEveryMs = 100;
constexpr int kLastWordsMs = 500;

bool is_no_file(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode);
}

}  // namespace

std::string_view to_string(LogLevel level) { return kLevelNames[static_cast<std::size_t>(level)]; }

std::optional<LogLevel> parse_log_level(std::string_view name) {
  const auto found = std::ranges::find(kLevelNames, name);
  if (found == kLevelNames.end()) return std::nullopt;
  return static_cast<LogLevel>(found - kLevelNames.begin());
}

LogWriter::LogWriter(int descriptor)
    : descriptor_(descriptor), may_block_(is_no_file(descriptor)), thread_([this] { run(); }) {}

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

// A pipe or socket that can be written takes PIPE_BUF bytes without blocking, so longer texts go in such pieces: a
// thread that blocked in write(2) could not be ended before somebody reads.
bool LogWriter::write_out(std::string_view text) {
  int waited_ms = 0;
  while (!text.empty()) {
    if (may_block_) {
      pollfd ready{descriptor_, POLLOUT, 0};
      const int found = poll(&ready, 1, kLookEveryMs);
      if (found < 0 && errno == EINTR) continue;
      if (found == 0) {
        const MutexLock lock(mutex_);
        waited_ms = stopping_ ? waited_ms + kLookEveryMs : 0;
        if (waited_ms >= kLastWordsMs) return false;
        continue;
      }
    }
    const std::size_t piece = may_block_ ? std::min<std::size_t>(text.size(), PIPE_BUF) : text.size();
    const ssize_t written = ::write(descriptor_, text.data(), piece);
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Ends only when the writer is stopping and the buffer is empty, so that the last lines before an exit are written,
// unless nobody reads them.
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
    // What is not written is lost: there is no other place to report that the log cannot be written.
    const bool all = write_out(taken);
    mutex_.lock();
    if (!all && stopping_) return;
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
