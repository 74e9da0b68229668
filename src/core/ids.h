// The ids that cross rooms. Each indexes the array of its owner.
#pragma once

#include "base/strong_id.h"

namespace tangram {

using DeviceId = StrongId<struct DeviceTag>;
using SliceId = StrongId<struct SliceTag>;
using ServiceId = StrongId<struct ServiceTag>;
using TenantId = StrongId<struct TenantTag>;
using RequestId = StrongId<struct RequestTag, std::uint64_t>;
using BatchId = StrongId<struct BatchTag, std::uint64_t>;

}  // namespace tangram
