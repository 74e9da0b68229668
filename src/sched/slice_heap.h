// The slices of a pool ordered by when they will be free.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "core/ids.h"

namespace tangram::sched {

// A four-way heap of (key, slice) whose keys can be changed in place. Equal keys are ordered by slice, so the answer
// never depends on history. Costs: front 1, update and erase log4 n.
class SliceHeap {
 public:
  // `positions` maps every slice of the scheduler to its place here and is shared by the pools: a slice is in one pool.
  explicit SliceHeap(std::vector<std::uint32_t>* positions) : positions_(positions) {}

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  SliceId front() const { return SliceId(entries_.front().slice); }
  std::int64_t front_key() const { return entries_.front().key; }

  void insert(SliceId slice, std::int64_t key) {
    entries_.push_back({key, slice.value()});
    sift_up(entries_.size() - 1);
  }

  void update(SliceId slice, std::int64_t key) {
    const std::size_t at = (*positions_)[slice.index()];
    TANGRAM_CHECK(at < entries_.size() && entries_[at].slice == slice.value(), "the slice is in this heap");
    const std::int64_t before = entries_[at].key;
    entries_[at].key = key;
    if (key < before) {
      sift_up(at);
    } else if (key > before) {
      sift_down(at);
    }
  }

  void erase(SliceId slice) {
    const std::size_t at = (*positions_)[slice.index()];
    TANGRAM_CHECK(at < entries_.size() && entries_[at].slice == slice.value(), "the slice is in this heap");
    const Entry last = entries_.back();
    entries_.pop_back();
    if (at == entries_.size()) return;
    entries_[at] = last;
    (*positions_)[last.slice] = static_cast<std::uint32_t>(at);
    sift_up(at);
    sift_down((*positions_)[last.slice]);
  }

 private:
  struct Entry {
    std::int64_t key;
    std::uint32_t slice;

    bool operator<(const Entry& other) const { return key != other.key ? key < other.key : slice < other.slice; }
  };

  void set(std::size_t at, const Entry& entry) {
    entries_[at] = entry;
    (*positions_)[entry.slice] = static_cast<std::uint32_t>(at);
  }

  void sift_up(std::size_t at) {
    const Entry entry = entries_[at];
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (!(entry < entries_[parent])) break;
      set(at, entries_[parent]);
      at = parent;
    }
    set(at, entry);
  }

  void sift_down(std::size_t at) {
    const Entry entry = entries_[at];
    while (true) {
      const std::size_t first = 4 * at + 1;
      if (first >= entries_.size()) break;
      const std::size_t end = first + 4 < entries_.size() ? first + 4 : entries_.size();
      std::size_t least = first;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (entries_[child] < entries_[least]) least = child;
      }
      if (!(entries_[least] < entry)) break;
      set(at, entries_[least]);
      at = least;
    }
    set(at, entry);
  }

  std::vector<std::uint32_t>* positions_;
  std::vector<Entry> entries_;
};

}  // namespace tangram::sched
