// What a program remembers between two runs: named texts in one folder, which one process at a time may use.
//
// A SQLite database, so that a program that is killed at any instant finds either all of the last write or nothing of
// it. The lock is a flock(), which the kernel releases with the process, even after SIGKILL.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "host/descriptor.h"

struct sqlite3;

namespace tangram::host {

class StateStore {
 public:
  // Takes the lock of the folder, which is made if need be, and opens the database. Nothing: another process has the
  // lock. Errors: the folder cannot be used, or the file in it is not one of ours.
  static Result<std::optional<StateStore>> open(const std::string& folder);
  StateStore(StateStore&&) noexcept = default;
  StateStore& operator=(StateStore&&) noexcept = default;

  // The text of this name; nothing if there is none.
  Result<std::optional<std::string>> read(const std::string& name) const;
  // Writes all of them or none, and returns when they are on disk. Errors: also that the folder was deleted.
  Result<Nothing> write(const std::map<std::string, std::string>& texts);

 private:
  struct Closer {
    void operator()(sqlite3* database) const;
  };

  StateStore(Descriptor lock, std::string path) : lock_(std::move(lock)), path_(std::move(path)) {}
  Error problem(const char* what) const;
  std::string lock_path() const;
  // Whether the files have their names in the folder still.
  bool still_there() const;

  Descriptor lock_;
  std::string path_;
  std::unique_ptr<sqlite3, Closer> database_;
};

}  // namespace tangram::host
