// Any text either is refused with a message or becomes a model that answers and reads back the same.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "lab/model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tangram;
  const auto model = lab::parse_model({"model.json", std::string(reinterpret_cast<const char*>(data), size)});
  if (!model) {
    TANGRAM_CHECK(!model.error().message.empty(), "a refusal says why");
    return 0;
  }
  const auto text = lab::write_model(*model);
  const auto again = lab::parse_model({"model.json", text});
  TANGRAM_CHECK(again.ok() && lab::write_model(*again) == text, "a model reads back the same");
  for (const auto& run : model->runs()) {
    const learn::Candidate candidate = learn::candidate_of(run.measured.front());
    static_cast<void>(model->predict({run.device, candidate.mig_profile, run.model, 3, candidate.size, 2}));
  }
  return 0;
}
