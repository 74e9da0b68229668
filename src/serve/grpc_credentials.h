// TLS for gRPC, with certificates that can be replaced.
#pragma once

#ifdef TANGRAM_WITH_GRPC

#include <grpc/grpc_security.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "host/mutex.h"
#include "host/tls.h"

namespace tangram::serve {

// Server credentials whose certificates can be replaced. The C++ classes of gRPC offer no such thing, but its C core
// does: it asks before every handshake whether there are new ones.
class ReplaceableCredentials final : public grpc::ServerCredentials {
 public:
  explicit ReplaceableCredentials(host::TlsMaterial material);
  ~ReplaceableCredentials() override;

  // Takes effect with the next handshake. Any thread.
  void replace(const host::TlsMaterial& material) EXCLUDES(mutex_);
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  // Called by gRPC before a handshake, on any thread. `self` is the credentials.
  static grpc_ssl_certificate_config_reload_status fetch(void* self, grpc_ssl_server_certificate_config** config);
  // The certificates, unless gRPC has them already.
  grpc_ssl_certificate_config_reload_status fetch_into(grpc_ssl_server_certificate_config** config) EXCLUDES(mutex_);
  int AddPortToServer(const std::string& address, grpc_server* server) override;

  host::Mutex mutex_;
  host::TlsMaterial material_ GUARDED_BY(mutex_);
  bool fetched_ GUARDED_BY(mutex_) = false;
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace tangram::serve

#endif
