// Cuts one idle GPU for `tangram measure --cut` and `tangram doctor --self-test`, and cuts it back.
#pragma once

#include <memory>
#include <string>

#include "adapters/nvml/nvml.h"
#include "cli/session.h"
#include "core/layout.h"
#include "recut/checkpoint.h"

namespace tangram::cli {

// The GPU of this UUID or index. Errors: there is none, it does not answer, the tables do not know it, its slices are
// not known, or a process uses it.
Result<adapters::DriverGpu> idle_gpu(const adapters::DriverReport& driver, const std::string& wanted);

// A GPU that is cut again and again, and at the end as it was. How it was is in a file from before the first cut until
// it is so again: the next one after a kill starts with that file, and so can `tangram rollback --checkpoint FILE`.
// While one exists, no other program of ours cuts a GPU that has the same state folder.
class BorrowedGpu {
 public:
  // `state`: the folder for that file; empty: the usual one. Errors: those of idle_gpu(), the GPU is of another type,
  // or another program cuts GPUs now.
  static Result<std::unique_ptr<BorrowedGpu>> take(Session& session, const Geometry& geometry,
                                                   const std::string& wanted, const std::string& state);
  // Gives back what is not given back yet. An error is told, since nobody can be asked any more.
  ~BorrowedGpu();
  BorrowedGpu(const BorrowedGpu&) = delete;
  BorrowedGpu& operator=(const BorrowedGpu&) = delete;

  const Layout& layout() const { return layout_; }
  const std::string& uuid() const { return uuid_; }
  const std::string& file() const { return file_; }
  int cuts() const { return cuts_; }
  Result<Nothing> cut(const Layout& layout);
  // Cuts it as it was, and removes the file.
  Result<Nothing> give_back();

 private:
  BorrowedGpu(Session& session, const Geometry& geometry) : session_(session), geometry_(geometry) {}
  Result<Nothing> change(const recut::GpuGoal& goal, const std::string& why);

  Session& session_;
  Geometry geometry_;
  std::string uuid_;
  std::string directory_;  // Of our own checkpoints: that of the last `tangram apply` stays.
  std::string file_;
  std::unique_ptr<recut::RecutLock> lock_;
  recut::Checkpoint before_;
  recut::GpuGoal goal_;  // As it is now.
  Layout layout_;
  int cuts_ = 0;
  bool given_back_ = false;
};

}  // namespace tangram::cli
