// The GPUs of this machine, cut.
//
// Every write names a GPU by its UUID and a slice by its MigProfile's id and its start, always with an explicit place:
// left to itself the driver puts small slices where they leave no room for large ones. Handles are looked up anew for
// each write, because they do not survive a change of mode.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/nvml/nvml.h"
#include "base/result.h"

namespace tangram::adapters {

class NvmlLibrary;

// A slice by its place, and the parts that it is to have.
struct SliceOrder {
  int vendor_id = 0;
  int start = 0;
  std::optional<std::vector<SlicePart>> parts;  // Nothing: one part with everything.
};

// Errors of writes say in words what the driver refused: `denied` where rights are missing, `unavailable` where the
// slice is in use, there is no room, or the GPU must be reset. A write that fails leaves what it found, as far as the
// driver lets it.
class MigDriver {
 public:
  // Errors: there is no library at `path` (empty: the usual one), or it does not answer.
  static Result<std::unique_ptr<MigDriver>> open(const std::string& path = {});
  ~MigDriver();
  MigDriver(const MigDriver&) = delete;
  MigDriver& operator=(const MigDriver&) = delete;

  // Everything that the driver tells now.
  DriverReport read() const;

  // Switches MIG mode. Errors: the mode changes only with the next reset of the GPU, or the GPU is in use.
  Result<Nothing> set_mig_mode(const std::string& gpu_uuid, bool on);
  Result<Nothing> create(const std::string& gpu_uuid, const SliceOrder& order);
  // With its parts.
  Result<Nothing> destroy(const std::string& gpu_uuid, const SliceOrder& order);
  // Takes the parts of a slice away and makes those that are ordered.
  Result<Nothing> remake_parts(const std::string& gpu_uuid, const SliceOrder& order);

 private:
  explicit MigDriver(std::unique_ptr<NvmlLibrary> library);

  std::unique_ptr<NvmlLibrary> library_;
};

}  // namespace tangram::adapters
