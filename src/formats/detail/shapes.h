// The descriptions of all files, as values: where the schema and the reference page meet the parsers.
#pragma once

#include "formats/describe.h"

namespace tangram::formats {

Shape fleet_shape();
Shape services_shape();
Shape plan_shape();
Shape measurement_shape();
Shape trace_shape();
Shape histogram_shape();
Shape job_shape();
Shape training_shape();
Shape recut_shape();
Shape access_shape();
Shape training_job_shape();
Shape config_shape();

}  // namespace tangram::formats
