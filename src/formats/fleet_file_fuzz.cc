// What parses as a fleet is written, parses again and is written the same.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/fleet_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tangram;
  const CpuHost host{.cores = 2, .memory_gib = 8, .quota = true};
  const auto fleet = formats::parse_fleet({"fleet.yaml", std::string(reinterpret_cast<const char*>(data), size)}, host);
  if (!fleet) return 0;
  const std::string text = formats::write_fleet(*fleet);
  const auto again = formats::parse_fleet({"again.yaml", text}, host);
  TANGRAM_CHECK(again.ok(), text);
  TANGRAM_CHECK(formats::write_fleet(*again) == text, text);
  TANGRAM_CHECK(again->groups.size() == fleet->groups.size() && again->spare == fleet->spare, text);
  for (std::size_t i = 0; i < fleet->groups.size(); ++i) {
    const auto& a = fleet->groups[i];
    const auto& b = again->groups[i];
    TANGRAM_CHECK(a.name == b.name && a.type == b.type && a.count == b.count && a.price_per_hour == b.price_per_hour,
                  text);
    TANGRAM_CHECK(a.profiles == b.profiles && a.layout == b.layout && a.host.has_value() == b.host.has_value(), text);
    TANGRAM_CHECK(!a.layout || why_invalid(formats::group_geometry(a, host), *a.layout).empty(), text);
  }
  return 0;
}
