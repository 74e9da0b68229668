// A stream buffer over write(2) that keeps errno. After the first failure everything is dropped, so the error is that
// of the first write that failed.

#include "cli/fd_stream.h"

#include <unistd.h>

#include <cerrno>

namespace tangram::cli {

// The stream base needs a buffer; this object is its own.
FdStream::FdStream(int file_descriptor)
    : std::ostream(static_cast<std::streambuf*>(this)), file_descriptor_(file_descriptor) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

FdStream::~FdStream() { write_out(); }

// Ensures an empty buffer, written or dropped. write() may take only a part, or be interrupted by a signal before it
// takes anything; both continue the loop.
void FdStream::write_out() {
  const char* next = pbase();
  while (next < pptr() && error_ == 0) {
    const ssize_t written = ::write(file_descriptor_, next, static_cast<std::size_t>(pptr() - next));
    if (written >= 0) {
      next += written;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

// Called when the buffer is full; `letter` is the character that did not fit, or eof for a plain flush.
int FdStream::overflow(int letter) {
  write_out();
  if (error_ != 0) return std::streambuf::traits_type::eof();
  if (letter != std::streambuf::traits_type::eof()) {
    *pptr() = static_cast<char>(letter);
    pbump(1);
  }
  return std::streambuf::traits_type::not_eof(letter);
}

int FdStream::sync() {
  write_out();
  return error_ == 0 ? 0 : -1;
}

}  // namespace tangram::cli
