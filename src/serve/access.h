// Who calls, what they may do, and how much of it.
//
// Keys are looked up by the part that is not secret, and one SHA-256 tells whether the rest is right. Rates, quotas and
// requests in flight are counted without a lock, by any thread. Nothing here reads a clock: whoever asks says what time
// it is.
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

namespace tangram::serve {

// Why a tenant's request was refused.
enum class AccessRefusal : std::uint8_t { rate, quota, in_flight, model, role };
inline constexpr std::array<std::string_view, 5> kAccessRefusals{"rate", "quota", "in_flight", "model", "role"};

// What is counted of a tenant. It lives as long as the Access, however often the file is read again.
struct TenantState {
  TenantState(TenantId i, std::string n) : id(i), name(std::move(n)) {}

  const TenantId id;
  const std::string name;
  std::atomic<std::int64_t> in_flight{0};
  std::atomic<std::int64_t> rate_due_ns{0};    // When the next request would be due if they came evenly.
  std::atomic<std::uint64_t> day_and_used{0};  // Days since 1970, and in the lower 40 bits the requests of that day.
  std::array<std::atomic<std::uint64_t>, 4> outcomes{};                       // By OutcomeKind.
  std::array<std::atomic<std::uint64_t>, kAccessRefusals.size()> refusals{};  // By AccessRefusal.

  void count(AccessRefusal why) { refusals[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed); }
};

// A tenant as the file has it now.
struct TenantRule {
  formats::AccessTenant said;
  TenantState* state = nullptr;

  bool may_use(std::string_view model) const;
  bool may_use_all() const { return said.models.empty(); }
};

// What the caller shows. Views live as long as the question.
struct Credentials {
  std::string_view authorization;  // "Bearer KEY".
  std::string_view api_key;        // The same key in a field of its own.
  std::span<const std::string> certificate_names;
};

// A refusal, in the words of the protocols.
struct AccessDenial {
  CallStatus status = CallStatus::unauthenticated;
  std::string message;
  Duration retry_after{};
  std::optional<AccessRefusal> why = {};  // Nothing: nobody knows who calls, or it cannot be told.
};

// Now, on both clocks: the one that never goes back, and the one on the wall.
struct AccessTime {
  TimePoint now;
  std::int64_t wall_s = 0;  // Since 1970, UTC.
};

// The file, ready for questions. Never changes.
class AccessTable {
 public:
  // `states` has the counts of each tenant, in the order of the file. They outlive the table.
  AccessTable(const formats::Access& access, const std::vector<TenantState*>& states);
  // Who calls; null if nobody who is known, and `why` says what is wrong.
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
  // False: nobody is asked who they are.
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Takes the file, the first or the next. A tenant of a name that was there keeps its counts. Any thread.
  void set(const formats::Access& access);
  // What the file says now. Any thread.
  std::shared_ptr<const AccessTable> table() const;
  // Every tenant that ever was, by id. Any thread.
  std::vector<const TenantState*> tenants() const;

  std::atomic<std::uint64_t> unauthenticated{0};

 private:
  // The state of the tenant with this name, made where there is none.
  TenantState* state_of(const std::string& name) REQUIRES(mutex_);

  std::atomic<bool> on_{false};
  mutable host::Mutex mutex_;
  std::shared_ptr<const AccessTable> table_ GUARDED_BY(mutex_);
  std::deque<TenantState> states_ GUARDED_BY(mutex_);  // From id 1: id 0 is who calls where nobody is asked.
};

// Lets one inference request of the tenant in, or says why not. Its rate counts it whatever it holds: to read what
// makes no sense is work, too. What is let in is to be ended.
std::optional<AccessDenial> begin_request(const TenantRule& tenant, const AccessTime& time);
// Takes one of today's quota for a request that was let in and makes sense, or says why not.
std::optional<AccessDenial> use_quota(const TenantRule& tenant, const AccessTime& time);
void end_request(TenantState& tenant);

// ---- Keys ----

struct NewKey {
  std::string text;         // To be shown once.
  formats::AccessKey kept;  // For the file.
};
// "tangram_ID_SECRET" with 256 random bits.
NewKey make_key();
// The part of the key that is not secret; nothing if the text is not of that form.
std::optional<std::string_view> key_id(std::string_view text);
// Whether `kept` was made of this text.
bool is_key(std::string_view text, const formats::AccessKey& kept);

}  // namespace tangram::serve
