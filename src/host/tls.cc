// TLS over OpenSSL: contexts from PEM text, streams over sockets that the caller watches, and the digests of secrets.
//
// A stream gives OpenSSL a BIO of its own, so that every byte passes through send() and recv() with the flags chosen
// here. Each SSL call starts with an empty error queue, because SSL_get_error() reads the queue of the thread and would
// otherwise blame this connection for an error of another one.

#include "host/tls.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/check.h"
#include "host/socket.h"

namespace tangram::host {
namespace {

// The largest plaintext of one TLS record, RFC 8446 section 5.1.
constexpr std::size_t kRecordMax = 16 << 10;

// Owners of OpenSSL's objects, so that each early return below frees what was made before it.
template <typename T, void (*release)(T*)>
struct Releaser {
  void operator()(T* held) const { release(held); }
};
void release_stack(STACK_OF(X509_INFO) * stack) { sk_X509_INFO_pop_free(stack, X509_INFO_free); }
using OwnedX509 = std::unique_ptr<X509, Releaser<X509, X509_free>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, Releaser<EVP_PKEY, EVP_PKEY_free>>;
using OwnedContext = std::unique_ptr<SSL_CTX, Releaser<SSL_CTX, SSL_CTX_free>>;
using OwnedInfos = std::unique_ptr<STACK_OF(X509_INFO), Releaser<STACK_OF(X509_INFO), release_stack>>;
struct BioReleaser {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
using OwnedBio = std::unique_ptr<BIO, BioReleaser>;

// The reason of the last OpenSSL error on this thread. Clears the thread's error queue.
std::string openssl_problem() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

// A BIO that reads `text` in place, so `text` must outlive it.
OwnedBio text_bio(const std::string& text) {
  return OwnedBio(BIO_new_mem_buf(text.data(), static_cast<int>(std::min<std::size_t>(text.size(), INT_MAX))));
}

// ---- The socket, as OpenSSL sees it ----
//
// OpenSSL's own socket BIO calls write(), which raises SIGPIPE after the client has closed the connection. This one
// calls send() with MSG_NOSIGNAL. It also decides per call whether to wait: MSG_DONTWAIT applies even to a blocking
// socket.

TlsStream& stream_of(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }

int flags_of(BIO* bio) { return MSG_NOSIGNAL | (stream_of(bio).waiting() ? 0 : MSG_DONTWAIT); }

bool again_later() { return errno == EAGAIN || errno == EWOULDBLOCK; }

int write_to_socket(BIO* bio, const char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  ssize_t sent = -1;
  do {
    sent = send(stream_of(bio).socket(), bytes, static_cast<std::size_t>(count), flags_of(bio));
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && again_later()) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int read_from_socket(BIO* bio, char* bytes, int room) {
  BIO_clear_retry_flags(bio);
  ssize_t got = -1;
  do {
    got = recv(stream_of(bio).socket(), bytes, static_cast<std::size_t>(room), flags_of(bio));
  } while (got < 0 && errno == EINTR);
  if (got < 0 && again_later()) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

// OpenSSL flushes after each flight of the handshake and treats a failed flush as fatal. This BIO buffers nothing, so a
// flush has always succeeded; every other command is unsupported.
long control_socket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

// Made once for the process and never freed: OpenSSL has little more than a hundred indexes for new BIO types.
const BIO_METHOD* socket_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    BIO_meth_set_write(made, write_to_socket);
    BIO_meth_set_read(made, read_from_socket);
    BIO_meth_set_ctrl(made, control_socket);
    return made;
  }();
  return method;
}

// Called in the handshake of a client that names protocols. HTTP/2 is chosen where the stream speaks it; the handshake
// of a client that does not fails then, because nothing that it sent would be understood.
int choose_protocol(SSL* ssl, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                    unsigned int offered_size, void*) {
  if (stream_of(SSL_get_rbio(ssl)).alpn() == Alpn::none) return SSL_TLSEXT_ERR_NOACK;
  static constexpr unsigned char kH2[] = {2, 'h', '2'};
  // Finds ours in the client's list; SSL_select_next_proto() would also return what the client did not offer.
  for (unsigned int at = 0; at < offered_size; at += 1U + offered[at]) {
    const bool same = offered[at] == kH2[0] && at + sizeof kH2 <= offered_size &&
                      std::equal(kH2, kH2 + sizeof kH2, offered + at);
    if (!same) continue;
    *chosen = offered + at + 1;
    *size = kH2[0];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// ---- Certificates and keys ----

// "FILE: WHAT: reason of OpenSSL". Without the file name where the text did not come from a file.
Error unusable(const std::string& file, std::string_view what) {
  return {ErrorCode::invalid, fmt::format("{}{}{}: {}", file, file.empty() ? "" : ": ", what, openssl_problem())};
}

// Requires the own certificate first in the PEM text; everything behind it is the chain that is sent to the peer.
Result<Nothing> use_certificate(SSL_CTX* context, const TlsMaterial& material) {
  const OwnedBio bio = text_bio(material.certificate);
  const OwnedX509 own(PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr));
  if (!own || SSL_CTX_use_certificate(context, own.get()) != 1) {
    return unusable(material.certificate_file, "the certificate cannot be used");
  }
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    // On success the context owns `next`; on failure it still belongs to this function.
    if (SSL_CTX_add0_chain_cert(context, next) == 1) continue;
    X509_free(next);
    return unusable(material.certificate_file, "the certificate chain cannot be used");
  }
  ERR_clear_error();
  return Nothing{};
}

// OpenSSL asks for the password of an encrypted key on the terminal, and a server would hang there. Failing is better.
int no_password(char*, int, int, void*) { return -1; }

Result<Nothing> use_key(SSL_CTX* context, const TlsMaterial& material) {
  const OwnedBio bio = text_bio(material.key);
  const OwnedKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  if (!key || SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return unusable(material.key_file, "the private key cannot be used");
  }
  // Found here, a mismatch names the file at start. Found later, it fails every handshake without a useful reason.
  if (SSL_CTX_check_private_key(context) != 1) {
    return unusable(material.key_file, "the private key does not belong to the certificate");
  }
  return Nothing{};
}

// Accepts peers whose chain ends at one of the authorities. With `tell_clients`, the handshake also sends their names,
// from which a client that holds several certificates chooses the right one.
Result<Nothing> trust(SSL_CTX* context, const TlsMaterial& material, bool tell_clients) {
  const OwnedBio bio = text_bio(material.authorities);
  const OwnedInfos infos(PEM_X509_INFO_read_bio(bio.get(), nullptr, no_password, nullptr));
  int found = 0;
  for (int i = 0; infos && i < sk_X509_INFO_num(infos.get()); ++i) {
    X509* authority = sk_X509_INFO_value(infos.get(), i)->x509;
    // A bundle may also hold keys and revocation lists. They are skipped; only a bundle without any certificate is an
    // error.
    if (authority == nullptr) continue;
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority);
    if (tell_clients) SSL_CTX_add_client_CA(context, authority);
    ++found;
  }
  if (found == 0) return unusable(material.authorities_file, "the file of authorities has no certificate");
  ERR_clear_error();
  return Nothing{};
}

// What both sides share. TLS 1.0 and 1.1 are deprecated by RFC 8996.
OwnedContext new_context(const SSL_METHOD* method) {
  OwnedContext context(SSL_CTX_new(method));
  TANGRAM_CHECK(context != nullptr, "OpenSSL makes a context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // A connection that ends without close_notify counts as closed. Truncation is still noticed, because HTTP says itself
  // where a message ends. Compression is off because of CRIME; renegotiation is off because a client could use it to
  // cost the server one key exchange after another.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Between two attempts to send, the caller's output may grow and its buffer may move. Releasing buffers saves about
  // 34 kB for each idle connection.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  return context;
}

Result<Nothing> use_own(SSL_CTX* context, const TlsMaterial& material) {
  TANGRAM_RETURN_IF_ERROR(use_certificate(context, material));
  return use_key(context, material);
}

void append_text(const ASN1_STRING* text, std::vector<std::string>& names) {
  unsigned char* bytes = nullptr;
  const int length = ASN1_STRING_to_UTF8(&bytes, text);
  if (length < 0) return;
  std::string name(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
  OPENSSL_free(bytes);
  // "good.example\0.evil.example" is one name to the authority that signed it and another to code that stops at the
  // zero.
  if (name.find('\0') == std::string::npos) names.push_back(std::move(name));
}

std::string fingerprint_of(const X509* certificate) {
  std::array<std::uint8_t, 32> digest{};
  unsigned int length = 0;
  TANGRAM_CHECK(X509_digest(certificate, EVP_sha256(), digest.data(), &length) == 1 && length == digest.size(),
                "SHA-256 is always there");
  std::string text;
  for (const std::uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

// The common name first, then the DNS names. Other kinds of alternative names (addresses, URIs, mail) are left out.
std::vector<std::string> names_in(X509* certificate) {
  std::vector<std::string> names;
  const X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at >= 0) append_text(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), names);
  auto* others = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; others != nullptr && i < sk_GENERAL_NAME_num(others); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(others, i);
    if (name->type == GEN_DNS) append_text(name->d.dNSName, names);
  }
  GENERAL_NAMES_free(others);
  return names;
}

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::for_server(const TlsMaterial& material) {
  OwnedContext context = new_context(TLS_server_method());
  TANGRAM_RETURN_IF_ERROR(use_own(context.get(), material));
  SSL_CTX_set_options(context.get(), SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Of TLS 1.2, only what keeps old recordings secret and authenticates what it encrypts; OpenSSL's default still
  // offers CBC with SHA-1. TLS 1.3 has no others.
  TANGRAM_CHECK(SSL_CTX_set_cipher_list(context.get(), "ECDHE+AESGCM:ECDHE+CHACHA20") == 1, "OpenSSL knows these");
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  // OpenSSL refuses to resume a session of a client with a certificate unless the server has set a session id context.
  SSL_CTX_set_session_id_context(context.get(), reinterpret_cast<const unsigned char*>("tangram"), 7);
  // Authorities on the server's side mean mutual TLS: a client without a certificate fails in the handshake.
  if (!material.authorities.empty()) {
    TANGRAM_RETURN_IF_ERROR(trust(context.get(), material, true));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return std::shared_ptr<const TlsContext>(new TlsContext(context.release()));
}

Result<std::shared_ptr<const TlsContext>> TlsContext::for_client(const TlsMaterial& material) {
  OwnedContext context = new_context(TLS_client_method());
  if (!material.certificate.empty()) {
    TANGRAM_RETURN_IF_ERROR(use_own(context.get(), material));
  }
  if (material.authorities.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else if (const auto trusted = trust(context.get(), material, false); !trusted) {
    return trusted.error();
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return std::shared_ptr<const TlsContext>(new TlsContext(context.release()));
}

namespace {

// Every certificate passes: the caller compares its fingerprint.
int pass_any(int, X509_STORE_CTX* store) {
  X509_STORE_CTX_set_error(store, X509_V_OK);  // Or a later failure would be explained by it.
  return 1;
}

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::for_pinned(TlsSide side, const TlsMaterial& material) {
  OwnedContext context = new_context(side == TlsSide::server ? TLS_server_method() : TLS_client_method());
  TANGRAM_RETURN_IF_ERROR(use_own(context.get(), material));
  // Both ends are ours. In 1.3 a client's certificate is proved before the server reads its first byte.
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, pass_any);
  // Resumed connections would skip the certificates.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  return std::shared_ptr<const TlsContext>(new TlsContext(context.release()));
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

// ---- One connection ----

TlsStream::TlsStream(std::shared_ptr<const TlsContext> context, int socket)
    : context_(std::move(context)), ssl_(SSL_new(context_->raw())), socket_(socket) {
  TANGRAM_CHECK(ssl_ != nullptr, "OpenSSL makes a connection");
  BIO* bio = BIO_new(socket_method());
  // The BIO keeps a pointer to this stream. That is safe because a stream is never copied or moved.
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
}

TlsStream::~TlsStream() { SSL_free(ssl_); }

std::unique_ptr<TlsStream> TlsStream::accept(std::shared_ptr<const TlsContext> context, int socket, Alpn alpn) {
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(context), socket));
  stream->alpn_ = alpn;
  SSL_set_accept_state(stream->ssl_);
  return stream;
}

std::unique_ptr<TlsStream> TlsStream::connect(std::shared_ptr<const TlsContext> context, int socket,
                                              const std::string& server_name) {
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(context), socket));
  SSL_set_connect_state(stream->ssl_);
  // The name extension must not hold a literal address (RFC 6066 section 3), so an address is only checked against the
  // certificate. A DNS name is both sent and checked.
  if (is_numeric_address(server_name)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(stream->ssl_), server_name.c_str());
  } else {
    SSL_set_tlsext_host_name(stream->ssl_, server_name.c_str());
    SSL_set1_host(stream->ssl_, server_name.c_str());
  }
  return stream;
}

bool TlsStream::established() const { return SSL_is_init_finished(ssl_) != 0; }

// Translates the return value of an SSL call. Requires errno to be that of the call. After `failed`, why_ holds the
// reason.
TlsStream::Moved TlsStream::outcome(int returned) {
  if (returned > 0) return {Status::done, static_cast<std::size_t>(returned)};
  const int problem = errno;
  switch (SSL_get_error(ssl_, returned)) {
    case SSL_ERROR_WANT_READ: return {Status::want_read, 0};
    case SSL_ERROR_WANT_WRITE: return {Status::want_write, 0};
    case SSL_ERROR_ZERO_RETURN: return {Status::closed, 0};
    case SSL_ERROR_SYSCALL: why_ = problem == 0 ? "the connection was closed" : std::strerror(problem); break;
    default:
      // Read before openssl_problem(), which clears the queue.
      plain_http_ = ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_HTTP_REQUEST;
      why_ = openssl_problem();
      if (const long verdict = SSL_get_verify_result(ssl_); verdict != X509_V_OK) {
        why_ += fmt::format(" ({})", X509_verify_cert_error_string(verdict));
      }
  }
  failed_ = true;
  ERR_clear_error();
  return {Status::failed, 0};
}

TlsStream::Moved TlsStream::shake_hands() {
  ERR_clear_error();
  return outcome(SSL_do_handshake(ssl_));
}

TlsStream::Moved TlsStream::read(char* buffer, std::size_t room) {
  std::size_t bytes = 0;
  // SSL_read() takes one record from the socket. With room for a whole record it keeps no decrypted bytes back, which
  // epoll could not see. A stream that may wait returns after one record, because asking for a second could block.
  while (bytes == 0 || (!waiting_ && room - bytes >= kRecordMax)) {
    ERR_clear_error();
    // A zero errno after SSL_ERROR_SYSCALL means that the peer closed the connection, so a stale value must not remain.
    errno = 0;
    const Moved moved =
        outcome(SSL_read(ssl_, buffer + bytes, static_cast<int>(std::min<std::size_t>(room - bytes, INT_MAX))));
    // The bytes already read are returned first; the next call meets the same obstacle again and reports it.
    if (moved.status != Status::done) return bytes > 0 ? Moved{Status::done, bytes} : moved;
    bytes += moved.bytes;
  }
  return {Status::done, bytes};
}

TlsStream::Moved TlsStream::write(const char* bytes, std::size_t count) {
  ERR_clear_error();
  errno = 0;
  return outcome(SSL_write(ssl_, bytes, static_cast<int>(std::min<std::size_t>(count, INT_MAX))));
}

void TlsStream::say_goodbye() {
  // OpenSSL forbids SSL_shutdown() after a fatal error. One call sends close_notify and does not wait for the peer's.
  if (failed_ || !established()) return;
  ERR_clear_error();
  SSL_shutdown(ssl_);
  ERR_clear_error();
}

std::vector<std::string> TlsStream::peer_names() const {
  const OwnedX509 shown(SSL_get1_peer_certificate(ssl_));
  // The result is also X509_V_OK when the peer showed no certificate, so both must be looked at.
  if (!shown || SSL_get_verify_result(ssl_) != X509_V_OK) return {};
  return names_in(shown.get());
}

std::string TlsStream::peer_fingerprint() const {
  const OwnedX509 shown(SSL_get1_peer_certificate(ssl_));
  return shown ? fingerprint_of(shown.get()) : std::string();
}

ssize_t bytes_moved(const TlsStream::Moved& moved) {
  switch (moved.status) {
    case TlsStream::Status::done: return static_cast<ssize_t>(moved.bytes);
    case TlsStream::Status::closed: return 0;
    case TlsStream::Status::want_read:
    case TlsStream::Status::want_write: errno = EAGAIN; return -1;
    case TlsStream::Status::failed: break;
  }
  errno = EPROTO;
  return -1;
}

std::string certificate_fingerprint(const std::string& pem) {
  const OwnedX509 certificate(PEM_read_bio_X509(text_bio(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate ? fingerprint_of(certificate.get()) : std::string();
}

namespace {

// What a BIO in memory holds.
std::string text_in(const OwnedBio& bio) {
  char* bytes = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<std::size_t>(length)};
}

}  // namespace

// No field but the key matters to those who pin it; name and dates are for people who look at it.
TlsMaterial make_certificate(const std::string& name) {
  constexpr long kYears10 = 10L * 365 * 86'400;
  const OwnedKey key(EVP_EC_gen("P-256"));
  const OwnedX509 made(X509_new());
  TANGRAM_CHECK(key && made, "OpenSSL makes a key");
  std::uint8_t serial[8];
  fill_with_secrets(serial, sizeof serial);
  std::uint64_t number = 0;
  std::memcpy(&number, serial, sizeof number);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.get()), number >> 1);
  X509_set_version(made.get(), X509_VERSION_3);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -86'400);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), kYears10);
  const std::string common = name.substr(0, 60);  // The standard allows 64.
  X509_NAME* subject = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(common.c_str()), -1,
                             -1, 0);
  X509_set_issuer_name(made.get(), subject);
  X509_set_pubkey(made.get(), key.get());
  TANGRAM_CHECK(X509_sign(made.get(), key.get(), EVP_sha256()) != 0, "OpenSSL signs");
  const OwnedBio certificate(BIO_new(BIO_s_mem()));
  const OwnedBio secret(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(certificate.get(), made.get());
  PEM_write_bio_PrivateKey(secret.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {text_in(certificate), text_in(secret), ""};
}

std::vector<std::string> certificate_names(const std::string& pem) {
  const OwnedX509 certificate(PEM_read_bio_X509(text_bio(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate ? names_in(certificate.get()) : std::vector<std::string>();
}

// ---- Digests and secrets ----

void sha256(std::string_view first, std::string_view second, std::uint8_t* digest) {
  // One context for each thread saves an allocation for each digest.
  struct Hasher {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    const EVP_MD* method = EVP_sha256();
    ~Hasher() { EVP_MD_CTX_free(context); }
  };
  thread_local const Hasher hasher;
  unsigned int length = 0;
  const bool done = EVP_DigestInit_ex(hasher.context, hasher.method, nullptr) == 1 &&
                    EVP_DigestUpdate(hasher.context, first.data(), first.size()) == 1 &&
                    EVP_DigestUpdate(hasher.context, second.data(), second.size()) == 1 &&
                    EVP_DigestFinal_ex(hasher.context, digest, &length) == 1;
  TANGRAM_CHECK(done && length == 32, "SHA-256 is always there");
}

bool equal_in_constant_time(const void* a, const void* b, std::size_t count) { return CRYPTO_memcmp(a, b, count) == 0; }

void fill_with_secrets(std::uint8_t* bytes, std::size_t count) {
  TANGRAM_CHECK(RAND_bytes(bytes, static_cast<int>(count)) == 1, "the system gives random bytes");
}

}  // namespace tangram::host
