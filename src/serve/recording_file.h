// The file of `tangram serve --record` as it grows.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "base/time.h"
#include "host/mutex.h"

namespace tangram::serve {

// Takes lines from one thread and writes them from another, so that the scheduler does not wait for the disk unless
// that falls far behind. An added line is in the file within about `write_every`, even if the process crashes
// afterwards.
class RecordingFile {
 public:
  struct Config {
    Duration write_every = std::chrono::seconds(1);
    // Called once, from any thread, with the reason why the recording cannot be written. It ends there; add() keeps
    // working.
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
  static constexpr std::size_t kPiece = 256 << 10;    // Written as soon as this much is buffered.
  static constexpr std::size_t kHeldMax = 256 << 20;  // With this much buffered, add() waits for the disk.

  // The body of the thread: writes pieces as they fill, until the end or the first failure.
  void run() EXCLUDES(mutex_);
  // Writes all bytes, or sets failed_ and reports the problem.
  void write_all(std::string_view bytes) EXCLUDES(mutex_);

  int descriptor_;
  std::string path_;
  Config config_;
  host::Mutex mutex_;
  host::CondVar changed_;  // With mutex_: any of what follows.
  std::string buffer_ GUARDED_BY(mutex_);
  bool ending_ GUARDED_BY(mutex_) = false;
  bool failed_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tangram::serve
