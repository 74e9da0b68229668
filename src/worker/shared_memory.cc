// Shared memory as a sealed memfd.
//
// The danger of shared files is truncation: if one process shrinks the file, the other gets SIGBUS on its next access.
// The seals rule that out. F_SEAL_SHRINK keeps the size, and F_SEAL_SEAL keeps anyone from changing the seals later.

#include "worker/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tangram::worker {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Error failure(const char* what, std::size_t bytes) {
  return {ErrorCode::exhausted, fmt::format("{} of {} bytes: {}", what, bytes, std::strerror(errno))};
}

}  // namespace

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  // The old mapping has to be released first; it would leak when the pointer is overwritten.
  reset();
  descriptor_ = std::move(other.descriptor_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

void SharedMemory::reset() {
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  descriptor_.reset();
  size_ = 0;
}

Result<SharedMemory> SharedMemory::map(host::Descriptor descriptor, std::size_t bytes) {
  SharedMemory memory;
  memory.descriptor_ = std::move(descriptor);
  // The kernel zeroes pages on first touch, so a large mapping costs nothing until it is used.
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.descriptor(), 0);
  if (data == MAP_FAILED) return failure("cannot map shared memory", bytes);
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = bytes;
  return memory;
}

Result<SharedMemory> SharedMemory::make(std::size_t bytes) {
  host::Descriptor descriptor(memfd_create("tangram-tensors", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool made = descriptor.open() && ftruncate(descriptor.get(), static_cast<off_t>(bytes)) == 0 &&
                    fcntl(descriptor.get(), F_ADD_SEALS, kSeals) == 0;
  if (!made) return failure("cannot create shared memory", bytes);
  return map(std::move(descriptor), bytes);
}

Result<SharedMemory> SharedMemory::adopt(int given, std::size_t bytes) {
  // Owns the descriptor from the first line, so that it is closed on every path.
  host::Descriptor descriptor(given);
  struct stat about{};
  // F_GET_SEALS fails for a file that cannot have seals, and such a file is rejected.
  const int seals = fcntl(given, F_GET_SEALS);
  const bool good = bytes > 0 && fstat(given, &about) == 0 && seals >= 0 && (seals & F_SEAL_SHRINK) != 0 &&
                    static_cast<std::size_t>(about.st_size) >= bytes;
  if (good) return map(std::move(descriptor), bytes);
  return Error{ErrorCode::invalid, fmt::format("not a shared memory object of {} bytes", bytes)};
}

}  // namespace tangram::worker
