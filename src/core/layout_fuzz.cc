// What parses as a layout is valid, is printed and parses again to the same. The first byte chooses the device.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "core/layout.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tangram;
  if (size == 0) return 0;
  static const Geometry host = cpu_geometry({.cores = 2, .memory_gib = 8, .quota = true});
  const auto known = known_geometries();
  const std::size_t choice = data[0] % (known.size() + 1);
  const Geometry& geometry = choice < known.size() ? known[choice] : host;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const ParsedLayout parsed = parse_layout(geometry, text);
  // What was kept is valid even where other parts were wrong, and every problem lies inside the text.
  TANGRAM_CHECK(why_invalid(geometry, parsed.layout).empty(), why_invalid(geometry, parsed.layout));
  for (const auto& problem : parsed.problems) TANGRAM_CHECK(problem.offset <= text.size(), problem.message);
  const std::string printed = to_string(geometry, parsed.layout);
  const ParsedLayout again = parse_layout(geometry, printed);
  TANGRAM_CHECK(again.problems.empty() && again.layout == parsed.layout, printed);
  return 0;
}
