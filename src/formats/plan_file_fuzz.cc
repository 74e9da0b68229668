// What parses as a plan is written and parses again to an equal one, and its layouts are valid.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/plan_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tangram;
  const auto plan = formats::parse_plan({"p.json", std::string(reinterpret_cast<const char*>(data), size)});
  if (!plan) return 0;
  const std::string text = formats::write_plan(*plan);
  const auto again = formats::parse_plan({"again.json", text});
  TANGRAM_CHECK(again.ok(), text);
  TANGRAM_CHECK(*again == *plan, text);
  TANGRAM_CHECK(formats::write_plan(*again) == text, text);
  for (const auto& device : plan->devices) TANGRAM_CHECK(why_invalid(device.geometry, layout_of(device)).empty(), text);
  return 0;
}
