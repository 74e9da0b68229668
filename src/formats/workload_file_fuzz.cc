// What parses as services is written, parses again and is written the same.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/workload_file.h"

namespace {

// Every file that the services name holds a little of everything, so that each kind of reader finds something.
tangram::Result<std::string> read_beside(const std::string& path) {
  if (path.ends_with(".csv")) return std::string("at_s,size\n0,1\n2,3\n");
  if (path.ends_with(".hist")) return std::string("size,weight\n1,1\n4,2\n");
  return std::string("1\n2\n");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tangram;
  const auto workload =
      formats::parse_workload({"s.yaml", std::string(reinterpret_cast<const char*>(data), size)}, read_beside);
  if (!workload) return 0;
  const std::string text = formats::write_workload(*workload);
  const auto again = formats::parse_workload({"again.yaml", text}, read_beside);
  TANGRAM_CHECK(again.ok(), text);
  TANGRAM_CHECK(formats::write_workload(*again) == text, text);
  TANGRAM_CHECK(again->services.size() == workload->services.size(), text);
  for (std::size_t i = 0; i < workload->services.size(); ++i) {
    const auto& a = workload->services[i];
    const auto& b = again->services[i];
    TANGRAM_CHECK(a.name == b.name && a.model == b.model && a.slo == b.slo && a.priority == b.priority, text);
    TANGRAM_CHECK(a.traffic.index() == b.traffic.index() && a.input_size.index() == b.input_size.index(), text);
    TANGRAM_CHECK(mean_rate_per_s(a.traffic) == mean_rate_per_s(b.traffic) && largest_size(a) == largest_size(b), text);
  }
  return 0;
}
