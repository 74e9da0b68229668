#include "node/digests.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "host/descriptor.h"

namespace tangram::node {
namespace {

constexpr std::size_t kHashedTogether = 1 << 20;

struct DigestFree {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

class RunningDigest {
 public:
  RunningDigest() : context_(EVP_MD_CTX_new()) {
    TANGRAM_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "SHA-256 is always there");
  }
  void add(const void* bytes, std::size_t count) { EVP_DigestUpdate(context_.get(), bytes, count); }
  std::string end() {
    std::array<unsigned char, 32> digest{};
    EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr);
    std::string text;
    for (const auto byte : digest) text += fmt::format("{:02x}", byte);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, DigestFree> context_;
};

// The regular files of the weights, by name.
std::vector<std::filesystem::path> files_of(const std::string& path) {
  std::error_code problem;
  const std::filesystem::path stem(path);
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_regular_file(stem, problem)) files.push_back(stem);
  const std::string begin = stem.filename().string() + ".";
  for (std::filesystem::directory_iterator entry(stem.parent_path(), problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(begin) && entry->is_regular_file(problem)) files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

std::string stamp_of(const std::vector<std::filesystem::path>& files) {
  std::string stamp;
  for (const auto& file : files) {
    struct stat found {};
    if (stat(file.c_str(), &found) != 0) continue;
    stamp += fmt::format("{} {}.{} {}\n", file.filename().string(), found.st_mtim.tv_sec, found.st_mtim.tv_nsec,
                         found.st_size);
  }
  return stamp;
}

// A file that cannot be read has the digest of an empty one with the reason: it equals no other.
std::string digest_of_file(const std::filesystem::path& file) {
  RunningDigest digest;
  const host::Descriptor in(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in.open()) return fmt::format("unreadable ({})", errno);
  std::vector<char> buffer(kHashedTogether);
  while (true) {
    const ssize_t got = read(in.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fmt::format("unreadable ({})", errno);
    if (got == 0) return digest.end();
    digest.add(buffer.data(), static_cast<std::size_t>(got));
  }
}

std::string digest_of_files(const std::vector<std::filesystem::path>& files) {
  if (files.empty()) return {};
  if (files.size() == 1) return digest_of_file(files.front());
  RunningDigest all;
  for (const auto& file : files) {
    const std::string line = file.filename().string() + " " + digest_of_file(file) + "\n";
    all.add(line.data(), line.size());
  }
  return all.end();
}

}  // namespace

ModelDigests::ModelDigests(std::function<void()> wake) : wake_(std::move(wake)), thread_([this] { run(); }) {}

ModelDigests::~ModelDigests() {
  {
    const host::MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::optional<std::string> ModelDigests::find(const std::string& path) {
  const std::string stamp = stamp_of(files_of(path));
  if (stamp.empty()) return std::string();
  const host::MutexLock lock(mutex_);
  const auto known = known_.find(path);
  if (known != known_.end() && known->second.stamp == stamp) return known->second.digest;
  if (auto& asked = asked_[path]; asked != stamp) {
    asked = stamp;
    queue_.push_back(path);
    changed_.notify_all();
  }
  return std::nullopt;
}

void ModelDigests::run() {
  while (true) {
    std::string path;
    {
      const host::MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) changed_.wait(mutex_);
      if (stopping_) return;
      path = queue_.front();
      queue_.pop_front();
    }
    const auto files = files_of(path);
    Known known{stamp_of(files), digest_of_files(files)};
    {
      const host::MutexLock lock(mutex_);
      known_[path] = std::move(known);
      asked_.erase(path);
    }
    wake_();
  }
}

}  // namespace tangram::node
