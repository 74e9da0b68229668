#include "node/tokens.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "host/atomic_file.h"
#include "host/descriptor.h"
#include "host/files.h"
#include "host/tls.h"
#include "node/identity.h"

namespace tangram::node {
namespace {

constexpr std::string_view kTokenBegin = "tangram_node_";
constexpr std::size_t kTokenIdLength = 9;  // A letter and eight digits.
constexpr std::size_t kHexOf32 = 64;
constexpr std::uint64_t kTokenFileMax = 16 << 20;
// What has expired for longer than this is dropped from the file at the next change.
constexpr std::int64_t kKeptExpiredS = 30 * 86'400;

std::string hex_of(const std::uint8_t* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

bool is_hex(std::string_view text, std::size_t length) {
  return text.size() == length && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string random_hex(std::size_t bytes) {
  std::array<std::uint8_t, 32> random{};
  host::fill_with_secrets(random.data(), bytes);
  return hex_of(random.data(), bytes);
}

// Whole numbers only: the library would cut others to size.
std::int64_t seconds_in(const nlohmann::json& entry, const char* key) {
  if (!entry.at(key).is_number_integer()) throw std::out_of_range(fmt::format("'{}' is no number of seconds", key));
  return entry.at(key).get<std::int64_t>();
}

// The id goes in front, so that equal secrets would not show.
std::string token_digest(const std::string& id, const std::string& secret) {
  std::array<std::uint8_t, 32> digest{};
  host::sha256(id, secret, digest.data());
  return hex_of(digest.data(), digest.size());
}

}  // namespace

bool is_node_name(std::string_view name) {
  return !name.empty() && name.size() <= kNodeNameMax && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view(".-_:").find(c) != std::string_view::npos;
  });
}

std::optional<TokenText> parse_token(std::string_view text) {
  if (!text.starts_with(kTokenBegin)) return std::nullopt;
  text.remove_prefix(kTokenBegin.size());
  if (text.size() != kTokenIdLength + 1 + kHexOf32 + 1 + kHexOf32) return std::nullopt;
  TokenText parts{std::string(text.substr(0, kTokenIdLength)),
                  std::string(text.substr(kTokenIdLength + 1, kHexOf32)),
                  std::string(text.substr(kTokenIdLength + kHexOf32 + 2))};
  const bool good = parts.id[0] == 'n' && is_hex(std::string_view(parts.id).substr(1), kTokenIdLength - 1) &&
                    text[kTokenIdLength] == '_' && text[kTokenIdLength + 1 + kHexOf32] == '_' &&
                    is_hex(parts.secret, kHexOf32) && is_hex(parts.gateway, kHexOf32);
  if (!good) return std::nullopt;
  return parts;
}

std::string write_token_file(const TokenFile& file) {
  auto tokens = nlohmann::ordered_json::array();
  for (const auto& token : file.tokens) {
    tokens.push_back({{"id", token.id},
                      {"digest", token.digest},
                      {"note", token.note},
                      {"created_s", token.created_s},
                      {"expires_s", token.expires_s},
                      {"revoked", token.revoked}});
  }
  auto nodes = nlohmann::ordered_json::array();
  for (const auto& node : file.nodes) {
    nodes.push_back({{"fingerprint", node.fingerprint},
                     {"name", node.name},
                     {"token", node.token},
                     {"joined_s", node.joined_s}});
  }
  return nlohmann::ordered_json{{"version", 1}, {"tokens", tokens}, {"nodes", nodes}}.dump(
             2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

Result<TokenFile> read_token_file(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("version") != 1) return Error{ErrorCode::invalid, "it is of another version"};
    TokenFile file;
    for (const auto& entry : json.at("tokens")) {
      file.tokens.push_back({entry.at("id"), entry.at("digest"), entry.at("note"), seconds_in(entry, "created_s"),
                             seconds_in(entry, "expires_s"), entry.at("revoked")});
    }
    for (const auto& entry : json.at("nodes")) {
      file.nodes.push_back({entry.at("fingerprint"), entry.at("name"), entry.at("token"), seconds_in(entry, "joined_s")});
    }
    return file;
  } catch (const std::exception& problem) {
    return Error{ErrorCode::invalid, std::string("expected a file of join tokens: ") + problem.what()};
  }
}

Result<TokenFile> TokenStore::list() const {
  if (access(path().c_str(), F_OK) != 0) return TokenFile{};
  TANGRAM_TRY(const auto text, host::read_file(path(), kTokenFileMax));
  auto file = read_token_file(text);
  if (!file) return Error{file.error().code, path() + ": " + file.error().message};
  return file;
}

template <typename Change>
Result<Nothing> TokenStore::update(Change&& change) {
  TANGRAM_RETURN_IF_ERROR(make_private_folder(folder_));
  // A file of its own: the other one is replaced.
  const host::Descriptor lock(open((folder_ + "/tokens.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.open() || flock(lock.get(), LOCK_EX) != 0) {
    return Error{ErrorCode::denied, fmt::format("{}/tokens.lock: {}", folder_, std::strerror(errno))};
  }
  TANGRAM_TRY(auto file, list());
  TANGRAM_RETURN_IF_ERROR(change(file));
  host::AtomicFile out(path());  // With the mode 0600.
  int failed = out.error();
  if (failed == 0) failed = out.append(write_token_file(file));
  if (failed == 0) failed = out.sync();
  if (failed == 0) failed = out.take_name();
  if (failed != 0) return Error{ErrorCode::denied, fmt::format("{}: {}", path(), std::strerror(failed))};
  return Nothing{};
}

Result<TokenStore::Made> TokenStore::create(const std::string& gateway, std::int64_t now_s, std::int64_t ttl_s,
                                            const std::string& note) {
  Made made;
  const std::string secret = random_hex(32);
  made.token.id = "n" + random_hex(4);
  made.token.digest = token_digest(made.token.id, secret);
  made.token.note = note;
  made.token.created_s = now_s;
  made.token.expires_s = now_s + ttl_s;
  made.text = fmt::format("{}{}_{}_{}", kTokenBegin, made.token.id, secret, gateway);
  TANGRAM_RETURN_IF_ERROR(update([&](TokenFile& file) -> Result<Nothing> {
    std::erase_if(file.tokens, [&](const Token& token) {
      const bool used = std::ranges::any_of(file.nodes, [&](const PinnedNode& n) { return n.token == token.id; });
      return !used && token.expires_s + kKeptExpiredS < now_s;
    });
    if (file.tokens.size() >= kTokensMax) {
      return Error{ErrorCode::exhausted, fmt::format("{} has {} tokens, which is the most: revoke some", path(),
                                                     file.tokens.size())};
    }
    file.tokens.push_back(made.token);
    return Nothing{};
  }));
  return made;
}

// A token that is revoked leaves the file: its digest lets nobody in any more, and neither do its nodes.
Result<bool> TokenStore::revoke(const std::string& id) {
  bool found = false;
  TANGRAM_RETURN_IF_ERROR(update([&](TokenFile& file) -> Result<Nothing> {
    for (auto& token : file.tokens) {
      found |= token.id == id;
      token.revoked |= token.id == id;
    }
    std::erase_if(file.nodes, [&](const PinnedNode& node) { return node.token == id; });
    return Nothing{};
  }));
  return found;
}

Result<Nothing> TokenStore::admit(const std::string& fingerprint, const std::string& name, const std::string& token,
                                  std::int64_t now_s) {
  TANGRAM_TRY(const auto file, list());
  const auto pinned = std::ranges::find(file.nodes, fingerprint, &PinnedNode::fingerprint);
  if (pinned != file.nodes.end() && pinned->name == name) return Nothing{};
  if (token.empty()) {
    return Error{ErrorCode::denied, "the gateway does not know this node: it needs a join token (--token-file)"};
  }
  const auto parts = parse_token(token);
  if (!parts) return Error{ErrorCode::denied, "this is not a join token"};
  const auto kept = std::ranges::find(file.tokens, parts->id, &Token::id);
  if (kept == file.tokens.end()) return Error{ErrorCode::denied, "the gateway has no such join token"};
  const std::string digest = token_digest(parts->id, parts->secret);
  if (kept->digest.size() != digest.size() ||
      !host::equal_in_constant_time(digest.data(), kept->digest.data(), digest.size())) {
    return Error{ErrorCode::denied, "the gateway has no such join token"};
  }
  if (kept->revoked) return Error{ErrorCode::denied, fmt::format("the join token {} was revoked", kept->id)};
  if (kept->expires_s <= now_s) return Error{ErrorCode::denied, fmt::format("the join token {} has expired", kept->id)};
  const std::string id = kept->id;
  return update([&](TokenFile& now) -> Result<Nothing> {
    // It may have been revoked between the two.
    const auto still = std::ranges::find(now.tokens, id, &Token::id);
    if (still == now.tokens.end() || still->revoked) {
      return Error{ErrorCode::denied, fmt::format("the join token {} was revoked", id)};
    }
    std::erase_if(now.nodes, [&](const PinnedNode& node) { return node.fingerprint == fingerprint; });
    if (now.nodes.size() >= kPinnedMax) now.nodes.erase(now.nodes.begin());  // The oldest.
    now.nodes.push_back({fingerprint, name, id, now_s});
    return Nothing{};
  });
}

Result<Nothing> TokenStore::pin(const std::string& fingerprint, const std::string& name, std::int64_t now_s) {
  return update([&](TokenFile& now) -> Result<Nothing> {
    std::erase_if(now.nodes, [&](const PinnedNode& node) { return node.fingerprint == fingerprint; });
    if (now.nodes.size() >= kPinnedMax) now.nodes.erase(now.nodes.begin());
    now.nodes.push_back({fingerprint, name, "", now_s});
    return Nothing{};
  });
}

bool TokenStore::changed() {
  struct stat found {};
  const bool there = stat(path().c_str(), &found) == 0;
  const std::int64_t ns = there ? found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec : 0;
  const std::int64_t size = there ? found.st_size : 0;
  const bool same = ns == seen_ns_ && size == seen_size_;
  seen_ns_ = ns;
  seen_size_ = size;
  return !same;
}

}  // namespace tangram::node
