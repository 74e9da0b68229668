#include "host/descriptor.h"

#include <sys/resource.h>

#include <algorithm>
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

std::uint64_t raise_descriptor_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::max<rlim_t>(before, std::min<rlim_t>(wanted, limit.rlim_max));
  if (limit.rlim_cur != before && setrlimit(RLIMIT_NOFILE, &limit) != 0) return before;
  return limit.rlim_cur;
}

}  // namespace tangram::host
