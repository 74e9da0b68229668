// The classification extension: instead of an output, the largest elements of each sample and where they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace tangram::serve {

// Whether elements of this datatype can be compared: numbers can, BYTES and booleans cannot.
bool can_classify(Datatype datatype);

// "VALUE:INDEX" of the `classes` largest of the elements of each sample, the largest first; among equals, the first.
// Fewer if a sample has fewer elements: then all samples have as many. `raw` has `samples` rows of the same length. NaN
// comes last.
std::vector<std::string> classify(Datatype datatype, std::string_view raw, std::int64_t samples, std::int64_t classes);

}  // namespace tangram::serve
