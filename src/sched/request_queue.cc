#include "sched/request_queue.h"

namespace tangram::sched {

// Blocks are never freed or moved, so a Waiting* stays valid, and a steady load allocates nothing.
void RequestStore::add_block() {
  blocks_.push_back(std::make_unique<Waiting[]>(kBlock));
  for (std::size_t i = 0; i < kBlock; ++i) {
    blocks_.back()[i].next = free_;
    blocks_.back()[i].number = static_cast<RecordNumber>((blocks_.size() - 1) * kBlock + i);
    free_ = &blocks_.back()[i];
  }
}

}  // namespace tangram::sched
