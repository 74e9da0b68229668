// The file of `tangram serve --record` as it grows.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "base/time.h"

namespace tangram::serve {

// Takes lines from one thread and writes them from another, so that the scheduler does not wait for the disk unless
// that falls far behind. What was added is in the file within about `write_every`, whatever becomes of the process
// then.
class RecordingFile {
 public:
  struct Config {
    Duration write_every = std::chrono::seconds(1);
    // Told once, from any thread, why the recording cannot be written; it ends there, and whoever adds goes on.
    std::function<void(const Error&)> on_problem = {};
  };

  // Errors: the file cannot be opened.
  static Result<std::unique_ptr<RecordingFile>> open(const std::string& path, Config config);
  RecordingFile(int descriptor, std::string path, Config config);
  ~RecordingFile();
  RecordingFile(const RecordingFile&) = delete;
  RecordingFile& operator=(const RecordingFile&) = delete;

  void add(std::string_view line);
  // Writes what is left; nothing may be added any more. False: not all of it is in the file.
  bool finish();

 private:
  static constexpr std::size_t kPiece = 256 << 10;    // So much is not kept waiting.
  static constexpr std::size_t kHeldMax = 256 << 20;  // So much is: then whoever adds waits for the disk.

  void run();
  void write_all(std::string_view bytes);

  int descriptor_;
  std::string path_;
  Config config_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string buffer_;
  bool ending_ = false;
  bool failed_ = false;
  std::thread thread_;
};

}  // namespace tangram::serve
