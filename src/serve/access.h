// Authentication, rights and limits of tenants.
//
// A key is looked up by its public part, and one SHA-256 verifies the rest. Rates, quotas and requests in flight are
// counted without a lock, by any thread. Nothing here reads a clock: the caller passes the time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/ids.h"
#include "core/request.h"
#include "formats/access_file.h"
#include "host/mutex.h"
#include "serve/call.h"
#include "serve/memory_budget.h"

namespace tangram::serve {

// Why a tenant's request was refused.
enum class AccessRefusal : std::uint8_t { rate, quota, in_flight, model, role };
inline constexpr std::array<std::string_view, 5> kAccessRefusals{"rate", "quota", "in_flight", "model", "role"};

// The counters of a tenant. They live as long as the Access, across reloads of the file.
struct TenantState {
  TenantState(TenantId i, std::string n, std::uint64_t memory_max = MemoryAccount::kUnlimited)
      : id(i), name(std::move(n)), memory(memory_max) {}

  const TenantId id;
  const std::string name;
  MemoryAccount memory;  // What the server holds for the tenant's requests and answers.
  std::atomic<std::int64_t> in_flight{0};
  std::atomic<std::int64_t> weight_ppm{1'000'000};  // As the file in force has it, in millionths.
  std::atomic<std::int64_t> rate_due_ns{0};         // When the next request would be due if they came evenly.
  std::atomic<std::uint64_t> day_and_used{0};  // Days since 1970, and in the lower 40 bits the requests of that day.
  std::array<std::atomic<std::uint64_t>, kOutcomeKinds.size()> outcomes{};    // By OutcomeKind.
  std::array<std::atomic<std::uint64_t>, kAccessRefusals.size()> refusals{};  // By AccessRefusal.

  void count(AccessRefusal why) { refusals[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed); }
};

// A tenant as the current file describes it.
struct TenantRule {
  formats::AccessTenant said;
  TenantState* state = nullptr;

  bool may_use(std::string_view model) const;
  bool may_use_all() const { return said.models.empty(); }
};

// The credentials that a caller presents. The views live as long as the request for identification.
struct Credentials {
  std::string_view authorization;  // "Bearer KEY".
  std::string_view api_key;        // The same key in a field of its own.
  std::span<const std::string> certificate_names;
};

// A refusal, in terms of the protocols.
struct AccessDenial {
  CallStatus status = CallStatus::unauthenticated;
  std::string message;
  Duration retry_after{};
  std::optional<AccessRefusal> why = {};  // Nothing: the caller is unknown or ambiguous.
};

// Now, on both clocks: the monotonic one and the wall clock.
struct AccessTime {
  TimePoint now;
  std::int64_t wall_s = 0;  // Since 1970, UTC.
};

// The file, indexed for lookups. Immutable.
class AccessTable {
 public:
  // `states` has the counts of each tenant, in the order of the file. They outlive the table.
  AccessTable(const formats::Access& access, const std::vector<TenantState*>& states);
  // The tenant that the credentials belong to. Null: unknown, and `why` has the reason.
  const TenantRule* identify(const Credentials& shown, std::int64_t wall_s, std::string& why) const;

 private:
  struct KeyPlace {
    formats::AccessKey key;
    const TenantRule* tenant = nullptr;
  };

  std::deque<TenantRule> tenants_;
  std::map<std::string, KeyPlace, std::less<>> keys_;
  std::map<std::string, const TenantRule*, std::less<>> certificates_;
};

class Access {
 public:
  // `tenant_memory_max`: bytes that the server holds for each tenant at most.
  explicit Access(std::uint64_t tenant_memory_max = MemoryAccount::kUnlimited)
      : tenant_memory_max_(tenant_memory_max) {}
  // False: callers are not authenticated.
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Puts the file in force, the first or the next. A tenant whose name was there before keeps its counters. Any thread.
  void set(const formats::Access& access);
  // The table of the file in force. Any thread.
  std::shared_ptr<const AccessTable> table() const;
  // All tenants of all files so far, by id. Any thread.
  std::vector<const TenantState*> tenants() const;

  std::atomic<std::uint64_t> unauthenticated{0};

 private:
  // The state of the tenant with this name, made where there is none.
  TenantState* state_of(const std::string& name) REQUIRES(mutex_);

  const std::uint64_t tenant_memory_max_;
  std::atomic<bool> on_{false};
  mutable host::Mutex mutex_;
  std::shared_ptr<const AccessTable> table_ GUARDED_BY(mutex_);
  std::deque<TenantState> states_ GUARDED_BY(mutex_);  // From id 1: id 0 means no access control.
};

// Admits one inference request of the tenant, or returns the reason to refuse it. The request counts towards the rate
// even if it turns out to be invalid: reading it is work, too. Requires one end_request() for each admitted request.
std::optional<AccessDenial> begin_request(const TenantRule& tenant, const AccessTime& time);
// Uses one request of today's quota, for a request that was admitted and is valid, or returns the reason to refuse it.
std::optional<AccessDenial> use_quota(const TenantRule& tenant, const AccessTime& time);
// Gives back what a request of that day (days since 1970, UTC) used, because it did not run. Nothing if the day is
// over.
void return_quota(TenantState& tenant, std::int64_t day);
// The day of `time`.
inline std::int64_t quota_day(const AccessTime& time) { return time.wall_s / 86'400; }
void end_request(TenantState& tenant);
// Priority and deadline of a request that names more than the tenant may have become what it may have.
void cap_request(const formats::AccessTenant& tenant, Call& call);

// ---- Keys ----

struct NewKey {
  std::string text;         // Shown once; the file has only its digest.
  formats::AccessKey kept;  // For the file.
};
// "tangram_ID_SECRET" with 256 random bits.
NewKey make_key();
// The part of the key that is not secret; nothing if the text is not of that form.
std::optional<std::string_view> key_id(std::string_view text);
// Whether `kept` was made of this text.
bool is_key(std::string_view text, const formats::AccessKey& kept);

}  // namespace tangram::serve
