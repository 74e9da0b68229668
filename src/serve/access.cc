// Authentication by key or certificate, and the limits of tenants.
//
// A key is "tangram_ID_SECRET". The id finds the entry in a map; the secret is compared by a salted SHA-256 digest in
// constant time. A slow password hash is not needed: the secret has 256 random bits, so it cannot be guessed from a
// stolen file. Each limit is one atomic word, so counting takes no lock. A reload replaces the whole table; the
// counters of a tenant live in TenantState and survive it.

#include "serve/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "host/http_parser.h"
#include "host/tls.h"

namespace tangram::serve {
namespace {

constexpr std::string_view kKeyBegin = "tangram_";
// The id is public and only has to be unique within a file; the secret has 256 bits.
constexpr std::size_t kKeyIdBytes = 6;
constexpr std::size_t kKeySecretBytes = 32;
// Longer texts are not hashed: a caller must not choose how much work its denial costs.
constexpr std::size_t kKeyLengthMax = 256;
// Requests of a day in the lower bits of TenantState::day_and_used: 2^40 is 12 million a second, all day.
constexpr int kUsedBits = 40;
constexpr std::int64_t kDaySeconds = 86400;

// RFC 4648, the alphabet that is safe in addresses, without padding.
std::string base64url(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  for (const auto byte : bytes) {
    bits = bits << 8 | byte;
    for (held += 8; held >= 6; held -= 6) out += kAlphabet[bits >> (held - 6) & 63];
  }
  if (held > 0) out += kAlphabet[bits << (6 - held) & 63];
  return out;
}

std::string_view salt_view(const formats::AccessKey& key) {
  return {reinterpret_cast<const char*>(key.salt.data()), key.salt.size()};
}

std::array<std::uint8_t, 32> digest_of(const formats::AccessKey& salted, std::string_view text) {
  std::array<std::uint8_t, 32> digest{};
  host::sha256(salt_view(salted), text, digest.data());
  return digest;
}

// The key in "Bearer KEY", or empty for another scheme. Schemes are compared without case (RFC 9110 section 11.1).
std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return {};
  if (!host::equals_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return {};
  authorization.remove_prefix(kScheme.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return authorization;
}

AccessDenial refuse_request(TenantState& state, AccessRefusal why, std::string message, Duration retry_after) {
  state.count(why);
  return {CallStatus::refused, fmt::format("tenant '{}': {}", state.name, message), retry_after, why};
}

// The generic cell rate algorithm: requests at an even pace, and up to `burst` of them at once. The only state is the
// instant at which the next request would be due if they came evenly. A request passes if that instant is less than
// `burst` steps ahead. Returns zero if it passes, otherwise how long to wait. With 10 per second and a burst of 5, the
// sixth request of one instant is refused for 100 ms.
Duration wait_for_rate(const formats::AccessTenant& said, TenantState& state, TimePoint now) {
  const double pace = 1e9 / *said.rate_per_s;
  const auto step = static_cast<std::int64_t>(std::max(1.0, std::round(pace)));
  // Bounded, because a large burst at a low rate would overflow 64 bits of nanoseconds.
  const auto ahead_max = static_cast<std::int64_t>(std::min(9e18, (said.burst - 1) * pace));
  const std::int64_t now_ns = now.time_since_epoch().count();
  std::int64_t due = state.rate_due_ns.load(std::memory_order_relaxed);
  while (true) {
    // An idle tenant does not save up more than its burst: the instant never lies in the past.
    const std::int64_t from = std::max(due, now_ns);
    if (from - now_ns > ahead_max) return Duration(from - now_ns - ahead_max);
    if (state.rate_due_ns.compare_exchange_weak(due, from + step, std::memory_order_relaxed)) return Duration::zero();
  }
}

// Uses one request of today's quota and returns zero, or returns the time until the next day (UTC). Day and count share
// one word, so that the first request of a day resets the count in the same step that counts it.
Duration wait_for_quota(std::int64_t quota, TenantState& state, std::int64_t wall_s) {
  const auto day = static_cast<std::uint64_t>(wall_s / kDaySeconds) << kUsedBits;
  std::uint64_t seen = state.day_and_used.load(std::memory_order_relaxed);
  while (true) {
    const std::uint64_t today = (seen >> kUsedBits) << kUsedBits == day ? seen : day;
    const auto used = static_cast<std::int64_t>(today - day);
    if (used >= quota) return std::chrono::seconds(kDaySeconds - wall_s % kDaySeconds);
    if (state.day_and_used.compare_exchange_weak(seen, today + 1, std::memory_order_relaxed)) return Duration::zero();
  }
}

}  // namespace

bool TenantRule::may_use(std::string_view model) const {
  return said.models.empty() || std::ranges::find(said.models, model) != said.models.end();
}

// ---- Who ----

const TenantRule* AccessTable::identify(const Credentials& shown, std::int64_t wall_s, std::string& why) const {
  const std::string_view key = shown.api_key.empty() ? bearer(shown.authorization) : shown.api_key;
  if (key.empty()) {
    // A certificate identifies the caller only if no key is shown.
    for (const auto& name : shown.certificate_names) {
      if (const auto found = certificates_.find(name); found != certificates_.end()) return found->second;
    }
    why = shown.certificate_names.empty() ? "expected a key in the header field Authorization: Bearer KEY"
                                          : "no tenant has the name in this client certificate";
    return nullptr;
  }
  const auto id = key_id(key);
  const auto found = id ? keys_.find(*id) : keys_.end();
  // One message for an unknown id and a wrong secret, so that ids cannot be probed.
  if (found == keys_.end() || !is_key(key, found->second.key)) {
    why = "unknown key";
    return nullptr;
  }
  // Checked after the secret: only the owner of the key learns that it has expired.
  const auto& expires = found->second.key.expires_s;
  if (expires && wall_s >= *expires) {
    why = fmt::format("the key {} expired on {}", *id, formats::write_instant(*expires));
    return nullptr;
  }
  return found->second.tenant;
}

AccessTable::AccessTable(const formats::Access& access, const std::vector<TenantState*>& states) {
  for (std::size_t i = 0; i < access.tenants.size(); ++i) {
    const auto& tenant = access.tenants[i];
    // A deque does not move its elements when it grows, so the maps can point to them.
    const TenantRule& rule = tenants_.emplace_back(TenantRule{tenant, states[i]});
    for (const auto& key : tenant.keys) keys_.emplace(key.id, KeyPlace{key, &rule});
    for (const auto& name : tenant.certificate_names) certificates_.emplace(name, &rule);
  }
}

// A linear search, at a reload only. Ids are never reused, so counters and recordings never mix two tenants.
TenantState* Access::state_of(const std::string& name) {
  for (auto& state : states_) {
    if (state.name == name) return &state;
  }
  return &states_.emplace_back(TenantId(static_cast<std::uint32_t>(states_.size() + 1)), name, tenant_memory_max_);
}

// Callers that are being handled keep the old table alive by their shared_ptr.
void Access::set(const formats::Access& access) {
  const host::MutexLock lock(mutex_);
  std::vector<TenantState*> states;
  for (const auto& tenant : access.tenants) {
    states.push_back(state_of(tenant.name));
    const auto weight_ppm = std::max<std::int64_t>(1, std::llround(tenant.weight * 1e6));
    states.back()->weight_ppm.store(weight_ppm, std::memory_order_relaxed);
  }
  table_ = std::make_shared<const AccessTable>(access, states);
  on_ = true;
}

std::shared_ptr<const AccessTable> Access::table() const {
  const host::MutexLock lock(mutex_);
  return table_;
}

std::vector<const TenantState*> Access::tenants() const {
  const host::MutexLock lock(mutex_);
  std::vector<const TenantState*> all;
  for (const auto& state : states_) all.push_back(&state);
  return all;
}

// ---- How much ----

std::optional<AccessDenial> begin_request(const TenantRule& tenant, const AccessTime& time) {
  TenantState& state = *tenant.state;
  const formats::AccessTenant& said = tenant.said;
  // Counts itself before it compares: two requests at the limit cannot both see room.
  const std::int64_t in_flight = state.in_flight.fetch_add(1, std::memory_order_relaxed) + 1;
  const auto refuse_it = [&](AccessRefusal why, std::string message, Duration retry_after) {
    end_request(state);
    return refuse_request(state, why, std::move(message), retry_after);
  };
  // When a request in flight will end is not known here, so one second is a guess.
  if (said.in_flight_max && in_flight > *said.in_flight_max) {
    return refuse_it(AccessRefusal::in_flight, fmt::format("{} requests are already in flight", *said.in_flight_max),
                     std::chrono::seconds(1));
  }
  // Last, because a request that is refused for another limit must not use up the tenant's rate.
  if (said.rate_per_s) {
    if (const Duration wait = wait_for_rate(said, state, time.now); wait > Duration::zero()) {
      return refuse_it(AccessRefusal::rate, fmt::format("more than {:g} requests a second", *said.rate_per_s), wait);
    }
  }
  return std::nullopt;
}

std::optional<AccessDenial> use_quota(const TenantRule& tenant, const AccessTime& time) {
  const auto& quota = tenant.said.quota_per_day;
  if (!quota) return std::nullopt;
  const Duration wait = wait_for_quota(*quota, *tenant.state, time.wall_s);
  if (wait == Duration::zero()) return std::nullopt;
  return refuse_request(*tenant.state, AccessRefusal::quota,
                        fmt::format("today's quota of {} requests is used up", *quota), wait);
}

void return_quota(TenantState& tenant, std::int64_t day) {
  std::uint64_t seen = tenant.day_and_used.load(std::memory_order_relaxed);
  while (seen >> kUsedBits == static_cast<std::uint64_t>(day) && seen != static_cast<std::uint64_t>(day) << kUsedBits) {
    if (tenant.day_and_used.compare_exchange_weak(seen, seen - 1, std::memory_order_relaxed)) return;
  }
}

void end_request(TenantState& tenant) { tenant.in_flight.fetch_sub(1, std::memory_order_relaxed); }

// What a request does not name is the model's own, which is not the tenant's to choose.
void cap_request(const formats::AccessTenant& tenant, Call& call) {
  if (tenant.priority_best && call.priority > 0) call.priority = std::max(call.priority, *tenant.priority_best);
  if (tenant.deadline_max && call.deadline) call.deadline = std::min(*call.deadline, *tenant.deadline_max);
}

// ---- Keys ----

NewKey make_key() {
  std::array<std::uint8_t, kKeyIdBytes> id{};
  std::array<std::uint8_t, kKeySecretBytes> secret{};
  NewKey made;
  host::fill_with_secrets(id.data(), id.size());
  host::fill_with_secrets(secret.data(), secret.size());
  host::fill_with_secrets(made.kept.salt.data(), made.kept.salt.size());
  made.kept.id = "k";  // A letter, so that YAML never takes it for a number.
  for (const auto byte : id) made.kept.id += fmt::format("{:02x}", byte);
  made.text = fmt::format("{}{}_{}", kKeyBegin, made.kept.id, base64url(secret));
  made.kept.digest = digest_of(made.kept, made.text);
  return made;
}

std::optional<std::string_view> key_id(std::string_view text) {
  if (text.size() > kKeyLengthMax || !text.starts_with(kKeyBegin)) return std::nullopt;
  text.remove_prefix(kKeyBegin.size());
  const auto end = text.find('_');
  if (end == std::string_view::npos || end == 0 || end + 1 == text.size()) return std::nullopt;
  return text.substr(0, end);
}

bool is_key(std::string_view text, const formats::AccessKey& kept) {
  const auto digest = digest_of(kept, text);
  return host::equal_in_constant_time(digest.data(), kept.digest.data(), digest.size());
}

}  // namespace tangram::serve
