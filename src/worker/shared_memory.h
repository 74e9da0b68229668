// Memory that two processes share.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "host/descriptor.h"

namespace tangram::worker {

// A mapping of an anonymous file. Any process that has its descriptor can map it. It cannot be made smaller, so a
// process that has mapped it never accesses memory beyond its end.
class SharedMemory {
 public:
  SharedMemory() = default;
  ~SharedMemory() { reset(); }
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  // Zeroed memory of at least `bytes`. Errors: the kernel has no memory.
  static Result<SharedMemory> make(std::size_t bytes);
  // Takes over a descriptor that another process made. Errors: it is smaller than `bytes`, or can shrink.
  static Result<SharedMemory> adopt(int descriptor, std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  int descriptor() const { return descriptor_.get(); }
  void reset();

 private:
  // Requires an open descriptor of at least `bytes`. Takes it over.
  static Result<SharedMemory> map(host::Descriptor descriptor, std::size_t bytes);

  host::Descriptor descriptor_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tangram::worker
