// A file descriptor with one owner.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace tangram::host {

// Closes its descriptor when it is destroyed. A negative value means no descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }

  int get() const { return value_; }
  bool open() const { return value_ >= 0; }
  // Gives the descriptor away without closing it.
  int release() { return std::exchange(value_, -1); }
  // Closes the descriptor, if there is one, and takes over `value`. errno stays: callers report an earlier failure.
  void reset(int value = -1);
  // The result of close(2). Some network file systems report a failed write only here.
  int close() { return ::close(release()); }

 private:
  int value_ = -1;
};

// Writes all of `content`, however many calls that takes. Zero, or the errno of the write that failed.
int write_all(int descriptor, std::string_view content);

// Raises the number of descriptors that this process may have open towards `wanted`, as far as the hard limit permits,
// and returns how many that are. Never lowers it.
std::uint64_t raise_descriptor_limit(std::uint64_t wanted);

}  // namespace tangram::host
