#include "cli/page_files.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "host/files.h"
#include "host/tls.h"

namespace tangram::cli {
namespace {

// A page with so many frames of a dozen services takes a few MB. Half as many remain after thinning.
constexpr std::int64_t kPageFrames = 600;
constexpr Duration kPageIntervalMin = std::chrono::milliseconds(100);
constexpr std::size_t kPageHistoryBytes = std::size_t{256} << 20;

std::string base64(const std::uint8_t* bytes, std::size_t count) {
  static constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < count; i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) three = three << 8 | (i + k < count ? bytes[i + k] : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += i + k > count ? '=' : kLetters[three >> (18 - 6 * k) & 63U];
  }
  return out;
}

}  // namespace

std::string page_digest(std::string_view text) {
  std::array<std::uint8_t, 32> digest{};
  host::sha256(text, "", digest.data());
  return base64(digest.data(), digest.size());
}

control::FleetHistoryOptions whole_history(Duration length) {
  control::FleetHistoryOptions options;
  options.keep_recent = false;
  options.bytes_max = kPageHistoryBytes;
  // A run can end after its last arrival, so there is room for more than are planned.
  options.frames_max = kPageFrames * 5 / 4;
  const bool known = length > Duration::zero() && length < std::chrono::hours(24 * 365 * 20);
  options.interval = known ? std::max(length / kPageFrames, kPageIntervalMin) : Duration(std::chrono::seconds(1));
  return options;
}

Result<Nothing> write_page(const std::string& path, const control::FleetHistory& history,
                           const control::RecordedPage& page) {
  return host::write_file_atomically(path,
                                     report::page_file(control::history_json(history, page), page.title, page_digest));
}

}  // namespace tangram::cli
