// Join tokens and the nodes that came in with them, in one file that the gateway and `tangram token` share.
//
// A token has 256 random bits and the fingerprint of the gateway, so that a node knows whom to give it to. The file has
// its digest. A node that has joined is pinned: its certificate lets it in again after its token has expired, until the
// token is revoked. Changes are made under a lock and written whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tangram::node {

// More than these in the file are refused: what each join reads stays small.
inline constexpr std::size_t kTokensMax = 1'000;
inline constexpr std::size_t kPinnedMax = 10'000;
// A name of a node or a token in bytes.
inline constexpr std::size_t kNodeNameMax = 128;

struct Token {
  std::string id;  // Not secret.
  std::string digest;
  std::string note;  // What it is for.
  std::int64_t created_s = 0;
  std::int64_t expires_s = 0;
  bool revoked = false;

  bool operator==(const Token&) const = default;
};

struct PinnedNode {
  std::string fingerprint;
  std::string name;
  std::string token;  // Its id; empty: a credential of MUNGE.
  std::int64_t joined_s = 0;

  bool operator==(const PinnedNode&) const = default;
};

// The parts of a token's text, "tangram_node_ID_SECRET_FINGERPRINT".
struct TokenText {
  std::string id;
  std::string secret;
  std::string gateway;  // The fingerprint of the gateway that made it.
};
// Nothing if it is none.
std::optional<TokenText> parse_token(std::string_view text);

// Letters, digits, '.', '-', '_' and ':' only, at most kNodeNameMax, and at least one.
bool is_node_name(std::string_view name);

struct TokenFile {
  std::vector<Token> tokens;
  std::vector<PinnedNode> nodes;
};
// The file as text, and back. Errors: it is none.
std::string write_token_file(const TokenFile& file);
Result<TokenFile> read_token_file(std::string_view text);

class TokenStore {
 public:
  explicit TokenStore(std::string folder) : folder_(std::move(folder)) {}

  struct Made {
    std::string text;  // Shown once.
    Token token;
  };
  Result<Made> create(const std::string& gateway, std::int64_t now_s, std::int64_t ttl_s, const std::string& note);
  Result<TokenFile> list() const;
  // Also forgets the nodes that came in with it. False: there is no such token.
  Result<bool> revoke(const std::string& id);

  // Whether a node with this certificate may join; a token lets it in the first time. Errors: why not.
  Result<Nothing> admit(const std::string& fingerprint, const std::string& name, const std::string& token,
                        std::int64_t now_s);
  // Lets a node in whose user was proved in another way.
  Result<Nothing> pin(const std::string& fingerprint, const std::string& name, std::int64_t now_s);
  // Whether the file has changed since the last call, by its time and size.
  bool changed();

 private:
  std::string path() const { return folder_ + "/tokens.json"; }
  // Reads, lets `change` work on it, and writes it unless that fails, under the lock.
  template <typename Change>
  Result<Nothing> update(Change&& change);

  std::string folder_;
  std::int64_t seen_ns_ = -1;
  std::int64_t seen_size_ = -1;
};

}  // namespace tangram::node
