// Where tests find the public data, which is not part of the repository. Only tests include this.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "experiments/data.h"

namespace tangram::experiments {

// TANGRAM_DATA names another folder than the usual one beside the repository.
inline std::filesystem::path data_folder() {
  const char* place = std::getenv("TANGRAM_DATA");
  return place != nullptr ? std::filesystem::path(place) : std::filesystem::path(TANGRAM_SOURCE_DIR) / "../shared/data";
}

inline File public_file(const std::string& path) {
  std::ifstream stream(data_folder() / path, std::ios::binary);
  if (!stream) return Error{ErrorCode::not_found, path + ": cannot read"};
  return formats::Source{path, std::string(std::istreambuf_iterator<char>(stream), {})};
}

// Tests of figures that only the public data give. Without it they are reported as skipped, not as passed.
class PublicData : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(data_folder())) {
      GTEST_SKIP() << "the public data is not at " << data_folder() << "; set TANGRAM_DATA to its place";
    }
  }
};

}  // namespace tangram::experiments
