// Compares Origin, Sec-Fetch-Site and Host with the address that was asked. Clients other than browsers send neither of
// the first two, and are not concerned.

#include "serve/cross_site.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>

namespace tangram::serve {
namespace {

// Longer authorities are no numbers.
constexpr std::size_t kAddressMax = 64;

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

bool is_address(std::string_view text) {
  if (text.empty() || text.size() > kAddressMax) return false;
  const std::string copy(text);
  in6_addr bytes{};
  return inet_pton(AF_INET, copy.c_str(), &bytes) == 1 || inet_pton(AF_INET6, copy.c_str(), &bytes) == 1;
}

bool has(const std::vector<std::string>& origins, std::string_view origin) {
  return std::ranges::any_of(origins, [&](const std::string& one) { return one == "*" || one == origin; });
}

}  // namespace

std::string_view host_of_authority(std::string_view authority) {
  if (authority.starts_with('[')) {
    const auto end = authority.find(']');
    return end == std::string_view::npos ? std::string_view() : authority.substr(1, end - 1);
  }
  return authority.substr(0, authority.find(':'));
}

bool is_known_host(std::string_view authority, const std::vector<std::string>& allowed) {
  const std::string name = lower(host_of_authority(authority));
  return name == "localhost" || is_address(name) || std::ranges::find(allowed, name) != allowed.end();
}

// An Origin that equals the address asked is a page of ours, whatever the scheme: a proxy in front may end TLS.
// Sec-Fetch-Site says "same-site" of another port or subdomain, which is not ours either.
std::optional<std::string_view> why_cross_site(const host::HttpHead& head, const std::vector<std::string>& origins) {
  const auto origin = head.find("origin");
  if (origin && has(origins, *origin)) return std::nullopt;
  if (origin) {
    const auto scheme = origin->find("://");
    const std::string_view asker = scheme == std::string_view::npos ? std::string_view() : origin->substr(scheme + 3);
    if (asker.empty() || lower(asker) != lower(head.find("host").value_or(""))) {
      return "the request comes from a page of another site (Origin)";
    }
  }
  const auto site = head.find("sec-fetch-site");
  if (site && *site != "same-origin" && *site != "none") {
    return "the request comes from a page of another site (Sec-Fetch-Site)";
  }
  return std::nullopt;
}

// Credentials are keys in fields that the page itself sends, so none of the browser's own are allowed.
std::string cors_answer_fields(std::string_view origin) {
  return fmt::format(
      "Access-Control-Allow-Origin: {}\r\n{}Access-Control-Expose-Headers: "
      "Inference-Header-Content-Length, Retry-After, traceparent\r\n",
      origin, origin == "*" ? "" : "Vary: Origin\r\n");
}

std::string_view cors_fields(const host::HttpHead& head, const CrossSiteRules& rules) {
  if (rules.origins.empty()) return {};
  const auto origin = head.find("origin");
  if (!origin) return {};
  for (std::size_t i = 0; i < rules.answer_fields.size(); ++i) {
    if (rules.origins[i] == "*" || rules.origins[i] == *origin) return rules.answer_fields[i];
  }
  return {};
}

bool is_origin(std::string_view text) {
  if (text == "*") return true;
  const auto scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const std::string_view rest = text.substr(scheme + 3);
  return !rest.empty() && rest.find_first_of("/?# \t\r\n") == std::string_view::npos && lower(text) == text;
}

}  // namespace tangram::serve
