// Server certificates that a reload can replace.
//
// The C core of gRPC calls fetch() before each handshake. It answers "unchanged" until replace() has been called, so a
// handshake costs one lock. Connections that exist keep the certificate that they began with.

#ifdef TANGRAM_WITH_GRPC

#include "serve/grpc_credentials.h"

#include <utility>

namespace tangram::serve {

ReplaceableCredentials::ReplaceableCredentials(host::TlsMaterial material) {
  // Whether clients need certificates is fixed here for the lifetime of the server; a reload only replaces them.
  const auto wanted = material.authorities.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                   : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  // Before the credentials exist: gRPC can fetch as soon as they do.
  replace(material);
  auto* options = grpc_ssl_server_credentials_create_options_using_config_fetcher(wanted, fetch, this);
  credentials_ = grpc_ssl_server_credentials_create_with_options(options);
}

ReplaceableCredentials::~ReplaceableCredentials() { grpc_server_credentials_release(credentials_); }

void ReplaceableCredentials::replace(const host::TlsMaterial& material) {
  const host::MutexLock lock(mutex_);
  material_ = material;
  fetched_ = false;
}

grpc_ssl_certificate_config_reload_status ReplaceableCredentials::fetch(void* self,
                                                                        grpc_ssl_server_certificate_config** config) {
  return static_cast<ReplaceableCredentials*>(self)->fetch_into(config);
}

grpc_ssl_certificate_config_reload_status ReplaceableCredentials::fetch_into(
    grpc_ssl_server_certificate_config** config) {
  const host::MutexLock lock(mutex_);
  // gRPC keeps what it was given, so each material is handed over once.
  if (std::exchange(fetched_, true)) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair{material_.key.c_str(), material_.certificate.c_str()};
  // gRPC requires roots, even where it asks clients for no certificate. The server's own certificate serves as one.
  const std::string& roots = material_.authorities.empty() ? material_.certificate : material_.authorities;
  *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

int ReplaceableCredentials::AddPortToServer(const std::string& address, grpc_server* server) {
  return grpc_server_add_http2_port(server, address.c_str(), credentials_);
}

}  // namespace tangram::serve

#endif
