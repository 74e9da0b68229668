// A file that is written by a thread of its own.
//
// Two buffers take turns: add() appends to buffer_, the thread swaps it with an empty one and writes without holding
// the lock. add() blocks only if the disk falls kHeldMax behind: a recording with gaps could not be replayed, so
// waiting is better than dropping lines.

#include "serve/recording_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tangram::serve {
namespace {

Error recording_problem(const std::string& path, int number) {
  const bool denied = number == EACCES || number == EPERM;
  return {denied ? ErrorCode::denied : ErrorCode::unavailable,
          fmt::format("cannot write {}: {}", path, std::strerror(number))};
}

}  // namespace

Result<std::unique_ptr<RecordingFile>> RecordingFile::open(const std::string& path, Config config) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return recording_problem(path, errno);
  return std::make_unique<RecordingFile>(descriptor, path, std::move(config));
}

RecordingFile::RecordingFile(int descriptor, std::string path, Config config)
    : descriptor_(descriptor), path_(std::move(path)), config_(std::move(config)), thread_([this] { run(); }) {}

RecordingFile::~RecordingFile() {
  finish();
  close(descriptor_);
}

void RecordingFile::add(std::string_view line) {
  const host::MutexLock lock(mutex_);
  // Ends when the thread has taken the buffer, or when writing has failed and nothing will be taken any more.
  while (!failed_ && buffer_.size() >= kHeldMax) changed_.wait(mutex_);
  if (failed_) return;
  // Notify once per piece and not once per line. A smaller rest is written when write_every has passed.
  const bool had_piece = buffer_.size() >= kPiece;
  buffer_ += line;
  if (!had_piece && buffer_.size() >= kPiece) changed_.notify_all();
}

// Can be called again, as the destructor does.
bool RecordingFile::finish() {
  {
    const host::MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const host::MutexLock lock(mutex_);
  return !failed_;
}

// Ends after a failure, or when everything is written and no more will come.
void RecordingFile::run() {
  std::string taken;
  const host::MutexLock lock(mutex_);
  while (!failed_ && !(ending_ && buffer_.empty())) {
    const auto until = std::chrono::steady_clock::now() + config_.write_every;
    while (!ending_ && buffer_.size() < kPiece && changed_.wait_until(mutex_, until)) continue;
    taken.swap(buffer_);
    // write() can block for long; add() must not wait for it.
    mutex_.unlock();
    // For an add() that waits for room.
    changed_.notify_all();
    write_all(taken);
    taken.clear();
    mutex_.lock();
  }
}

// Writes everything, however little the system takes at a time. A recording with a gap is useless, so it ends at the
// first error, and add() then discards its lines instead of blocking the scheduler.
void RecordingFile::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const Error problem = recording_problem(path_, errno);
      {
        const host::MutexLock lock(mutex_);
        failed_ = true;
      }
      changed_.notify_all();
      if (config_.on_problem) config_.on_problem(problem);
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace tangram::serve
