// The API server over HTTP/1.1 and TLS.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "adapters/kubernetes/kube_api.h"
#include "host/tls.h"

namespace tangram::adapters {

struct KubeServer {
  std::string host;  // A name or an address in numbers.
  std::uint16_t port = 443;
  bool tls = true;
  std::string authorities_file;  // Empty: those of the system.
  std::string token_file;        // Read again for every connection: it is rotated. Empty: no token.
};

// The server of the cluster in which this process is a pod, and its namespace. Errors: this is no pod.
struct InCluster {
  KubeServer server;
  std::string name_space;
};
Result<InCluster> in_cluster();

// Errors: a file cannot be read, or it holds no certificate.
Result<std::unique_ptr<KubeApi>> connect_to_kubernetes(const KubeServer& server);

}  // namespace tangram::adapters
