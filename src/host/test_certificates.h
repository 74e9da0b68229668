// Certificates for tests, made on the spot: none lies in the repository, and none is old tomorrow.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <string>

#include "host/tls.h"

namespace tangram::host::test {

inline std::string pem_text(BIO* bio) {
  char* bytes = nullptr;
  const long length = BIO_get_mem_data(bio, &bytes);
  std::string text(bytes, static_cast<std::size_t>(length));
  BIO_free(bio);
  return text;
}

// How long a certificate holds, in seconds from now.
struct Validity {
  long from_s = -60;
  long until_s = 3600;
};

// Someone with a key who signs certificates: itself at first, then others.
class Authority {
 public:
  explicit Authority(const std::string& name) : key_(EVP_EC_gen("P-256")), certificate_(blank(name, {})) {
    X509_set_pubkey(certificate_, key_);
    add(certificate_, certificate_, NID_basic_constraints, "critical,CA:TRUE");
    X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
    X509_sign(certificate_, key_, EVP_sha256());
  }
  ~Authority() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  std::string pem() const { return pem_of(certificate_); }

  // A certificate for `name`, with a new key; `alternatives` as OpenSSL writes them: "DNS:a.example,IP:127.0.0.1".
  TlsMaterial issue(const std::string& name, const std::string& alternatives = "", Validity validity = {}) const {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* made = blank(name, validity);
    X509_set_pubkey(made, key);
    if (!alternatives.empty()) add(certificate_, made, NID_subject_alt_name, alternatives.c_str());
    X509_set_issuer_name(made, X509_get_subject_name(certificate_));
    X509_sign(made, key_, EVP_sha256());
    BIO* text = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(text, key, nullptr, nullptr, 0, nullptr, nullptr);
    TlsMaterial material{pem_of(made), pem_text(text), ""};
    X509_free(made);
    EVP_PKEY_free(key);
    return material;
  }
  // For this machine's loopback address.
  TlsMaterial server(Validity validity = {}) const { return issue("server", "DNS:localhost,IP:127.0.0.1", validity); }

 private:
  static X509* blank(const std::string& name, Validity validity) {
    static long serial = 1;
    X509* made = X509_new();
    X509_set_version(made, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made), serial++);
    X509_gmtime_adj(X509_getm_notBefore(made), validity.from_s);
    X509_gmtime_adj(X509_getm_notAfter(made), validity.until_s);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    return made;
  }
  static void add(X509* issuer, X509* made, int kind, const char* value) {
    X509V3_CTX context{};
    X509V3_set_ctx(&context, issuer, made, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
    EXPECT_NE(extension, nullptr) << value;
    X509_add_ext(made, extension, -1);
    X509_EXTENSION_free(extension);
  }
  static std::string pem_of(X509* certificate) {
    BIO* text = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(text, certificate);
    return pem_text(text);
  }

  EVP_PKEY* key_;
  X509* certificate_;
};

}  // namespace tangram::host::test
