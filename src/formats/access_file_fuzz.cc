// What parses as an access file is written, parses again to the same value and is written the same.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/access_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tangram;
  const auto access = formats::parse_access({"access.yaml", std::string(reinterpret_cast<const char*>(data), size)});
  if (!access) return 0;
  const std::string text = formats::write_access(*access);
  const auto again = formats::parse_access({"again.yaml", text});
  TANGRAM_CHECK(again.ok(), text);
  TANGRAM_CHECK(*again == *access, text);
  TANGRAM_CHECK(formats::write_access(*again) == text, text);
  return 0;
}
