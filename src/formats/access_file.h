// The access file, in YAML: the tenants of a server, their keys and their limits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "formats/source.h"

namespace tangram::formats {

enum class AccessRole {
  client,  // Asks the models.
  viewer,  // Reads metrics and status, too.
  admin,   // Everything: load and unload, reload, log level, drain.
};

// A key as the file stores it. The digest is the SHA-256 of salt and key, so the file does not reveal the key.
//
// Keys are 256 random bits (`tangram key make`) and cannot be found by trying, however fast the digest is. A slow
// digest would only make each request slow.
struct AccessKey {
  std::string id;  // The part of the key that is not secret: it finds this entry.
  std::array<std::uint8_t, 16> salt{};
  std::array<std::uint8_t, 32> digest{};
  std::optional<std::int64_t> expires_s;  // Seconds since 1970, UTC; from then on it is refused.

  bool operator==(const AccessKey&) const = default;
};

struct AccessTenant {
  std::string name;
  AccessRole role = AccessRole::client;
  std::vector<AccessKey> keys = {};
  std::vector<std::string> certificate_names = {};  // Common names or DNS names of client certificates.
  std::vector<std::string> models = {};             // Empty: all.
  std::optional<double> rate_per_s = {};            // Inference requests; nothing: no limit, as below.
  double burst = 1;                                 // How many may come at once where the rate is kept on average.
  std::optional<std::int64_t> quota_per_day = {};   // Requests, from midnight to midnight UTC.
  std::optional<std::int64_t> in_flight_max = {};   // Requests at one time.
  double weight = 1;                                // Its share of slices that others use, too, against theirs.
  std::optional<std::int64_t> priority_best = {};  // Requests that name a priority before this one (1: highest) get it.
  std::optional<Duration> deadline_max = {};       // Requests that name a later deadline get this one.

  bool operator==(const AccessTenant&) const = default;
};

struct Access {
  std::vector<AccessTenant> tenants;

  bool operator==(const Access&) const = default;
};

Result<Access> parse_access(const Source& source);
std::string write_access(const Access& access);

// "sha256:SALT:DIGEST", both in hexadecimal.
std::string write_key_hash(const AccessKey& key);
// "2027-01-31" for midnight UTC, or "2027-01-31T12:30:00Z".
std::string write_instant(std::int64_t seconds);
std::optional<std::int64_t> parse_instant(std::string_view text);

}  // namespace tangram::formats
