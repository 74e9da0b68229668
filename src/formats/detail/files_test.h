// Where tests of this room find files. Only tests include this: the room itself opens none.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "formats/source.h"

namespace tangram::formats::test {

inline std::optional<std::string> read(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// A file of the repository. An absent one comes back empty, which no parser accepts.
inline std::string repository_file(const std::string& path) {
  return read(std::filesystem::path(TANGRAM_SOURCE_DIR) / path).value_or("");
}

inline Source example(const std::string& name) { return {name, repository_file("examples/" + name)}; }

// The folder of public data, which is not part of the repository.
inline std::filesystem::path data_folder() {
  const char* place = std::getenv("TANGRAM_DATA");
  return place != nullptr ? std::filesystem::path(place) : std::filesystem::path(TANGRAM_SOURCE_DIR) / "../shared/data";
}

}  // namespace tangram::formats::test
