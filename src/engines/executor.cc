// Here and not in the header, which does not know what a ModelSpec is.
#include "engines/executor.h"

#include "engines/batch_engine.h"

namespace tangram::engines {

bool Executor::change_models(SliceId /*slice*/, std::vector<ModelSpec> /*models*/) { return false; }

}  // namespace tangram::engines
