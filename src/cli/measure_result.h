// The result of a measuring session as a value that `report` can show.
#pragma once

#include "measure/session.h"
#include "report/measure_view.h"

namespace tangram::cli {

report::MeasureView measure_view(const measure::Report& result);

}  // namespace tangram::cli
