// A file that appears under its name only when it is complete and on the disk.
#pragma once

#include <string>
#include <string_view>

#include "host/descriptor.h"

namespace tangram::host {

// Content goes to a temporary file beside the target, which take_name() renames. Readers of the target therefore see
// the old content or the new, never a part. Destroying the object before take_name() removes the temporary file.
//
// Functions return zero or the errno of what failed; callers word the error.
class AtomicFile {
 public:
  // The temporary file gets a name of its own, ".NAME.XXXXXX", and the mode 0600.
  explicit AtomicFile(std::string target);
  // The temporary file is `temporary`, with the mode of any new file. What a killed process left under that name is
  // overwritten, so left-overs do not pile up. `temporary` is in the target's directory, or rename(2) may fail.
  AtomicFile(std::string target, std::string temporary);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Zero, or why the temporary file could not be made. Then nothing else may be called.
  int error() const { return error_; }
  int descriptor() const { return file_.get(); }
  const std::string& target() const { return target_; }
  const std::string& temporary() const { return temporary_; }
  const std::string& directory() const { return directory_; }

  int append(std::string_view content) const;
  // The content reaches the disk.
  int sync() const;
  // Closes the file and gives it the target's name. Requires sync(): a rename may reach the disk before the content.
  int take_name();
  // The new name reaches the disk.
  int sync_directory() const;

 private:
  std::string target_;
  std::string directory_;
  std::string temporary_;
  Descriptor file_;
  int error_;
  bool there_;  // The temporary file exists under its temporary name.
};

}  // namespace tangram::host
