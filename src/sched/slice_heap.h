// The slices of a pool ordered by when they will be free.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "core/ids.h"

namespace tangram::sched {

// A four-way heap of (key, slice) whose keys can be changed in place. Equal keys are ordered by slice, so the answer
// never depends on history. Costs: update 1; front, insert and erase log4 n for each slice that was updated since.
//
// Updates wait until somebody looks: a slice that ends one batch and starts the next is then moved once, and not at
// all while policies only ask for idle slices.
class SliceHeap {
 public:
  // `positions` maps every slice of the scheduler to its place here and is shared by the pools: a slice is in one pool.
  explicit SliceHeap(std::vector<std::uint32_t>* positions) : positions_(positions) {}

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  SliceId front() const {
    settle();
    return SliceId(entries_.front().slice);
  }

  // A slice that is here, in no order. Cost 1.
  SliceId any() const { return SliceId(entries_.front().slice); }

  // The key of a slice, or nothing if it is not here. Cost 1.
  std::optional<std::int64_t> key_of(SliceId slice) const {
    const std::size_t at = (*positions_)[slice.index()];
    if (at >= entries_.size() || entries_[at].slice != slice.value()) return std::nullopt;
    return entries_[at].moved ? entries_[at].next_key : entries_[at].key;
  }

  void insert(SliceId slice, std::int64_t key) {
    settle();
    entries_.push_back({key, slice.value()});
    sift_up(entries_.size() - 1, entries_.back());
  }

  void update(SliceId slice, std::int64_t key) {
    const std::size_t at = (*positions_)[slice.index()];
    TANGRAM_CHECK(at < entries_.size() && entries_[at].slice == slice.value(), "the slice is in this heap");
    if (!entries_[at].moved) {
      entries_[at].moved = true;
      moved_.push_back(slice.value());
    }
    entries_[at].next_key = key;
  }

  void erase(SliceId slice) {
    settle();
    const std::size_t at = (*positions_)[slice.index()];
    TANGRAM_CHECK(at < entries_.size() && entries_[at].slice == slice.value(), "the slice is in this heap");
    const Entry last = entries_.back();
    entries_.pop_back();
    if (at == entries_.size()) return;
    sift_up(at, last);
    sift_down((*positions_)[last.slice], last);
  }

 private:
  struct Entry {
    std::int64_t key;
    std::uint32_t slice;
    bool moved = false;         // Its key is about to become ...
    std::int64_t next_key = 0;  // ... this one.

    // Without branches, which could not be foreseen.
    bool operator<(const Entry& other) const {
      return static_cast<bool>(static_cast<int>(key < other.key) |
                               (static_cast<int>(key == other.key) & static_cast<int>(slice < other.slice)));
    }
  };

  // Gives all slices that were updated their new keys, one after the other, so that the rest is a heap each time.
  void settle() const {
    for (const std::uint32_t slice : moved_) {
      const std::size_t at = (*positions_)[slice];
      const Entry entry{entries_[at].next_key, slice};
      if (entry.key <= entries_[at].key) {
        sift_up(at, entry);
      } else {
        sift_down(at, entry);
      }
    }
    moved_.clear();
  }

  void set(std::size_t at, const Entry& entry) const {
    entries_[at] = entry;
    (*positions_)[entry.slice] = static_cast<std::uint32_t>(at);
  }

  // Both put the entry where it belongs on the way up or down from the gap `at`.
  void sift_up(std::size_t at, const Entry entry) const {
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (!(entry < entries_[parent])) break;
      set(at, entries_[parent]);
      at = parent;
    }
    set(at, entry);
  }

  // Of up to four entries from `first` on.
  std::size_t least_child(std::size_t first) const {
    if (first + 4 <= entries_.size()) {
      const std::size_t a = first + (entries_[first + 1] < entries_[first] ? 1 : 0);
      const std::size_t b = first + 2 + (entries_[first + 3] < entries_[first + 2] ? 1 : 0);
      return a + (b - a) * (entries_[b] < entries_[a] ? 1 : 0);
    }
    std::size_t least = first;
    for (std::size_t child = first + 1; child < entries_.size(); ++child) {
      if (entries_[child] < entries_[least]) least = child;
    }
    return least;
  }

  void sift_down(std::size_t at, const Entry entry) const {
    while (true) {
      const std::size_t first = 4 * at + 1;
      if (first >= entries_.size()) break;
      const std::size_t least = least_child(first);
      if (!(entries_[least] < entry)) break;
      set(at, entries_[least]);
      at = least;
    }
    set(at, entry);
  }

  std::vector<std::uint32_t>* positions_;
  mutable std::vector<Entry> entries_;
  mutable std::vector<std::uint32_t> moved_;
};

}  // namespace tangram::sched
