// What an offline job has done, kept so that a kill at any instant loses nothing that was counted.
//
// Every job is one SQLite file in a folder, with its description and the answer of each row that has one. An answer
// counts once its transaction is committed. Beside it lies a lock file, held by the process that runs the job and let
// go by the kernel when that dies. Rows may be anybody's secrets: only their owner may read the files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/offline_rows.h"
#include "host/descriptor.h"

struct sqlite3;

namespace tangram::client {

enum class OfflineState : std::uint8_t {
  open,       // Not finished. A process runs the job, or it can be resumed.
  done,       // The output is complete.
  cancelled,  // By hand. It can be resumed all the same.
};
std::string_view to_string(OfflineState state);

struct OfflineJob {
  std::string id;
  std::string model;
  std::string input;  // Absolute paths.
  std::string output;
  RowFormat format = RowFormat::jsonl;
  std::string address = "127.0.0.1";
  std::uint16_t port = 8000;
  std::uint64_t rows = 0;  // Of the input, which must not change: its size and a digest are kept.
  std::uint64_t input_bytes = 0;
  std::uint64_t input_digest = 0;
  std::int64_t submitted_ms = 0;  // Milliseconds since 1970.
  std::int64_t deadline_ms = 0;   // The same; 0: none.

  // What changes.
  OfflineState state = OfflineState::open;
  std::uint64_t answered = 0;  // Rows with an answer, ...
  std::uint64_t failed = 0;    // ... and rows that will never have one.
  double rows_per_s = 0;       // As last seen.
  std::int64_t updated_ms = 0;
  std::string message;  // Why it stopped, or why nothing moves.

  std::uint64_t left() const { return rows - answered - failed; }
};

// What became of one row.
struct RowResult {
  std::uint64_t number = 0;
  std::uint64_t line = 0;
  bool ok = true;
  std::string text;     // The answer's body, or why there is none.
  std::string id = {};  // Of a row without an answer: what the input calls it, if anything.
};

struct OfflineProgress {
  double rows_per_s = 0;
  std::int64_t now_ms = 0;
};

class OfflineStore {
 public:
  // Makes the folder if necessary, and a job in it. `job.id` is chosen here: the model's name and a number. Removes
  // the partial jobs of processes that died while they made one.
  static Result<OfflineStore> create(const std::string& folder, const OfflineJob& job);
  static Result<OfflineStore> open(const std::string& folder, const std::string& id);
  // Ids of all jobs, by name.
  static std::vector<std::string> list(const std::string& folder);
  ~OfflineStore();
  OfflineStore(OfflineStore&&) noexcept;
  OfflineStore& operator=(OfflineStore&&) = delete;

  const std::string& id() const { return id_; }
  Result<OfflineJob> read() const;

  // Holds the job for this process until the store is destroyed. Error: another process runs it.
  Result<Nothing> lock();
  // Whether some process runs it now.
  bool running() const;

  // Writes all results and the progress, or nothing. A row that has a result already keeps it. Answers the state of the
  // job, which another process may have changed.
  Result<OfflineState> record(std::span<const RowResult> results, const OfflineProgress& progress);
  // Whether each row has a result, by number from 1; entry 0 is not used.
  Result<std::vector<bool>> recorded() const;
  // All results in the order of the rows. `each` answers an error to stop.
  Result<Nothing> each_result(const std::function<Result<Nothing>(const RowResult&)>& each) const;

  // From `from` to `to`; false if it was in another state.
  Result<bool> change_state(OfflineState from, OfflineState to);
  Result<Nothing> set_message(const std::string& message);
  Result<Nothing> set_server(const std::string& address, std::uint16_t port);
  // Frees the disk space of the results, once they are in the output.
  void forget_results();
  // The file that a job in the background writes its messages to.
  std::string log_path() const;

 private:
  OfflineStore(std::string folder, std::string id);
  // Builds a complete job file and gives it the first free id, which it returns. A failure leaves no file.
  static Result<std::string> make_file(const std::string& folder, const OfflineJob& job);
  // Opens the database `id_`, readable by the owner only. Requires that it is not open yet.
  Result<Nothing> open_file(int flags);
  // Creates the tables and the job's row. Requires an open, empty database.
  Result<Nothing> make_tables(const OfflineJob& job);
  // An error with the file's name, `what`, and SQLite's message for its last call.
  Error problem(std::string_view what) const;
  // Runs SQL statements without parameters or results.
  Result<Nothing> execute(const char* sql) const;

  std::string folder_;
  std::string id_;
  sqlite3* database_ = nullptr;
  host::Descriptor lock_;  // Of the lock file, once this process holds the job.
};

}  // namespace tangram::client
