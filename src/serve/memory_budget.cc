// Counters of bytes that several threads charge without a lock.
//
// An account adds first and takes back what exceeded its limit: one atomic instruction where there is room, and never
// more than the limit admitted. A charge counts for its accounts in a fixed order and takes back what it has added
// already when one of them refuses.

#include "serve/memory_budget.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "host/files.h"

namespace tangram::serve {
namespace {

// The first memory of a text that grows, and the factor of each further step. Large texts have pages of their own,
// which take no memory before they are touched: larger steps cost nothing but addresses, and copies are few.
constexpr std::uint64_t kFirstStep = 4096;
constexpr std::uint64_t kStepFactor = 2;
constexpr std::uint64_t kLargeText = 128 << 10;
constexpr std::uint64_t kLargeStepFactor = 8;
// Of a text whose final size is known: when this share of it has come, memory for all of it is reserved.
constexpr std::uint64_t kShareToReserve = 8;
// A cgroup without a limit says "max" (v2) or a number of pages that no machine has (v1).
constexpr std::uint64_t kNoMachineHasMore = std::uint64_t{1} << 50;
constexpr std::uint64_t kSmallFileMax = 64 << 10;
// Where the system does not say how much memory it has.
constexpr std::uint64_t kMemoryUnknown = std::uint64_t{1} << 30;

std::optional<std::uint64_t> limit_in(const std::string& path) {
  const auto text = host::read_file(path, kSmallFileMax);
  if (!text) return std::nullopt;
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), bytes);
  if (error != std::errc{} || end == text->data() || bytes >= kNoMachineHasMore) return std::nullopt;
  return bytes;
}

// The smallest limit of the folder `path` below `mount` and of all folders above it. In a container the path can be one
// of the host's, which is not there: then the mount itself is the container's.
void take_limits(const std::string& mount, std::string path, const char* file, std::optional<std::uint64_t>& smallest) {
  while (true) {
    if (const auto limit = limit_in(mount + path + "/" + file)) smallest = std::min(*limit, smallest.value_or(*limit));
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return;
    path.resize(slash);
  }
}

constexpr int kMappedApart = 128 << 10;
constexpr int kArenasMax = 4;

}  // namespace

bool MemoryAccount::add(std::uint64_t bytes) {
  const std::uint64_t limit = limit_.load(std::memory_order_relaxed);
  // Such a number must not wrap the counter around.
  if (bytes > kUnlimited) return refused_.fetch_add(1, std::memory_order_relaxed), false;
  const std::uint64_t now = used_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (now > limit) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    refused_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  std::uint64_t most = used_max_.load(std::memory_order_relaxed);
  while (now > most && !used_max_.compare_exchange_weak(most, now, std::memory_order_relaxed)) continue;
  return true;
}

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  release();
  places_ = std::exchange(other.places_, {});
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

bool Charge::resize(std::uint64_t bytes) {
  MemoryAccount* const accounts[] = {places_.connection, places_.group, places_.whole};
  if (bytes <= bytes_) {
    const std::uint64_t less = bytes_ - bytes;
    bytes_ = bytes;
    if (less == 0) return true;
    for (MemoryAccount* account : accounts) {
      if (account != nullptr) account->subtract(less);
    }
    return true;
  }
  const std::uint64_t more = bytes - bytes_;
  for (std::size_t i = 0; i < std::size(accounts); ++i) {
    if (accounts[i] == nullptr || accounts[i]->add(more)) continue;
    while (i-- > 0) {
      if (accounts[i] != nullptr) accounts[i]->subtract(more);
    }
    return false;
  }
  bytes_ = bytes;
  return true;
}

bool Charge::move_to_group(MemoryAccount* group) {
  if (group == places_.group) return true;
  if (group != nullptr && !group->add(bytes_)) return false;
  if (places_.group != nullptr) places_.group->subtract(bytes_);
  places_.group = group;
  return true;
}

bool Charge::could_hold(std::uint64_t bytes) const {
  for (const MemoryAccount* account : {places_.connection, places_.group, places_.whole}) {
    if (account != nullptr && !account->could_hold(bytes)) return false;
  }
  return true;
}

// Invariant: the charge counts at least the bytes of the text. While its memory moves, it also counts those that are
// copied, and fails before anything is allocated if there is no room for both.
bool grow_charged(std::string& text, std::uint64_t size, std::uint64_t size_final, Charge& charge) {
  const std::uint64_t others = charge.bytes() - std::min<std::uint64_t>(charge.bytes(), text.size());
  if (size <= text.capacity()) return charge.resize(std::max(charge.bytes(), others + size));
  const std::uint64_t factor = text.capacity() >= kLargeText ? kLargeStepFactor : kStepFactor;
  std::uint64_t room = std::max({size, text.capacity() * factor, kFirstStep});
  if (size_final >= size) {
    room = size >= size_final / kShareToReserve ? size_final : std::min(room, size_final);
  }
  if (!charge.resize(others + text.size() + size)) return false;
  text.reserve(static_cast<std::size_t>(room));
  return charge.resize(others + size);
}

MemoryBudget::MemoryBudget(std::uint64_t bytes)
    : bytes_(std::max(bytes, kLeast)),
      data_(bytes_ - std::min<std::uint64_t>(bytes_ / 8, std::uint64_t{32} << 20)),
      admin_(bytes_ - data_.limit()),
      strangers_(data_.limit() / 4) {}

// /proc/self/cgroup has lines "N:controllers:path"; v2 is the line "0::path". A system can have both.
std::optional<std::uint64_t> container_memory_max(const std::string& root) {
  std::optional<std::uint64_t> smallest;
  const auto groups = host::read_file(root + "/proc/self/cgroup", kSmallFileMax);
  std::string_view rest = groups ? std::string_view(*groups) : std::string_view();
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto first = line.find(':');
    const auto second = line.find(':', first == std::string_view::npos ? first : first + 1);
    if (second == std::string_view::npos) continue;
    const std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    std::string path(line.substr(second + 1));
    if (path == "/") path.clear();
    if (controllers == ",,") {
      take_limits(root + "/sys/fs/cgroup", path, "memory.max", smallest);
      take_limits(root + "/sys/fs/cgroup/unified", path, "memory.max", smallest);
    } else if (controllers.find(",memory,") != std::string::npos) {
      take_limits(root + "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes", smallest);
    }
  }
  return smallest;
}

std::uint64_t default_memory_max(const std::string& root) {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  std::uint64_t memory = kMemoryUnknown;
  if (pages > 0 && page > 0) memory = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  if (const auto limit = container_memory_max(root)) memory = std::min(memory, *limit);
  return std::clamp(memory / 4, MemoryBudget::kLeast, MemoryBudget::kDefaultMax);
}

// By default, glibc raises the size from which memory is mapped apart to that of the largest block that was freed, up
// to 32 MiB: large texts then leave holes between small ones. It also keeps up to eight arenas for each core.
void return_memory_early() {
#ifdef M_MMAP_THRESHOLD
  mallopt(M_MMAP_THRESHOLD, kMappedApart);
  mallopt(M_TRIM_THRESHOLD, 2 * kMappedApart);
  mallopt(M_ARENA_MAX, kArenasMax);
#endif
}

}  // namespace tangram::serve
