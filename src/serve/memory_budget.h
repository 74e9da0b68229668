// One accounting for the memory that callers make the server hold: what they send, what it becomes when it is read,
// and the answers that they have not taken yet, over HTTP and gRPC alike.
//
// Bytes are charged before they are allocated. A charge counts for up to three accounts at once:
//
//   connection   so that one connection cannot take what all share
//   group        the tenant; or the strangers, for a request whose caller is not known yet
//   whole        all of the data ports, or the admin port, which has a budget of its own
//
// If one of them has no room, nothing is charged, and the caller of the server is refused (503, RESOURCE_EXHAUSTED).
// The accounts are counters without a lock: any thread may charge and release.
//
//   Charge body(MemoryPlaces{&connection, &budget.strangers(), &budget.data()});
//   if (!body.resize(body.bytes() + more)) return refuse(...);        // Before the bytes are stored.
//   if (!body.move_to_group(&tenant->memory)) return refuse(...);     // The key is known now.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tangram::serve {

// Bytes that are charged, and how many may be.
class MemoryAccount {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max() / 2;

  explicit MemoryAccount(std::uint64_t limit = kUnlimited) : limit_(limit) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // False: they would exceed the limit, and nothing is charged. While another thread is being refused, a charge that
  // would fit can be refused, too; one that does not fit never passes.
  bool add(std::uint64_t bytes);
  // Requires that they were charged.
  void subtract(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  std::uint64_t used_max() const { return used_max_.load(std::memory_order_relaxed); }  // Since the start.
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }    // Charges, not bytes.
  std::uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // A limit below what is used refuses further charges; nothing is taken back.
  void set_limit(std::uint64_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  // Whether these bytes could be charged if nothing else were: a request that fails this is too large for ever.
  bool could_hold(std::uint64_t bytes) const { return bytes <= limit(); }

 private:
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> used_max_{0};
  std::atomic<std::uint64_t> refused_{0};
};

// The accounts that a charge counts for. They outlive it; null: none.
struct MemoryPlaces {
  MemoryAccount* connection = nullptr;
  MemoryAccount* group = nullptr;
  MemoryAccount* whole = nullptr;
};

// Bytes that are charged as long as this lives. One thread at a time.
class Charge {
 public:
  // Charges to nobody: every change succeeds and counts nowhere.
  Charge() = default;
  explicit Charge(const MemoryPlaces& places) : places_(places) {}
  Charge(Charge&& other) noexcept : places_(std::exchange(other.places_, {})), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept;
  ~Charge() { release(); }

  std::uint64_t bytes() const { return bytes_; }
  const MemoryPlaces& places() const { return places_; }
  // False: there is no room, and the charge stays what it was. Less always succeeds.
  bool resize(std::uint64_t bytes);
  bool grow(std::uint64_t more) { return more <= MemoryAccount::kUnlimited && resize(bytes_ + more); }
  void shrink(std::uint64_t less) { resize(bytes_ - (less < bytes_ ? less : bytes_)); }
  // Gives back everything. The places stay.
  void release() { resize(0); }
  // Counts for this group from now on. False: it has no room, and nothing has changed.
  bool move_to_group(MemoryAccount* group);
  // Whether so many bytes could be charged if nothing else were.
  bool could_hold(std::uint64_t bytes) const;

 private:
  MemoryPlaces places_;
  std::uint64_t bytes_ = 0;
};

// Ensures that `text` can grow to `size` without exceeding what `charge` counts for it. Grows in steps that keep the
// copies few, and charges the old and the new memory while both exist. `size_final` is the size that the text is known
// to get, 0: unknown; the memory for it is reserved at once when an eighth of it has come, because pages that are not
// touched take no memory, and the charge is that of the bytes that came. False: no room, nothing has changed.
bool grow_charged(std::string& text, std::uint64_t size, std::uint64_t size_final, Charge& charge);

// The accounts of one server.
class MemoryBudget {
 public:
  static constexpr std::uint64_t kDefaultMax = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kLeast = std::uint64_t{16} << 20;

  // `bytes`: of everything together, at least kLeast.
  explicit MemoryBudget(std::uint64_t bytes = kDefaultMax);

  std::uint64_t bytes() const { return bytes_; }
  // The data ports of both protocols: seven eighths. The admin port: the rest, at most 32 MiB, so that an operator
  // still gets in when clients have used up theirs.
  MemoryAccount& data() { return data_; }
  const MemoryAccount& data() const { return data_; }
  MemoryAccount& admin() { return admin_; }
  const MemoryAccount& admin() const { return admin_; }
  // Requests whose callers are not known yet, where callers are authenticated: a quarter of the data ports'.
  MemoryAccount& strangers() { return strangers_; }
  const MemoryAccount& strangers() const { return strangers_; }
  // What one tenant may hold, and one connection: half of the data ports', so that one never stops all others.
  std::uint64_t tenant_max() const { return data_.limit() / 2; }
  std::uint64_t connection_max() const { return data_.limit() / 2; }

 private:
  const std::uint64_t bytes_;
  MemoryAccount data_;
  MemoryAccount admin_;
  MemoryAccount strangers_;
};

// The memory limit of the container that this process runs in (cgroup v1 or v2, the smallest of all levels above it);
// nullopt: it has none. `root` is where the file system begins, for tests.
std::optional<std::uint64_t> container_memory_max(const std::string& root = "");
// A quarter of that, or of the memory of the machine, at most kDefaultMax and at least kLeast.
std::uint64_t default_memory_max(const std::string& root = "");

// Lets the allocator return the memory of large texts to the system when they end, and keep few arenas: what is charged
// then bounds what the process takes. Once, before the threads of a server start.
void return_memory_early();

}  // namespace tangram::serve
