#include "serve/batch_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace tangram::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kJobSuffix = ".sqlite";
constexpr int kBusyMs = 10'000;  // How long a process waits for another that writes.
constexpr int kJobsMax = 100'000;
constexpr int kLockAttempts = 20;
constexpr unsigned kLockPauseUs = 10'000;

// Answers are kept by the number of their row. With write-ahead logging a commit is one write; the last ones may be
// lost with the power, never with the process, and a lost one is only asked again.
constexpr const char* kTables =
    "PRAGMA journal_mode=WAL;"
    "CREATE TABLE job("
    " model TEXT NOT NULL, input TEXT NOT NULL, output TEXT NOT NULL, format TEXT NOT NULL,"
    " address TEXT NOT NULL, port INTEGER NOT NULL, rows INTEGER NOT NULL, input_bytes INTEGER NOT NULL,"
    " input_digest INTEGER NOT NULL, submitted_ms INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,"
    " state TEXT NOT NULL DEFAULT 'open', answered INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,"
    " rows_per_s REAL NOT NULL DEFAULT 0, updated_ms INTEGER NOT NULL DEFAULT 0, message TEXT NOT NULL DEFAULT '');"
    "CREATE TABLE results(row INTEGER PRIMARY KEY, line INTEGER NOT NULL, ok INTEGER NOT NULL, text BLOB NOT NULL);";

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
  std::string text(int column) const {
    const void* bytes = sqlite3_column_blob(statement_, column);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

// A name that is one file's name wherever it is used.
std::string safe_job_name(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_'; }, '_');
  return name;
}

JobState parse_job_state(std::string_view text) {
  return text == "done" ? JobState::done : text == "cancelled" ? JobState::cancelled : JobState::open;
}

}  // namespace

std::string_view to_string(JobState state) {
  switch (state) {
    case JobState::open: return "open";
    case JobState::done: return "done";
    case JobState::cancelled: return "cancelled";
  }
  return "";
}

// ---- Files ----

JobStore::JobStore(std::string folder, std::string id) : folder_(std::move(folder)), id_(std::move(id)) {}

JobStore::JobStore(JobStore&& other) noexcept
    : folder_(std::move(other.folder_)),
      id_(std::move(other.id_)),
      database_(std::exchange(other.database_, nullptr)),
      lock_(std::exchange(other.lock_, -1)) {}

JobStore::~JobStore() {
  sqlite3_close(database_);
  if (lock_ >= 0) ::close(lock_);
}

std::string JobStore::log_path() const { return (fs::path(folder_) / (id_ + ".log")).string(); }

Error JobStore::problem(std::string_view what) const {
  return {ErrorCode::unavailable, fmt::format("{}/{}{}: {}: {}", folder_, id_, kJobSuffix, what,
                                              database_ == nullptr ? "out of memory" : sqlite3_errmsg(database_))};
}

Result<Nothing> JobStore::execute(const char* sql) const {
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return problem("cannot be changed");
  return Nothing{};
}

Result<Nothing> JobStore::open_file(int flags) {
  const std::string path = (fs::path(folder_) / (id_ + std::string(kJobSuffix))).string();
  if (sqlite3_open_v2(path.c_str(), &database_, flags | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK) {
    return problem("cannot be opened");
  }
  sqlite3_busy_timeout(database_, kBusyMs);
  return execute("PRAGMA synchronous=NORMAL;");
}

// The job is made under another name and takes its own when it is whole, so that a kill leaves no half of one. Its
// number is the first whose name is free; taking it by a link, which never replaces, settles a race of two.
Result<JobStore> JobStore::create(const std::string& folder, Job job) {
  std::error_code error;
  fs::create_directories(folder, error);
  const std::string making = fmt::format(".making-{}", ::getpid());
  const fs::path from = fs::path(folder) / (making + std::string(kJobSuffix));
  fs::remove(from, error);
  {
    JobStore store(folder, making);
    if (auto opened = store.open_file(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE); !opened) return opened.error();
    if (auto made = store.make_tables(job); !made) return made.error();
  }
  for (int number = 1; number <= kJobsMax; ++number) {
    const std::string id = fmt::format("{}-{}", safe_job_name(job.model), number);
    const fs::path to = fs::path(folder) / (id + std::string(kJobSuffix));
    if (::link(from.c_str(), to.c_str()) != 0) {
      if (errno == EEXIST) continue;
      const Error failed{ErrorCode::denied, fmt::format("{}: {}", to.string(), std::strerror(errno))};
      fs::remove(from, error);
      return failed;
    }
    fs::remove(from, error);
    return open(folder, id);
  }
  return Error{ErrorCode::exhausted, fmt::format("{}: more than {} jobs; remove some", folder, kJobsMax)};
}

Result<JobStore> JobStore::open(const std::string& folder, const std::string& id) {
  std::error_code error;
  if (safe_job_name(id) != id || !fs::exists(fs::path(folder) / (id + std::string(kJobSuffix)), error)) {
    return Error{ErrorCode::not_found,
                 fmt::format("{}: no such job in {}; `tangram batch status` lists them", id, folder)};
  }
  JobStore store(folder, id);
  if (auto opened = store.open_file(SQLITE_OPEN_READWRITE); !opened) return opened.error();
  return store;
}

std::vector<std::string> JobStore::list(const std::string& folder) {
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

Result<Nothing> JobStore::make_tables(const Job& job) {
  if (auto made = execute(kTables); !made) return made;
  Statement insert(database_,
                   "INSERT INTO job(model, input, output, format, address, port, rows, input_bytes, input_digest,"
                   " submitted_ms, deadline_ms, updated_ms) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)");
  insert.bind(job.model).bind(job.input).bind(job.output).bind(to_string(job.format)).bind(job.address);
  insert.bind(std::int64_t{job.port}).bind(job.rows).bind(job.input_bytes).bind(job.input_digest);
  insert.bind(job.submitted_ms).bind(job.deadline_ms).bind(job.submitted_ms);
  if (!insert.run()) return problem("cannot be written");
  return Nothing{};
}

Result<Nothing> JobStore::lock() {
  const std::string path = (fs::path(folder_) / (id_ + ".lock")).string();
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) return Error{ErrorCode::denied, fmt::format("{}: {}", path, std::strerror(errno))};
  // Whoever asks for the job's state holds the lock for an instant.
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return Nothing{};
    ::usleep(kLockPauseUs);
  }
  return Error{ErrorCode::unavailable, fmt::format("{}: another process runs this job", id_)};
}

bool JobStore::running() const {
  const int descriptor = ::open((fs::path(folder_) / (id_ + ".lock")).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool held = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0;
  ::close(descriptor);
  return held;
}

// ---- Content ----

Result<Job> JobStore::read() const {
  Statement select(database_,
                   "SELECT model, input, output, format, address, port, rows, input_bytes, input_digest, submitted_ms,"
                   " deadline_ms, state, answered, failed, rows_per_s, updated_ms, message FROM job");
  if (!select.step()) return problem("not a job");
  return Job{.id = id_,
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

Result<JobState> JobStore::record(std::span<const RowResult> results, const JobProgress& progress) {
  if (auto begun = execute("BEGIN IMMEDIATE"); !begun) return begun.error();
  Statement insert(database_, "INSERT OR IGNORE INTO results(row, line, ok, text) VALUES(?,?,?,?)");
  std::uint64_t answered = 0;
  std::uint64_t failed = 0;
  bool good = true;
  for (const auto& result : results) {
    insert.reset();
    insert.bind(result.number).bind(result.line).bind(std::int64_t{result.ok}).bind_bytes(result.text);
    good = good && insert.run();
    if (sqlite3_changes(database_) > 0) ++(result.ok ? answered : failed);
  }
  Statement update(database_,
                   "UPDATE job SET answered=answered+?, failed=failed+?, rows_per_s=?, updated_ms=? RETURNING state");
  update.bind(answered).bind(failed).bind(progress.rows_per_s).bind(progress.now_ms);
  JobState state = JobState::open;
  if (update.step()) {
    state = parse_job_state(update.text(0));
  } else {
    good = false;
  }
  update.reset();
  if (good && execute("COMMIT")) return state;
  const Error error = problem("cannot be written");
  static_cast<void>(execute("ROLLBACK"));
  return error;
}

Result<std::vector<bool>> JobStore::recorded() const {
  const auto job = read();
  if (!job) return job.error();
  std::vector<bool> recorded(job->rows + 1, false);
  Statement select(database_, "SELECT row FROM results");
  while (select.step()) {
    if (select.natural(0) < recorded.size()) recorded[select.natural(0)] = true;
  }
  return recorded;
}

Result<Nothing> JobStore::each_result(const std::function<Result<Nothing>(const RowResult&)>& each) const {
  Statement select(database_, "SELECT row, line, ok, text FROM results ORDER BY row");
  while (select.step()) {
    auto taken = each({select.natural(0), select.natural(1), select.integer(2) != 0, select.text(3)});
    if (!taken) return taken;
  }
  return Nothing{};
}

Result<bool> JobStore::change_state(JobState from, JobState to) {
  Statement update(database_, "UPDATE job SET state=?, message='' WHERE state=?");
  update.bind(to_string(to)).bind(to_string(from));
  if (!update.run()) return problem("cannot be written");
  return sqlite3_changes(database_) > 0;
}

Result<Nothing> JobStore::set_message(const std::string& message) {
  Statement update(database_, "UPDATE job SET message=?");
  if (!update.bind(message).run()) return problem("cannot be written");
  return Nothing{};
}

Result<Nothing> JobStore::set_server(const std::string& address, std::uint16_t port) {
  Statement update(database_, "UPDATE job SET address=?, port=?");
  if (!update.bind(address).bind(std::int64_t{port}).run()) return problem("cannot be written");
  return Nothing{};
}

void JobStore::forget_results() { static_cast<void>(execute("DELETE FROM results; VACUUM;")); }

}  // namespace tangram::serve
