#include "cli/fd_stream.h"

#include <unistd.h>

#include <cerrno>

namespace tangram::cli {

FdStream::FdStream(int file_descriptor)
    : std::ostream(static_cast<std::streambuf*>(this)), file_descriptor_(file_descriptor) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

FdStream::~FdStream() { write_out(); }

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
