// The access file: tenants, the hashes of their keys, and their limits.
//
// The file has no key in it, only the SHA-256 of a salt and the key, so a leaked file does not open the server. The
// parser reads records with places first; the checks between tenants (names, key ids and certificates that occur twice)
// follow.

#include "formats/access_file.h"

#include <fmt/format.h>

#include <chrono>
#include <map>

#include "formats/describe.h"
#include "formats/detail/shapes.h"

namespace tangram::formats {
namespace {

// Limits far beyond use. They keep the arithmetic of token buckets finite.
constexpr double kRateMin = 1e-6;  // One in twelve days.
constexpr double kRateMax = 1e9;
constexpr double kCountMax = 1e12;
constexpr std::string_view kHashBegin = "sha256:";
constexpr std::string_view kDatePattern = "dddd-dd-dd";
constexpr std::string_view kInstantPattern = "dddd-dd-ddTdd:dd:ddZ";

// Entries as the file has them, with the places that checks between entries report.
struct KeyRecord {
  Located<std::string> id;
  Located<std::string> hash;
  Located<std::optional<std::string>> expires;
};

struct TenantRecord {
  Located<std::string> name;
  AccessRole role = AccessRole::client;
  std::vector<KeyRecord> keys;
  std::vector<Located<std::string>> certificate_names;
  std::vector<std::string> models;
  std::optional<double> rate_per_s;
  Located<std::optional<double>> burst;
  std::optional<std::int64_t> quota_per_day;
  std::optional<std::int64_t> in_flight_max;
  double weight = 1;
  std::optional<std::int64_t> priority_best;
  std::optional<Duration> deadline_max;
};

struct AccessRecord {
  std::vector<TenantRecord> tenants;
};

}  // namespace

template <typename Visitor>
void describe(Visitor& v, AccessRole& role) {
  v.name("client", role, AccessRole::client, "Inference.");
  v.name("viewer", role, AccessRole::viewer, "Inference, and reading metrics and status.");
  v.name("admin", role, AccessRole::admin, "Everything: also load and unload, reload, log level, drain.");
}

namespace {

template <typename Visitor>
void describe(Visitor& v, KeyRecord& c) {
  v.about("Key", "One key of a tenant, as `tangram key make` prints it.");
  v.field("id", c.id, {.required = true, .text = TextRule::name},
          "The part of the key that is not secret; unique in the file.");
  v.field("hash", c.hash, {.required = true}, "`sha256:SALT:DIGEST`, both in hexadecimal: SHA-256 of salt and key.");
  v.field("expires", c.expires, "When the key expires: `2027-01-31`, or `2027-01-31T12:30:00Z`, in UTC.");
}

// Rate, quota and concurrency are independent, and a missing one means unlimited. A quota of 0 is allowed: it suspends
// inference for a tenant without deleting its keys.
template <typename Visitor>
void describe(Visitor& v, TenantRecord& c) {
  v.about("Tenant", "A client of the server.");
  v.field("name", c.name, {.required = true, .text = TextRule::name}, "The name in metrics and logs.");
  v.field("role", c.role, "The permissions of the tenant.");
  v.field("keys", c.keys, "The keys of the tenant. With two keys, one can be replaced without a gap.");
  v.field(
      "certificate_names", c.certificate_names,
      "Names of client certificates: one with this common name or DNS name identifies the tenant (`--tls-client-ca`).");
  v.field("models", c.models, "The models that the tenant may use; default: all.");
  v.field("rate_per_s", c.rate_per_s, {.min = kRateMin, .max = kRateMax},
          "The largest mean rate of inference requests; default: unlimited.");
  v.field("burst", c.burst, {.min = 1, .max = kRateMax},
          "How many requests may arrive at once; default: the requests of one second, but at least one.");
  v.field("quota_per_day", c.quota_per_day, {.min = 0, .max = kCountMax},
          "The largest number of inference requests per day, UTC; default: unlimited.");
  v.field("in_flight_max", c.in_flight_max, {.min = 1, .max = kCountMax},
          "The largest number of inference requests in flight; default: unlimited.");
  v.field("weight", c.weight, {.min = 0.001, .max = 1000},
          "The tenant's share of the slices of a service, against the weights of the other tenants that use it at the "
          "same time. Requests beyond the share run where there is room.");
  v.field("priority_best", c.priority_best, {.min = 1, .max = 998'000},
          "The highest `priority` (1 goes first) that its requests may name: a smaller number is raised to this one. "
          "Default: 1.");
  v.field("deadline_max_ms", c.deadline_max, {.max = 1e12, .above = 0},
          "The latest deadline that its requests may name, after their arrival; a later one becomes this one. Default: "
          "no limit.");
}

template <typename Visitor>
void describe(Visitor& v, AccessRecord& c) {
  v.about("Access", "The tenants of a server and their limits.");
  v.field("tenants", c.tenants, {.required = true, .items_min = 1}, "The tenants.");
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Reads exactly `size` bytes from lower-case hexadecimal. Upper case is refused, so each hash has one spelling.
template <std::size_t size>
bool read_hex(std::string_view text, std::array<std::uint8_t, size>& bytes) {
  if (text.size() != 2 * size) return false;
  for (std::size_t i = 0; i < size; ++i) {
    const int high = hex_digit(text[2 * i]);
    const int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

template <std::size_t size>
void write_hex(const std::array<std::uint8_t, size>& bytes, std::string& out) {
  for (const auto byte : bytes) out += fmt::format("{:02x}", byte);
}

// "sha256:SALT:DIGEST". False leaves `key` partly filled, which is harmless: the problem discards the whole file.
bool read_hash(std::string_view text, AccessKey& key) {
  if (!text.starts_with(kHashBegin)) return false;
  text.remove_prefix(kHashBegin.size());
  // Without a colon the digest is empty, and read_hex() refuses it by its length.
  const auto colon = std::min(text.find(':'), text.size());
  const auto digest = text.substr(std::min(colon + 1, text.size()));
  return read_hex(text.substr(0, colon), key.salt) && read_hex(digest, key.digest);
}

AccessKey read_key(const KeyRecord& record, Problems& problems) {
  AccessKey key;
  key.id = record.id.value;
  // A hash that is missing or no text has been reported by the description.
  if (!record.hash.wrong && record.hash.at.line != 0 && !read_hash(record.hash.value, key)) {
    problems.add(record.hash.at,
                 "hash must be sha256:SALT:DIGEST with 32 and 64 hexadecimal digits in lower case, as "
                 "`tangram key make` prints it");
  }
  if (!record.expires.value) return key;
  key.expires_s = parse_instant(*record.expires.value);
  if (!key.expires_s) {
    problems.add(record.expires.at,
                 fmt::format("expires must be a date like 2027-01-31 or 2027-01-31T12:30:00Z, not {}",
                             detail::excerpt(*record.expires.value)));
  }
  return key;
}

// Reports names that occur twice, with the line of the first. A key id or a certificate that belonged to two tenants
// would leave open which one a request counts for.
class Taken {
 public:
  Taken(const char* what, Problems& problems) : what_(what), problems_(problems) {}
  // A name that is missing or wrong has been reported and cannot collide.
  void take(const Located<std::string>& name) {
    if (name.wrong || name.at.line == 0) return;
    const auto [found, fresh] = first_.emplace(name.value, name.at.line);
    if (!fresh) {
      problems_.add(name.at,
                    fmt::format("{} {} is already used in line {}", what_, detail::excerpt(name.value), found->second));
    }
  }

 private:
  const char* what_;
  Problems& problems_;
  std::map<std::string, int> first_;
};

// Checks between tenants and between the fields of one.
void check_names(const AccessRecord& record, Problems& problems) {
  Taken names("name", problems);
  Taken keys("key id", problems);
  Taken certificates("certificate name", problems);
  for (const auto& tenant : record.tenants) {
    names.take(tenant.name);
    for (const auto& key : tenant.keys) keys.take(key.id);
    for (const auto& name : tenant.certificate_names) certificates.take(name);
    // No request could ever authenticate as this tenant, which is certainly a mistake.
    if (tenant.keys.empty() && tenant.certificate_names.empty() && tenant.name.at.line != 0) {
      problems.add(tenant.name.at, "a tenant needs keys or certificate_names, to identify its requests");
    }
    if (tenant.burst.value && !tenant.rate_per_s) problems.add(tenant.burst.at, "burst needs rate_per_s");
  }
}

// The tenant with defaults filled in. Adds problems of hashes and dates.
AccessTenant read_tenant(const TenantRecord& record, Problems& problems) {
  AccessTenant tenant;
  tenant.name = record.name.value;
  tenant.role = record.role;
  for (const auto& key : record.keys) tenant.keys.push_back(read_key(key, problems));
  for (const auto& name : record.certificate_names) tenant.certificate_names.push_back(name.value);
  tenant.models = record.models;
  tenant.rate_per_s = record.rate_per_s;
  // A token bucket that holds less than one token would never admit a request, so the default is at least one.
  tenant.burst = record.burst.value.value_or(std::max(1.0, record.rate_per_s.value_or(1)));
  tenant.quota_per_day = record.quota_per_day;
  tenant.in_flight_max = record.in_flight_max;
  tenant.weight = record.weight;
  tenant.priority_best = record.priority_best;
  tenant.deadline_max = record.deadline_max;
  return tenant;
}

// The inverse of read_tenant().
TenantRecord record_of(const AccessTenant& tenant) {
  TenantRecord record;
  record.name.value = tenant.name;
  record.role = tenant.role;
  for (const auto& key : tenant.keys) {
    KeyRecord& written = record.keys.emplace_back();
    written.id.value = key.id;
    written.hash.value = write_key_hash(key);
    if (key.expires_s) written.expires.value = write_instant(*key.expires_s);
  }
  for (const auto& name : tenant.certificate_names) record.certificate_names.emplace_back().value = name;
  record.models = tenant.models;
  record.rate_per_s = tenant.rate_per_s;
  // A burst without a rate would be refused when the file is read again.
  if (tenant.rate_per_s) record.burst.value = tenant.burst;
  record.quota_per_day = tenant.quota_per_day;
  record.in_flight_max = tenant.in_flight_max;
  record.weight = tenant.weight;
  record.priority_best = tenant.priority_best;
  record.deadline_max = tenant.deadline_max;
  return record;
}

// True if `text` has a digit wherever the pattern has a `d`, and the same letter elsewhere.
bool fits_pattern(std::string_view text, std::string_view pattern) {
  if (text.size() != pattern.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (pattern[i] == 'd' ? !digit : text[i] != pattern[i]) return false;
  }
  return true;
}

// Requires digits at these places, as fits_pattern() ensures.
int number_at(std::string_view text, std::size_t at, std::size_t digits) {
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) value = value * 10 + (text[at + i] - '0');
  return value;
}

}  // namespace

std::optional<std::int64_t> parse_instant(std::string_view text) {
  // The pattern fixes the places of all numbers, so they can be read by position.
  const bool whole = fits_pattern(text, kInstantPattern);
  if (!whole && !fits_pattern(text, kDatePattern)) return std::nullopt;
  const std::chrono::year_month_day day{std::chrono::year(number_at(text, 0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number_at(text, 5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number_at(text, 8, 2)))};
  // Also refuses dates such as February 30. Before 1970, the divisions in write_instant would round the wrong way.
  if (!day.ok() || day.year() < std::chrono::year(1970)) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
  if (!whole) return days * 86400;
  const int hour = number_at(text, 11, 2);
  const int minute = number_at(text, 14, 2);
  const int second = number_at(text, 17, 2);
  // No leap seconds: seconds since 1970 do not count them.
  if (hour > 23 || minute > 59 || second > 59) return std::nullopt;
  return days * 86400 + hour * 3600 + minute * 60 + second;
}

// The inverse of parse_instant(). Requires seconds >= 0.
std::string write_instant(std::int64_t seconds) {
  const std::chrono::year_month_day day{std::chrono::sys_days(std::chrono::days(seconds / 86400))};
  const std::string date = fmt::format("{:04}-{:02}-{:02}", static_cast<int>(day.year()),
                                       static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
  // Midnight is written as a bare date, which reads back as the same instant.
  const std::int64_t rest = seconds % 86400;
  if (rest == 0) return date;
  return fmt::format("{}T{:02}:{:02}:{:02}Z", date, rest / 3600, rest / 60 % 60, rest % 60);
}

std::string write_key_hash(const AccessKey& key) {
  std::string out(kHashBegin);
  write_hex(key.salt, out);
  out += ':';
  write_hex(key.digest, out);
  return out;
}

// The checks run even if the text is no YAML; the record is then empty and adds nothing.
Result<Access> parse_access(const Source& source) {
  Problems problems(source.name);
  AccessRecord record;
  if (const auto root = parse_yaml(source, problems)) read_document(*root, problems, record);
  check_names(record, problems);
  Access access;
  for (const auto& tenant : record.tenants) access.tenants.push_back(read_tenant(tenant, problems));
  if (!problems.empty()) return problems.error();
  return access;
}

std::string write_access(const Access& access) {
  AccessRecord record;
  for (const auto& tenant : access.tenants) record.tenants.push_back(record_of(tenant));
  return to_yaml(write_document(record, Defaults::skip));
}

Shape access_shape() { return shape_of<AccessRecord>(); }

}  // namespace tangram::formats
