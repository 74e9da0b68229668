// An output stream on a file descriptor that remembers what went wrong.
#pragma once

#include <array>
#include <ostream>
#include <streambuf>

namespace tangram::cli {

// Standard streams lose the reason of a failed write. This one keeps it, so that a full disk behind standard output
// ends the program with a message, and a reader who has gone away (`| head`) ends it in silence.
class FdStream final : private std::streambuf, public std::ostream {
 public:
  explicit FdStream(int file_descriptor);
  ~FdStream() override;
  FdStream(const FdStream&) = delete;
  FdStream& operator=(const FdStream&) = delete;

  // errno of the first write that failed, or zero. What follows a failure is dropped.
  int error() const { return error_; }

 private:
  int overflow(int letter) override;
  int sync() override;
  void write_out();

  int file_descriptor_;
  int error_ = 0;
  std::array<char, 1 << 15> buffer_;
};

}  // namespace tangram::cli
