// Lines of JSON for whoever keeps logs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tangram::serve {

// Writes lines to a descriptor from a thread of its own, so that a full pipe stops nobody. What does not fit into the
// buffer is dropped and counted.
class LogWriter {
 public:
  static constexpr std::size_t kBufferMax = 4 << 20;

  explicit LogWriter(int descriptor);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Adds a line end.
  void write(std::string_view line);

 private:
  void run();

  int descriptor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string buffer_;
  std::uint64_t dropped_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

// One line under construction: {"time":"...","level":"info","event":"started",...}
class LogLine {
 public:
  LogLine(std::string_view level, std::string_view event);
  LogLine& text(std::string_view key, std::string_view value);
  LogLine& number(std::string_view key, double value);
  LogLine& integer(std::string_view key, std::int64_t value);
  std::string done() { return std::move(line_) + '}'; }

 private:
  void key(std::string_view key);

  std::string line_;
};

}  // namespace tangram::serve
