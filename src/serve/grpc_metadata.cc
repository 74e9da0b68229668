#include "serve/grpc_metadata.h"

#include <algorithm>

namespace tangram::serve {
namespace {

// What RFC 9113 adds to each field when it counts them.
constexpr std::size_t kFieldOverhead = 32;

// In the order of GrpcField.
constexpr std::array<std::string_view, kGrpcFields> kFieldNames{":method",
                                                                ":path",
                                                                "content-type",
                                                                "grpc-timeout",
                                                                "grpc-encoding",
                                                                "grpc-accept-encoding",
                                                                "authorization",
                                                                "x-api-key",
                                                                "traceparent",
                                                                "tangram-deadline-ms",
                                                                "tangram-input-size",
                                                                "tangram-background",
                                                                "triton_grpc_error"};

}  // namespace

void GrpcMetadata::add(std::string_view name, std::string_view value) {
  bytes_ += name.size() + value.size() + kFieldOverhead;
  const auto* const found = std::ranges::find(kFieldNames, name);
  if (found == kFieldNames.end()) return;
  Kept& kept = kept_[static_cast<std::size_t>(found - kFieldNames.begin())];
  if (kept.count++ == 0) kept.value = value;
}

}  // namespace tangram::serve
