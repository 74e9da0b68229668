// Traces, rate curves, histograms and jobs: what parses is written and parses again to the same values. The first byte
// chooses the kind.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/jobs_file.h"
#include "formats/trace_file.h"

namespace {

using namespace tangram;

template <typename T>
void check_round_trip(const std::string& text, Result<T> (*parse)(const formats::Source&),
                      std::string (*write)(const T&)) {
  const auto value = parse({"in", text});
  if (!value) return;
  const std::string written = write(*value);
  const auto again = parse({"again", written});
  TANGRAM_CHECK(again.ok(), written);
  TANGRAM_CHECK(write(*again) == written, written);
  TANGRAM_CHECK(again->size() == value->size(), written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: check_round_trip(text, formats::parse_trace, formats::write_trace); break;
    case 1: check_round_trip(text, formats::parse_rate_curve, formats::write_rate_curve); break;
    case 2: check_round_trip(text, formats::parse_histogram, formats::write_histogram); break;
    default: check_round_trip(text, formats::parse_jobs, formats::write_jobs);
  }
  return 0;
}
