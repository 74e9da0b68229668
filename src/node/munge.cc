#include "node/munge.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/text.h"
#include "host/descriptor.h"

extern char** environ;

namespace tangram::node {
namespace {

constexpr std::size_t kMungeOutputMax = 64 << 10;
constexpr auto kMungeTimeMax = std::chrono::seconds(3);

std::string find_program(const char* name) {
  for (const char* folder : {"/usr/bin/", "/usr/local/bin/", "/bin/"}) {
    const std::string path = std::string(folder) + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

struct Finished {
  int code = -1;
  std::string out;
};

// Runs a program with `input`, and takes what it writes. The input is smaller than a pipe holds, so that writing it
// does not wait.
Result<Finished> run_program(const std::string& path, const std::vector<std::string>& arguments,
                             const std::string& input) {
  if (path.empty()) return Error{ErrorCode::not_found, "munge is not installed"};
  int in[2];
  int out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return Error{ErrorCode::unavailable, std::strerror(errno)};
  host::Descriptor in_read(in[0]);
  host::Descriptor in_write(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0) return Error{ErrorCode::unavailable, std::strerror(errno)};
  host::Descriptor out_read(out[0]);
  host::Descriptor out_write(out[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in_read.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, out_write.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, out_write.get(), 2);
  std::vector<char*> words{const_cast<char*>(path.c_str())};
  for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_t process = -1;
  const int failed = posix_spawn(&process, path.c_str(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Error{ErrorCode::unavailable, fmt::format("{}: {}", path, std::strerror(failed))};
  in_read.reset();
  out_write.reset();
  host::write_all(in_write.get(), input);
  in_write.reset();
  Finished finished;
  const auto until = std::chrono::steady_clock::now() + kMungeTimeMax;
  std::array<char, 4096> buffer;
  while (true) {
    const auto left = until - std::chrono::steady_clock::now();
    pollfd waits{out_read.get(), POLLIN, 0};
    const int ready = poll(&waits, 1, static_cast<int>(std::max<std::int64_t>(0, left / std::chrono::milliseconds(1))));
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t got = ready > 0 ? read(out_read.get(), buffer.data(), buffer.size()) : -1;
    if (got <= 0 || finished.out.size() > kMungeOutputMax) {
      if (got != 0) kill(process, SIGKILL);
      break;
    }
    finished.out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return finished;
}

}  // namespace

bool has_munge() { return !find_program("munge").empty() && !find_program("unmunge").empty(); }

Result<std::string> make_munge(const std::string& payload) {
  TANGRAM_TRY(auto finished, run_program(find_program("munge"), {"--no-output-newline", "--string", payload}, ""));
  std::string credential(text::trim(finished.out));
  if (finished.code != 0 || !credential.starts_with("MUNGE:")) {
    return Error{ErrorCode::unavailable, "munge: " + (credential.empty() ? "it gives no credential" : credential)};
  }
  return credential;
}

Result<MungeSays> read_munge(const std::string& credential) {
  if (!credential.starts_with("MUNGE:") || credential.size() > (32 << 10)) {
    return Error{ErrorCode::denied, "this is not a credential of MUNGE"};
  }
  TANGRAM_TRY(const auto finished,
              run_program(find_program("unmunge"), {"--numeric", "--keys", "STATUS,UID", "--metadata", "-", "--output", "-"},
                          credential));
  // "STATUS: Success (0)\nUID: 1000\n\nPAYLOAD"
  const auto blank = finished.out.find("\n\n");
  const auto uid_at = finished.out.find("UID:");
  if (finished.code != 0 || blank == std::string::npos || uid_at == std::string::npos || uid_at > blank) {
    const auto why = text::trim(std::string_view(finished.out).substr(0, 200));
    return Error{ErrorCode::denied, fmt::format("the credential of MUNGE is not good: {}", why)};
  }
  const std::string line = finished.out.substr(uid_at + 4, finished.out.find('\n', uid_at) - uid_at - 4);
  const auto user = text::parse_integer(text::trim(line));
  if (!user || *user < 0) return Error{ErrorCode::denied, "unmunge names no user"};
  return MungeSays{static_cast<uid_t>(*user), std::string(text::trim(std::string_view(finished.out).substr(blank + 2)))};
}

Result<Nothing> check_munge(const std::string& credential, const std::string& payload, const std::vector<uid_t>& users) {
  if (credential.empty()) return Error{ErrorCode::denied, "there is none"};
  TANGRAM_TRY(const auto says, read_munge(credential));
  if (says.payload != payload) return Error{ErrorCode::denied, "it is for another certificate"};
  const bool good =
      says.user == geteuid() || says.user == 0 || std::ranges::find(users, says.user) != users.end();
  if (!good) return Error{ErrorCode::denied, fmt::format("it is of user {}", says.user)};
  return Nothing{};
}

}  // namespace tangram::node
