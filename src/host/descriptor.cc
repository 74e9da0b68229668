#include "host/descriptor.h"

#include <cerrno>

namespace tangram::host {

void Descriptor::reset(int value) {
  const int old = std::exchange(value_, value);
  if (old < 0) return;
  // The caller may be about to report an earlier failure, so close() must not overwrite errno.
  const int problem = errno;
  ::close(old);
  errno = problem;
}

int write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(descriptor, content.data(), content.size());
    // A signal without SA_RESTART interrupts the write before any byte is written.
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

}  // namespace tangram::host
