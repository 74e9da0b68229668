// What parses as measurements is written and parses again to the same values.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/measurements_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tangram;
  const auto measurements =
      formats::parse_measurements({"m.csv", std::string(reinterpret_cast<const char*>(data), size)});
  if (!measurements) return 0;
  const std::string text = formats::write_measurements(*measurements);
  const auto again = formats::parse_measurements({"again.csv", text});
  TANGRAM_CHECK(again.ok(), text);
  TANGRAM_CHECK(*again == *measurements, text);
  return 0;
}
