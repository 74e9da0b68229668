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

void LogWriter::run() {
  const MutexLock lock(mutex_);
  std::string taken;
  while (true) {
    while (!stopping_ && buffer_.empty()) changed_.wait(mutex_);
    if (buffer_.empty()) return;
    taken.clear();
    taken.swap(buffer_);
    if (dropped_ > 0) {
      taken +=
          LogLine(LogLevel::warning, "log_lines_dropped").integer("count", static_cast<std::int64_t>(dropped_)).done() +
          '\n';
      dropped_ = 0;
    }
    mutex_.unlock();
    std::string_view rest = taken;
    while (!rest.empty()) {
      const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
      if (written < 0 && errno != EINTR) break;
      if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
    }
    mutex_.lock();
  }
}

LogLine::LogLine(LogLevel level, std::string_view event) : level_(level) {
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto milliseconds = now.time_since_epoch().count() % 1000;
  line_ = fmt::format(R"({{"time":"{:%Y-%m-%dT%H:%M:%S}.{:03}Z","level":"{}","event":"{}")",
                      fmt::gmtime(std::chrono::system_clock::to_time_t(now)), milliseconds,
                      to_string(std::min(level, LogLevel::info)), event);
}

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
