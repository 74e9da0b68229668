// Training applications and jobs, from the rows of their files.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/jobs_file.h"
#include "formats/training_file.h"
#include "train/application.h"

namespace tangram::lab {

Result<train::Applications> training_applications(const std::vector<formats::TrainingRow>& rows);

// Every application that the jobs name must be there. `name` stands in front of the message.
Result<Nothing> check_applications(const std::string& name, const std::vector<formats::Job>& jobs,
                                   const train::Applications& applications);

}  // namespace tangram::lab
