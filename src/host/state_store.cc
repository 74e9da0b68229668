#include "host/state_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace tangram::host {
namespace {

namespace fs = std::filesystem;

// A statement that is finalised on every path.
struct Finalizer {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalizer>;

Statement prepare(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(database, sql, -1, &statement, nullptr);
  return Statement(statement);
}

void bind(const Statement& statement, int index, const std::string& text) {
  sqlite3_bind_text(statement.get(), index, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

}  // namespace

void StateStore::Closer::operator()(sqlite3* database) const { sqlite3_close(database); }

Error StateStore::problem(const char* what) const {
  return {ErrorCode::denied, fmt::format("{}: {}: {}", path_, what, sqlite3_errmsg(database_.get()))};
}

Result<std::optional<StateStore>> StateStore::open(const std::string& folder) {
  std::error_code error;
  // Permissions change only on a folder that this call made; an existing one belongs to the user.
  if (fs::create_directories(folder, error)) fs::permissions(folder, fs::perms::owner_all, error);
  const std::string lock_path = (fs::path(folder) / "gateway.lock").string();
  Descriptor lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.get() < 0) {
    return Error{ErrorCode::denied, fmt::format("{}: cannot be opened: {}", lock_path, std::strerror(errno))};
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return std::optional<StateStore>{};
  StateStore store(std::move(lock), (fs::path(folder) / "gateway.db").string());
  sqlite3* database = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  const int opened = sqlite3_open_v2(store.path_.c_str(), &database, flags, nullptr);
  store.database_.reset(database);
  if (opened != SQLITE_OK) return store.problem("cannot be opened");
  constexpr const char* kTables =
      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
      "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, text TEXT NOT NULL)";
  if (sqlite3_exec(database, kTables, nullptr, nullptr, nullptr) != SQLITE_OK) return store.problem("cannot be used");
  return std::optional(std::move(store));
}

Result<std::optional<std::string>> StateStore::read(const std::string& name) const {
  const Statement statement = prepare(database_.get(), "SELECT text FROM state WHERE name = ?");
  if (statement == nullptr) return problem("cannot be read");
  bind(statement, 1, name);
  const int found = sqlite3_step(statement.get());
  if (found == SQLITE_DONE) return std::optional<std::string>{};
  if (found != SQLITE_ROW) return problem("cannot be read");
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 0));
  const auto bytes = static_cast<std::size_t>(sqlite3_column_bytes(statement.get(), 0));
  return std::optional(std::string(text, bytes));
}

// A file that was deleted can still be written, and nobody would ever read it again. Another file of this name belongs
// to somebody else.
bool StateStore::still_there() const {
  struct stat by_name {};
  struct stat locked {};
  return ::stat(lock_path().c_str(), &by_name) == 0 && ::fstat(lock_.get(), &locked) == 0 &&
         by_name.st_ino == locked.st_ino && by_name.st_dev == locked.st_dev && ::access(path_.c_str(), F_OK) == 0;
}

std::string StateStore::lock_path() const { return (fs::path(path_).parent_path() / "gateway.lock").string(); }

Result<Nothing> StateStore::write(const std::map<std::string, std::string>& texts) {
  if (!still_there()) {
    return Error{ErrorCode::not_found,
                 fmt::format("{} was deleted or replaced while the server runs: nothing is remembered until it is "
                             "started again",
                             fs::path(path_).parent_path().string())};
  }
  if (sqlite3_exec(database_.get(), "BEGIN", nullptr, nullptr, nullptr) != SQLITE_OK) {
    return problem("cannot be changed");
  }
  for (const auto& [name, text] : texts) {
    const Statement statement = prepare(database_.get(), "INSERT OR REPLACE INTO state VALUES (?, ?)");
    if (statement != nullptr) {
      bind(statement, 1, name);
      bind(statement, 2, text);
    }
    if (statement != nullptr && sqlite3_step(statement.get()) == SQLITE_DONE) continue;
    const Error error = problem("cannot be changed");
    sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    return error;
  }
  if (sqlite3_exec(database_.get(), "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK) {
    return problem("cannot be changed");
  }
  return Nothing{};
}

}  // namespace tangram::host
