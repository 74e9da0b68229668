// SHA-256 of model files, computed on a thread of its own: weights are gigabytes, and an event loop must not wait.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "host/mutex.h"

namespace tangram::node {

class ModelDigests {
 public:
  // `wake` is called on the thread when a digest is known.
  explicit ModelDigests(std::function<void()> wake);
  ~ModelDigests();
  ModelDigests(const ModelDigests&) = delete;
  ModelDigests& operator=(const ModelDigests&) = delete;

  // The digest of the weights whose files are `path` and `path` with an ending, such as .onnx: one file's own, or that
  // of a list of several. Empty: there is no such file. Nothing: it is being computed. A file that has changed since,
  // by time or size, is read again.
  std::optional<std::string> find(const std::string& path) EXCLUDES(mutex_);

 private:
  struct Known {
    std::string stamp;  // Names, times and sizes.
    std::string digest;
  };

  void run() EXCLUDES(mutex_);

  std::function<void()> wake_;
  host::Mutex mutex_;
  host::CondVar changed_;
  std::map<std::string, Known> known_ GUARDED_BY(mutex_);       // By path.
  std::map<std::string, std::string> asked_ GUARDED_BY(mutex_);  // The stamps of those that are being computed.
  std::deque<std::string> queue_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tangram::node
