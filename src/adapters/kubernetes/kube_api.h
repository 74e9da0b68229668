// Kubernetes' API server as the controller sees it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tangram::adapters {

struct KubeQuestion {
  std::string method = "GET";
  std::string path;  // With its query.
  std::string body = {};
  std::string content_type = "application/json";
};

struct KubeAnswer {
  int status = 0;
  std::string body;
  std::optional<Duration> retry_after;
};

// A stream of events, one JSON object a line.
class KubeWatch {
 public:
  virtual ~KubeWatch() = default;
  // Appends the lines that have come and returns at once. False: the stream has ended, after what it appended.
  virtual bool poll(std::vector<std::string>& lines) = 0;
};

// Where requests go. Errors are those of the connection; whatever the server answers is an answer.
class KubeApi {
 public:
  virtual ~KubeApi() = default;
  virtual Result<KubeAnswer> ask(const KubeQuestion& question) = 0;
  // An error or a null with the status of a refusal in `refused`.
  virtual Result<std::unique_ptr<KubeWatch>> watch(const std::string& path, int& refused) = 0;
};

}  // namespace tangram::adapters
