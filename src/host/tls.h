// TLS 1.2 and 1.3 over OpenSSL, on sockets that the caller watches.
//
// By default nothing here waits: a stream says what its socket must be ready for, and the caller tries again then.
// Certificates and keys come as PEM text, so that the caller decides when to read their files again.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/mutex.h"

// As OpenSSL declares them, whose headers only tls.cc includes.
using SSL = struct ssl_st;
using SSL_CTX = struct ssl_ctx_st;

namespace tangram::host {

// Of one side, as PEM. What the other side has to show is in `authorities`.
struct TlsMaterial {
  std::string certificate;  // The chain, own certificate first. Empty for a client that shows none.
  std::string key;
  std::string authorities;  // Empty: a server asks clients for nothing, and a client trusts those of the system.
  // The names of their files, for error messages; empty if unknown.
  std::string certificate_file = {};
  std::string key_file = {};
  std::string authorities_file = {};
};

// Who begins a handshake, and who answers it.
enum class TlsSide : std::uint8_t { client, server };

// Certificates and keys ready for use, by any number of streams on any thread.
class TlsContext {
 public:
  // The error says which of the three cannot be used, in which file, and why.
  static Result<std::shared_ptr<const TlsContext>> for_server(const TlsMaterial& material);
  static Result<std::shared_ptr<const TlsContext>> for_client(const TlsMaterial& material);
  // For peers that know each other by the fingerprints of certificates that they made themselves: TLS 1.3 only, both
  // sides show a certificate, and neither is judged here. The caller compares TlsStream::peer_fingerprint() before it
  // sends a secret or believes a byte.
  static Result<std::shared_ptr<const TlsContext>> for_pinned(TlsSide side, const TlsMaterial& material);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  SSL_CTX* raw() const { return context_; }

 private:
  explicit TlsContext(SSL_CTX* context) : context_(context) {}

  SSL_CTX* context_;
};

// Certificates and keys that can be replaced while connections are open. Open connections keep theirs. Any thread.
class TlsSlot {
 public:
  std::shared_ptr<const TlsContext> get() const {
    const MutexLock lock(mutex_);
    return context_;
  }
  void set(std::shared_ptr<const TlsContext> context) {
    const MutexLock lock(mutex_);
    context_ = std::move(context);
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const TlsContext> context_ GUARDED_BY(mutex_);
};

// What a server answers clients that name protocols in the handshake (ALPN): nothing, or that it speaks HTTP/2.
enum class Alpn : std::uint8_t { none, h2 };

// One encrypted connection over a socket, which stays the caller's.
class TlsStream {
 public:
  enum class Status : std::uint8_t {
    done,        // `bytes` were moved.
    want_read,   // When the socket can be read, ask again.
    want_write,  // When the socket can be written, ask again with at least the same bytes.
    closed,      // The other side sends no more.
    failed,      // The connection cannot be used any more; why() says why.
  };
  struct Moved {
    Status status = Status::done;
    std::size_t bytes = 0;
  };

  // The client's side checks that the certificate is `server_name`'s: a DNS name, or an address in numbers.
  static std::unique_ptr<TlsStream> accept(std::shared_ptr<const TlsContext> context, int socket,
                                           Alpn alpn = Alpn::none);
  static std::unique_ptr<TlsStream> connect(std::shared_ptr<const TlsContext> context, int socket,
                                            const std::string& server_name);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Performs the TLS handshake. read() and write() do so as well if it has not been done.
  Moved shake_hands();
  // As many whole records as fit into the buffer, which has room for one (16 KiB) at least.
  Moved read(char* buffer, std::size_t room);
  Moved write(const char* bytes, std::size_t count);
  // Sends close_notify, if that is possible without waiting.
  void say_goodbye();

  bool established() const;
  // The first bytes were a request in plain HTTP.
  bool spoke_plain_http() const { return plain_http_; }
  const std::string& why() const { return why_; }
  // Common name and DNS names of the certificate that the other side has shown and that was found good.
  std::vector<std::string> peer_names() const;
  // SHA-256 of the certificate that the other side has shown, good or not, in 64 hexadecimal digits; empty: none yet.
  std::string peer_fingerprint() const;

  // Whether calls may block on the socket, within its time limits. Without it they never block, even on a blocking
  // socket.
  void set_waiting(bool waiting) { waiting_ = waiting; }

  // For the socket's side of OpenSSL.
  Alpn alpn() const { return alpn_; }
  int socket() const { return socket_; }
  bool waiting() const { return waiting_; }

 private:
  TlsStream(std::shared_ptr<const TlsContext> context, int socket);
  // Translates the return value of the SSL call just made. After a failure, sets failed_, why_ and plain_http_.
  Moved outcome(int returned);

  std::shared_ptr<const TlsContext> context_;
  SSL* ssl_;
  int socket_;
  Alpn alpn_ = Alpn::none;
  bool waiting_ = false;
  bool plain_http_ = false;
  bool failed_ = false;
  std::string why_;
};

// The same result as recv() and send() would return, with errno: EAGAIN if the stream waits for its socket, EPROTO if
// the connection has failed.
ssize_t bytes_moved(const TlsStream::Moved& moved);

// Common name and DNS names of a certificate in PEM, good or not.
std::vector<std::string> certificate_names(const std::string& pem);

// SHA-256 of the first certificate of a PEM text, in 64 hexadecimal digits, as TlsStream::peer_fingerprint() says it;
// empty if there is none.
std::string certificate_fingerprint(const std::string& pem);
// A new key (P-256) and a certificate for it that it has signed itself, for those who pin it.
TlsMaterial make_certificate(const std::string& name);

// SHA-256 of the two parts one after the other.
void sha256(std::string_view first, std::string_view second, std::uint8_t* digest);
// True if two runs of `count` bytes are equal, in a time that does not depend on where they differ.
bool equal_in_constant_time(const void* a, const void* b, std::size_t count);
// Fills with random bytes that are fit for keys.
void fill_with_secrets(std::uint8_t* bytes, std::size_t count);

}  // namespace tangram::host
