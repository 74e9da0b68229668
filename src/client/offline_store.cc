// One offline job is one SQLite file, `<model>-<number>.sqlite`, with one row in `job` and one per result in `results`.
//
// Invariants:
// - A file with a job's name is always a whole job: it is built under a temporary name and linked when complete.
// - `answered` and `failed` in `job` change in the same transaction as `results`, so the counts always agree.
// - At most one process runs a job: it holds a flock on `<id>.lock`, which the kernel releases even after a kill.
#include "client/offline_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace tangram::client {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kJobSuffix = ".sqlite";
constexpr std::string_view kMakingPrefix = ".making-";
constexpr int kMakingAttempts = 100;
constexpr int kBusyMs = 10'000;  // How long a process waits for another that writes.
constexpr int kJobsMax = 100'000;
constexpr int kLockAttempts = 20;
constexpr unsigned kLockPauseUs = 10'000;

// Results are keyed by row number. With write-ahead logging and synchronous=NORMAL a commit needs no fsync: a power
// failure may lose the last commits, a crash of the process never does, and a lost row is only asked again.
constexpr const char* kTables =
    "PRAGMA journal_mode=WAL;"
    "CREATE TABLE job("
    " model TEXT NOT NULL, input TEXT NOT NULL, output TEXT NOT NULL, format TEXT NOT NULL,"
    " address TEXT NOT NULL, port INTEGER NOT NULL, rows INTEGER NOT NULL, input_bytes INTEGER NOT NULL,"
    " input_digest INTEGER NOT NULL, submitted_ms INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,"
    " state TEXT NOT NULL DEFAULT 'open', answered INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,"
    " rows_per_s REAL NOT NULL DEFAULT 0, updated_ms INTEGER NOT NULL DEFAULT 0, message TEXT NOT NULL DEFAULT '');"
    "CREATE TABLE results(row INTEGER PRIMARY KEY, line INTEGER NOT NULL, ok INTEGER NOT NULL, text BLOB NOT NULL,"
    " id TEXT NOT NULL DEFAULT '');";

// A prepared statement that cleans up after itself. Parameters are bound in order.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) { sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr); }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::string_view text) {
    sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& bind(std::int64_t value) {
    sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  Statement& bind(std::uint64_t value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(double value) {
    sqlite3_bind_double(statement_, ++bound_, value);
    return *this;
  }
  // Not copied, unlike text: an answer may be megabytes, and the caller keeps it until the statement has run.
  Statement& bind_bytes(std::string_view bytes) {
    sqlite3_bind_blob64(statement_, ++bound_, bytes.data(), bytes.size(), SQLITE_STATIC);
    return *this;
  }
  // Ready for the next values.
  void reset() {
    sqlite3_reset(statement_);
    bound_ = 0;
  }

  // True: there is a row to read.
  bool step() { return sqlite3_step(statement_) == SQLITE_ROW; }
  bool run() { return sqlite3_step(statement_) == SQLITE_DONE; }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::uint64_t natural(int column) const { return static_cast<std::uint64_t>(integer(column)); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }
  // Read as a blob, because an answer may hold zero bytes.
  std::string text(int column) const {
    const void* bytes = sqlite3_column_blob(statement_, column);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

// Maps a model name to a portable file name, so that an id cannot leave the folder: `a/../b` becomes `a____b`.
std::string safe_job_name(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_'; }, '_');
  return name;
}

// The temporary file in which a job is built. Its maker holds a lock on it, which the kernel releases when the maker
// dies, so an unlocked file is garbage that any process may remove. The destructor removes the file.
class MakingFile {
 public:
  explicit MakingFile(const std::string& folder) {
    for (int attempt = 0; attempt < kMakingAttempts && descriptor_ < 0; ++attempt) {
      path_ = fmt::format("{}/{}XXXXXX{}", folder, kMakingPrefix, kJobSuffix);
      descriptor_ = ::mkostemps(path_.data(), static_cast<int>(kJobSuffix.size()), O_CLOEXEC);
      error_ = errno;
      if (descriptor_ < 0) return;
      // Another process may have removed the file as garbage before it was locked; then it has no link left.
      struct stat facts {};
      const bool held = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 && ::fstat(descriptor_, &facts) == 0;
      if (held && facts.st_nlink > 0) return;
      close_and_remove();
    }
  }
  ~MakingFile() { close_and_remove(); }
  MakingFile(const MakingFile&) = delete;
  MakingFile& operator=(const MakingFile&) = delete;

  bool made() const { return descriptor_ >= 0; }
  int error() const { return error_; }
  const std::string& path() const { return path_; }
  // What SQLite is asked for: the name without its end.
  std::string name() const {
    const std::string file = fs::path(path_).filename().string();
    return file.substr(0, file.size() - kJobSuffix.size());
  }

 private:
  void close_and_remove() {
    if (descriptor_ < 0) return;
    ::unlink(path_.c_str());
    ::close(descriptor_);
    descriptor_ = -1;
  }

  std::string path_;
  int descriptor_ = -1;
  int error_ = 0;
};

// Removes the temporary files of processes that died while they built a job.
void tidy_up(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const auto end = name.find(kJobSuffix);
    if (!name.starts_with(kMakingPrefix) || end == std::string::npos) continue;
    // SQLite's -wal and -shm files have the same prefix and share the fate of the database file.
    const fs::path file = fs::path(folder) / name.substr(0, end + kJobSuffix.size());
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    // Where the database file is gone, its -wal and -shm files are left over and can go as well.
    const bool dead = descriptor < 0 ? errno == ENOENT : ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    if (dead) ::unlink(entry.path().c_str());
    if (descriptor >= 0) ::close(descriptor);
  }
}

OfflineState parse_job_state(std::string_view text) {
  return text == "done" ? OfflineState::done : text == "cancelled" ? OfflineState::cancelled : OfflineState::open;
}

}  // namespace

std::string_view to_string(OfflineState state) {
  switch (state) {
    case OfflineState::open: return "open";
    case OfflineState::done: return "done";
    case OfflineState::cancelled: return "cancelled";
  }
  return "";
}

// ---- Files ----

OfflineStore::OfflineStore(std::string folder, std::string id) : folder_(std::move(folder)), id_(std::move(id)) {}

OfflineStore::OfflineStore(OfflineStore&& other) noexcept
    : folder_(std::move(other.folder_)),
      id_(std::move(other.id_)),
      database_(std::exchange(other.database_, nullptr)),
      lock_(std::move(other.lock_)) {}

OfflineStore::~OfflineStore() { sqlite3_close(database_); }

std::string OfflineStore::log_path() const { return (fs::path(folder_) / (id_ + ".log")).string(); }

Error OfflineStore::problem(std::string_view what) const {
  return {ErrorCode::unavailable, fmt::format("{}/{}{}: {}: {}", folder_, id_, kJobSuffix, what,
                                              database_ == nullptr ? "out of memory" : sqlite3_errmsg(database_))};
}

Result<Nothing> OfflineStore::execute(const char* sql) const {
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return problem("cannot be changed");
  return Nothing{};
}

Result<Nothing> OfflineStore::open_file(int flags) {
  const std::string path = (fs::path(folder_) / (id_ + std::string(kJobSuffix))).string();
  // SQLite copies the permissions to the -wal and -shm files.
  // Rows and answers may be private data, so only the owner may read them.
  static_cast<void>(::chmod(path.c_str(), S_IRUSR | S_IWUSR));
  if (sqlite3_open_v2(path.c_str(), &database_, flags | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK) {
    return problem("cannot be opened");
  }
  sqlite3_busy_timeout(database_, kBusyMs);
  return execute("PRAGMA synchronous=NORMAL;");
}

Result<OfflineStore> OfflineStore::create(const std::string& folder, const OfflineJob& job) {
  std::error_code error;
  // Permissions change only on a folder that this call made; an existing one belongs to the user.
  if (fs::create_directories(folder, error)) fs::permissions(folder, fs::perms::owner_all, error);
  tidy_up(folder);
  TANGRAM_TRY(const auto id, make_file(folder, job));
  // Open only after make_file has closed its descriptor: SQLite uses POSIX locks, and closing any descriptor of a file
  // drops all POSIX locks that the process has on it.
  return open(folder, id);
}

// The job is built under a temporary name and gets its own when complete, so a kill leaves no partial job. The
// number is the first free one. link(2) never replaces a file, so of two processes only one gets the number.
Result<std::string> OfflineStore::make_file(const std::string& folder, const OfflineJob& job) {
  const MakingFile making(folder);
  if (!making.made()) {
    return Error{ErrorCode::denied, fmt::format("{}: cannot create a job: {}", folder, std::strerror(making.error()))};
  }
  {
    // The block closes the database, and with it merges the log into the file, before the file gets its name.
    OfflineStore store(folder, making.name());
    TANGRAM_RETURN_IF_ERROR(store.open_file(SQLITE_OPEN_READWRITE));
    TANGRAM_RETURN_IF_ERROR(store.make_tables(job));
  }
  for (int number = 1; number <= kJobsMax; ++number) {
    const std::string id = fmt::format("{}-{}", safe_job_name(job.model), number);
    const fs::path to = fs::path(folder) / (id + std::string(kJobSuffix));
    if (::link(making.path().c_str(), to.c_str()) == 0) return id;
    if (errno == EEXIST) continue;
    return Error{ErrorCode::denied, fmt::format("{}: {}", to.string(), std::strerror(errno))};
  }
  return Error{ErrorCode::exhausted, fmt::format("{}: more than {} jobs; remove some", folder, kJobsMax)};
}

Result<OfflineStore> OfflineStore::open(const std::string& folder, const std::string& id) {
  std::error_code error;
  if (safe_job_name(id) != id || !fs::exists(fs::path(folder) / (id + std::string(kJobSuffix)), error)) {
    return Error{ErrorCode::not_found,
                 fmt::format("{}: no such job in {}; `tangram batch status` lists them", id, folder)};
  }
  OfflineStore store(folder, id);
  TANGRAM_RETURN_IF_ERROR(store.open_file(SQLITE_OPEN_READWRITE));
  // Job files of older versions lack this column. The statement fails where it exists, which is ignored.
  sqlite3_exec(store.database_, "ALTER TABLE results ADD COLUMN id TEXT NOT NULL DEFAULT ''", nullptr, nullptr,
               nullptr);
  return store;
}

std::vector<std::string> OfflineStore::list(const std::string& folder) {
  tidy_up(folder);
  std::vector<std::string> ids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kJobSuffix) && !name.starts_with('.'))
      ids.push_back(name.substr(0, name.size() - kJobSuffix.size()));
  }
  std::ranges::sort(ids);
  return ids;
}

Result<Nothing> OfflineStore::make_tables(const OfflineJob& job) {
  TANGRAM_RETURN_IF_ERROR(execute(kTables));
  Statement insert(database_,
                   "INSERT INTO job(model, input, output, format, address, port, rows, input_bytes, input_digest,"
                   " submitted_ms, deadline_ms, updated_ms) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)");
  insert.bind(job.model).bind(job.input).bind(job.output).bind(to_string(job.format)).bind(job.address);
  insert.bind(std::int64_t{job.port}).bind(job.rows).bind(job.input_bytes).bind(job.input_digest);
  insert.bind(job.submitted_ms).bind(job.deadline_ms).bind(job.submitted_ms);
  if (!insert.run()) return problem("cannot be written");
  return Nothing{};
}

Result<Nothing> OfflineStore::lock() {
  const std::string path = (fs::path(folder_) / (id_ + ".lock")).string();
  lock_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_.open()) return Error{ErrorCode::denied, fmt::format("{}: {}", path, std::strerror(errno))};
  // running() holds a shared lock for an instant, so one failed attempt does not prove that the job runs.
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return Nothing{};
    ::usleep(kLockPauseUs);
  }
  return Error{ErrorCode::unavailable, fmt::format("{}: another process runs this job", id_)};
}

bool OfflineStore::running() const {
  const int descriptor = ::open((fs::path(folder_) / (id_ + ".lock")).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  // A shared lock, so that several processes can ask at the same time without seeing each other as the runner.
  const bool held = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0;
  ::close(descriptor);
  return held;
}

// ---- Content ----

Result<OfflineJob> OfflineStore::read() const {
  Statement select(database_,
                   "SELECT model, input, output, format, address, port, rows, input_bytes, input_digest, submitted_ms,"
                   " deadline_ms, state, answered, failed, rows_per_s, updated_ms, message FROM job");
  if (!select.step()) return problem("not a job");
  return OfflineJob{.id = id_,
                    .model = select.text(0),
                    .input = select.text(1),
                    .output = select.text(2),
                    .format = parse_row_format(select.text(3)).value_or(RowFormat::jsonl),
                    .address = select.text(4),
                    .port = static_cast<std::uint16_t>(select.integer(5)),
                    .rows = select.natural(6),
                    .input_bytes = select.natural(7),
                    .input_digest = select.natural(8),
                    .submitted_ms = select.integer(9),
                    .deadline_ms = select.integer(10),
                    .state = parse_job_state(select.text(11)),
                    .answered = select.natural(12),
                    .failed = select.natural(13),
                    .rows_per_s = select.real(14),
                    .updated_ms = select.integer(15),
                    .message = select.text(16)};
}

Result<OfflineState> OfflineStore::record(std::span<const RowResult> results, const OfflineProgress& progress) {
  // IMMEDIATE takes the write lock here, within the busy timeout, so no later statement can fail for want of it.
  TANGRAM_RETURN_IF_ERROR(execute("BEGIN IMMEDIATE"));
  Statement insert(database_, "INSERT OR IGNORE INTO results(row, line, ok, text, id) VALUES(?,?,?,?,?)");
  std::uint64_t answered = 0;
  std::uint64_t failed = 0;
  bool good = true;
  for (const auto& result : results) {
    insert.reset();
    insert.bind(result.number).bind(result.line).bind(std::int64_t{result.ok}).bind_bytes(result.text).bind(result.id);
    good = good && insert.run();
    // A row that had a result already was ignored and must not be counted twice.
    if (sqlite3_changes(database_) > 0) ++(result.ok ? answered : failed);
  }
  Statement update(database_,
                   "UPDATE job SET answered=answered+?, failed=failed+?, rows_per_s=?, updated_ms=? RETURNING state");
  update.bind(answered).bind(failed).bind(progress.rows_per_s).bind(progress.now_ms);
  OfflineState state = OfflineState::open;
  if (update.step()) {
    state = parse_job_state(update.text(0));
  } else {
    good = false;
  }
  // A statement that is still active would make the COMMIT fail.
  update.reset();
  if (good && execute("COMMIT")) return state;
  const Error error = problem("cannot be written");
  static_cast<void>(execute("ROLLBACK"));
  return error;
}

Result<std::vector<bool>> OfflineStore::recorded() const {
  TANGRAM_TRY(const auto job, read());
  std::vector<bool> recorded(job.rows + 1, false);
  Statement select(database_, "SELECT row FROM results");
  while (select.step()) {
    if (select.natural(0) < recorded.size()) recorded[select.natural(0)] = true;
  }
  return recorded;
}

Result<Nothing> OfflineStore::each_result(const std::function<Result<Nothing>(const RowResult&)>& each) const {
  Statement select(database_, "SELECT row, line, ok, text, id FROM results ORDER BY row");
  while (select.step()) {
    auto taken = each({select.natural(0), select.natural(1), select.integer(2) != 0, select.text(3), select.text(4)});
    if (!taken) return taken;
  }
  return Nothing{};
}

// One UPDATE with a condition, so of two processes that change the state only one succeeds.
Result<bool> OfflineStore::change_state(OfflineState from, OfflineState to) {
  Statement update(database_, "UPDATE job SET state=?, message='' WHERE state=?");
  update.bind(to_string(to)).bind(to_string(from));
  if (!update.run()) return problem("cannot be written");
  return sqlite3_changes(database_) > 0;
}

Result<Nothing> OfflineStore::set_message(const std::string& message) {
  Statement update(database_, "UPDATE job SET message=?");
  if (!update.bind(message).run()) return problem("cannot be written");
  return Nothing{};
}

Result<Nothing> OfflineStore::set_server(const std::string& address, std::uint16_t port) {
  Statement update(database_, "UPDATE job SET address=?, port=?");
  if (!update.bind(address).bind(std::int64_t{port}).run()) return problem("cannot be written");
  return Nothing{};
}

// VACUUM writes the smaller database into the log. The checkpoint copies it back and truncates the log, which would
// otherwise keep its size.
void OfflineStore::forget_results() {
  static_cast<void>(execute("DELETE FROM results; VACUUM; PRAGMA wal_checkpoint(TRUNCATE);"));
}

}  // namespace tangram::client
