// What is imported is a file that our own parsers take. The first line names the format, the rest is the file.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/import.h"
#include "formats/jobs_file.h"
#include "formats/measurements_file.h"
#include "formats/plan_file.h"
#include "formats/recuts_file.h"
#include "formats/trace_file.h"
#include "formats/training_file.h"
#include "formats/workload_file.h"

namespace {

using namespace tangram;

// True if `text` is a file of the given kind. Measurements of the same configuration twice are
// refused by the parser and not by the importer, which does not judge what was measured.
bool is_accepted(std::string_view output, const std::string& text) {
  const formats::Source source{"out", text};
  if (output == "trace") return formats::parse_trace(source).ok();
  if (output == "curve") return formats::parse_rate_curve(source).ok();
  if (output == "histogram") return formats::parse_histogram(source).ok();
  if (output == "jobs") return formats::parse_jobs(source).ok();
  if (output == "training") return formats::parse_training(source).ok();
  if (output == "recuts") return formats::parse_recuts(source).ok();
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  const std::size_t line_end = all.find('\n');
  if (line_end == std::string::npos) return 0;
  const std::string format = all.substr(0, line_end);
  const formats::Source source{"app/validation-8.csv", all.substr(line_end + 1)};
  const auto text = formats::import_text(format, {source});
  if (!text) return 0;
  const auto kind = formats::import_kind(*formats::find_import_format(format), source);
  TANGRAM_CHECK(is_accepted(kind, *text), *text);
  return 0;
}
